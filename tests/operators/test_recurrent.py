"""Prepare and loop counts of SVDF and LSTM."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.model.types import DType, OptionValue, Tensor
from edgetool.operators.call import KernelRefusal, Request
from edgetool.target.platform import Platform
from tests.memory.account_convolutions import lstm, svdf
from tests.memory.account_net import Net
from tests.operators.builds import BUILDS, DSP, MVE, PLAIN, REFERENCE
from tests.operators.calls import tensor
from tests.operators.layers import asked, constant, kept, looked_at, variable
from tests.operators.runs import FLOAT32, INT8, INT16, run

BATCH, FEATURES, FILTERS, MEMORY, UNITS = 2, 5, 6, 4, 3
SVDF_OUTPUT = tensor(BATCH, UNITS, scale=0.5)


def svdf_asked(build: Platform = REFERENCE, *, output: Tensor = SVDF_OUTPUT, **changed: Tensor | None) -> list[Request]:
    """An int8 SVDF of rank 2, with some tensors changed."""
    inputs: dict[str, Tensor | None] = {
        "source": tensor(BATCH, FEATURES, scale=0.5),
        "features": constant(tensor(FILTERS, FEATURES, scale=0.5)),
        "times": constant(tensor(FILTERS, MEMORY, dtype=DType.INT16, scale=0.5)),
        "bias": constant(tensor(UNITS, dtype=DType.INT32, scale=0.25)),
        "state": variable(tensor(BATCH, MEMORY * FILTERS, dtype=DType.INT16, scale=0.5)),
    }
    return asked("SVDF", list({**inputs, **changed}.values()), output, build, rank=2)


@pytest.mark.parametrize("build", BUILDS)
def test_svdf_requests_each_tensor_once(build: Platform) -> None:
    assert looked_at(svdf_asked(build)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("build", [REFERENCE, PLAIN, DSP])
def test_svdf_of_int8_accumulates_filters_and_units(build: Platform) -> None:
    assert kept(svdf_asked(build)) == [("scratch", 4 * BATCH * FILTERS), ("scratch", 4 * BATCH * UNITS)]


def test_svdf_on_mve_keeps_sums_of_feature_weights() -> None:
    assert kept(svdf_asked(MVE))[2:] == [("persistent", 4 * FILTERS)]
    changing = tensor(FILTERS, FEATURES, scale=0.5)
    assert kept(svdf_asked(features=changing)) == kept(svdf_asked())
    with pytest.raises(KernelRefusal, match="constant feature weights"):
        svdf_asked(MVE, features=changing)


@pytest.mark.parametrize("build", BUILDS)
def test_svdf_of_floats_needs_no_room_for_units(build: Platform) -> None:
    shapes = ((BATCH, FEATURES), (FILTERS, FEATURES), (FILTERS, MEMORY), (UNITS,), (BATCH, MEMORY * FILTERS))
    source, features, times, bias, state = (tensor(*shape, dtype=DType.FLOAT32) for shape in shapes)
    requests = svdf_asked(
        build,
        output=tensor(BATCH, UNITS, dtype=DType.FLOAT32),
        source=source,
        features=features,
        times=times,
        bias=bias,
        state=variable(state),
    )
    assert kept(requests) == [("scratch", 4 * BATCH * FILTERS)]


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"bias": None}, "crashes if the bias is omitted"),
        ({"bias": tensor(UNITS, dtype=DType.INT32, scale=0.5)}, "bias scale to be the product"),
        ({"bias": tensor(UNITS + 1, dtype=DType.INT32, scale=0.25)}, "incompatible shapes"),
        ({"features": tensor(FILTERS - 1, FEATURES, scale=0.5)}, "5 filters with a rank of 2"),
        ({"source": tensor(BATCH, FEATURES, dtype=DType.INT16, scale=0.5)}, "input 0 of type float32, int8"),
        ({"state": tensor(BATCH, MEMORY * FILTERS, dtype=DType.INT16, scale=0.5)}, "variable tensor"),
    ],
)
def test_svdf_refuses(build: Platform, changed: dict[str, Tensor | None], why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        svdf_asked(build, **changed)


def test_svdf_without_options_has_a_rank_of_0() -> None:
    with pytest.raises(KernelRefusal, match="rank of 0"):
        asked("SVDF", [tensor(1, 1)] * 5, tensor(1, 1))


STEPS, CELLS = 4, 3


def lstm_asked(
    build: Platform = REFERENCE,
    kind: DType = DType.INT8,
    *,
    scales: int = 1,
    changed: dict[int, Tensor | None] | None = None,
    **options: OptionValue,
) -> list[Request]:
    """An LSTM on input of this type, with some tensors changed by their position."""
    is_float = kind == DType.FLOAT32
    scale = None if is_float else 0.5
    weights, cell = (DType.FLOAT32, DType.FLOAT32) if is_float else (DType.INT8, DType.INT16)
    bias = {DType.FLOAT32: DType.FLOAT32, DType.INT8: DType.INT32, DType.INT16: DType.INT64}[kind]
    inputs: list[Tensor | None] = [None] * 24
    inputs[0] = tensor(BATCH, STEPS, FEATURES, dtype=kind, scale=scale)
    for position in range(1, 9):
        depth = FEATURES if position < 5 else CELLS
        inputs[position] = constant(tensor(CELLS, depth, dtype=weights, scale=scale, scales=scales))
    for position in range(12, 16):
        inputs[position] = constant(tensor(CELLS, dtype=bias, scale=scale))
    inputs[18] = variable(tensor(BATCH, CELLS, dtype=kind, scale=scale))
    inputs[19] = variable(tensor(BATCH, CELLS, dtype=cell, scale=scale))
    for position, other in (changed or {}).items():
        inputs[position] = other
    return asked(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, tensor(BATCH, STEPS, CELLS, dtype=kind, scale=scale), build, **options
    )


@pytest.mark.parametrize("build", BUILDS)
def test_lstm_requests_the_15_tensors_it_has_and_the_output(build: Platform) -> None:
    assert looked_at(lstm_asked(build)) == [*range(15), 15]


def test_lstm_of_the_reference_kernel_has_four_buffers_of_the_cells_type() -> None:
    for kind in (DType.INT8, DType.INT16):
        assert kept(lstm_asked(kind=kind)) == [("scratch", 2 * BATCH * CELLS)] * 4
    assert kept(lstm_asked(kind=DType.FLOAT32)) == [("scratch", 4 * BATCH * CELLS)] * 4


@pytest.mark.parametrize("build", [PLAIN, DSP, MVE])
def test_lstm_of_cmsis_nn_keeps_eight_sums_of_the_biases_type(build: Platform) -> None:
    buffers = [("scratch", 2 * BATCH * CELLS)] * 3
    assert kept(lstm_asked(build)) == [("persistent", 4 * CELLS)] * 8 + buffers
    assert kept(lstm_asked(build, DType.INT16)) == [("persistent", 8 * CELLS)] * 8 + buffers
    assert kept(lstm_asked(build, DType.FLOAT32)) == [("scratch", 4 * BATCH * CELLS)] * 4


def test_lstm_per_channel_keeps_multipliers_and_shifts_for_eight_matrices() -> None:
    assert kept(lstm_asked(scales=CELLS))[:-4] == [("persistent", 4 * CELLS)] * 16


def test_a_time_major_lstm_has_its_batch_second() -> None:
    states = {
        position: variable(tensor(STEPS, CELLS, dtype=t)) for position, t in ((18, DType.INT8), (19, DType.INT16))
    }
    assert kept(lstm_asked(changed=dict(states), time_major=True)) == [("scratch", 2 * STEPS * CELLS)] * 4
    with pytest.raises(KernelRefusal, match="do not match"):
        lstm_asked(time_major=True)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({9: tensor(CELLS, scale=0.5)}, r"peephole.*\[9\]"),
        ({12: None}, "no input 12"),
        ({3: constant(tensor(CELLS, FEATURES, dtype=DType.INT16, scale=0.5))}, "the same type for all weights"),
        ({18: tensor(BATCH, CELLS, scale=0.5)}, "variable tensors"),
        ({18: variable(tensor(BATCH, CELLS, dtype=DType.INT16, scale=0.5))}, "the same type for input"),
        ({19: variable(tensor(BATCH, CELLS, scale=0.5))}, "input 19 of type float32, int16"),
        ({5: constant(tensor(CELLS, FEATURES, scale=0.5))}, "do not match"),
    ],
)
def test_lstm_refuses(build: Platform, changed: dict[int, Tensor | None], why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        lstm_asked(build, changed=changed)


def test_cmsis_nn_takes_constant_weights_only() -> None:
    changing = tensor(CELLS, FEATURES, scale=0.5)
    assert kept(lstm_asked(changed={1: changing})) == kept(lstm_asked())
    with pytest.raises(KernelRefusal, match="constant weights"):
        lstm_asked(DSP, changed={1: replace(changing, data=None)})


@pytest.mark.parametrize(("rank", "suffix"), [(2, ""), (1, ", rank 1")])
def test_filters(rank: int, suffix: str) -> None:
    net = Net(1)
    x = net.arena(2, 10)
    model = net.model([x], [svdf(net, x, rank=rank, units=3, memory=5)])
    filters = 3 * rank
    reference, work = run(model), run(model, DSP)
    assert (reference.path, work.path) == ("reference int8, int16 state", f"int8, int16 state{suffix}")
    assert reference.loops["product"] == 2 * filters * 10
    assert reference.loops["state product"] == 2 * filters * 5
    assert (work.loops["filter by 2"], work.loops["filter by 1"]) == (2 * filters * 2, 2 * filters)
    assert run(model, MVE).loops["filter by 1"] == 2 * filters * 5


@pytest.mark.parametrize("dtype", [INT8, INT16, FLOAT32])
@pytest.mark.parametrize("major", [False, True])
def test_steps_of_a_sequence(dtype: DType, major: bool) -> None:
    """Batches of 2, 5 steps, 3 inputs, 6 units: all batches in one step where time comes first."""
    work = run(lstm(dtype, time_major=major), REFERENCE)
    assert work.path == f"reference {dtype.name.lower()}"
    assert work.loops["step"] == (5 if major else 10)
    first = 2 * 6 * 6
    assert work.loops["product of zeros"] == 4 * first
    assert work.loops["product"] == 4 * (2 * 5 * 6 * (3 + 6) - first)


def test_the_first_step_has_no_hidden_state() -> None:
    work = run(lstm(INT16, time_major=False), DSP)
    assert work.path == "int16"
    assert (work.loops["step"], work.loops["hidden step"]) == (10, 8)
    # Three pairs of units: 3 inputs one by one in 10 steps; 6 states as a quad and two more in 8.
    assert work.loops["2 units by 1"] == 4 * 3 * (10 * 3 + 8 * 2)
    assert work.loops["2 units by 4"] == 4 * 3 * 8
    assert run(lstm(INT16, time_major=True), DSP).loops["hidden step"] == 4
