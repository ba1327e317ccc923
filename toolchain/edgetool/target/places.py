"""Which memories of a board hold the head, the tail and the model on TFLM: "head=dtcm,tail=axi-sram,model=flash".

Head and tail are then separate arenas (MicroAllocator::Create with a persistent and a non-persistent arena).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from edgetool.errors import TargetError, UsageError, did_you_mean
from edgetool.target.load import with_memories
from edgetool.target.types import ARENA_KINDS, MemoryRegion, RegionKind, Target

Part = Literal["head", "tail", "model"]

FLASH_KINDS: tuple[RegionKind, ...] = ("flash", "external-flash")
# The kinds of region that can hold a part. A model in RAM is a copy that the firmware makes before it starts TFLM.
KINDS: Mapping[Part, tuple[RegionKind, ...]] = {
    "head": ARENA_KINDS,
    "tail": ARENA_KINDS,
    "model": (*FLASH_KINDS, *ARENA_KINDS),
}
AUTO = "auto"
OPTION = "--place"
EXAMPLE = "use the form head=NAME,tail=NAME,model=NAME, where model may be omitted, or auto"
# Where the operators' code can be executed. It is an item of both runtimes; a copy in RAM is made by the start-up code.
CODE = "code"
CODE_KINDS: tuple[RegionKind, ...] = ("itcm", "sram", *FLASH_KINDS, "external-ram")
# What only native code has (native_places.py).
OF_NATIVE_CODE = ("arena", "constants", "dma", "minimize")


@dataclass(frozen=True, slots=True)
class Places:
    """The memories of the parts; model is None if the board's flash is unknown and no memory was named for it."""

    head: MemoryRegion
    tail: MemoryRegion
    model: MemoryRegion | None

    @property
    def by_part(self) -> dict[Part, MemoryRegion]:
        """The memories that are known, by part."""
        return {"head": self.head, "tail": self.tail, **({} if self.model is None else {"model": self.model})}

    @property
    def text(self) -> str:
        """The form that read_places accepts."""
        return ",".join(f"{part}={region.name}" for part, region in self.by_part.items())

    @property
    def copies_model(self) -> bool:
        """Whether the model is a copy in RAM of the one in flash."""
        return self.model is not None and self.model.kind in ARENA_KINDS

    def on(self, target: Target) -> Target:
        """Return the target with the head as its arena and with the model in these memories."""
        return with_memories(target, arena=self.head.name, model=None if self.model is None else self.model.name)


def read_places(text: str, target: Target) -> Places:
    """Return the memories that a text names; without a name, the model is in the target's flash.

    Raises:
        UsageError: The text has another form, a part twice, or no head or tail.
        TargetError: The target has no such memory, or it cannot hold the part.
    """
    names: dict[Part, str] = {}
    parts: dict[str, Part] = {part: part for part in KINDS}
    items = [item.strip() for item in text.split(",")]
    for key in (item.partition("=")[0].strip() for item in items):
        if key in OF_NATIVE_CODE:
            raise UsageError(
                f"{key} is for native code, and TFLM has a head, a tail and a model",
                where=OPTION,
                fix=f"add --runtime native, or {EXAMPLE}",
            )
    if AUTO in items:
        raise UsageError("auto chooses all memories, so that nothing can be added to it", where=OPTION, fix=EXAMPLE)
    for item in items:
        key, separator, name = (word.strip() for word in item.partition("="))
        if not separator or not name or key not in parts:
            raise UsageError(f"{item.strip()[:80]!r} is not a placement", where=OPTION, fix=EXAMPLE)
        if parts[key] in names:
            raise UsageError(f"{key} is placed twice", where=OPTION, fix=EXAMPLE)
        names[parts[key]] = name
    for part in ("head", "tail"):
        if part not in names:
            raise UsageError(f"there is no memory for the {part}", where=OPTION, fix=EXAMPLE)
    regions = {part: _region(part, name, target, KINDS[part]) for part, name in names.items()}
    return Places(regions["head"], regions["tail"], regions.get("model", target.flash_region))


def apart(text: str | None, target: Target) -> tuple[MemoryRegion, MemoryRegion] | None:
    """Return the memories of head and tail if a placement names different ones; None if it does not, or is "auto".

    Raises what split_code and read_places raise.
    """
    rest, _ = split_code(text or AUTO, target)
    if rest == AUTO:
        return None
    places = read_places(rest, target)
    return None if places.head.name == places.tail.name else (places.head, places.tail)


def split_code(text: str, target: Target) -> tuple[str, MemoryRegion | None]:
    """Return a placement without the memory of the operators' code, and that memory; None if it is not placed.

    If nothing else is placed, the rest is "auto".

    Raises:
        UsageError: The code is placed twice, or nowhere.
        TargetError: The target has no such memory.
    """
    items = text.split(",")
    names = [item.partition("=")[2].strip() for item in items if item.partition("=")[0].strip() == CODE]
    if not names:
        return text, None
    if len(names) > 1 or not names[0]:
        what = "code is placed twice" if len(names) > 1 else f"{CODE!r} is not a placement"
        raise UsageError(what, where=OPTION, fix=f"use {CODE}=NAME once")
    rest = ",".join(item for item in items if item.partition("=")[0].strip() != CODE)
    return rest or AUTO, _region(CODE, names[0], target, CODE_KINDS)


def possible_places(target: Target) -> Iterator[Places]:
    """Yield all places for head and tail, with the model in each flash, those of a target without --place first.

    A copy of the model in RAM is left to users, who must have the time for it at every start.

    Raises:
        TargetError: The target has no memory for an arena.
    """
    arenas = [region for region in target.regions if region.kind in KINDS["head"]]
    if not arenas:
        raise TargetError(f"{target.name} has no memory for the head", where=OPTION, fix="specify a board")
    arenas.sort(key=lambda region: region != target.arena_region)
    flashes: list[MemoryRegion | None] = [region for region in target.regions if region.kind in FLASH_KINDS]
    flashes.sort(key=lambda region: region != target.flash_region)
    for head, tail, model in product(arenas, arenas, flashes or [None]):
        yield Places(head, tail, model)


def _region(part: str, name: str, target: Target, kinds: Sequence[RegionKind]) -> MemoryRegion:
    candidates = [region.name for region in target.regions if region.kind in kinds]
    region = next((region for region in target.regions if region.name == name), None)
    if region is not None and region.name in candidates:
        return region
    if not candidates:
        raise TargetError(f"{target.name} has no memory for the {part}", where=OPTION, fix="specify a board")
    if region is not None:
        raise TargetError(
            f"the {part} cannot be in {name}, which is {region.kind}",
            where=target.name,
            fix=f"use one of {', '.join(candidates)}",
        )
    raise TargetError(
        f"there is no region {name[:80]!r}",
        where=target.name,
        fix=did_you_mean(name, candidates) or f"use one of {', '.join(candidates)}",
    )
