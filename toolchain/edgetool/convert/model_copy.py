"""Copy a model file with another configuration and, if Keras 2 wrote it, with its weights laid out for Keras 3.

The user's file stays as it is. The layout differs in the groups of .keras files (Keras 2.12 to 2.14 counted layers with
weights twice), in wrappers that only training needs, and in the weights of CuDNN layers.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgetool.convert.legacy import CLUSTERING_WRAPPER, MODELS, PRUNING_WRAPPER, TRAINING_WRAPPERS
from edgetool.convert.source import ModelFile, link
from edgetool.convert.tf_keras_layers import ConfigNode
from edgetool.errors import UnsupportedModelError

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
    """The group of each layer: those of one class are in order of their numbers, which may have gaps."""
    waiting: dict[str, Iterator[str]] = {}
    for kind in {snake_case(str(layer["class_name"])) for layer in layers}:
        numbered = [(int(found[1] or 0), name) for name in old if (found := re.fullmatch(rf"{kind}(?:_(\d+))?", name))]
        waiting[kind] = iter([name for _, name in sorted(numbered)])
    return [next(waiting[snake_case(str(layer["class_name"]))], None) for layer in layers]


def _layers(model: ConfigNode) -> list[ConfigNode]:
    """The layers of a model but for its inputs, which have no weights and may have been added."""
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
        wrapper, found = _owner(name, wrapped), CENTROIDS.search(name)
        places = [place for place, weight in enumerate(kept) if {wrapper, _unclustered(wrapper)} & _parts(weight)]
        own = sorted((kept[place] for place in places), key=_rank)
        clustered = [weight for weight in own if found is not None and _base(weight) == found["weight"]]
        if len(clustered) != 1:
            raise UnsupportedModelError(
                f"layer {_unclustered(wrapper)!r} is clustered, but the file does not say which of its weights are",
                fix=STRIP_CLUSTERING,
            )
        (weight,) = (group[weight] for weight in clustered)
        centroids = group[name][()]
        weight[...] = centroids[np.abs(weight[()][..., None] - centroids).argmin(axis=-1)]
        for place, other in zip(places, own, strict=True):
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
