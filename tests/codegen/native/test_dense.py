"""Dense layers and products of matrices as native kernels: descriptors, refusals, and the outputs of TFLM's kernels."""

from __future__ import annotations

from random import Random
from struct import pack, unpack
from typing import Any

import numpy as np
import pytest
from benchmarks.kernels.cases import Case
from benchmarks.kernels.cases.drawing import constant

from edgetool.codegen.native.dense import MAX_GROUPED_DEPTH
from edgetool.codegen.native.emit import arrays_of
from edgetool.codegen.native.fixed_point import quantize_multiplier
from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.program import Constant, Step
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Model
from tests.codegen.native.host import Build, compare_all, differences, prepare
from tests.memory.account_net import Net


def _network(dtype: DType) -> Model:
    """Return dense layers per tensor, per channel and of several rows, then products with other tensors."""
    net = Net()
    x = net.arena(3, 4, 10, dtype=dtype, zero_point=-7 if dtype is DType.INT8 else 0)
    scale = 4 * (1 / 16 if dtype is DType.INT8 else 1 / 2048)
    y = _dense(net, x, 10, (3, 4, 12), axis=None, scale=scale, fused_activation_function="RELU6")
    y = _dense(net, y, 12, (3, 4, 7), axis=0, scale=2 * scale)
    a = net.op("BATCH_MATMUL", [y, y], 3, 4, 4, adj_x=False, adj_y=True, scale=8 * scale)
    if dtype is DType.INT8:
        right = net.noise(4, 9, scale=1 / 100)
        b = net.op("BATCH_MATMUL", [a, right], 3, 4, 9, adj_x=False, adj_y=False, scale=8 * scale, zero_point=11)
    else:
        b = net.op("BATCH_MATMUL", [a, y], 3, 4, 7, adj_x=True, adj_y=False, scale=16 * scale)
    other = net.arena(1, net.tensors[b].shape[2], 5, dtype=dtype, zero_point=9 if dtype is DType.INT8 else 0)
    z = net.op("BATCH_MATMUL", [b, other], 3, 4, 5, adj_x=False, adj_y=False, scale=32 * scale)
    net.end_graph([x, other], [z])
    return net.whole()


def _dense(
    net: Net, x: int, depth: int, shape: tuple[int, ...], *, axis: int | None, scale: float, **values: Any
) -> int:
    inputs = [x, net.filter(shape[-1], depth, like=x, axis=axis)]
    return net.op("FULLY_CONNECTED", inputs, *shape, scale=scale, keep_num_dims=True, **values)


def _layer(
    depth: int = 10, units: int = 6, *, scales: tuple[float, ...] = (1 / 128,), zero: int = 0, bias: int = 100
) -> Model:
    """Return a single layer with weights of -1."""
    net = Net()
    x = net.arena(1, depth, scale=1 / 16, zero_point=3)
    weights = net.tensor((units, depth), DType.INT8, data=b"\xff" * units * depth, scales=scales, zero_point=zero)
    values = net.constant([bias] * units, scale=1 / 16 / 128)
    y = net.op("FULLY_CONNECTED", [x, weights, values], 1, units, scale=1 / 8)
    net.end_graph([x], [y])
    return net.whole()


def _step(model: Model) -> Step:
    (step,) = lower(model).steps
    return step


def _fields(model: Model) -> dict[str, object]:
    return dict(_step(model).op.values)


def _words(constant: object) -> list[int]:
    assert isinstance(constant, Constant)
    return [int(word) for word in np.frombuffer(constant.data, "<i4")]


def test_units_with_one_scale_share_it_and_fold_the_zero_point_into_their_bias() -> None:
    fields = _fields(_layer())
    assert (fields["scale_step"], len(_words(fields["scales"]))) == (0, 3)
    assert _words(fields["offsets"]) == [100 + 3 * 10] * 6


def test_units_with_scales_have_one_each() -> None:
    fields = _fields(_layer(scales=(0.01, 0.02, 0.01, 0.03, 0.01, 0.02)))
    assert (fields["scale_step"], len(_words(fields["scales"])), fields["offsets"]) == (1, 18, None)


def test_constants_of_a_layer_with_one_scale_grow_by_its_offsets_only() -> None:
    program = lower(_layer(depth=64, units=32))
    assert arrays_of("model", program).total_bytes == 64 * 32 + 4 * 32 + 12


def test_a_zero_point_of_the_weights_is_subtracted_from_them() -> None:
    fields = _fields(_layer(zero=-5))
    assert fields["weights_zero_point"] == -5
    assert _words(fields["offsets"]) == [100 - 3 * 10 * (5 - 1)] * 6


def test_the_product_of_scales_of_a_layer_is_not_rounded_to_float32() -> None:
    first, second, result = (float(np.float32(value)) for value in (0.123456789, 0.00987654321, 0.34567891))
    (single,) = unpack("<f", pack("<f", first * second))
    expected = quantize_multiplier(first * second / result)
    assert expected != quantize_multiplier(single / result)
    net = Net()
    x = net.arena(1, 4, scale=first)
    weights = net.tensor((4, 4), DType.INT8, data=bytes(range(16)), scales=(second,))
    y = net.op("FULLY_CONNECTED", [x, weights], 1, 4, scale=result)
    net.end_graph([x], [y])
    # Outputs on both sides of the zero point have the multiplier of TFLM itself.
    assert _words(_fields(net.whole())["scales"]) == [expected.value, 0, expected.right]


def test_weights_that_the_model_computes_are_the_right_operand_of_a_product() -> None:
    net = Net()
    x, weights = net.arena(2, 5), net.arena(3, 5, zero_point=4)
    y = net.op("FULLY_CONNECTED", [x, weights], 2, 3)
    net.end_graph([x, weights], [y])
    step = _step(net.whole())
    fields = dict(step.op.values)
    assert step.kernel == "edgetool_batch_matmul_s8"
    assert [fields[name] for name in ("rows", "columns", "depth", "right_zero_point")] == [2, 3, 5, 4]
    assert [fields[name] for name in ("right_column_step", "right_depth_step")] == [5, 1]


@pytest.mark.parametrize("adj_y", [False, True])
def test_a_constant_right_operand_makes_a_product_a_dense_layer(adj_y: bool) -> None:
    net = Net()
    x = net.arena(1, 1, 4)
    codes = np.arange(20, dtype=np.int8).reshape((5, 4) if adj_y else (4, 5))
    right = net.tensor(codes.shape, DType.INT8, data=codes.tobytes(), scales=(0.1,))
    y = net.op("BATCH_MATMUL", [x, right], 1, 1, 5, adj_x=False, adj_y=adj_y)
    net.end_graph([x], [y])
    step = _step(net.whole())
    assert (step.kernel, step.rows, step.row_bytes) == ("edgetool_dense_s8", 1, 5)
    weights = dict(step.op.values)["weights"]
    assert isinstance(weights, Constant)
    rows = (codes if adj_y else codes.T).astype(np.uint8)
    rows[[0, 2]] += 128
    # Four units at once, two and two, codes 0 and 2 before 1 and 3; then the last unit.
    order = [(unit, code) for code in (0, 1) for unit in (0, 2)]
    words = [rows[unit : unit + 2, code : code + 3 : 2].T.tobytes() for unit, code in order]
    assert weights.data == b"".join(words) + rows[4].tobytes()


def _rows(rows: int, depth: int, units: int, **values: int) -> Model:
    """Return a layer of several rows. values: the zero point of the weights."""
    net = Net()
    x = net.arena(rows, depth, scale=1 / 16, zero_point=3)
    codes = net.random.randbytes(units * depth)
    weights = net.tensor((units, depth), DType.INT8, data=codes, scales=(1 / 128,), **values)
    y = net.op("FULLY_CONNECTED", [x, weights, net.biases(units, like=x)], rows, units, scale=depth**0.5 / 8)
    net.end_graph([x], [y])
    return net.whole()


def test_rows_are_pixels_of_a_convolution_where_that_has_fewer_instructions() -> None:
    def kernel(*sizes: int, dsp: bool = True, row_wise: bool = False, vector: bool = False, zero_point: int = 0) -> str:
        model = _rows(*sizes, zero_point=zero_point)
        (step,) = lower(model, dsp=dsp, row_wise=row_wise, vector=vector).steps
        return step.kernel.removeprefix("edgetool_")

    assert kernel(8, 16, 5) == kernel(8, 16, 40, dsp=False) == "conv2d_tiled_s8"
    assert kernel(8, 16, 2) == kernel(2, 16, 6) == kernel(7, 100, 1, dsp=False) == "conv2d_lean_s8"
    assert kernel(3, 16, 2) == kernel(3, 16, 40) == kernel(8, 16, 1) == kernel(1, 16, 40) == "dense_s8"
    assert kernel(8, 16, 5, row_wise=True) == kernel(8, 16, 5, zero_point=1) == "dense_s8"
    assert kernel(2, 32, 1, vector=True) == kernel(3, 33, 9, vector=True) == "conv2d_vector_s8"
    assert kernel(2, 33, 9, vector=True) == kernel(3, 33, 8, vector=True) == "dense_vector_s8"


@pytest.mark.parametrize(("flags", "vector"), [((), False), (("-DEDGETOOL_DSP=1",), False), ((), True)])
def test_rows_that_are_pixels_compute_what_tflm_computes(flags: tuple[str, ...], vector: bool) -> None:
    sizes = [(8, 12, 4), (2, 5, 6), (7, 9, 2), (4, 13, 6), (12, 6, 9), (6, 30, 5)]
    if not flags:
        sizes += [(8, 12, 1), (2, 5, 3)]
    models = {str(size): prepare(_rows(*size), 2, vector=vector, dsp=bool(flags)) for size in sizes}
    assert {kernel.split("_")[1] for trial in models.values() for kernel in trial.program.kernels} == {"conv2d"}
    assert differences(models, Build(flags=flags)) == []


def test_a_product_with_one_column_has_its_operands_exchanged() -> None:
    net = Net()
    x, weights = net.arena(7, 20, zero_point=3), net.arena(1, 20, zero_point=4)
    y = net.op("FULLY_CONNECTED", [x, weights, net.biases(1, like=x)], 7, 1)
    net.end_graph([x, weights], [y])
    step = _step(net.whole())
    fields = dict(step.op.values)
    names = ("rows", "columns", "left_zero_point", "right_zero_point", "right_column_step")
    assert [fields[name] for name in names] == [1, 7, 4, 3, 20]
    assert [item.source for item in step.inputs] == [weights, x]
    assert len(set(_words(fields["bias"]))) == 1
    assert len(_words(fields["bias"])) == 7


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("-DEDGETOOL_DSP=1",)])
def test_products_of_all_depths_and_numbers_of_columns_compute_what_tflm_computes(flags: tuple[str, ...]) -> None:
    trials = []
    for depth in (1, 2, 3, 4, 15, 16, 17, 18, 19, 20, 33):
        for number, columns in enumerate((1, 2, 3, 4, 5, 9, 17)):
            net = Net(depth)
            turned = bool(number & 1)
            left = net.arena(2, *((depth, 3) if turned else (3, depth)), zero_point=-7)
            right = net.arena(2, columns, depth, zero_point=0 if number % 3 else 9)
            y = net.op("BATCH_MATMUL", [left, right], 2, 3, columns, adj_x=turned, adj_y=True, scale=2.0)
            net.end_graph([left, right], [y])
            trials.append(prepare(net.whole(), 2))
    assert not any(compare_all(trials, Build(flags=flags)))


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("-DEDGETOOL_DSP=1",)])
def test_random_dense_layers_of_all_depths_compute_what_tflm_computes(flags: tuple[str, ...]) -> None:
    random, trials = Random(9), []
    for number in range(60):
        net = Net()
        net.random = random
        rows, units = random.randint(1, 3), random.randint(1, 40)
        depth = random.choice((1, 3, 8, 45, 503, 504, 509, 1100))
        zero = random.choice((0, 0, -9))
        x = net.arena(rows, depth, zero_point=random.randint(-128, 127))
        data = np.random.default_rng(number).choice([-128, 127, 3, -7], units * depth).astype(np.int8).tobytes()
        weights = net.tensor((units, depth), DType.INT8, data=data, scales=(0.01,), zero_point=zero)
        fused = random.choice(("NONE", "RELU", "RELU6"))
        scale, zero_point = 0.002 * depth, random.choice((-128, 5))
        y = net.op(
            "FULLY_CONNECTED", [x, weights, -1], rows, units, scale=scale, zero_point=zero_point,
            fused_activation_function=fused, keep_num_dims=False,
        )  # fmt: skip
        net.end_graph([x], [y])
        trials.append(prepare(net.whole(), samples=3, seed=number))
    assert [item for item in compare_all(trials, Build(flags=flags)) if item is not None] == []


def test_a_broadcast_operand_repeats_and_does_not_overlap_the_output() -> None:
    net = Net()
    left, right = net.arena(2, 1, 4, 6), net.arena(3, 5, 6)
    y = net.op("BATCH_MATMUL", [left, right], 2, 3, 4, 5, adj_x=False, adj_y=True)
    net.end_graph([left, right], [y])
    step = _step(net.whole())
    fields = dict(step.op.values)
    assert [fields[name] for name in ("batches", "left_steps", "right_steps")] == [(1, 2, 3), (0, 24, 0), (0, 0, 30)]
    assert step.overlaps == ()


@pytest.mark.parametrize("code", ["FULLY_CONNECTED", "BATCH_MATMUL"])
def test_float32_is_refused(code: str) -> None:
    with pytest.raises(UnsupportedModelError, match="FLOAT32"):
        lower(Case(code, "float32", 0).model())


def test_sums_beyond_32_bits_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="its sums may exceed 32 bits"):
        lower(_layer(bias=2**31 - 1))


def test_a_layer_that_would_read_beyond_its_input_is_refused() -> None:
    net = Net()
    x = net.arena(1, 10)
    y = net.op("FULLY_CONNECTED", [x, net.filter(3, 10, like=x)], 2, 3)
    net.end_graph([x], [y])
    with pytest.raises(UnsupportedModelError, match="cannot multiply"):
        lower(net.whole())


def _with_simple_scales(seed: int) -> Model:
    """A layer whose scales have one digit, and whose outputs are small multiples of a half."""
    random, net = Random(seed), Net()
    net.random = random
    source, weights = (random.randint(1, 9) * 10.0 ** -random.randint(2, 3) for _ in range(2))
    result = round(source * weights * random.choice((0.4, 0.2857143, 0.2222222, 0.6666667, 1.3333333)), 7)
    x = net.arena(8, 16, scale=source, zero_point=random.randint(-128, 127))
    w = constant(net, random, (64, 16), DType.INT8, scales=(weights,), lowest=-1, highest=1)
    y = net.op("FULLY_CONNECTED", [x, w, -1], 8, 64, scale=result, keep_num_dims=False)
    net.end_graph([x], [y])
    return net.whole()


@pytest.mark.slow
def test_products_compute_what_tflm_computes() -> None:
    """With a multiplier whose product of scales is rounded to float32, a fifth of the layers with halves differs."""
    trials = {str(dtype): prepare(_network(dtype), 4) for dtype in (DType.INT8, DType.INT16)}
    trials |= {f"halves {seed}": prepare(_with_simple_scales(seed), 20, seed) for seed in range(60)}
    assert differences(trials) == []


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("-DEDGETOOL_DSP=1",)])
@pytest.mark.parametrize("units", [17, 18])
def test_many_units_too_deep_for_groups_compute_what_tflm_computes(units: int, flags: tuple[str, ...]) -> None:
    net, depth = Net(seed=units), MAX_GROUPED_DEPTH + 3
    x = net.arena(1, depth, zero_point=3)
    inputs = [x, net.filter(units, depth, like=x, axis=None), net.biases(units, like=x)]
    trial = prepare(net.model([x], [net.op("FULLY_CONNECTED", inputs, 1, units, scale=900.0)]), 2)
    (step,) = trial.program.steps
    assert (step.kernel, dict(step.op.values)["grouped"]) == ("edgetool_dense_s8", 0)
    assert differences({"deep": trial}, Build(flags=flags)) == []
