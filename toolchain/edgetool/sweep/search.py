"""Propose the variants of a sweep: the whole grid at once, or batches that a search chooses from the earlier results.

The search uses Optuna's tree-structured Parzen estimator, with the limits of the sweep as constraints: S. Watanabe,
Tree-Structured Parzen Estimator, https://arxiv.org/abs/2304.11127; for several objectives: Y. Ozaki et al.,
Multiobjective Tree-Structured Parzen Estimator, https://doi.org/10.1613/jair.1.13188. It searches a grid of indices
(Space) for each target, and receives by how much a variant exceeds each limit (limit_overruns).
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
from edgetool.gate.limits import BudgetedMemory
from edgetool.sweep.front import AXES, accuracy_of, axis
from edgetool.sweep.judge import used_bytes
from edgetool.sweep.metrics import Cause, Metrics, Quality, Row, Variant
from edgetool.sweep.spec import SweepLimits, SweepSpec


def grid(spec: SweepSpec) -> tuple[Variant, ...]:
    """Return all variants: combinations of the builder's parameters in the order of the file, level, precision, target,
    optimize and max_extra_macs, of which the last changes fastest."""
    parameters = spec.builder.parameters if spec.builder is not None else ()
    names = [name for name, _ in parameters]
    return tuple(
        Variant(tuple(zip(names, values, strict=True)), level, precision, target.label, optimize, percent)
        for values in product(*(choices for _, choices in parameters))
        for level, precision, target, optimize, percent in product(
            spec.pruning.levels, spec.precisions, spec.targets, spec.optimize, spec.max_extra_macs
        )
    )


class Proposer(Protocol):
    """Proposes the variants to try: the same ones for the same results, so that a sweep can be continued."""

    def propose(self) -> tuple[Variant, ...]:
        """Return the next variants, none of which was proposed before; an empty tuple if there are no more."""

    def receive(self, rows: Sequence[Row]) -> None:
        """Receive the rows of all variants proposed so far, in their order."""


class Grid:
    """Proposes all variants in one batch."""

    def __init__(self, spec: SweepSpec) -> None:
        self._variants = grid(spec)

    def propose(self) -> tuple[Variant, ...]:
        """Return all variants at the first call, and none afterwards."""
        variants, self._variants = self._variants, ()
        return variants

    def receive(self, rows: Sequence[Row]) -> None:
        """Do nothing: the results do not change the grid."""


Point = tuple[int, ...]  # an index into the values of each dimension


@dataclass(frozen=True, slots=True)
class Dimension:
    """A property that varies between variants. ordered: whether neighbouring values are similar."""

    name: str
    values: tuple[BuilderArgument, ...]
    ordered: bool


PARAMETER = "parameter "  # and the name of one of the builder's: a dimension


@dataclass(frozen=True, slots=True)
class Space:
    """The variants of one target as a grid of indices.

    The dimensions are the builder's parameters, then level, precision, and optimize and max_extra_macs if the sweep has
    them. Names of parameters have the prefix "parameter ", so that one can be called "level".
    """

    dimensions: tuple[Dimension, ...]

    @property
    def size(self) -> int:
        """The number of variants, which may be too large to enumerate."""
        return math.prod(len(dimension.values) for dimension in self.dimensions)

    def variant(self, point: Point, target: str) -> Variant:
        """Return the variant at the point."""
        values = {
            dimension.name: dimension.values[index] for dimension, index in zip(self.dimensions, point, strict=True)
        }
        parameters = {name.removeprefix(PARAMETER): values[name] for name in values if name.startswith(PARAMETER)}
        percent = values.get("max_extra_macs")
        return Variant(
            tuple(parameters.items()),
            float(values["level"]),
            str(values["precision"]),
            target,
            bool(values.get("optimize", True)),
            None if percent is None else float(percent),
        )

    def nearest_free(
        self, point: Point, taken: Collection[Point], shuffled: Callable[[list[Point]], list[Point]]
    ) -> Point:
        """Return the point itself, or the nearest one that is not taken.

        The distance is the number of steps. A step changes an index by one in an ordered dimension, and to any other
        value in one that is not ordered.

        Args:
            shuffled: returns the points in random order, to choose between points at the same distance.

        Raises ValueError if every point is taken.
        """
        seen, queue = {point}, deque([point])
        while queue:
            current = queue.popleft()
            if current not in taken:
                return current
            new = [neighbour for neighbour in self._neighbours(current) if neighbour not in seen]
            seen.update(new)
            queue.extend(shuffled(new))
        raise ValueError("all points have been tried")

    def _neighbours(self, point: Point) -> Iterator[Point]:
        for position, (dimension, index) in enumerate(zip(self.dimensions, point, strict=True)):
            candidates = (index - 1, index + 1) if dimension.ordered else range(len(dimension.values))
            for other in candidates:
                if other != index and 0 <= other < len(dimension.values):
                    yield (*point[:position], other, *point[position + 1 :])


def space_of(spec: SweepSpec) -> Space:
    """Return the space, which is the same for each target. Numbers are sorted; strings and booleans are not ordered."""
    parameters = spec.builder.parameters if spec.builder is not None else ()
    percentages = [item for item in spec.max_extra_macs if item is not None]
    return Space(
        (
            *(_dimension(f"{PARAMETER}{name}", values) for name, values in parameters),
            _dimension("level", spec.pruning.levels),
            Dimension("precision", spec.precisions, ordered=False),
            *([Dimension("optimize", spec.optimize, ordered=False)] if not all(spec.optimize) else []),
            *([_dimension("max_extra_macs", percentages)] if percentages else []),
        )
    )


def _dimension(name: str, values: Sequence[BuilderArgument]) -> Dimension:
    ordered = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return Dimension(name, tuple(sorted(values)) if ordered else tuple(values), ordered)


UNKNOWN = 1.0  # the overrun of an unknown value for which there is a limit: as bad as twice the limit


def limit_overruns(metrics: Metrics, limits: SweepLimits) -> Mapping[Cause, float]:
    """Return by how much each limit is exceeded, as a fraction of the limit; 0 or less if it is not exceeded.

    For accuracy it is a fraction of all samples. Limits that are not set, and memories of unknown size, are omitted.
    """
    cost = metrics.cost
    used = used_bytes(cost, limits)
    overruns: dict[Cause, float] = {
        "runtime": float(len(cost.errors)),
        "arena unknown": UNKNOWN if cost.arena_bytes is None else 0.0,
    }
    if cost.sram_bytes is not None:
        overruns["memory"] = _overrun(used["ram"], cost.sram_bytes)
    if cost.flash_bytes is not None:
        overruns["flash"] = _overrun(used["flash"], cost.flash_bytes)
    if limits.active_budget is not None:
        # As in the judgement, the reserve of RAM counts for a budget of the arena too.
        of: BudgetedMemory = "flash" if limits.active_budget.of == "flash" else "ram"
        overruns["budget"] = _overrun(used[of], limits.active_budget.bytes)
    if limits.max_latency_ms is not None:
        overruns["latency"] = _overrun(cost.latency_ms.value if cost.latency_ms else None, limits.max_latency_ms)
    if limits.max_energy_uj is not None:
        overruns["energy"] = _overrun(cost.energy_uj.value if cost.energy_uj else None, limits.max_energy_uj)
    accuracy_overrun = _accuracy_overrun(metrics.quality, limits)
    if accuracy_overrun is not None:
        overruns["accuracy"] = accuracy_overrun
    return overruns


def _overrun(value: float | None, limit: float) -> float:
    if value is None:
        return UNKNOWN
    return (value - limit) / limit if limit > 0 else float(value > limit)


def _accuracy_overrun(quality: Quality, limits: SweepLimits) -> float | None:
    """Return the larger overrun of the two limits of accuracy; None if neither is set."""
    overruns = []
    accuracy = accuracy_of(quality)
    if limits.min_accuracy is not None:
        overruns.append(UNKNOWN if accuracy is None else limits.min_accuracy - accuracy)
    if limits.max_accuracy_loss is not None:
        original = quality.float_accuracy if quality.accuracy is not None else 1.0
        # In percentage points, rounded as in the judgement.
        loss = None if accuracy is None or original is None else round(100 * (original - accuracy), 9)
        overruns.append(UNKNOWN if loss is None else (loss - limits.max_accuracy_loss) / 100)
    return max(overruns, default=None)


# Replaces the infinite SQNR of equal outputs: the search uses only the order of values, and no quantization reaches it.
EQUAL_SQNR_DB = 200.0
# Random trials before the estimator is used: Optuna's default.
STARTUP_TRIALS = 10
MIN_OPTUNA_MAJOR = 5  # earlier versions of create_trial have no constraints


class OptunaProposer:
    """A Proposer that proposes search.batch variants per target at a time, up to search.trials per target.

    Each target has its own study. All start from the same seed, so that their first, random variants are the same and
    share conversions. A grid that is no larger than the number of trials is not searched but proposed at once.

    The proposals depend only on the sweep and on the rows received, not on their order or time: each batch comes from
    a new study with all rows received so far.
    """

    def __init__(self, spec: SweepSpec) -> None:
        """Create the proposer. Raises UsageError for an unknown objective, MissingExtraError without Optuna."""
        for name in spec.search.objectives:
            axis(name)
        self._space = space_of(spec)
        self._limits = spec.limits
        self._search = spec.search
        self._seed = spec.seed
        self._grid = Grid(spec) if self._space.size <= spec.search.trials else None
        self._proposed: dict[str, list[Point]] = {target.label: [] for target in spec.targets}
        self._rows: dict[Variant, Row] = {}
        self._optuna: Any = _import_optuna() if self._grid is None else None

    @property
    def note(self) -> str:
        """A sentence for the user: what the search tries."""
        trials, size = self._search.trials, self._space.size
        if self._grid is not None:
            return f"the grid has {size:,} variants per target, no more than the {trials:,} trials, so all are run"
        objectives = " and ".join(self._search.objectives)
        return f"the search tries {trials:,} of {size:,} variants per target to optimize {objectives}"

    def propose(self) -> tuple[Variant, ...]:
        """Return the next variants, each once; an empty tuple when all trials are used."""
        if self._grid is not None:
            return self._grid.propose()
        proposed: list[Variant] = []
        for target, points in self._proposed.items():
            new = self._ask(target, min(self._search.batch, self._search.trials - len(points)))
            points += new
            proposed += (self._space.variant(point, target) for point in new)
        return tuple(proposed)

    def receive(self, rows: Sequence[Row]) -> None:
        """Receive rows of proposed variants, in any order; rows received before may be included."""
        self._rows.update((row.variant, row) for row in rows)

    def _ask(self, target: str, count: int) -> list[Point]:
        if not count:
            return []
        proposed = self._proposed[target]
        seed = _derived_seed(self._seed, len(proposed))
        study = self._study(target, seed)
        distributions = _distributions(self._optuna, self._space)
        rng, taken, new = random.Random(seed), set(proposed), []
        for _ in range(count):
            params = study.ask(distributions).params
            point = self._space.nearest_free(
                tuple(params[dimension.name] for dimension in self._space.dimensions),
                taken,
                lambda points: rng.sample(points, len(points)),
            )
            taken.add(point)
            new.append(point)
        return new

    def _study(self, target: str, seed: int) -> Any:
        """Return a study with the rows received for the target, in the order in which they were proposed."""
        optuna = self._optuna
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS, multivariate=True)
        directions = ["minimize" if AXES[name].better == "lower" else "maximize" for name in self._search.objectives]
        study = optuna.create_study(sampler=sampler, directions=directions)
        distributions = _distributions(optuna, self._space)
        trials = [(point, self._rows.get(self._space.variant(point, target))) for point in self._proposed[target]]
        values = _objectives([row for _, row in trials if row is not None], self._search.objectives)
        for point, row in trials:
            if row is None:
                continue
            names = (dimension.name for dimension in self._space.dimensions)
            has_metrics = row.metrics is not None
            study.add_trial(
                optuna.trial.create_trial(
                    state=optuna.trial.TrialState.COMPLETE if has_metrics else optuna.trial.TrialState.FAIL,
                    params=dict(zip(names, point, strict=True)),
                    distributions=distributions,
                    values=values[row.variant] if has_metrics else None,
                    constraints=constraints(row, self._limits) if has_metrics else None,
                )
            )
        return study


def constraints(row: Row, limits: SweepLimits) -> dict[str, float]:
    """Return the constraints for Optuna of a row with metrics: all are 0 or less if the row is accepted."""
    assert row.metrics is not None  # for the type checker: a row that failed is not asked for its constraints
    values: dict[str, float] = {str(cause): value for cause, value in limit_overruns(row.metrics, limits).items()}
    if row.judged is not None and not row.judged.accepted and all(value <= 0 for value in values.values()):
        values["judgement"] = UNKNOWN  # the judgement takes precedence over the overruns
    return values


def _objectives(rows: Sequence[Row], names: Sequence[str]) -> Mapping[Variant, tuple[float, ...]]:
    """Return the objectives of the rows with metrics.

    The worst value of any row replaces an unknown one, so that an objective that is unknown for all rows of a target
    has no effect.
    """
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
    """Return the distributions of the indices: integers in an ordered dimension, otherwise categories."""
    return {
        dimension.name: optuna.distributions.IntDistribution(0, len(dimension.values) - 1)
        if dimension.ordered
        else optuna.distributions.CategoricalDistribution(range(len(dimension.values)))
        for dimension in space.dimensions
    }


def _derived_seed(seed: int, trials: int) -> int:
    """Return a 32-bit seed for the batch that follows that number of trials."""
    return int.from_bytes(hashlib.sha256(f"{seed} {trials}".encode()).digest()[:4], "big")


def _import_optuna() -> ModuleType:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError(
            "a search requires Optuna, which is not installed", fix="pip install 'edgetool[sweep]'"
        ) from error
    if int(optuna.__version__.split(".")[0]) < MIN_OPTUNA_MAJOR:
        raise MissingExtraError(
            f"a search requires Optuna {MIN_OPTUNA_MAJOR} or later, but {optuna.__version__} is installed",
            fix="pip install --upgrade 'edgetool[sweep]'",
        )
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
