"""The last stage: OR-Tools CP-SAT, between the bound and the layout of the earlier stages.

Optional: the extra `cp-sat` installs OR-Tools. The model packs rectangles whose times are fixed and whose offsets are
variables. If buffers may overlap, it chooses which buffer of each pair is above the other instead.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgetool.errors import InternalError, MissingExtraError
from edgetool.memory.layout.greedy import neighbours, pairs
from edgetool.memory.layout.instance import Instance, layout_peak
from edgetool.memory.problem import Effort

if TYPE_CHECKING:
    from concurrent.futures import Future

# CP-SAT's deterministic time counts operations, and is the same on every machine: one second of it takes 1 to 10
# seconds of CPU time, about as long as this number of search nodes.
NODES_PER_DETERMINISTIC_SECOND = 150_000
# The constraints that the buffers of one clique do not overlap are implied by the 2-D constraint; up to this number of
# entries, they make the search faster.
MAX_CLIQUE_ENTRIES = 200_000
# CP-SAT reports its bound as a float: peaks beyond this number of units are not passed to it, because floats are no
# longer exact.
MAX_PEAK = 2**50
# With more buffers, CP-SAT takes seconds and gigabytes before its search begins, and cannot be stopped during that
# time.
MAX_BUFFERS = 20_000
# The same for the pairs of an instance with overlaps.
MAX_PAIRS = 60_000
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class CpSatResult:
    """The best offsets and the lower bound, both in the instance's units, and whether the offsets are proven optimal.

    nodes: the number of search nodes that would have taken as long.
    """

    offsets: tuple[int, ...]
    lower_bound: int
    proven: bool
    nodes: int = 0


def available() -> bool:
    """Return whether OR-Tools is installed."""
    return importlib.util.find_spec("ortools") is not None


def require_available() -> None:
    """Raise MissingExtraError if OR-Tools is not installed."""
    if not available():
        raise MissingExtraError("OR-Tools is not installed", fix="pip install 'edgetool[cp-sat]'")


def close_gap(
    instance: Instance, offsets: tuple[int, ...], lower_bound: int, effort: Effort, *, capacity: int | None = None
) -> CpSatResult:
    """Search for a layout between the lower bound and the peak of `offsets`, a valid layout, or for a proof.

    capacity: the search stops at any layout whose peak is at most this, in units. effort: with one worker and a
    deterministic limit, the result is the same in every run, as long as effort.stop() returns False: 150,000 nodes of
    effort.node_limit are one second of CP-SAT's deterministic time. effort.stop() is called every 20 ms, from the
    caller's thread, and ends the search with the best result so far. So does an exception in that thread, such as
    KeyboardInterrupt, which is then raised again.

    Instances that exceed MAX_BUFFERS, MAX_PEAK or MAX_PAIRS are returned unchanged. Raises MissingExtraError without
    OR-Tools, and InternalError if `offsets` and the lower bound contradict each other.
    """
    peak = layout_peak(instance, offsets)
    goal = max(lower_bound, min(capacity or 0, peak))
    is_large = len(offsets) > MAX_BUFFERS or (instance.overlaps and pairs(instance) > MAX_PAIRS)
    if peak <= goal or peak > MAX_PEAK or is_large or effort.stop():
        return CpSatResult(offsets, lower_bound, peak <= lower_bound)
    require_available()
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    starts = _build_model(cp_model, model, instance, offsets, goal, peak)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = effort.seed % 2**31
    # CP-SAT's handler would hide Ctrl-C from the program's own one, and from Effort.stop.
    solver.parameters.catch_sigint_signal = False
    if effort.node_limit is not None:
        solver.parameters.max_deterministic_time = effort.node_limit / NODES_PER_DETERMINISTIC_SECOND
    status = _run(solver, model, effort)
    if status in (cp_model.INFEASIBLE, cp_model.MODEL_INVALID):
        raise InternalError(
            f"CP-SAT returned {solver.status_name(status)} for a layout of height {peak} with the lower bound "
            f"{lower_bound}",
            fix="please report this and attach the buffers",
        )
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        solution = tuple(int(solver.value(start)) for start in starts)
        if layout_peak(instance, solution) < peak:
            offsets, peak = solution, layout_peak(instance, solution)
        # The objective is limited to the capacity, so the solver's bound proves nothing below it.
        bound = peak if status == cp_model.OPTIMAL else math.ceil(solver.best_objective_bound - 1e-6)
        if bound > goal:
            lower_bound = max(lower_bound, min(bound, peak))
    nodes = math.ceil(NODES_PER_DETERMINISTIC_SECOND * solver.response_proto.deterministic_time)
    return CpSatResult(offsets, lower_bound, peak <= lower_bound, nodes)


def _build_model(
    cp_model: Any, model: Any, instance: Instance, offsets: tuple[int, ...], goal: int, peak: int
) -> list[Any]:
    """Add a peak between `goal` and `peak` to the model, to be minimized; return the offsets as expressions."""
    top = model.new_int_var(goal, peak, "")
    starts, spans, times = [], [], []
    for first, last, size, alignment, pin, offset in zip(
        instance.first, instance.last, instance.sizes, instance.alignments, instance.pins, offsets, strict=True
    ):
        if pin >= 0:
            start: Any = cp_model.LinearExpr.sum([pin])
        else:
            step = model.new_int_var(0, (peak - size) // alignment, "")
            model.add_hint(step, offset // alignment)
            start = alignment * step
        model.add(start + size <= top)
        starts.append(start)
        spans.append(model.new_fixed_size_interval_var(start, size, ""))
        times.append(model.new_fixed_size_interval_var(first, last - first + 1, ""))
    if instance.overlaps:
        _require_distances(model, instance, starts)
    else:
        model.add_no_overlap_2d(times, spans)
    if sum(last - first + 1 for first, last in zip(instance.first, instance.last, strict=True)) <= MAX_CLIQUE_ENTRIES:
        for clique in _disjoint_cliques(instance):
            model.add_no_overlap([spans[i] for i in clique])
    model.add_hint(top, peak)
    model.minimize(top)
    return starts


def _require_distances(model: Any, instance: Instance, starts: Sequence[Any]) -> None:
    """Add a choice for each pair of live buffers: either may be above the other, at the distance that this requires."""
    sizes, distances = instance.sizes, instance.distances
    for i, row in enumerate(neighbours(instance, MAX_PAIRS) or ()):
        for j in row:
            above, below = distances.get((i, j), sizes[j]), distances.get((j, i), sizes[i])
            if i < j and above + below > 1:
                is_above = model.new_bool_var("")
                model.add(starts[i] - starts[j] >= above).only_enforce_if(is_above)
                model.add(starts[j] - starts[i] >= below).only_enforce_if(is_above.negated())


def _disjoint_cliques(instance: Instance) -> list[list[int]]:
    """Return the buffers of each clique; of those that may overlap, the first of each pair."""
    may_overlap: dict[int, set[int]] = {}
    for i, j, _ in instance.overlaps:
        may_overlap.setdefault(max(i, j), set()).add(min(i, j))
    alive: list[list[int]] = [[] for _ in range(instance.clique_count)]
    for i, (first, last) in enumerate(zip(instance.first, instance.last, strict=True)):
        for clique in range(first, last + 1):
            if may_overlap.get(i, set()).isdisjoint(alive[clique]):
                alive[clique].append(i)
    return alive


def _run(solver: Any, model: Any, effort: Effort) -> Any:
    """Solve in a separate thread, so that this one can call effort.stop() and receive signals."""
    from concurrent.futures import ThreadPoolExecutor, wait  # imported on use: it is slow to import

    with ThreadPoolExecutor(max_workers=1) as pool:
        running: Future[Any] = pool.submit(solver.solve, model)
        try:
            while not wait([running], timeout=POLL_SECONDS).done:
                if effort.stop():
                    # Repeated, because a search that has not begun cannot be stopped.
                    solver.stop_search()
        except BaseException:
            while not wait([running], timeout=POLL_SECONDS).done:
                solver.stop_search()
            raise
        return running.result()
