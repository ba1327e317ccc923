"""Loads .h5 and .keras files with Keras: in the child process only."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgetool.convert.float_model import FloatModel, explain, input_spec, unique_names
from edgetool.convert.samples import InputSpec
from edgetool.convert.source import CONVERT_EXTRA, Source, link
from edgetool.convert.synthetic import PIXEL_RANGE, Range, default_range
from edgetool.errors import ConversionError, EdgetoolError, MissingExtraError, UnsupportedModelError

MINIMUM_KERAS = (3, 15)
CHUNK = 32  # samples per call of a model that takes any batch


def import_libraries() -> tuple[Any, Any]:
    """The modules tensorflow and keras.

    Raises MissingExtraError when one is missing or too old, ConversionError when one does not load.
    """
    tf, keras = (_imported(name) for name in ("tensorflow", "keras"))
    version = tuple(int(part) for part in re.findall(r"\d+", keras.__version__)[:2])
    if version < MINIMUM_KERAS:
        raise MissingExtraError(
            f"Keras {keras.__version__} is too old: it does not guard against hostile files", fix=CONVERT_EXTRA
        )
    return tf, keras


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"{error.name} is not installed", fix=CONVERT_EXTRA) from error
    except Exception as error:  # a memory limit shows as any of several kinds
        raise ConversionError(
            f"{name} does not load: {error}", fix="raise the memory limit, or install it again"
        ) from error


def load_keras(
    keras: Any, source: Source, config: dict[str, Any], workdir: Path, *, trust_model_code: bool
) -> FloatModel:
    """The float model of an .h5 or .keras file. Raises as load_keras_model and float_model do."""
    model = load_keras_model(keras, source, config, workdir, trust_model_code=trust_model_code)
    return float_model(keras, model, source.path)


def load_keras_model(
    keras: Any, source: Source, config: dict[str, Any], workdir: Path, *, trust_model_code: bool
) -> Any:
    """The keras.Model of an .h5 or .keras file, built from `config` with the file's weights.

    Raises UnsupportedModelError naming the layer where Keras tells it.
    """
    path = workdir / f"model.{source.kind}"
    if config == source.config:
        link(source.path, path)
    else:
        _copy_with_config(source, config, path)
    try:
        return keras.models.load_model(str(path), compile=False, safe_mode=not trust_model_code)
    except EdgetoolError:
        raise
    except MemoryError:
        raise
    except Exception as error:
        what, where = explain(error)
        raise UnsupportedModelError(
            f"Keras {keras.__version__} cannot load {where}: {what}",
            where=str(source.path),
            fix="save the model again with a current Keras, or write a SavedModel with model.export()",
        ) from error
    finally:
        path.unlink(missing_ok=True)


def _copy_with_config(source: Source, config: dict[str, Any], path: Path) -> None:
    """A copy of the file with another configuration: the user's own stays as it is."""
    text = json.dumps(config)
    if source.kind == "h5":
        import h5py

        shutil.copyfile(source.path, path)
        with h5py.File(path, "r+") as file:
            del file.attrs["model_config"]
            file.attrs["model_config"] = text
        return
    with zipfile.ZipFile(source.path) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            if entry.filename == "config.json":
                new.writestr("config.json", text)
            else:
                with old.open(entry) as reader, new.open(entry.filename, "w", force_zip64=True) as writer:
                    shutil.copyfileobj(reader, writer)


def float_model(keras: Any, model: Any, path: Path) -> FloatModel:
    """What a keras.Model is to this room. UnsupportedModelError at `path` when its inputs have no fixed shape."""
    inputs = list(getattr(model, "inputs", None) or ())
    outputs = list(getattr(model, "outputs", None) or ())
    if not inputs or not outputs:
        raise UnsupportedModelError(
            "the model does not say what its inputs are: it was never built, or it is a class of its own",
            where=str(path),
            fix="build it with keras.Input, or write a SavedModel with model.export()",
        )
    structure = getattr(model, "input", None)  # absent in a Sequential, which takes one tensor
    names = _keys(keras, structure, len(inputs)) or [tensor.name for tensor in inputs]
    specs = tuple(
        input_spec(name, tuple(tensor.shape), tensor.dtype, path)
        for name, tensor in zip(unique_names(names), inputs, strict=True)
    )
    for tensor in inputs:
        if getattr(tensor, "sparse", False) or getattr(tensor, "ragged", False):
            raise UnsupportedModelError(
                f"input {tensor.name!r} is sparse or ragged", where=str(path), fix="use a dense input"
            )
    output_names = _keys(keras, getattr(model, "output", None), len(outputs))
    output_names = output_names or list(getattr(model, "output_names", None) or [model.layers[-1].name])
    if len(output_names) != len(outputs):
        output_names = [tensor.name for tensor in outputs]

    def call(tensors: Sequence[Any]) -> list[Any]:
        return list(keras.tree.flatten(model(packed(keras, model, tensors), training=False)))

    return FloatModel(
        specs=specs,
        output_names=unique_names(output_names),
        ranges=tuple(
            _range_of(keras, model, tensor, spec) or default_range(spec)
            for tensor, spec in zip(inputs, specs, strict=True)
        ),
        call=call,
        chunk=CHUNK if all(tensor.shape[0] is None for tensor in inputs) else 1,
        tracked=[variable.value for variable in model.variables],
    )


def packed(keras: Any, model: Any, tensors: Sequence[Any]) -> Any:
    """One tensor per input, in Keras's order, in the structure that the model takes."""
    structure = getattr(model, "input", None)  # absent in a Sequential, which takes one tensor
    nested = isinstance(structure, list | tuple | dict)
    return keras.tree.pack_sequence_as(structure, list(tensors)) if nested else tensors[0]


def _keys(keras: Any, structure: Any, count: int) -> list[str]:
    """The names that a dictionary of inputs or outputs gives them, in Keras's order; none for other structures."""
    if not isinstance(structure, dict) or len(structure) != count:
        return []
    positions = keras.tree.pack_sequence_as(structure, list(range(count)))
    return sorted(map(str, positions), key=lambda name: positions[name])


def _range_of(keras: Any, model: Any, tensor: Any, spec: InputSpec) -> Range | None:
    """What the first layer behind an input says about its values: indices below input_dim, or pixels."""
    for layer in getattr(model, "layers", ()):
        try:
            taken = keras.tree.flatten(layer.input)
        except (AttributeError, ValueError):  # not called yet, or more than once
            continue
        for position, candidate in enumerate(taken):
            if candidate is not tensor:
                continue
            if isinstance(layer, keras.layers.Embedding):
                return Range(0, layer.input_dim - 1, whole=True)
            if isinstance(layer, keras.layers.Rescaling) and spec.is_float:
                return Range(*PIXEL_RANGE)
            if isinstance(layer, keras.Model) and position < len(layer.inputs):
                found = _range_of(keras, layer, layer.inputs[position], spec)
                if found is not None:
                    return found
    return None
