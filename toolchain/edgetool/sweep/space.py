"""The variants of one target as points of a grid of indices: what a search moves in."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from edgetool.convert.request import Value
from edgetool.sweep.spec import SweepSpec
from edgetool.sweep.variant import Variant

Point = tuple[int, ...]  # an index into the values of each dimension


@dataclass(frozen=True, slots=True)
class Dimension:
    """What a sweep varies. ordered: neighbouring values are alike, so the order is worth knowing."""

    name: str
    values: tuple[Value, ...]
    ordered: bool


@dataclass(frozen=True, slots=True)
class Space:
    """The builder's parameters, then level, then precision. Names of parameters are led by "parameter ", so that one
    called "level" is no trouble."""

    dimensions: tuple[Dimension, ...]

    @property
    def size(self) -> int:
        """How many variants there are; never enumerated, as it may be of any size."""
        return math.prod(len(dimension.values) for dimension in self.dimensions)

    def variant(self, point: Point, target: str) -> Variant:
        """The variant at the point."""
        *parameters, level, precision = (
            dimension.values[index] for dimension, index in zip(self.dimensions, point, strict=True)
        )
        names = (dimension.name.removeprefix("parameter ") for dimension in self.dimensions[:-2])
        return Variant(tuple(zip(names, parameters, strict=True)), float(level), str(precision), target)

    def nearest_free(
        self, point: Point, taken: Collection[Point], shuffled: Callable[[list[Point]], list[Point]]
    ) -> Point:
        """The point itself, or one that is the fewest steps away among those not taken.

        A step goes to the next value of an ordered dimension, or to any other of one that is not. shuffled decides
        between points as near. Raises ValueError where every point is taken.
        """
        seen, waiting = {point}, deque([point])
        while waiting:
            here = waiting.popleft()
            if here not in taken:
                return here
            new = [step for step in self._steps(here) if step not in seen]
            seen.update(new)
            waiting.extend(shuffled(new))
        raise ValueError("all points have been tried")

    def _steps(self, point: Point) -> Iterator[Point]:
        for place, (dimension, index) in enumerate(zip(self.dimensions, point, strict=True)):
            near = (index - 1, index + 1) if dimension.ordered else range(len(dimension.values))
            for other in near:
                if other != index and 0 <= other < len(dimension.values):
                    yield (*point[:place], other, *point[place + 1 :])


def space_of(spec: SweepSpec) -> Space:
    """The space of each of the sweep's targets. Numbers are put in order; texts and truth values have none."""
    parameters = spec.builder.parameters if spec.builder is not None else ()
    return Space(
        (
            *(_dimension(f"parameter {name}", values) for name, values in parameters),
            _dimension("level", spec.pruning.levels),
            Dimension("precision", spec.precisions, ordered=False),
        )
    )


def _dimension(name: str, values: Sequence[Value]) -> Dimension:
    ordered = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return Dimension(name, tuple(sorted(values)) if ordered else tuple(values), ordered)
