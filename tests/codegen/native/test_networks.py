"""Random networks and random single operators compute bit by bit what TFLM computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random

import pytest
from benchmarks.kernels.cases import Case, generators
from benchmarks.kernels.random_network import random_network

from edgetool.codegen.native.lower import lowering_of
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Model
from tests.codegen.native.host import Trial, differences, prepare

QUICK, MANY, PART = 15, 160, 80
SAMPLES, MANY_SAMPLES = 4, 40
# Numbers of the models of each operator, by whether their rows stay apart.
CASES = {False: (0, 1), True: (3, 4)}
# The types of activations that the native runtime computes with; others it only moves.
COMPUTED = (DType.INT8, DType.INT16)


def networks(first: int) -> Iterator[tuple[str, Model]]:
    """Yield random networks whose first input is int8 or int16, and with which TFLM does not abort."""
    number = first
    while True:
        model = random_network(Random(f"native/network/{number}"))
        if is_computed(model) and not aborts(model):
            yield f"network {number}", model
        number += 1


def is_computed(model: Model) -> bool:
    """Return whether the first input has a type that the native runtime computes with."""
    return model.main.tensors[model.main.inputs[0]].dtype in COMPUTED


def aborts(model: Model) -> bool:
    """Return whether the exponentials of a SOFTMAX may sum up to 512."""
    softmax = (operator for operator in model.main.operators if operator.code == "SOFTMAX")
    return any(model.main.tensors[operator.inputs[0]].shape[-1] >= 512 for operator in softmax)


def supported_types() -> list[tuple[str, str]]:
    """Return the operators that have a lowering, with each of their types."""
    return [(code, kind) for code, kind in generators() if lowering_of(code) is not None]


def cases(types: Iterable[tuple[str, str]], numbers: Iterable[int]) -> Iterator[tuple[str, Model]]:
    """Yield random models of single operators."""
    numbers = tuple(numbers)
    for code, kind in types:
        for number in numbers:
            model = Case(code, kind, number).model()
            if code == "DEPTHWISE_CONV_2D" and model.main.operators[0].inputs[2:] == (-1,):
                continue  # TFLM crashes
            yield f"{code}/{kind}/{number}", model


def supported(
    models: Iterable[tuple[str, Model]],
    count: int | None,
    refused: Counter[str],
    *,
    row_wise: bool = False,
    vector: bool = False,
    lean: bool = False,
    samples: int = SAMPLES,
) -> dict[str, Trial]:
    """Return the first models that the native runtime supports, and count the others by reason."""
    trials: dict[str, Trial] = {}
    for name, model in models:
        if len(trials) == count:
            break
        try:
            trials[name] = prepare(model, samples, len(trials), row_wise=row_wise, vector=vector, lean=lean)
        except UnsupportedModelError as error:
            refused[error.what] += 1
        except OverflowError:
            refused["its scales exceed float32"] += 1
    return trials


def test_random_networks_compute_what_tflm_computes() -> None:
    refused: Counter[str] = Counter()
    assert differences(supported(networks(10_000), QUICK, refused)) == []
    # Most networks have a native program: the comparison is not one of a few simple ones.
    assert refused.total() <= QUICK // 2, refused


@pytest.mark.slow
@pytest.mark.parametrize("part", range(MANY // PART))
def test_many_random_networks_compute_what_tflm_computes(part: int) -> None:
    refused: Counter[str] = Counter()
    assert differences(supported(networks(1_000 * part), PART, refused)) == []
    assert refused.total() <= PART // 2, refused


def test_random_operators_compute_what_tflm_computes() -> None:
    drawn = Random(0).sample(supported_types(), QUICK)
    assert differences(supported(cases(drawn, [0]), None, Counter())) == []


@pytest.mark.slow
@pytest.mark.parametrize("row_wise", CASES)
def test_many_random_operators_compute_what_tflm_computes(row_wise: bool) -> None:
    # A multiplier that is one unit in the last place of a float32 wrong changes one output in ten thousand.
    drawn = cases(supported_types(), CASES[row_wise])
    trials = supported(drawn, None, Counter(), row_wise=row_wise, samples=MANY_SAMPLES)
    assert differences(trials) == []
    computed = {code for code, kind in supported_types() if kind != "float32"}
    missing = computed - {name.split("/")[0] for name in trials}
    assert not missing, f"no supported model of {missing}"
