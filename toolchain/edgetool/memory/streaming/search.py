"""Better schedules than those of segments: a search for the firings of operators around the peak, in any sequence.

A window is a run of operators between two moments at which no operator is half done. Within it, the search looks for a
sequence of firings with a lower peak of live bytes. States are the numbers of firings done; those with the lowest peak
so far, and of these the ones with the most work done, are continued first. Two observations keep their number small,
because live bytes are a submodular function of the firings done:

- A firing that does not raise the live bytes, within the peak so far, can come at once.
- After firings that end at no more live bytes than they started from, no other state need be continued.

Firings that overlap what they read may need less in another sequence, so that the search is not exact for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import accumulate

from edgetool.memory.problem import never
from edgetool.memory.streaming.problem import RowProblem
from edgetool.memory.streaming.schedule import RowSchedule, live_bytes, saving

NODES_PER_OPERATOR = 40  # states to continue in all windows together
NODES, MOST_NODES = 4_000, 12_000  # at least, and at most
FIRST_NODES = 200  # for one window and one peak at first
MORE = 5  # times as many when all windows have been tried
MAX_WINDOW = 160  # operators
# The peaks that are allowed from the start, as shares of the distance from the present one to the bound. With the first
# one the search is exact; the others are easier to stay below.
SHARES = (1.0, 0.5, 0.2)
GIVEN, KEPT = -1, 1 << 60  # numbers of operators that precede and follow all others


def improved_schedule(
    problem: RowProblem,
    schedule: RowSchedule,
    bound: int,
    *,
    most_weights: int | None = None,
    nodes: int | None = None,
    stopped: Callable[[], bool] = never,
) -> RowSchedule:
    """Return a schedule with a lower peak than one of segments; the same one if none is found.

    Args:
        problem: What is to be planned.
        schedule: Segments of its operators, in the order of the problem.
        bound: No schedule has a lower peak.
        most_weights: The bytes of constants of all operators in a segment at most, if it has several; None for any.
        nodes: The states to continue at most; by default, some for each operator.
        stopped: Whether to return the best schedule so far.
    """
    if problem.sequential or not schedule.steps:
        return schedule
    best = schedule
    if nodes is None:
        nodes = min(max(NODES, NODES_PER_OPERATOR * len(problem.operators)), MOST_NODES)
    needs = live_bytes(problem, schedule.steps)
    rows = _Rows.of(problem)
    known: dict[tuple[int, int], _Window] = {}
    while (peak := max(needs)) > bound and nodes > 0 and not stopped():
        windows = _windows(problem, schedule, schedule.steps[needs.index(peak)], most_weights)
        window, steps, used = _lower(problem, rows, windows, bound, peak, nodes, stopped, known)
        nodes -= used
        if not steps:
            break
        schedule = _with_steps(problem, schedule, window, steps)
        needs = live_bytes(problem, schedule.steps)
        if max(needs) < best.peak_bytes:
            best = replace(schedule, peak_bytes=max(max(needs), _given_bytes(problem)))
    return best


def _windows(
    problem: RowProblem, schedule: RowSchedule, operator: int, most_weights: int | None
) -> list[tuple[int, int]]:
    """Return the segment of an operator, and more and more segments around it, as far as one segment may reach."""
    ends = [*schedule.cuts[1:], len(problem.operators)]
    segment = next(i for i, end in enumerate(ends) if operator < end)
    windows: list[tuple[int, int]] = []
    widened = 0
    while not windows or windows[-1] != (0, len(problem.operators)):
        start, end = schedule.cuts[max(0, segment - widened)], ends[min(len(ends) - 1, segment + widened)]
        weights = sum(item.weight_bytes for item in problem.operators[start:end])
        is_heavy = most_weights is not None and weights > most_weights
        if windows and (is_heavy or end - start > MAX_WINDOW):
            break
        windows.append((start, end))
        widened = 2 * widened + 1
    return windows


def _lower(
    problem: RowProblem,
    rows: _Rows,
    windows: Sequence[tuple[int, int]],
    bound: int,
    peak: int,
    nodes: int,
    stopped: Callable[[], bool],
    known: dict[tuple[int, int], _Window],
) -> tuple[tuple[int, int], list[int], int]:
    """Return firings of one of the windows with a lower peak, none if none are found, and the states continued.

    known: the networks of windows so far, to which new ones are added.
    """
    used = 0
    at_once = FIRST_NODES
    waiting = list(windows)
    while waiting and used < nodes:
        unknown = []
        for window in waiting:
            if window not in known:
                known[window] = _Window(problem, rows, *window)
            network = known[window]
            for share in SHARES:
                floor = peak - max(1, int(share * (peak - bound)))
                result = network.search(floor, peak, min(at_once, nodes - used), stopped)
                used += result.nodes
                if result.steps:
                    return window, result.steps, used
                if result.is_exhausted or used >= nodes or stopped():
                    break
            if not result.is_exhausted:
                unknown.append(window)
            if used >= nodes or stopped():
                return window, [], used
        waiting = unknown
        at_once *= MORE
    return windows[0], [], used


def _with_steps(
    problem: RowProblem, schedule: RowSchedule, window: tuple[int, int], steps: Sequence[int]
) -> RowSchedule:
    """Return a schedule with other steps of the operators in a window."""
    firings = [len(operator.firings) for operator in problem.operators]
    before = sum(firings[: window[0]])
    cuts = [cut for cut in schedule.cuts if cut <= window[0] or cut >= window[1]]
    # A segment ends where the operators that have begun are the first ones, and complete.
    total = accumulate(firings[window[0] : window[1]])
    ends = {count: window[0] + i for i, count in enumerate(total, 1)}
    highest = -1
    for done, operator in enumerate(steps, 1):
        highest = max(highest, operator)
        if done < len(steps) and ends.get(done) == highest + 1:
            cuts.append(highest + 1)
    whole = (*schedule.steps[:before], *steps, *schedule.steps[before + len(steps) :])
    return RowSchedule(whole, schedule.peak_bytes, tuple(sorted({*cuts})))


def _given_bytes(problem: RowProblem) -> int:
    sizes = problem.row_sizes()
    return sum(sizes[row] for row in problem.given_rows())


@dataclass(frozen=True, slots=True)
class _Result:
    """The operators that fire at each step, none if no better ones are found; states continued; if none is left."""

    steps: list[int]
    nodes: int
    is_exhausted: bool


_State = tuple[int, ...]  # how many firings of each operator are done
_Ends = tuple[tuple[int, int], ...]  # operators, and how many of their firings must be done


@dataclass(frozen=True, slots=True)
class _Move:
    """A firing.

    Attributes:
        needs: What must be done before it, besides the operator's earlier firings.
        created: The bytes of rows that only it creates.
        shared: The sizes of rows that others may have created before, with those that do.
        dying: The bytes of rows whose last reader it always is.
        last: The sizes of rows whose last reader it may be, with what must be done for that.
        scratch: Bytes.
        overlaps: The bytes that it saves if a row dies, the most first, and what must be done for that.
    """

    needs: _Ends
    created: int
    shared: tuple[tuple[int, _Ends], ...]
    dying: int
    last: tuple[tuple[int, _Ends], ...]
    scratch: int
    overlaps: tuple[tuple[int, _Ends], ...]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The size of each row, and what writes and uses it.

    Attributes:
        sizes: Bytes.
        first: The first operator that writes each, GIVEN if it is there before all.
        last: The last one that reads or writes it, KEPT if it is there behind all.
        writers: The operators that write it, with the numbers of their first and last firing that do, from 1 on.
        users: The number of the last firing of each operator that reads or writes it.
    """

    sizes: list[int]
    first: list[int]
    last: list[int]
    writers: list[list[tuple[int, int, int]]]
    users: list[dict[int, int]]

    @classmethod
    def of(cls, problem: RowProblem) -> _Rows:
        """Return the rows of a problem."""
        first, last = [KEPT] * problem.row_count, [GIVEN] * problem.row_count
        writers: list[list[tuple[int, int, int]]] = [[] for _ in first]
        users: list[dict[int, int]] = [{} for _ in first]
        for number, operator in enumerate(problem.operators):
            for count, firing in enumerate(operator.firings, 1):
                for row in firing.writes:
                    first[row] = min(first[row], number)
                    items = writers[row]
                    if items and items[-1][0] == number:
                        items[-1] = number, items[-1][1], count
                    else:
                        items.append((number, count, count))
                for row in (*firing.reads, *firing.writes):
                    users[row][number] = count
                    last[row] = number
        for row in problem.given_rows():
            first[row] = GIVEN
        for index, tensor in enumerate(problem.tensors):
            if tensor.kept:
                for row in problem.rows_of(index):
                    last[row] = KEPT
        return cls(problem.row_sizes(), first, last, writers, users)


class _Window:
    """The operators from `start` up to `end`, before which all earlier ones are complete.

    Its operators are numbered from 0 on. What a firing does is found when the search first comes to it.
    """

    def __init__(self, problem: RowProblem, rows: _Rows, start: int, end: int) -> None:
        self._rows, self._start, self._end = rows, start, end
        self._operators = problem.operators[start:end]
        lives = zip(rows.sizes, rows.first, rows.last, strict=True)
        self._live = sum(size for size, first, last in lives if first < start <= last)
        self._full = tuple(len(operator.firings) for operator in self._operators)
        are_writing = [any(firing.writes for firing in item.firings) for item in self._operators]
        self._taking = {number for number, is_writing in enumerate(are_writing) if not is_writing}
        self._known_moves: list[list[_Move | None]] = [[None] * count for count in self._full]
        self._known_affected: list[set[int]] = [set() for _ in self._full]

    def _affected(self, number: int) -> set[int]:
        """Return an operator, and those that use what it writes."""
        affected = self._known_affected[number]
        if not affected:
            affected.add(number)
            for row in dict.fromkeys(row for firing in self._operators[number].firings for row in firing.writes):
                affected.update(self._users(row))
        return affected

    def _users(self, row: int) -> dict[int, int]:
        """Return the last firing of each operator that uses a row."""
        start, end = self._start, self._end
        return {number - start: count for number, count in self._rows.users[row].items() if start <= number < end}

    def _writers(self, row: int) -> list[tuple[int, int, int]]:
        """Return the operators that write a row, and their first and last firings that do."""
        start, end = self._start, self._end
        return [(item - start, first, last) for item, first, last in self._rows.writers[row] if start <= item < end]

    def _move(self, number: int, done: int) -> _Move:
        """Return what an operator's next firing does, which is known from then on."""
        rows, sizes, firing, count = self._rows, self._rows.sizes, self._operators[number].firings[done], done + 1
        needs: dict[int, int] = {}
        for row in firing.reads:
            for other, _, last in self._writers(row):
                if other != number and rows.first[row] != GIVEN:
                    needs[other] = max(last, needs.get(other, 0))
        created, shared = 0, []
        for row in firing.writes:
            writers = self._writers(row)
            if rows.first[row] < self._start or not any(item[:2] == (number, count) for item in writers):
                continue
            others = tuple((other, first) for other, first, _ in writers if other != number)
            if others:
                shared.append((sizes[row], others))
            else:
                created += sizes[row]
        dying, last_of = 0, {}
        for row in {*firing.reads, *firing.writes}:
            if rows.last[row] < self._end and rows.users[row][self._start + number] == count:
                ends = tuple((other, at) for other, at in self._users(row).items() if other != number)
                last_of[row] = ends
                dying += 0 if ends else sizes[row]
        new = created + sum(size for size, _ in shared)
        savings = sorted(
            ((saving(sizes[row], new, distance), last_of[row]) for row, distance in firing.overlaps if row in last_of),
            key=lambda item: (-item[0], item[1]),
        )
        move = self._known_moves[number][done] = _Move(
            tuple(needs.items()),
            created,
            tuple(shared),
            dying,
            tuple((sizes[row], ends) for row, ends in last_of.items() if ends),
            firing.scratch_bytes,
            tuple(item for item in savings if item[0]),
        )
        return move

    def search(self, floor: int, limit: int, nodes: int, stopped: Callable[[], bool]) -> _Result:
        """Look for firings with the lowest peak, at least `floor`, below the limit."""
        first = tuple(0 for _ in self._full)
        fired: list[int] = []
        ready = [number for number in range(len(first)) if self._is_ready(first, number)]
        state, live, steps = self._eager(first, self._live, floor, ready, fired)
        # How each state was reached with the lowest peak: from which one, and by which firings.
        origins: dict[_State, tuple[_State | None, list[int]]] = {state: (None, fired)}
        peaks = {state: floor}
        waiting = [(floor, -sum(state), state, live, steps)]
        base = live
        count = 0
        while waiting:
            peak, _, state, live, steps = heappop(waiting)
            if state == self._full:
                return _Result(self._path(origins, state), count, False)
            if peak > peaks[state]:
                continue
            if count >= nodes or stopped():
                return _Result([], count, False)
            count += 1
            if live <= base and waiting:
                # They may be reached again from this state.
                for item in waiting:
                    peaks.pop(item[2], None)
                waiting.clear()
            base = min(base, live)
            ready = [number for number, _, _ in steps]
            for number, need, after in steps:
                highest = max(peak, need)
                if highest >= limit:
                    continue
                fired = [number]
                then = (*state[:number], state[number] + 1, *state[number + 1 :])
                following = self._following(then, ready, number)
                then, after, following_steps = self._eager(then, after, highest, following, fired)
                if then not in peaks or highest < peaks[then]:
                    origins[then], peaks[then] = (state, fired), highest
                    heappush(waiting, (highest, -sum(then), then, after, following_steps))
        return _Result([], count, True)

    def _path(self, origins: dict[_State, tuple[_State | None, list[int]]], state: _State) -> list[int]:
        parts = []
        origin: _State | None = state
        while origin is not None:
            origin, fired = origins[origin]
            parts.append(fired)
        return [self._start + number for fired in reversed(parts) for number in fired]

    def _is_ready(self, state: Sequence[int], number: int) -> bool:
        done = state[number]
        if done == self._full[number]:
            return False
        move = self._known_moves[number][done] or self._move(number, done)
        return _are_done(state, move.needs)

    def _following(self, state: Sequence[int], ready: Sequence[int], number: int) -> list[int]:
        """Return the operators that can fire after one has."""
        affected = self._affected(number)
        able = [item for item in affected if self._is_ready(state, item)]
        # What the application takes, it takes at once.
        taking = [item for item in able if item in self._taking] if self._taking else []
        return [*taking, *(item for item in ready if item not in affected), *(i for i in able if i not in taking)]

    def _step(self, state: Sequence[int], live: int, number: int) -> tuple[int, int]:
        """Return the bytes that a firing needs, and those that are live after it."""
        move = self._known_moves[number][state[number]] or self._move(number, state[number])
        new = move.created
        for size, others in move.shared:
            if not any(state[other] >= count for other, count in others):
                new += size
        saved = 0
        if new:
            for size, ends in move.overlaps:
                if _are_done(state, ends):
                    saved = min(size, new)
                    break
        dying = move.dying
        for size, ends in move.last:
            if _are_done(state, ends):
                dying += size
        return live + new + move.scratch - saved, live + new - dying

    def _eager(
        self, start: _State, live: int, peak: int, ready: list[int], fired: list[int]
    ) -> tuple[_State, int, list[tuple[int, int, int]]]:
        """Fire, within a peak, all that does not raise the live bytes.

        Returns:
            The state, its live bytes, and what can fire then: the operator, the bytes that its firing needs, and those
            that are live after it.
        """
        state, waiting = list(start), ready
        steps: list[tuple[int, int, int]] = []
        while len(steps) < len(waiting):
            number = waiting[len(steps)]
            need, after = self._step(state, live, number)
            if after > live or need > peak:
                steps.append((number, need, after))
                continue
            state[number] += 1
            live = after
            fired.append(number)
            waiting = self._following(state, waiting, number)
            steps.clear()
        return tuple(state), live, steps


def _are_done(state: Sequence[int], ends: _Ends) -> bool:
    """Return whether as many firings of operators are done in a state."""
    for other, count in ends:  # noqa: SIM110  # a generator takes several times as long as most of these loops
        if state[other] < count:
            return False
    return True
