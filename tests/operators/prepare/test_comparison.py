from __future__ import annotations

import pytest

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from tests.operators.prepare.calls import call, prepared, temporaries, tensor

COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
BOOL = tensor(1, 4, dtype=DType.BOOL)
F = tensor(1, 4, dtype=DType.FLOAT32)


@pytest.mark.parametrize("code", COMPARISONS)
def test_a_comparison_looks_at_its_inputs_only(code: str) -> None:
    assert temporaries(call(code, [F, F], [BOOL])) == [0, 1]


@pytest.mark.parametrize("code", COMPARISONS)
@pytest.mark.parametrize("scale", [1.0, 2.0, None])
def test_int8_is_compared_with_scales_below_one_only(code: str, scale: float | None) -> None:
    fine, other = tensor(1, 4, scale=0.9), tensor(1, 4, scale=scale)
    assert temporaries(call(code, [fine, fine], [BOOL])) == [0, 1]
    for pair in ([fine, other], [other, fine]):
        with pytest.raises(KernelRefusal, match="between 0 and 1"):
            prepared(call(code, pair, [BOOL]))


def test_int16_is_compared_whatever_its_scale() -> None:
    wide = tensor(1, 4, dtype=DType.INT16, scale=2.0)
    assert temporaries(call("GREATER", [wide, wide], [BOOL])) == [0, 1]


@pytest.mark.parametrize("code", ["LOGICAL_AND", "LOGICAL_OR"])
def test_binary_logic_has_no_prepare(code: str) -> None:
    assert prepared(call(code, [BOOL, BOOL], [BOOL])) == []


def test_logical_not_looks_at_both_sides() -> None:
    assert temporaries(call("LOGICAL_NOT", [BOOL], [BOOL])) == [0, 1]
    with pytest.raises(KernelRefusal, match="bool together with float32"):
        prepared(call("LOGICAL_NOT", [BOOL], [F]))


@pytest.mark.parametrize(
    ("shapes", "output"),
    [
        ([(2, 3), (2, 3), (2, 3)], (2, 3)),
        ([(2, 1), (3,), (2, 3)], (2, 3)),
        ([(), (3,), ()], (3,)),
        ([(1,), (), (1, 1)], (1, 1, 1)),  # single elements keep the file's shape
        ([(0,), (1,), (1,)], (0,)),
    ],
)
def test_select_looks_at_four_tensors(shapes: list[tuple[int, ...]], output: tuple[int, ...]) -> None:
    condition, first, second = shapes
    inputs = [tensor(*condition, dtype=DType.BOOL), tensor(*first), tensor(*second)]
    assert temporaries(call("SELECT_V2", inputs, [tensor(*output)])) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("inputs", "output", "why"),
    [
        ([F, F, F], F, "condition of type bool, not float32"),
        ([BOOL, F, tensor(1, 4)], F, "between float32 and int8"),
        ([BOOL, F], F, "no input 2"),
        ([BOOL, tensor(3), tensor(1)], tensor(1, 4), "cannot broadcast"),
        ([BOOL, tensor(4), tensor(1)], tensor(4), "the file specifies"),
        ([tensor(4, dtype=DType.BOOL), tensor(1), tensor(1)], tensor(5), "the file specifies"),
    ],
)
def test_select_refuses(inputs: list[Tensor], output: Tensor, why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        prepared(call("SELECT_V2", [*inputs], [output]))
