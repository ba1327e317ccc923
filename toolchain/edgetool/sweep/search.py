"""A search instead of the whole grid: Optuna's tree-structured Parzen estimator, with the limits as constraints.

S. Watanabe, Tree-Structured Parzen Estimator, https://arxiv.org/abs/2304.11127; with several objectives: Y. Ozaki et
al., Multiobjective Tree-Structured Parzen Estimator, https://doi.org/10.1613/jair.1.13188.

Every variant that a sweep's lists make together.

Where the variants of a sweep come from: all of the grid at once, or in batches that learn from what was measured.

The variants of one target as points of a grid of indices: what a search moves in.

By how much a variant exceeds what it must keep: the judgement's reasons as numbers that a search can lessen.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import ModuleType
from typing import Any, Protocol

from edgetool.convert.request import BuilderArgument
from edgetool.errors import MissingExtraError
from edgetool.gate.limits import Of
from edgetool.sweep.front import AXES, accuracy_of, axis
from edgetool.sweep.judge import used_bytes
from edgetool.sweep.metrics import Cause, Metrics, Quality, Row, Variant
from edgetool.sweep.spec import SweepLimits, SweepSpec


def grid(spec: SweepSpec) -> tuple[Variant, ...]:
    """All combinations: the builder's parameters first, in the order of the file, then level, precision and target,
    of which the last changes fastest."""
    parameters = spec.builder.parameters if spec.builder is not None else ()
    names = [name for name, _ in parameters]
    return tuple(
        Variant(tuple(zip(names, values, strict=True)), level, precision, target.label)
        for values in product(*(choices for _, choices in parameters))
        for level, precision, target in product(spec.pruning.levels, spec.precisions, spec.targets)
    )


class Proposer(Protocol):
    """Names the variants to try: the same ones for the same tellings, so that a sweep can be continued."""

    def propose(self) -> tuple[Variant, ...]:
        """The next ones, none of them named before; empty where there are no more."""

    def tell(self, rows: Sequence[Row]) -> None:
        """What is known of all variants named so far, in their order."""


class Grid:
    """Every variant, in one batch."""

    def __init__(self, spec: SweepSpec) -> None:
        self._variants = grid(spec)

    def propose(self) -> tuple[Variant, ...]:
        """All at first, then none."""
        variants, self._variants = self._variants, ()
        return variants

    def tell(self, rows: Sequence[Row]) -> None:
        """Nothing is learnt: the grid is all there is."""


Point = tuple[int, ...]  # an index into the values of each dimension


@dataclass(frozen=True, slots=True)
class Dimension:
    """What a sweep varies. ordered: neighbouring values are alike, so the order is worth knowing."""

    name: str
    values: tuple[BuilderArgument, ...]
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


def _dimension(name: str, values: Sequence[BuilderArgument]) -> Dimension:
    ordered = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return Dimension(name, tuple(sorted(values)) if ordered else tuple(values), ordered)


UNKNOWN = 1.0  # a figure that a limit asks for and nobody knows: as bad as twice the limit


def excess(metrics: Metrics, limits: SweepLimits) -> Mapping[Cause, float]:
    """Each limit's excess, as a share of the limit (of accuracy: as a share of all samples); 0 or less is kept.

    Limits that are not given, and memories whose size is not known, are left out.
    """
    cost = metrics.cost
    used = used_bytes(cost, limits)
    found: dict[Cause, float] = {
        "runtime": float(len(cost.errors)),
        "arena unknown": UNKNOWN if cost.arena_bytes is None else 0.0,
    }
    if cost.sram_bytes is not None:
        found["memory"] = _over(used["ram"], cost.sram_bytes)
    if cost.flash_bytes is not None:
        found["flash"] = _over(used["flash"], cost.flash_bytes)
    if limits.active_budget is not None:
        # The reserve of RAM is kept free of an arena's budget, too, as it is judged.
        of: Of = "flash" if limits.active_budget.of == "flash" else "ram"
        found["budget"] = _over(used[of], limits.active_budget.bytes)
    if limits.max_latency_ms is not None:
        found["latency"] = _over(cost.latency_ms.value if cost.latency_ms else None, limits.max_latency_ms)
    if limits.max_energy_uj is not None:
        found["energy"] = _over(cost.energy_uj.value if cost.energy_uj else None, limits.max_energy_uj)
    lost = _accuracy_lost(metrics.quality, limits)
    if lost is not None:
        found["accuracy"] = lost
    return found


def _over(value: float | None, limit: float) -> float:
    if value is None:
        return UNKNOWN
    return (value - limit) / limit if limit > 0 else float(value > limit)


def _accuracy_lost(quality: Quality, limits: SweepLimits) -> float | None:
    """The larger excess of the two limits of accuracy; None where there is none."""
    found = []
    share = accuracy_of(quality)
    if limits.min_accuracy is not None:
        found.append(UNKNOWN if share is None else limits.min_accuracy - share)
    if limits.max_accuracy_loss is not None:
        original = quality.float_accuracy if quality.accuracy is not None else 1.0
        # In points, without the last bits of shares of counts, as it is judged.
        lost = None if share is None or original is None else round(100 * (original - share), 9)
        found.append(UNKNOWN if lost is None else (lost - limits.max_accuracy_loss) / 100)
    return max(found, default=None)


# Of outputs that are equal; only the order of values counts in a search, and no quantization comes near.
EQUAL_SQNR_DB = 200.0
# Asked at random before the first estimate: Optuna's own default.
STARTUP_TRIALS = 10
OPTUNA_MAJOR = 5  # before it, constraints were not a trial's own


class OptunaProposer:
    """A Proposer that asks for search.batch variants per target at a time, up to search.trials per target.

    Each target has a study of its own. All start from the same seed, so that their first, random variants are the same
    ones and share conversions. A grid that is no larger than the trials is not searched: all is asked for at once.

    What is proposed depends on the sweep and on the rows told alone, not on their order or their time: every batch is
    asked of a study made anew of all that is known.
    """

    def __init__(self, spec: SweepSpec) -> None:
        """Raises UsageError for an unknown objective, MissingExtraError without Optuna."""
        for name in spec.search.objectives:
            axis(name)
        self._space = space_of(spec)
        self._limits = spec.limits
        self._search = spec.search
        self._seed = spec.seed
        self._whole = Grid(spec) if self._space.size <= spec.search.trials else None
        self._asked: dict[str, list[Point]] = {target.label: [] for target in spec.targets}
        self._told: dict[Variant, Row] = {}
        self._optuna: Any = _import_optuna() if self._whole is None else None

    @property
    def note(self) -> str:
        """What is done, for the user."""
        trials, size = self._search.trials, self._space.size
        if self._whole is not None:
            return f"the grid has {size:,} variants per target, no more than the {trials:,} trials, so all are run"
        objectives = " and ".join(self._search.objectives)
        return f"the search tries {trials:,} of {size:,} variants per target to optimize {objectives}"

    def propose(self) -> tuple[Variant, ...]:
        """The next variants, each once; empty when the trials are used up."""
        if self._whole is not None:
            return self._whole.propose()
        proposed: list[Variant] = []
        for target, asked in self._asked.items():
            new = self._ask(target, min(self._search.batch, self._search.trials - len(asked)))
            asked += new
            proposed += (self._space.variant(point, target) for point in new)
        return tuple(proposed)

    def tell(self, rows: Sequence[Row]) -> None:
        """What became of proposed variants, in any order; rows told before may come again."""
        self._told.update((row.variant, row) for row in rows)

    def _ask(self, target: str, count: int) -> list[Point]:
        if not count:
            return []
        asked = self._asked[target]
        seed = _derived_seed(self._seed, len(asked))
        study = self._study(target, seed)
        distributions = _distributions(self._optuna, self._space)
        rng, taken, new = random.Random(seed), set(asked), []
        for _ in range(count):
            wished = study.ask(distributions).params
            point = self._space.nearest_free(
                tuple(wished[dimension.name] for dimension in self._space.dimensions),
                taken,
                lambda points: rng.sample(points, len(points)),
            )
            taken.add(point)
            new.append(point)
        return new

    def _study(self, target: str, seed: int) -> Any:
        """A study that knows what was told of the target, in the order in which it was asked for."""
        optuna = self._optuna
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS, multivariate=True)
        directions = ["minimize" if AXES[name].better == "lower" else "maximize" for name in self._search.objectives]
        study = optuna.create_study(sampler=sampler, directions=directions)
        distributions = _distributions(optuna, self._space)
        asked = [(point, self._told.get(self._space.variant(point, target))) for point in self._asked[target]]
        values = _objectives([row for _, row in asked if row is not None], self._search.objectives)
        for point, row in asked:
            if row is None:
                continue
            names = (dimension.name for dimension in self._space.dimensions)
            known = row.metrics is not None
            study.add_trial(
                optuna.trial.create_trial(
                    state=optuna.trial.TrialState.COMPLETE if known else optuna.trial.TrialState.FAIL,
                    params=dict(zip(names, point, strict=True)),
                    distributions=distributions,
                    values=values[row.variant] if known else None,
                    constraints=constraints(row, self._limits) if known else None,
                )
            )
        return study


def constraints(row: Row, limits: SweepLimits) -> dict[str, float]:
    """What Optuna is told of a row with metrics: 0 or less in all where it is accepted."""
    assert row.metrics is not None  # for the type checker: a row that failed is not asked for its constraints
    found: dict[str, float] = {str(cause): value for cause, value in excess(row.metrics, limits).items()}
    if row.judged is not None and not row.judged.accepted and all(value <= 0 for value in found.values()):
        found["judgement"] = UNKNOWN  # the judge has the last word
    return found


def _objectives(rows: Sequence[Row], names: Sequence[str]) -> Mapping[Variant, tuple[float, ...]]:
    """The objectives of the rows with metrics. Where one is not known, the worst that is known of any row stands for
    it: so an objective of which nothing is known on a target leaves the others to lead."""
    rows = [row for row in rows if row.metrics is not None]
    columns = []
    for name in names:
        item = AXES[name]
        values = [None if (value := item.value(row)) is None else _finite(value) for row in rows]
        worst = max((value for value in values if value is not None), key=lambda value: item.sign * value, default=0.0)
        columns.append([worst if value is None else float(value) for value in values])
    return {row.variant: values for row, values in zip(rows, zip(*columns, strict=True), strict=True)}


def _finite(value: float) -> float:
    return EQUAL_SQNR_DB if math.isinf(value) else value


def _distributions(optuna: ModuleType, space: Space) -> dict[str, Any]:
    """Indices: as numbers where their order tells something, else as categories."""
    return {
        dimension.name: optuna.distributions.IntDistribution(0, len(dimension.values) - 1)
        if dimension.ordered
        else optuna.distributions.CategoricalDistribution(range(len(dimension.values)))
        for dimension in space.dimensions
    }


def _derived_seed(seed: int, asked: int) -> int:
    """32 bits for the batch that follows so many trials."""
    return int.from_bytes(hashlib.sha256(f"{seed} {asked}".encode()).digest()[:4], "big")


def _import_optuna() -> ModuleType:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError(
            "a search requires Optuna, which is not installed", fix="pip install 'edgetool[sweep]'"
        ) from error
    if int(optuna.__version__.split(".")[0]) < OPTUNA_MAJOR:
        raise MissingExtraError(
            f"a search requires Optuna {OPTUNA_MAJOR} or later, but {optuna.__version__} is installed",
            fix="pip install --upgrade 'edgetool[sweep]'",
        )
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
