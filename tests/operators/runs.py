"""The loop counts of one operator on tensors without contents, on any build of TFLM."""

from __future__ import annotations

from typing import Any

from edgetool.model.types import DType, Model
from edgetool.operators.call import Call
from edgetool.operators.loops import LoopCounts
from edgetool.operators.registry import loop_counts_of
from edgetool.target.platform import Platform
from tests.memory.account_net import Net
from tests.operators.builds import REFERENCE

INT8, INT16, INT32, FLOAT32, BOOL = DType.INT8, DType.INT16, DType.INT32, DType.FLOAT32, DType.BOOL


def run(model: Model, platform: Platform = REFERENCE) -> LoopCounts:
    """The work of the model's last operator."""
    graph = model.main
    work = loop_counts_of(Call(model, graph, graph.operators[-1], platform, {}))
    assert work is not None
    return work


def binary(
    code: str,
    first: tuple[int, ...],
    second: tuple[int, ...],
    result: tuple[int, ...] | None = None,
    *,
    dtype: DType = INT8,
    platform: Platform = REFERENCE,
    **values: Any,
) -> LoopCounts:
    """The work of an operator on two tensors in the arena."""
    net = Net(1)
    inputs = [net.arena(*first, dtype=dtype), net.arena(*second, dtype=dtype)]
    return run(net.model(inputs, [net.op(code, inputs, *(result or first), **values)]), platform)


def unary(
    code: str,
    *shape: int,
    dtype: DType = INT8,
    platform: Platform = REFERENCE,
    scale: float | None = None,
    zero_point: int = 0,
    **values: Any,
) -> LoopCounts:
    """The work of an operator on one tensor in the arena; `values` are of its result and of its options."""
    net = Net(1)
    x = net.arena(*shape, dtype=dtype, scale=scale, zero_point=zero_point)
    result = {"scale" if name == "made_scale" else name: value for name, value in values.items()}
    return run(net.model([x], [net.op(code, [x], **result)]), platform)
