"""Quantizes graphs that TensorFlow's quantizer refuses: `python -m tests.convert.same_scale_child FOLDER`.

For each NAME it leaves NAME.tflite and NAME.json with its joined operators, samples and float outputs, both (N, ...).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

SAMPLES = 16


def main(folder: Path) -> None:
    os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
    import tensorflow as tf

    from edgetool.convert import tflite
    from edgetool.convert.quantizer import LayerMap, convert_calibrated

    samples = np.random.default_rng(0).uniform(-1, 1, (SAMPLES, 4, 4, 3)).astype(np.float32)
    for name, graph in {"clash": _clash, "plain": _signature_name}.items():
        function = _traced(tf, graph)
        converter = tf.lite.TFLiteConverter.from_concrete_functions([function])
        tflite._configure(tf, converter, tflite.ConverterOptions("int8", "int8", False))
        converter.representative_dataset = lambda: ([row[None]] for row in samples)
        refused = False
        try:
            converter.convert()
        except RuntimeError:
            refused = True
        made = convert_calibrated(converter, LayerMap({}), ())
        (folder / f"{name}.tflite").write_bytes(made.content)
        rows = [function(x=tf.constant(row[None])) for row in samples]
        expected = [np.stack([row[f"out_{i}"].numpy() for row in rows]).tolist() for i in range(len(rows[0]))]
        reported = {"refused": refused, "joined": made.requantized, "samples": samples.tolist(), "expected": expected}
        (folder / f"{name}.json").write_text(json.dumps(reported))


def _traced(tf: Any, graph: Any) -> Any:
    kernels = np.random.default_rng(1).normal(size=(2, 3, 3, 3, 4)).astype(np.float32) / 3

    def serve(x: Any) -> dict[str, Any]:
        return {f"out_{i}": made for i, made in enumerate(graph(tf, x, kernels))}

    return tf.function(serve, autograph=False).get_concrete_function(tf.TensorSpec((1, 4, 4, 3), tf.float32, name="x"))


def _clash(tf: Any, x: Any, kernels: Any) -> list[Any]:
    """Three that want one scale read the same two tensors, and the scale of one of these is not free."""
    first = tf.nn.relu(tf.nn.conv2d(x, kernels[0], 1, "SAME"))
    second = tf.tanh(tf.nn.conv2d(x, kernels[1], 1, "SAME"))
    requantized = [tf.concat([first, second], 3), tf.maximum(first, second), tf.minimum(first, second)]
    return [*requantized, first * second, first - second]


def _signature_name(tf: Any, x: Any, kernels: Any) -> list[Any]:
    return [tf.concat([tf.nn.conv2d(x, kernel, 1, "SAME") for kernel in kernels], 3)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
