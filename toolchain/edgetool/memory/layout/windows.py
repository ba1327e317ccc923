"""Large layouts made lower where they are highest: only the surroundings of the highest pieces are placed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgetool.memory.effort import Effort
from edgetool.memory.layout.budget import Budget
from edgetool.memory.layout.eject import Chains, Manner
from edgetool.memory.layout.greedy import Near, fitter, neighbours, orders
from edgetool.memory.layout.instance import Instance, height

# Steps of the first chains; each round through MANNERS allows twice as many.
FEWEST_STEPS = 250
# A round ends where the height is this close to what was tried in vain, as a part of it.
CLOSE = 1000

# Tried in turn: the prices say what is hard to place again, by its area or its duration.
MANNERS = (
    Manner(lambda size, duration: float(size * duration), True),
    Manner(lambda size, duration: (size * duration) ** 0.5, False),
    Manner(lambda size, duration: duration**0.5, True),
    Manner(lambda size, duration: (size * duration) ** 0.5, True),
)
# A second start: full sections first, and in each what lives long, so that it lies together. Often higher than the
# best greedy layout, and easier to repair.
START = "load, duration"
# No layout is as high as this.
ANY_HEIGHT = 1 << 62
# To tell of a layout takes as long as one step for so many pieces of it: it is told after so many steps that this is
# a small part of them.
PIECES_PER_STEP = 16


def improve(
    instance: Instance,
    offsets: Sequence[int],
    effort: Effort,
    target: int,
    improved: Callable[[list[int]], None] | None = None,
    near: Near | None = None,
) -> list[int]:
    """The offsets made lower until the height is <= target, in units, or the effort ends; never higher.

    Each placement counts as a node. Without a node limit it goes on until told to stop, or until it is at the target.
    improved is told of lower layouts on the way. near: the neighbours, where they are known already.
    """
    pinned = (pin + size for pin, size in zip(instance.pins, instance.sizes, strict=True) if pin >= 0)
    target = max(target, *pinned, 0)
    budget = Budget(effort)
    best = list(offsets)
    if height(instance, best) <= target or budget.over:
        return best
    near = near or neighbours(instance)
    starts = [Chains(instance, best, effort.seed, near)]
    teller = _Teller(improved, height(instance, best), len(best))
    (order,) = orders(instance, [START])
    if not budget.over and (other := fitter(instance, near)(order, ANY_HEIGHT, effort)) is not None:
        starts.append(Chains(instance, other, effort.seed, near))
        teller.tell(other, height(instance, other), budget.spent)
    budget.spend(len(best))
    limit = FEWEST_STEPS
    while not budget.over:
        for manner in MANNERS:
            for chains in starts:
                if _round(chains, target, limit, manner, budget, teller) <= target:
                    return chains.offsets
        # After every manner has had its turn, the lower one goes on alone.
        starts = [min(starts, key=lambda chains: height(instance, chains.offsets))]
        limit *= 2
    return min(best, *(chains.offsets for chains in starts), key=lambda offsets: height(instance, offsets))


class _Teller:
    """Tells of lower layouts, but not more often than its cost allows."""

    def __init__(self, improved: Callable[[list[int]], None] | None, top: int, pieces: int) -> None:
        self._improved = improved
        self._top = top
        self._pause = pieces // PIECES_PER_STEP
        self._next = 0

    def tell(self, offsets: list[int], top: int, steps: int) -> None:
        """steps: how many were taken so far, in all."""
        if self._improved is not None and top < self._top and steps >= self._next:
            self._improved(offsets)
            self._top, self._next = top, steps + self._pause


def _round(chains: Chains, target: int, limit: int, manner: Manner, budget: Budget, teller: _Teller) -> int:
    """Lower the layout to the target, or by halves of the way there where that fails; its height then."""
    top = height(chains.instance, chains.offsets)
    capacity = tried = target
    while top > target and not budget.over:
        if not _below(chains, capacity, limit, manner, budget):
            tried = capacity
        top = height(chains.instance, chains.offsets)
        teller.tell(chains.offsets, top, budget.spent)
        if top - tried <= max(1, top // CLOSE):
            break
        capacity = (tried + top) // 2
    return top


def _below(chains: Chains, capacity: int, limit: int, manner: Manner, budget: Budget) -> bool:
    """Bring every piece below the capacity, the highest first; False at the first that stays above it."""
    ends = list(map(int.__add__, chains.offsets, chains.instance.sizes))
    for piece in sorted((i for i, end in enumerate(ends) if end > capacity), key=lambda i: (-ends[i], i)):
        if chains.offsets[piece] + chains.instance.sizes[piece] <= capacity:
            continue
        if budget.over:
            return False
        before = chains.steps
        done = chains.lower(piece, capacity, budget.allowed(limit), manner, budget.stop)
        budget.spend(chains.steps - before)
        if not done:
            return False
    return True
