"""The problem of ordering operators, and the cost of an order, straight from the definition.

The searches are tested against this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from edgetool.errors import InvalidModelError, UsageError
from edgetool.memory.problem import Proof


@dataclass(frozen=True, slots=True)
class OrderProblem:
    """Operators to order, by index in their original order, and the tensors between them, by index.

    sizes: bytes of each tensor. reads and writes: the tensors of each operator; an operator runs after those that write
    its inputs. after: other operators that must run before each one (state). scratch: bytes that an operator needs
    besides its tensors while it runs; negative if its tensors share bytes. inputs are live from before the first
    operator to their last reader (an input without a reader: at no operator). outputs are live from their writer to the
    end. Tensors that are read but never written, and are not inputs, are live from before the first operator.
    """

    sizes: tuple[int, ...]
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    scratch: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OrderResult:
    """An order of the operators, and its maximum live bytes.

    lower_bound holds for every order; proof is how optimality was established.
    """

    order: tuple[int, ...]
    peak_bytes: int
    lower_bound: int
    proof: Proof

    @property
    def optimal(self) -> bool:
        """Whether no order has a lower peak."""
        return self.proof != "none"


def dependencies(problem: OrderProblem) -> tuple[frozenset[int], ...]:
    """Return the operators that must run before each one.

    A reader runs after the writer of its input. If a tensor has several writers, or has a value before the first
    operator, writers and readers keep their original order relative to each other: each reader gets the same value as
    in the original order. A reader that precedes every writer of a tensor without an initial value can only mean the
    last one's value: it runs after all of them.
    """
    before: list[set[int]] = [set(after) for after in problem.after]
    inputs = frozenset(problem.inputs)
    writers, readers = _writers(problem), _readers(problem)
    for tensor, written_by in writers.items():
        for earlier, later in pairwise(written_by):
            before[later].add(earlier)
        for reader in readers.get(tensor, ()):
            if reader in written_by:
                continue
            earlier_writers = [writer for writer in written_by if writer < reader]
            if earlier_writers or tensor in inputs:
                before[reader].update(earlier_writers)
                for writer in written_by[len(earlier_writers) :]:
                    before[writer].add(reader)
            else:
                before[reader].update(written_by)
    return tuple(frozenset(each) - {index} for index, each in enumerate(before))


def check_problem(problem: OrderProblem) -> None:
    """Raise UsageError, naming the first contradiction, if the rows of a problem do not match."""
    count, tensors = len(problem.reads), len(problem.sizes)
    for name, rows in (("writes", problem.writes), ("after", problem.after), ("scratch", problem.scratch)):
        if len(rows) != count:
            raise UsageError(f"{len(rows)} rows of {name} for {count} operators", where=name)
    for index, number in enumerate(problem.sizes):
        if number < 0:
            raise UsageError(f"negative size {number}", where=f"sizes[{index}]")
    for where, indices, limit in _references(problem, count, tensors):
        for index in indices:
            if not 0 <= index < limit:
                raise UsageError(f"index {index} is out of range: there are {limit}", where=where)


def check_order(problem: OrderProblem, order: Sequence[int]) -> None:
    """Raise UsageError unless the order contains every operator once, each after those that it depends on."""
    count = len(problem.reads)
    position = {operator: at for at, operator in enumerate(order)}
    if len(order) != count or set(position) != set(range(count)):
        raise UsageError(f"the order is not a permutation of the {count} operators")
    for operator, before in enumerate(dependencies(problem)):
        for other in sorted(before):
            if position[other] > position[operator]:
                raise UsageError(f"the order runs operator {operator} before operator {other}, which it depends on")


def live_profile(problem: OrderProblem, order: Sequence[int]) -> tuple[int, ...]:
    """Return the bytes live before the first operator, then at each operator of the order, including its scratch."""
    count = len(order)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for at, operator in enumerate(order):
        for tensor in problem.writes[operator]:
            first.setdefault(tensor, at)
        for tensor in (*problem.reads[operator], *problem.writes[operator]):
            last[tensor] = at
    for tensor in problem.inputs:
        last.setdefault(tensor, -1)
    for tensor in set(last) & (set(problem.inputs) | (set(last) - set(first))):
        first[tensor] = -1
    for tensor in problem.outputs:
        first.setdefault(tensor, -1)
        last[tensor] = count - 1
    change = [0] * (count + 2)
    for tensor, start in first.items():
        change[start + 1] += problem.sizes[tensor]
        change[last[tensor] + 2] -= problem.sizes[tensor]
    profile = []
    alive = 0
    for at in range(count + 1):
        alive += change[at]
        profile.append(alive + (problem.scratch[order[at - 1]] if at else 0))
    return tuple(profile)


def peak(problem: OrderProblem, order: Sequence[int]) -> int:
    """Return the maximum live bytes."""
    return max(live_profile(problem, order))


def moved_operators(order: Sequence[int]) -> int:
    """Return the minimum number of operators to move in order to turn the original order into this one.

    These are all but a longest increasing subsequence, which keeps its order.
    """
    tails: list[int] = []
    for operator in order:
        low, high = 0, len(tails)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if tails[middle] < operator else (low, middle)
        tails[low : low + 1] = [operator]
    return len(order) - len(tails)


def cycle_error(cycle: Sequence[int]) -> InvalidModelError:
    """Return the error about operators that wait for each other."""
    names = " -> ".join(str(operator) for operator in (*cycle, cycle[0]))
    return InvalidModelError("the operators form a dependency cycle, so none of them can run", where=names)


def _references(problem: OrderProblem, count: int, tensors: int) -> Iterator[tuple[str, tuple[int, ...], int]]:
    yield "inputs", problem.inputs, tensors
    yield "outputs", problem.outputs, tensors
    for name, rows, limit in (
        ("reads", problem.reads, tensors),
        ("writes", problem.writes, tensors),
        ("after", problem.after, count),
    ):
        for index, row in enumerate(rows):
            yield f"{name}[{index}]", row, limit


def _writers(problem: OrderProblem) -> dict[int, list[int]]:
    return _by_tensor(problem.writes)


def _readers(problem: OrderProblem) -> dict[int, list[int]]:
    return _by_tensor(problem.reads)


def _by_tensor(rows: tuple[tuple[int, ...], ...]) -> dict[int, list[int]]:
    operators_of: dict[int, list[int]] = {}
    for operator, tensors in enumerate(rows):
        for tensor in dict.fromkeys(tensors):
            operators_of.setdefault(tensor, []).append(operator)
    return operators_of
