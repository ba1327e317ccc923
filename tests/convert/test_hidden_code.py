"""Code that hides in a model file: wherever it stands in the configuration, and whichever Keras wrote the file."""

from __future__ import annotations

import base64
import contextlib
import json
import marshal
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from edgetool.convert.load_keras import checked_config
from edgetool.convert.source import ModelFile, read_model_file
from edgetool.errors import UnsupportedModelError

h5py = pytest.importorskip("h5py", reason="needs the convert extra")
Node = dict[str, Any]


def payload(mark: Path) -> str:
    """The code of a function that leaves a file when it runs, as Keras writes functions."""
    text = compile(f"lambda *x: open({str(mark)!r}, 'w')", "payload", "eval")
    (code,) = (constant for constant in text.co_consts if isinstance(constant, CodeType))
    return base64.b64encode(marshal.dumps(code)).decode()


def layer(class_name: str, **config: Any) -> Node:
    return {"class_name": class_name, "module": "keras.layers", "config": {"name": class_name.lower(), **config}}


def lambda_of_keras_2(code: str) -> Node:
    """Without a module, its function a list of code, defaults and closure."""
    config = {"name": "hidden", "function": [code, None, None], "function_type": "lambda"}
    return {"class_name": "Lambda", "config": config}


def lambda_of_keras_3(code: str) -> Node:
    return layer("Lambda", function=function(code)) | {"registered_name": None}


def function(code: str) -> Node:
    return {"class_name": "__lambda__", "config": {"value": code, "defaults": None, "closure": None}}


def typed(code: str) -> Node:
    """A class that Keras looks up by module and name, whatever it is."""
    return {"class_name": "__typespec__", "spec_name": "Popen", "module": "subprocess", "registered_name": None,
            "config": [code]}  # fmt: skip


PAYLOADS: dict[str, Callable[[str], Node]] = {
    "Lambda of Keras 2": lambda_of_keras_2,
    "Lambda of Keras 3": lambda_of_keras_3,
    "__lambda__": function,
    "__typespec__": typed,
}


def alias(code: str) -> Node:
    """A stock layer's name before a class of tf_keras that loads the SavedModel at a path."""
    return {"class_name": "Dense", "module": "tf_keras.src.export.export_lib", "registered_name": "ReloadedLayer",
            "config": {"filepath": code}}  # fmt: skip


def allowed_alias(code: str) -> Node:
    """The same before the name of a layer that only tf_keras has."""
    return alias(code) | {"class_name": "LocallyConnected1D"}


def function_alias(code: str) -> Node:
    return {"class_name": "function", "config": "relu", "module": "keras.src.saving.saving_api",
            "registered_name": "load_model", "build_config": {"code": code}}  # fmt: skip


# What tf_keras finds under a name that Keras 3 does not look at.
ALIASES: dict[str, Callable[[str], Node]] = {
    "an alias of a layer": alias,
    "an alias of a layer of Keras 2": allowed_alias,
    "an alias of a function": function_alias,
}


def functional(*layers: Node) -> Node:
    return layer("Functional", layers=list(layers), input_layers=[], output_layers=[])


def sequential(*layers: Node) -> Node:
    return layer("Sequential", layers=[layer("InputLayer", batch_shape=[None, 4]), *layers])


# Where the payload stands in a model.
PLACES: dict[str, Callable[[Node], Node]] = {
    "a layer": functional,
    "a layer of Sequential": sequential,
    "a Sequential of Keras 1": lambda hidden: {"class_name": "Sequential", "config": [hidden]},
    "TimeDistributed": lambda hidden: functional(layer("TimeDistributed", layer=hidden)),
    "Bidirectional": lambda hidden: functional(layer("Bidirectional", layer=layer("RNN", cell=hidden))),
    "its other direction": lambda hidden: sequential(
        layer("Bidirectional", layer=layer("LSTM", units=2), backward_layer=hidden)
    ),
    "cells in a stack": lambda hidden: sequential(
        layer("RNN", cell=layer("StackedRNNCells", cells=[layer("GRUCell"), hidden]))
    ),
    "a model in a model": lambda hidden: functional(functional(sequential(hidden))),
    "wrappers of models": lambda hidden: functional(layer("TimeDistributed", layer=sequential(functional(hidden)))),
    "an activation": lambda hidden: sequential(layer("Dense", units=2, activation=hidden)),
    "the activation of a layer": lambda hidden: sequential(layer("Activation", activation=hidden)),
    "a recurrent activation": lambda hidden: sequential(layer("LSTM", units=2, recurrent_activation=hidden)),
    "an initializer": lambda hidden: sequential(layer("Dense", kernel_initializer=hidden)),
    "inside an initializer": lambda hidden: sequential(
        layer("Dense", kernel_initializer={"class_name": "Constant", "config": {"value": hidden}})
    ),
    "a constraint": lambda hidden: sequential(layer("Conv2D", bias_constraint=hidden)),
    "a regularizer": lambda hidden: sequential(layer("Conv2D", kernel_regularizer=hidden)),
    "a dtype policy": lambda hidden: sequential(layer("Dense", dtype=hidden)),
    "a quantizer": lambda hidden: sequential(layer("Dense", quantization_config={"weight_quantizer": hidden})),
    "the arguments of a call": lambda hidden: functional(
        layer("Dense") | {"inbound_nodes": [{"args": [hidden], "kwargs": {}}]}
    ),
    "the keywords of a call": lambda hidden: functional(
        layer("Dense") | {"inbound_nodes": [[["in", 0, 0, {"mask": hidden}]]]}
    ),
    "what builds a layer": lambda hidden: sequential(layer("Dense") | {"build_config": {"input_shape": hidden}}),
    "what compiles a layer's model": lambda hidden: functional(sequential() | {"compile_config": {"loss": hidden}}),
    "data beside the layers": lambda hidden: functional() | {"anything": [[{"deep": (1, [hidden])}]]},
}


def written(path: Path, config: Node, kind: str, version: str) -> Path:
    text = json.dumps(config)
    weights = path / "weights.h5"
    with h5py.File(weights, "w") as file:
        file.attrs["model_config"] = text
        file.attrs["keras_version"] = version
    if kind == "h5":
        return weights
    with zipfile.ZipFile(path / "model.keras", "w") as archive:
        archive.writestr("config.json", text)
        archive.writestr("metadata.json", json.dumps({"keras_version": version}))
        archive.write(weights, "model.weights.h5")
    return path / "model.keras"


# What may be taken out of a configuration, and is then not loaded at all.
TAKEN_OUT = {"what builds a layer", "what compiles a layer's model"}


def check_harmless(source: ModelFile, place: str, code: str) -> None:
    """The file is refused, or what is to be loaded holds the code no more."""
    if place in TAKEN_OUT:
        with contextlib.suppress(UnsupportedModelError):
            config, _ = checked_config(source, False)
            assert code not in json.dumps(config)
        return
    with pytest.raises(UnsupportedModelError) as caught:
        checked_config(source, False)
    assert caught.value.where == str(source.path)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("hidden", PAYLOADS)
def test_code_is_refused_before_anything_is_loaded(tmp_path: Path, place: str, hidden: str) -> None:
    mark = tmp_path / "it-ran"
    code = payload(mark)
    config = PLACES[place](PAYLOADS[hidden](code))
    for kind in ("h5", "keras"):
        for version in ("1.2.2", "2.4.0", "3.15.1", ""):
            check_harmless(read_model_file(written(tmp_path, config, kind, version)), place, code)
    assert not mark.exists()


@pytest.mark.parametrize("kind", ["h5", "keras"])
@pytest.mark.parametrize("hidden", PAYLOADS | ALIASES)
def test_code_is_refused_where_tf_keras_is_to_load_the_rest(tmp_path: Path, hidden: str, kind: str) -> None:
    call = {"class_name": "TFOpLambda", "config": {"name": "sine", "function": "math.sin"}}
    mark = tmp_path / "it-ran"
    code = payload(mark)
    for place, hide in PLACES.items():
        config = functional(call, hide((PAYLOADS | ALIASES)[hidden](code)))
        check_harmless(read_model_file(written(tmp_path, config, kind, "2.13.1")), place, code)
    assert not mark.exists()


@pytest.mark.parametrize("registered", [None, "Dense", "Custom>Dense", "relu", "function", "keras>relu"])
def test_objects_registered_under_their_own_name_pass(tmp_path: Path, registered: str | None) -> None:
    call = {"class_name": "TFOpLambda", "config": {"name": "sine", "function": "math.sin"}}
    relu = {"class_name": "function", "module": "builtins", "config": "relu", "registered_name": "relu"}
    dense = layer("Dense", units=2, activation=relu) | {"registered_name": "Dense"}
    (relu if registered is not None and "Dense" not in registered else dense)["registered_name"] = registered
    source = read_model_file(written(tmp_path, functional(call, dense), "keras", "2.13.1"))
    assert checked_config(source, False)[1] == ()


def test_the_payload_runs_if_it_is_loaded_with_trust(tmp_path: Path) -> None:
    """Else the tests above would pass whatever was refused."""
    code = marshal.loads(base64.b64decode(payload(tmp_path / "it-ran")))
    eval(code, {"x": ()})  # noqa: S307
    assert (tmp_path / "it-ran").exists()


@pytest.mark.parametrize("place", sorted(set(PLACES) - {"a Sequential of Keras 1", "data beside the layers"}))
def test_the_same_places_with_stock_parts_pass(tmp_path: Path, place: str) -> None:
    source = read_model_file(written(tmp_path, PLACES[place](layer("Identity")), "keras", "3.15.1"))
    config, notes = checked_config(source, False)
    assert (config is not None and '"Identity"' in json.dumps(config)) or place in TAKEN_OUT
    assert notes == ()
