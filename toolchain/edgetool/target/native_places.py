"""Which memories of a board can hold what native code needs: "arena=dtcm+axi-sram,constants=flash,image=sdram".

The arena may be in several memories, of which each of its buffers is in one: without a restriction, in any RAM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgetool.errors import TargetError, UsageError, did_you_mean
from edgetool.target.places import AUTO, FLASH_KINDS, OPTION, split_code
from edgetool.target.types import ARENA_KINDS, Core, MemoryRegion, RegionKind, Target

ARENA, CONSTANTS, DMA, MINIMIZE = "arena", "constants", "dma", "minimize"
EXAMPLE = (
    "use auto, or items such as arena=NAME+NAME, constants=NAME, code=NAME, dma=NAME, minimize=NAME and TENSOR=NAME, "
    "separated by commas"
)

# What holds on native code what a part holds on TFLM.
INSTEAD_OF = {"head": ARENA, "tail": ARENA, "model": CONSTANTS}


@dataclass(frozen=True, slots=True)
class NativePlaces:
    """The memories of the arena, the usual one first, and that of the constants, None if the flash is unknown.

    tensors: the memories of some tensors, by name. minimized: the memory of which buffers shall take the fewest bytes;
    None to minimize the time. dma: the memories to which the firmware copies constants with DMA; nothing if the core
    copies. code: the memory of the kernels, None for that of all code. core: whose data cache does not see what DMA
    writes.
    """

    arena: tuple[MemoryRegion, ...]
    constants: MemoryRegion | None
    tensors: Mapping[str, tuple[MemoryRegion, ...]]
    core: Core
    minimized: MemoryRegion | None = None
    dma: tuple[MemoryRegion, ...] = ()
    code: MemoryRegion | None = None


def read_native_places(text: str, target: Target) -> NativePlaces:
    """Return the memories that a text names.

    Raises:
        UsageError: The text has another form, or something twice.
        TargetError: The target has no such memory, or it cannot hold the part.
    """
    names: dict[str, str] = {}
    text, code = split_code(text, target)
    for item in text.split(","):
        if item.strip() == AUTO:
            continue
        key, separator, value = (word.strip() for word in item.rpartition("="))
        if not separator or not key or not value:
            raise UsageError(f"{item.strip()[:80]!r} is not a placement", where=OPTION, fix=EXAMPLE)
        if key in names:
            raise UsageError(f"{key[:80]} is placed twice", where=OPTION, fix=EXAMPLE)
        names[key] = value
    usual = target.arena_region
    rams = sorted((r for r in target.regions if r.kind in ARENA_KINDS), key=lambda r: (r.kind != "sram", r != usual))
    if not rams:
        raise TargetError(f"{target.name} has no memory for the arena", where=OPTION, fix="specify a board")
    regions = {key: _regions(key, value, target) for key, value in names.items()}
    for key in (CONSTANTS, MINIMIZE):
        if len(regions.get(key, ())) > 1:
            raise UsageError(f"{key} names several memories", where=OPTION, fix="name one of them")
    chosen = regions.pop(ARENA, ())
    arena = tuple(region for region in rams if not chosen or region in chosen)
    constants, minimized = regions.pop(CONSTANTS, (target.flash_region,))[0], regions.pop(MINIMIZE, (None,))[0]
    if minimized is not None and minimized not in arena:
        raise UsageError(f"{minimized.name} does not hold the arena", where=OPTION, fix=f"add it to {ARENA}")
    if DMA in regions and minimized is not None:
        raise UsageError(
            f"{DMA} copies constants, and {MINIMIZE} makes no copies", where=OPTION, fix=f"omit {DMA} or {MINIMIZE}"
        )
    for region in regions.get(DMA, ()):
        if region.kind == "external-ram":
            raise UsageError(
                f"constants are not copied to {region.name}, which is outside the chip",
                where=OPTION,
                fix=f"name on-chip memories with {DMA}",
            )
    for key, allowed in regions.items():
        outside = [region.name for region in allowed if region not in arena]
        if outside:
            raise UsageError(f"{key[:80]} cannot be in {outside[0]}, where the arena is not", where=OPTION, fix=EXAMPLE)
    dma = regions.pop(DMA, ())
    return NativePlaces(arena, constants, regions, target.core, minimized, dma, code)


def unknown_tensor(name: str, tensors: Sequence[str]) -> UsageError:
    """Return the error for an item that names no tensor with a memory of its own."""
    if name in INSTEAD_OF:
        return UsageError(
            f"native code has no {name}, which is a part on TFLM",
            where=OPTION,
            fix=f"use {INSTEAD_OF[name]}=NAME, or one of TFLM's runtimes",
        )
    return UsageError(
        f"no buffer of the arena is the tensor {name[:80]!r}",
        where=OPTION,
        fix=did_you_mean(name, tensors)
        or f"use {ARENA}, {CONSTANTS}, or the name of a tensor that is not a view or a constant",
    )


def _regions(key: str, value: str, target: Target) -> tuple[MemoryRegion, ...]:
    kinds: Sequence[RegionKind] = FLASH_KINDS if key == CONSTANTS else ARENA_KINDS
    candidates = [region.name for region in target.regions if region.kind in kinds]
    regions = []
    for name in dict.fromkeys(word.strip() for word in value.split("+")):
        region = next((region for region in target.regions if region.name == name), None)
        if region is None:
            raise TargetError(
                f"there is no region {name[:80]!r}",
                where=target.name,
                fix=did_you_mean(name, candidates) or f"use one of {', '.join(candidates)}",
            )
        if name not in candidates:
            raise TargetError(
                f"{key[:80]} cannot be in {name}, which is {region.kind}",
                where=target.name,
                fix=f"use {INSTEAD_OF[key]}=NAME for native code"
                if key in INSTEAD_OF
                else f"use one of {', '.join(candidates)}",
            )
        regions.append(region)
    return tuple(regions)
