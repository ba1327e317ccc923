"""What the account says of models that TFLM does not take, and of kernels that it cannot know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.errors import UnsupportedModelError
from edgetool.execute.run import measure_tflm
from edgetool.memory.account import account_model
from edgetool.model.types import DType, Model
from edgetool.model.writer import write_model
from edgetool.operators.described import describe_operators
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.memory.account_net import Net

BUILD = platform_of(load_target("cortex-m7"))


def scratch_in_a_second_graph(*, called: bool) -> Model:
    """A mean, which needs scratch, in a subgraph that IF runs or nothing does."""
    net = Net(1)
    flag, x, y = (
        net.arena(1, dtype=DType.BOOL),
        net.arena(1, 4, 3, dtype=DType.FLOAT32),
        net.arena(3, dtype=DType.FLOAT32),
    )
    if called:
        net.give("IF", [flag, x], [y], then_subgraph_index=1, else_subgraph_index=1)
    net.end_graph([flag, x], [y if called else x])
    x = net.arena(1, 4, 3, dtype=DType.FLOAT32)
    net.end_graph([x], [net.op("MEAN", [x, net.constant([0, 1])], 3, keep_dims=False)])
    return net.whole()


def with_a_tensor_of(dtype: DType) -> Model:
    """An operator, and a tensor that nothing uses."""
    net = Net(2)
    x = net.arena(4, dtype=DType.FLOAT32)
    net.tensor((4,), dtype)
    return net.model([x], [net.op("ABS", [x])])


def with_an_intermediate(size: int) -> Model:
    """An operator with an intermediate tensor of so many elements."""
    net = Net(3)
    x = net.arena(4, dtype=DType.FLOAT32)
    y, between = net.op("ABS", [x]), net.arena(size)
    net.operators[0] = replace(net.operators[0], intermediates=(between,))
    return net.model([x], [y])


def refusals(model: Model) -> list[str | None]:
    account = account_model(model, BUILD)
    assert account.is_lower_bound == bool(account.unaccounted)
    return [item.refusal for item in account.unaccounted]


def test_scratch_in_a_subgraph_that_nothing_runs_is_refused() -> None:
    assert refusals(scratch_in_a_second_graph(called=True)) == []
    assert refusals(scratch_in_a_second_graph(called=False)) == [
        "MEAN requests a scratch buffer in a subgraph that is never run"
    ]


@pytest.mark.parametrize("dtype", [DType.STRING, DType.VARIANT, DType.INT2, DType.UINT4])
def test_a_type_without_a_size_is_refused(dtype: DType) -> None:
    assert refusals(with_a_tensor_of(dtype)) == [f"TFLM defines no size for the type {dtype.name.lower()}"]


def test_an_intermediate_that_is_not_empty_is_refused() -> None:
    assert refusals(with_an_intermediate(0)) == []
    assert refusals(with_an_intermediate(3)) == ["ABS has an intermediate tensor that is not empty"]


@pytest.mark.parametrize(
    "model",
    [
        scratch_in_a_second_graph(called=True),
        with_a_tensor_of(DType.UINT4),
        with_a_tensor_of(DType.UINT16),
        with_an_intermediate(0),
        with_an_intermediate(3),
    ],
    ids=["scratch", "uint4", "uint16", "no intermediate", "intermediate"],
)
def test_real_tflm_agrees(model: Model) -> None:
    pytest.importorskip("tflite_micro")
    try:
        allocation = measure_tflm(write_model(model))
    except UnsupportedModelError:
        assert refusals(model)
    else:
        assert not refusals(model)
        assert allocation.total > 0


def test_no_persistent_buffer_of_an_unknown_kernel_is_taken_to_lie_over_its_temporaries() -> None:
    """The kernel may read the zero points of its last temporary tensor until Prepare ends."""
    net, channels = Net(4), 500
    weights = net.noise(channels, 2, axis=0)
    x = net.arena(4)
    y = net.arena(4)
    net.custom("MyOp", [x, weights], [y])
    text = {"name": "MyOp", "persistent": [4096], "temporary_inputs": [0, 1]}
    custom, problems = describe_operators({"operator": [text]})
    assert problems == []
    account = account_model(net.model([x], [y]), BUILD, custom=custom)
    (peak,) = [peak for peak in account.peaks if peak.operator is not None]
    table = BUILD.size_of("ScratchBufferRequest") * 12
    structs = BUILD.size_of("TfLiteTensor") + BUILD.size_of("TfLiteAffineQuantization")
    zero_points = 4 * (1 + 1) + 4 * (1 + channels)
    assert peak.head_bytes == table + 2 * structs + zero_points
