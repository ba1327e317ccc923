from __future__ import annotations

from typing import Any

import pytest

from edgetool.convert.config_check import CARRIES_CODE, UNSUPPORTED, check_config, check_unrolled
from edgetool.errors import UnsupportedModelError


def layer(class_name: str, name: str = "it", **config: Any) -> dict[str, Any]:
    return {"class_name": class_name, "module": "keras.layers", "config": {"name": name, **config}}


def model(*layers: dict[str, Any]) -> dict[str, Any]:
    return layer("Functional", "whole", layers=list(layers)) | {"module": "keras.src.models.functional"}


STOCK = model(
    layer("InputLayer", "in"),
    layer("Dense", "one", activation="relu", kernel_initializer={"class_name": "Zeros", "config": {}}),
    layer("Dense", "two", activation=layer("LeakyReLU", "leaky")),
    layer("TimeDistributed", "three", layer=layer("Dense", "inner")),
    {"class_name": "GetItem", "module": "keras.src.ops.numpy", "config": {"name": "cut"}},
)
FUNCTION = {"class_name": "function", "module": "builtins", "config": "wave", "registered_name": "function"}


def test_stock_models_pass() -> None:
    assert check_config(STOCK, "keras") == ()


@pytest.mark.parametrize("class_name", sorted(CARRIES_CODE))
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_code_is_refused_at_any_depth_by_name_and_reason(class_name: str, depth: int) -> None:
    config = layer(class_name, "hidden")
    for level in range(depth):
        config = model(layer("TimeDistributed", f"wrapper_{level}", layer=config))
    with pytest.raises(UnsupportedModelError, match="--trust-model-code") as caught:
        check_config(config, "keras")
    assert "'hidden'" in caught.value.what
    assert CARRIES_CODE[class_name] in caught.value.what
    assert caught.value.exit_code == 3
    assert len(check_config(config, "keras", trust_model_code=True)) == 1


@pytest.mark.parametrize(
    "config",
    [
        layer("Mine", "hidden"),
        layer("Package>Dense", "hidden"),
        layer("Dense", "hidden") | {"module": "os"},
        layer("Dense", "hidden") | {"module": "keras_evil.layers"},
        layer("Dense", "hidden") | {"module": 3},
        layer("Dense", "hidden", activation="wave"),
        layer("Dense", "hidden", activation=FUNCTION),
        layer("LSTM", "hidden", recurrent_activation="wave"),
        layer("Dense", "hidden", activation=FUNCTION | {"config": "relu", "module": "evil"}),
        layer("Dense", "hidden", kernel_regularizer={"class_name": "Own", "config": {}}),
        layer("Dense", "hidden", activation={"class_name": "__lambda__", "config": {"value": "x"}}),
        layer("Dense", "hidden", nested={"deep": [{"class_name": "Lambda", "config": {}}]}),
    ],
)
def test_what_stock_keras_lacks_is_refused_with_its_layer(config: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedModelError, match="'hidden'"):
        check_config(model(layer("Dense", "before"), config), "h5")


@pytest.mark.parametrize("class_name", sorted(UNSUPPORTED))
def test_what_keras_3_cannot_rebuild_is_refused_even_on_trust(class_name: str) -> None:
    config = model(layer(class_name, "old", function="math.sin"))
    with pytest.raises(UnsupportedModelError, match=f"'old' \\({class_name}\\)") as caught:
        check_config(config, "h5", trust_model_code=True)
    assert UNSUPPORTED[class_name] in caught.value.what


def test_the_raw_tensorflow_call_is_named() -> None:
    with pytest.raises(UnsupportedModelError, match=r"tf\.math\.sin"):
        check_config(model(layer("TFOpLambda", "sin", function="math.sin")), "h5")


def test_operations_outside_layers_need_the_keras_format() -> None:
    with pytest.raises(UnsupportedModelError, match=r"'cut' \(GetItem\).*\.keras"):
        check_config(STOCK, "h5")


def test_the_optimizer_of_the_whole_model_is_not_looked_at() -> None:
    compiled = STOCK | {"compile_config": {"loss": {"class_name": "MyLoss", "module": "mine", "config": {}}}}
    assert check_config(compiled, "keras") == ()


@pytest.mark.parametrize("value", [3, ["Lambda"], {"class_name": "Lambda"}])
def test_class_names_that_are_no_strings_are_refused(value: Any) -> None:
    with pytest.raises(UnsupportedModelError):
        check_config(model({"class_name": value, "config": {"name": "odd"}}), "keras")


def test_bottomless_nesting_is_refused() -> None:
    config: Any = {}
    for _ in range(300):
        config = [config]
    with pytest.raises(UnsupportedModelError, match="deep"):
        check_config({"config": config}, "keras")


def test_loops_are_refused_and_unrolled_ones_are_not() -> None:
    check_unrolled(model(layer("LSTM", "state", unroll=True)))
    with pytest.raises(UnsupportedModelError, match=r"'state' \(GRU\).*unroll=True"):
        check_unrolled(model(layer("Bidirectional", "both", layer=layer("GRU", "state", unroll=False))))
