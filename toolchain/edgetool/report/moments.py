"""An inference as a sequence of moments: which operator runs in each, how long it takes, and which bytes are in use.

In a plan of tensors, a moment is a position of the plan: an operator, or a call of a subgraph. In a plan of rows, it is
a step of the schedule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

import numpy as np

from edgetool.memory.lifetimes import called_subgraphs
from edgetool.memory.problem import ARENA_ALIGNMENT, aligned
from edgetool.memory.streaming.problem import RowPlan, RowProblem
from edgetool.model.edit import in_order
from edgetool.model.loops import subgraph_runs
from edgetool.model.types import Model
from edgetool.operators.registry import operator_costs
from edgetool.report.document import EstimateInfo, PlannedTensor, Report
from edgetool.report.rows_picture import row_boxes, scratch_runs

NS_PER_MS = 1e6
UNIT_NS = 1000.0  # of each call of an operator if the times are unknown
NATIVE_ALIGNMENT = 4


@dataclass(frozen=True, slots=True)
class Run:
    """An operator that runs from the moment `first` until before the moment `end`.

    operator: its index in the file, -1 for the application, which hands over or takes rows. calls: how many of its
    `of` calls or firings these are; the time of each is the same share of its time.
    """

    subgraph: int
    operator: int
    label: str
    first: int
    end: int
    calls: int = 1
    of: int = 1


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes of the arena that are in use from the moment `first` until before the moment `end`.

    They are never in use if both are equal. kind: "tensor", "scratch" or "rows". index: that of the tensor or, for
    scratch, of the operator; -1 for a tensor that only the plan has. reserved_bytes: the bytes with those that only the
    alignment takes.
    """

    kind: str
    name: str
    subgraph: int
    index: int
    offset: int
    bytes: int
    reserved_bytes: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Moments:
    """An inference. starts: when each moment starts, in nanoseconds, and the end of the last one.

    estimated: whether the times are estimates; otherwise, each call of an operator takes one unit. runs: in the order
    of their starts, an operator before those of the subgraphs that it calls.
    """

    starts: tuple[int, ...]
    estimated: bool
    runs: tuple[Run, ...]
    blocks: tuple[Block, ...]

    @property
    def count(self) -> int:
        """The number of moments."""
        return len(self.starts) - 1


def tensor_moments(report: Report, model: Model) -> Moments:
    """Return the moments of a plan of tensors, which the report contains, for the model of its file."""
    plan = report.plan
    assert plan is not None
    visits, count = _visits(in_order(model, plan.order))
    of = Counter((subgraph, operator) for subgraph, operator, _, _ in visits)
    labels = {
        (graph.index, operator.index): operator.label for graph in model.subgraphs for operator in graph.operators
    }
    runs = tuple(
        Run(subgraph, operator, labels[subgraph, operator], first, end, of=of[subgraph, operator])
        for subgraph, operator, first, end in visits
    )
    spent = [0.0] * count
    times, estimated = _times(report.estimate, of)
    for run in runs:
        spent[run.first] = times[run.subgraph, run.operator] / run.of
    granule = NATIVE_ALIGNMENT if report.is_native else ARENA_ALIGNMENT
    placed = [*(("tensor", item) for item in plan.tensors), *(("scratch", item) for item in plan.scratch)]
    blocks = tuple(_block(kind, item, granule, count) for kind, item in placed)
    return Moments(_starts(spent), estimated, runs, blocks)


def row_moments(report: Report, model: Model, problem: RowProblem, plan: RowPlan, operators: Sequence[int]) -> Moments:
    """Return the moments of a plan of rows.

    Args:
        report: The report on the plan, with its estimate.
        model: The model of the report's file.
        problem: The rows.
        plan: Where they are, and when.
        operators: The model's operator of each operator of the problem, -1 for the application.
    """
    labels = {operator.index: operator.label for operator in model.main.operators}
    steps = [operators[number] for number in plan.schedule]
    firings = Counter(steps)
    times, estimated = _times(report.estimate, {(0, operator): count for operator, count in firings.items()})
    spent = [times[0, operator] / firings[operator] if operator >= 0 else 0.0 for operator in steps]
    runs: list[Run] = []
    for (operator, number), group in groupby(enumerate(plan.schedule), lambda item: (operators[item[1]], item[1])):
        places = [step for step, _ in group]
        label = labels[operator] if operator >= 0 else problem.operators[number].name
        runs.append(Run(0, operator, label, places[0], places[-1] + 1, len(places), firings[operator]))
    blocks = [
        Block("rows", tensor.name, 0, tensor.tensor, offset, end - offset, end - offset, first, until)
        for tensor, boxes in zip(problem.tensors, row_boxes(problem, plan), strict=True)
        for first, until, offset, end in boxes
    ]
    label_of = {plan.schedule[run.first]: run.label for run in runs}
    for (number, offset), found in scratch_runs(problem, plan).items():
        size_bytes = problem.operators[number].scratch_bytes
        size = size_bytes, aligned(size_bytes, NATIVE_ALIGNMENT)
        blocks += [Block("scratch", label_of[number], 0, operators[number], offset, *size, *run) for run in found]
    return Moments(_starts(spent), estimated, tuple(runs), tuple(blocks))


def bytes_in_use(moments: Moments) -> tuple[int, ...]:
    """Return the bytes of the arena that are in use in each moment; bytes that several blocks share count once."""
    blocks = [block for block in moments.blocks if block.first < block.end and block.reserved_bytes]
    edges = np.unique([edge for block in blocks for edge in (block.offset, block.offset + block.reserved_bytes)])
    sizes = np.diff(edges)
    users = np.zeros(len(sizes), dtype=np.int64)
    changes: list[list[tuple[int, Block]]] = [[] for _ in range(moments.count + 1)]
    for block in blocks:
        changes[block.first].append((1, block))
        changes[block.end].append((-1, block))
    used, result = 0, []
    for change in changes[:-1]:
        for sign, block in change:
            low, high = np.searchsorted(edges, (block.offset, block.offset + block.reserved_bytes))
            before = users[low:high] > 0
            users[low:high] += sign
            used += sign * int(sizes[low:high][before != (users[low:high] > 0)].sum())
        result.append(used)
    return tuple(result)


def arena_bytes(moments: Moments) -> dict[tuple[int, int], int]:
    """Return the most bytes that are in use while each (subgraph, operator) runs."""
    in_use = bytes_in_use(moments)
    most: dict[tuple[int, int], int] = {}
    for run in moments.runs:
        key = run.subgraph, run.operator
        most[key] = max(most.get(key, 0), *in_use[run.first : run.end])
    return most


def moves_bytes(report: Report) -> bool:
    """Return whether the times are those of moving bytes, because the target is only described by its bandwidth."""
    return report.estimate is not None and report.estimate.latency_ms is None


def operator_macs(report: Report, model: Model) -> dict[tuple[int, int], int]:
    """Return the multiply-accumulates of each (subgraph, operator) in an inference, also without an estimate."""
    if report.estimate is None:
        runs = subgraph_runs(model)
        return {
            (item.subgraph, item.index): item.macs * (1 if (times := runs[item.subgraph]) is None else times)
            for item in operator_costs(model)
        }
    return {(item.subgraph, item.index): item.macs for item in report.estimate.operators}


def _visits(model: Model) -> tuple[list[tuple[int, int, int, int]], int]:
    """Return each call of an operator as (subgraph, operator, first position, end), and the number of positions.

    Positions are those of memory/lifetimes.py, which has rejected models whose subgraphs call each other in a cycle.
    """
    visits: list[tuple[int, int, int, int]] = []

    def visit(subgraph: int, position: int) -> int:
        for operator in model.subgraphs[subgraph].operators:
            first, place = position, len(visits)
            position += 1
            visits.append((subgraph, operator.index, first, position))
            for called in called_subgraphs(operator):
                position = visit(called, position + 1)
            visits[place] = (subgraph, operator.index, first, position)
        return position

    return visits, visit(0, 0)


def _times(
    estimate: EstimateInfo | None, calls: Mapping[tuple[int, int], int]
) -> tuple[dict[tuple[int, int], float], bool]:
    """Return the nanoseconds of all calls of each operator, and whether they are estimates."""
    known = {} if estimate is None else {(item.subgraph, item.index): item.ms.value for item in estimate.operators}
    if any(known.get(key) for key in calls):
        return {key: known.get(key, 0.0) * NS_PER_MS for key in calls}, True
    return {key: UNIT_NS * count for key, count in calls.items()}, False


def _starts(spent: Sequence[float]) -> tuple[int, ...]:
    """Return when each moment starts, and the end of the last one.

    Each takes at least a nanosecond: Perfetto stacks slices that take no time, and drops those of a high stack.
    """
    starts = [0]
    for end in accumulate(spent):
        starts.append(max(round(end), starts[-1] + 1))
    return tuple(starts)


def _block(kind: str, item: PlannedTensor, granule: int, count: int) -> Block:
    """Return a buffer whose last position may be behind the last operator, or before the first one: -1."""
    size = item.bytes, aligned(item.bytes, granule)
    first, end = max(0, item.first_op), min(item.last_op + 1, count)
    return Block(kind, item.name, item.subgraph, item.index, item.offset, *size, min(first, end), end)
