"""Sums over the rows of an image in two steps: when they are used, and the outputs of TFLM's reference kernels."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.program import Step
from edgetool.model.types import Model
from tests.codegen.native.host import Build, Driver, Trial, differences, prepare
from tests.memory.account_net import Net

TWO_STEPS = ["edgetool_add_rows_s8", "edgetool_mean_of_sums_s8"]


def pool(
    shape: tuple[int, ...], window: tuple[int, int], strides: tuple[int, int], padding: str = "VALID", **values: str
) -> Model:
    """Return an AVERAGE_POOL_2D."""
    net = Net()
    x = net.arena(*shape, zero_point=3)
    sides = [
        -(-side // stride) if padding == "SAME" else (side - taps) // stride + 1
        for side, taps, stride in zip(shape[1:3], window, strides, strict=True)
    ]
    names = ("filter_height", "filter_width", "stride_h", "stride_w")
    options: dict[str, Any] = {"padding": padding, **dict(zip(names, (*window, *strides), strict=True)), **values}
    y = net.op("AVERAGE_POOL_2D", [x], shape[0], *sides, shape[3], zero_point=3, **options)
    net.end_graph([x], [y])
    return net.whole()


def reduction(code: str, shape: tuple[int, ...], axes: list[int], scale: float = 1.0, zero_point: int = -20) -> Model:
    """Return a MEAN or SUM of an input with the scale 1/16."""
    net = Net()
    x = net.arena(*shape, scale=1 / 16, zero_point=-7)
    kept = [side for axis, side in enumerate(shape) if axis not in axes] or [1]
    y = net.op(code, [x, net.constant(axes, len(axes))], *kept, keep_dims=False, scale=scale, zero_point=zero_point)
    net.end_graph([x], [y])
    return net.whole()


def models() -> dict[str, Model]:
    """Return models that are computed in two steps."""
    return {
        "image": pool((1, 7, 5, 8), (7, 5), (1, 1)),
        "padded image": pool((1, 9, 3, 5), (9, 3), (9, 9), "SAME", fused_activation_function="RELU6"),
        "large image": pool((1, 20, 30, 3), (20, 30), (1, 1)),
        "wide image": pool((1, 4, 300, 9), (4, 300), (1, 1)),
        "many channels": pool((1, 7, 5, 22), (7, 5), (1, 1)),
        "some columns": pool((1, 9, 6, 4), (9, 2), (1, 4)),
        "overlapping windows": pool((1, 40, 6, 5), (40, 3), (1, 2), fused_activation_function="RELU"),
        "window larger than the image": pool((1, 8, 3, 3), (15, 5), (8, 3), "SAME"),
        "mean": reduction("MEAN", (1, 7, 5, 8), [1, 2], 1 / 16),
        "mean over height": reduction("MEAN", (1, 17, 3, 5), [1], 1 / 15),
        "mean over height and channels": reduction("MEAN", (1, 9, 6, 7), [1, 3], 1 / 20),
        "mean over all": reduction("MEAN", (1, 9, 6, 7), [1, 2, 3], 1 / 32),
        "sum": reduction("SUM", (1, 7, 5, 8), [1, 2], 1.9),
        "sum over height": reduction("SUM", (1, 11, 2, 3), [1], 0.31),
        "sum that saturates": reduction("SUM", (1, 16, 16, 4), [1, 2], 1 / 64),
    }


def _steps(model: Model) -> tuple[Step, ...]:
    return lower(model, row_wise=True).steps


@pytest.mark.parametrize("driver", ["run", "bands"])
def test_sums_of_rows_compute_what_tflm_computes(driver: Driver) -> None:
    trials = {name: prepare(model, 8, row_wise=True) for name, model in models().items()}
    for trial in trials.values():
        assert [step.kernel for step in trial.program.steps] == TWO_STEPS
    assert differences(trials, Build(driver=driver)) == []


@pytest.mark.slow
def test_random_sums_of_rows_compute_what_tflm_computes() -> None:
    random = Random("sums")
    trials: dict[str, Trial] = {}
    while len(trials) < 60:
        shape = (1, *(random.randint(1, limit) for limit in (24, 12, 20)))
        code = random.choice(("MEAN", "SUM"))
        axes = random.choice(([1], [1, 2], [1, 3], [1, 2, 3]))
        drawn = [reduction(code, shape, axes, 2.0 ** random.uniform(-9, 4), random.randint(-128, 127))]
        taps, stride = random.randint(1, shape[2]), random.randint(1, 3)
        drawn.append(pool(shape, (shape[1], taps), (1, stride)))
        for model in drawn:
            if len(_steps(model)) == 2:
                trials[str(len(trials))] = prepare(model, 20, len(trials), row_wise=True)
    assert differences(trials) == []


def test_the_sums_are_one_row_that_all_input_rows_are_added_to() -> None:
    first, second = _steps(models()["image"])
    assert (first.rows, first.row_bytes, first.accumulates, first.output_bytes) == (7, 32, True, 32)
    assert (first.inputs[0].rows, first.inputs[0].taps, first.inputs[0].stride, first.inputs[0].row_bytes) == (
        7,
        1,
        1,
        40,
    )
    assert second.inputs[0].source == first.output
    assert (second.row_bytes, second.rows, second.accumulates, second.overlaps[0].distance) == (8, 1, False, -3)


@pytest.mark.parametrize(
    "model",
    [
        pool((2, 7, 5, 8), (7, 5), (1, 1)),
        pool((1, 7, 5, 8), (6, 5), (1, 1)),
        pool((1, 7, 5, 8), (2, 5), (1, 1)),
        pool((1, 1, 5, 8), (1, 5), (1, 1)),
        pool((1, 9, 6, 4), (9, 3), (1, 1), "SAME"),
        pool((1, 4, 1, 8), (4, 1), (1, 1)),
        reduction("MEAN", (2, 7, 5, 8), [1, 2]),
        reduction("MEAN", (1, 7, 5, 8), [2]),
        reduction("MEAN", (1, 4, 1, 8), [1]),
        reduction("MEAN", (7, 5, 8), [0, 1]),
        reduction("MEAN", (1, 7, 5, 8), [0, 1]),
    ],
)
def test_one_step_if_sums_are_not_possible_or_save_nothing(model: Model) -> None:
    (step,) = _steps(model)
    assert not step.accumulates


def test_one_step_if_tensors_are_planned() -> None:
    assert all(len(lower(model).steps) == 1 for model in models().values())
