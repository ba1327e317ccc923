"""Prepare and loop counts of the functions of one tensor, CAST, QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

import pytest

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from edgetool.operators.elementwise import FUNCTIONS
from edgetool.operators.loops import LoopCounts
from tests.memory.account_net import Net
from tests.operators.builds import DSP
from tests.operators.calls import call, prepared, temporaries, tensor
from tests.operators.runs import FLOAT32, INT8, INT16, INT32, run, unary

F = tensor(1, 4, dtype=DType.FLOAT32)
Q = tensor(1, 4, scale=0.5)
WITH_PREPARE = ("ABS", "CEIL", "COS", "EXP", "LOG", "ROUND", "RSQRT", "SIN", "SQRT", "SQUARE", "ZEROS_LIKE")


@pytest.mark.parametrize("code", [*WITH_PREPARE, "CAST"])
def test_a_unary_kernel_requests_both_sides_once(code: str) -> None:
    assert temporaries(call(code, [F], [F])) == [0, 1]


@pytest.mark.parametrize("code", ["FLOOR", "NEG"])
def test_floor_and_neg_have_no_prepare(code: str) -> None:
    assert prepared(call(code, [F], [F])) == []


@pytest.mark.parametrize("code", ["COS", "LOG", "SIN", "SQRT", "SQUARE"])
def test_int8_passes_prepare_where_its_check_is_void(code: str) -> None:
    assert temporaries(call(code, [Q], [Q])) == [0, 1]


@pytest.mark.parametrize("code", ["CEIL", "EXP", "ROUND"])
def test_functions_of_float32_alone(code: str) -> None:
    with pytest.raises(KernelRefusal, match="float32, not int8"):
        prepared(call(code, [Q], [Q]))
    with pytest.raises(KernelRefusal, match="shape"):
        prepared(call(code, [F], [tensor(4, 1, dtype=DType.FLOAT32)]))


@pytest.mark.parametrize("code", ["ABS", "COS", "RSQRT"])
def test_one_type_on_both_sides(code: str) -> None:
    with pytest.raises(KernelRefusal, match="float32 together with int8"):
        prepared(call(code, [F], [Q]))


def test_cast_and_zeros_like_take_any_types() -> None:
    for code in ("CAST", "ZEROS_LIKE"):
        assert temporaries(call(code, [F], [tensor(2, dtype=DType.BOOL)])) == [0, 1]


@pytest.mark.parametrize("code", ["ABS", "RSQRT"])
def test_rescaling_needs_quantization_on_both_sides(code: str) -> None:
    plain = tensor(1, 4, dtype=DType.INT16)
    wide = tensor(1, 4, dtype=DType.INT16, scale=0.5)
    shifted = tensor(1, 4, dtype=DType.INT16, scale=0.5, zero_point=1)
    for pair in ((Q, Q), (plain, plain), (plain, wide), (wide, wide)):
        assert temporaries(call(code, [pair[0]], [pair[1]])) == [0, 1]
    for source, result in ((Q, tensor(1, 4)), (tensor(1, 4), Q), (wide, plain)):
        with pytest.raises(KernelRefusal, match="only with quantization"):
            prepared(call(code, [source], [result]))
    with pytest.raises(KernelRefusal, match="zero points of 0"):
        prepared(call(code, [wide], [shifted]))


@pytest.mark.parametrize("source", [F, Q, *(tensor(4, dtype=d) for d in (DType.INT32, DType.INT16, DType.UINT8))])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16, DType.INT32, DType.UINT8])
def test_quantize_takes(source: Tensor, dtype: DType) -> None:
    assert temporaries(call("QUANTIZE", [source], [tensor(1, 4, dtype=dtype, scale=0.5)])) == [0, 1]


@pytest.mark.parametrize(
    ("source", "result", "why"),
    [
        (F, tensor(1, 4), "scale"),
        (F, tensor(4, 1, scale=0.5, scales=4), "scale"),
        (F, tensor(1, 4, dtype=DType.FLOAT16, scale=0.5), "not float16"),
        (tensor(1, 4, dtype=DType.BOOL), Q, "not bool"),
    ],
)
def test_quantize_refuses(source: Tensor, result: Tensor, why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        prepared(call("QUANTIZE", [source], [result]))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16, DType.UINT8])
def test_dequantize_takes(dtype: DType) -> None:
    assert temporaries(call("DEQUANTIZE", [tensor(1, 4, dtype=dtype, scale=0.5)], [F])) == [0, 1]


@pytest.mark.parametrize(
    ("source", "result", "why"),
    [
        (tensor(1, 4, dtype=DType.FLOAT16), F, "not float16"),
        (tensor(1, 4, dtype=DType.INT32, scale=0.5), F, "not int32"),
        (Q, tensor(1, 4, dtype=DType.FLOAT16), "not float16"),
    ],
)
def test_dequantize_refuses(source: Tensor, result: Tensor, why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        prepared(call("DEQUANTIZE", [source], [result]))


@pytest.mark.parametrize("code", FUNCTIONS)
def test_a_function_of_floats_is_one_loop_on_both_kernel_sets(code: str) -> None:
    work = unary(code, 2, 3, 7, dtype=FLOAT32)
    assert (work.path, work.loops) == ("float32", {"own dimension": 6, "short dimension": 6, "element": 42})
    assert unary(code, 2, 3, 7, dtype=FLOAT32, platform=DSP) == work


def test_abs_multiplies_where_scales_differ() -> None:
    assert unary("ABS", 9, dtype=FLOAT32).path == "float32"
    assert unary("ABS", 9, dtype=INT8, scale=0.5, made_scale=0.5).path == "int8 quantized"
    assert unary("ABS", 9, dtype=INT16, scale=0.5, made_scale=0.25).path == "int16 rescaled"


UINT8 = DType.UINT8


def converted(
    code: str, source: DType, target: DType, scales: tuple[float, float] = (0.5, 0.25), zeros: tuple[int, int] = (0, 0)
) -> LoopCounts:
    net = Net(1)
    x = net.arena(3, 10, dtype=source, scale=scales[0], zero_point=zeros[0])
    return run(net.model([x], [net.op(code, [x], dtype=target, scale=scales[1], zero_point=zeros[1])]))


@pytest.mark.parametrize("code", ["CAST", "DEQUANTIZE"])
def test_a_conversion_is_one_loop_for_each_pair_of_types(code: str) -> None:
    work = converted(code, INT16, FLOAT32)
    assert (work.path, work.loops) == ("int16 to float32", {"own dimension": 4, "short dimension": 4, "element": 30})


def test_integers_are_rounded_by_sign() -> None:
    assert converted("QUANTIZE", INT8, INT32).loops["negative"] == 15
    assert converted("QUANTIZE", INT8, INT8, zeros=(-128, 0)).loops["negative"] == 0
    assert "negative" not in converted("QUANTIZE", FLOAT32, INT8).loops


@pytest.mark.parametrize(
    ("types", "scales", "zeros", "path"),
    [
        ((INT8, UINT8), (0.5, 0.5), (0, 128), "int8 to uint8 of one scale"),
        ((UINT8, INT8), (0.5, 0.5), (128, 0), "uint8 to int8 of one scale"),
        ((UINT8, INT8), (0.5, 0.5), (128, 1), "uint8 to int8"),
        ((UINT8, INT8), (0.5, 0.25), (128, 0), "uint8 to int8"),
        ((INT8, INT8), (0.5, 0.5), (0, 0), "int8 to int8"),
    ],
)
def test_between_int8_and_uint8_of_one_scale_only_the_sign_changes(
    types: tuple[DType, DType], scales: tuple[float, float], zeros: tuple[int, int], path: str
) -> None:
    assert converted("QUANTIZE", *types, scales, zeros).path == path
