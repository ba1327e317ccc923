"""Resource variables in native programs."""

from __future__ import annotations

from typing import Any

import pytest

from edgetool.codegen.native import emit
from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.plan import place_buffers
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Model
from tests.codegen.native.host import differences, prepare
from tests.memory.account_net import Net


class Variables(Net):
    """A model with the variable "total"."""

    def handle(self) -> int:
        handle = self.arena(dtype=DType.RESOURCE)
        self.give("VAR_HANDLE", [], [handle], container="", shared_name="total")
        return handle

    def assign(self, value: int) -> None:
        self.give("ASSIGN_VARIABLE", [self.handle(), value], [])

    def read(self, count: int = 3, **quantization: Any) -> int:
        y = self.arena(count, **quantization)
        self.give("READ_VARIABLE", [self.handle()], [y])
        return y


def delayed() -> Model:
    """Return a model whose output is the input of the invocation before."""
    net = Variables()
    x = net.arena(3, zero_point=-7)
    y = net.read(zero_point=-7)
    net.assign(x)
    return net.model([x], [y])


def initialized(*, call_first: bool = True, computed: bool = False) -> Model:
    """Return a delay whose first output is 1, 2, 3."""
    net = Variables()
    x = net.arena(3)
    if not call_first:
        net.assign(x)
    net.give("CALL_ONCE", [], [], init_subgraph_index=1)
    y = net.read()
    net.assign(x)
    net.end_graph([x], [y])
    value = net.constant([1, 2, 3], dtype=DType.INT8)
    net.assign(net.op("RELU", [value], 3) if computed else value)
    net.end_graph([], [])
    return net.whole()


def unassigned() -> Model:
    net = Variables()
    return net.model([], [net.read()])


def source_of(model: Model) -> str:
    program = lower(model)
    return emit.model_source("m", program, place_buffers(program), emit.arrays_of("m", program))


def test_a_variable_is_live_in_the_whole_program() -> None:
    program = lower(delayed())
    (variable,) = emit.state_tensors(program)
    assert variable == len(delayed().main.tensors)
    (buffer,) = (item for item in place_buffers(program).problem.buffers if item.tensor == variable)
    assert buffer.size_bytes == 3
    assert (buffer.lifetime.first, buffer.lifetime.last) == (-1, len(program.steps))


def test_reset_writes_the_zero_point() -> None:
    assert f", {-7 & 255}, 3);" in source_of(delayed())


def test_reset_writes_what_call_once_assigns() -> None:
    program = lower(initialized())
    (constant,) = program.initial.values()
    assert constant.data == bytes([1, 2, 3])
    assert "    memcpy(context->arena + " in source_of(initialized())


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (initialized(call_first=False), "accessed before it"),
        (initialized(computed=True), "more than assign constants"),
        (unassigned(), "never assigned"),
    ],
    ids=["access-before", "computed", "unassigned"],
)
def test_refuses_what_it_cannot_initialize(model: Model, why: str) -> None:
    with pytest.raises(UnsupportedModelError, match=why):
        lower(model)


@pytest.mark.slow
def test_variables_equal_tflm_over_several_invocations() -> None:
    assert differences({"delayed": prepare(delayed(), 3), "initialized": prepare(initialized(), 3)}) == []
