"""Operators that do nothing are removed, and no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.draft import Draft
from edgetool.model.types import DType, Model, Quantization
from edgetool.operators.legality import unsupported_operators
from edgetool.passes.no_ops import NOTHING, remove_no_ops
from tests.passes.cleaned import PASS, cleaned
from tests.passes.runs import SCALE, ZERO_POINT, Net, codes, runtime

SHAPE = (1, 4, 3, 2)
POOL = {"padding": "VALID", "filter_width": 1, "filter_height": 1, "stride_w": 1, "stride_h": 1}


def between(net: Net, x: int, code: str, operands: list[int], shape: tuple[int, ...] = SHAPE, **fields: Any) -> Model:
    """ABS, the operator on x among its operands, and ABS."""
    table = fields.pop("table", "")
    source = net.tensors[x].shape
    before = net.add_operator("ABS", [x], source, table="AbsOptions")[0]
    read = [before if tensor == x else tensor for tensor in operands]
    output = net.add_operator(code, read, shape, dtype=net.tensors[x].dtype, table=table, **fields)[0]
    return net.model([x], net.add_operator("ABS", [output], shape, table="AbsOptions"))


def one(code: str, *constants: Any, dtype: DType = DType.INT8, first: bool = True, **fields: Any) -> Model:
    """An operator of a tensor and of constants that have their types."""
    net = Net()
    x = net.input(SHAPE, dtype)
    operands = [net.constant(value, kind) for value, kind in constants]
    return between(net, x, code, [x, *operands] if first else [*operands, x], **fields)


INT32, INT8, FLOAT = DType.INT32, DType.INT8, DType.FLOAT32
SAME_SHAPE = {
    "BROADCAST_TO": one("BROADCAST_TO", (SHAPE, INT32)),
    "CONCATENATION": one("CONCATENATION", table="ConcatenationOptions", axis=3),
    "DEPTH_TO_SPACE": one("DEPTH_TO_SPACE", table="DepthToSpaceOptions", block_size=1),
    "MIRROR_PAD": one("MIRROR_PAD", ([[0, 0]] * 4, INT32), table="MirrorPadOptions"),
    "PAD": one("PAD", ([[0, 0]] * 4, INT32), table="PadOptions"),
    "PADV2": one("PADV2", ([[0, 0]] * 4, INT32), ([9], INT8), table="PadV2Options"),
    "QUANTIZE": one("QUANTIZE", table="QuantizeOptions"),
    "RESHAPE": one("RESHAPE", (SHAPE, INT32), table="ReshapeOptions", new_shape=SHAPE),
    "RESIZE_NEAREST_NEIGHBOR": one(
        "RESIZE_NEAREST_NEIGHBOR", (SHAPE[1:3], INT32), table="ResizeNearestNeighborOptions"
    ),
    "SLICE": one("SLICE", ([0] * 4, INT32), ([1, -1, 3, -1], INT32), table="SliceOptions"),
    "SPACE_TO_DEPTH": one("SPACE_TO_DEPTH", table="SpaceToDepthOptions", block_size=1),
    "STRIDED_SLICE": one(
        "STRIDED_SLICE",
        ([0] * 4, INT32),
        ([1, 0, 3, 9], INT32),
        ([1] * 4, INT32),
        table="StridedSliceOptions",
        end_mask=2,
    ),
    "TILE": one("TILE", ([1] * 4, INT32), table="TileOptions"),
    "TRANSPOSE": one("TRANSPOSE", ([0, 1, 2, 3], INT32), table="TransposeOptions"),
    "AVERAGE_POOL_2D": one("AVERAGE_POOL_2D", table="Pool2DOptions", **POOL),
    "MAX_POOL_2D": one("MAX_POOL_2D", table="Pool2DOptions", **POOL),
    "ADD of 0": one("ADD", ([ZERO_POINT], INT8), table="AddOptions"),
    "ADD to 0": one("ADD", ([ZERO_POINT] * 2, INT8), first=False, table="AddOptions"),
    "ADD of -0.0": one("ADD", ([-0.0], FLOAT), dtype=FLOAT, table="AddOptions"),
    "DIV by 1.0": one("DIV", ([1.0], FLOAT), dtype=FLOAT, table="DivOptions"),
    "MUL by 1": one("MUL", ([ZERO_POINT + 16], INT8), table="MulOptions"),
    "MUL by 1.0": one("MUL", ([1.0, 1.0], FLOAT), dtype=FLOAT, table="MulOptions"),
    "SUB of 0": one("SUB", ([ZERO_POINT], INT8), table="SubOptions"),
    "SUB of 0.0": one("SUB", ([0.0], FLOAT), dtype=FLOAT, table="SubOptions"),
}


@pytest.mark.parametrize("name", SAME_SHAPE)
def test_operators_that_do_nothing_are_removed(name: str) -> None:
    model = SAME_SHAPE[name]
    draft = Draft(model)
    assert [record.operator_label for record in remove_no_ops(draft)] == [name.split()[0]]
    assert codes(draft.finish()) == ["ABS", "ABS"]
    if name.partition(" ")[0] not in {"MIRROR_PAD", "TILE", "BROADCAST_TO"}:
        result, changes = cleaned(model, PASS["no-ops"])
        assert changes[0].sentence.startswith(f"{name.split()[0]} has no effect and was removed")
        assert unsupported_operators(result, runtime()) == ()


NEEDED = {
    "PAD": one("PAD", ([[0, 0], [1, 0], [0, 0], [0, 0]], INT32), shape=(1, 5, 3, 2), table="PadOptions"),
    "STRIDED_SLICE of reversed rows": one(
        "STRIDED_SLICE",
        ([0, 3, 0, 0], INT32),
        ([1, 0, 3, 2], INT32),
        ([1, -1, 1, 1], INT32),
        table="StridedSliceOptions",
        end_mask=2,
    ),
    "CONCATENATION with an activation": one(
        "CONCATENATION", table="ConcatenationOptions", axis=3, fused_activation_function="RELU"
    ),
    "AVERAGE_POOL_2D with an activation": one(
        "AVERAGE_POOL_2D", table="Pool2DOptions", **POOL, fused_activation_function="RELU6"
    ),
    "ADD of 1": one("ADD", ([ZERO_POINT + 1], INT8), table="AddOptions"),
    "ADD of 0.0": one("ADD", ([0.0], FLOAT), dtype=FLOAT, table="AddOptions"),
    "ADD of 0 with an activation": one(
        "ADD", ([ZERO_POINT], INT8), table="AddOptions", fused_activation_function="RELU"
    ),
    "DIV of 1.0": one("DIV", ([1.0], FLOAT), dtype=FLOAT, first=False, table="DivOptions"),
    "MUL by -1": one("MUL", ([ZERO_POINT - 16], INT8), table="MulOptions"),
    "MUL by 17/16": one("MUL", ([ZERO_POINT + 17], INT8), table="MulOptions"),
    "MUL by 1.0 and 2.0": one("MUL", ([1.0, 2.0], FLOAT), dtype=FLOAT, table="MulOptions"),
    "SUB from 0": one("SUB", ([ZERO_POINT], INT8), first=False, table="SubOptions"),
    "RELU": one("RELU"),
}


@pytest.mark.parametrize("name", NEEDED)
def test_operators_that_do_something_stay(name: str) -> None:
    assert remove_no_ops(Draft(NEEDED[name])) == []


def requantized(model: Model, output: Quantization, code: str) -> Model:
    """The model with that quantization for all tensors but those before the operator."""
    operator = next(each for each in model.main.operators if each.code == code)
    tensors = tuple(
        replace(each, quantization=output) if each.index == operator.outputs[0] else each for each in model.main.tensors
    )
    return replace(model, subgraphs=(replace(model.main, tensors=tensors),))


@pytest.mark.parametrize("code", ["QUANTIZE", "RESHAPE", "PAD", "MAX_POOL_2D"])
def test_other_scales_and_zero_points_are_something(code: str) -> None:
    for scale, zero_point in ((SCALE, ZERO_POINT + 1), (SCALE / 2, ZERO_POINT)):
        changed = requantized(SAME_SHAPE[code], Quantization((scale,), (zero_point,), 0), code)
        assert remove_no_ops(Draft(changed)) == []


def test_rectifiers_without_negative_codes_are_removed() -> None:
    net = Net()
    x = net.tensor(SHAPE, DType.INT8, scales=(SCALE,), zero_point=-128)
    middle = net.tensor(SHAPE, DType.INT8, scales=(SCALE,), zero_point=-128)
    outputs = [net.tensor(SHAPE, DType.INT8, scales=(SCALE,), zero_point=-128) for _ in range(2)]
    net.operator("MAX_POOL_2D", [x], [middle], None)
    net.operators[0] = replace(
        net.operators[0], options=one("MAX_POOL_2D", table="Pool2DOptions", **POOL).main.operators[1].options
    )
    net.operator("RELU", [middle], outputs[:1])
    net.operator("RELU6", [outputs[0]], outputs[1:])
    result, _ = cleaned(net.model([x], outputs[1:]), PASS["no-ops"])
    assert codes(result) == ["RELU6"]


def test_reshapes_in_a_row_become_one() -> None:
    net = Net()
    x = net.input(SHAPE, INT8)
    flat = net.reshape(net.reshape(net.reshape(x, (24,)), (2, 12)), (4, 6))
    result, changes = cleaned(net.model([x], net.add_operator("ABS", [flat], (4, 6))), PASS["no-ops"])
    assert codes(result) == ["RESHAPE", "ABS"]
    assert changes[0].sentence.startswith("2 RESHAPE have no effect and were removed")


@pytest.mark.parametrize(("second", "expected"), [([0, 2, 3, 1], []), ([0, 3, 1, 2], ["TRANSPOSE"])])
def test_transposes_in_a_row_become_one_or_none(second: list[int], expected: list[str]) -> None:
    net = Net()
    x = net.input(SHAPE, INT8)
    there = net.add_operator("TRANSPOSE", [x, net.constant([0, 3, 1, 2])], (1, 2, 4, 3))[0]
    shape = [net.tensors[there].shape[axis] for axis in second]
    back = net.add_operator("TRANSPOSE", [there, net.constant(second)], shape)[0]
    result, _ = cleaned(net.model([x], net.add_operator("ABS", [back], shape)), PASS["no-ops"])
    assert codes(result) == [*expected, "ABS"]


def dequantized(scale: float) -> Model:
    net = Net()
    x = net.input(SHAPE, INT8)
    before = net.add_operator("ABS", [x], SHAPE)[0]
    real = net.add_operator("DEQUANTIZE", [before], SHAPE, dtype=FLOAT)[0]
    again = net.tensor(SHAPE, INT8, scales=(scale,), zero_point=ZERO_POINT)
    net.operator("QUANTIZE", [real], [again])
    return net.model([x], net.add_operator("ABS", [again], SHAPE))


def test_quantize_of_dequantize_with_the_same_scale_is_removed() -> None:
    result, _ = cleaned(dequantized(SCALE), PASS["no-ops"])
    assert codes(result) == ["ABS", "ABS"]
    assert remove_no_ops(Draft(dequantized(SCALE * 2))) == []


@given(scale=st.floats(1e-6, 1e3), zero_point=st.integers(-128, 127))
def test_every_code_survives_dequantize_and_quantize(scale: float, zero_point: int) -> None:
    """The arithmetic of TensorFlow Lite's kernels, in float32: AffineQuantize and Dequantize."""
    step = np.float32(scale)
    numbers = (np.arange(-128, 128) - zero_point).astype(np.float32) * step
    assert (np.rint(numbers / step) + zero_point == np.arange(-128, 128)).all()


def test_an_output_keeps_its_name_and_an_input_that_is_an_output_its_operator() -> None:
    net = Net()
    x = net.input((4, 6), INT8)
    copied = net.reshape(x, (4, 6))
    model = net.model([x], [copied])
    assert remove_no_ops(Draft(model)) == []
    net = Net()
    x = net.input((4, 6), INT8)
    model = net.model([x], [net.reshape(net.add_operator("ABS", [x], (4, 6))[0], (4, 6))])
    result, _ = cleaned(model, PASS["no-ops"])
    assert codes(result) == ["ABS"]


def test_unread_operators_are_removed() -> None:
    net = Net()
    x = net.input((4, 6), INT8)
    net.add_operator("ABS", net.add_operator("RELU", [x], (4, 6)), (4, 6))
    result, changes = cleaned(net.model([x], net.add_operator("ABS", [x], (4, 6))), PASS["no-ops"])
    assert codes(result) == ["ABS"]
    assert changes[0].sentence.startswith("ABS, RELU have no effect and were removed")


def test_every_kind_of_operator_is_tested() -> None:
    tested = {name.split()[0] for name in SAME_SHAPE} | {"RELU", "RELU6"}
    assert set(NOTHING) - tested == {"CAST", "EXPAND_DIMS", "SQUEEZE", "RELU_N1_TO_1"}


@given(
    code=st.sampled_from(["ADD", "MUL", "SUB"]),
    constant=st.integers(-128, 127),
    scale=st.sampled_from([1 / 64, 1 / 17, 1 / 16, 0.3, 1.0, 5.0]),
    zero_point=st.integers(-4, 4),
)
def test_arithmetic_is_removed_only_if_every_code_stays(
    code: str, constant: int, scale: float, zero_point: int
) -> None:
    net = Net()
    x = net.input((1, 256), INT8)
    value = net.tensor((1,), INT8, data=np.int8(constant).tobytes(), scales=(scale,), zero_point=zero_point)
    output = net.add_operator(code, [x, value], (1, 256), table=f"{code.title()}Options")[0]
    model = net.model([x], net.add_operator("ABS", [output], (1, 256)))
    codes_once = np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 256)
    cleaned(model, PASS["no-ops"], inputs=(codes_once,))
