"""A target with what the command line knows better."""

from __future__ import annotations

from dataclasses import replace

from edgetool.errors import TargetError
from edgetool.target.load import load_runtime
from edgetool.target.profile import CLOCK_RANGE_HZ, SIZE_RANGE_BYTES, require_abi
from edgetool.target.quantity import format_clock, format_size
from edgetool.target.schema import did_you_mean
from edgetool.target.timing import KERNELS
from edgetool.target.types import ARENA_KINDS, MemoryRegion, RegionKind, Target

CLOCK_GIVEN = "specified by the user"


def overridden(
    target: Target,
    *,
    sram_bytes: int | None,
    flash_bytes: int | None,
    clock_hz: int | None,
    arena_region: str | None,
    kernels: str | None,
    runtime: str | None,
) -> Target:
    """The target with each value that is not None; see Target.with_overrides."""
    if clock_hz is not None:
        low, high = CLOCK_RANGE_HZ
        if not low <= clock_hz <= high:
            raise TargetError(
                f"a clock of {clock_hz} Hz is outside the range {format_clock(low)} to {format_clock(high)}",
                where=target.name,
                fix="specify the unit with the number, as in 480MHz",
            )
        target = replace(target, clock_hz=clock_hz, clock_source=CLOCK_GIVEN)
        target = _without_source(target, "clock")
    if arena_region is not None:
        target = _with_arena_in(target, _arena_region(target, arena_region))
    if sram_bytes is not None:
        target = _resized(target, target.arena_region, "sram", sram_bytes)
    if flash_bytes is not None:
        target = _resized(target, target.flash_region, "flash", flash_bytes)
    if kernels is not None:
        known = next((word for word in KERNELS if word == kernels), None)
        if known is None:
            raise TargetError(f"unknown kernels {kernels!r}", where=target.name, fix=f"use {' or '.join(KERNELS)}")
        target = replace(target, kernels=known, usual_kernels=None)  # the user has chosen
    if runtime is not None:
        target = replace(target, runtime=load_runtime(runtime))
        require_abi(target.core, target.runtime, where=f"{target.name}: runtime")
    return target


def _arena_region(target: Target, name: str) -> str:
    candidates = [region for region in target.regions if region.kind in ARENA_KINDS]
    if not candidates:
        raise TargetError(
            f"{target.name} has no memory regions", where="--arena-region", fix="use --sram, or specify a board"
        )
    for region in target.regions:
        if region.name == name:
            if region in candidates:
                return name
            raise TargetError(
                f"the arena cannot be placed in {name}, which is {region.kind}",
                where=target.name,
                fix=f"use one of {', '.join(r.name for r in candidates)}",
            )
    names = [region.name for region in candidates]
    raise TargetError(
        f"there is no region {name!r}",
        where=target.name,
        fix=did_you_mean(name, names) or f"use one of {', '.join(names)}",
    )


def _with_arena_in(target: Target, name: str) -> Target:
    """The target with its arena in that region; with it in another kind of memory, its timings were not measured."""
    before, moved = target.arena_region, replace(target, arena_region_name=name)
    after = moved.arena_region
    if before is None or after is None or before.kind == after.kind:
        return moved
    timings = (replace(t, status="extrapolated") if t.status == "calibrated" else t for t in target.timings)
    return replace(moved, timings=tuple(timings))


def _resized(target: Target, region: MemoryRegion | None, kind: RegionKind, size_bytes: int) -> Target:
    """The target with a region of another size, or with a new one where there was none."""
    low, high = SIZE_RANGE_BYTES
    if not low <= size_bytes <= high:
        raise TargetError(
            f"{size_bytes} bytes of {kind} is outside the range {format_size(low)} to {format_size(high)}",
            where=target.name,
            fix="specify the unit with the number, as in 256KiB",
        )
    if region is None:
        added = MemoryRegion(kind, kind, size_bytes, note="specified by the user")
        return replace(target, regions=(*target.regions, added))
    changed = replace(region, size_bytes=size_bytes, note="size specified by the user")
    regions = tuple(changed if r.name == region.name else r for r in target.regions)
    resized = replace(target, regions=regions, arena_region_name=target.arena_region_name)
    if kind == "sram":  # smaller than a sibling, it must stay the arena's region
        resized = replace(resized, arena_region_name=region.name)
    return _without_source(resized, region.name)


def _without_source(target: Target, figure: str) -> Target:
    """The target whose sources no longer speak for a figure that the user gave."""
    sources = (replace(source, covers=tuple(c for c in source.covers if c != figure)) for source in target.sources)
    return replace(target, sources=tuple(source for source in sources if source.covers))
