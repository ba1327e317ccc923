"""The search: against random sampling on a landscape whose best is known, and always the same for the same answers."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.convert.request import BuilderArgument
from edgetool.errors import MissingExtraError, UsageError
from edgetool.gate.limits import parse_budget
from edgetool.report.document import Band
from edgetool.sweep.judge import judge
from edgetool.sweep.metrics import PRECISIONS, Metrics, Row, Variant
from edgetool.sweep.search import OptunaProposer, constraints, grid, limit_overruns, space_of
from edgetool.sweep.spec import Builder, Pruning, Search, SweepLimits, SweepSpec, TargetSpec
from tests.conftest import examples
from tests.sweep.made_rows import metrics as made_metrics

pytest.importorskip("optuna")

LIMITS = SweepLimits(active_budget=parse_budget("64KiB"), max_latency_ms=60.0)
PARAMETERS: tuple[tuple[str, tuple[BuilderArgument, ...]], ...] = (
    ("width", tuple(index / 5 for index in range(1, 11))),
    ("depth", (1, 2, 3, 4, 5)),
    ("block", ("plain", "separable", "residual", "squeeze", "inverted")),
)
# Of a block: its MACs, and the accuracy it brings. Of a precision: bytes, accuracy lost, time.
BLOCKS = {
    "plain": (1.0, 0.0),
    "separable": (0.35, -0.01),
    "residual": (1.2, 0.02),
    "squeeze": (0.5, 0.005),
    "inverted": (0.45, 0.015),
}
PRECISION_EFFECTS = {"int16x8": (2, 0.002, 2.0), "int8": (1, 0.01, 1.0)}


def spec(*, trials: int = 120, batch: int = 4, seed: int = 0, targets: tuple[str, ...] = ("board",)) -> SweepSpec:
    return SweepSpec(
        name="made",
        model=None,
        builder=Builder(Path("model.py"), "model", "build", (), PARAMETERS),
        precisions=tuple(PRECISION_EFFECTS),
        targets=tuple(TargetSpec(name, name) for name in targets),
        pruning=Pruning((0.0, 0.25, 0.5, 0.75)),
        seed=seed,
        strategy="search",
        search=Search(trials, batch),
        limits=LIMITS,
    )


def measured(variant: Variant) -> Metrics:
    """A landscape with the usual shape: what is larger is better, with less and less to gain, and costs more."""
    chosen = dict(variant.parameters)
    byte, loss, slow = PRECISION_EFFECTS[variant.precision]
    work, gain = BLOCKS[str(chosen["block"])]
    width, depth = float(chosen["width"]) * (1 - variant.level), int(chosen["depth"])
    macs = int(2e6 * width * width * depth * work) + 1000
    accuracy = 0.97 - 0.3 * math.exp(-3 * width * math.sqrt(1.5 * depth)) + gain - loss - 0.02 * variant.level**2
    return made_metrics(
        quality={"accuracy": accuracy},
        arena_bytes=int(40_000 * width * byte),
        model_bytes=int(60_000 * width * width * depth * byte * work),
        latency_ms=Band(macs * slow / 8e4, 0.0, 0.0),
        sram_bytes=None,
        flash_bytes=None,
    )


def row(number: int, variant: Variant) -> Row:
    made = measured(variant)
    return Row(number, variant, "done", metrics=made, judged=judge(made, LIMITS))


def searched(proposer: OptunaProposer, answer: Callable[[list[Row]], list[Row]] = list) -> list[Variant]:
    """All that is proposed; answer decides which of the rows so far are told, in which order."""
    rows: list[Row] = []
    while batch := proposer.propose():
        rows += [row(len(rows) + place, variant) for place, variant in enumerate(batch, 1)]
        proposer.receive(answer(rows))
    return [item.variant for item in rows]


@cache
def landscape() -> dict[Variant, Row]:
    return {variant: row(number, variant) for number, variant in enumerate(grid(spec()), 1)}


def covered(variants: list[Variant]) -> float:
    """The area that the accepted ones dominate, in accuracy above 0.6 and the logarithm of the time below its limit."""
    points = []
    for variant in variants:
        found = landscape()[variant]
        if found.judged.accepted:
            points.append((math.log(60.0 / found.metrics.cost.latency_ms.value), found.metrics.quality.accuracy - 0.6))
    area, height = 0.0, 0.0
    for x, y in sorted(points, reverse=True):
        area += x * max(0.0, y - height)
        height = max(height, y)
    return area


@pytest.mark.slow
def test_a_search_finds_more_with_a_sixteenth_of_the_grid_than_chance() -> None:
    everything = list(landscape())
    assert len(everything) == 2000
    infeasible = {variant for variant, found in landscape().items() if not found.judged.accepted}
    found, chance, late = [], [], []
    for seed in range(3):
        variants = searched(OptunaProposer(spec(seed=seed)))
        assert len(variants) == len(set(variants)) == 120
        found.append(covered(variants) / covered(everything))
        chance += [
            covered(random.Random(10 * seed + i).sample(everything, 120)) / covered(everything) for i in range(9)
        ]
        late += [variant in infeasible for variant in variants[60:]]
    assert sum(found) / len(found) > 0.93, (found, chance, sum(late))
    assert min(found) > sum(chance) / len(chance)
    assert sum(late) / len(late) < 0.6 * len(infeasible) / len(everything)


def test_the_same_answers_in_any_order_lead_to_the_same_proposals() -> None:
    def shuffled(rows: list[Row]) -> list[Row]:
        return random.Random(len(rows)).sample(rows, len(rows))

    first = searched(OptunaProposer(spec(trials=24)))
    assert searched(OptunaProposer(spec(trials=24)), shuffled) == first
    assert searched(OptunaProposer(spec(trials=24)), lambda rows: rows[-4:]) == first  # each once
    assert searched(OptunaProposer(spec(trials=24, seed=1))) != first


def test_each_target_has_its_trials_in_constant_batches_and_starts_with_the_same(
    capfd: pytest.CaptureFixture[str],
) -> None:
    proposer = OptunaProposer(spec(trials=10, targets=("one", "other")))
    sizes = []
    while batch := proposer.propose():
        sizes.append(len(batch))
        names = [(variant.parameters, variant.level, variant.precision) for variant in batch]
        if len(sizes) == 1:
            assert names[:4] == names[4:]
        proposer.receive([row(1, variant) for variant in batch])
    assert sizes == [8, 8, 4]
    assert capfd.readouterr() == ("", "")
    assert proposer.note == "the search tries 10 of 2,000 variants per target to optimize accuracy and latency_ms"


def test_a_grid_no_larger_than_the_trials_is_run_whole_without_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    asked = spec(trials=2000, targets=("one", "other"))
    proposer = OptunaProposer(asked)
    assert proposer.propose() == grid(asked)
    assert proposer.propose() == ()
    assert "no more than the 2,000 trials, so all are run" in proposer.note


def test_without_optuna_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'edgetool\[sweep\]'"):
        OptunaProposer(spec())


def test_an_optuna_without_constraints_of_trials_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optuna.__version__", "4.6.0")
    with pytest.raises(MissingExtraError, match=r"Optuna 5 or later, but 4\.6\.0 is installed"):
        OptunaProposer(spec())


def test_an_unknown_objective_is_refused() -> None:
    asked = SweepSpec("s", Path("m.h5"), None, ("int8",), (TargetSpec("a", "a"),), search=Search(1, 1, ("beauty",)))
    with pytest.raises(UsageError, match="no axis 'beauty'"):
        OptunaProposer(asked)


@settings(max_examples=6)
@given(st.data())
def test_proposed_variants_are_in_the_grid_and_proposed_once(data: st.DataObject) -> None:
    """With nearly all of a small grid asked for, so that the wished for variant is mostly taken."""
    asked = SweepSpec(
        "s",
        Path("m.h5"),
        None,
        ("float32", "int8", "int16x8"),
        (TargetSpec("a", "a"), TargetSpec("b", "b")),
        Pruning((0.0, 0.1, 0.2, 0.3, 0.5, 0.8)),
        seed=data.draw(st.integers(0, 9)),
        search=Search(17, data.draw(st.integers(1, 6)), ("sqnr_db", "latency_ms")),
    )
    proposer, variants = OptunaProposer(asked), []
    while batch := proposer.propose():
        for variant in batch:
            fate = data.draw(st.sampled_from(("failed", "infinite", "silent", "unknown", "done")))
            latency = None if fate == "unknown" else Band(variant.level + 1, 0.0, 9.0)
            sqnr_db = None if fate in ("infinite", "silent") else 20.0
            quality = {"sqnr_db": sqnr_db, "equal": fate == "infinite"}
            made = None if fate == "failed" else made_metrics(latency_ms=latency, quality=quality)
            proposer.receive([Row(len(variants) + 1, variant, "failed" if made is None else "done", metrics=made)])
            variants.append(variant)
    assert len(variants) == len(set(variants)) == 34
    assert set(variants) <= set(grid(asked))


def test_random_batches_differ() -> None:
    """From the same seed a batch would wish for the points of the one before, and get neighbours: a step away."""
    proposer = OptunaProposer(spec(trials=12, batch=4))
    batches = [proposer.propose() for _ in range(3)]
    for before, after in pairwise(batches):
        differing = [
            sum(one != other for one, other in zip(_chosen(first), _chosen(second), strict=True))
            for first, second in zip(before, after, strict=True)
        ]
        assert max(differing) > 1


def _chosen(variant: Variant) -> tuple[BuilderArgument, ...]:
    return (*(value for _, value in variant.parameters), variant.level, variant.precision)


def test_numbers_are_put_in_order_and_texts_are_not() -> None:
    builder = Builder(
        Path("m.py"),
        "m",
        "f",
        (),
        (("width", (2, 0.5, 1)), ("flag", (True, False)), ("level", ("b", "a")), ("mask", (10**400, 0.5, 1))),
    )
    asked = SweepSpec("s", None, builder, ("int8",), (TargetSpec("a", "a"),), Pruning((0.0, 0.5)))
    space = space_of(asked)
    assert [(item.values, item.ordered) for item in space.dimensions] == [
        ((0.5, 1, 2), True),
        ((True, False), False),
        (("b", "a"), False),
        ((0.5, 1, 10**400), True),
        ((0.0, 0.5), True),
        (("int8",), False),
    ]
    every = product(*(range(len(item.values)) for item in space.dimensions))
    assert {space.variant(point, "a") for point in every} == set(grid(asked))


def test_the_nearest_free_point_is_the_fewest_steps_away() -> None:
    space = space_of(spec())

    def steps(one: tuple[int, ...], other: tuple[int, ...]) -> int:
        parts = zip(space.dimensions, one, other, strict=True)
        return sum(abs(a - b) if item.ordered else a != b for item, a, b in parts)

    everything = list(product(*(range(len(item.values)) for item in space.dimensions)))
    rng = random.Random(0)
    for share in (0.1, 0.5, 0.99):
        taken = set(rng.sample(everything, int(share * len(everything))))
        for point in rng.sample(everything, 20):
            found = space.nearest_free(point, taken, lambda points: rng.sample(points, len(points)))
            assert found not in taken
            assert steps(point, found) == min(steps(point, other) for other in everything if other not in taken)
    with pytest.raises(ValueError, match="all points have been tried"):
        space.nearest_free(everything[0], set(everything), list)


maybe = st.none() | st.sampled_from((0.0, 0.4, 0.5, 0.9, 0.93, 1.0))
bands = st.none() | st.sampled_from((0.0, 10.0, 20.0, 20.000001)).map(lambda value: Band(value, value, value))


@examples(300)
@given(
    limits=st.builds(
        SweepLimits,
        active_budget=st.none() | st.sampled_from(("0", "64KiB", "64KiB:ram", "64KiB:flash")).map(parse_budget),
        reserve_bytes=st.sampled_from((0, 4096)),
        reserve_flash_bytes=st.sampled_from((0, 4096)),
        max_latency_ms=st.sampled_from((None, 0.0, 20.0)),
        max_energy_uj=st.sampled_from((None, 20.0)),
        min_accuracy=st.sampled_from((None, 0.9)),
        max_accuracy_loss=st.sampled_from((None, 0.0, 3.0)),
    ),
    quality=st.fixed_dictionaries({"accuracy": maybe, "float_accuracy": maybe, "agreement": maybe}),
    arena_bytes=st.sampled_from((None, 0, 61_440, 61_441, 65_536, 65_537)),
    model_bytes=st.sampled_from((0, 61_440, 61_441, 65_536, 65_537)),
    latency_ms=bands,
    energy_uj=bands,
    sram_bytes=st.sampled_from((None, 65_536)),
    flash_bytes=st.sampled_from((None, 65_536)),
    errors=st.sampled_from(((), ("no kernel",))),
)
def test_no_limit_is_exceeded_exactly_if_the_variant_is_accepted(limits, quality, **cost) -> None:  # type: ignore[no-untyped-def]
    made = made_metrics(quality=quality, arena_least_bytes=cost["arena_bytes"] or 4096, **cost)
    judged = judge(made, limits)
    assert all(value <= 0 for value in limit_overruns(made, limits).values()) == judged.accepted
    reported = constraints(Row(1, Variant((), 0.0, "int8", "a"), "done", metrics=made, judged=judged), limits)
    assert all(value <= 0 for value in reported.values()) == judged.accepted


def test_an_overrun_is_a_fraction_of_its_limit() -> None:
    limits = SweepLimits(
        active_budget=parse_budget("32KiB:ram"),
        reserve_bytes=8192,
        reserve_flash_bytes=65_536,
        max_latency_ms=8.0,
        max_energy_uj=1000.0,
        min_accuracy=0.95,
    )
    made = made_metrics(
        quality={"accuracy": 0.9},
        arena_bytes=40_960,
        model_bytes=65_536,
        latency_ms=Band(20.0, 1.0, 99.0),
        energy_uj=None,
        sram_bytes=65_536,
        flash_bytes=262_144,
    )
    assert limit_overruns(made, limits) == pytest.approx(
        {
            "runtime": 0.0,
            "arena unknown": 0.0,
            "memory": -0.25,
            "flash": -0.5,
            "budget": 0.5,
            "latency": 1.5,
            "energy": 1.0,
            "accuracy": 0.05,
        }
    )


TARGETS = tuple(TargetSpec(name, name) for name in ("cortex-m4", "cortex-m0plus"))


def test_plans_vary_within_a_target() -> None:
    spec = SweepSpec("s", Path("m.h5"), None, ("int8",), TARGETS, optimize=(False, True), max_extra_macs=(0.0, 2.5))
    plans = [(False, 0.0), (False, 2.5), (True, 0.0), (True, 2.5)]
    assert [(item.target, item.optimize, item.max_extra_macs) for item in grid(spec)] == [
        (target.label, *plan) for target in TARGETS for plan in plans
    ]
    space = space_of(spec)
    assert space.size == len(plans)
    points = [(0, 0, first, second) for first in range(2) for second in range(2)]
    found = [space.variant(point, "cortex-m4") for point in points]
    assert found == list(grid(spec))[: len(plans)]


def test_the_target_changes_fastest_and_parameters_slowest() -> None:
    builder = Builder(Path("model.py"), "model", "build", (), (("width", (1, 2)), ("wide", (True, False))))
    spec = SweepSpec("s", None, builder, ("int8", "float32"), TARGETS, Pruning((0.0, 0.5)))
    variants = grid(spec)
    assert len(variants) == len(set(variants)) == 2 * 2 * 2 * 2 * 2
    assert variants[0] == Variant((("width", 1), ("wide", True)), 0.0, "int8", "cortex-m4")
    assert [variant.target for variant in variants[:2]] == ["cortex-m4", "cortex-m0plus"]
    assert [variant.precision for variant in variants[::2][:2]] == ["int8", "float32"]
    assert [variant.level for variant in variants[::4][:2]] == [0.0, 0.5]
    assert [dict(variant.parameters) for variant in variants[::8]] == [
        {"width": width, "wide": wide} for width in (1, 2) for wide in (True, False)
    ]


@given(
    st.lists(st.sampled_from(sorted(PRECISIONS)), min_size=1, unique=True),
    st.lists(st.floats(0, 0.99), min_size=1, unique=True),
    st.integers(1, 2),
)
def test_a_model_file_has_every_combination_once(precisions: list[str], levels: list[float], targets: int) -> None:
    spec = SweepSpec("s", Path("m.h5"), None, tuple(precisions), TARGETS[:targets], Pruning(tuple(sorted(levels))))
    variants = grid(spec)
    assert len(set(variants)) == len(variants) == len(precisions) * len(levels) * targets
    assert all(variant.parameters == () for variant in variants)
