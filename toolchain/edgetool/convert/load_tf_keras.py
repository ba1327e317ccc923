"""Loads what Keras 3 cannot rebuild with tf_keras, the Keras 2 that goes on: in the child process only."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from edgetool.convert.config_check import check_config
from edgetool.convert.float_model import explain
from edgetool.convert.legacy import for_tf_keras
from edgetool.convert.model_copy import copy_with
from edgetool.convert.source import Source
from edgetool.convert.tf_keras_needs import TF_KERAS, TFMOT, needs_tf_keras, needs_tfmot
from edgetool.errors import MissingExtraError, UnsupportedModelError

LIBRARY = "tf_keras"
OPTIMIZATION = "tensorflow_model_optimization"
REPLACE = "replace the layer, or export a SavedModel using the Keras version that created it"
# tensorflow-model-optimization 0.8 cannot load the .keras files of its own quantized layers.
AS_HDF5 = "save the model as .h5, or export a SavedModel using the Keras version that created it"


def is_installed(name: str = LIBRARY) -> bool:
    """Whether the library could be imported."""
    return importlib.util.find_spec(name) is not None


def check_installed(config: Mapping[str, Any], path: Path) -> None:
    """MissingExtraError naming the layer and what to install, where the model needs a library that is not there."""
    layer, name, reason = next(needs_tf_keras(config))
    if not is_installed():
        fix = TFMOT if needs_tfmot(config) else TF_KERAS
        raise MissingExtraError(
            f"layer {layer!r} ({name}) requires tf-keras: {reason}",
            where=str(path),
            fix=f"{fix}; or {REPLACE}",
        )
    if needs_tfmot(config) and not is_installed(OPTIMIZATION):
        raise MissingExtraError(
            f"layer {layer!r} ({name}) requires the library that defines it: {reason}", where=str(path), fix=TFMOT
        )


def load_with_tf_keras(
    source: Source, workdir: Path, *, trust_model_code: bool, custom_objects: Mapping[str, Any]
) -> tuple[Any, Any]:
    """The module tf_keras and the model.

    Raises UnsupportedModelError naming the layer where tf_keras tells it or where it would run code that is not
    trusted, MissingExtraError where a library fails.
    """
    assert source.config is not None  # only a SavedModel has none
    config = for_tf_keras(source.config)
    # What Keras 3 gets was checked before; this is another configuration, and tf_keras runs what it holds.
    check_config(config, source.kind, trust_model_code=trust_model_code, tf_keras=True)
    keras = _imported(LIBRARY, TF_KERAS)
    scope = _quantize_scope() if needs_tfmot(config) else nullcontext()
    path = workdir / f"model-tf-keras.{source.kind}"
    copy_with(source, config, path)
    try:
        with scope, keras.utils.custom_object_scope(dict(custom_objects)):
            model = keras.models.load_model(str(path), compile=False, safe_mode=not trust_model_code)
    except MemoryError:
        raise
    except Exception as error:
        what, where = explain(error)
        raise UnsupportedModelError(
            f"tf_keras {keras.__version__} cannot load {where}: {what}",
            where=str(source.path),
            fix=AS_HDF5 if source.kind == "keras" and needs_tfmot(config) else REPLACE,
        ) from error
    finally:
        path.unlink(missing_ok=True)
    return keras, model


def _quantize_scope() -> AbstractContextManager[Any]:
    scope: AbstractContextManager[Any] = _imported(OPTIMIZATION, TFMOT).quantization.keras.quantize_scope()
    return scope


def _imported(name: str, fix: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(f"{name} cannot be imported: {error}", fix=fix) from error
