"""Reductions as native kernels: loops, rows, refusals, and the outputs of TFLM's reference kernels."""

from __future__ import annotations

from itertools import combinations, product
from random import Random
from typing import Any

import numpy as np
import pytest
from benchmarks.kernels.cases import Case

from edgetool.codegen.native.fixed_point import Multiplier
from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.program import Step, StepOverlap
from edgetool.codegen.native.reduction import _folded_count, _lanes_distance
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Model
from tests.codegen.native.host import differences, prepare
from tests.memory.account_net import Net

AXES = ([1, 2], [0], [-1, 1], [0, 2], [3, 2, 1, 0], [2, 2, -2])


def _reduced(net: Net, code: str, x: int, axes: list[int], **values: Any) -> int:
    source = net.tensors[x]
    gone = {axis % len(source.shape) for axis in axes}
    shape = tuple(side for axis, side in enumerate(source.shape) if axis not in gone) or (1,)
    options: dict[str, Any] = {} if code.startswith("ARG") else {"keep_dims": False}
    dtype = DType.INT32 if code.startswith("ARG") else source.dtype
    return net.op(code, [x, net.constant(axes, len(axes))], *shape, dtype=dtype, **options, **values)


def _network(dtype: DType) -> Model:
    """Return a network of reductions along many axes; with int8, of every operator that int8 has."""
    net = Net()
    scale, zero_point = (1 / 16, -7) if dtype is DType.INT8 else (1 / 2048, 0)
    x = net.arena(2, 5, 3, 4, dtype=dtype, scale=scale, zero_point=zero_point)
    outputs = []
    for axes in AXES:
        outputs.append(_reduced(net, "MEAN", x, axes, scale=0.8 * scale, zero_point=zero_point // 2))
        outputs.append(_reduced(net, "SUM", x, axes, scale=4.3 * scale, zero_point=zero_point // 2))
        if dtype is DType.INT8:
            for code in ("REDUCE_MAX", "REDUCE_MIN"):
                outputs.append(_reduced(net, code, x, axes, scale=scale, zero_point=zero_point))
    if dtype is DType.INT8:
        outputs += [_reduced(net, code, x, [axis]) for code in ("ARG_MAX", "ARG_MIN") for axis in (0, 1, -2, 3)]
    net.end_graph([x], outputs)
    return net.whole()


def _running_sums(depth: int) -> Model:
    net = Net()
    x = net.arena(2, depth, 3, zero_point=-7)
    outputs = [
        net.op("CUMSUM", [x, net.constant([axis])], scale=2.9, zero_point=5, exclusive=exclusive, reverse=reverse)
        for axis in (0, 1, -1)
        for exclusive, reverse in product((False, True), (False, True))
    ]
    net.end_graph([x], outputs)
    return net.whole()


def _all_true() -> Model:
    net = Net()
    x = net.arena(3, 2, 4, dtype=DType.BOOL)
    outputs = [_reduced(net, "REDUCE_ALL", x, axes) for axes in ([0], [1], [2], [0, 2])]
    net.end_graph([x], outputs)
    return net.whole()


@pytest.mark.slow
def test_reductions_compute_what_tflm_computes() -> None:
    wrapping = np.stack([np.full((2, 90, 3), code, np.int8) for code in (127, -128, 40, -50)])
    trials = {
        "int8": prepare(_network(DType.INT8), 4),
        "int16": prepare(_network(DType.INT16), 4),
        "running sums that wrap around": prepare(_running_sums(90), inputs=[wrapping]),
        "bool": prepare(_all_true(), inputs=[np.random.default_rng(0).random((16, 3, 2, 4)) < 0.7]),
    }
    assert differences(trials) == []


def _sum_model(shape: tuple[int, ...], axes: list[int]) -> Model:
    net = Net()
    x = net.arena(*shape)
    y = _reduced(net, "SUM", x, axes, scale=1.0)
    net.end_graph([x], [y])
    return net.whole()


def _step(model: Model, **values: bool) -> Step:
    (step,) = lower(model, **values).steps
    return step


def _offsets(counts: tuple[int, int], steps: tuple[int, int]) -> list[int]:
    """Return the offsets of two nested loops."""
    return [i * steps[0] + k * steps[1] for i, k in product(range(counts[0]), range(counts[1]))]


def _places(step: Step) -> list[set[int]]:
    """Return the input elements that each output element reads, as the kernel reads them."""
    fields: dict[str, Any] = dict(step.op.values)
    kept, reduced = ([fields[f"{kind}_{name}"] for name in ("count", "step")] for kind in ("kept", "reduced"))
    row = step.inputs[0]
    result = []
    for batch, y in product(range(step.batches), range(step.rows)):
        starts = [batch * row.rows + y * row.stride * (row.taps == 1) + tap for tap in range(row.taps)]
        offsets = _offsets(*reduced)
        result += [
            {first * row.row_bytes + start + k for first in starts for k in offsets} for start in _offsets(*kept)
        ]
    return result


@pytest.mark.parametrize("row_wise", [False, True])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (2, 3, 4, 5), (2, 1, 3, 1), (2, 4, 1, 3), (2, 3, 2, 3, 2)])
def test_loops_read_the_elements_of_each_output(shape: tuple[int, ...], row_wise: bool) -> None:
    elements = np.arange(np.prod(shape)).reshape(shape)
    for count in range(len(shape) + 1):
        for axes in combinations(range(len(shape)), count):
            if len(shape) == 5 and axes == (0, 2, 4):
                continue
            step = _step(_sum_model(shape, list(axes)), row_wise=row_wise)
            moved = np.moveaxis(elements, axes, range(len(shape) - count, len(shape)))
            outputs = moved.reshape(-1, int(np.prod([shape[axis] for axis in axes])))
            assert _places(step) == [set(row) for row in outputs.tolist()]
            assert step.batches * step.rows * step.row_bytes == len(outputs)


def test_three_loops_over_reduced_axes_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="along the axes 0, 2, 4"):
        lower(_sum_model((2, 3, 2, 3, 2), [0, 2, 4]))


def test_a_mean_over_an_image_is_one_row_unless_rows_stay_apart() -> None:
    model = _sum_model((2, 7, 5, 4), [1, 2])
    whole, rows = _step(model), _step(model, row_wise=True)
    assert (whole.batches, whole.rows, whole.inputs[0].taps, whole.inputs[0].row_bytes) == (1, 1, 1, 280)
    assert (rows.batches, rows.rows, rows.inputs[0].taps, rows.inputs[0].row_bytes) == (2, 1, 7, 20)
    # The first pixel's channels are read before they are written.
    assert whole.overlaps == rows.overlaps == (StepOverlap(0, 0),)


@pytest.mark.parametrize(("shift", "count"), [(-3, 1), (-3, 49), (-31, 49), (-29, 100), (5, 64), (0, 2**20 + 1)])
def test_a_folded_count_divides_the_multiplier(shift: int, count: int) -> None:
    multiplier = Multiplier(1_500_000_001, shift)
    folded = _folded_count(multiplier, count)
    assert -31 <= folded.shift <= multiplier.shift
    assert 0 <= multiplier.value * 2.0 ** (multiplier.shift - folded.shift) / count - folded.value < 1


def test_the_distance_of_running_sums_is_the_smallest_safe_one() -> None:
    random = Random("lanes")
    for _ in range(60):
        blocks, depth, lanes, reverse = *(random.randint(1, 4) for _ in range(3)), random.random() < 0.5
        order = [
            block * depth * lanes + (depth - 1 - place if reverse else place) * lanes + lane
            for block, lane, place in product(range(blocks), range(lanes), range(depth))
        ]
        conflicts = {written - read for i, written in enumerate(order) for read in order[i + 1 :]}
        assert _lanes_distance(depth, lanes, reverse=reverse) == max(0, max(conflicts, default=-1) + 1)


@pytest.mark.parametrize("code", ["ARG_MAX", "ARG_MIN", "CUMSUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "SUM"])
def test_float32_is_refused(code: str) -> None:
    with pytest.raises(UnsupportedModelError, match=r"FLOAT32 .*is not supported"):
        lower(Case(code, "float32", 0).model())


def test_axes_that_the_input_lacks_are_refused() -> None:
    net = Net()
    x = net.arena(2, 3)
    y = net.op("SUM", [x, net.constant([2])], 2, keep_dims=False)
    net.end_graph([x], [y])
    with pytest.raises(UnsupportedModelError, match="it has no axes 2"):
        lower(net.whole())


def test_an_output_of_another_size_is_refused() -> None:
    net = Net()
    x = net.arena(2, 3)
    y = net.op("SUM", [x, net.constant([1])], 3, keep_dims=False)
    net.end_graph([x], [y])
    with pytest.raises(UnsupportedModelError, match=r"it reduces \(2, 3\) to 2 elements, not to \(3,\)"):
        lower(net.whole())
