"""TRANSPOSE_CONV with equal kernel and stride becomes a 1x1 CONV_2D and DEPTH_TO_SPACE."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.model.draft import Draft
from edgetool.model.types import DType, Model
from edgetool.operators.legality import unsupported_operators
from edgetool.passes.cleanup import optimize
from edgetool.passes.transpose_conv import split_transpose_convs
from edgetool.target.load import list_runtimes, load_runtime
from tests.model.builders import options
from tests.passes.cleaned import PASS, cleaned
from tests.passes.runs import SCALE, Net, codes


def decoder(
    *,
    kernel: tuple[int, int] = (2, 2),
    stride: tuple[int, int] = (2, 2),
    image: tuple[int, int, int] = (4, 3, 5),
    channels: int = 3,
    batch: int = 1,
    bias: bool = True,
    per_channel: bool = True,
    activation: str = "NONE",
    output: tuple[int, int] | None = None,
    seed: int = 0,
) -> Model:
    """A transposed convolution with padding VALID and random weights; `output`: its height and width."""
    random, net = np.random.default_rng(seed), Net()
    height, width, depth = image
    sides = output or (height * stride[0], width * stride[1])
    scales = tuple(float(np.float32(random.uniform(0.002, 0.02))) for _ in range(channels if per_channel else 1))
    x = net.input((batch, *image), DType.INT8)
    weights = random.integers(-127, 128, (channels, *kernel, depth), np.int8)
    shape = (batch, *sides, channels)
    operands = [
        net.constant(shape),
        net.tensor(weights.shape, DType.INT8, data=weights.tobytes(), scales=scales),
        x,
    ]
    if bias:
        values = random.integers(-3000, 3000, channels, np.int32)
        bias_scales = tuple(scale * SCALE for scale in scales)
        operands.append(net.tensor((channels,), DType.INT32, data=values.tobytes(), scales=bias_scales))
    y = net.input(shape, DType.INT8)
    fields: dict[str, Any] = {"padding": "VALID", "stride_h": stride[0], "stride_w": stride[1]}
    fields["fused_activation_function"] = activation
    net.operator("TRANSPOSE_CONV", operands, [y], options("TransposeConvOptions", **fields), version=4 if bias else 3)
    return net.model([x], [y])


@settings(max_examples=10)
@given(
    side=st.integers(1, 4),
    image=st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 6)),
    channels=st.integers(1, 5),
    batch=st.integers(1, 2),
    bias=st.booleans(),
    per_channel=st.booleans(),
    activation=st.sampled_from(["NONE", "RELU", "RELU6"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_outputs_stay_the_same(side: int, **drawn: Any) -> None:
    model = decoder(kernel=(side, side), stride=(side, side), **drawn)
    result, changes = cleaned(model, PASS["transpose-conv"], samples=4)
    assert codes(result) == (["CONV_2D", "DEPTH_TO_SPACE"] if side > 1 else ["CONV_2D"])
    assert changes[0].sentence.startswith("TRANSPOSE_CONV was replaced by a 1x1 CONV_2D")


@pytest.mark.slow
def test_large_images_stay_the_same() -> None:
    model = decoder(kernel=(3, 3), stride=(3, 3), image=(12, 20, 32), channels=16)
    result, _ = cleaned(model, PASS["transpose-conv"])
    assert codes(result) == ["CONV_2D", "DEPTH_TO_SPACE"]


OTHERS = {
    "windows overlap": decoder(kernel=(3, 3), output=(9, 7)),
    "gaps between windows": decoder(kernel=(1, 1)),
    "not square": decoder(kernel=(2, 3), stride=(2, 3)),
    "larger output": decoder(output=(9, 6)),
    "smaller output": decoder(output=(7, 6)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_transposed_convolutions_stay(name: str) -> None:
    assert split_transpose_convs(Draft(OTHERS[name])) == []


def with_tensor(model: Model, operand: int, **fields: Any) -> Model:
    """The model with other fields of an operand of its only operator."""
    index = model.main.operators[0].inputs[operand]
    tensors = [replace(each, **fields) if each.index == index else each for each in model.main.tensors]
    return replace(model, subgraphs=(replace(model.main, tensors=tuple(tensors)),))


def test_weights_that_are_computed_or_not_symmetric_stay() -> None:
    model = decoder()
    weights = model.main.tensors[model.main.operators[0].inputs[1]].quantization
    assert weights is not None
    odd = replace(weights, zero_points=(1,) * len(weights.scales))
    for changed in (
        with_tensor(model, 1, data=None, buffer=0),
        with_tensor(model, 1, quantization=odd),
        with_tensor(model, 1, quantization=None),
        with_tensor(model, 2, dtype=DType.INT16),
        with_tensor(model, 3, data=None, buffer=0),
    ):
        assert split_transpose_convs(Draft(changed)) == []


@pytest.mark.parametrize("name", list_runtimes())
def test_runtimes_that_support_the_original_support_the_result(name: str) -> None:
    runtime, model = load_runtime(name), decoder()
    result, changes = optimize(model, (PASS["transpose-conv"],))
    assert changes
    assert len(unsupported_operators(result, runtime)) <= len(unsupported_operators(model, runtime))
