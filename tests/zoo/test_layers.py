"""Every layer of keras.layers through load, lowering, conversion and rewriting, to real TFLM."""

from __future__ import annotations

import pytest
from benchmarks.zoo.catalog import cheap
from benchmarks.zoo.left_out import LEFT_OUT, named_in_zoo

from tests.zoo.conftest import Tried
from tests.zoo.judged import check

GROUPS = ("activations", "convolution layers", "other layers", "preprocessing")
NAMES = [entry.name for entry in cheap() if entry.group in GROUPS]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_layers_runs_on_tflm(name: str, tried: Tried) -> None:
    check(tried(name))


def test_each_layer_and_activation_of_keras_is_in_a_model_or_left_out_with_a_reason(tried: Tried) -> None:
    import keras

    public: dict[type, set[str]] = {}
    for name, value in vars(keras.layers).items():
        if isinstance(value, type) and issubclass(value, keras.layers.Layer):
            public.setdefault(value, set()).add(name)
    activations = {
        value.__name__
        for name, value in vars(keras.activations).items()
        if callable(value) and not name.startswith("_") and name not in ("get", "serialize", "deserialize")
    }
    named = named_in_zoo()
    assert {min(names) for names in public.values() if not names & named} == set(LEFT_OUT)
    assert activations <= named
