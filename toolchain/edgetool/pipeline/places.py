"""Judge a planned model whose head, tail and model data are in memories of their own, and compare its placements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgetool.errors import TargetError, UnsupportedModelError, UsageError
from edgetool.figure import Figure
from edgetool.finding import Finding
from edgetool.memory.account import SeparateAccount, account_separate
from edgetool.memory.planner import PlanRequest
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import operator_costs
from edgetool.pipeline.analysis import Analysis
from edgetool.pipeline.source import Source
from edgetool.report.document import Band, PlacedInfo, PlacementInfo, Report
from edgetool.target.places import AUTO, OPTION, Places, possible_places, read_places
from edgetool.target.platform import platform_of
from edgetool.target.types import MemoryRegion, Target

if TYPE_CHECKING:
    from edgetool.estimate.latency import CountedOperator

# The findings on a single arena, and on a model in the board's usual flash.
REPLACED_RULES = frozenset({"arena-too-large", "model-too-large", "code-too-large"})
OTHERS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Placed:
    """A model in its places.

    Attributes:
        places: The memories.
        target: The target with its arena and its model there.
        parts: The bytes of each part.
        missing: The bytes that memories lack, by name.
        is_lower_bound: Whether the sizes of head and tail are lower bounds.
        placements: These places, and the best others in which everything fits.
    """

    places: Places
    target: Target
    parts: tuple[PlacedInfo, ...]
    missing: Mapping[str, int]
    is_lower_bound: bool
    placements: tuple[PlacementInfo, ...]

    def judged(self, analysis: Analysis) -> Analysis:
        """Return an analysis on this target with the fit and the findings for these places."""
        fit = analysis.fit
        assert fit is not None
        by_part = {item.part: item.fits for item in self.parts}
        arenas = (by_part["head"], by_part["tail"])
        in_flash = [by_part[part] for part in ("model copy", "model", "code") if part in by_part]
        findings = [finding for finding in analysis.findings if finding.rule not in REPLACED_RULES]
        judged = replace(
            fit,
            region=self.places.head.name,
            sram_bytes=self.places.head.size_bytes,
            flash_bytes=next((item.memory_bytes for item in self.parts if item.part == "model"), None),
            arena_fits=False if False in arenas else None if None in arenas else True,
            model_fits=None if self.places.model is None else False not in in_flash,
        )
        return replace(analysis, fit=judged, findings=(*findings, *_findings(self, analysis)))


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Places, the bytes of each part, the bytes that memories lack, and the estimated time if it is known."""

    places: Places
    parts: tuple[PlacedInfo, ...]
    missing: Mapping[str, int]
    time: Figure | None
    rank: tuple[float, ...]

    @property
    def info(self) -> PlacementInfo:
        names = {part: region.name for part, region in self.places.by_part.items()}
        fits = [item.fits for item in self.parts]
        time = None if self.time is None else Band(self.time.value, self.time.low, self.time.high)
        return PlacementInfo(
            names["head"],
            names["tail"],
            names.get("model"),
            False if False in fits else None if None in fits else True,
            time,
        )


def in_places(
    source: Source,
    analysis: Analysis,
    target: Target,
    place: str,
    custom: Mapping[str, OperatorEntry] | None = None,
) -> Placed:
    """Return the parts of a planned model in their memories.

    A memory that holds several parts must have room for their sum.

    Args:
        source: The model, with its plan.
        analysis: Its analysis with a single arena.
        target: The target.
        place: The places (target/places.py), or "auto" for those with the shortest estimated time of all that fit.
        custom: Operators that the user describes, by custom code.

    Raises:
        UsageError: The text is not a placement.
        TargetError: The target has no such memory; or, for "auto", nothing fits.
    """
    from edgetool.estimate.latency import count_operators  # not needed by most plans

    model = source.model
    separate = account_separate(model, platform_of(target), offsets=analysis.plan.offsets, custom=custom)
    counted = count_operators(model, target, operator_costs(model, custom), custom)
    others = [_candidate(source, analysis, target, each, separate, counted) for each in possible_places(target)]
    others = sorted((item for item in others if not item.missing), key=lambda item: item.rank)
    if place != AUTO:
        best = _candidate(source, analysis, target, read_places(place, target), separate, counted)
    elif others:
        best = others[0]
    else:
        one_fits = analysis.fit is not None and analysis.fit.arena_fits and analysis.fit.model_fits
        raise TargetError(
            f"no placement has room for a head of {separate.head_arena_bytes:,} bytes, a tail of "
            f"{separate.tail_arena_bytes:,} and a model of {len(source.blob):,}",
            where=f"{OPTION} {AUTO}, {target.name}",
            fix=f"omit {OPTION}: a single arena fits" if one_fits else "see 'edgetool fit' for other boards",
        )
    infos = [best.info, *(item.info for item in others if item.places != best.places)]
    return Placed(
        best.places,
        best.places.on(target),
        best.parts,
        best.missing,
        separate.account.is_lower_bound,
        tuple(infos[: 1 + OTHERS_SHOWN]),
    )


def check_places(place: str | None, target: Target | None, request: PlanRequest) -> None:
    """Raise UsageError unless the places can apply to the plan, and TargetError if the target has no such memory."""
    if place is None:
        return
    if target is None:
        raise UsageError(f"{OPTION} names memories of a target", fix="specify one with --target")
    if request.constants_in_ram or request.sharing is not None:
        raise UsageError(
            f"{OPTION} separates the head of stock TFLM from its tail, which has neither constants nor shared buffers",
            fix=f"omit {OPTION}, or --constants-in-ram and --sharing",
        )
    if place != AUTO:
        read_places(place, target)


def exactly_placed(placed: Placed, source: Source) -> Placed:
    """Return the places for a firmware, whose arenas need exact sizes. Raises UnsupportedModelError without these."""
    if placed.is_lower_bound:
        raise UnsupportedModelError(
            "the exact sizes of head and tail are unknown, so that they cannot be arenas of their own",
            where=source.name,
            fix=f"omit {OPTION}; 'edgetool plan' says what is unknown",
        )
    return placed


def with_placed(report: Report, placed: Placed | None) -> Report:
    """Return the report with the places, if there are any."""
    return report if placed is None else replace(report, places=placed.parts, placements=placed.placements)


def _candidate(
    source: Source,
    analysis: Analysis,
    target: Target,
    places: Places,
    separate: SeparateAccount,
    counted: Sequence[CountedOperator],
) -> _Candidate:
    is_exact = not separate.account.is_lower_bound
    items = list(_items(source, analysis, target, places, separate))
    used: dict[str, int] = {}
    for _, region, size_bytes in items:
        used[region.name] = used.get(region.name, 0) + size_bytes
    missing = {region.name: used[region.name] - region.size_bytes for _, region, _ in items}
    arenas = {places.head.name, places.tail.name}
    parts = tuple(
        PlacedInfo(
            part,
            region.name,
            size_bytes,
            region.size_bytes,
            False if missing[region.name] > 0 else None if region.name in arenas and not is_exact else True,
        )
        for part, region, size_bytes in items
    )
    time = _time(source, places.on(target), counted)
    return _Candidate(
        places,
        parts,
        {name: count for name, count in missing.items() if count > 0},
        time if all(map(_is_known, places.by_part.values())) else None,
        _rank(places, time),
    )


def _items(
    source: Source, analysis: Analysis, target: Target, places: Places, separate: SeparateAccount
) -> Iterator[tuple[str, MemoryRegion, int]]:
    """Yield each part of PlacedInfo with its memory and its bytes."""
    yield "head", places.head, separate.head_arena_bytes
    yield "tail", places.tail, separate.tail_arena_bytes
    stored = target.code_region if places.copies_model else places.model
    if places.copies_model and places.model is not None:
        yield "model copy", places.model, len(source.blob)
    if stored is not None:
        yield "model", stored, len(source.blob)
    if target.code_region is not None and analysis.fit is not None and analysis.fit.exact_code_bytes:
        yield "code", target.code_region, analysis.fit.exact_code_bytes


def _time(source: Source, target: Target, counted: Sequence[CountedOperator]) -> Figure | None:
    from edgetool.estimate.latency import estimate_model

    return estimate_model(source.model, target, counted=counted).latency_ms


def _is_known(region: MemoryRegion) -> bool:
    """Return whether the profile states how fast the memory is."""
    return region.bytes_per_cycle is not None or region.stall_cycles_per_byte is not None


def _rank(places: Places, time: Figure | None) -> tuple[float, ...]:
    """Return what to compare placements by: waits that the time lacks, the time, and what is outside the chip.

    The time lacks the waits for an external memory without figures, and those for a tail in external memory.
    """
    outside = {part: r for part, r in places.by_part.items() if r.kind in ("external-ram", "external-flash")}
    uncounted = sum(part == "tail" or not _is_known(region) for part, region in outside.items())
    return (uncounted, 0.0 if time is None else time.value, len(outside))


def _findings(placed: Placed, analysis: Analysis) -> Iterator[Finding]:
    """Yield the findings on memories that are too small, and on what the estimate lacks."""
    target = placed.target
    sizes = {item.memory: item.memory_bytes for item in placed.parts}
    for name, count in placed.missing.items():
        parts = [item for item in placed.parts if item.memory == name]
        has_arena = any(item.part in ("head", "tail") for item in parts)
        text = (
            f"{name} has {sizes[name]:,} bytes, {count:,} fewer than are placed there "
            f"({' + '.join(f'{item.part} {item.bytes:,}' for item in parts)}"
            f"{', at least' if has_arena and placed.is_lower_bound else ''})"
        )
        yield Finding("memory-too-small", text, where=target.name)
    yield from _code_findings(placed, analysis)
    if placed.places.tail.kind == "external-ram":
        text = (
            f"the tail is in {placed.places.tail.name}: kernels read the multipliers of their channels there, and the "
            "estimate does not include the time that the core waits for them"
        )
        yield Finding("tail-in-external-ram", text, where=target.name)


def _code_findings(placed: Placed, analysis: Analysis) -> Iterator[Finding]:
    """Yield a warning if the estimated code does not fit beside what is placed in its flash."""
    code, region = analysis.code, placed.target.code_region
    if code is None or code.is_exact or region is None or region.name in placed.missing:
        return
    size_bytes = sum(item.bytes for item in placed.parts if item.memory == region.name)
    if size_bytes + code.figure.low > region.size_bytes:
        text = (
            f"{size_bytes:,} bytes are placed in {region.name}, and the code takes at least "
            f"{round(code.figure.low):,}; it has {region.size_bytes:,}"
        )
        yield Finding("code-too-large", text, where=placed.target.name)
