"""Judge a planned model whose head, tail and model data are in memories of their own, and compare its placements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgetool.errors import TargetError, UsageError
from edgetool.figure import Figure
from edgetool.finding import Finding
from edgetool.memory.account import SeparateAccount, account_separate
from edgetool.memory.planner import PlanRequest
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import operator_costs
from edgetool.pipeline.analysis import Analysis, analyse
from edgetool.pipeline.planning import planned_for
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
        separate: The account of the two arenas.
        analysis: The analysis on that target, with the fit of each memory.
        parts: The bytes of each part.
        placements: These places, and the best others in which everything fits.
    """

    places: Places
    target: Target
    separate: SeparateAccount
    analysis: Analysis
    parts: tuple[PlacedInfo, ...]
    placements: tuple[PlacementInfo, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Places, the bytes of each part, the bytes that each memory lacks, and the estimated time if it is known."""

    places: Places
    parts: tuple[PlacedInfo, ...]
    missing: Mapping[str, int]
    time: Figure | None
    rank: tuple[float, ...]

    @property
    def fits(self) -> bool | None:
        """Whether every memory has room; None if that is unknown."""
        fits = [item.fits for item in self.parts]
        return False if False in fits else None if None in fits else True

    @property
    def info(self) -> PlacementInfo:
        names = {part: region.name for part, region in self.places.by_part.items()}
        time = None if self.time is None else Band(self.time.value, self.time.low, self.time.high)
        return PlacementInfo(names["head"], names["tail"], names.get("model"), self.fits, time)


def in_places(
    source: Source,
    analysis: Analysis,
    target: Target,
    place: str,
    custom: Mapping[str, OperatorEntry] | None = None,
    *,
    with_estimate: bool = False,
) -> Placed:
    """Return a planned model with its parts in these memories, judged there.

    A memory that holds several parts must have room for their sum.

    Args:
        source: The model.
        analysis: Its analysis with a single arena.
        target: The target.
        place: The places (target/places.py), or "auto" for those with the shortest estimated time of all that fit.
        custom: Operators that the user describes, by custom code.
        with_estimate: Whether the analysis has an estimate.

    Raises:
        UsageError: The text is not a placement.
        TargetError: The target has no such memory; or, for "auto", nothing fits.
    """
    from edgetool.estimate.latency import count_operators  # not needed by most plans

    planned = planned_for(source, target, plan=analysis.plan, custom=custom)
    model = planned.source.model
    separate = account_separate(model, platform_of(target), offsets=planned.analysis.plan.offsets, custom=custom)
    chosen = None if place == AUTO else read_places(place, target)
    counted = count_operators(model, target, operator_costs(model, custom), custom)
    others = [_candidate(planned.source, analysis, target, each, separate, counted) for each in possible_places(target)]
    others = sorted((item for item in others if item.fits is not False), key=lambda item: item.rank)
    if chosen is not None:
        best = _candidate(planned.source, analysis, target, chosen, separate, counted)
    elif others:
        best = others[0]
    else:
        raise TargetError(
            f"no placement has room for a head of {separate.head_arena_bytes:,} bytes, a tail of "
            f"{separate.tail_arena_bytes:,} and a model of {len(planned.source.blob):,}",
            where=f"{OPTION} {AUTO}, {target.name}",
            fix="use a smaller model, or see 'edgetool fit' for other boards",
        )
    on_target = best.places.on(target)
    placed = analyse(source, on_target, plan=analysis.plan, with_estimate=with_estimate, custom=custom)
    infos = [best.info, *(item.info for item in others if item.places != best.places)]
    return Placed(
        best.places,
        on_target,
        separate,
        _judged(placed, best, on_target),
        best.parts,
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
    if places.model is not None:
        yield "model", places.model, len(source.blob)
    if target.code_region is not None:
        if places.copies_model:
            yield "stored model", target.code_region, len(source.blob)
        if analysis.fit is not None and analysis.fit.exact_code_bytes:
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


def _judged(analysis: Analysis, best: _Candidate, target: Target) -> Analysis:
    """Return the analysis with the fit and the findings for its places."""
    places, fit = best.places, analysis.fit
    assert fit is not None
    findings = [finding for finding in analysis.findings if finding.rule not in REPLACED_RULES]
    regions = {region.name: region for region in (*places.by_part.values(), target.code_region) if region is not None}
    for name, count in best.missing.items():
        parts = [item for item in best.parts if item.memory == name]
        at_least = ", at least" if analysis.plan.account is None or analysis.plan.account.is_lower_bound else ""
        listed = " + ".join(f"{item.part} {item.bytes:,}" for item in parts)
        has_arena = any(item.part in ("head", "tail") for item in parts)
        text = (
            f"{name} has {regions[name].size_bytes:,} bytes, {count:,} fewer than are placed there "
            f"({listed}{at_least if has_arena else ''})"
        )
        findings.append(Finding("memory-too-small", text, where=target.name))
    findings += _code_findings(analysis, best, target)
    if places.tail.kind == "external-ram":
        text = (
            f"the tail is in {places.tail.name}: kernels read the multipliers of their channels there, and the "
            "estimate does not include the time that the core waits for them"
        )
        findings.append(Finding("tail-in-external-ram", text, where=target.name))
    by_part = {item.part: item.fits for item in best.parts}
    arenas = (by_part["head"], by_part["tail"])
    in_flash = [by_part[part] for part in ("model", "stored model", "code") if part in by_part]
    judged = replace(
        fit,
        region=places.head.name,
        sram_bytes=places.head.size_bytes,
        flash_bytes=None if places.model is None else places.model.size_bytes,
        arena_fits=False if False in arenas else None if None in arenas else True,
        model_fits=None if places.model is None else False not in in_flash,
    )
    return replace(analysis, fit=judged, findings=tuple(findings))


def _code_findings(analysis: Analysis, best: _Candidate, target: Target) -> Iterator[Finding]:
    """Yield a warning if the estimated code does not fit beside what is placed in its flash."""
    code, region = analysis.code, target.code_region
    if code is None or code.is_exact or region is None or region.name in best.missing:
        return
    placed = sum(item.bytes for item in best.parts if item.memory == region.name)
    if placed + code.figure.low > region.size_bytes:
        text = (
            f"{placed:,} bytes are placed in {region.name}, and the code takes at least {round(code.figure.low):,}; it "
            f"has {region.size_bytes:,}"
        )
        yield Finding("code-too-large", text, where=target.name)
