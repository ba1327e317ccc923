from __future__ import annotations

import pytest

from edgetool.model.types import DType
from edgetool.operators.loops import LoopCounts
from tests.memory.account_net import Net
from tests.operators.loops.runs import FLOAT32, INT8, INT16, INT32, run

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
