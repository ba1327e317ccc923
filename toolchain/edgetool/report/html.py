"""The report as one page for browsers: what its drawings need besides the document, and its text.

`page/` has the page's own code, which `make page` bundles into `page/page.html`: the page without data. All that
differs between two pages is one JSON value, which is escaped here, and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import isfinite
from typing import Any

from edgetool.errors import InternalError
from edgetool.memory.account import ArenaAccount
from edgetool.memory.lifetimes import needs_planning
from edgetool.memory.planner import Plan
from edgetool.memory.problem import Lifetime
from edgetool.memory.streaming.problem import RowPlan, RowProblem
from edgetool.model.types import Graph, Model, Operator, Tensor
from edgetool.report.document import (
    ArenaInfo,
    EstimateInfo,
    PlanInfo,
    PlannedTensor,
    QuantizationInfo,
    Report,
    RowsInfo,
)
from edgetool.report.json import document, plain
from edgetool.report.rows_picture import row_boxes, scratch_runs
from edgetool.target.types import Core, Target

# Where the bundled page has no data yet.
PLACEHOLDER = '<script type="application/json" id="data">null</script>'
# A page with more operators or entries of another list, or of a model with more tensors, has the most important ones of
# each list: SHORTENED.
MAX_OPERATORS = 2_000
MAX_TENSORS = 8_000
SHORTENED = 1_000
MAX_ROW_BOXES = 30_000

# [subgraph, index, name or null if the plan has it, shape, type, kind, scale, zero point, number of scales]
TensorRow = tuple[int, int, str | None, tuple[int, ...], str, str, float | None, int | None, int]
# [subgraph, index, label, inputs, outputs, first position, last position]; -1 is an omitted input.
OperatorRow = tuple[int, int, str, tuple[int, ...], tuple[int, ...], int, int]
# [subgraph, tensor or -1, operator or -1, bytes, offset, first position, last position]
BufferRow = tuple[int, int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class MapView:
    """The buffers of a plan that is not the report's, and the bytes of its head, tail and arena."""

    head_bytes: int
    tail_bytes: int
    arena_bytes: int
    buffers: tuple[BufferRow, ...]


@dataclass(frozen=True, slots=True)
class RowsView:
    """Where the rows of each tensor are, and when: (first step, step behind the last one, offset, end) of each box.

    scratch: (operator of the model or -1, bytes, offset, steps), of which steps are pairs of a first one and one behind
    the last. Both are empty if there are more than a page can draw.
    """

    memory_bytes: int
    steps: int
    boxes: tuple[tuple[int, ...], ...]
    scratch: tuple[tuple[int, int, int, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class DeviceView:
    """The limits of a device: its clock, and the multiply-accumulates of 8 bits that it completes in a cycle, if known.

    basis: the source of the latter.
    """

    clock_hz: int
    macs_per_cycle: int | None
    basis: str


@dataclass(frozen=True, slots=True)
class ModelView:
    """What drawings of a report need besides it.

    inputs, outputs: those of the main graph. stock: the plan of TFLM's own planner, unless the report describes that
    one. device: None without a target.
    """

    tensors: tuple[TensorRow, ...]
    operators: tuple[OperatorRow, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    stock: MapView | None = None
    rows: RowsView | None = None
    device: DeviceView | None = None


@dataclass(frozen=True, slots=True)
class Omitted:
    """How many operators, buffers, entries of the arena and layers a report has more than its page.

    others: the same of all other lists.
    """

    operators: int
    buffers: int
    entries: int
    layers: int
    others: int


@dataclass(frozen=True, slots=True)
class PageReport:
    """A report on its page. verdict: its one sentence. negative: whether that is bad news.

    view: None if only the report is known, not the model.
    """

    report: Report
    verdict: str
    negative: bool
    view: ModelView | None = None


def page(bundle: str, data: Mapping[str, Any]) -> str:
    """Return the page with its data.

    Args:
        bundle: The page without data.
        data: JSON values. NaN and infinity raise ValueError.

    Raises:
        InternalError: The bundle does not have exactly one place for data.
    """
    if bundle.count(PLACEHOLDER) != 1:
        raise InternalError("the page has no place for its data", where="page.html")
    before, after = bundle.split(PLACEHOLDER)
    return f"{before}{PLACEHOLDER.replace('null', script_text(data))}{after}"


def script_text(value: object) -> str:
    """Return JSON for a script element, in ASCII: without < and &, it can neither end the element nor begin another."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026").replace("##", r"#\u0023")


def reports_data(items: Sequence[PageReport], command: str) -> dict[str, Any]:
    """Return the data of a page of reports, one of which is shown at a time. command: what writes the page."""
    return {"kind": "reports", "command": command, "reports": [_report_data(item) for item in items]}


def comparison_data(a: PageReport, b: PageReport, comparison: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Return the data of a page that shows two reports side by side. comparison: the document of their differences."""
    reports = [_report_data(item) for item in (a, b)]
    return {"kind": "comparison", "command": command, "reports": reports, "document": comparison}


def sweep_data(sweep: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Return the data of the page of a sweep. sweep: its document."""
    return {"kind": "sweep", "command": command, "document": sweep}


def _report_data(item: PageReport) -> dict[str, Any]:
    report, omitted = shortened(item.report)
    view = item.view
    if view is not None and omitted is not None:
        view = _shortened_view(view, report)
    return {
        "document": document(report),
        "verdict": item.verdict,
        "negative": item.negative,
        "view": plain(view),
        "omitted": plain(omitted),
    }


def shortened(report: Report) -> tuple[Report, Omitted | None]:
    """Return the report, and None; if it is too large for a page, its most important parts, and what is left out.

    These are the operators with the most time, the largest buffers and those at the peak, and the largest entries of
    the arena, in the order of the report.
    """
    before = _lengths(report)
    if max(report.model.operators, *before) <= MAX_OPERATORS and report.model.tensors <= MAX_TENSORS:
        return report, None
    shorter = replace(
        report,
        estimate=None if report.estimate is None else _fewer_operators(report.estimate),
        plan=None if report.plan is None else _fewer_buffers(report.plan),
        arena=None if report.arena is None else _fewer_entries(report.arena),
        rows=None if report.rows is None else _fewer_rows(report.rows),
        quantization=None if report.quantization is None else _fewer_layers(report.quantization),
    )
    return shorter, Omitted(*(was - now for was, now in zip(before, _lengths(shorter), strict=True)))


def _lengths(report: Report) -> tuple[int, int, int, int, int]:
    """Return the lengths of the report's lists, in the order of Omitted."""
    operators = buffers = entries = layers = others = 0
    if report.estimate is not None:
        operators = len(report.estimate.operators)
        others += len(report.estimate.not_modelled)
    if report.plan is not None:
        buffers += len(report.plan.tensors) + len(report.plan.scratch)
        others += 0 if report.plan.sharing is None else len(report.plan.sharing.buffers)
    if report.rows is not None:
        buffers += len(report.rows.tensors)
        others += len(report.rows.segments)
    if report.arena is not None:
        entries = len(report.arena.breakdown)
    if report.quantization is not None:
        layers = len(report.quantization.layers)
    return operators, buffers, entries, layers, others


def _fewer_operators(estimate: EstimateInfo) -> EstimateInfo:
    kept = _largest([item.ms.value for item in estimate.operators])
    operators = tuple(estimate.operators[i] for i in kept)
    return replace(estimate, operators=operators, not_modelled=estimate.not_modelled[:SHORTENED])


def _fewer_buffers(plan: PlanInfo) -> PlanInfo:
    position = None if plan.peak is None else max(plan.peak.position, 0)

    def fewer(items: tuple[PlannedTensor, ...]) -> tuple[PlannedTensor, ...]:
        live = [position is not None and item.first_op <= position <= item.last_op for item in items]
        return tuple(items[i] for i in _largest([(at, item.bytes) for at, item in zip(live, items, strict=True)]))

    sharing = plan.sharing
    if sharing is not None:
        kept = _largest([item.bytes for item in sharing.buffers])
        sharing = replace(sharing, buffers=tuple(sharing.buffers[i] for i in kept))
    return replace(plan, tensors=fewer(plan.tensors), scratch=fewer(plan.scratch), sharing=sharing)


def _fewer_entries(arena: ArenaInfo) -> ArenaInfo:
    kept = _largest([item.bytes for item in arena.breakdown])
    return replace(arena, breakdown=tuple(arena.breakdown[i] for i in kept))


def _fewer_rows(rows: RowsInfo) -> RowsInfo:
    kept = _largest([item.most_rows * item.row_bytes for item in rows.tensors])
    longest = _largest([item.last_step - item.first_step for item in rows.segments])
    tensors, segments = tuple(rows.tensors[i] for i in kept), tuple(rows.segments[i] for i in longest)
    return replace(rows, tensors=tensors, segments=segments)


def _fewer_layers(quantization: QuantizationInfo) -> QuantizationInfo:
    return replace(quantization, layers=quantization.layers[:SHORTENED])  # the worst are first


def _largest(sizes: Sequence[Any]) -> list[int]:
    """Return the positions of the largest sizes, in ascending order."""
    return sorted(sorted(range(len(sizes)), key=lambda i: sizes[i], reverse=True)[:SHORTENED])


def _shortened_view(view: ModelView, report: Report) -> ModelView:
    """Return the view with the operators and buffers of the report."""
    plan, estimate = report.plan, report.estimate
    tensors = set() if plan is None else {(item.subgraph, item.index) for item in plan.tensors}
    named = set() if estimate is None else {(item.subgraph, item.index) for item in estimate.operators}
    operators = [item for item in view.operators if item[:2] in named] if named else view.operators[:SHORTENED]
    return replace(
        view,
        tensors=tuple(item for item in view.tensors if item[:2] in tensors),
        operators=tuple((*item[:3], (), (), *item[5:]) for item in operators),
        inputs=(),
        outputs=(),
        stock=None,
        rows=None,
    )


def model_view(
    model: Model, plan: Plan, target: Target | None, stock: ArenaAccount | None, rows: RowsView | None = None
) -> ModelView:
    """Return what drawings of a model need.

    Args:
        model: The model.
        plan: The plan of the report.
        target: The target, if any.
        stock: The arena with TFLM's own planner, if it is known.
        rows: The rows of native code, if they are planned.
    """
    # The buffers of rows have names such as "2 of 48 rows of x".
    planned = set() if rows is not None else {(buffer.subgraph, buffer.tensor) for buffer in plan.problem.buffers}
    spans = [plan.timeline.operators.get((graph.index, item.index)) for graph, item in _operators(model)]
    if len(plan.order) == len(spans):  # no control flow: operators run one after the other
        places = {operator: place for place, operator in enumerate(plan.order)}
        spans = [Lifetime(places[item.index], places[item.index]) for _, item in _operators(model)]
    shows_stock = stock is not None and plan.planner != "runtime"
    return ModelView(
        tensors=tuple(_tensor(graph, item, planned) for graph in model.subgraphs for item in graph.tensors),
        operators=tuple(
            (graph.index, item.index, item.label, item.inputs, item.outputs, *_ends(span))
            for (graph, item), span in zip(_operators(model), spans, strict=True)
        ),
        inputs=model.main.inputs,
        outputs=model.main.outputs,
        stock=_map(stock) if stock is not None and shows_stock else None,
        rows=rows,
        device=None if target is None else _device(target),
    )


def _operators(model: Model) -> list[tuple[Graph, Operator]]:
    return [(graph, item) for graph in model.subgraphs for item in graph.operators]


def _ends(span: Lifetime | None) -> tuple[int, int]:
    return (-1, -1) if span is None else (span.first, span.last)


def _tensor(graph: Graph, tensor: Tensor, planned: set[tuple[int, int]]) -> TensorRow:
    has_name = (graph.index, tensor.index) in planned or tensor.is_constant
    scale, zero_point = tensor.per_tensor or (None, None)
    if scale is not None and not isfinite(scale):  # JSON has no such number
        scale = None
    scales = 0 if tensor.quantization is None else len(tensor.quantization.scales)
    return (
        *(graph.index, tensor.index, None if has_name else tensor.name, tensor.shape, tensor.dtype.name.lower()),
        *(_kind(graph, tensor), scale, zero_point, scales),
    )


def _kind(graph: Graph, tensor: Tensor) -> str:
    if tensor.is_constant:
        return "constant"
    if tensor.is_variable:
        return "variable"
    if tensor.index in graph.inputs:
        return "input"
    return "output" if tensor.index in graph.outputs else "" if needs_planning(tensor) else "empty"


def _map(account: ArenaAccount) -> MapView:
    return MapView(
        account.head_bytes,
        account.tail_bytes,
        account.bytes,
        tuple(
            (
                *(buffer.subgraph, -1 if buffer.is_scratch else buffer.tensor, buffer.operator, buffer.size_bytes),
                *(offset, *buffer.lifetime.operators),
            )
            for buffer, offset in zip(account.problem.buffers, account.layout.offsets, strict=True)
        ),
    )


def _device(target: Target) -> DeviceView:
    macs, basis = _peak(target.core)
    return DeviceView(target.clock_hz, macs, basis)


def _peak(core: Core) -> tuple[int | None, str]:
    """Return the multiply-accumulates of 8 bits per cycle that the instructions of a core allow, and their source.

    The source is what a page shows: the instruction with the most products, and the manual with its timing.
    """
    if core.mve:
        return 8, "eight products per cycle with Helium (Arm, Introduction to the Cortex-M55 Processor)"
    if core.dsp:
        return 2, "two products per SMLAD, one per cycle (Arm, Cortex-M4 Technical Reference Manual, 3.3)"
    if core.abi == "arm-eabi":
        return 1, "one product per MUL, one per cycle (Arm, Cortex-M3 Technical Reference Manual, 3.3)"
    return None, ""


def rows_view(problem: RowProblem, plan: RowPlan, operators: Sequence[int]) -> RowsView:
    """Return the rows of a plan over time. operators: for each of the problem's operators, the model's or -1."""
    boxes = tuple(tuple(value for box in found for value in box) for found in row_boxes(problem, plan))
    scratch = _scratch(problem, plan, operators)
    if sum(map(len, boxes)) // 4 + sum(len(item[3]) for item in scratch) // 2 > MAX_ROW_BOXES:
        boxes, scratch = (), ()
    return RowsView(plan.memory_bytes, len(plan.schedule), boxes, scratch)


def _scratch(
    problem: RowProblem, plan: RowPlan, operators: Sequence[int]
) -> tuple[tuple[int, int, int, tuple[int, ...]], ...]:
    return tuple(
        (
            operators[number],
            problem.operators[number].scratch_bytes,
            offset,
            tuple(chain.from_iterable(runs)),
        )
        for (number, offset), runs in scratch_runs(problem, plan).items()
    )
