"""Quantizes the same graphs again and again: `python -m tests.convert.result_order_child FOLDER`.

Leaves made.json, with the hashes of all distinct files for each graph, and NAME.tflite, one of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

RUNS = 12
SPLITS = 8


def main(folder: Path) -> None:
    os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
    import tensorflow as tf

    from edgetool.convert import tflite
    from edgetool.convert.quantizer import LayerMap, convert_calibrated, quantize, settings_of
    from edgetool.model.reader import read_model

    samples = np.random.default_rng(0).uniform(-1, 1, (8, 6)).astype(np.float32)
    kernels = np.random.default_rng(1).normal(size=(SPLITS, 6, 9)).astype(np.float32) / 3

    @tf.function(input_signature=[tf.TensorSpec((1, 6), tf.float32, name="x")], autograph=False)
    def unread(x: Any) -> Any:
        """The middle result of each SPLIT is read by nothing."""
        parts = [tf.split(tf.matmul(x, kernel), 3, axis=1) for kernel in kernels]
        return {"y": tf.concat([first * tf.tanh(last) for first, _, last in parts], 1)}

    converter = tf.lite.TFLiteConverter.from_concrete_functions([unread.get_concrete_function()])
    tflite._configure(tf, converter, tflite.ConverterOptions("int8", "int8", False))
    converter.representative_dataset = lambda: ([row[None]] for row in samples)
    calibrated = convert_calibrated(converter, LayerMap({}), ()).calibrated
    assert calibrated is not None
    graph = read_model(calibrated).main
    readers = [graph.tensors[one.outputs[0]].name for one in graph.operators if one.code in ("MUL", "TANH")]

    made = {}
    for name, denied in {"unread": (), "float readers": readers}.items():
        contents = [quantize(settings_of(converter), calibrated, denied=denied).content for _ in range(RUNS)]
        made[name] = sorted({hashlib.sha256(content).hexdigest() for content in contents})
        (folder / f"{name}.tflite").write_bytes(contents[0])
    (folder / "made.json").write_text(json.dumps(made))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
