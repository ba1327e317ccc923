"""Time as the height of images: shapes, options and constants, and what keeps its axes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from struct import unpack

import pytest

from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.plan import place_buffers
from edgetool.model.reader import read_model
from edgetool.model.types import Model, Operator, Tensor
from edgetool.passes.time_axis import time_as_rows
from tests.codegen.native.host import differences, prepare
from tests.codegen.native.stream_models import conv_1d, spotter, tcn
from tests.codegen.native.test_networks import cases, supported, supported_types
from tests.memory.account_net import Net


def shapes(model: Model) -> list[tuple[int, ...]]:
    """The shapes of the outputs of all operators."""
    return [model.main.tensors[operator.outputs[0]].shape for operator in model.main.operators]


def numbers(model: Model, index: int) -> tuple[int, ...]:
    data = model.main.tensors[index].data or b""
    return unpack(f"<{len(data) // 4}i", data)


def rewritten(net: Net, source: int, output: int) -> Model:
    net.end_graph([source], [output])
    return time_as_rows(net.whole())


def test_images_with_time_as_height_stay_as_they_are() -> None:
    model = spotter()
    assert time_as_rows(model) is model


def test_a_1d_network_gets_a_row_for_each_point_in_time() -> None:
    model = tcn(12, 4, (1, 2))
    found = time_as_rows(model)
    assert [operator.index for operator in found.main.operators] == [item.index for item in model.main.operators]
    assert [operator.code for operator in found.main.operators] == [item.code for item in model.main.operators]
    assert found.main.tensors[found.main.inputs[0]].shape == (1, 12, 1, 3)
    by_code: dict[str, list[tuple[Operator, Tensor]]] = {}
    for operator in found.main.operators:
        by_code.setdefault(operator.code, []).append((operator, found.main.tensors[operator.outputs[0]]))
    assert {tensor.shape for _, tensor in by_code["CONV_2D"]} == {(1, 12, 1, 4)}
    pads = [numbers(found, operator.inputs[1]) for operator, _ in by_code["PAD"]]
    assert pads == [(0, 0, before, 0, 0, 0, 0, 0) for before in (2, 2, 4, 4)]
    # Convolutions read the padded tensors themselves, so that their padding can be folded.
    assert {operator.outputs[0] for operator, _ in by_code["PAD"]} < {
        operator.inputs[0] for operator, _ in by_code["CONV_2D"]
    }
    weights = {found.main.tensors[operator.inputs[1]].shape for operator, _ in by_code["CONV_2D"]}
    assert weights == {(4, 3, 1, 3), (4, 3, 1, 4), (4, 1, 1, 3)}
    dilations = [(item.options["dilation_h_factor"], item.options["dilation_w_factor"])
                 for item, _ in by_code["CONV_2D"] if item.options is not None]  # fmt: skip
    assert dilations == [(1, 1), (1, 1), (1, 1), (2, 1), (2, 1)]
    ((cut, last),) = by_code["STRIDED_SLICE"]
    assert last.shape == (1, 4)
    assert [numbers(found, index) for index in cut.inputs[1:]] == [(0, -1, 0, 0), (0, 0, 1, 0), (1, 1, 1, 1)]
    assert cut.options is not None
    assert [cut.options[f"{name}_mask"] for name in ("begin", "end", "shrink_axis")] == [0b1101, 0b1101, 0b0010]
    # All of its bytes are where they were: the steps that compute them are as many, and read and write as much.
    sizes = [tensor.size_bytes for tensor in model.main.tensors]
    dead = {item.outputs[0] for item in found.main.operators if item.code == "RESHAPE"}
    assert [item.size_bytes for i, item in enumerate(found.main.tensors[: len(sizes)]) if i not in dead] == [
        size for i, size in enumerate(sizes) if i not in dead
    ]
    assert not [step for step in lower(found, row_wise=True).steps if step.kernel == "edgetool_copy"]


@pytest.mark.parametrize("keep_dims", [False, True])
def test_axes_are_those_of_the_images(keep_dims: bool) -> None:
    net = Net()
    source = net.arena(1, 9, 4)
    x = conv_1d(net, source, 4, 2)
    y = net.op("CONCATENATION", [x, x], 1, 8, 8, axis=-1)
    z = net.op("CONCATENATION", [y, y], 1, 16, 8, axis=1)
    shape = (1, 1, 8) if keep_dims else (1, 8)
    mean = net.op("MEAN", [z, net.constant([-2])], *shape, keep_dims=keep_dims)
    found = rewritten(net, source, mean)
    joined, last = found.main.operators[-3:-1], found.main.operators[-1]
    assert [item.options["axis"] for item in joined if item.options is not None] == [3, 1]
    assert numbers(found, last.inputs[1]) == (1,)
    assert shapes(found)[-3:] == [(1, 8, 1, 8), (1, 16, 1, 8), (1, 1, 1, 8) if keep_dims else (1, 8)]


def test_constants_of_the_shape_of_images_follow() -> None:
    net = Net()
    source = net.arena(1, 9, 4)
    x = net.op("ADD", [source, net.noise(9, 4)])
    x = net.op("MUL", [x, net.noise(4)])
    x = net.op("ADD", [x, net.noise(1, 1, 4)])
    found = rewritten(net, source, x)
    constants = [found.main.tensors[operator.inputs[1]].shape for operator in found.main.operators]
    assert constants == [(1, 9, 1, 4), (4,), (1, 1, 1, 4)]


def test_tensors_of_other_operators_keep_their_axes() -> None:
    net = Net()
    source = net.arena(1, 9, 4)
    x = net.op("RELU", [source])
    y = net.op("TRANSPOSE", [x, net.constant([0, 2, 1])], 1, 4, 9)
    z = conv_1d(net, y, 3, 2)
    found = rewritten(net, source, z)
    # The reshape to the convolution's image is where time begins to be the height.
    assert shapes(found)[:2] == [(1, 9, 4), (1, 4, 9)]
    assert (1, 3, 1, 3) in shapes(found)


def test_weights_of_several_rows_keep_the_width() -> None:
    net = Net()
    source = net.arena(1, 1, 9, 4)
    weights = [net.filter(3, 3, 2, 4, like=source), net.biases(3, like=source)]
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    x = net.op("CONV_2D", [source, *weights], 1, 1, 9, 3, **options)
    net.end_graph([source], [x])
    model = net.whole()
    assert time_as_rows(model) is model


@pytest.mark.slow
def test_the_rewritten_network_computes_what_tflm_computes_of_the_original() -> None:
    net = Net()
    source = net.arena(1, 9, 4)
    x = conv_1d(net, source, 4, 2, 1, 2)
    x = net.op("LOGISTIC", [x], scale=1 / 256, zero_point=-128)
    x = net.op("MEAN", [x, net.constant([1])], 1, 4, keep_dims=False, scale=1 / 256, zero_point=-128)
    net.end_graph([source], [x])
    model = net.whole()
    program = lower(time_as_rows(model))
    trial = replace(prepare(model, 4), program=program, memory=place_buffers(program))
    assert differences({"rewritten": trial}) == []


@pytest.mark.slow
def test_rewritten_operators_compute_what_tflm_computes_of_the_original() -> None:
    trials = {}
    for name, trial in supported(cases(supported_types(), [910, 911]), None, Counter(), samples=2).items():
        model = read_model(trial.blob)
        found = time_as_rows(model)
        if found is not model:
            program = lower(found, row_wise=True)
            trials[name] = replace(trial, program=program, memory=place_buffers(program))
    assert len(trials) > 30
    assert len({name.partition("/")[0] for name in trials}) > 15
    assert differences(trials) == []
