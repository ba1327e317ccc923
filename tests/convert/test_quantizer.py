"""Which Keras layers the operators of a calibrated file belong to, by the names that the user knows.

The same calibrated model gives the same bytes, in whatever order the quantizer visits an operator's results.

What TensorFlow's quantizer refuses over scales becomes int8 all the same, and runs on real TFLM.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.convert.convert import convert_model
from edgetool.convert.quantizer import (
    LayerMap,
    in_result_order,
    layer_tensors,
    quantize_in_order,
    quantize_with_hidden_operators,
    unread_results,
)
from edgetool.convert.request import ConvertRequest
from edgetool.errors import UsageError
from edgetool.execute.quantize import dequantize, quantize
from edgetool.execute.run import run_model
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Graph, Model, Operator, Quantization, Signature, Tensor
from edgetool.model.writer import write_model
from tests import graphs
from tests.convert.left_by_child import leave, reported
from tests.memory.account_net import Net

CLASSES = {"outer": "Sequential", "outer/deep_conv": "Conv2D", "outer/deep_conv_1": "Conv2D", "head_a": "Dense"}


def named(names: list[str], signature: Signature | None = None, codes: tuple[str, ...] = ()) -> Model:
    """A chain of operators (RELU) whose outputs have these names."""
    net = Net(1)
    x = y = net.arena(1, 4, dtype=DType.FLOAT32)
    for place, _ in enumerate(names):
        y = net.op(codes[place] if codes else "RELU", [y])
    made = net.model([x], [y])
    graph = made.main
    given = {operator.outputs[0]: name for operator, name in zip(graph.operators, names, strict=True)}
    tensors = tuple(replace(tensor, name=given.get(tensor.index, "in")) for tensor in graph.tensors)
    ends = Signature("serving_default", 0, (("first_lstm_given_0", x),), (("first_lstm_taken_0", y),))
    return replace(made, subgraphs=(replace(graph, tensors=tensors),), signatures=(signature or ends,))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("outer/deep_conv", ["outer/deep_conv/x"]),
        ("outer/deep conv", ["outer/deep_conv/x"]),
        ("deep conv", ["outer/deep_conv/x"]),
        ("outer", ["outer/deep_conv/x", "outer/deep_conv_1/x"]),
        ("head a", ["head_a/x"]),
    ],
)
def test_layers_are_found_by_the_names_that_keras_has(wanted: str, found: list[str]) -> None:
    blob = write_model(named(["outer/deep_conv/x", "outer/deep_conv_1/x", "head_a/x"]))
    assert list(layer_tensors(blob, LayerMap(CLASSES), [wanted])) == found


@pytest.mark.parametrize("wanted", ["conv", "deep", "outer/head a", "x", ""])
def test_a_part_of_a_layer_name_matches_no_layer(wanted: str) -> None:
    blob = write_model(named(["outer/deep_conv/x", "head_a/x"]))
    with pytest.raises(UsageError, match=r"the layers with operators are head_a, outer/deep_conv"):
        layer_tensors(blob, LayerMap(CLASSES), [wanted])


def test_the_ends_of_a_cut_layer_belong_to_that_layer() -> None:
    """Behind the conversions at the ends too."""
    made = named(["a", "b", "c", "d"], codes=("QUANTIZE", "RESHAPE", "RELU", "DEQUANTIZE"))
    layers = LayerMap({"first lstm": "LSTM", "other": "LSTM"})
    own = [layers.cut_layer_of(operator, made) for operator in made.main.operators]
    assert own == ["first lstm", "first lstm", "first lstm", "first lstm"]
    long = named(["a", "b", "c"], codes=("RESHAPE", "RELU", "RESHAPE"))
    assert [layers.cut_layer_of(operator, long) for operator in long.main.operators] == [
        "first lstm",
        None,
        "first lstm",
    ]
    assert LayerMap({"other": "LSTM"}).cut_layer_of(long.main.operators[0], long) is None


FLOAT, INT8 = DType.FLOAT32, DType.INT8
SCALE = Quantization((0.5,), (3,), 0)
AXIS = graphs.tensor(7, data=b"\1\0\0\0", dtype=DType.INT32, buffer=1)
ORDERS = tuple(permutations(range(3)))


def split(*results: int) -> Operator:
    return graphs.operator(0, "SPLIT", [7, 0], results, "SplitOptions", num_splits=len(results))


def calibrated(*read: int) -> bytes:
    """A SPLIT into three; the results `read`, by position, go through TANH and become outputs."""
    tensors = [graphs.tensor(0, 1, 6, dtype=FLOAT), *(graphs.tensor(1 + i, 1, 2, dtype=FLOAT) for i in range(6)), AXIS]
    readers = [graphs.operator(1 + place, "TANH", [1 + i], [4 + i]) for place, i in enumerate(read)]
    outputs = tuple(4 + i for i in read)
    signature = Signature("serving_default", 0, (("x", 0),), tuple((f"y{tensor}", tensor) for tensor in outputs))
    return file(graphs.graph(tensors, [split(1, 2, 3), *readers], [0], outputs), signature)


def file(graph: Graph, *signatures: Signature) -> bytes:
    return write_model(model(graph, *signatures))


def model(graph: Graph, *signatures: Signature) -> Model:
    """Of a graph whose operators need not be numbered yet."""
    codes = sorted({operator.code for operator in graph.operators})
    operators = (
        replace(one, index=place, opcode_index=codes.index(one.code)) for place, one in enumerate(graph.operators)
    )
    made = graphs.model(replace(graph, operators=tuple(operators)))
    return replace(made, signatures=signatures, data=(None, AXIS.data))


class Quantizer:
    """Does what TensorFlow's does: conversions behind a SPLIT in a random order, here the one given, and the SPLIT in
    int8 only if all its results are read. `float_readers`: the operators that read the results stay in float."""

    def __init__(self, order: tuple[int, ...], *, float_readers: bool = False) -> None:
        self.order = order
        self.float_readers = float_readers
        self.given: list[Model] = []

    def __call__(self, content: bytes) -> bytes:
        model = read_model(content)
        self.given.append(model)
        graph = model.main
        unread = unread_results(graph)
        if not unread and not self.float_readers:
            tensors = [self.in_int8(tensor) for tensor in graph.tensors]
            return file(replace(graph, tensors=tuple(tensors)), *model.signatures)
        divided, *readers = graph.operators
        tensors, behind, moved = list(graph.tensors), [], {}
        kinds = ("DEQUANTIZE", INT8, FLOAT) if not unread else ("QUANTIZE", FLOAT, INT8)
        for result in (divided.outputs[i] for i in self.order):
            if result in unread:
                continue
            tensors[result] = replace(tensors[result], dtype=kinds[1], quantization=SCALE)
            name = f"split{len(behind)}"
            tensors.append(replace(tensors[result], index=len(tensors), name=name, dtype=kinds[2]))
            behind.append(graphs.operator(0, kinds[0], [result], [len(tensors) - 1]))
            moved[result] = len(tensors) - 1
        readers = [replace(one, inputs=tuple(moved[index] for index in one.inputs)) for one in readers]
        operators = (divided, *behind, *readers)
        return file(replace(graph, tensors=tuple(tensors), operators=operators), *model.signatures)

    def in_int8(self, tensor: Tensor) -> Tensor:
        return tensor if tensor.is_constant else replace(tensor, dtype=INT8, quantization=SCALE)


def source(graph: Graph, operator: Operator) -> int:
    """Which result of the SPLIT an operator reads."""
    tensor, producers = operator.inputs[0], {output: one for one in graph.operators for output in one.outputs}
    while producers[tensor].code != "SPLIT":
        tensor = producers[tensor].inputs[0]
    return producers[tensor].outputs.index(tensor)


@pytest.mark.parametrize("read", [(0, 2), (1,), (2, 1)])
def test_a_split_with_an_unread_result_becomes_int8_in_any_order(read: tuple[int, ...]) -> None:
    content = calibrated(*read)
    assert len({Quantizer(order)(content) for order in ORDERS}) > 1 or len(read) == 1  # the fault, without the cure
    made = {quantize_in_order(Quantizer(order), content) for order in ORDERS}
    assert len(made) == 1
    before, after = read_model(content), read_model(made.pop())
    assert [operator.code for operator in after.main.operators] == ["SPLIT", *["TANH"] * len(read)]
    assert {tensor.dtype for tensor in after.main.tensors} == {INT8, DType.INT32}
    assert after.signatures[0].outputs == tuple(
        (name, tensor) for (name, _), tensor in zip(before.signatures[0].outputs, after.main.outputs, strict=True)
    )
    assert [source(after.main, one) for one in after.main.operators[1:]] == list(read)


def test_unread_results_are_outputs_only_for_the_quantizer() -> None:
    quantizer = Quantizer((0, 1, 2))
    quantize_in_order(quantizer, calibrated(0, 2))
    (given,) = quantizer.given
    assert given.main.outputs == (4, 6, 2)
    assert len(given.signatures[0].outputs) == 3


def test_conversions_behind_a_split_take_the_order_of_its_results() -> None:
    content = calibrated(2, 0, 1)
    assert len({Quantizer(order, float_readers=True)(content) for order in ORDERS}) == len(ORDERS)
    made = {quantize_in_order(Quantizer(order, float_readers=True), content) for order in ORDERS}
    assert len(made) == 1
    graph = read_model(made.pop()).main
    behind, readers = graph.operators[1:4], graph.operators[4:]
    assert [source(graph, one) for one in behind] == [0, 1, 2]
    assert [graph.tensors[one.outputs[0]].name for one in behind] == ["split0", "split1", "split2"]
    assert [source(graph, one) for one in readers] == [2, 0, 1]


@pytest.mark.parametrize("order", ORDERS)
def test_graph_outputs_behind_a_split_keep_their_names(order: tuple[int, ...]) -> None:
    tensors = [graphs.tensor(0, 1, 6), *(graphs.tensor(1 + i, 1, 2) for i in range(6)), AXIS]
    operators = [split(1, 2, 3)]
    for place, result in enumerate(order):
        tensors[4 + place] = replace(graphs.tensor(4 + place, 1, 2, dtype=FLOAT), name=f"of result {result}")
        operators.append(graphs.operator(1 + place, "DEQUANTIZE", [1 + result], [4 + place]))
    outputs = tuple(4 + order.index(result) for result in (2, 0, 1))
    signature = Signature("serving_default", 0, (("x", 0),), tuple(zip("abc", outputs, strict=True)))
    ordered = in_result_order(model(graphs.graph(tensors, operators, [0], outputs), signature))
    names = [tensor.name for tensor in ordered.main.tensors[4:7]]
    assert names == ["of result 0", "of result 1", "of result 2"]
    assert ordered.main.outputs == (6, 4, 5)
    assert ordered.signatures[0].outputs == (("a", 6), ("b", 4), ("c", 5))
    assert [one.index for one in ordered.main.operators] == [0, 1, 2, 3]


def test_models_whose_operators_have_one_result_stay_as_they_are() -> None:
    content = write_model(graphs.chain([4, 4, 4]))
    answer = b"whatever the quantizer gives"
    given = []
    assert quantize_in_order(lambda model: given.append(model) or answer, content) is answer
    assert given == [content]


def test_a_split_whose_results_are_all_read_keeps_the_quantizers_bytes() -> None:
    content = calibrated(0, 1, 2)
    assert quantize_in_order(Quantizer((2, 1, 0)), content) == Quantizer((2, 1, 0))(content)


@pytest.mark.slow
def test_tensorflow_gives_the_same_bytes_whenever_it_quantizes(tmp_path: Path) -> None:
    made = reported(leave("tests.convert.result_order_child", tmp_path), "made")
    assert {name: len(hashes) for name, hashes in made.items()} == {"unread": 1, "float readers": 1}
    operators = [one.code for one in read_model((tmp_path / "unread.tflite").read_bytes()).main.operators]
    assert "SPLIT" in operators
    assert not {"QUANTIZE", "DEQUANTIZE"} & set(operators)


@pytest.mark.slow
def test_a_recurrent_model_gives_the_same_bytes_in_each_process(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Bidirectional(keras.layers.LSTM(6, return_sequences=True)), keras.layers.GRU(5)]
    keras.Sequential([keras.Input((6, 4)), *layers, keras.layers.Dense(3)]).save(tmp_path / "model.keras")
    request = ConvertRequest(tmp_path / "model.keras", rnn="unrolled", samples=8)
    made = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        made.append(convert_model(request, workdir=tmp_path / name).tflite)
    assert made[0] == made[1]
    codes = {one.code for one in read_model(made[0]).main.operators}
    assert not {"QUANTIZE", "DEQUANTIZE"} & codes


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the child left what it made."""
    return leave("tests.convert.same_scale_child", tmp_path_factory.mktemp("same_scale"))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["litert-reference", "tflm"])
def test_a_refused_model_runs_in_int8(made: Path, engine: str) -> None:
    pytest.importorskip("tflite_micro")
    found = reported(made, "clash")
    assert found["refused"]
    assert found["joined"]
    assert {label for label, _ in found["joined"]} <= {"CONCATENATION", "MAXIMUM", "MINIMUM"}
    content = (made / "clash.tflite").read_bytes()
    model = read_model(content)
    graph = model.main
    codes = [operator.code for operator in graph.operators]
    assert codes.count("CONCATENATION") == codes.count("MAXIMUM") == codes.count("MINIMUM") == 1
    assert "CUSTOM" not in codes
    assert "DEQUANTIZE" not in codes
    given = graph.tensors[graph.inputs[0]]
    samples = np.asarray(found["samples"], np.float32)
    outputs = run_model(content, [quantize(samples[:, None], given.quantization, given.dtype)], engine=engine)
    expected = [np.asarray(values) for values in found["expected"]]
    for index, output in zip(graph.outputs, outputs, strict=True):
        actual = dequantize(output, graph.tensors[index].quantization).reshape(len(samples), -1)
        best = max(sqnr_db(values, actual) for values in expected if values[0].size == actual.shape[1])
        assert best > 30


def sqnr_db(expected: Any, actual: Any) -> float:
    reference = expected.reshape(actual.shape)
    return float(10 * np.log10(np.square(reference).sum() / np.square(reference - actual).sum()))


def test_a_model_that_is_not_rejected_does_not_change(made: Path) -> None:
    found = reported(made, "plain")
    assert not found["refused"]
    assert found["joined"] == []
    codes = [operator.code for operator in read_model((made / "plain.tflite").read_bytes()).main.operators]
    assert codes == ["CONV_2D", "CONV_2D", "CONCATENATION"]


def test_a_refusal_that_has_other_reasons_is_reported(made: Path) -> None:
    content = (made / "plain.tflite").read_bytes()
    tries = []

    def refuse(model: bytes) -> bytes:
        tries.append(model)
        raise RuntimeError(f"refusal {len(tries)}")

    with pytest.raises(RuntimeError, match="refusal 1"):
        quantize_with_hidden_operators(refuse, content)
    assert len(tries) == 2
    hidden = [operator.label for operator in read_model(tries[1]).main.operators]
    assert hidden == ["CONV_2D", "CONV_2D", "edgetool.hidden.2"]
