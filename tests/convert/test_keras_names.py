"""The tables against the installed Keras: what is allowed exists, and what carries code is not allowed."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

from edgetool.convert.file_checks import CARRIES_CODE, UNSUPPORTED
from edgetool.convert.keras_names import ACTIVATIONS, APPLICATION_LAYERS, LAYERS, OPERATIONS, PARTS

keras = pytest.importorskip("keras")
# Models without a public name in keras.layers, and what only Keras 2 wrote.
BESIDES = {"Functional", "Sequential", "Model", "SyncBatchNormalization"}
OLD_PARTS = {"Policy", "PolicyV1"}
PARTS_MODULES = ("initializers", "regularizers", "constraints", "quantizers", "dtype_policies", "random")
ABSTRACT = {"Layer", "Wrapper", "InputSpec"}


def test_every_layer_is_one_of_keras() -> None:
    assert {name for name in LAYERS - BESIDES if not hasattr(keras.layers, name)} == set()


def test_every_layer_of_keras_is_allowed_or_named_as_refused() -> None:
    public = {name for name in dir(keras.layers) if inspect.isclass(getattr(keras.layers, name))}
    assert public - LAYERS - ABSTRACT == (set(CARRIES_CODE) | set(UNSUPPORTED)) & public


def test_every_part_is_one_of_keras() -> None:
    modules = [getattr(keras, name) for name in PARTS_MODULES]
    assert {name for name in PARTS - OLD_PARTS if not any(hasattr(module, name) for module in modules)} == set()


def test_every_activation_is_one_of_keras() -> None:
    assert {name for name in ACTIVATIONS if keras.activations.get(name) is None} == set()


def test_every_operation_is_one_of_keras() -> None:
    ops = importlib.import_module("keras.src.ops")
    modules = [
        importlib.import_module(f"keras.src.ops.{info.name}")
        for info in pkgutil.iter_modules(ops.__path__)
        if not info.name.endswith("_test")
    ]
    assert {name for name in OPERATIONS if not any(hasattr(module, name) for module in modules)} == set()


def test_nothing_is_allowed_and_refused_at_once() -> None:
    assert not (LAYERS | OPERATIONS | PARTS) & (set(CARRIES_CODE) | set(UNSUPPORTED))


def test_every_layer_of_an_application_is_one_of_keras() -> None:
    for name, module in APPLICATION_LAYERS.items():
        assert issubclass(getattr(importlib.import_module(module), name), keras.layers.Layer)
