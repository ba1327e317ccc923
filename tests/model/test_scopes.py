"""From a tensor's name to its layer."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.scopes import layer_of, sanitised

LAYERS = {
    "conv": "Conv2D",
    "conv_1": "Conv2D",
    "outer": "Sequential",
    "outer/conv": "Conv2D",
    "lstm/lstm_cell": "LSTMCell",
}
SCOPE = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\-]*")


@pytest.mark.parametrize(
    ("names", "layer"),
    [
        ("conv/Relu;conv/BiasAdd;conv/Conv2D", "conv"),
        ("conv_1/Conv2D", "conv_1"),
        ("conv_10/Conv2D", None),
        ("outer/conv/Conv2D", "outer/conv"),
        ("outer/add", "outer"),
        ("outer/add;outer/conv/BiasAdd", "outer/conv"),
        ("StatefulPartitionedCall/outer/conv/Relu", "outer/conv"),
        ("conv;outer", "conv"),
        ("lstm/lstm_cell/MatMul", "lstm/lstm_cell"),
        ("lstm/transpose", None),
        ("PartitionedCall:0", None),
        (["arith.constant1", "conv_1/Relu"], "conv_1"),
        ("", None),
        ([], None),
    ],
)
def test_the_longest_known_scope_is_the_layer(names: str | list[str], layer: str | None) -> None:
    assert layer_of(names, LAYERS) == layer


@given(st.text(max_size=20))
def test_any_name_becomes_a_scope_that_tensorflow_takes(name: str) -> None:
    assert SCOPE.fullmatch(sanitised(name))


@given(st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True))
def test_usual_names_stay(name: str) -> None:
    assert sanitised(name) == name
