"""The report as one page for browsers: what its drawings need besides the document, and its text.

`page/` has the page's own code, which `make page` bundles into `page/page.html`: the page without data. All that
differs between two pages is one JSON value, which is escaped here, and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from edgetool.errors import InternalError
from edgetool.memory.account import ArenaAccount
from edgetool.memory.lifetimes import needs_planning
from edgetool.memory.planner import Plan
from edgetool.memory.problem import Lifetime
from edgetool.memory.streaming.problem import NO_SCRATCH, RowPlan, RowProblem
from edgetool.model.types import Graph, Model, Operator, Tensor
from edgetool.report.document import ArenaInfo, EstimateInfo, PlanInfo, PlannedTensor, Report, RowsInfo
from edgetool.report.json import document, plain
from edgetool.report.rows_picture import row_boxes
from edgetool.target.types import Core, Target

# Where the bundled page has no data yet.
PLACEHOLDER = '<script type="application/json" id="data">null</script>'
# A page of a larger model lists only the most important operators, buffers and entries of the arena: this many of each.
MAX_OPERATORS = 2_000
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

    scratch: (operator, bytes, offset, steps), of which steps are pairs of a first one and one behind the last. Both are
    empty if there are more than a page can draw.
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
    """How many operators, buffers and entries of the arena a report has more than its page."""

    operators: int
    buffers: int
    entries: int


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
    if report.model.operators <= MAX_OPERATORS:
        return report, None
    estimate, operators = _fewer_operators(report.estimate)
    plan, buffers = _fewer_buffers(report.plan)
    arena, entries = _fewer_entries(report.arena)
    rows, row_tensors = _fewer_rows(report.rows)
    omitted = Omitted(operators, buffers + row_tensors, entries)
    return replace(report, estimate=estimate, plan=plan, arena=arena, rows=rows), omitted


def _fewer_operators(estimate: EstimateInfo | None) -> tuple[EstimateInfo | None, int]:
    if estimate is None:
        return None, 0
    kept = _largest([item.ms.value for item in estimate.operators])
    operators = tuple(estimate.operators[i] for i in kept)
    return replace(estimate, operators=operators), len(estimate.operators) - len(kept)


def _fewer_buffers(plan: PlanInfo | None) -> tuple[PlanInfo | None, int]:
    if plan is None:
        return None, 0
    position = None if plan.peak is None else max(plan.peak.position, 0)

    def fewer(items: tuple[PlannedTensor, ...]) -> tuple[PlannedTensor, ...]:
        live = [position is not None and item.first_op <= position <= item.last_op for item in items]
        return tuple(items[i] for i in _largest([(at, item.bytes) for at, item in zip(live, items, strict=True)]))

    shorter = replace(plan, tensors=fewer(plan.tensors), scratch=fewer(plan.scratch), sharing=None)
    count = len(plan.tensors) + len(plan.scratch) - len(shorter.tensors) - len(shorter.scratch)
    return shorter, count


def _fewer_entries(arena: ArenaInfo | None) -> tuple[ArenaInfo | None, int]:
    if arena is None:
        return None, 0
    kept = _largest([item.bytes for item in arena.breakdown])
    return replace(arena, breakdown=tuple(arena.breakdown[i] for i in kept)), len(arena.breakdown) - len(kept)


def _fewer_rows(rows: RowsInfo | None) -> tuple[RowsInfo | None, int]:
    if rows is None:
        return None, 0
    kept = _largest([item.most_rows * item.row_bytes for item in rows.tensors])
    return replace(rows, tensors=tuple(rows.tensors[i] for i in kept)), len(rows.tensors) - len(kept)


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

    Sources: Arm's Helium (M-Profile Vector Extension) guide for two beats of 32 bits per cycle, and the instruction
    descriptions of SMLAD and MLA in the Technical Reference Manuals of the Cortex-M4 and Cortex-M0+.
    """
    if core.mve:
        return 8, "Helium, two beats per cycle"
    if core.dsp:
        return 2, "two 16-bit products per SMLAD"
    if core.abi == "arm-eabi":
        return 1, "one product per instruction"
    return None, ""


def rows_view(problem: RowProblem, plan: RowPlan) -> RowsView:
    """Return the rows of a plan over time."""
    boxes = tuple(tuple(value for box in found for value in box) for found in row_boxes(problem, plan))
    scratch = _scratch(problem, plan)
    if sum(map(len, boxes)) // 4 + sum(len(item[3]) for item in scratch) // 2 > MAX_ROW_BOXES:
        boxes, scratch = (), ()
    return RowsView(plan.memory_bytes, len(plan.schedule), boxes, scratch)


def _scratch(problem: RowProblem, plan: RowPlan) -> tuple[tuple[int, int, int, tuple[int, ...]], ...]:
    runs: dict[int, list[int]] = {}
    for step, number in enumerate(plan.schedule):
        if plan.scratch[number] != NO_SCRATCH:
            steps = runs.setdefault(number, [])
            if steps and steps[-1] == step:
                steps[-1] = step + 1
            else:
                steps += [step, step + 1]
    return tuple(
        (number, problem.operators[number].scratch_bytes, plan.scratch[number], tuple(steps))
        for number, steps in sorted(runs.items())
    )
