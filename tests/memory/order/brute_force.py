"""The minimum peak over every order, from the definition alone, and random small problems to hold the searches against.

Nothing here uses the form in which the searches see a problem.
"""

from __future__ import annotations

import random
from functools import cache
from itertools import permutations

from edgetool.memory.order.evaluate import OrderProblem, dependencies, live_profile


def minimum_peak(problem: OrderProblem) -> int:
    """The minimum peak, over all sets of operators that could be done."""
    before = dependencies(problem)
    count = len(before)
    written = {tensor for row in problem.writes for tensor in row}
    always = {tensor for row in problem.reads for tensor in row} | set(problem.outputs)
    from_start = set(problem.inputs) | (always - written)
    writers = [{at for at in range(count) if tensor in problem.writes[at]} for tensor in range(len(problem.sizes))]
    users = [
        made_by | {at for at in range(count) if tensor in problem.reads[at]} for tensor, made_by in enumerate(writers)
    ]

    def at(operator: int, done: frozenset[int]) -> int:
        total = problem.scratch[operator]
        for tensor, size in enumerate(problem.sizes):
            started = tensor in from_start or writers[tensor] & done
            needed = tensor in problem.outputs or users[tensor] - done
            if operator in users[tensor] or (started and needed):
                total += size
        return total

    @cache
    def minimum(done: frozenset[int]) -> int:
        ready = [operator for operator in range(count) if operator not in done and before[operator] <= done]
        return min((max(at(operator, done), minimum(done | {operator})) for operator in ready), default=0)

    start = sum(problem.sizes[tensor] for tensor in from_start)
    return max(start, minimum(frozenset()))


def least_peak_of_all_orders(problem: OrderProblem) -> int:
    """The minimum peak, by the profile of each order."""
    before = dependencies(problem)
    return min(
        max(live_profile(problem, order))
        for order in permutations(range(len(before)))
        if all(before[operator] <= set(order[:at]) for at, operator in enumerate(order))
    )


def random_problem(draw: random.Random, operators: int) -> OrderProblem:
    """A problem of at most so many operators: several inputs and outputs, some unread; scratch; state; rewriting."""
    count = draw.randint(1, operators)
    inputs = draw.randint(0, 3)
    # Tensors of 0 and 1 are frequent: ties, and tensors that cost nothing.
    sizes = [_size(draw) for _ in range(inputs)]
    reads, writes, after, scratch = [], [], [], []
    fan_in = draw.choice([1, 1, 2, 3])
    for operator in range(count):
        known = range(len(sizes))
        reads.append(tuple(draw.choice(known) for _ in range(draw.randint(0, fan_in)) if known))
        made = []
        for _ in range(draw.choice([1, 1, 1, 2, 0])):
            if known and draw.random() < 0.05:
                made.append(draw.choice(known))
            else:
                made.append(len(sizes))
                sizes.append(_size(draw))
        writes.append(tuple(made))
        after.append((draw.randrange(operator),) if operator and draw.random() < 0.1 else ())
        scratch.append(draw.choice([0, 0, 0, draw.randint(0, 30)]))
    outputs = {draw.randrange(len(sizes)) for _ in range(draw.randint(0, 2)) if sizes}
    rows = (tuple(sizes), tuple(reads), tuple(writes), tuple(after), tuple(scratch))
    return OrderProblem(*rows, inputs=tuple(range(inputs)), outputs=tuple(sorted(outputs)))


def random_chains(draw: random.Random, chains: int, length: int) -> OrderProblem:
    """Chains of operators that begin and end together or fork from each other, some with a leaf on the way."""
    sizes, reads = [_size(draw)], []
    ends = []
    for _ in range(draw.randint(2, chains)):
        tensor = draw.choice([0, len(sizes) - 1])
        for _ in range(draw.randint(1, length)):
            reads.append((tensor,))
            sizes.append(_size(draw))
            tensor = len(sizes) - 1
            if draw.random() < 0.15:
                reads.append((tensor,))
                sizes.append(_size(draw))
        ends.append(tensor)
    reads.append(tuple(ends))
    sizes.append(_size(draw))
    count = len(reads)
    writes = tuple((tensor,) for tensor in range(1, count + 1))
    return OrderProblem(tuple(sizes), tuple(reads), writes, ((),) * count, (0,) * count, (0,), (count,))


def _size(draw: random.Random) -> int:
    return draw.randint(0, 20) if draw.random() < 0.8 else draw.randint(30, 60)
