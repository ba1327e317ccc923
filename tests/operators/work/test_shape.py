from __future__ import annotations

import pytest

from edgetool.model.types import DType
from edgetool.operators.loops import Work
from tests.memory.account_net import Net
from tests.operators.work.runs import FLOAT32, INT8, INT32, run


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
    assert work == Work(path, {"element": 60, "axis": 2})


def test_shapes_are_told_axis_by_axis() -> None:
    net = Net(1)
    x = net.arena(3, 20, 4)
    assert run(net.model([x], [net.op("SHAPE", [x], 3, dtype=INT32, out_type="INT32")])) == Work("int32", {"axis": 3})
    net = Net(1)
    args = [net.constant([3, 1]), net.constant([2, 1, 4])]
    assert run(net.model([], [net.op("BROADCAST_ARGS", args, 3)])) == Work("int32", {"axis": 3})
