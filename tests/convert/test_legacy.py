from __future__ import annotations

import copy
from typing import Any

import pytest

from edgetool.convert.keras_names import LAYERS
from edgetool.convert.legacy import DROPPED_KEYS, HARD_SIGMOID, modernise
from edgetool.errors import UnsupportedModelError


def layer(class_name: str, name: str = "it", **config: Any) -> dict[str, Any]:
    return {"class_name": class_name, "config": {"name": name, **config}}


def model(*layers: dict[str, Any]) -> dict[str, Any]:
    return layer("Functional", "whole", layers=list(layers))


def first_layer(config: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = config["config"]["layers"][0]["config"]
    return found


def test_keys_of_keras_2_are_removed_and_the_layers_reported() -> None:
    old = model(
        layer("DepthwiseConv2D", "a", groups=1, strides=[1, 1]),
        layer("DepthwiseConv2D", "b", groups=1),
        layer("TimeDistributed", "t", layer=layer("LSTM", "c", time_major=False, implementation=2, units=3)),
        layer("Conv2D", "d", groups=1),
    )
    before = copy.deepcopy(old)
    new, notes = modernise(old, legacy=True)
    a, b, t, d = (entry["config"] for entry in new["config"]["layers"])
    assert old == before
    assert a == {"name": "a", "strides": [1, 1]}
    assert b == {"name": "b"}
    assert t["layer"]["config"] == {"name": "c", "units": 3}
    assert d["groups"] == 1  # Conv2D has groups in Keras 3
    assert notes == (
        "dropped Keras 2-only keys (groups) from DepthwiseConv2D: a, b",
        "dropped Keras 2-only keys (time_major, implementation) from LSTM: c",
    )


def test_long_lists_of_layers_are_cut() -> None:
    _, notes = modernise(model(*(layer("GRU", f"g{i}", time_major=False) for i in range(9))), legacy=True)
    assert notes[0].endswith("g0, g1, g2, g3 and 5 more")


@pytest.mark.parametrize(
    ("class_name", "key", "value"),
    [("DepthwiseConv2D", "groups", 2), ("LSTM", "time_major", True), ("BatchNormalization", "renorm", True)],
)
def test_keys_that_affect_the_result_are_rejected(class_name: str, key: str, value: object) -> None:
    with pytest.raises(UnsupportedModelError, match=f"'odd' \\({class_name}\\).*{key}={value}"):
        modernise(model(layer(class_name, "odd", **{key: value})), legacy=True)


def test_a_file_of_keras_3_stays_as_it_is() -> None:
    config = model(layer("DepthwiseConv2D", groups=1), layer("InputLayer", batch_shape=[None, 4]))
    assert modernise(config, legacy=False) == (config, ())


def test_every_class_of_the_table_is_a_keras_layer() -> None:
    assert set(DROPPED_KEYS) <= LAYERS


def test_the_oldest_sequential_is_a_bare_list() -> None:
    new, _ = modernise({"class_name": "Sequential", "config": [layer("LSTM", time_major=False)]}, legacy=True)
    named = layer("LSTM") | {"module": "keras.layers", "registered_name": None}
    assert new["config"] == {"name": "sequential", "layers": [named]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (layer("BatchNormalization", axis=[3]), layer("BatchNormalization", axis=3)),
        (layer("InputLayer", batch_input_shape=[None, 4]), layer("InputLayer", batch_shape=[None, 4])),
        (
            layer("Dense", dtype={"class_name": "Policy", "config": {"name": "float32"}}),
            layer("Dense", dtype="float32"),
        ),
    ],
)
def test_names_of_keras_2_are_translated(before: dict[str, Any], after: dict[str, Any]) -> None:
    new, notes = modernise(model(before), legacy=True)
    assert first_layer(new) == after["config"]
    assert notes == ()


@pytest.mark.parametrize("module", ["tf_keras.src.engine.functional", "keras.src.engine.functional"])
def test_modules_of_keras_2_are_translated(module: str) -> None:
    new, _ = modernise(model() | {"module": module}, legacy=True)
    assert new["module"] == "keras.src.models.functional"


@pytest.mark.parametrize(
    "policy", ["mixed_float16", {"class_name": "DTypePolicy", "config": {"name": "mixed_bfloat16"}}]
)
@pytest.mark.parametrize("legacy", [True, False])
def test_mixed_precision_becomes_float32(policy: object, legacy: bool) -> None:
    new, notes = modernise(model(layer("Dense", dtype=policy)), legacy=legacy)
    assert first_layer(new)["dtype"] == "float32"
    assert "float32" in notes[0]


def test_a_fixed_batch_becomes_one_everywhere() -> None:
    inner = model(layer("InputLayer", batch_shape=[16, 4]))
    old = model(
        layer("InputLayer", batch_shape=[16, 4]),
        layer("Dense") | {"build_config": {"input_shape": [16, 16]}},
        inner,
        layer("Reshape", target_shape=[16, 2]),
    )
    new, notes = modernise(old, legacy=False)
    outer = new["config"]["layers"]
    assert outer[0]["config"]["batch_shape"] == [1, 4]
    assert outer[1]["build_config"] == {"input_shape": [1, 16]}
    assert first_layer(outer[2])["batch_shape"] == [1, 4]
    assert outer[3]["config"]["target_shape"] == [16, 2]
    assert notes == ("the batch size was changed from 16 to 1",)


@pytest.mark.parametrize("batch", [None, 1])
def test_other_batches_stay(batch: int | None) -> None:
    config = model(layer("InputLayer", batch_shape=[batch, 4]))
    assert modernise(config, legacy=False) == (config, ())


def test_nested_compile_configs_are_not_loaded() -> None:
    inner = layer("Sequential", layers=[]) | {"compile_config": {"loss": "own"}}
    new, _ = modernise(model(inner) | {"compile_config": {}}, legacy=False)
    assert new == model(layer("Sequential", layers=[]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (layer("ThresholdedReLU", theta=0.5), layer("ReLU", threshold=0.5)),
        (layer("RandomHeight", factor=0.2), layer("Identity")),
        (layer("CuDNNGRU", units=3, kernel_constraint=None), layer("GRU", units=3, reset_after=True)),
        (layer("CuDNNLSTM", units=3), layer("LSTM", units=3)),
        (layer("GRU", units=3), layer("GRU", units=3, reset_after=False)),
        (layer("BatchNormalizationV1", axis=[3]), layer("BatchNormalization", axis=3)),
        (layer("PruneLowMagnitude", layer=layer("Dense", "inner", units=2)), layer("Dense", "inner", units=2)),
        (
            layer("Dense", kernel_initializer={"class_name": "Zeros", "config": {"dtype": "float32"}}),
            layer("Dense", kernel_initializer={"class_name": "Zeros", "config": {}}),
        ),
    ],
)
def test_layers_of_keras_2_are_translated_to_keras_3(old: dict[str, Any], new: dict[str, Any]) -> None:
    changed, _ = modernise(model(old), legacy=True)
    got = changed["config"]["layers"][0]
    assert got["class_name"] == new["class_name"]
    assert new["config"].items() <= got["config"].items()
    assert "pruning_schedule" not in got["config"]


def test_the_hard_sigmoid_of_keras_2_is_another_function() -> None:
    new, _ = modernise(model(layer("LSTM", recurrent_activation="hard_sigmoid", activation="tanh")), legacy=True)
    assert first_layer(new)["recurrent_activation"]["config"] == HARD_SIGMOID
    assert first_layer(new)["activation"] == "tanh"
    new, _ = modernise(model(layer("LSTM", recurrent_activation="hard_sigmoid")), legacy=False)
    assert first_layer(new)["recurrent_activation"] == "hard_sigmoid"


def connected(name: str, calls: list[Any], class_name: str = "Dense") -> dict[str, Any]:
    return layer(class_name, name) | {"name": name, "inbound_nodes": calls}


def histories(value: Any) -> list[Any]:
    """Every tensor that a call takes, in order."""
    if isinstance(value, dict):
        if value.get("class_name") == "__keras_tensor__":
            return [value["config"]["keras_history"]]
        value = list(value.values())
    return [found for item in value for found in histories(item)] if isinstance(value, list) else []


def test_calls_of_nested_models_are_numbered_from_zero() -> None:
    old = layer(
        "Functional",
        "whole",
        layers=[
            connected("in", [], "InputLayer"),
            connected("body", [[["in", 0, 0, {}]], [["body", 1, 0, {"training": False}]]], "Sequential"),
            connected("head", [[["body", 2, 0, {}]]], "Functional"),
            connected("dense", [[["head", 1, 1, {}]]]),
        ],
        input_layers=[["in", 0, 0]],
        output_layers=[["dense", 0, 0], ["body", 1, 0], ["head", 1, 0]],
    )
    new, _ = modernise(old, legacy=True)
    layers = {entry["name"]: entry["inbound_nodes"] for entry in new["config"]["layers"]}
    assert [histories(call) for call in layers["body"]] == [[["in", 0, 0]], [["body", 0, 0]]]
    assert layers["body"][1]["kwargs"] == {"training": False}
    assert histories(layers["head"]) == [["body", 1, 0]]
    assert histories(layers["dense"]) == [["head", 0, 1]]
    # Keras 3 takes one off for nested functional models, and for them alone.
    assert new["config"]["output_layers"] == [["dense", 0, 0], ["body", 0, 0], ["head", 1, 0]]


def test_tensors_among_keywords_and_states_are_found() -> None:
    old = layer(
        "Functional",
        "whole",
        layers=[
            connected("a", [], "InputLayer"),
            connected("b", [], "InputLayer"),
            connected("attend", [[["a", 0, 0, {"value": ["b", 0, 0], "key": None}]]], "MultiHeadAttention"),
            connected("run", [[["attend", 0, 0, {}], ["b", 0, 0, {}]]], "GRU"),
            connected("pair", [{"left": ["a", 0, 0, {}], "right": ["b", 0, 0, {}]}]),
        ],
        input_layers=[["a", 0, 0], ["b", 0, 0]],
        output_layers=[["run", 0, 0], ["pair", 0, 0]],
    )
    new, _ = modernise(old, legacy=True)
    calls = {entry["name"]: entry["inbound_nodes"] for entry in new["config"]["layers"]}
    assert histories(calls["attend"][0]["args"]) == [["a", 0, 0]]
    assert histories(calls["attend"][0]["kwargs"]["value"]) == [["b", 0, 0]]
    assert histories(calls["run"][0]["args"]) == [["attend", 0, 0]]
    assert histories(calls["run"][0]["kwargs"]["initial_state"]) == [["b", 0, 0]]
    assert set(calls["pair"][0]["args"][0]) == {"left", "right"}


def test_a_constant_among_the_inputs_is_refused_by_name() -> None:
    old = layer(
        "Functional",
        "whole",
        layers=[connected("a", [], "InputLayer"), connected("sum", [[["_CONSTANT_VALUE", -1, 3.0, {}]]], "Add")],
        input_layers=[["a", 0, 0]],
        output_layers=[["sum", 0, 0]],
    )
    with pytest.raises(UnsupportedModelError, match=r"'sum' \(Add\).*constant"):
        modernise(old, legacy=True)
