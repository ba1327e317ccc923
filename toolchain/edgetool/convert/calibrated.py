"""A calibrated float .tflite, quantized as often as is asked: in the child process only.

TensorFlow's converter calibrates and quantizes in one call. Apart, one calibration serves the model itself, the one
that verifies each layer, and those that leave layers in float.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgetool.convert.result_order import quantize_in_order
from edgetool.convert.same_scale import Quantized, quantize_around
from edgetool.errors import UsageError
from edgetool.model.reader import read_model
from edgetool.model.scopes import layer_of, sanitised
from edgetool.model.types import CONVERSIONS, Graph, Model, Operator

# Layers whose weights an operator takes over, together with the normalization and activation that follow: parts of
# Keras's class names, and of TensorFlow's operations.
WEIGHTED = ("Conv", "Dense", "conv", "depthwise", "MatMul")
_CUT_END = re.compile(r"(.+)_(?:given|taken)_\d+")


@dataclass(frozen=True, slots=True)
class LayerMap:
    """Which Keras layer tensors come from.

    classes: the Keras class by scope. outputs: the scope of what makes each output, by its name in the signature; ""
    or absent where unknown.
    """

    classes: Mapping[str, str]
    outputs: Mapping[str, str] = field(default_factory=dict)

    def layer_of(self, operator: Operator, model: Model) -> str | None:
        """The layer that an operator of the main graph belongs to; of several that became one, that with the weights.

        The tensor of an output carries no layer's name: there the signature tells.
        """
        graph = model.main
        if not operator.outputs:
            return None
        name = graph.tensors[operator.outputs[0]].name
        found = [scope for part in name.split(";") if (scope := layer_of(part, self.classes)) is not None]
        weighted = [scope for scope in found if any(word in self.classes[scope] for word in WEIGHTED)]
        if found:
            return (weighted or found)[0]
        position = _output_position(operator.outputs[0], graph)
        output = None if position is None else model.argument_name(0, graph.outputs[position])
        return self.outputs.get(output or "") or None

    def cut_layer_of(self, operator: Operator, model: Model) -> str | None:
        """The layer that is put in after the conversion where an operator that belongs to none reads or makes its ends.

        The cut graph's signature calls these after the layer: "lstm_given_0" is what it gives, "lstm_taken_0" takes.
        """
        graph = model.main
        given = _behind(operator.inputs, graph) & set(graph.inputs)
        names = [model.argument_name(0, index) for index in graph.inputs if index in given]
        for tensor in operator.outputs:
            position = _output_position(tensor, graph)
            names += [] if position is None else [model.argument_name(0, graph.outputs[position])]
        ends = [found[1] for name in names if (found := _CUT_END.fullmatch(name or ""))]
        return next((scope for scope in self.classes if _plain(scope) in ends), None)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A .tflite in int8, and the calibrated float one that it is made of; None where the converter calibrated none.

    joined: the operators whose inputs were brought to one scale because the quantizer contradicted itself there; each
    as its label and its layer, "" where unknown.
    """

    content: bytes
    calibrated: bytes | None
    joined: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class QuantizerSettings:
    """What TensorFlow's quantizer is asked for: its types of the graph's float inputs and outputs.

    dense_per_tensor: one scale for all weights of a dense layer.
    """

    input_type: Any
    output_type: Any
    dense_per_tensor: bool = False


def settings_of(converter: Any) -> QuantizerSettings:
    """The settings of a configured TFLiteConverter."""
    return QuantizerSettings(
        converter.inference_input_type,
        converter.inference_output_type,
        converter._experimental_disable_per_channel_quantization_for_dense_layers,
    )


def quantize_calibrated(
    tf: Any, settings: QuantizerSettings, calibrated: bytes, layers: LayerMap, keep_float: Sequence[str]
) -> Calibrated:
    """The int8 form of a calibrated .tflite.

    keep_float: layers whose operators stay in float. Raises UsageError for one that becomes no operator.
    """
    made = quantize(tf, settings, calibrated, denied=tensors_of(calibrated, layers, keep_float))
    model = read_model(calibrated)
    joined = tuple((operator.label, layers.layer_of(operator, model) or "") for operator in made.joined)
    return Calibrated(made.content, calibrated, joined)


def convert_calibrated(tf: Any, converter: Any, layers: LayerMap, keep_float: Sequence[str]) -> Calibrated:
    """What a converter makes that is configured for int8.

    keep_float: layers whose operators stay in float. Raises UsageError for one that becomes no operator.
    """
    calibrate, made = converter._quantize, None

    def quantized(*arguments: Any, **named: Any) -> bytes:
        nonlocal made
        converter._experimental_calibrate_only = True
        try:
            captured = bytes(calibrate(*arguments, **named))
        finally:
            converter._experimental_calibrate_only = False
        made = quantize_calibrated(tf, settings_of(converter), captured, layers, keep_float)
        return made.content

    converter._quantize = quantized
    try:
        content = bytes(converter.convert())
    finally:
        converter._quantize = calibrate
    return Calibrated(content, None) if made is None else replace(made, content=content)


def quantize(
    tf: Any, settings: QuantizerSettings, calibrated: bytes, *, denied: Sequence[str] = (), verify: bool = False
) -> Quantized:
    """What TensorFlow's converter would have made of a calibrated model, around what its quantizer refuses.

    denied: names of the calibrated model's tensors whose operators stay in float. verify: with an operator
    NumericVerify(quantized, float) for each one that was quantized, as TensorFlow's QuantizationDebugger has it; its
    inputs and outputs are float then.
    """
    from tensorflow.lite.python.convert import mlir_quantize

    def made(float_model: bytes) -> bytes:
        content = mlir_quantize(
            float_model,
            False,
            input_data_type=tf.float32 if verify else settings.input_type,
            output_data_type=tf.float32 if verify else settings.output_type,
            enable_numeric_verify=verify,
            denylisted_nodes=list(denied),
            disable_per_channel_for_dense_layers=settings.dense_per_tensor,
        )
        return bytes(content)

    return quantize_around(lambda float_model: quantize_in_order(made, float_model), calibrated)


def tensors_of(calibrated: bytes, layers: LayerMap, wanted: Sequence[str]) -> tuple[str, ...]:
    """The output tensors of all operators that the wanted layers became, sub-layers included.

    Raises UsageError for a layer that became none.
    """
    model = read_model(calibrated)
    made = [(layer, op) for op in model.main.operators if (layer := layers.layer_of(op, model)) is not None]
    found: dict[str, list[str]] = {}
    for name in wanted:
        chosen = _scopes_of(name, {layer for layer, _ in made})
        found[name] = [model.main.tensors[index].name for layer, op in made if layer in chosen for index in op.outputs]
    missing = [name for name in wanted if not found[name]]
    if missing:
        known = sorted({layer for layer, _ in made})
        raise UsageError(
            f"no operator belongs to layer {missing[0]!r}, so there is nothing to keep in float",
            where="--keep-float",
            fix=f"the layers with operators are {', '.join(known[:20]) or 'unknown for this model'}",
        )
    return tuple(dict.fromkeys(name for names in found.values() for name in names))


def _scopes_of(name: str, scopes: Collection[str]) -> set[str]:
    """The scopes of a layer and of those inside it, by its scope or by its name as Keras has it.

    Such a name may hold what no scope does ("first conv"), and may do without the models around it.
    """
    for own in dict.fromkeys([name, "/".join(sanitised(part) for part in name.split("/")), sanitised(name)]):
        found = {scope for scope in scopes if f"{scope}/".startswith(f"{own}/")}
        found = found or {scope for scope in scopes if f"/{own}/" in f"/{scope}/"}
        if found:
            return found
    return set()


def readers_of(calibrated: bytes, layers: LayerMap, layer: str) -> tuple[str, ...]:
    """The layers that take what a layer makes, in the order of the graph."""
    model = read_model(calibrated)
    made: set[int] = set()
    found: dict[str, None] = {}
    for operator in model.main.operators:
        own = layers.layer_of(operator, model)
        if own == layer:
            made |= set(operator.outputs)
        elif made & set(operator.inputs):
            if own is None or "Concatenate" in layers.classes.get(own, ""):
                made |= set(operator.outputs)  # values pass through
            if own is not None:
                found[own] = None
    return tuple(found)


def _behind(tensors: Collection[int], graph: Graph) -> set[int]:
    """The tensors, and those whose values they are, quantized or not."""
    reached = set(tensors)
    for operator in reversed(graph.operators):
        if operator.code in CONVERSIONS and reached & set(operator.outputs):
            reached |= set(operator.inputs)
    return reached


def _plain(scope: str) -> str:
    """A scope as a part of a signature's name."""
    return re.sub(r"\W", "_", scope)


def _output_position(tensor: int, graph: Graph) -> int | None:
    """The graph output that a tensor's values become, quantized or not; None for one within the graph."""
    reached = {tensor}
    for operator in graph.operators:
        if operator.code in CONVERSIONS and reached & set(operator.inputs):
            reached |= set(operator.outputs)
    return next((position for position, index in enumerate(graph.outputs) if index in reached), None)
