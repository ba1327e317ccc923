"""Converts models with a planted bad layer, in a process of its own: `python -m tests.convert.debug_child FOLDER`.

For each model NAME it leaves NAME.json (what was measured), NAME.tflite and NAME.kept.tflite (with the layers in float
that were advised) and NAME.npz (samples and the float outputs).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

SAMPLES = 16
LOUDER = 500.0


def main(folder: Path) -> None:
    os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
    import keras
    import tensorflow as tf

    for name, make in {"channel": _channel, "depthwise": _depthwise, "joined": _joined, "sound": _sound}.items():
        keras.utils.set_random_seed(1)
        _measure(tf, keras, make(keras), folder, name)


def _measure(tf: Any, keras: Any, keras_model: Any, folder: Path, name: str) -> None:
    from edgetool.convert import tflite
    from edgetool.convert.debug import debug_quantization
    from edgetool.convert.keras_model import float_model
    from edgetool.convert.lowering.context import LoweringOptions
    from edgetool.convert.lowering.lower import plan_lowering
    from edgetool.convert.quantizer import LayerMap, convert_calibrated, settings_of
    from edgetool.errors import UsageError

    lowering = plan_lowering(tf, keras, keras_model, LoweringOptions("auto", "int8", False))
    model = float_model(keras, keras_model, Path("x"), ())

    def traced(tensors: Any) -> list[Any]:
        with lowering.active():
            return model.call(tensors)

    shape = (SAMPLES, *model.specs[0].shape)
    samples = [np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)]

    def rows() -> Iterator[dict[str, Any]]:
        return tflite.sample_rows(model.signature_inputs, samples, lambda step: None)

    work = folder / name
    work.mkdir()
    directory = tflite._export(tf, replace(model, traced=traced), work, integer=True)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(directory), signature_keys=[tflite.SERVING])
    tflite._configure(tf, converter, tflite.ConverterOptions("int8", "int8", False))
    converter.representative_dataset = rows
    layers = LayerMap(lowering.layers, dict(zip(model.signature_outputs, lowering.output_layers, strict=True)))
    made = convert_calibrated(converter, layers, ())
    content, calibrated = made.content, made.calibrated
    assert calibrated is not None
    reported = debug_quantization(settings_of(converter), calibrated, lambda: list(rows()), layers, lambda step: None)
    kept = convert_calibrated(converter, layers, reported["layers"][0]["kept_float"]).content
    try:
        convert_calibrated(converter, layers, ["nonesuch"])
    except UsageError as error:
        reported["unknown"] = str(error)
    if name == "sound":
        reported["as_usual"] = bytes(converter.convert()) == content
        debugger = tf.lite.experimental.QuantizationDebugger(
            converter=converter, debug_dataset=lambda: ([array[i : i + 1] for array in samples] for i in range(SAMPLES))
        )
        debugger.run()
        reported["debugger"] = [float(value["mean_squared_error"]) for value in debugger.layer_statistics.values()]
    (folder / f"{name}.json").write_text(json.dumps(reported))
    (folder / f"{name}.tflite").write_bytes(content)
    (folder / f"{name}.kept.tflite").write_bytes(kept)
    (expected,) = model.call([tf.constant(samples[0])])
    np.savez(folder / f"{name}.npz", samples=samples[0], expected=np.asarray(expected))


def _louder(model: Any, layer: str, before: tuple[Any, ...], after: tuple[Any, ...]) -> Any:
    """The same function, with some channels of one layer far louder than the others: the next layer takes it back.

    before and after select the weights of these channels in the layer and in the one called "next".
    """
    for name, part, factor in ((layer, before, LOUDER), ("next", after, 1 / LOUDER)):
        weights = model.get_layer(name).get_weights()
        weights[0][part] *= factor
        model.get_layer(name).set_weights(weights)
    return model


def _channel(keras: Any) -> Any:
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(8, 3, padding="same", activation="relu", name="first"),
            layers.Conv2D(8, 3, name="bad"),
            layers.Conv2D(8, 1, name="next"),
            layers.Flatten(name="flat"),
            layers.Dense(4, name="out"),
        ]
    )
    return _louder(model, "bad", np.s_[..., 0], np.s_[:, :, 0])


def _depthwise(keras: Any) -> Any:
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(8, 3, padding="same", activation="relu", name="first"),
            layers.DepthwiseConv2D(3, padding="same", name="bad"),
            layers.Conv2D(8, 1, name="next"),
            layers.Flatten(name="flat"),
            layers.Dense(4, name="out"),
        ]
    )
    return _louder(model, "bad", np.s_[:, :, 3], np.s_[:, :, 3])


def _joined(keras: Any) -> Any:
    layers = keras.layers
    image = keras.Input((8, 8, 3))
    parts = [layers.Conv2D(4, 3, name=name)(image) for name in ("loud", "bad")]
    joined = layers.Conv2D(8, 1, name="next")(layers.Concatenate(name="join")(parts))
    model = keras.Model(image, layers.Dense(4, name="out")(layers.Flatten(name="flat")(joined)))
    return _louder(model, "loud", np.s_[...], np.s_[:, :, :4])


def _sound(keras: Any) -> Any:
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(8, 3, padding="same", name="first"),
            layers.BatchNormalization(name="norm"),
            layers.ReLU(name="relu"),
            layers.GlobalAveragePooling2D(name="pool"),
            layers.Dense(4, activation="softmax", name="out"),
        ]
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
