"""Arithmetic that an input's scale can say: with every code, on both runtimes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.execute.quantize import quantize
from edgetool.model.types import DType, Model, Quantization
from edgetool.passes.ends import Affine, fold_rescaling
from tests.model.builders import options
from tests.passes.runs import Net, codes, differ, litert, tflm

INT8, UINT8 = DType.INT8, DType.UINT8
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
