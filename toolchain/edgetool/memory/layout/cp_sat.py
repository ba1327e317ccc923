"""The last stage: OR-Tools CP-SAT on what the search left open, from its layout and between its bounds.

Optional: the extra `cp-sat` brings OR-Tools. The model packs rectangles, fixed in time and free in height.
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgetool.errors import InternalError, MissingExtraError
from edgetool.memory.layout.instance import Instance, height
from edgetool.memory.problem import Effort

if TYPE_CHECKING:
    from concurrent.futures import Future

# CP-SAT's own clock counts work, and is the same on every machine: one second of it takes 1 to 10 seconds of CPU time,
# about as long as so many nodes of the search.
NODES_PER_DETERMINISTIC_SECOND = 150_000
# Rows that say "these are alive together, so none overlap" repeat the 2-D constraint; they help until they are many.
MAX_CLIQUE_ENTRIES = 200_000
# CP-SAT tells its bound as a float: heights of more units, at which floats are no longer exact, are not given to it.
MAX_HEIGHT = 2**50
# More pieces than this take seconds and gigabytes before the search even begins, and cannot be stopped on the way.
MAX_PIECES = 20_000
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class CpSatResult:
    """The best offsets known, what no layout can beat, both in the instance's units, and whether the two meet.

    nodes: how many nodes of the search would have taken as long.
    """

    offsets: tuple[int, ...]
    lower_bound: int
    proven: bool
    nodes: int = 0


def available() -> bool:
    """Whether OR-Tools is installed."""
    return importlib.util.find_spec("ortools") is not None


def require_available() -> None:
    """Raise MissingExtraError when OR-Tools is not installed."""
    if not available():
        raise MissingExtraError("OR-Tools is not installed", fix="pip install 'edgetool[cp-sat]'")


def close_gap(
    instance: Instance, offsets: tuple[int, ...], lower_bound: int, effort: Effort, *, capacity: int | None = None
) -> CpSatResult:
    """Search between the lower bound and the height of `offsets`, a valid layout, for a lower one or a proof.

    capacity: any layout that is no higher, in units, will do; the search stops at it.
    effort: one worker and a deterministic limit make the result the same in every run, as long as effort.stop() says
    nothing: 150,000 nodes of effort.node_limit are one second of CP-SAT's deterministic time. effort.stop() is asked
    every 20 ms, from the thread of the caller, and ends the search with the best so far. So does an exception in that
    thread, KeyboardInterrupt among them, which is then passed on.

    Instances beyond MAX_PIECES or MAX_HEIGHT come back as they are. Raises MissingExtraError without OR-Tools, and
    InternalError when `offsets` and the lower bound contradict.
    """
    known = height(instance, offsets)
    goal = max(lower_bound, min(capacity or 0, known))
    if known <= goal or known > MAX_HEIGHT or len(offsets) > MAX_PIECES or effort.stop():
        return CpSatResult(offsets, lower_bound, known <= lower_bound)
    require_available()
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    starts = _model(cp_model, model, instance, offsets, goal, known)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = effort.seed % 2**31
    # Its own handler would hide Ctrl-C from the program that set one, and from Effort.stop.
    solver.parameters.catch_sigint_signal = False
    if effort.node_limit is not None:
        solver.parameters.max_deterministic_time = effort.node_limit / NODES_PER_DETERMINISTIC_SECOND
    status = _run(solver, model, effort)
    if status in (cp_model.INFEASIBLE, cp_model.MODEL_INVALID):
        raise InternalError(
            f"CP-SAT returned {solver.status_name(status)} for a layout of height {known} with the lower bound "
            f"{lower_bound}",
            fix="please report this and attach the buffers",
        )
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found = tuple(int(solver.value(start)) for start in starts)
        if height(instance, found) < known:
            offsets, known = found, height(instance, found)
        # The bound of a search that may stop at the capacity says nothing below it.
        bound = known if status == cp_model.OPTIMAL else math.ceil(solver.best_objective_bound - 1e-6)
        if bound > goal:
            lower_bound = max(lower_bound, min(bound, known))
    nodes = math.ceil(NODES_PER_DETERMINISTIC_SECOND * solver.response_proto.deterministic_time)
    return CpSatResult(offsets, lower_bound, known <= lower_bound, nodes)


def _model(cp_model: Any, model: Any, instance: Instance, offsets: tuple[int, ...], goal: int, known: int) -> list[Any]:
    """State the problem: a height from goal to the known one, the least; returns the offsets as expressions."""
    top = model.new_int_var(goal, known, "")
    starts, spans, times = [], [], []
    for first, last, size, alignment, pin, offset in zip(
        instance.first, instance.last, instance.sizes, instance.alignments, instance.pins, offsets, strict=True
    ):
        if pin >= 0:
            start: Any = cp_model.LinearExpr.sum([pin])
        else:
            step = model.new_int_var(0, (known - size) // alignment, "")
            model.add_hint(step, offset // alignment)
            start = alignment * step
        model.add(start + size <= top)
        starts.append(start)
        spans.append(model.new_fixed_size_interval_var(start, size, ""))
        times.append(model.new_fixed_size_interval_var(first, last - first + 1, ""))
    model.add_no_overlap_2d(times, spans)
    if sum(last - first + 1 for first, last in zip(instance.first, instance.last, strict=True)) <= MAX_CLIQUE_ENTRIES:
        alive: list[list[Any]] = [[] for _ in range(instance.sections)]
        for first, last, span in zip(instance.first, instance.last, spans, strict=True):
            for section in range(first, last + 1):
                alive[section].append(span)
        for clique in alive:
            model.add_no_overlap(clique)
    model.add_hint(top, known)
    model.minimize(top)
    return starts


def _run(solver: Any, model: Any, effort: Effort) -> Any:
    """Solve in a thread of its own: this one stays free to ask effort.stop(), and to take signals."""
    from concurrent.futures import ThreadPoolExecutor, wait  # imported on use: it is slow to import

    with ThreadPoolExecutor(max_workers=1) as pool:
        running: Future[Any] = pool.submit(solver.solve, model)
        try:
            while not wait([running], timeout=POLL_SECONDS).done:
                if effort.stop():
                    # Again and again: a search that has not begun cannot be stopped.
                    solver.stop_search()
        except BaseException:
            while not wait([running], timeout=POLL_SECONDS).done:
                solver.stop_search()
            raise
        return running.result()
