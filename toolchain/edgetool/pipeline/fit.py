"""Judge one model on every packaged board: which boards it fits, and why it does not fit the others."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from edgetool import __version__
from edgetool.errors import TargetError, UsageError
from edgetool.gate.judge import JudgedFigures, judge, passes
from edgetool.gate.limits import ModelLimits
from edgetool.gate.messages import short_reasons
from edgetool.operators.entry import OperatorEntry
from edgetool.pipeline.analysis import Analysis, SharedAnalysis, analyse, unsupported_operators
from edgetool.pipeline.places import in_places
from edgetool.pipeline.reporting import code_band, finding_infos, model_info, target_info
from edgetool.pipeline.source import Source, file_name, open_tflite, read_custom_operators
from edgetool.pipeline.targets import all_targets
from edgetool.report.document import Band, MemoryInfo, Provenance
from edgetool.report.fit import BoardFit, FitInfo, FitReport
from edgetool.target.load import load_core
from edgetool.target.native_places import ARENA
from edgetool.target.places import AUTO
from edgetool.target.types import ARENA_KINDS, Target

if TYPE_CHECKING:
    from edgetool.pipeline.native import SharedNative

Sort = Literal["memory", "latency", "name"]


@dataclass(frozen=True, slots=True)
class FitRequest:
    """Which boards are judged, by which limits, and which rows are reported.

    A board is selected if each kind of filter is empty or has an item that matches: cores by name, vendors by the
    beginning of a word, boards by a part of the profile's name, the board's name or the MCU; case is ignored.
    kernels and runtime replace those of every board. row_input, row_output: whether the application hands the inputs
    of native code over row by row, and takes its outputs so. max_extra_macs: what native code may compute again, in
    percent. max_weights_per_row: as for resolve_named. incremental: the rows of its input that are new in each
    inference, None for whole windows. max_rows: None for all rows.
    """

    limits: ModelLimits = field(default_factory=ModelLimits)
    cores: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    boards: tuple[str, ...] = ()
    kernels: str | None = None
    runtime: str | None = None
    row_input: bool = False
    row_output: bool = False
    max_extra_macs: float | None = None
    max_weights_per_row: int | None = None
    incremental: int | None = None
    custom_operators: Path | None = None
    fits_only: bool = False
    sort: Sort = "memory"
    max_rows: int | None = None


def fit_model(path: Path, request: FitRequest | None = None) -> FitReport:
    """Judge the model, with its file unchanged, on every selected board, as `check_models` does without a lock file.

    Raises ModelError if the file is not a model, TargetError for an unknown core or runtime, and UsageError if no
    board is selected.
    """
    request = request or FitRequest()
    selected = _selected(all_targets(), request)
    custom = read_custom_operators(request.custom_operators)
    source = open_tflite(path)
    boards = [
        target.with_overrides(
            kernels=request.kernels,
            runtime=request.runtime,
            row_input=request.row_input or None,
            row_output=request.row_output or None,
            max_extra_macs=request.max_extra_macs,
            max_weights_per_row_bytes=request.max_weights_per_row,
            incremental=request.incremental,
        )
        for target in selected
        if target.bandwidth_gbps is None
    ]
    native = _native(source) if boards and boards[0].runtime.is_native else None
    analyse = SharedAnalysis(source, custom).on if native is None else native.on
    rows = [_board_fit(source, analyse(target), target, request.limits, custom, native) for target in boards]
    fitting = [row for row in rows if row.fits]
    smallest = min(fitting, key=_memory, default=None)
    ordered = sorted(fitting, key=SORTS[request.sort])
    if not request.fits_only:
        ordered += sorted((row for row in rows if not row.fits), key=SORTS_WITHOUT_FIT[request.sort])
    return FitReport(
        provenance=Provenance(
            tool=f"edgetool {__version__}",
            versions={"python": platform.python_version()},
            options=_options(request),
            trust_model_code=False,
        ),
        model=model_info(source),
        fit=FitInfo(
            judged=len(rows),
            fitting=len(fitting),
            smallest=None if smallest is None else smallest.target.name,
            sort=request.sort,
            left_out=tuple(target.name for target in selected if target.bandwidth_gbps is not None),
            boards=tuple(ordered[: request.max_rows]),
        ),
    )


def _native(source: Source) -> SharedNative:
    """Return what analyses the model as native code."""
    from edgetool.pipeline.native import SharedNative  # imports numpy, which fits of TFLM do not need

    return SharedNative(source)


def _selected(targets: Sequence[Target], request: FitRequest) -> list[Target]:
    """Return the boards that match every kind of filter, including devices described only by their bandwidth."""
    cores = {load_core(name).name for name in request.cores}
    selected = [
        target
        for target in targets
        if target.board is not None
        and (not cores or target.core.name in cores)
        and _is_by(target, request.vendors)
        and _contains(" ".join((target.name, target.board, target.mcu or "")), request.boards)
    ]
    if all(target.bandwidth_gbps is not None for target in selected):
        filters_by_option = (("--core", request.cores), ("--vendor", request.vendors), ("--board", request.boards))
        filters = " ".join(f"{option} {value!r}" for option, values in filters_by_option for value in values)
        raise UsageError(f"no packaged board matches {filters}", fix="run 'edgetool targets list' to see all boards")
    return selected


def _is_by(target: Target, vendors: Sequence[str]) -> bool:
    """Return whether a word of the vendor begins with one of the strings.

    For a profile without a vendor, the words of the board and the MCU are compared.
    """
    text = target.vendor or f"{target.board or ''} {target.mcu or ''}"
    return not vendors or any(
        re.search(rf"(?<!\w){re.escape(vendor.casefold())}", text.casefold()) for vendor in vendors
    )


def _contains(text: str, parts: Sequence[str]) -> bool:
    return not parts or any(part.casefold() in text.casefold() for part in parts)


def _board_fit(
    source: Source,
    analysis: Analysis,
    target: Target,
    limits: ModelLimits,
    custom: Mapping[str, OperatorEntry],
    native: SharedNative | None,
) -> BoardFit:
    figures = _figures(source, analysis, target)
    judgements = judge(figures, limits)
    failed = tuple(item for item in judgements if item.passed is False)
    place = None
    if {item.rule for item in failed} == {"arena"} and _has_several_memories(target):
        placed = _on_tflm(source, analysis, target, custom) if native is None else _as_native(source, target, native)
        if placed is not None and passes(judge(placed.figures, limits)):
            place = placed.text
    info = target_info(target)
    assert info is not None
    memory = figures.memory
    return BoardFit(
        target=info,
        vendor=target.vendor,
        mcu=target.mcu,
        clock_hz=target.clock_hz,
        fits=passes(judgements),
        reasons=(
            *short_reasons(
                failed,
                is_lower_bound=figures.arena_is_lower_bound,
                unsupported=_unsupported(source, target, custom),
            ),
            *([] if place is None else [f"fits in several memories: {_in_words(place)}"]),
        ),
        failed=failed,
        arena_bytes=figures.arena_bytes,
        arena_is_lower_bound=figures.arena_is_lower_bound,
        region=memory.region,
        sram_bytes=memory.sram_bytes,
        sram_share=_share(figures.arena_bytes, memory.sram_bytes, limits.reserve_bytes),
        flash_bytes=memory.flash_bytes,
        flash_share=_share(figures.flash_bytes, memory.flash_bytes, limits.reserve_flash_bytes),
        latency_ms=figures.latency_ms,
        validation=None if analysis.estimate is None else str(analysis.estimate.validation),
        usual_kernels=target.usual_kernels,
        code_bytes=None if analysis.code is None else code_band(analysis.code),
        place=place,
    )


def _has_several_memories(target: Target) -> bool:
    return sum(region.kind in ARENA_KINDS for region in target.regions) > 1


@dataclass(frozen=True, slots=True)
class _InPlaces:
    """The figures of a model in several memories of a board, and what to pass to --place."""

    figures: JudgedFigures
    text: str


def _on_tflm(
    source: Source, analysis: Analysis, target: Target, custom: Mapping[str, OperatorEntry]
) -> _InPlaces | None:
    """Return the fastest places of head, tail and model on TFLM; None if there are none."""
    try:
        placed = in_places(source, analysis, target, AUTO, custom)
    except TargetError:
        return None
    on_places = placed.judged(analyse(source, placed.target, plan=analysis.plan, custom=custom))
    return _InPlaces(replace(_figures(source, on_places, placed.target), places=placed.parts), placed.places.text)


def _as_native(source: Source, target: Target, native: SharedNative) -> _InPlaces | None:
    """Return the fastest places of the arena of native code; None if there are none."""
    found = native.in_places(target)
    if found is None:
        return None
    on_places, parts = found.analysis, found.places
    assert on_places.target is not None
    names = [item.memory for item in parts if item.part == ARENA]
    return _InPlaces(replace(_figures(source, on_places, on_places.target), places=parts), f"{ARENA}={'+'.join(names)}")


def _in_words(place: str) -> str:
    """Return a text for --place in words: "head in dtcm, tail in sram"."""
    return place.replace("=", " in ").replace(",", ", ").replace("+", " and ")


def _figures(source: Source, analysis: Analysis, target: Target) -> JudgedFigures:
    """Return the figures of an analysis that are judged, as its report would state them."""
    account, fit, estimate = analysis.plan.account, analysis.fit, analysis.estimate
    assert fit is not None
    latency = None if estimate is None else estimate.latency_ms
    return JudgedFigures(
        arena_bytes=None if account is None else account.bytes,
        layout_bytes=analysis.plan.layout.height,
        arena_is_lower_bound=account is None or account.is_lower_bound,
        model_bytes=fit.model_bytes,
        memory=MemoryInfo(fit.region, fit.sram_bytes, fit.flash_bytes, fit.arena_fits, fit.model_fits),
        runtime=target.runtime.name,
        latency_ms=None if latency is None else Band(latency.value, latency.low, latency.high),
        quantization=None,
        findings=finding_infos(analysis.findings),
        exact_code_bytes=fit.exact_code_bytes,
        code_bytes=None if analysis.code is None else code_band(analysis.code),
    )


def _unsupported(source: Source, target: Target, custom: Mapping[str, OperatorEntry]) -> tuple[str, ...]:
    operators = unsupported_operators(source.model, target, custom)
    return tuple(dict.fromkeys(operator.label for _, operator in operators))


def _share(size_bytes: int | None, memory_bytes: int | None, reserve_bytes: int) -> float | None:
    if size_bytes is None or memory_bytes is None or memory_bytes <= reserve_bytes:
        return None
    return size_bytes / (memory_bytes - reserve_bytes)


def _memory(row: BoardFit) -> tuple[float, float, str]:
    return (_or_last(row.sram_bytes), _or_last(row.flash_bytes), row.target.name)


def _overrun(row: BoardFit) -> tuple[float, ...]:
    """Return a key that sorts boards by the memory that is exceeded most, relative to its size."""
    return (max(_or_last(row.sram_share), _or_last(row.flash_share)), *(-size for size in _memory(row)[:2]))


def _latency(row: BoardFit) -> tuple[float, str]:
    return (inf if row.latency_ms is None else row.latency_ms.value, row.target.name)


def _name(row: BoardFit) -> str:
    return row.target.name


def _or_last(value: float | None) -> float:
    return inf if value is None else value


SORTS: Mapping[Sort, Callable[[BoardFit], Any]] = {"memory": _memory, "latency": _latency, "name": _name}
SORTS_WITHOUT_FIT: Mapping[Sort, Callable[[BoardFit], Any]] = {**SORTS, "memory": _overrun}


def _options(request: FitRequest) -> dict[str, object]:
    limits = request.limits
    return {
        "command": "fit",
        "core": list(request.cores),
        "vendor": list(request.vendors),
        "board": list(request.boards),
        "reserve_bytes": limits.reserve_bytes,
        "reserve_flash_bytes": limits.reserve_flash_bytes,
        "max_latency_ms": limits.max_latency_ms,
        "max_arena_bytes": limits.max_arena_bytes,
        "kernels": request.kernels,
        "runtime": request.runtime,
        "row_input": request.row_input,
        "row_output": request.row_output,
        "max_extra_macs": request.max_extra_macs,
        "max_weights_per_row_bytes": request.max_weights_per_row,
        "incremental": request.incremental,
        "custom_operators": file_name(request.custom_operators),
        "fits_only": request.fits_only,
        "sort": request.sort,
        "limit": request.max_rows,
    }
