"""QUANTIZE and DEQUANTIZE at a model's ends: reported, and removed.

Inputs of types that TensorFlow Lite Micro cannot cast.

Arithmetic that an input's scale can say: with every code, on both runtimes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.execute.quantize import dequantize, quantize
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model, Quantization, Signature
from edgetool.model.writer import write_model
from edgetool.passes.ends import Affine, conversions_at_ends, fold_rescaling, readable_inputs, trim_ends
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


ALL = np.arange(-128, 128)
Scale = tuple[float, int]


def int8_constant(net: Net, values: list[float], scale: float) -> int:
    stored = np.rint(np.array(values) / scale).astype(np.int8)
    return net.tensor([len(values)] if len(values) > 1 else [], INT8, data=stored.tobytes(), scales=[scale])


def rescaled(steps: list[tuple[str, list[float], Scale]], own: Scale, channels: int = 1, dtype: DType = INT8) -> Model:
    """An input of all codes per channel, arithmetic with constants, and a LEAKY_RELU as the model behind."""
    net = Net()
    x = first = net.tensor([1, 256, channels], dtype, scales=[own[0]], zero_point=own[1])
    for code, values, (scale, zero_point) in steps:
        y = net.tensor([1, 256, channels], INT8, scales=[scale], zero_point=zero_point)
        if code == "QUANTIZE":
            net.operator(code, [x], [y], options("QuantizeOptions"), version=2)
        else:
            constant = int8_constant(net, values, max(map(abs, values)) / 127)
            net.operator(code, [x, constant], [y], options(f"{code.capitalize()}Options"), version=2)
        x = y
    last = net.tensor([1, 256, channels], INT8, scales=[0.5], zero_point=7)
    net.operator("LEAKY_RELU", [x], [last], options("LeakyReluOptions", alpha=0.25), version=2)
    return net.model([first], [last])


def every_code(model: Model) -> tuple[Any, ...]:
    tensor = model.main.tensors[model.main.inputs[0]]
    values = ALL if tensor.dtype is INT8 else ALL + 128
    column = values.astype(tensor.dtype.name.lower()).reshape(1, 1, 256, 1)
    return (np.repeat(column, tensor.shape[2], axis=3),)


def assert_equal_in_all(before: Model, after: Model) -> None:
    given_ = every_code(before)
    expected = litert(before, given_)
    assert differ(expected, litert(after, given_)) == 0
    assert differ(tflm(before, given_), tflm(after, given_)) == 0


PIXELS: Scale = (1.0, -128)


@pytest.mark.parametrize(
    ("steps", "own", "kept", "affine"),
    [
        ([("MUL", [1 / 255], (1 / 255, -128))], PIXELS, [], Affine(1 / 255, 0.0)),
        ([("MUL", [1 / 255] * 3, (1 / 255, -128))], PIXELS, [], Affine(1 / 255, 0.0)),
        ([("SUB", [128.0], (1.0, 0)), ("MUL", [1 / 128], (1 / 128, 0))], PIXELS, [], Affine(1 / 128, -1.0)),
        ([("ADD", [-128.0], (1.0, 0))], PIXELS, [], Affine(1.0, -128.0)),
        ([("QUANTIZE", [], (1.0, -128)), ("MUL", [2.0], (2.0, -128))], PIXELS, [], Affine(2.0, 0.0)),
        # Half way between two codes, different channels, another code, or only the beginning of it.
        ([("MUL", [1 / 127.5], (2 / 255, -128)), ("ADD", [-1.0], (2 / 255, 0))], PIXELS, ["ADD"], Affine(2 / 255, 0.0)),
        ([("MUL", [0.5, 0.25, 0.5], (0.5, -128))], PIXELS, ["MUL"], None),
        ([("SUB", [120.0], (1.0, 0))], PIXELS, ["SUB"], None),
        ([("MUL", [0.5], (0.5, -128)), ("MUL", [0.5], (0.5, -128))], PIXELS, ["MUL"], Affine(0.5, 0.0)),
    ],
    ids=["scale", "channels alike", "mean", "offset", "quantized twice", "tie", "channels", "shifted", "two"],
)
def test_operators_that_change_no_code_are_removed(
    steps: list[tuple[str, list[float], Scale]], own: Scale, kept: list[str], affine: Affine | None
) -> None:
    channels = max((len(values) for _, values, _ in steps), default=1)
    model = rescaled(steps, own, channels)
    folded = fold_rescaling(model)
    assert codes(folded.model) == [*kept, "LEAKY_RELU"]
    assert_equal_in_all(model, folded.model)
    (found,) = folded.inputs
    if affine is None:
        assert found is None
        assert folded.model is model
        assert folded.notes == ()
    else:
        assert found is not None
        assert (found.scale, found.offset) == pytest.approx((affine.scale, affine.offset), rel=1e-6, abs=1e-6)
        assert "'input_0'" in folded.notes[0]
        assert fold_rescaling(folded.model).inputs == (None,)


def test_the_note_describes_the_input() -> None:
    """Raw pixels, mapped by the reported relation and quantized again, have the same codes as before."""
    model = rescaled([("SUB", [128.0], (1.0, 0)), ("MUL", [1 / 128], (1 / 128, 0))], PIXELS)
    folded = fold_rescaling(model)
    pixels = np.arange(256, dtype=np.float32)
    before, after = (m.main.tensors[m.main.inputs[0]].quantization for m in (model, folded.model))
    (affine,) = folded.inputs
    assert affine is not None
    assert quantize(affine.apply(pixels), after, INT8).tolist() == quantize(pixels, before, INT8).tolist()
    assert "x * 0.0078125 - 1" in folded.notes[0]


@pytest.mark.parametrize("odd", ["another shape", "another operand", "only a range"])
def test_arithmetic_that_runtimes_refuse_stays(odd: str) -> None:
    model = rescaled([("MUL", [1 / 255] * 3, (1 / 255, -128))], PIXELS, channels=3)
    assert fold_rescaling(model).notes
    graph = model.main
    tensors, first = list(graph.tensors), graph.operators[0]
    if odd == "another shape":
        tensors[0] = replace(tensors[0], shape=(1, 256, 2))
        tensors[first.outputs[0]] = replace(tensors[first.outputs[0]], shape=(1, 256, 2))
    elif odd == "another operand":
        first = replace(first, inputs=(*first.inputs, first.outputs[0]))
    else:
        tensors[0] = replace(tensors[0], quantization=Quantization((), (), 0, (0.0,), (255.0,)))
    changed = replace(graph, tensors=tuple(tensors), operators=(first, *graph.operators[1:]))
    model = replace(model, subgraphs=(changed,))
    assert fold_rescaling(model).model is model


def test_a_uint8_input_keeps_its_type() -> None:
    steps = [("QUANTIZE", [], (1.0, -128)), ("MUL", [1 / 255], (1 / 255, -128))]
    model = rescaled(steps, (1.0, 0), dtype=UINT8)
    folded = fold_rescaling(model)
    assert codes(folded.model) == ["QUANTIZE", "LEAKY_RELU"]
    assert folded.model.main.tensors[folded.model.main.inputs[0]].dtype is UINT8
    assert_equal_in_all(model, folded.model)
    only = rescaled(steps[:1], (1.0, 0), dtype=UINT8)
    assert fold_rescaling(only).model is only


def test_an_input_that_is_used_otherwise_stays() -> None:
    net = Net()
    x = net.tensor([1, 256, 1], INT8, scales=[1.0], zero_point=-128)
    y = net.tensor([1, 256, 1], INT8, scales=[1 / 255], zero_point=-128)
    net.operator("MUL", [x, int8_constant(net, [1 / 255], 1 / 255 / 127)], [y], options("MulOptions"), version=2)
    last = net.tensor([1, 256, 1], INT8, scales=[1.0], zero_point=0)
    net.operator("ADD", [x, y], [last], options("AddOptions"), version=2)
    for outputs in ([last], [y], [x]):
        model = net.model([x], outputs)
        assert fold_rescaling(model).model is model


@settings(max_examples=60)
@given(
    own=st.floats(0.01, 2),
    zero_point=st.integers(-128, 127),
    factor=st.floats(0.002, 2),
    off=st.sampled_from([0.0, 1e-4, 1e-3, 4e-3, 0.02]),
    shift=st.integers(-1, 1),
)
def test_it_is_removed_only_if_the_kernel_gives_the_same_codes(
    own: float, zero_point: int, factor: float, off: float, shift: int
) -> None:
    """Against LiteRT's MUL itself, with scales about those that would be the identity."""
    made = (own * factor * (1 + off), min(127, max(-128, zero_point + shift)))
    model = rescaled([("MUL", [factor], made)], (own, zero_point))
    mul = model.main.operators[0]
    net_codes = litert(_until(model, mul.outputs[0]), every_code(model))[0].reshape(-1)
    same = bool((net_codes == ALL).all())
    folded = fold_rescaling(model)
    assert (folded.inputs[0] is not None) <= same
    if off == shift == 0:
        assert folded.inputs[0] is not None


def _until(model: Model, tensor: int) -> Model:
    main = replace(model.main, operators=model.main.operators[:1], outputs=(tensor,))
    return replace(model, subgraphs=(main,))
