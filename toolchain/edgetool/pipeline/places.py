"""Judge a planned model whose head, tail and model data are in memories of their own, and compare its placements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from edgetool.errors import TargetError, UnsupportedModelError, UsageError
from edgetool.estimate.memory_speed import tail_wait_ms
from edgetool.figure import Figure, in_text
from edgetool.finding import Finding, Level
from edgetool.memory.account import Tenant, account_separate, account_shared_separate
from edgetool.memory.planner import PlanRequest
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import operator_costs
from edgetool.pipeline.analysis import Analysis
from edgetool.pipeline.code import library_bytes
from edgetool.pipeline.placed_code import code_finding, code_part
from edgetool.pipeline.source import Source
from edgetool.report.document import Band, PlacedInfo, PlacementInfo, Report
from edgetool.target.places import AUTO, CODE, OPTION, Places, possible_places, read_places, split_code
from edgetool.target.platform import platform_of
from edgetool.target.types import MemoryRegion, Target

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
        code: The memory of the code of TFLM and its kernels, if it is placed.
    """

    places: Places
    target: Target
    parts: tuple[PlacedInfo, ...]
    missing: Mapping[str, int]
    is_lower_bound: bool
    placements: tuple[PlacementInfo, ...]
    code: MemoryRegion | None = None

    def judged(self, analysis: Analysis) -> Analysis:
        """Return an analysis on this target with the fit and the findings for these places."""
        fit = analysis.fit
        assert fit is not None
        by_part = {item.part: item.fits for item in self.parts}
        arenas = (by_part["head"], by_part["tail"])
        in_flash = [by_part[part] for part in ("model copy", "model", "code", "code copy") if part in by_part]
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
    from edgetool.estimate.latency import count_operators, estimate_model  # not needed by most plans

    place, code = split_code(place, target)
    model = source.model
    separate = account_separate(model, platform_of(target), offsets=analysis.plan.offsets, custom=custom)
    counted = count_operators(model, target, operator_costs(model, custom), custom)
    fit = analysis.fit
    sizes = _Sizes(
        separate.head_arena_bytes,
        separate.tail_arena_bytes,
        len(source.blob),
        0 if fit is None else fit.exact_code_bytes,
        is_exact=not separate.account.is_lower_bound,
        code=code,
        placed_code_bytes=None if code is None else library_bytes([model], target, custom),
    )
    best, others = _best(
        sizes,
        target,
        place,
        lambda placed: estimate_model(model, placed, counted=counted).latency_ms,
        one_fits=bool(fit is not None and fit.arena_fits and fit.model_fits),
    )
    return _placed(best, others, target, sizes)


def shared_in_places(
    models: Sequence[tuple[Source, Analysis]],
    target: Target,
    place: str,
    custom: Mapping[str, OperatorEntry] | None = None,
) -> Placed:
    """Return the parts of models that share two arenas, in this order; the time is that of all their inferences.

    The arguments and errors are those of in_places. Raises UsageError for a place of the models in RAM.
    """
    from edgetool.estimate.latency import count_operators, estimate_model

    place, code = split_code(place, target)
    if place != AUTO and read_places(place, target).copies_model:
        raise UsageError(
            "models that share arenas are not copied to RAM", where=OPTION, fix="place them in a flash, or omit model"
        )
    tenants = [Tenant(source.model, analysis.plan.offsets) for source, analysis in models]
    account = account_shared_separate(tenants, platform_of(target), custom=custom)
    counted = [
        count_operators(source.model, target, operator_costs(source.model, custom), custom) for source, _ in models
    ]

    def time_on(placed: Target) -> Figure | None:
        times = [
            estimate_model(source.model, placed, counted=counts).latency_ms
            for (source, _), counts in zip(models, counted, strict=True)
        ]
        known = [time for time in times if time is not None]
        if len(known) < len(times):
            return None
        value, low, high = (sum(getattr(time, name) for time in known) for name in ("value", "low", "high"))
        return Figure(value, low, high, known[0].unit, known[0].basis)

    sizes = _Sizes(
        account.head_arena_bytes,
        account.tail_arena_bytes,
        sum(len(source.blob) for source, _ in models),
        0,
        is_exact=not account.is_lower_bound,
        code=code,
        placed_code_bytes=None
        if code is None
        else library_bytes([source.model for source, _ in models], target, custom),
    )
    best, others = _best(sizes, target, place, time_on, one_fits=False)
    return _placed(best, others, target, sizes)


def _placed(best: _Candidate, others: Sequence[_Candidate], target: Target, sizes: _Sizes) -> Placed:
    infos = [best.info, *(item.info for item in others if item.places != best.places)]
    shown = tuple(infos[: 1 + OTHERS_SHOWN])
    on_target = best.places.on(target)
    return Placed(best.places, on_target, best.parts, best.missing, not sizes.is_exact, shown, sizes.code)


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
    rest, _ = split_code(place, target)
    if rest != AUTO:
        read_places(rest, target)


def exactly_placed(placed: Placed, source: Source) -> Placed:
    """Return the places for a firmware, whose arenas need exact sizes. Raises UnsupportedModelError without these."""
    if placed.is_lower_bound:
        raise unknown_sizes(source.name)
    return placed


def unknown_sizes(where: str) -> UnsupportedModelError:
    """Return the error for arenas whose sizes are only lower bounds."""
    return UnsupportedModelError(
        "the exact sizes of head and tail are unknown, so that they cannot be arenas of their own",
        where=where,
        fix=f"omit {OPTION}; 'edgetool plan' says what is unknown",
    )


def with_placed(report: Report, placed: Placed | None) -> Report:
    """Return the report with the places, if there are any."""
    return report if placed is None else replace(report, places=placed.parts, placements=placed.placements)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The bytes of each part. is_exact: whether those of head and tail are no lower bounds.

    code_bytes: the code, if it was counted in the user's own library. code: the memory of TFLM and its kernels, if it
    is placed; placed_code_bytes: what these take there, None if it is unknown.
    """

    head_bytes: int
    tail_bytes: int
    model_bytes: int
    code_bytes: int
    is_exact: bool
    code: MemoryRegion | None
    placed_code_bytes: int | None


def _best(
    sizes: _Sizes,
    target: Target,
    place: str,
    time_on: Callable[[Target], Figure | None],
    *,
    one_fits: bool,
) -> tuple[_Candidate, list[_Candidate]]:
    """Return the places that were asked for, and all in which everything fits, the best first.

    Args:
        sizes: The sizes of the parts.
        target: The target.
        place: As for in_places.
        time_on: Returns the estimated time on a target with these places.
        one_fits: Whether a single arena fits.
    """
    others = [_candidate(sizes, target, each, time_on) for each in possible_places(target)]
    others = sorted((item for item in others if not item.missing), key=lambda item: item.rank)
    if place != AUTO:
        return _candidate(sizes, target, read_places(place, target), time_on), others
    if others:
        return others[0], others
    raise TargetError(
        f"no placement has room for a head of {sizes.head_bytes:,} bytes, a tail of {sizes.tail_bytes:,} and "
        f"{sizes.model_bytes:,} of the model",
        where=f"{OPTION} {AUTO}, {target.name}",
        fix=f"omit {OPTION}: a single arena fits" if one_fits else "see 'edgetool fit' for other boards",
    )


def _candidate(sizes: _Sizes, target: Target, places: Places, time_on: Callable[[Target], Figure | None]) -> _Candidate:
    items = list(_items(sizes, target, places))
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
            False if missing[region.name] > 0 else None if region.name in arenas and not sizes.is_exact else True,
        )
        for part, region, size_bytes in items
    )
    time = _with_tail(time_on(places.on(target)), places, sizes, target)
    return _Candidate(
        places,
        parts,
        {name: count for name, count in missing.items() if count > 0},
        time if all(map(_is_known, places.by_part.values())) else None,
        _rank(places, time),
    )


def _with_tail(time: Figure | None, places: Places, sizes: _Sizes, target: Target) -> Figure | None:
    """Return the time with the wait for the tail, if that is known."""
    from edgetool.estimate.latency import EXTERNAL_STALL_BAND

    wait_ms = tail_wait_ms(places.tail, sizes.tail_bytes, target.clock_hz)
    if time is None or not wait_ms:
        return time
    high = time.high + EXTERNAL_STALL_BAND[1] * wait_ms
    return Figure(time.value + wait_ms, time.low, high, time.unit, time.basis)


def _items(sizes: _Sizes, target: Target, places: Places) -> Iterator[tuple[str, MemoryRegion, int]]:
    """Yield each part of PlacedInfo with its memory and its bytes."""
    yield "head", places.head, sizes.head_bytes
    yield "tail", places.tail, sizes.tail_bytes
    stored = target.code_region if places.copies_model else places.model
    if places.copies_model and places.model is not None:
        yield "model copy", places.model, sizes.model_bytes
    if stored is not None:
        yield "model", stored, sizes.model_bytes
    if target.code_region is not None and sizes.code_bytes and (sizes.code is None or code_part(sizes.code) != CODE):
        yield CODE, target.code_region, sizes.code_bytes
    if sizes.code is not None and sizes.placed_code_bytes is not None:
        yield code_part(sizes.code), sizes.code, sizes.placed_code_bytes


def _is_known(region: MemoryRegion) -> bool:
    """Return whether the profile states how fast the memory is."""
    return region.bytes_per_cycle is not None or region.stall_cycles_per_byte is not None


def _rank(places: Places, time: Figure | None) -> tuple[float, ...]:
    """Return what to compare placements by: waits that the time lacks, the time, and what is outside the chip.

    The time lacks the waits for an external memory without figures, and those for a tail in one without a cache.
    """
    outside = {part: r for part, r in places.by_part.items() if r.kind in ("external-ram", "external-flash")}
    uncounted = sum(
        not _is_known(region) or (part == "tail" and not region.cache_bytes) for part, region in outside.items()
    )
    return (uncounted, 0.0 if time is None else time.value, len(outside))


def _findings(placed: Placed, analysis: Analysis) -> Iterator[Finding]:
    """Yield the findings on memories that are too small, and on what the estimate lacks."""
    yield from missing_findings(placed)
    target = placed.target
    if placed.code is not None:
        size = next((item.bytes for item in placed.parts if item.part == code_part(placed.code)), None)
        yield code_finding(placed.code, size, target.core.name, target.name)
    yield from _code_findings(placed, analysis)
    tail = placed.places.tail
    if tail.kind == "external-ram":
        size_bytes = next(item.bytes for item in placed.parts if item.part == "tail")
        wait_ms = tail_wait_ms(tail, size_bytes, target.clock_hz)
        cost = (
            "the time that the core waits for them is unknown and not included"
            if wait_ms is None
            else f"the times of placements include up to {in_text(wait_ms)} ms for it, those of operators do not"
        )
        text = f"the tail is in {tail.name}: kernels read the multipliers of their channels there; {cost}"
        level: Level = "warning" if wait_ms is None else "note"
        yield Finding("tail-in-external-ram", text, where=target.name, level=level)


def missing_findings(placed: Placed) -> Iterator[Finding]:
    """Yield an error for each memory that is too small."""
    sizes = {item.memory: item.memory_bytes for item in placed.parts}
    for name, count in placed.missing.items():
        parts = [item for item in placed.parts if item.memory == name]
        has_arena = any(item.part in ("head", "tail") for item in parts)
        text = (
            f"{name} has {sizes[name]:,} bytes, {count:,} fewer than are placed there "
            f"({' + '.join(f'{item.part} {item.bytes:,}' for item in parts)}"
            f"{', at least' if has_arena and placed.is_lower_bound else ''})"
        )
        yield Finding("memory-too-small", text, where=placed.target.name)


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
