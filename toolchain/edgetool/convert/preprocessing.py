"""What the first layers say about an input: its range, and the size that it is resized to. In the child only."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any

from edgetool.convert.input_shapes import Declared
from edgetool.convert.samples import InputSpec
from edgetool.convert.synthetic import PIXEL_RANGE, Range
from edgetool.errors import UnsupportedModelError

# Layers that give what they take in its own size, whatever that is; augmentation does nothing at inference.
KEEPS_SIZE = frozenset(
    """
    Rescaling Normalization AugMix AutoContrast CutMix Equalization MixUp RandAugment RandomBrightness
    RandomColorDegeneration RandomColorJitter RandomContrast RandomElasticTransform RandomErasing RandomFlip
    RandomGaussianBlur RandomGrayscale RandomHue RandomInvert RandomPerspective RandomPosterization RandomRotation
    RandomSaturation RandomSharpness RandomShear RandomTranslation RandomZoom Solarization GaussianNoise
    GaussianDropout AlphaDropout Dropout SpatialDropout2D Identity
    """.split()
)
# Layers that give pictures of a size of their own. At that size already, they change nothing.
GIVES_SIZE = {"Resizing": "resizes", "CenterCrop": "crops", "RandomCrop": "crops"}
# Interpolations that TensorFlow Lite has an operator for.
OPERATORS = ("bilinear", "nearest")
# A uniform distribution reaches this many standard deviations from its mean.
UNIFORM_REACH = 3**0.5


def range_of(keras: Any, model: Any, tensor: Any, spec: InputSpec) -> Range | None:
    """What the first layers behind an input say about its values: indices below input_dim, pixels, or statistics."""
    for layer in _reached(keras, model, tensor, {*KEEPS_SIZE, *GIVES_SIZE})[0]:
        kind = type(layer).__name__
        if kind == "Embedding":
            return Range(0, layer.input_dim - 1, whole=True)
        if kind == "Rescaling" and spec.is_float:
            return Range(*PIXEL_RANGE)
        if kind == "Normalization" and spec.is_float:
            return _statistics(layer)
    return None


def _statistics(layer: Any) -> Range | None:
    """From a Normalization's means and variances: the range of a uniform distribution with the same; None if bare."""
    import numpy as np

    mean, variance = (np.asarray(part, np.float64) for part in (layer.mean, layer.variance))
    reach = UNIFORM_REACH * np.sqrt(variance)
    low, high = float((mean - reach).min()), float((mean + reach).max())
    return Range(low, high) if np.isfinite([low, high]).all() and low < high else None


def without_resizing(
    keras: Any, model: Any, names: Sequence[str], tensors: Sequence[Any], shapes: Sequence[Declared], where: str
) -> tuple[tuple[Declared, ...], tuple[str, ...]]:
    """The inputs' shapes, with those left open taken from a layer that resizes or crops them first, and notes.

    That layer then changes nothing, and is made to do nothing. Raises UnsupportedModelError at `where` naming a layer
    that resizes or crops as no operator does.
    """
    taken, notes, idle = [], [], set()
    for name, tensor, shape in zip(names, tensors, shapes, strict=True):
        layer = _leading(keras, model, tensor)
        sized = None if layer is None else _with_size(layer, shape)
        if layer is not None and sized is not None:
            if None in shape:
                does = GIVES_SIZE[type(layer).__name__]
                notes.append(
                    f"input {name!r} accepts any size in Keras, because layer {layer.name!r} {does} it; the "
                    f".tflite expects {layer.height}x{layer.width} (height x width), so the firmware must do this"
                )
            idle.add(id(layer))
            layer.call = _unchanged(layer)
        taken.append(shape if sized is None else sized)
    for layer in all_layers(keras, model):
        if id(layer) in idle:
            continue
        if type(layer).__name__ == "Resizing":
            _check_interpolation(layer, where)
        elif type(layer).__name__ == "RandomCrop" and hasattr(keras, "tree"):  # Keras 3 alone
            _check_crop(layer, where)
    return tuple(taken), tuple(notes)


def _unchanged(layer: Any) -> Any:
    """What the layer does, with pictures of its own size left as they are but for the layer's type."""
    resize = layer.call

    def call(inputs: Any, *rest: Any, **named: Any) -> Any:
        import tensorflow as tf

        same = _with_size(layer, tuple(inputs.shape[1:])) == tuple(inputs.shape[1:])
        return tf.cast(inputs, layer.compute_dtype) if same else resize(inputs, *rest, **named)

    return call


def _leading(keras: Any, model: Any, tensor: Any) -> Any:
    """The one layer giving a size that all uses of an input lead to, past layers that keep its size; or None."""
    layers, ends = _reached(keras, model, tensor, KEEPS_SIZE)
    last = [layer for layer in layers if type(layer).__name__ not in (*KEEPS_SIZE, "InputLayer")]
    return last[0] if len(last) == 1 and not ends and type(last[0]).__name__ in GIVES_SIZE else None


def _with_size(layer: Any, shape: Declared) -> Declared | None:
    """A picture's shape at the layer's output size; None where it has another size of its own."""
    if len(shape) != 3:
        return None
    first = getattr(layer, "data_format", "channels_last") == "channels_first"
    size = (shape[0], layer.height, layer.width) if first else (layer.height, layer.width, shape[2])
    agree = all(own in (None, wanted) for own, wanted in zip(shape, size, strict=True))
    return size if agree else None


def _check_crop(layer: Any, where: str) -> None:
    """Refuse a RandomCrop that gets another size than it gives: at inference Keras 3 lets that pass as it is."""
    shapes = [tuple(t.shape[1:]) for node in layer._inbound_nodes for t in _listed(node.input_tensors)]
    if all(_with_size(layer, shape) is not None for shape in shapes):
        return
    raise UnsupportedModelError(
        f"layer {layer.name!r} (RandomCrop) crops only during training: at inference it passes {shapes[0]} to layers "
        f"built for {layer.height}x{layer.width}",
        where=where,
        fix="replace it with CenterCrop or Resizing",
    )


def _check_interpolation(layer: Any, where: str) -> None:
    how = getattr(layer, "interpolation", "bilinear")
    how = str(getattr(how, "name", how)).lower()
    antialias = bool(getattr(layer, "antialias", False))
    if how in OPERATORS and not antialias:
        return
    raise UnsupportedModelError(
        f"layer {layer.name!r} (Resizing) uses {how} interpolation{' with antialias' if antialias else ''}, for which "
        "TensorFlow Lite has no operator",
        where=where,
        fix="resize before the model, or use bilinear or nearest interpolation without antialias",
    )


def _reached(keras: Any, model: Any, tensor: Any, past: Container[str]) -> tuple[list[Any], list[int]]:
    """Layers that take the tensor, or what layers of the classes `past` make of it, into nested models and out of
    them; and the positions of the model's outputs that it reaches so."""
    layers: list[Any] = []
    ends = [position for position, output in enumerate(model.outputs) if output is tensor]
    for layer, position, made in _uses(model, tensor):
        if isinstance(layer, keras.Model) and position < len(layer.inputs or ()):
            inner, exits = _reached(keras, layer, layer.inputs[position], past)
            layers += inner
            onward = [made[index] for index in exits]
        else:
            layers.append(layer)
            onward = made if type(layer).__name__ in past else []
        for further in onward:
            beyond, exits = _reached(keras, model, further, past)
            layers += beyond
            ends += exits
    return layers, ends


def _uses(model: Any, tensor: Any) -> Iterator[tuple[Any, int, list[Any]]]:
    """Each operation of the model that takes the tensor, at which position, and what it makes of it."""
    for operation in getattr(model, "operations", None) or model.layers:
        for node in getattr(operation, "_inbound_nodes", ()):
            inputs = _listed(getattr(node, "input_tensors", None))
            for position, taken in enumerate(inputs):
                if taken is tensor:
                    yield operation, position, _listed(getattr(node, "output_tensors", None))


def all_layers(keras: Any, model: Any) -> list[Any]:
    """The layers of a model, and of the models in it."""
    found: list[Any] = []
    for layer in getattr(model, "layers", ()):
        found += all_layers(keras, layer) if isinstance(layer, keras.Model) else [layer]
    return found


def _listed(tensors: Any) -> list[Any]:
    """A list, where tf_keras gives a single tensor or a structure."""
    if tensors is None:
        return []
    if isinstance(tensors, dict):
        return [tensors[key] for key in sorted(tensors)]
    return list(tensors) if isinstance(tensors, list | tuple) else [tensors]
