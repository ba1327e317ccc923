"""A search instead of the whole grid: Optuna's tree-structured Parzen estimator, with the limits as constraints.

S. Watanabe, Tree-Structured Parzen Estimator, https://arxiv.org/abs/2304.11127; with several objectives: Y. Ozaki et
al., Multiobjective Tree-Structured Parzen Estimator, https://doi.org/10.1613/jair.1.13188.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from edgetool.errors import MissingExtraError
from edgetool.sweep.excess import UNKNOWN, excess
from edgetool.sweep.front import AXES, axis
from edgetool.sweep.metrics import Row
from edgetool.sweep.proposer import Grid
from edgetool.sweep.space import Point, Space, space_of
from edgetool.sweep.spec import SweepLimits, SweepSpec
from edgetool.sweep.variant import Variant

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
