"""Loads .h5 and .keras files with Keras, or with tf_keras what Keras 3 cannot rebuild: in the child process only."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetool.convert.custom_objects import CUSTOM_OBJECTS, Code, read_code
from edgetool.convert.float_model import explain
from edgetool.convert.legacy_layers import HARD_SIGMOID
from edgetool.convert.load_tf_keras import is_installed, load_with_tf_keras
from edgetool.convert.model_copy import copy_with
from edgetool.convert.source import CONVERT_EXTRA, Source
from edgetool.convert.tf_keras_needs import TF_KERAS, needs_tf_keras, needs_tfmot
from edgetool.errors import ConversionError, EdgetoolError, MissingExtraError, UnsupportedModelError

MINIMUM_KERAS = (3, 15)


@dataclass(frozen=True, slots=True)
class LoadedKeras:
    """A model, the module that it belongs to (keras or tf_keras), and what the user should know."""

    keras: Any
    model: Any
    notes: tuple[str, ...] = ()


def import_libraries() -> tuple[Any, Any]:
    """The modules tensorflow and keras.

    Raises MissingExtraError when one is missing or too old, ConversionError when one does not load.
    """
    tf, keras = (_imported(name) for name in ("tensorflow", "keras"))
    version = tuple(int(part) for part in re.findall(r"\d+", keras.__version__)[:2])
    if version < MINIMUM_KERAS:
        raise MissingExtraError(
            f"Keras {keras.__version__} is too old: it does not protect against malicious files", fix=CONVERT_EXTRA
        )
    return tf, keras


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"{error.name} is not installed", fix=CONVERT_EXTRA) from error
    except Exception as error:  # a memory limit shows as any of several kinds
        raise ConversionError(
            f"{name} cannot be imported: {error}", fix="raise the memory limit, or reinstall it"
        ) from error


def load_keras_model(
    keras: Any, source: Source, config: dict[str, Any], workdir: Path, *, trust_model_code: bool
) -> Any:
    """The keras.Model of an .h5 or .keras file that Keras 3 can load; raises as load_keras_file does."""
    return _with_keras(keras, source, config, workdir, trust_model_code=trust_model_code, code=Code())


def load_keras_file(
    keras: Any,
    source: Source,
    config: dict[str, Any],
    workdir: Path,
    *,
    trust_model_code: bool,
    custom_objects: Path | None = None,
) -> LoadedKeras:
    """The model of an .h5 or .keras file with its weights.

    config: what checked_config made of it. custom_objects: a Python module with the model's own classes and functions.
    Raises UnsupportedModelError naming the layer where Keras tells it and file and line where the module's code
    fails, UsageError when there is nothing in the module, MissingExtraError where tf_keras is needed.
    """
    code = Code() if custom_objects is None else read_code(custom_objects)
    needed = next(needs_tf_keras(config), None) if source.legacy else None
    if needed is None and not code.of_tf_keras:
        try:
            model = _with_keras(keras, source, config, workdir, trust_model_code=trust_model_code, code=code)
            return LoadedKeras(keras, model)
        except UnsupportedModelError as error:
            if not source.legacy or not is_installed() or code.objects:
                raise
            refused = error
    else:
        refused = None
    try:
        with code.told("the model") if code.objects else nullcontext():
            library, model = load_with_tf_keras(
                source, workdir, trust_model_code=trust_model_code, custom_objects=code.objects
            )
    except UnsupportedModelError as error:
        raise refused or error from error
    return LoadedKeras(library, model, (_why(library, needed, refused, quantized=needs_tfmot(config)),))


def _why(library: Any, needed: tuple[str, str, str] | None, refused: EdgetoolError | None, *, quantized: bool) -> str:
    told = f"the model was loaded with tf_keras {library.__version__}"
    if quantized:
        return f"{told}: it comes from quantization-aware training, and its learned ranges are used"
    if needed is not None:
        layer, name, reason = needed
        return f"{told}: layer {layer!r} ({name}): {reason}"
    return f"{told}: {refused.what}" if refused is not None else f"{told}: its custom classes are written for tf_keras"


def _with_keras(
    keras: Any, source: Source, config: dict[str, Any], workdir: Path, *, trust_model_code: bool, code: Code
) -> Any:
    path = workdir / f"model.{source.kind}"
    copy_with(source, config, path, convert_weights=source.legacy)
    objects = {HARD_SIGMOID: _hard_sigmoid(keras), **code.objects}
    try:
        with code.told("the model"), keras.saving.custom_object_scope(objects):
            model = keras.models.load_model(str(path), compile=False, safe_mode=not trust_model_code)
    except (EdgetoolError, MemoryError):
        raise
    except Exception as error:
        what, where = explain(error)
        raise UnsupportedModelError(
            f"Keras {keras.__version__} cannot load {where}: {what}", where=str(source.path), fix=_fix(source, what)
        ) from error
    finally:
        path.unlink(missing_ok=True)
    if source.legacy:
        _check_order(model, config, source.path)
    return model


def _fix(source: Source, what: str) -> str:
    if "could not locate" in what.lower() or "unknown layer" in what.lower():
        return f"provide the code of its classes with {CUSTOM_OBJECTS}, or export a SavedModel with model.export()"
    again = "save the model again with a current Keras version, or export a SavedModel with model.export()"
    return f"{again}; {TF_KERAS} lets edgetool try the old version" if source.legacy and not is_installed() else again


def _hard_sigmoid(keras: Any) -> Any:
    """clip(0.2 x + 0.5, 0, 1), as Keras 2 had it, in the operators that Keras 3 uses for its own."""

    def keras_2_hard_sigmoid(x: Any) -> Any:
        return keras.ops.relu6(x * 1.2 + 3.0) / 6.0

    keras_2_hard_sigmoid.__name__ = HARD_SIGMOID
    return keras_2_hard_sigmoid


def _check_order(model: Any, config: Mapping[str, Any], path: Path) -> None:
    """Weights are found by their order among the layers, which Keras derives anew: it must be the file's."""
    inner = config.get("config")
    layers = inner.get("layers", ()) if isinstance(inner, dict) else ()
    written = [layer["config"].get("name") for layer in layers if isinstance(layer.get("config"), dict)]
    loaded = [layer.name for layer in getattr(model, "layers", ())]
    known = set(loaded)
    if [name for name in written if name in known] != [name for name in loaded if name in set(written)]:
        raise UnsupportedModelError(
            "Keras 3 orders this model's layers differently from Keras 2, and would mix up their weights",
            where=str(path),
            fix="export a SavedModel with model.export() using the Keras version that created it",
        )
