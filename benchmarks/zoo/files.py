"""Builds a model of the zoo and writes what a trial needs: the model, calibration samples, and the float outputs."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks.zoo.entry import Entry
from benchmarks.zoo.samples import natural

Array = npt.NDArray[Any]
SAMPLES = 40
SPREAD, MOST = 1.5, 8.0


@dataclass(frozen=True, slots=True)
class Built:
    """A model in memory with its samples, one array per input in the model's order."""

    entry: Entry
    keras: Any
    model: Any
    names: tuple[str, ...]
    samples: tuple[Array, ...]

    def call(self, samples: tuple[Any, ...]) -> list[tuple[str, Any]]:
        """The outputs with their names."""
        structure = getattr(self.model, "input", None)
        nested = isinstance(structure, list | tuple | dict)
        tree = self.keras.tree if not self.entry.keras2 else _nest()
        given = tree.pack_sequence_as(structure, list(samples)) if nested else samples[0]
        result = self.model(given, training=False)
        if isinstance(result, Mapping):
            return sorted(result.items())
        outputs = tree.flatten(result)
        names = getattr(self.model, "output_names", None) or ["output"]
        return list(zip(names, outputs, strict=True))


def _nest() -> Any:
    import tensorflow as tf

    return tf.nest


def library(entry: Entry) -> Any:
    """The Keras that builds it."""
    if entry.keras2:
        import tf_keras

        return tf_keras
    import keras

    return keras


def build(entry: Entry) -> Built:
    """The model with weights and samples; the same each time."""
    keras = library(entry)
    keras.backend.clear_session()
    seed = zlib.crc32(entry.name.encode()) % 2**31
    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    model = entry.build(keras)
    given = dict(entry.options.get("input_shapes", ()))
    names, samples = [], []
    tensors = list(getattr(model, "inputs", None) or ()) or [keras.Input(next(iter(given.values())))]
    for tensor in tensors:
        name = tensor.name.partition(":")[0]
        shape = given.get(None) or given.get(name) or tuple(tensor.shape[1:])
        sampler = entry.samplers.get(name) or entry.samplers.get("") or natural(shape)
        dtype = getattr(tensor.dtype, "name", tensor.dtype)
        samples.append(sampler(rng, SAMPLES, shape).astype(dtype))
        names.append(name)
    built = Built(entry, keras, model, tuple(names), tuple(samples))
    _enliven(built, rng)
    return built


def _enliven(built: Built, rng: np.random.Generator) -> None:
    """Weights as after training: no zero biases, no unit scales, batch statistics of the samples.

    Freshly built layers have biases of 0 and scales of 1, which hide mistakes in what is done with them.
    """
    for layer in _layers(built.model):
        weights = []
        for weight in layer.get_weights():
            if weight.dtype.kind == "f" and weight.ndim and type(layer).__name__ != "Normalization":
                if not weight.any():
                    weight = rng.normal(scale=0.05, size=weight.shape)
                elif (weight == 1).all():
                    weight = rng.uniform(0.8, 1.2, weight.shape)
            weights.append(weight)
        layer.set_weights(weights)
    _settle(built)
    _spread(built)


def _settle(built: Built) -> None:
    """Give batch normalizations the statistics of what reaches them, layer after layer."""
    changed = []
    for layer in _layers(built.model):
        if type(layer).__name__ == "BatchNormalization":
            vars(layer)["call"] = functools.partial(_measured, layer, layer.call)
            changed.append(layer)
    if changed:
        _call_all(built)
    for layer in changed:
        del vars(layer)["call"]


def _measured(layer: Any, call: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """The layer's output, after its statistics have become those of its input."""
    values = np.asarray(x, np.float64).reshape(-1, x.shape[-1])
    mean = values.mean(axis=0)
    layer.moving_mean.assign(mean.astype(np.float32))
    layer.moving_variance.assign(values.var(axis=0).astype(np.float32))
    return call(x, *args, **kwargs)


def _spread(built: Built) -> None:
    """Let the last layer tell the samples apart, as a trained one does: what it gives before its activation has mean 0
    and, unless that takes more than a factor of MOST, deviation SPREAD in each channel. Else the outputs are nearly the
    same for all samples, and hardly depend on what is before them."""
    last = _layers(built.model)[-1]
    axis = {"Dense": -1, "Conv1D": -1, "Conv2D": -1, "Conv2DTranspose": 2}.get(type(last).__name__)
    if axis is None or len(last.get_weights()) != 2 or built.entry.stateful:
        return
    activation, seen = last.activation, []
    last.activation = lambda x: activation(seen.append(x) or x)
    _call_all(built)
    last.activation = activation
    scores = np.concatenate([np.asarray(x, np.float64) for x in seen])
    scores = scores.reshape(-1, scores.shape[-1])
    factor = np.clip(SPREAD / np.maximum(scores.std(axis=0), 1e-9), 1 / MOST, MOST)
    kernel, bias = last.get_weights()
    shape = [1] * kernel.ndim
    shape[axis] = -1
    last.set_weights([kernel * factor.reshape(shape), (bias - scores.mean(axis=0)) * factor])


def _layers(model: Any) -> list[Any]:
    """The layers that have weights of their own, in order, those of nested models too."""
    found: dict[int, Any] = {}
    pending = list(model.layers)
    while pending:
        layer = pending.pop(0)
        if getattr(layer, "layers", None):
            pending[:0] = list(layer.layers)
        elif layer.get_weights():
            found.setdefault(id(layer), layer)
    return list(found.values())


def float_outputs(built: Built) -> dict[str, Array]:
    """What Keras itself says to the samples, (N, ...) per output; of a stateful model, to one after the other."""
    results = _call_all(built)
    return {
        name: np.concatenate([np.asarray(result[position][1]) for result in results])
        for position, (name, _) in enumerate(results[0])
    }


def _call_all(built: Built) -> list[list[tuple[str, Any]]]:
    """The outputs for all samples, in as many calls as the model's batch size makes necessary."""
    declared = getattr(built.model, "inputs", None)
    size = (declared[0].shape[0] if declared else None) or SAMPLES
    return [
        built.call(tuple(samples[start : start + size] for samples in built.samples))
        for start in range(0, SAMPLES, size)
    ]


def write(entry: Entry, folder: Path) -> Built:
    """Build it and write the model under its file name, calibration.npz (or .npy) and expected.npz into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    built = build(entry)
    if len(built.samples) == 1:
        np.save(folder / "calibration.npy", built.samples[0])
    else:
        np.savez(folder / "calibration.npz", **dict(zip(built.names, built.samples, strict=True)))
    expected = float_outputs(built)
    np.savez(folder / "expected.npz", **expected)
    path = folder / entry.file_name
    if entry.save is not None:
        entry.save(built.keras, built.model, path)
    elif entry.format == "saved_model":
        built.model.export(str(path), verbose=False)
    else:
        built.model.save(str(path))
    return built


def calibration(folder: Path) -> Path:
    """The samples that `write` left."""
    return next(path for path in (folder / "calibration.npy", folder / "calibration.npz") if path.exists())
