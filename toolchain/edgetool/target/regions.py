"""What a profile may say of memory: regions, their speed, and where an arena may lie."""

from __future__ import annotations

from typing import get_args

from edgetool.target.quantity import format_size, parse_size
from edgetool.target.schema import Section
from edgetool.target.types import ARENA_KINDS, MemoryRegion, RegionKind

KINDS: tuple[RegionKind, ...] = get_args(RegionKind)
MODEL_KINDS: tuple[RegionKind, ...] = ("flash", "external-flash")
# A region below 1 KiB is a forgotten unit; above the upper bounds no microcontroller of today.
ON_CHIP_RANGE_BYTES = (2**10, 2**26)
EXTERNAL_RANGE_BYTES = (2**10, 2**32)
CACHE_RANGE_BYTES = (16, 2**24)
WAIT_STATES_RANGE = (0.0, 1000.0)
ACCESS_RANGE_BYTES = (1, 64)
COLD_RANGE = (0, 10**7)  # cycles
STALL_RANGE = (0.0, 1000.0)  # cycles per byte; QSPI in single-bit mode stays below


def read_regions(section: Section) -> tuple[MemoryRegion, ...]:
    """The [[region]] tables: at least RAM for an arena and flash for a model; problems are noted in the section."""
    regions: list[MemoryRegion] = []
    for item in section.sections("region"):
        region = _region(item)
        item.finish()
        for other in regions:
            if region.name and region.name == other.name:
                item.note("name", f"there are two regions with the name {region.name!r}")
            elif _overlap(region, other):
                item.note("base", f"the regions {other.name!r} and {region.name!r} overlap")
        regions.append(region)
    kinds = {region.kind for region in regions}
    if not kinds & set(ARENA_KINDS):
        section.note("region", "there is no RAM for an arena", 'add a [[region]] of kind "sram"')
    if not kinds & set(MODEL_KINDS):
        section.note("region", "there is no flash", 'add a [[region]] of kind "flash" or "external-flash"')
    return tuple(regions)


def refuse_regions(section: Section) -> None:
    """Note regions of a device that is described by its bandwidth alone."""
    for key in ("region", "arena_region", "timing"):
        section.taken.add(key)
        if section.has(key):
            section.note(key, "cannot be used for a device that is described by its bandwidth", "remove one of the two")


def read_arena_region(section: Section, regions: tuple[MemoryRegion, ...]) -> str | None:
    """The region that the profile names for the arena; a board without on-chip RAM must name one."""
    candidates = [region.name for region in regions if region.kind in ARENA_KINDS]
    if section.has("arena_region"):
        return section.choice("arena_region", candidates)
    if candidates and not any(region.kind == "sram" for region in regions):
        section.note("arena_region", "is missing: the only RAM is external", f"use one of {', '.join(candidates)}")
    section.taken.add("arena_region")
    return None


def region_figures(region: MemoryRegion) -> tuple[str, ...]:
    """What a source can speak for: the region itself (size and address), and each key of its speed."""
    given = (
        ("wait_states", region.wait_states),
        ("access_bytes", region.access_bytes),
        ("cache", region.cache_bytes or None),
        ("stall_cycles_per_byte", region.stall_cycles_per_byte),
    )
    return (region.name, *(f"{region.name}.{key}" for key, value in given if value is not None))


def _region(item: Section) -> MemoryRegion:
    word = item.choice("kind", KINDS)
    kind = next((known for known in KINDS if known == word), KINDS[0])
    limits = EXTERNAL_RANGE_BYTES if kind.startswith("external-") else ON_CHIP_RANGE_BYTES
    return MemoryRegion(
        name=item.name("name"),
        kind=kind,
        size_bytes=item.quantity("size", parse_size, format_size, *limits) or limits[0],
        base_address=item.address("base"),
        note=item.text("note", required=False),
        wait_states=item.number("wait_states", *WAIT_STATES_RANGE),
        access_bytes=item.integer("access_bytes", *ACCESS_RANGE_BYTES) if item.has("access_bytes") else None,
        cache_bytes=item.quantity("cache", parse_size, format_size, *CACHE_RANGE_BYTES, required=False) or 0,
        stall_cycles_per_byte=item.number("stall_cycles_per_byte", *STALL_RANGE),
        cold_cycles=item.integer("cold_cycles", *COLD_RANGE) if item.has("cold_cycles") else None,
    )


def _overlap(a: MemoryRegion, b: MemoryRegion) -> bool:
    if a.base_address is None or b.base_address is None:
        return False
    return a.base_address < b.base_address + b.size_bytes and b.base_address < a.base_address + a.size_bytes
