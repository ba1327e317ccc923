"""Models that are made to break the lowering: numbers without room, huge shapes, and mutants of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.native.fuzz import campaign

from edgetool.codegen.native import lower as lowering
from edgetool.codegen.native.fixed_point import Reach
from edgetool.codegen.native.lower import MAX_TENSOR_BYTES, lower
from edgetool.codegen.native.plan import place_buffers
from edgetool.codegen.native.program import (
    Descriptor,
    FieldValue,
    RangeError,
    RowInput,
    Step,
    check_step,
    describe,
)
from edgetool.errors import InternalError, UnsupportedModelError
from edgetool.model.types import DType, Model
from edgetool.operators import overlap
from edgetool.operators.overlap import Window, channelwise_distance, conv_distance
from tests.memory.account_net import Net
from tests.model.builders import dense_model, unary_model

STEP = Step(0, "edgetool_copy", Descriptor("edgetool_copy_op", ()), (), 1, 4)


@pytest.mark.parametrize(
    ("kernel", "values"),
    [
        ("edgetool_conv2d_s8", {"output_channels": 65536}),
        ("edgetool_conv2d_s8", {"output_channels": -1}),
        ("edgetool_div_s8", {"low": 2**31}),
    ],
)
def test_a_number_without_room_is_a_range_error(kernel: str, values: dict[str, FieldValue]) -> None:
    with pytest.raises(RangeError, match="outside the kernel's range"):
        describe(kernel, **values)


def test_a_field_that_does_not_exist_is_a_fault_of_the_lowering() -> None:
    with pytest.raises(InternalError, match="has no field") as raised:
        describe("edgetool_conv2d_s8", no_such_field=1)
    assert not isinstance(raised.value, RangeError)


@pytest.mark.parametrize(
    "step",
    [
        replace(STEP, rows=2**32),
        replace(STEP, batches=2**16),
        replace(STEP, states=(0, 1, 2)),
        replace(STEP, inputs=(RowInput(0, 1, taps=2**16),)),
        replace(STEP, inputs=(RowInput(0, 1, stride=2**16),)),
        replace(STEP, inputs=(RowInput(0, 1, pad=2**15),)),
        replace(STEP, inputs=(RowInput(0, 1, pad=-(2**15) - 1),)),
    ],
)
def test_a_step_without_room_is_a_range_error(step: Step) -> None:
    check_step(STEP)
    with pytest.raises(RangeError, match="outside the kernel's range"):
        check_step(step)


def test_a_range_error_refuses_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    def huge(_: object) -> Sequence[Step]:
        return [replace(STEP, batches=70_000)]

    monkeypatch.setattr(lowering, "lowering_of", lambda _, vector: huge)
    with pytest.raises(UnsupportedModelError, match=r"FULLY_CONNECTED here: its number of batches of 70,000") as raised:
        lower(dense_model())
    assert raised.value.where == "operator 0"


def test_tables_of_too_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "MAX_TABLE_ROWS", 2)
    assert lower(dense_model()).steps
    monkeypatch.setattr(lowering, "MAX_TABLE_ROWS", 1)
    with pytest.raises(UnsupportedModelError, match="allows 1 operators and inputs of operators, and it has 2"):
        lower(dense_model())


def pooled(height: int) -> Model:
    net = Net()
    x = net.arena(1, height, 1, 1)
    size: dict[str, Any] = {"filter_height": height, "filter_width": 1, "stride_h": 1, "stride_w": 1}
    return net.model([x], [net.op("MAX_POOL_2D", [x], 1, 1, 1, 1, padding="VALID", **size)])


def test_a_window_of_more_rows_than_a_step_has_is_refused() -> None:
    assert lower(pooled(60_000)).steps
    with pytest.raises(UnsupportedModelError, match="MAX_POOL_2D"):
        lower(pooled(70_000))


def relu(count: int) -> Model:
    net = Net()
    x = net.arena(count)
    return net.model([x], [net.op("RELU", [x], count)])


def test_a_huge_tensor_is_refused() -> None:
    assert place_buffers(lower(relu(MAX_TENSOR_BYTES))).arena_bytes == MAX_TENSOR_BYTES
    with pytest.raises(UnsupportedModelError, match="67,108,864 bytes for a tensor, and it has 67,108,865"):
        lower(relu(MAX_TENSOR_BYTES + 1))


def test_constants_that_are_computed_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    x = net.arena(8)
    filled = [net.arena(8) for _ in range(4)]
    for tensor in filled:
        net.give("FILL", [net.constant([8]), net.scalar(3, DType.INT8)], [tensor])
    model = net.model([x], [net.op("ADD", [x, filled[0]], 8), *filled])
    assert lower(model).steps
    monkeypatch.setattr(lowering, "MAX_TENSOR_BYTES", 31)
    with pytest.raises(UnsupportedModelError, match="computes too many constants"):
        lower(model)


@pytest.mark.parametrize("index", [0, 1], ids=["input", "output"])
def test_a_constant_that_is_written_to_is_refused(index: int) -> None:
    model = unary_model("RELU")
    graph = model.main
    which = (graph.inputs[0], graph.outputs[0])[index]
    tensors = [
        replace(tensor, data=bytes(tensor.size_bytes)) if tensor.index == which else tensor for tensor in graph.tensors
    ]
    broken = replace(model, subgraphs=(replace(graph, tensors=tuple(tensors)),))
    with pytest.raises(UnsupportedModelError, match="it is constant, and is written to"):
        lower(broken)


def test_an_input_that_an_operator_writes_is_refused() -> None:
    model = unary_model("RELU")
    graph = model.main
    broken = replace(model, subgraphs=(replace(graph, inputs=(*graph.inputs, *graph.outputs)),))
    with pytest.raises(UnsupportedModelError, match="it is an input of the model, and is written to"):
        lower(broken)


def scaled(scale: float) -> Model:
    """Return a dense layer whose output has this scale."""
    model = dense_model()
    graph = model.main
    output = graph.tensors[graph.operators[0].outputs[0]]
    assert output.quantization is not None
    changed = replace(output, quantization=replace(output.quantization, scales=(scale,)))
    tensors = tuple(changed if tensor.index == output.index else tensor for tensor in graph.tensors)
    return replace(model, subgraphs=(replace(graph, tensors=tensors),))


@pytest.mark.parametrize("scale", [0.0, float("nan")])
def test_a_scale_without_a_quotient_is_refused(scale: float) -> None:
    with pytest.raises(UnsupportedModelError, match=r"FULLY_CONNECTED here: .* quotient"):
        lower(scaled(scale))


@pytest.mark.parametrize("scale", [float("inf"), 1e-45, 1e-30])
def test_no_other_scale_is_an_error(scale: float) -> None:
    with suppress(UnsupportedModelError):
        lower(scaled(scale))


def test_sums_with_biases_of_64_bits_do_not_wrap() -> None:
    reach = Reach(np.array([-5], np.int64), np.array([5], np.int64))
    for bias in (-(2**63), 2**63 - 1, 2**50):
        assert not reach.fits(np.array([bias], np.int64), 48)
    assert reach.fits(np.array([2**40], np.int64), 48)


def test_an_axis_that_is_reversed_twice_is_refused() -> None:
    net = Net()
    x = net.arena(2, 3)
    model = net.model([x], [net.op("REVERSE_V2", [x, net.constant([1, -1])], 2, 3)])
    with pytest.raises(UnsupportedModelError, match="it has an axis twice"):
        lower(model)


def test_an_output_of_another_shape_than_is_computed_is_refused() -> None:
    net = Net()
    x = net.arena(1, 2, 2, 4)
    assert lower(net.model([x], [net.op("DEPTH_TO_SPACE", [x], 1, 4, 4, 1, block_size=2)])).steps
    net = Net()
    x = net.arena(1, 2, 2, 4)
    with pytest.raises(UnsupportedModelError, match="DEPTH_TO_SPACE reads or computes another number of bytes"):
        lower(net.model([x], [net.op("DEPTH_TO_SPACE", [x], 1, 2, 2, 4, block_size=2)]))


def test_memory_that_nothing_has_written_is_refused() -> None:
    net = Net()
    x, y = net.arena(4), net.arena(4)
    with pytest.raises(UnsupportedModelError, match="an output reads tensor 1, which nothing has written"):
        lower(net.model([x], [y]))
    z = net.op("RELU", [y], 4)
    with pytest.raises(UnsupportedModelError, match="operator 0 reads tensor 1, which nothing has written"):
        lower(net.model([x], [z]))


# Without the caches, which keep the distances of the usual limit.
@pytest.mark.parametrize("compute", [conv_distance.__wrapped__, channelwise_distance.__wrapped__])
def test_images_of_too_many_rows_do_not_overlap(compute: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    window = Window(2, 4, 4, 3, 4, 4, 6)
    assert compute(window) < 2 * 4 * 4 * 6
    monkeypatch.setattr(overlap, "MAX_LINES", 11)
    assert compute(window) == 2 * 4 * 4 * 6
    assert compute(window, element_bytes=2) == 2 * 4 * 4 * 6 * 2
    if compute is conv_distance.__wrapped__:
        assert compute(window, descending=True) == 2 * 4 * 4 * 3


@pytest.mark.slow
def test_mutants_are_refused_or_run() -> None:
    tally = campaign(0, 400, seed=7)
    assert tally.findings == []
    assert {"rejected by the reader", "rejected by TFLM", "refused", "lowered"} <= set(tally.ends)
    assert tally.ends["ran"] == tally.ends["lowered"] > 50
