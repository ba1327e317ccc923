"""Convert a float model to .tflite bytes with TensorFlow's converter, and explain the converter's errors.

In the child process only. The converter's messages come from MLIR; they are turned into the operations, the Keras
layers and a suggestion.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from edgetool import child
from edgetool.convert.alternatives import UNKNOWN, alternative_to
from edgetool.convert.debug import MAX_SAMPLES, debug_quantization
from edgetool.convert.float_model import FloatModel, explain_keras_error
from edgetool.convert.load_saved_model import SERVING
from edgetool.convert.quantizer import Int8Model, LayerMap, QuantizerSettings, convert_calibrated, settings_of
from edgetool.convert.request import INTEGER
from edgetool.errors import ConversionError, EdgetoolError, UnsupportedModelError
from edgetool.model.scopes import layer_of

# 'tf.Cumprod' op is neither a custom op nor a flex op, preceded by its location.
# In messages the location comes after "error: ", in the log before it.
_REFUSED = re.compile(
    r"(?:loc\((?P<before>[^\n]*)\): )?error: (?:loc\((?P<place>.*)\): )?"
    r"'(?P<dialect>tfl?)\.(?P<name>\w+)' op (?P<what>[^\n]+)"
)
_SAME_SCALE = "violate the same scale constraint"
_LISTED = re.compile(r"^(?:TF Select|Custom) ops: (.+)$", re.MULTILINE)
KERAS_CALL_ERROR = "Exception encountered when calling"  # the beginning of Keras's message
_NO_COUNTERPART = "is neither a custom op nor a flex op"
_QUOTED = re.compile(r'"([^"]*)"')
# tf.Mul(tensor<1x8xf64>, tensor<f64>) -> ... in the list of unsupported operations.
_OPERANDS = r"^\s*tf\.{name}\((?P<operands>.*?)\) ->"
_ELEMENT = re.compile(r"tensor<(?:[\d?*]+x)*(?P<type>[^<>]+(?:<[^<>]*>)?)>")
# Errors of the interpreter that runs the calibration: the tensor without a range, or the operator that cannot be
# prepared.
_UNCALIBRATED = re.compile(r"(?:Empty min/max for tensor|Failed for tensor) (?P<tensor>\S+)")
_UNPREPARED = re.compile(r"(?P<why>[^\n]*?)\s*Node number (?P<index>\d+) \((?P<name>\w+)\) failed to (?P<verb>\w+)")
_SOURCE = re.compile(r"^\S*\.(?:cc|h|cpp):\d+\s*")

_TYPES = {
    "f64": ("float64", "use float32 in that layer"),
    "complex<f32>": ("complex64", None),
    "complex<f64>": ("complex128", None),
    "!tf_type.string": ("strings", None),
    "!tf_type.variant": ("variants", None),
}
MAX_REASON = 300  # characters of a reason


@dataclass(frozen=True, slots=True)
class UnsupportedOperation:
    """An operation without a TensorFlow Lite operator.

    operator: its name in TensorFlow ("Cumprod"). layer: the scope of its Keras layer, None if unknown. types: the
    element type of its operands if that may be the reason ("float64"), otherwise "".
    """

    operator: str
    layer: str | None
    types: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """An error of the converter in the user's terms.

    reason: a clause for the error. fix: what to do. details: both for further operations, one line each.
    """

    reason: str
    fix: str
    details: tuple[str, ...] = ()


def unsupported_operations(message: str, layers: Mapping[str, str]) -> tuple[UnsupportedOperation, ...]:
    """Return each unsupported operation of a message, once per layer; layers: Keras classes by scope."""
    operations: dict[UnsupportedOperation, None] = {}
    for match in _REFUSED.finditer(message):
        if match["what"].startswith(_NO_COUNTERPART):
            operations[
                UnsupportedOperation(
                    match["name"], _layer(match["place"] or "", layers), _odd_type(match["name"], message)
                )
            ] = None
    named = {item.operator for item in operations}
    for line in _LISTED.findall(message):
        for name in re.split(r",\s*", line.strip()):
            if name not in named:
                operations[UnsupportedOperation(name, None, _odd_type(name, message))] = None
    return tuple(operations)


def explain_converter_error(
    message: str, layers: Mapping[str, str], outputs: Mapping[str, str] | None = None
) -> Explanation:
    """Explain the converter's error: the reason, the layers concerned, and what to use instead.

    layers: the Keras class of each layer by its scope; empty for a SavedModel. outputs: the layer of each graph output,
    by its tensor's name, which does not contain the layer.
    """
    refused = unsupported_operations(message, layers)
    if refused:
        lines = [(_sentence(item, layers), _fix(item, layers)) for item in refused]
        (reason, fix), *others = lines
        return Explanation(reason[:MAX_REASON], fix, tuple(f"{line}; {advice}" for line, advice in others))
    for explanation in _other_explanations(message, layers, outputs or {}):
        return explanation
    return Explanation(_first_error(message), "replace the named layers, or try another --quantize")


def _other_explanations(message: str, layers: Mapping[str, str], outputs: Mapping[str, str]) -> Iterator[Explanation]:
    """Yield explanations of other known errors, the most specific first."""
    if match := _REFUSED.search(message):
        place = match["before"] or match["place"] or ""
        output_layer = next((outputs[name] for name in _QUOTED.findall(place) if outputs.get(name)), None)
        where = _in_layer(_layer(place, layers) or output_layer, layers)
        if _SAME_SCALE in match["what"]:
            yield Explanation(
                f"its quantizer cannot find a common scale for the inputs of {match['name'].upper()}{where}",
                "keep that layer in float (--keep-float), or use --quantize int16x8",
            )
        yield Explanation(
            f"{match['name']}{where} {match['what']}"[:MAX_REASON],
            "replace that layer, or try another --quantize",
        )
    if match := _UNCALIBRATED.search(message):
        tensor = match["tensor"].rstrip(".,")
        where = _in_layer(layer_of(tensor, layers), layers)
        yield Explanation(
            f"no calibration sample reached {tensor!r}{where}, so its range is unknown"[:MAX_REASON],
            "provide samples that exercise every part of the model (--calibration)",
        )
    if match := _UNPREPARED.search(message):
        why = _SOURCE.sub("", match["why"]).strip()
        yield Explanation(
            f"the converted {match['name']} (operator {match['index']}) cannot be {match['verb']}d: {why}"[:MAX_REASON],
            "replace the layer that it comes from, or use --input-shape to set unknown sizes, which are a common cause",
        )
    if KERAS_CALL_ERROR in message:
        what, where = explain_keras_error(ValueError(message))
        yield Explanation(
            f"{where} cannot be traced: {what}"[:MAX_REASON],
            "check how its call method handles the shape and type of its input",
        )


def _sentence(item: UnsupportedOperation, layers: Mapping[str, str]) -> str:
    types = f" of {item.types}" if item.types else ""
    needed = f", which layer {item.layer!r} ({layers[item.layer]}) requires" if item.layer is not None else ""
    return f"TensorFlow Lite has no built-in operator for {item.operator}{types}{needed}"


def _in_layer(layer: str | None, layers: Mapping[str, str]) -> str:
    return f" of layer {layer!r} ({layers[layer]})" if layer is not None and layer in layers else ""


def _fix(item: UnsupportedOperation, layers: Mapping[str, str]) -> str:
    fix = next((fix for name, fix in _TYPES.values() if name == item.types and fix), None)
    if fix is not None:
        return fix
    advice = alternative_to(item.operator, layers.get(item.layer or "", ""))
    return advice if advice != UNKNOWN else "replace the layer, or compute it in the firmware"


def _layer(place: str, layers: Mapping[str, str]) -> str | None:
    """Return the layer of a location such as fused["Erf:", "dense/Erf@__inference_serve_3"], called from others."""
    for name in _QUOTED.findall(place):
        if not name.endswith(":") and (scope := layer_of(name.partition("@")[0], layers)) is not None:
            return scope
    return None


def _odd_type(name: str, message: str) -> str:
    """Return the element type of the operation's operands if TensorFlow Lite barely supports it, otherwise ""."""
    match = re.search(_OPERANDS.format(name=re.escape(name)), message, re.MULTILINE)
    types = [element["type"] for element in _ELEMENT.finditer(match["operands"])] if match else []
    return next((_TYPES[kind][0] for kind in types if kind in _TYPES), "")


def _first_error(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line]
    return (errors or lines or ["no message"])[0][-MAX_REASON:]


# The maximum number of progress messages in one pass over the samples.
PROGRESS_STEPS = 100
LOOP_OPERATIONS = frozenset(["While", "StatelessWhile"])


@dataclass(frozen=True, slots=True)
class ConverterOptions:
    """How to quantize: the scheme, the type of inputs and outputs, and dense weights with one scale.

    keep_float: layers left in float32. debug: measure the loss of each layer.
    """

    quantize: str
    io_type: str
    dense_per_tensor: bool
    keep_float: tuple[str, ...] = ()
    debug: bool = False


@dataclass(frozen=True, slots=True)
class ConversionResult:
    """The .tflite and, if requested, the loss of each layer. notes: one sentence each, for the user."""

    content: bytes
    debug: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """For each graph input and output of the .tflite: the index of the float model's input or output."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def convert(
    tf: Any,
    model: FloatModel,
    samples: Sequence[Any],
    options: ConverterOptions,
    workdir: Path,
    progress: child.Progress,
    layers: LayerMap | None = None,
) -> ConversionResult:
    """Convert a model for one sample at a time; `samples` has one array (N, ...) per input.

    layers: the layers of the Keras model, for messages and for options that name layers. Raises ConversionError with
    the operators or the message of the converter, UnsupportedModelError for a loop in an integer conversion, and
    UsageError for an unknown layer.
    """
    layers = layers or LayerMap({})
    with explain_errors(layers, _layers_by_output_tensor(model, layers), workdir):
        progress("exporting the model")
        directory = _export(tf, model, workdir, integer=options.quantize in INTEGER)
        progress("converting")
        converter = tf.lite.TFLiteConverter.from_saved_model(str(directory), signature_keys=[SERVING])
        _configure(tf, converter, options)
        if options.quantize in INTEGER:
            converter.representative_dataset = lambda: sample_rows(model.signature_inputs, samples, progress)
        if options.quantize != "int8":
            return ConversionResult(bytes(converter.convert()))
        int8_model = convert_calibrated(converter, layers, options.keep_float)
        debug_rows = lambda: list(islice(sample_rows(model.signature_inputs, samples, progress), MAX_SAMPLES))  # noqa: E731
        return with_layer_losses(int8_model, settings_of(converter), layers, options, debug_rows, progress)


@contextlib.contextmanager
def explain_errors(layers: LayerMap, outputs: Mapping[str, str], workdir: Path) -> Iterator[None]:
    """Turn TensorFlow's errors into a ConversionError with the operators or the message.

    outputs: the layer of each graph output, by the name of its tensor. workdir: the folder of the child's log.
    """
    try:
        yield
    except (EdgetoolError, MemoryError):
        raise
    except Exception as error:
        # Some passes raise an error without a message, which is in the log.
        message = str(error).strip() or "\n".join(child.log_tail(workdir))
        reason = explain_converter_error(message, layers.classes, outputs)
        raise ConversionError(
            f"TensorFlow's converter rejected the model: {reason.reason}",
            fix=reason.fix,
            details=reason.details or child.log_tail(workdir),
        ) from error


def with_layer_losses(
    converted: Int8Model,
    settings: QuantizerSettings,
    layers: LayerMap,
    options: ConverterOptions,
    debug_rows: Callable[[], Sequence[Mapping[str, Any]]],
    progress: child.Progress,
) -> ConversionResult:
    """Return an int8 model with, if requested, the loss of each layer.

    debug_rows: returns samples by the names of the signature's inputs. Raises UnsupportedModelError for options that
    need a calibration, if there was none.
    """
    if converted.calibrated is None and (options.keep_float or options.debug):
        raise UnsupportedModelError(
            "the model was trained with quantization: it contains its own ranges, so nothing is calibrated",
            fix="leave out --debug-quantization and --keep-float",
        )
    losses = None
    if options.debug and converted.calibrated is not None:
        losses = debug_quantization(settings, converted.calibrated, debug_rows, layers, progress)
    notes = _requantized_notes(converted.requantized)
    if losses is not None and not losses["layers"]:
        notes += ("--debug-quantization found nothing to measure: the ranges were not set by calibration",)
    return ConversionResult(converted.content, losses, notes)


def _requantized_notes(requantized: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return a note that names the operators whose inputs are requantized, with their layers."""
    if not requantized:
        return ()
    named = ", ".join(f"{label} ({layer})" if layer else label for label, layer in requantized)
    return (f"a QUANTIZE is inserted before each input of {named}: TensorFlow's quantizer cannot find a common scale",)


def _layers_by_output_tensor(model: FloatModel, layers: LayerMap) -> dict[str, str]:
    """Return the layer of each graph output, by the name that the converter gives its tensor."""
    names = sorted(model.signature_outputs)
    return {f"StatefulPartitionedCall:{place}": layers.outputs.get(name, "") for place, name in enumerate(names)}


def _export(tf: Any, model: FloatModel, workdir: Path, *, integer: bool) -> Path:
    """Save the model as a SavedModel with one signature and a batch of 1; return its directory.

    A batch of unknown size would leave SHAPE, STRIDED_SLICE and PACK around reshapes. Writing it here, and not
    through from_keras_model, names inputs and outputs and saves the converter a second tracing.
    """

    def serve(*tensors: Any) -> dict[str, Any]:
        return dict(zip(model.signature_outputs, (model.traced or model.call)(tensors), strict=True))

    signature = [
        tf.TensorSpec((1, *spec.shape), spec.dtype, name=name)
        for spec, name in zip(model.specs, model.signature_inputs, strict=True)
    ]
    function = tf.function(serve, autograph=False).get_concrete_function(*signature)
    if integer:
        _check_loops(function.graph.as_graph_def())
    module = tf.Module()
    module.tracked = model.tracked
    directory = workdir / "signature"
    tf.saved_model.save(module, str(directory), signatures={SERVING: function})
    return directory


def _check_loops(graph: Any) -> None:
    """Reject loops: TensorFlow 2.21 crashes when it calibrates many of them (map_fn, a gather in the body), leaves
    others in float with int8, and supports none with int16x8."""
    for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
        for node in nodes:
            if node.op in LOOP_OPERATIONS:
                raise UnsupportedModelError(
                    f"the graph contains a loop ({node.name!r}), which TensorFlow's integer conversion leaves in float "
                    "or crashes on",
                    fix="unroll the loop (unroll=True in recurrent layers), or use --quantize float32",
                )


def _configure(tf: Any, converter: Any, options: ConverterOptions) -> None:
    sets = tf.lite.OpsSet
    operators = {
        "float32": sets.TFLITE_BUILTINS,
        "float16": sets.TFLITE_BUILTINS,
        "int8": sets.TFLITE_BUILTINS_INT8,
        "int16x8": sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8,
    }
    # The converter then leaves operators without int16 activations in float, instead of rejecting them.
    fallback = [sets.TFLITE_BUILTINS] if options.quantize == "int16x8" else []
    converter.target_spec.supported_ops = [operators[options.quantize], *fallback]
    if options.quantize == "float32":
        return
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if options.quantize == "float16":
        converter.target_spec.supported_types = [tf.float16]
        return
    converter.inference_input_type = converter.inference_output_type = tf.dtypes.as_dtype(options.io_type)
    converter._experimental_disable_per_channel_quantization_for_dense_layers = options.dense_per_tensor


def sample_rows(names: Sequence[str], samples: Sequence[Any], progress: child.Progress) -> Iterator[dict[str, Any]]:
    """Yield the samples one by one, with a batch of 1, by the names of the inputs."""
    count = len(samples[0])
    every = max(1, count // PROGRESS_STEPS)
    for index in range(count):
        if index % every == 0:
            progress(f"calibrating {index + 1}/{count}")
        yield {name: array[index : index + 1] for name, array in zip(names, samples, strict=True)}
    progress("quantizing")


def order_of(content: bytes, model: FloatModel) -> Order:
    """Return the float model's index of each graph input and output, from the file's signature."""
    from tensorflow.lite.python import schema_py_generated as schema

    file = schema.Model.GetRootAs(content)
    graph, signature = file.Subgraphs(0), file.SignatureDefs(0)
    names_in = {entry.TensorIndex(): entry.Name().decode() for entry in _all(signature, "Inputs")}
    names_out: dict[int, list[str]] = {}
    for entry in _all(signature, "Outputs"):
        names_out.setdefault(entry.TensorIndex(), []).append(entry.Name().decode())
    inputs = model.signature_inputs
    missing = [spec.name for spec, name in zip(model.specs, inputs, strict=True) if name not in set(names_in.values())]
    if missing:
        raise UnsupportedModelError(
            f"the conversion removed the inputs {', '.join(missing)}: no output depends on them",
            fix="remove them from the model",
        )
    return Order(
        tuple(inputs.index(names_in[int(index)]) for index in graph.InputsAsNumpy()),
        tuple(model.signature_outputs.index(names_out[int(index)].pop(0)) for index in graph.OutputsAsNumpy()),
    )


def _all(table: Any, name: str) -> Iterator[Any]:
    for index in range(getattr(table, f"{name}Length")()):
        yield getattr(table, name)(index)
