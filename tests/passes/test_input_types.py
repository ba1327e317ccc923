"""Inputs of types that TensorFlow Lite Micro cannot cast."""

from __future__ import annotations

import numpy as np
import pytest

from edgetool.model.types import DType, Model
from edgetool.passes.ends import readable_inputs
from tests.model.builders import options
from tests.passes.runs import Net, codes, differ, litert, tflm


def cast(own: DType, to: DType, *, quantized: bool = False, scale: float = 0.75, zero_point: int = -20) -> Model:
    """An input that is cast, perhaps quantized, and then used."""
    net = Net()
    x, y = net.tensor([1, 6], own, name="x"), net.tensor([1, 6], to)
    net.operator("CAST", [x], [y], options("CastOptions"))
    if quantized:
        z = net.tensor([1, 6], DType.INT8, scales=[scale], zero_point=zero_point)
        net.operator("QUANTIZE", [y], [z], options("QuantizeOptions"))
        y, to = z, DType.INT8
    scales = [scale] if quantized else []
    last = net.tensor([1, 2, 3], to, scales=scales, zero_point=zero_point if quantized else 0)
    net.operator("RESHAPE", [y, net.constant([1, 2, 3])], [last], options("ReshapeOptions", new_shape=(1, 2, 3)))
    return net.model([x], [last])


VALUES = np.array([[[0, 1, 5, 100, 3, 7]]])


@pytest.mark.parametrize(
    ("own", "to", "now", "left"),
    [
        (DType.INT64, DType.INT32, DType.INT32, ["RESHAPE"]),
        (DType.INT64, DType.FLOAT32, DType.INT32, ["CAST", "RESHAPE"]),
        (DType.UINT64, DType.FLOAT32, DType.INT32, ["CAST", "RESHAPE"]),
        (DType.UINT16, DType.FLOAT32, DType.INT32, ["CAST", "RESHAPE"]),
        (DType.FLOAT64, DType.FLOAT32, DType.FLOAT32, ["RESHAPE"]),
        (DType.FLOAT16, DType.FLOAT32, DType.FLOAT32, ["RESHAPE"]),
        (DType.INT32, DType.FLOAT32, DType.INT32, ["CAST", "RESHAPE"]),
        (DType.BOOL, DType.FLOAT32, DType.BOOL, ["CAST", "RESHAPE"]),
    ],
)
def test_a_type_that_it_can_read(own: DType, to: DType, now: DType, left: list[str]) -> None:
    model = cast(own, to)
    after, notes = readable_inputs(model)
    tensor = after.main.tensors[after.main.inputs[0]]
    assert (tensor.dtype, tensor.name, codes(after)) == (now, "x", left)
    assert len(notes) == (own is not now)
    assert (after is model) == (own is now)
    given = (VALUES.astype(now.name.lower()),)
    expected = (VALUES.astype(own.name.lower()).astype(to.name.lower()).reshape(1, 1, 2, 3),)
    assert differ(expected, litert(after, given)) == 0
    assert differ(expected, tflm(after, given)) == 0


@pytest.mark.parametrize("own", [DType.INT8, DType.UINT8])
def test_pixels_are_quantized_from_their_own_codes(own: DType) -> None:
    model = cast(own, DType.FLOAT32, quantized=True)
    after, notes = readable_inputs(model)
    assert codes(after) == ["QUANTIZE", "RESHAPE"]
    assert notes == ()
    values = np.arange(256).reshape(-1, 1, 1) - (128 if own is DType.INT8 else 0)
    given = (np.repeat(values, 6, axis=2).astype(own.name.lower()),)
    expected = litert(model, given)
    assert differ(expected, litert(after, given)) == 0
    assert differ(expected, tflm(after, given)) == 0


def test_an_input_that_something_else_reads_stays() -> None:
    net = Net()
    x, y = net.tensor([1, 6], DType.INT64), net.tensor([1, 6], DType.FLOAT32)
    net.operator("CAST", [x], [y], options("CastOptions"))
    z = net.tensor([1, 2, 3], DType.INT64)
    net.operator("RESHAPE", [x, net.constant([1, 2, 3])], [z], options("ReshapeOptions", new_shape=(1, 2, 3)))
    for outputs in ([y, z], [y, x]):
        model = net.model([x], outputs)
        assert readable_inputs(model) == (model, ())
