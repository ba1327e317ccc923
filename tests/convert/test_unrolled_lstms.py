"""Copies of an LSTM for each step become one operator, if they compute what an LSTM does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.convert.convert import convert_model
from edgetool.convert.lowering.cut_open import join_lstm, run_lstm
from edgetool.convert.request import Conversion, ConvertRequest
from edgetool.convert.unrolled_lstms import is_closed, open_at, unrolled_lstms
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.quality import measure_quality
from tests.passes.layers import FLOAT, Graph
from tests.passes.runs import codes, litert

STEPS, FEATURES, UNITS = 4, 3, 5
KERAS = "ifco"  # the gates in Keras's and PyTorch's order
ONNX = "iofc"


def unrolled(
    gates: str, *, split: bool = False, whole: bool = True, cell_state: bool = False, start: float | None = None
) -> Model:
    """An LSTM that projects all steps at once.

    whole: the outputs of all steps are read, not only the last. cell_state: its last value is an output of the model.
    start: its first value.
    """
    net = Graph()
    random = np.random.default_rng(3)
    kernel, recurrent, bias = (
        net.constant(random.normal(size=shape), FLOAT)
        for shape in ((4 * UNITS, FEATURES), (4 * UNITS, UNITS), (4 * UNITS,))
    )
    x = net.input((1, STEPS, FEATURES), FLOAT)
    given = net.apply("FULLY_CONNECTED", [x, kernel, bias], (1, STEPS, 4 * UNITS), keep_num_dims=True)
    cell = hidden = None if start is None else net.constant(np.full((1, 1, UNITS), start), FLOAT)
    outputs = []
    for step in range(STEPS):
        sums = _slice(net, given, (0, step, 0), (1, 1, 4 * UNITS))
        if outputs:
            product = net.apply("FULLY_CONNECTED", [outputs[-1], recurrent], (1, 1, 4 * UNITS), keep_num_dims=True)
            sums = net.apply("ADD", [product, sums], fused_activation_function="NONE")
        parts = dict(zip(gates, _parts(net, sums, split), strict=True))
        new = _product(net, net.apply("LOGISTIC", [parts["i"]]), net.apply("TANH", [parts["c"]]))
        if cell is not None:
            kept = _product(net, net.apply("LOGISTIC", [parts["f"]]), cell)
            new = net.apply("ADD", [kept, new], fused_activation_function="NONE")
        cell = new
        hidden = _product(net, net.apply("LOGISTIC", [parts["o"]]), net.apply("TANH", [cell]))
        outputs.append(hidden)
    assert hidden is not None
    assert cell is not None
    results = [net.apply("LOGISTIC", [net.concatenate(outputs, 1) if whole else hidden])]
    return net.model([x], [*results, cell] if cell_state else results)


def _product(net: Graph, one: int, other: int) -> int:
    return net.apply("MUL", [one, other], fused_activation_function="NONE")


def _slice(net: Graph, x: int, begin: tuple[int, ...], size: tuple[int, ...]) -> int:
    return net.apply("SLICE", [x, net.constant(begin), net.constant(size)], size)


def _parts(net: Graph, sums: int, split: bool) -> list[int]:
    if split:
        shapes = [(1, 1, UNITS)] * 4
        options = {"table": "SplitOptions", "num_splits": 4}
        return list(net.add_operator("SPLIT", [net.constant(2), sums], *shapes, dtype=FLOAT, **options))
    return [_slice(net, sums, (0, 0, place * UNITS), (1, 1, UNITS)) for place in range(4)]


def sequences(count: int) -> Any:
    return np.random.default_rng(5).normal(size=(count, STEPS, FEATURES)).astype(np.float32)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("gates", [KERAS, ONNX])
def test_an_lstm_is_found_with_its_weights(gates: str, split: bool) -> None:
    model = unrolled(gates, split=split)
    (lstm,) = unrolled_lstms(model)
    assert (lstm.source, len(lstm.hidden), lstm.features) == (model.main.inputs[0], STEPS, FEATURES)
    samples = sequences(3)
    outputs, _ = run_lstm(lstm.cut, samples)
    (expected,) = litert(model, [samples[:, None]])
    np.testing.assert_allclose(1 / (1 + np.exp(-outputs)), np.reshape(expected, outputs.shape), atol=1e-5)


@pytest.mark.parametrize("whole", [True, False])
def test_the_open_model_computes_the_same_with_the_operator(whole: bool) -> None:
    model = unrolled(ONNX, whole=whole)
    (lstm,) = unrolled_lstms(model)
    opened = open_at(model, [lstm])
    assert not {"ADD", "FULLY_CONNECTED", "MUL", "TANH"} & set(codes(opened))
    (_, given), (_, taken) = opened.signatures[0].inputs[0], opened.signatures[0].outputs[0]
    names = [name for name, _ in (*opened.signatures[0].inputs[1:], *opened.signatures[0].outputs[1:])]
    joined = join_lstm(opened, lstm.cut, *names, 1.0)
    assert (given, taken) == (opened.main.inputs[0], opened.main.outputs[0])
    assert codes(joined).count("UNIDIRECTIONAL_SEQUENCE_LSTM") == 1
    samples = [sequences(3)[:, None]]
    for one, other in zip(litert(model, samples), litert(joined, samples), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5)


def test_an_lstm_whose_cell_state_is_read_stays() -> None:
    for cell_state in (False, True):
        model = unrolled(KERAS, cell_state=cell_state)
        (lstm,) = unrolled_lstms(model)
        assert is_closed(model, lstm) == (not cell_state)


def test_other_recurrences_are_not_found() -> None:
    net = Graph()
    x = net.input((1, UNITS), FLOAT)
    recurrent = net.constant(np.ones((4 * UNITS, UNITS)), FLOAT)
    for _ in range(2):
        sums = net.apply("FULLY_CONNECTED", [x, recurrent], (1, 4 * UNITS))
        x = _slice(net, net.apply("TANH", [sums]), (0, 0), (1, UNITS))
    assert unrolled_lstms(net.model([0], [x])) == ()


def converted(model: Model, folder: Path) -> Conversion:
    samples, path, work = folder / "samples.npy", folder / "model.tflite", folder / "work"
    np.save(samples, sequences(24))
    path.write_bytes(write_model(model))
    work.mkdir()
    return convert_model(ConvertRequest(path, calibration=samples, quantize="int8"), workdir=work)


@pytest.mark.slow
@pytest.mark.parametrize("start", [None, 0.0, 0.75])
def test_an_lstm_in_int8_is_one_operator_if_it_starts_at_zero(start: float | None, tmp_path: Path) -> None:
    """From another state it has the form of an LSTM, but computes something else: it stays unrolled."""
    conversion = converted(unrolled(KERAS, start=start), tmp_path)
    model = read_model(conversion.tflite)
    assert ("UNIDIRECTIONAL_SEQUENCE_LSTM" in codes(model)) == (not start)
    assert ("TANH" in codes(model)) == bool(start)
    quality, _ = measure_quality(conversion, model, scheme="int8", workdir=tmp_path)
    assert quality.outputs[0].sqnr_db is not None
    assert quality.outputs[0].sqnr_db > 35
