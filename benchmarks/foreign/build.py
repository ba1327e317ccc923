"""Writes a network as NAME.keras, .tflite (float32), .pt2 and .onnx with the same weights, and samples in their orders.

There is no .tflite of recurrent networks: TensorFlow's converter needs a fixed batch for their loops.

python -m benchmarks.foreign.build FOLDER [NAME...]
"""

from __future__ import annotations

import argparse
import os
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import onnxruntime
import tensorflow as tf
import torch
from benchmarks.foreign.keras_layers import KerasLayers
from benchmarks.foreign.networks import NETWORKS, Network
from benchmarks.foreign.torch_layers import TorchNetwork
from benchmarks.zoo.entry import Entry
from benchmarks.zoo.files import Built, build
from benchmarks.zoo.samples import natural

OPSET = 17
# For calibration and for the SQNR.
SAMPLES = 256
# Of the largest value: the two frameworks add in other orders.
TOLERANCE = 1e-4


def keras_twin(network: Network) -> Built:
    """Return the model with seeded weights as after training (benchmarks/zoo/files.py), and samples."""

    def model(_: Any) -> Any:
        first = keras.Input(network.shape, name="x")
        return keras.Model(first, network.build(KerasLayers(), first))

    rng = np.random.default_rng(zlib.crc32(network.name.encode()))
    samples = natural(network.shape)(rng, SAMPLES, network.shape)
    return replace(build(Entry(network.name, model, "", network.about)), samples=(samples,))


def channels_first(samples: Any, network: Network) -> Any:
    """Return samples of Keras in the order of PyTorch."""
    return np.moveaxis(samples, -1, 1).copy() if network.kind in ("image", "sequence") else samples


def check_twin(network: Network, built: Built, results: Sequence[Any], framework: str) -> None:
    """Raise ValueError if another framework computes other outputs for the samples."""
    for actual, (_, expected) in zip(results, built.call(built.samples), strict=True):
        values = np.asarray(expected)
        last = np.moveaxis(actual, 1, -1) if actual.ndim == 4 else actual
        difference = float(np.abs(last - values).max())
        if difference > TOLERANCE * float(np.abs(values).max()):
            raise ValueError(f"{network.name} differs by {difference} in {framework}")


def write(network: Network, folder: Path) -> None:
    """Write the models and samples. Raises ValueError if they do not compute the same."""
    folder.mkdir(parents=True, exist_ok=True)
    built = keras_twin(network)
    np.save(folder / f"{network.name}.keras.npy", built.samples[0])
    built.model.save(folder / f"{network.name}.keras")
    if not any(isinstance(layer, keras.layers.RNN) for layer in built.model.layers):  # converted only for a fixed batch
        (folder / f"{network.name}.tflite").write_bytes(tf.lite.TFLiteConverter.from_keras_model(built.model).convert())
    samples = channels_first(built.samples[0], network)
    np.save(folder / f"{network.name}.npy", samples)
    weights = {layer.name: layer.get_weights() for layer in built.model.layers if layer.get_weights()}
    twin = TorchNetwork(network.build, weights).eval()
    with torch.no_grad():
        results = twin(torch.from_numpy(samples))
    results = results if isinstance(results, tuple) else (results,)
    check_twin(network, built, [result.numpy() for result in results], "PyTorch")
    example = (torch.from_numpy(samples[:1].copy()),)
    torch.export.save(torch.export.export(twin, example, strict=False), str(folder / f"{network.name}.pt2"))
    path = str(folder / f"{network.name}.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter without onnxscript is deprecated
        torch.onnx.export(twin, example, path, dynamo=False, opset_version=OPSET, input_names=["x"])
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    each = [session.run(None, {"x": samples[place : place + 1]}) for place in range(len(samples))]
    check_twin(network, built, [np.concatenate(arrays) for arrays in zip(*each, strict=True)], "ONNX Runtime")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.foreign.build", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="all when none is given")
    arguments = parser.parse_args()
    for name in arguments.names or NETWORKS:
        write(NETWORKS[name], arguments.folder)
        print(name, flush=True)


if __name__ == "__main__":
    main()
