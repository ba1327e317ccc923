""""""

from __future__ import annotations

import pytest

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from edgetool.operators.loops import LoopCounts
from tests.memory.account_net import Net
from tests.operators.asked import F, asked, constant
from tests.operators.calls import tensor
from tests.operators.runs import FLOAT32, INT8, INT32, run

SOURCE = tensor(2, 3, 4, dtype=F)


def test_reshape_does_not_request_its_shape_input() -> None:
    assert asked("RESHAPE", [SOURCE], [tensor(24, dtype=F)]) == ["t0", "t1"]
    computed = tensor(2, dtype=DType.INT32)
    assert asked("RESHAPE", [SOURCE, computed], [tensor(6, 4, dtype=F)]) == ["t0", "t2"]


def test_old_files_give_a_scalar_the_shape_of_nothing() -> None:
    one, scalar = tensor(1, 1, dtype=F), tensor(0, dtype=F)
    assert asked("RESHAPE", [one], [scalar]) == ["t0", "t1"]
    with pytest.raises(KernelRefusal, match="cannot produce"):
        asked("RESHAPE", [one, constant(0)], [scalar])


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (tensor(23, dtype=F), "cannot produce"),
        (tensor(24), "float32 together with int8"),
    ],
)
def test_reshape_rejects(result: Tensor, reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        asked("RESHAPE", [SOURCE], [result])


def test_reshape_has_room_for_eight_dimensions_in_its_options() -> None:
    assert asked("RESHAPE", [SOURCE], [tensor(24, dtype=F)], new_shape=(1,) * 8) == ["t0", "t1"]
    with pytest.raises(KernelRefusal, match="8 dimensions in its options, not 9"):
        asked("RESHAPE", [SOURCE], [tensor(24, dtype=F)], new_shape=(1,) * 9)


@pytest.mark.parametrize(
    ("axes", "result"), [((), (3, 4)), ((0,), (3, 1, 4)), ((-2,), (1, 3, 4)), ((0, 2), (3, 4)), (None, (3, 4))]
)
def test_squeeze(axes: tuple[int, ...] | None, result: tuple[int, ...]) -> None:
    assert asked("SQUEEZE", [tensor(1, 3, 1, 4)], [tensor(*result)], squeeze_dims=axes) == ["t0", "t1"]


@pytest.mark.parametrize(
    ("source", "axes", "result", "reason"),
    [
        (tensor(1, 3), (1,), (1,), "cannot remove dimension 1 from"),
        (tensor(1, 3), (2,), (3,), "cannot remove dimension 2 from"),
        (tensor(1, 3), (0,), (2,), "cannot fit"),
        (tensor(*[1] * 9), (), (), "at most 8 dimensions, not 9"),
    ],
)
def test_squeeze_rejects(source: Tensor, axes: tuple[int, ...], result: tuple[int, ...], reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        asked("SQUEEZE", [source], [tensor(*result)], squeeze_dims=axes)


@pytest.mark.parametrize(("axis", "result"), [(0, (1, 5, 6)), (1, (5, 1, 6)), (-1, (5, 6, 1)), (-3, (1, 5, 6))])
def test_expand_dims(axis: int, result: tuple[int, ...]) -> None:
    assert asked("EXPAND_DIMS", [tensor(5, 6), constant(axis)], [tensor(*result)]) == ["t0", "t1", "t2"]


@pytest.mark.parametrize(
    ("axis", "result", "reason"),
    [
        (tensor(1, dtype=DType.INT32), (1, 5, 6), "requires its axis to be constant in the file"),
        (constant(0, dtype=DType.INT64), (1, 5, 6), "int32, not int64"),
        (constant(0, shape=(1, 1)), (1, 5, 6), "0 to 1 dimensions, not 2"),
        (constant(3), (5, 6, 1), "axis 3 with 2 dimensions"),
        (constant(0), (5, 1, 6), "cannot produce"),
        (constant(-4), (1, 5, 6), "cannot produce"),
    ],
)
def test_expand_dims_rejects(axis: Tensor, result: tuple[int, ...], reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        asked("EXPAND_DIMS", [tensor(5, 6), axis], [tensor(*result)])


def test_shape_requests_nothing() -> None:
    assert asked("SHAPE", [SOURCE], [tensor(3, dtype=DType.INT64)]) == []


def test_zeros_like_takes_any_type() -> None:
    assert asked("ZEROS_LIKE", [SOURCE], [tensor(3)]) == ["t0", "t1"]


def test_broadcast_args() -> None:
    shape = tensor(3, dtype=DType.INT64)
    assert asked("BROADCAST_ARGS", [shape, shape], [shape]) == ["t0", "t1", "t2"]
    with pytest.raises(KernelRefusal, match="int32, int64, not int16"):
        asked("BROADCAST_ARGS", [tensor(3, dtype=DType.INT16)] * 2, [tensor(3, dtype=DType.INT16)])
    with pytest.raises(KernelRefusal, match="input 1 with 1 dimensions, not 2"):
        asked("BROADCAST_ARGS", [shape, tensor(3, 1, dtype=DType.INT64)], [shape])


@pytest.mark.parametrize(("code", "made"), [("RESHAPE", (60,)), ("SQUEEZE", (3, 20))])
def test_another_shape_is_one_copy(code: str, made: tuple[int, ...]) -> None:
    net = Net(1)
    x = net.arena(1, 3, 20)
    loops = run(net.model([x], [net.op(code, [x], *made)])).loops
    assert (loops["copies"], loops["copied 16 bytes"], loops["copied words"]) == (1, 3, 3)
    assert (loops["axis"], loops["axis of the output"]) == (3, len(made))


@pytest.mark.parametrize(("dtype", "path"), [(INT8, "int8"), (FLOAT32, "float32")])
def test_one_more_axis_is_a_loop_over_elements(dtype: DType, path: str) -> None:
    net = Net(1)
    x = net.arena(3, 20, dtype=dtype)
    work = run(net.model([x], [net.op("EXPAND_DIMS", [x, net.constant([0])], 1, 3, 20)]))
    assert work == LoopCounts(path, {"element": 60, "axis": 2})


def test_shapes_are_returned_axis_by_axis() -> None:
    net = Net(1)
    x = net.arena(3, 20, 4)
    assert run(net.model([x], [net.op("SHAPE", [x], 3, dtype=INT32, out_type="INT32")])) == LoopCounts(
        "int32", {"axis": 3}
    )
    net = Net(1)
    args = [net.constant([3, 1]), net.constant([2, 1, 4])]
    assert run(net.model([], [net.op("BROADCAST_ARGS", args, 3)])) == LoopCounts("int32", {"axis": 3})
