"""Which Keras layers the operators of a calibrated file belong to, by the names that the user knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.convert.calibrated import LayerMap, tensors_of
from edgetool.errors import UsageError
from edgetool.model.types import DType, Model, Signature
from edgetool.model.writer import write_model
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
    assert list(tensors_of(blob, LayerMap(CLASSES), [wanted])) == found


@pytest.mark.parametrize("wanted", ["conv", "deep", "outer/head a", "x", ""])
def test_a_part_of_a_name_is_none(wanted: str) -> None:
    blob = write_model(named(["outer/deep_conv/x", "head_a/x"]))
    with pytest.raises(UsageError, match=r"the layers with operators are head_a, outer/deep_conv"):
        tensors_of(blob, LayerMap(CLASSES), [wanted])


def test_what_a_cut_layer_gives_and_takes_is_that_layers() -> None:
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
