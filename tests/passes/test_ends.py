"""QUANTIZE and DEQUANTIZE at a model's ends: reported, and removed.

Inputs of types that TensorFlow Lite Micro cannot cast.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgetool.execute.quantize import dequantize, quantize
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model, Signature
from edgetool.model.writer import write_model
from edgetool.passes.ends import conversions_at_ends, readable_inputs, trim_ends
from tests.model.builders import options
from tests.passes.runs import Net, codes, differ, litert, tflm

FLOAT, INT8, UINT8, INT16 = DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16
INNER = (1 / 16, 3)


def stored(net: Net, dtype: DType, scale: float = 0.0, zero_point: int = 0) -> int:
    return net.tensor([1, 12], dtype, scales=[scale] if scale else [], zero_point=zero_point)


def convert(net: Net, x: int, dtype: DType, scale: float = 0.0, zero_point: int = 0) -> int:
    """QUANTIZE or DEQUANTIZE to what is given."""
    y = stored(net, dtype, scale, zero_point)
    code = "DEQUANTIZE" if dtype is FLOAT else "QUANTIZE"
    net.operator(code, [x], [y], options(f"{code.capitalize()}Options"), version=2)
    return y


def work(net: Net, x: int) -> int:
    """What the model is there for."""
    y = net.tensor([1, 12], net.tensors[x].dtype, scales=[1 / 8], zero_point=0)
    net.operator("LEAKY_RELU", [x], [y], options("LeakyReluOptions", alpha=0.25), version=2)
    return y


def signed(model: Model) -> Model:
    """With a signature that names the ends."""
    ends = [tuple((f"{side}{i}", index) for i, index in enumerate(indices)) for side, indices in _ends(model)]
    return replace(model, signatures=(Signature("serving_default", 0, *ends),))


def _ends(model: Model) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return ("in", model.main.inputs), ("out", model.main.outputs)


def outer(kind: DType, inner: DType = INT8) -> Model:
    """A model of `inner` integers whose ends are `kind`."""
    net = Net()
    scale, zero_point = INNER if inner is INT8 else (1 / 4096, 0)
    shift = 128 if kind is UINT8 else 0
    x = stored(net, kind) if kind is FLOAT else stored(net, kind, scale, zero_point + shift)
    y = work(net, convert(net, x, inner, scale, zero_point))
    return signed(net.model([x], [convert(net, y, kind, *(() if kind is FLOAT else (1 / 8, shift)))]))


def types(model: Model) -> list[DType]:
    return [model.main.tensors[index].dtype for _, indices in _ends(model) for index in indices]


def real_outputs(model: Model, values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """On LiteRT and TFLM, from real values to real values."""
    (x,), (y,) = (
        [model.main.tensors[index] for index in indices] for indices in (model.main.inputs, model.main.outputs)
    )
    given = (quantize(values, x.quantization, x.dtype),)
    return [dequantize(run(model, given)[0], y.quantization) for run in (litert, tflm)]


@pytest.mark.parametrize(
    ("kind", "inner", "io"), [(FLOAT, INT8, "int8"), (UINT8, INT8, "int8"), (FLOAT, INT16, "int16")]
)
def test_ends_of_integers(kind: DType, inner: DType, io: str) -> None:
    model = outer(kind, inner)
    trimmed, notes = trim_ends(model, io)
    assert codes(trimmed) == ["LEAKY_RELU"]
    assert types(trimmed) == [inner, inner]
    assert [note.endswith("was removed") for note in notes] == [True, True]
    assert "input 'in0': QUANTIZE from " in notes[0]
    assert trimmed.signatures[0].inputs[0][0] == "in0"
    assert trimmed.signatures[0].outputs == (("out0", trimmed.main.outputs[0]),)
    assert read_model(write_model(trimmed), name="trimmed") == trimmed
    values = np.random.default_rng(0).normal(size=(20, 1, 12)).astype(np.float32) * 4
    for before, after in zip(real_outputs(model, values), real_outputs(trimmed, values), strict=True):
        assert differ((before,), (after,)) == 0
    assert trim_ends(trimmed, io) == (trimmed, ())


def test_conversions_are_reported_and_stay_unless_they_are_removed() -> None:
    model = outer(FLOAT)
    sentences = conversions_at_ends(model)
    assert sentences == (
        "input 'in0': QUANTIZE from float32 to int8 (scale 0.0625, zero point 3)",
        "output 'out0': DEQUANTIZE from int8 (scale 0.125, zero point 0) to float32",
    )
    assert trim_ends(model, "float32") == (model, ())
    assert trim_ends(model, "uint8") == (model, sentences)
    assert trim_ends(model, "int16") == (model, sentences)


def test_an_input_may_be_kept() -> None:
    model = outer(UINT8)
    trimmed, notes = trim_ends(model, "int8", keep_inputs=[0])
    assert types(trimmed) == [UINT8, INT8]
    assert not notes[0].endswith("was removed")


def test_equal_quantize_operators_are_one_end() -> None:
    net = Net()
    x = stored(net, FLOAT)
    first, second = (work(net, convert(net, x, INT8, *INNER)) for _ in range(2))
    model = net.model([x], [first, second])
    trimmed, notes = trim_ends(model, "int8")
    assert codes(trimmed) == ["LEAKY_RELU", "LEAKY_RELU"]
    assert len(notes) == 1
    values = quantize(np.random.default_rng(0).normal(size=(5, 1, 12)), trimmed.main.tensors[0].quantization, INT8)
    real = dequantize(values, trimmed.main.tensors[trimmed.main.inputs[0]].quantization)
    assert differ(litert(model, (real,)), litert(trimmed, (values,))) == 0


def test_a_chain_goes_whole() -> None:
    """As models trained for quantization have them: a QUANTIZE to what was calibrated, and one to what was trained."""
    net = Net()
    x = stored(net, FLOAT)
    y = work(net, convert(net, convert(net, x, INT8, 1 / 20, 0), INT8, *INNER))
    z = convert(net, convert(net, y, INT8, 1 / 9, 1), FLOAT)
    trimmed, notes = trim_ends(net.model([x], [z]), "int8")
    assert codes(trimmed) == ["LEAKY_RELU"]
    assert len(notes) == 2
    assert trimmed.main.tensors[trimmed.main.inputs[0]].name == net.tensors[x].name
    assert trimmed.main.tensors[trimmed.main.outputs[0]].name == net.tensors[z].name


def different_scales(net: Net, x: int) -> list[int]:
    return [work(net, convert(net, x, INT8, scale, 0)) for scale in (1 / 8, 1 / 16)]


def used_in_float(net: Net, x: int) -> list[int]:
    y = stored(net, FLOAT)
    net.operator("ABS", [x], [y], options("AbsOptions"))
    return [work(net, convert(net, x, INT8, *INNER)), y]


def also_an_output(net: Net, x: int) -> list[int]:
    return [work(net, convert(net, x, INT8, *INNER)), x]


def nothing_but_a_conversion(net: Net, x: int) -> list[int]:
    return [convert(net, x, INT8, *INNER)]


@pytest.mark.parametrize("build", [different_scales, used_in_float, also_an_output, nothing_but_a_conversion])
def test_an_input_used_otherwise_stays(build: Any) -> None:
    net = Net()
    x = stored(net, FLOAT)
    model = net.model([x], build(net, x))
    assert trim_ends(model, "int8") == (model, ())


def test_a_tensor_that_the_model_goes_on_with_may_be_its_output() -> None:
    net = Net()
    x = stored(net, INT8, *INNER)
    y = work(net, x)
    model = net.model([x], [convert(net, y, FLOAT), work(net, y)])
    trimmed, _ = trim_ends(model, "int8")
    assert codes(trimmed) == ["LEAKY_RELU", "LEAKY_RELU"]
    assert types(trimmed) == [INT8, INT8, INT8]
    given = (np.random.default_rng(0).integers(-128, 128, (5, 1, 12), dtype=np.int8),)
    before, after = litert(model, given), tflm(trimmed, given)
    assert (
        differ((before[0],), (dequantize(after[0], trimmed.main.tensors[trimmed.main.outputs[0]].quantization),)) == 0
    )
    assert differ(before[1:], after[1:]) == 0


def test_two_outputs_of_one_tensor_stay() -> None:
    net = Net()
    x = stored(net, INT8, *INNER)
    y = work(net, x)
    model = net.model([x], [y, convert(net, y, FLOAT)])
    assert trim_ends(model, "int8") == (model, ())


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
