"""Start Keras and load .h5 and .keras files with it, or with tf_keras if Keras 3 cannot rebuild them.

In the child process only. The user's module with custom classes and functions is imported only if the code is trusted.
Keras runs on one thread, because its sums depend on the number of threads.

A model file can be copied with another configuration and, if Keras 2 wrote it, with its weights laid out for Keras 3.
The user's file is not changed. The layout differs in the groups of .keras files (Keras 2.12 to 2.14 counted layers with
weights twice), in wrappers that only training needs, and in the weights of CuDNN layers.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import json
import os
import platform
import re
import shutil
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from edgetool.convert.file_checks import check_config
from edgetool.convert.float_model import explain_keras_error
from edgetool.convert.legacy import (
    CLUSTERING_WRAPPER,
    HARD_SIGMOID,
    MODELS,
    PRUNING_WRAPPER,
    TRAINING_WRAPPERS,
    for_tf_keras,
    modernise,
)
from edgetool.convert.lite import imported
from edgetool.convert.source import CONVERT_EXTRA, ModelFile, link
from edgetool.convert.tf_keras_layers import TF_KERAS, TFMOT, ConfigNode, needs_tf_keras, needs_tfmot
from edgetool.convert.user_code import UserFiles, first_line_of, import_file, name_lines_in_errors, traceback_lines
from edgetool.errors import (
    EdgetoolError,
    InvalidModelError,
    MissingExtraError,
    ModelError,
    UnsupportedModelError,
    UsageError,
)

WeightGroup = Any  # h5py.Group
Weights = Any
LAYERS, OLD_LAYERS = "layers", "_layer_checkpoint_dependencies"
VARIABLES = "vars"
# Weights that a pruning wrapper adds to those of its layer.
PRUNING_WEIGHTS = re.compile(r"(?:^|/)(?:mask|threshold|pruning_step)(?:_\d+)?(?::\d+)?$")
MASK = re.compile(r"(?:^|/)mask(?:_\d+)?(?::\d+)?$")
# The values that a clustered weight may have; for RNN cells and attention, the name has more parts.
CENTROIDS = re.compile(r"(?:^|/)cluster_centroids_(?P<weight>[a-z_]+?)(?:_\d+)?:\d+$")
# The order in which Keras stores a layer's weights; a clustering wrapper moves those that it clusters to the end.
WEIGHT_ORDER = ("kernel", "depthwise_kernel", "pointwise_kernel", "recurrent_kernel", "embeddings", "bias")
STRIP_CLUSTERING = "save tfmot.clustering.keras.strip_clustering(model)"
# Class -> gates of a layer whose weights are laid out for CuDNN.
CUDNN_GATES = {"CuDNNLSTM": 4, "CuDNNGRU": 3}


# ---- .keras: a tree of groups named after classes


def copy_tree(old: WeightGroup, new: WeightGroup, before: ConfigNode, after: ConfigNode) -> None:
    """Copy the weights of the model `before` in `old` to where Keras 3 expects those of `after`, into the empty `new`.

    before, after: the configuration as in the file and as rewritten by modernise.
    """
    config = _config_of(before)
    for name in old:
        if name in (LAYERS, OLD_LAYERS) and before.get("class_name") in MODELS:
            _copy_layers(old[name], new.create_group(LAYERS), before, after)
        elif isinstance(config.get(name), dict) and "class_name" in config[name] and name in _config_of(after):
            copy_tree(old[name], new.create_group(name), config[name], _config_of(after)[name])
        else:
            old.copy(name, new)


def _copy_layers(old: WeightGroup, new: WeightGroup, before: ConfigNode, after: ConfigNode) -> None:
    places = _group_names(old, _layers(before))
    numbers: dict[str, int] = {}
    for one, other, place in zip(_layers(before), _layers(after), places, strict=True):
        kind = snake_case(str(other["class_name"]))
        number = numbers[kind] = numbers.get(kind, -1) + 1
        if place is None:
            continue
        if one["class_name"] == CLUSTERING_WRAPPER:
            name = _config_of(one).get("name", CLUSTERING_WRAPPER)
            raise UnsupportedModelError(
                f"layer {name!r} ({CLUSTERING_WRAPPER}) is clustered, but a .keras file does not name its weights",
                fix=STRIP_CLUSTERING,
            )
        target = new.create_group(f"{kind}_{number}" if number else kind)
        if one["class_name"] not in TRAINING_WRAPPERS:
            copy_tree(old[place], target, one, other)
        elif "layer" in old[place]:
            copy_tree(old[place]["layer"], target, one["config"]["layer"], other)
            _apply_masks(old[place], target)


def _group_names(old: WeightGroup, layers: Sequence[ConfigNode]) -> list[str | None]:
    """Return the group of each layer; groups of one class are in order of their numbers, which may have gaps."""
    waiting: dict[str, Iterator[str]] = {}
    for kind in {snake_case(str(layer["class_name"])) for layer in layers}:
        numbered = [(int(match[1] or 0), name) for name in old if (match := re.fullmatch(rf"{kind}(?:_(\d+))?", name))]
        waiting[kind] = iter([name for _, name in sorted(numbered)])
    return [next(waiting[snake_case(str(layer["class_name"]))], None) for layer in layers]


def _layers(model: ConfigNode) -> list[ConfigNode]:
    """Return the layers of a model except its inputs, which have no weights and may have been added."""
    return [layer for layer in _config_of(model).get("layers", ()) if layer.get("class_name") != "InputLayer"]


def _config_of(node: ConfigNode) -> ConfigNode:
    config = node.get("config")
    return config if isinstance(config, dict) else {"layers": config or []}


def snake_case(class_name: str) -> str:
    """Return the name that Keras gives to the group of a layer of this class."""
    name = re.sub(r"\W+", "", class_name)
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def _apply_masks(wrapper: WeightGroup, layer: WeightGroup) -> None:
    """Multiply pruned weights by their masks, as the wrapper does in every call.

    The weights of the wrapper have no names: masks are those that contain only zeros and ones.
    """
    arrays = [wrapper[VARIABLES][name][()] for name in wrapper[VARIABLES]] if VARIABLES in wrapper else []
    masks = [array for array in arrays if array.ndim > 1 and np.isin(array, (0, 1)).all()]
    weights = [layer[VARIABLES][name] for name in layer[VARIABLES]] if VARIABLES in layer else []
    for weight, mask in _match_masks(weights, masks):
        weight[...] = weight[()] * mask


def _match_masks(weights: Sequence[Any], masks: Sequence[Weights]) -> Iterator[tuple[Any, Weights]]:
    """Yield each mask with the first weight of its shape that has no mask yet."""
    free = list(weights)
    for mask in masks:
        masked = next((weight for weight in free if weight.shape == mask.shape), None)
        if masked is not None:
            free.remove(masked)
            yield masked, mask


# ---- .h5: a group per layer that lists its weights by name


def convert_groups(weights: WeightGroup, before: ConfigNode) -> None:
    """Convert the weights of training wrappers and CuDNN layers, in a copy of the file of the model `before`."""
    layers = dict(_named(before))
    pruned = {name for name, kind in layers.items() if kind == PRUNING_WRAPPER}
    clustered = {name for name, kind in layers.items() if kind == CLUSTERING_WRAPPER}
    cudnn = {name: CUDNN_GATES[kind] for name, kind in layers.items() if kind in CUDNN_GATES}
    if not pruned and not clustered and not cudnn:
        return
    for name in [_text(name) for name in weights.attrs.get("layer_names", ())]:
        group = weights[name]
        names = [_text(weight) for weight in group.attrs["weight_names"]]
        if pruned:
            names = _without_wrappers(group, names, pruned)
        if clustered:
            names = _without_clusters(group, names, clustered)
        _from_cudnn(group, names, cudnn)
        group.attrs["weight_names"] = np.array([weight.encode() for weight in names], dtype=bytes)


def _named(node: Any) -> Iterator[tuple[str, str]]:
    """Yield name and class of every layer, at any depth."""
    if isinstance(node, dict):
        config = node.get("config")
        if isinstance(config, dict) and isinstance(config.get("name"), str):
            yield config["name"], str(node.get("class_name"))
        for value in node.values():
            yield from _named(value)
    elif isinstance(node, list):
        for item in node:
            yield from _named(item)


def _without_wrappers(group: WeightGroup, names: list[str], wrapped: set[str]) -> list[str]:
    """Apply the masks of pruning wrappers, and return the names of the weights without those of the wrappers."""
    added = [name for name in names if PRUNING_WEIGHTS.search(name) and wrapped & set(name.split("/")[:-1])]
    masks: dict[str, list[Weights]] = {}
    for name in added:
        if MASK.search(name):
            masks.setdefault(_owner(name, wrapped), []).append(group[name][()])
    kept = [name for name in names if name not in added]
    for wrapper, wrapper_masks in masks.items():
        inner = wrapper.removeprefix("prune_low_magnitude_")
        candidates = [group[name] for name in kept if {wrapper, inner} & set(name.split("/"))]
        for weight, mask in _match_masks(candidates, wrapper_masks):
            weight[...] = weight[()] * mask
    return kept


def _without_clusters(group: WeightGroup, names: list[str], wrapped: set[str]) -> list[str]:
    """Replace clustered weights by their nearest centroids; return the names of weights without those of wrappers."""
    added = [name for name in names if "cluster_centroids_" in name or "pulling_indices_" in name]
    kept = [name for name in names if name not in added]
    for name in (name for name in added if "cluster_centroids_" in name):
        wrapper, match = _owner(name, wrapped), CENTROIDS.search(name)
        places = [place for place, weight in enumerate(kept) if {wrapper, _unclustered(wrapper)} & _parts(weight)]
        weights = sorted((kept[place] for place in places), key=_rank)
        clustered = [weight for weight in weights if match is not None and _base(weight) == match["weight"]]
        if len(clustered) != 1:
            raise UnsupportedModelError(
                f"layer {_unclustered(wrapper)!r} is clustered, but the file does not say which of its weights are",
                fix=STRIP_CLUSTERING,
            )
        (weight,) = (group[weight] for weight in clustered)
        centroids = group[name][()]
        weight[...] = centroids[np.abs(weight[()][..., None] - centroids).argmin(axis=-1)]
        for place, other in zip(places, weights, strict=True):
            kept[place] = other
    return kept


def _rank(name: str) -> int:
    return WEIGHT_ORDER.index(_base(name)) if _base(name) in WEIGHT_ORDER else len(WEIGHT_ORDER)


def _unclustered(wrapper: str) -> str:
    return wrapper.removeprefix("cluster_")


def _parts(name: str) -> set[str]:
    return set(name.split("/")[:-1])


def _base(name: str) -> str:
    """Return the last part of a weight's name: "kernel" for "dense/kernel:0"."""
    return re.sub(r"(?:_\d+)?:\d+$", "", name.rpartition("/")[2])


def _owner(name: str, layers: set[str]) -> str:
    return next(part for part in reversed(name.split("/")) if part in layers)


def _from_cudnn(group: WeightGroup, names: Sequence[str], gates: Mapping[str, int]) -> None:
    """Lay out the weights of CuDNN layers as those of plain LSTM and GRU layers.

    CuDNN stores the matrices of each gate transposed, and two biases, for the input and for the state: a plain LSTM has
    their sum, a plain GRU with reset_after has both.
    """
    for name in names:
        parts = [re.sub("^(?:forward|backward)_", "", part) for part in name.split("/")[:-1]]
        owner = next((part for part in reversed(parts) if part in gates), None)
        if owner is None:
            continue
        count = gates[owner]
        value = group[name][()]
        if value.ndim == 1:
            changed = value.reshape(2, -1).sum(axis=0) if count == 4 else value.reshape(2, -1)
        elif "recurrent_kernel" in name:
            changed = np.hstack([gate.T for gate in np.hsplit(value, count)])
        else:
            changed = np.hstack([gate.T.reshape(gate.shape, order="F") for gate in np.hsplit(value, count)])
        del group[name]
        group[name] = changed


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


CONFIG, WEIGHTS = "config.json", "model.weights.h5"


def copy_with(source: ModelFile, config: ConfigNode, path: Path, *, convert_weights: bool = False) -> None:
    """Write a changed copy of the user's file at `path`, or a link if nothing changes."""
    if config == source.config and not convert_weights:
        link(source.path, path)
    elif source.kind == "h5":
        _copy_hdf5(source, config, path, convert_weights)
    else:
        _copy_zip(source, config, path, convert_weights)


def _copy_hdf5(source: ModelFile, config: ConfigNode, path: Path, convert_weights: bool) -> None:
    import h5py

    shutil.copyfile(source.path, path)
    path.chmod(0o600)  # the original may be read-only
    with h5py.File(path, "r+") as file:
        del file.attrs["model_config"]
        file.attrs["model_config"] = json.dumps(config)
        if convert_weights and source.config is not None:
            convert_groups(file.get("model_weights", file), source.config)


def _copy_zip(source: ModelFile, config: ConfigNode, path: Path, convert_weights: bool) -> None:
    with zipfile.ZipFile(source.path) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            if entry.filename == CONFIG:
                new.writestr(CONFIG, json.dumps(config))
            elif entry.filename == WEIGHTS and convert_weights and source.config is not None:
                _copy_weights(old, new, source.config, config, path.parent)
            else:
                with old.open(entry) as reader, new.open(entry.filename, "w", force_zip64=True) as writer:
                    shutil.copyfileobj(reader, writer)


def _copy_weights(
    old: zipfile.ZipFile, new: zipfile.ZipFile, before: ConfigNode, after: ConfigNode, folder: Path
) -> None:
    import h5py

    moved = folder / f"moved-{WEIGHTS}"
    try:
        with old.open(WEIGHTS) as reader, h5py.File(reader, "r") as source, h5py.File(moved, "w") as copy:
            copy_tree(source, copy, before, after)
        new.write(moved, WEIGHTS)
    finally:
        moved.unlink(missing_ok=True)


CUSTOM_OBJECTS = "--custom-objects module.py"
CUSTOM_OBJECTS_OPTION = "--custom-objects"
INSTALL = "install the modules that it imports in edgetool's environment, or put them into the folder of"
# A dictionary of this name in the module lists its custom objects; without it, all its public names are used.
DECLARATION = "CUSTOM_OBJECTS"
LIBRARIES = frozenset(["keras", "numpy", "tensorflow", "tf_keras", *sys.stdlib_module_names])


@dataclass(frozen=True, slots=True)
class CustomCode:
    """Custom objects of a module by their name in a model file, and whether they are written for tf_keras."""

    objects: Mapping[str, Any] = field(default_factory=dict)
    of_tf_keras: bool = False
    user_files: UserFiles | None = None

    @contextmanager
    def name_lines_in_errors(self, doing: str) -> Iterator[None]:
        """Turn an error in the module's code into one that names its file and line; re-raise all others."""
        try:
            yield
        except (EdgetoolError, MemoryError):
            raise
        except Exception as error:
            lines = () if self.user_files is None else traceback_lines(error, self.user_files)
            if not lines:
                raise
            raise UnsupportedModelError(
                f"its code fails while loading {doing}: {type(error).__name__}: {first_line_of(error)}",
                where=lines[-1].partition(" in ")[0],
                fix="load the model with it outside edgetool to find out why",
                details=lines,
            ) from error


def import_custom_code(path: Path) -> CustomCode:
    """Import the module from its folder, which stays on the path for its imports, now and when it is called.

    Raises UsageError if it does not exist, hides another module or defines nothing, UnsupportedModelError with file and
    line if importing it fails.
    """
    user_files = _user_files(path)
    sys.dont_write_bytecode = True  # nothing is left in the user's folder
    sys.path.insert(0, str(user_files.folder))
    with name_lines_in_errors(user_files, f"importing {path.name}", missing=f"{INSTALL} {path.name}"):
        resolved = path.resolve()
        module = import_file(resolved, resolved.stem)
    objects = _objects(module, path)
    return CustomCode(objects, any(_of_tf_keras(item) for item in objects.values()), user_files)


def _user_files(path: Path) -> UserFiles:
    try:
        resolved = path.resolve(strict=True)
        names = [entry.name for entry in resolved.parent.iterdir()]
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror or error}",
            where=f"{CUSTOM_OBJECTS_OPTION} {path}",
            fix="specify a readable Python file",
        ) from error
    if resolved.suffix != ".py":
        raise UsageError("is not a Python file", where=f"{CUSTOM_OBJECTS_OPTION} {path}", fix="specify a .py file")
    if resolved.stem in sys.modules or resolved.stem in sys.stdlib_module_names:
        raise UsageError(f"has the same name as the Python module {resolved.stem}", where=str(path), fix="rename it")
    return UserFiles(resolved.parent, path, {name: path.parent / name for name in names})


def _objects(module: ModuleType, path: Path) -> dict[str, Any]:
    declared = getattr(module, DECLARATION, None)
    if declared is not None:
        if not isinstance(declared, dict) or not all(isinstance(key, str) for key in declared):
            raise UsageError(
                f"{DECLARATION} is not a dictionary with string keys", where=str(path), fix="map names to classes"
            )
        return dict(declared)
    defined = {name: item for name, item in vars(module).items() if not name.startswith("_") and _is_user_defined(item)}
    if not defined:
        raise UsageError(
            "does not define any class or function", where=str(path), fix=f"define them, or list them in {DECLARATION}"
        )
    return defined


def _is_user_defined(item: Any) -> bool:
    """Return whether it is a class or a function of the user, not imported from a library."""
    known = inspect.isclass(item) or inspect.isfunction(item)
    return known and (item.__module__ or "").partition(".")[0] not in LIBRARIES


def _of_tf_keras(item: Any) -> bool:
    return inspect.isclass(item) and any(base.__module__.startswith("tf_keras.") for base in item.__mro__)


LIBRARY = "tf_keras"
OPTIMIZATION = "tensorflow_model_optimization"
REPLACE = "replace the layer, or export a SavedModel using the Keras version that created it"
# tensorflow-model-optimization 0.8 cannot load the .keras files of its own quantized layers.
AS_HDF5 = "save the model as .h5, or export a SavedModel using the Keras version that created it"


def is_installed(name: str = LIBRARY) -> bool:
    """Return whether the library is installed."""
    return importlib.util.find_spec(name) is not None


def check_installed(config: Mapping[str, Any], path: Path) -> None:
    """Raise MissingExtraError with the layer and what to install if the model needs a library that is missing."""
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
    source: ModelFile, workdir: Path, *, trust_model_code: bool, custom_objects: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Load a model with tf_keras; return that module and the model.

    Raises UnsupportedModelError with the layer, if tf_keras names it, or for code that is not trusted, and
    MissingExtraError if a library cannot be imported.
    """
    assert source.config is not None  # only a SavedModel has none
    config = for_tf_keras(source.config)
    # This configuration differs from the one checked for Keras 3, and tf_keras runs code in it.
    check_config(config, source.kind, trust_model_code=trust_model_code, tf_keras=True)
    keras = _imported_extra(LIBRARY, TF_KERAS)
    scope = _quantize_scope() if needs_tfmot(config) else nullcontext()
    path = workdir / f"model-tf-keras.{source.kind}"
    copy_with(source, config, path)
    try:
        with scope, keras.utils.custom_object_scope(dict(custom_objects)):
            model = keras.models.load_model(str(path), compile=False, safe_mode=not trust_model_code)
    except MemoryError:
        raise
    except Exception as error:
        what, where = explain_keras_error(error)
        raise UnsupportedModelError(
            f"tf_keras {keras.__version__} cannot load {where}: {what}",
            where=str(source.path),
            fix=AS_HDF5 if source.kind == "keras" and needs_tfmot(config) else REPLACE,
        ) from error
    finally:
        path.unlink(missing_ok=True)
    return keras, model


def _quantize_scope() -> AbstractContextManager[Any]:
    scope: AbstractContextManager[Any] = _imported_extra(OPTIMIZATION, TFMOT).quantization.keras.quantize_scope()
    return scope


def _imported_extra(name: str, fix: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(f"{name} cannot be imported: {error}", fix=fix) from error


MINIMUM_KERAS = (3, 15)


@dataclass(frozen=True, slots=True)
class LoadedKeras:
    """A model, its module (keras or tf_keras), and notes for the user."""

    keras: Any
    model: Any
    notes: tuple[str, ...] = ()


def import_libraries() -> tuple[Any, Any]:
    """Import tensorflow and keras.

    Raises MissingExtraError if one is missing or too old, ConversionError if one cannot be loaded.
    """
    tf, keras = (imported(name) for name in ("tensorflow", "keras"))
    version = tuple(int(part) for part in re.findall(r"\d+", keras.__version__)[:2])
    if version < MINIMUM_KERAS:
        raise MissingExtraError(
            f"Keras {keras.__version__} is too old: it does not protect against malicious files", fix=CONVERT_EXTRA
        )
    return tf, keras


def load_keras_model(
    keras: Any, source: ModelFile, config: dict[str, Any], workdir: Path, *, trust_model_code: bool
) -> Any:
    """Load an .h5 or .keras file with Keras 3; raises as load_keras_file does."""
    return _with_keras(keras, source, config, workdir, trust_model_code=trust_model_code, code=CustomCode())


def load_keras_file(
    keras: Any,
    source: ModelFile,
    config: dict[str, Any],
    workdir: Path,
    *,
    trust_model_code: bool,
    custom_objects: Path | None = None,
) -> LoadedKeras:
    """Load an .h5 or .keras file with its weights.

    config: the result of checked_config. custom_objects: a Python module with the model's own classes and functions.
    Raises UnsupportedModelError naming the layer if Keras names it, and file and line if the module's code fails,
    UsageError if the module defines nothing, MissingExtraError if tf_keras is needed and not installed.
    """
    code = CustomCode() if custom_objects is None else import_custom_code(custom_objects)
    needed = next(needs_tf_keras(config), None) if source.legacy else None
    if needed is None and not code.of_tf_keras:
        try:
            model = _with_keras(keras, source, config, workdir, trust_model_code=trust_model_code, code=code)
            return LoadedKeras(keras, model)
        except UnsupportedModelError as error:
            if not source.legacy or not is_installed() or code.objects:
                raise
            keras_error = error
    else:
        keras_error = None
    try:
        with code.name_lines_in_errors("the model") if code.objects else nullcontext():
            library, model = load_with_tf_keras(
                source, workdir, trust_model_code=trust_model_code, custom_objects=code.objects
            )
    except UnsupportedModelError as error:
        raise keras_error or error from error
    return LoadedKeras(library, model, (_tf_keras_note(library, needed, keras_error, quantized=needs_tfmot(config)),))


def _tf_keras_note(
    library: Any, needed: tuple[str, str, str] | None, keras_error: EdgetoolError | None, *, quantized: bool
) -> str:
    loaded = f"the model was loaded with tf_keras {library.__version__}"
    if quantized:
        return f"{loaded}: it comes from quantization-aware training, and its learned ranges are used"
    if needed is not None:
        layer, name, reason = needed
        return f"{loaded}: layer {layer!r} ({name}): {reason}"
    return (
        f"{loaded}: {keras_error.what}"
        if keras_error is not None
        else f"{loaded}: its custom classes are written for tf_keras"
    )


def _with_keras(
    keras: Any, source: ModelFile, config: dict[str, Any], workdir: Path, *, trust_model_code: bool, code: CustomCode
) -> Any:
    path = workdir / f"model.{source.kind}"
    copy_with(source, config, path, convert_weights=source.legacy)
    objects = {HARD_SIGMOID: _hard_sigmoid(keras), **code.objects}
    try:
        with code.name_lines_in_errors("the model"), keras.saving.custom_object_scope(objects):
            model = keras.models.load_model(str(path), compile=False, safe_mode=not trust_model_code)
    except (EdgetoolError, MemoryError):
        raise
    except Exception as error:
        what, where = explain_keras_error(error)
        raise UnsupportedModelError(
            f"Keras {keras.__version__} cannot load {where}: {what}", where=str(source.path), fix=_fix(source, what)
        ) from error
    finally:
        path.unlink(missing_ok=True)
    if source.legacy:
        _check_order(model, config, source.path)
    return model


def _fix(source: ModelFile, what: str) -> str:
    if "could not locate" in what.lower() or "unknown layer" in what.lower():
        return f"provide the code of its classes with {CUSTOM_OBJECTS}, or export a SavedModel with model.export()"
    again = "save the model again with a current Keras version, or export a SavedModel with model.export()"
    return f"{again}; {TF_KERAS} lets edgetool try the old version" if source.legacy and not is_installed() else again


def _hard_sigmoid(keras: Any) -> Any:
    """Return clip(0.2 x + 0.5, 0, 1), as in Keras 2, computed with the operators of the Keras 3 function."""

    def keras_2_hard_sigmoid(x: Any) -> Any:
        return keras.ops.relu6(x * 1.2 + 3.0) / 6.0

    keras_2_hard_sigmoid.__name__ = HARD_SIGMOID
    return keras_2_hard_sigmoid


def _check_order(model: Any, config: Mapping[str, Any], path: Path) -> None:
    """Check that Keras orders the layers as the file does, because weights are assigned in that order."""
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


def fix_broadcast_sums(tf: Any, keras: Any) -> None:
    """Make keras.ops.add broadcast correctly if its second tensor ends in a dimension of 1.

    Keras 3.15 treats a tensor with one dimension above 1 as a bias of that many channels. In a batch of one, (1, n, 1)
    is such a tensor, and is added along the last axis or rejected, so the sums differ from those in any larger
    batch.
    """
    backend: Any = importlib.import_module("keras.src.backend.tensorflow.numpy")
    original = backend.add
    if hasattr(original, "broadcasts"):
        return

    @functools.wraps(original)
    def add(x1: Any, x2: Any) -> Any:
        shape = getattr(x2, "shape", None)
        if shape is None or len(shape) < 2 or shape[-1] != 1 or any(isinstance(x, tf.SparseTensor) for x in (x1, x2)):
            return original(x1, x2)
        dtype = keras.backend.result_type(getattr(x1, "dtype", type(x1)), x2.dtype)
        return tf.add(keras.ops.convert_to_tensor(x1, dtype), keras.ops.convert_to_tensor(x2, dtype))

    vars(add)["broadcasts"] = True
    backend.add = add


# TensorFlow reads these when it starts its first operation.
ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}


@contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Add the path to an error about the model that does not name a place."""
    try:
        yield
    except ModelError as error:
        if error.where is None:
            error.where = str(path)
        raise


def checked_config(
    source: ModelFile, trust: bool, *, tf_keras: bool = True
) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return the checked configuration to load, and notes; None for a SavedModel, which has none.

    tf_keras: whether that library may load what Keras 3 cannot rebuild. Raises InvalidModelError or
    UnsupportedModelError, and MissingExtraError if tf_keras is needed and not installed.
    """
    loaded_on_trust = ("the model was loaded with --trust-model-code",) if trust else ()
    if source.config is None:
        return None, loaded_on_trust
    changes: tuple[str, ...] = ()
    try:
        with name_file_in_errors(source.path):
            needed = tf_keras and source.legacy and any(needs_tf_keras(source.config))
            if needed:
                config = for_tf_keras(source.config)
            else:
                config, changes = modernise(source.config, legacy=source.legacy)
            trusted = check_config(config, source.kind, trust_model_code=trust, tf_keras=needed)
    except RecursionError as error:
        raise InvalidModelError(
            "its configuration is nested too deeply", where=str(source.path), fix="save the model again"
        ) from error
    if needed:
        check_installed(config, source.path)
    return config, (*changes, *(trusted or loaded_on_trust))


def start_keras(workdir: Path) -> tuple[Any, Any]:
    """Import tensorflow and keras, without warnings and the user's settings. Raises as import_libraries does.

    They run on one thread, because sums depend on the number of threads.
    """
    warnings.simplefilter("ignore")  # in the log, they would displace messages that the user needs to see
    os.environ["KERAS_HOME"] = str(workdir)  # the user's keras.json neither changes the result nor is written
    os.environ.update(ONE_THREAD)
    tf, keras = import_libraries()
    fix_broadcast_sums(tf, keras)
    return tf, keras


def library_versions(tf: Any, keras: Any) -> dict[str, str]:
    """Return the versions that a result depends on; keras: the library of the model, Keras 3 or tf_keras."""
    return {
        "python": platform.python_version(),
        "tensorflow": str(tf.__version__),
        LIBRARY if keras.__name__.startswith(LIBRARY) else "keras": str(keras.__version__),
    }
