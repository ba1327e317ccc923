"""A loaded Keras model as a FloatModel: its inputs and outputs by name, and how to call it. In the child process only.

It supports Keras 3 and tf_keras, whose names differ in places. The first layers after an input determine the range of
its values, and the size to which an image of any size is resized.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetool.convert.float_model import FloatModel, explain_keras_error, input_spec, unique_names
from edgetool.convert.input_shapes import OPTION, DeclaredShape, RequestedShapes, resolve_shapes
from edgetool.convert.lowering.recurrent import reset_of
from edgetool.convert.samples import PIXEL_RANGE, InputSpec, Range, default_range
from edgetool.errors import UnsupportedModelError, UsageError

# Layers whose output has the size of their input, whatever it is; augmentation does nothing at inference.
SIZE_PRESERVING = frozenset(
    """
    Rescaling Normalization AugMix AutoContrast CutMix Equalization MixUp RandAugment RandomBrightness
    RandomColorDegeneration RandomColorJitter RandomContrast RandomElasticTransform RandomErasing RandomFlip
    RandomGaussianBlur RandomGrayscale RandomHue RandomInvert RandomPerspective RandomPosterization RandomRotation
    RandomSaturation RandomSharpness RandomShear RandomTranslation RandomZoom Solarization GaussianNoise
    GaussianDropout AlphaDropout Dropout SpatialDropout2D Identity
    """.split()
)
# Layers whose output images have a fixed size. They do not change images that already have it.
SIZE_CHANGING = {"Resizing": "resizes", "CenterCrop": "crops", "RandomCrop": "crops"}
# Interpolations for which TensorFlow Lite has an operator.
OPERATORS = ("bilinear", "nearest")
# The distance of the ends of a uniform distribution from its mean, in standard deviations.
UNIFORM_REACH = 3**0.5


def input_range(keras: Any, model: Any, tensor: Any, spec: InputSpec) -> Range | None:
    """Return the range of an input from its first layers: indices below input_dim, pixels, or statistics; or None."""
    for layer in _reached_layers(keras, model, tensor, {*SIZE_PRESERVING, *SIZE_CHANGING})[0]:
        kind = type(layer).__name__
        if kind == "Embedding":
            return Range(0, layer.input_dim - 1, whole=True)
        if kind == "Rescaling" and spec.is_float:
            return Range(*PIXEL_RANGE)
        if kind == "Normalization" and spec.is_float:
            return _statistics(layer)
    return None


def _statistics(layer: Any) -> Range | None:
    """Return the range of a uniform distribution with the means and variances of a Normalization; None without them."""
    import numpy as np

    mean, variance = (np.asarray(part, np.float64) for part in (layer.mean, layer.variance))
    reach = UNIFORM_REACH * np.sqrt(variance)
    low, high = float((mean - reach).min()), float((mean + reach).max())
    return Range(low, high) if np.isfinite([low, high]).all() and low < high else None


def without_resizing(
    keras: Any, model: Any, names: Sequence[str], tensors: Sequence[Any], shapes: Sequence[DeclaredShape], where: str
) -> tuple[tuple[DeclaredShape, ...], tuple[str, ...]]:
    """Return the inputs' shapes and notes; a layer that resizes or crops an input first determines unknown sizes.

    Such a layer no longer changes anything, so it is disabled. Raises UnsupportedModelError at `where` naming a layer
    that resizes or crops in a way for which there is no operator.
    """
    fixed_shapes, notes, disabled = [], [], set()
    for name, tensor, shape in zip(names, tensors, shapes, strict=True):
        layer = _leading_resize(keras, model, tensor)
        sized = None if layer is None else _with_size(layer, shape)
        if layer is not None and sized is not None:
            if None in shape:
                does = SIZE_CHANGING[type(layer).__name__]
                notes.append(
                    f"input {name!r} accepts any size in Keras, because layer {layer.name!r} {does} it; the "
                    f".tflite expects {layer.height}x{layer.width} (height x width), so the firmware must do this"
                )
            disabled.add(id(layer))
            layer.call = _unchanged(layer)
        fixed_shapes.append(shape if sized is None else sized)
    for layer in all_layers(keras, model):
        if id(layer) in disabled:
            continue
        if type(layer).__name__ == "Resizing":
            _check_interpolation(layer, where)
        elif type(layer).__name__ == "RandomCrop" and hasattr(keras, "tree"):  # only in Keras 3
            _check_crop(layer, where)
    return tuple(fixed_shapes), tuple(notes)


def _unchanged(layer: Any) -> Any:
    """Return a call like the layer's, which only casts images that already have its size."""
    resize = layer.call

    def call(inputs: Any, *rest: Any, **named: Any) -> Any:
        import tensorflow as tf

        same = _with_size(layer, tuple(inputs.shape[1:])) == tuple(inputs.shape[1:])
        return tf.cast(inputs, layer.compute_dtype) if same else resize(inputs, *rest, **named)

    return call


def _leading_resize(keras: Any, model: Any, tensor: Any) -> Any:
    """Return the layer of fixed output size that all uses of an input reach through size-preserving layers, if any."""
    layers, ends = _reached_layers(keras, model, tensor, SIZE_PRESERVING)
    last = [layer for layer in layers if type(layer).__name__ not in (*SIZE_PRESERVING, "InputLayer")]
    return last[0] if len(last) == 1 and not ends and type(last[0]).__name__ in SIZE_CHANGING else None


def _with_size(layer: Any, shape: DeclaredShape) -> DeclaredShape | None:
    """Return an image's shape with the layer's output size; None if the image has another fixed size."""
    if len(shape) != 3:
        return None
    channels_first = getattr(layer, "data_format", "channels_last") == "channels_first"
    size = (shape[0], layer.height, layer.width) if channels_first else (layer.height, layer.width, shape[2])
    agree = all(old in (None, new) for old, new in zip(shape, size, strict=True))
    return size if agree else None


def _check_crop(layer: Any, where: str) -> None:
    """Reject a RandomCrop whose input and output sizes differ: Keras 3 does not crop at inference."""
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


def _reached_layers(keras: Any, model: Any, tensor: Any, past: Container[str]) -> tuple[list[Any], list[int]]:
    """Return the layers that the tensor reaches, and the positions of the model's outputs that it reaches.

    Tensors are followed through layers of the classes `past`, and into and out of nested models.
    """
    layers: list[Any] = []
    ends = [position for position, output in enumerate(model.outputs) if output is tensor]
    for layer, position, outputs in _uses(model, tensor):
        if isinstance(layer, keras.Model) and position < len(layer.inputs or ()):
            inner, exits = _reached_layers(keras, layer, layer.inputs[position], past)
            layers += inner
            onward = [outputs[index] for index in exits]
        else:
            layers.append(layer)
            onward = outputs if type(layer).__name__ in past else []
        for further in onward:
            beyond, exits = _reached_layers(keras, model, further, past)
            layers += beyond
            ends += exits
    return layers, ends


def _uses(model: Any, tensor: Any) -> Iterator[tuple[Any, int, list[Any]]]:
    """Yield each operation of the model that reads the tensor, with the position of the input and its outputs."""
    for operation in getattr(model, "operations", None) or model.layers:
        for node in getattr(operation, "_inbound_nodes", ()):
            inputs = _listed(getattr(node, "input_tensors", None))
            for position, read in enumerate(inputs):
                if read is tensor:
                    yield operation, position, _listed(getattr(node, "output_tensors", None))


def all_layers(keras: Any, model: Any) -> list[Any]:
    """Return the layers of a model and of its nested models."""
    layers: list[Any] = []
    for layer in getattr(model, "layers", ()):
        layers += all_layers(keras, layer) if isinstance(layer, keras.Model) else [layer]
    return layers


def _listed(tensors: Any) -> list[Any]:
    """Return the tensors as a list; in tf_keras they are a single tensor or a structure."""
    if tensors is None:
        return []
    if isinstance(tensors, dict):
        return [tensors[key] for key in sorted(tensors)]
    return list(tensors) if isinstance(tensors, list | tuple) else [tensors]


# A valid name in a TensorFlow graph.
_GRAPH_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
CHUNK = 32  # samples per call of a model without a fixed batch size
EXPORT = "build it with keras.Input, or export a SavedModel with model.export()"


@dataclass(frozen=True, slots=True)
class _Argument:
    """An input as declared by the model. shape: with batch. tensor: None in a model without symbolic inputs."""

    name: str
    shape: DeclaredShape
    dtype: str
    tensor: Any = None


def float_model(keras: Any, model: Any, path: Path, input_shapes: RequestedShapes = ()) -> FloatModel:
    """Return a keras.Model as a FloatModel, whose inputs have fixed shapes.

    Args:
        input_shapes: shapes without batch for inputs whose shapes are not fixed.

    Raises UnsupportedModelError at `path` if its inputs are unknown or have no fixed shapes, UsageError if the
    requested shapes do not match the model.
    """
    if not all_layers(keras, model) and not model.variables:
        raise UnsupportedModelError(
            "the model has no layers", where=str(path), fix="provide a model with at least one layer"
        )
    if getattr(model, "inputs", None) and getattr(model, "outputs", None):
        return _symbolic(keras, model, path, input_shapes)
    return _subclassed(keras, model, path, input_shapes)


def _symbolic(keras: Any, model: Any, path: Path, input_shapes: RequestedShapes) -> FloatModel:
    """Describe a functional or Sequential model, which has symbolic inputs and outputs."""
    inputs, outputs = list(model.inputs), list(model.outputs)
    for tensor in inputs:
        if getattr(tensor, "sparse", False) or getattr(tensor, "ragged", False):
            raise UnsupportedModelError(
                f"input {tensor.name!r} is sparse or ragged", where=str(path), fix="use a dense input"
            )
    structure = getattr(model, "input", None)  # absent in a Sequential, which takes one tensor
    names = unique_names(_names(keras, structure, [tensor.name for tensor in inputs]))
    arguments = [
        _Argument(name, tuple(tensor.shape), _dtype(tensor), tensor) for name, tensor in zip(names, inputs, strict=True)
    ]
    shapes = resolve_shapes(names, [tensor.shape[1:] for tensor in inputs], input_shapes, str(path))
    shapes, notes = without_resizing(keras, model, names, inputs, shapes, str(path))
    specs = _specs(arguments, shapes, path)
    output_names = list(getattr(model, "output_names", None) or [model.layers[-1].name])
    output_names = output_names if len(output_names) == len(outputs) else [tensor.name for tensor in outputs]

    def call(tensors: Sequence[Any]) -> list[Any]:
        return _flat(keras, model(pack_inputs(keras, model, tensors), training=False))

    if input_shapes:
        _check_runs(keras, model, call, specs)
    reset = reset_of(model)
    return FloatModel(
        specs=specs,
        output_names=unique_names(_names(keras, getattr(model, "output", None), output_names)),
        ranges=tuple(
            input_range(keras, model, tensor, spec) or default_range(spec)
            for tensor, spec in zip(inputs, specs, strict=True)
        ),
        call=call,
        chunk=CHUNK if reset is None and all(tensor.shape[0] is None for tensor in inputs) else 1,
        tracked=_tracked(model),
        notes=notes,
        reset=reset,
    )


def _subclassed(keras: Any, model: Any, path: Path, input_shapes: RequestedShapes) -> FloatModel:
    """Describe a subclassed model, or a Sequential without Input, from the shapes that it was built with and a call."""
    structure = _call_structure(model, input_shapes) if getattr(model, "built", False) else None
    if structure is None:  # a model that was never built has no weights to convert, even if shapes are requested
        raise UnsupportedModelError(
            "the model does not declare its inputs: it was never built, or it is a subclassed model",
            where=str(path),
            fix=EXPORT,
        )
    requested = dict(input_shapes)
    declared = _leaves(structure)
    defaults = ["input" if len(declared) == 1 else "inputs"] * len(declared)
    names = unique_names(_names(keras, _mapped(structure, str), defaults))
    resolve_shapes(names, [(None,) * len(shape[1:]) for shape in declared], input_shapes, str(path))
    shapes = [
        tuple(requested.get(name, requested.get(None, shape[1:]))) for name, shape in zip(names, declared, strict=True)
    ]
    arguments = [_Argument(name, (None, *shape), "float32") for name, shape in zip(names, shapes, strict=True)]
    specs = _specs(arguments, shapes, path)

    def call(tensors: Sequence[Any]) -> list[Any]:
        return _flat(keras, nested(tensors))

    def nested(tensors: Sequence[Any]) -> Any:
        rest = iter(tensors)
        return model(_mapped(structure, lambda shape: next(rest)), training=False)

    try:
        results = _check_runs(keras, model, nested, specs)
    except UsageError as error:
        if input_shapes:
            raise
        raise UnsupportedModelError(error.what, where=str(path), fix=EXPORT) from error
    return FloatModel(
        specs=specs,
        output_names=unique_names(_names(keras, results, ["output"] * len(_flat(keras, results)))),
        ranges=tuple(default_range(spec) for spec in specs),
        call=call,
        chunk=1,
        tracked=_tracked(model),
    )


def _call_structure(model: Any, input_shapes: RequestedShapes) -> Any:
    """Return the shapes (with batch) that the model was built with, in the structure of its call; None if unknown."""
    config = model.get_build_config() if hasattr(model, "get_build_config") else None
    shapes = (config or {}).get("input_shape")
    if shapes is not None:
        return shapes
    if any(name is None for name, _ in input_shapes):
        return (None, *input_shapes[0][1])
    return {name: (None, *sizes) for name, sizes in sorted(input_shapes, key=lambda pair: str(pair[0]))} or None


def _is_shape(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(size is None or isinstance(size, int) for size in value)


def _mapped(structure: Any, change: Callable[[Any], Any]) -> Any:
    """Apply a function to each shape in a structure; dictionaries in the order of their sorted keys."""
    if _is_shape(structure):
        return change(structure)
    if isinstance(structure, dict):
        return {key: _mapped(structure[key], change) for key in sorted(structure)}
    return [_mapped(part, change) for part in structure]


def _leaves(structure: Any) -> list[Any]:
    leaves: list[Any] = []
    _mapped(structure, leaves.append)
    return leaves


def _specs(arguments: Sequence[_Argument], shapes: Sequence[DeclaredShape], path: Path) -> tuple[InputSpec, ...]:
    return tuple(
        input_spec(argument.name, (*argument.shape[:1], *shape), argument.dtype, path)
        for argument, shape in zip(arguments, shapes, strict=True)
    )


def _check_runs(keras: Any, model: Any, call: Callable[[Sequence[Any]], Any], specs: Sequence[InputSpec]) -> Any:
    """Return the model's result for zeros of these shapes. Raises UsageError naming a layer that rejects them."""
    import tensorflow as tf

    zeros = [tf.zeros((1, *spec.shape), spec.dtype) for spec in specs]
    failed: list[str] = []
    try:
        with report_failing_layers(all_layers(keras, model), failed.append):
            return call(zeros)
    except MemoryError:
        raise
    except Exception as error:
        what, where = explain_keras_error(error)
        where = f"layer {failed[0]!r}" if failed and not where.startswith("layer '") else where
        raise UsageError(
            f"the model fails with inputs of shape {', '.join(str(spec.shape) for spec in specs)}: {where}: {what}",
            where=OPTION,
            fix="use input shapes that all of its layers accept",
        ) from error


@contextlib.contextmanager
def report_failing_layers(layers: Iterable[Any], report: Callable[[str], None]) -> Iterator[None]:
    """Report the name of each layer whose call fails, the innermost first: messages often contain only its class."""
    calls = [(layer, layer.call) for layer in layers]
    for layer, call in calls:
        layer.call = _reporting(layer.name, call, report)
    try:
        yield
    finally:
        for layer, call in calls:
            layer.call = call


def _reporting(name: str, call: Callable[..., Any], report: Callable[[str], None]) -> Callable[..., Any]:
    @functools.wraps(call)
    def reporting_call(*positional: Any, **named: Any) -> Any:
        try:
            return call(*positional, **named)
        except Exception:
            report(name)
            raise

    return reporting_call


def pack_inputs(keras: Any, model: Any, tensors: Sequence[Any]) -> Any:
    """Return one tensor per input, in Keras's order, in the structure that the model expects."""
    structure = getattr(model, "input", None)  # absent in a Sequential, which takes one tensor
    nested = isinstance(structure, list | tuple | dict)
    return _tree(keras).pack_sequence_as(structure, list(tensors)) if nested else tensors[0]


def _tree(keras: Any) -> Any:
    """Return the module that flattens structures: keras.tree, or that of TensorFlow for tf_keras."""
    if hasattr(keras, "tree"):
        return keras.tree
    import tensorflow as tf

    return tf.nest


def _flat(keras: Any, structure: Any) -> list[Any]:
    return list(_tree(keras).flatten(structure))


def _names(keras: Any, structure: Any, defaults: Sequence[str]) -> list[str]:
    """Return a name for each tensor of a structure, in Keras's order: its keys in dictionaries, else its default."""
    if not isinstance(structure, list | tuple | dict) or len(_flat(keras, structure)) != len(defaults):
        return list(defaults)
    tree = _tree(keras)
    positions = tree.pack_sequence_as(structure, list(range(len(defaults))))
    names = list(defaults)
    for path, position in _paths(positions):
        keyed = next((index for index, part in enumerate(path) if isinstance(part, str)), None)
        if keyed is not None:
            names[position] = "_".join(str(part) for part in path[keyed:])
    return names


def _paths(structure: Any, path: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], int]]:
    """Return every leaf with the keys and positions of its path."""
    if isinstance(structure, dict):
        items: list[tuple[str | int, Any]] = [(str(key), part) for key, part in structure.items()]
    elif isinstance(structure, list | tuple):
        items = list(enumerate(structure))
    else:
        return [(path, structure)]
    return [leaf for key, part in items for leaf in _paths(part, (*path, key))]


def _dtype(tensor: Any) -> str:
    """Return the name of a tensor's type, which is a string in Keras 3 and a tf.DType in tf_keras."""
    return str(getattr(tensor.dtype, "name", tensor.dtype))


def _tracked(model: Any) -> list[Any]:
    """Return the model's variables as TensorFlow variables: `value` in Keras 3, the variables themselves in tf_keras.

    Names that contain layer names which TensorFlow's graphs reject are replaced; Keras accepts any characters.
    """
    variables = [variable if callable(variable.value) else variable.value for variable in model.variables]
    for number, variable in enumerate(variables):
        if not _GRAPH_NAME.fullmatch(variable.name.partition(":")[0]):
            variable._handle_name = f"variable_{number}:0"
    return variables
