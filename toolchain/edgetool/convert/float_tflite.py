"""Quantize a .tflite in float32, or the rest of one that is partly quantized, whose scales stay.

TensorFlow never receives the user's file: it receives what our reader accepted, written again with constants in
float32, without a memory plan, and with one signature.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgetool.convert.alternatives import alternative_to
from edgetool.convert.debug import MAX_SAMPLES
from edgetool.convert.float_model import FloatModel, signature_names, unique_names
from edgetool.convert.lite import interpreter
from edgetool.convert.quantizer import WEIGHTED_LAYERS, LayerMap, QuantizerSettings, quantize_calibrated
from edgetool.convert.request import INTEGER
from edgetool.convert.samples import Array, InputSpec, Range, default_range
from edgetool.convert.tflite import (
    ConversionResult,
    ConverterOptions,
    explain_errors,
    sample_rows,
    with_layer_losses,
)
from edgetool.errors import UnsupportedModelError
from edgetool.model.draft import STORED, Draft
from edgetool.model.edit import without_metadata
from edgetool.model.metadata import METADATA_NAME as PLAN
from edgetool.model.metadata import RECORD_METADATA_NAME as PLAN_RECORD
from edgetool.model.reader import read_model
from edgetool.model.types import CONVERSIONS, DType, Graph, Model, Signature, Tensor
from edgetool.model.writer import write_model
from edgetool.passes.elementwise import dequantized, is_quantized, quantized
from edgetool.passes.float_forms import tidy_float
from edgetool.passes.given_scales import spread_scales
from edgetool.passes.normalization import normalize_accurately

if TYPE_CHECKING:
    from edgetool import child

SIGNATURE = "serving_default"
# Importers of PyTorch leave this entry in the metadata. TensorFlow then reads constants as StableHLO, and leaves every
# operator with weights in float.
STABLEHLO_CONSTANTS = "keep_stablehlo_constant"
# The type of quantized activations -> its name for --quantize; the first type that a file contains is used.
SCHEMES = {DType.INT16: "int16x8", DType.INT8: "int8", DType.UINT8: "uint8", DType.INT4: "int4"}
# Operators whose bodies or contents TensorFlow's calibrator ignores, or with which it crashes.
LOOP_OPERATORS = frozenset(["CALL", "CALL_ONCE", "IF", "STABLEHLO_WHILE", "WHILE"])
RESOURCE_OPERATORS = frozenset(["ASSIGN_VARIABLE", "READ_VARIABLE", "VAR_HANDLE"])
# The beginning of the names of operators that importers leave where TensorFlow Lite has none of its own.
STABLEHLO = "STABLEHLO_"
# The only custom operator for which TensorFlow has a kernel.
WITH_KERNEL = frozenset(["TFLite_Detection_PostProcess"])
WITH_TABLE = {
    "EMBEDDING_LOOKUP": (0, 1),
    "GATHER": (1, 0),
}  # operator -> the positions of its inputs with indices, and with the table
# Operators that TensorFlow quantizes only to int8.
WITHOUT_INT16 = frozenset(
    [
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        "LSTM",
        "RNN",
        "SVDF",
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "UNIDIRECTIONAL_SEQUENCE_RNN",
    ]
)
KERAS = "convert the Keras model"


def quantized_as(model: Model) -> str | None:
    """Return how a file is quantized: a value of --quantize, or "uint8" or "int4", which are not; None for float."""
    types = {
        tensor.dtype
        for graph in model.subgraphs
        for tensor in graph.tensors
        if tensor.quantization is not None and tensor.quantization.scales and not tensor.is_constant
    }
    return next((name for dtype, name in SCHEMES.items() if dtype in types), None)


def computes_in_float(model: Model, *, beside: Container[str] = ()) -> bool:
    """Return whether any operator has a float32 output; `beside`: codes of operators that do not count."""
    return any(
        graph.tensors[index].dtype is DType.FLOAT32
        for graph in model.subgraphs
        for operator in graph.operators
        if operator.code not in beside
        for index in operator.outputs
        if index >= 0
    )


def is_quantizable(model: Model, scheme: str) -> bool:
    """Return whether --quantize applies: to a float model, and to the float32 operators of one that is partly int8."""
    present = quantized_as(model)
    return present is None or (present == scheme == "int8" and computes_in_float(model, beside=CONVERSIONS))


def check_quantizable(model: Model, scheme: str, where: str) -> None:
    """Raise UnsupportedModelError at `where`, naming what TensorFlow cannot calibrate or quantize in this scheme."""
    operators = [(graph, operator) for graph in model.subgraphs for operator in graph.operators]
    for graph, operator in operators:
        if operator.code in LOOP_OPERATORS:
            raise UnsupportedModelError(
                f"operator {operator.index} is {operator.label}: TensorFlow cannot calibrate loops and conditions",
                where=where,
                fix=f"{KERAS}, whose layers can be unrolled (--rnn unrolled), or omit --quantize",
            )
        written = [index for index in operator.outputs if index >= 0 and graph.tensors[index].is_variable]
        if operator.code in RESOURCE_OPERATORS or written:
            raise UnsupportedModelError(
                f"operator {operator.index} ({operator.label}) keeps state between invocations, which "
                "TensorFlow's quantizer loses",
                where=where,
                fix=f"{KERAS}, or omit --quantize",
            )
        if scheme == "int16x8" and operator.code in WITHOUT_INT16:
            raise UnsupportedModelError(
                f"operator {operator.index} is {operator.label}, which TensorFlow does not quantize to {scheme}",
                where=where,
                fix=f"use --quantize int8, or {KERAS} with --rnn unrolled",
            )
        if operator.code.startswith(STABLEHLO):
            names = [graph.tensors[index].name[:80] for index in operator.outputs if index >= 0]
            raise UnsupportedModelError(
                f"operator {operator.index} is {operator.label}, which TensorFlow Lite Micro does not have "
                f"(it computes {', '.join(map(repr, names)) or 'nothing'})",
                where=where,
                fix=alternative_to(operator.code),
            )
        if operator.code == "CUSTOM" and operator.custom_code not in WITH_KERNEL:
            raise UnsupportedModelError(
                f"operator {operator.index} is custom ({operator.label}): TensorFlow has no kernel to calibrate it",
                where=where,
                fix="quantize the model without it, or omit --quantize",
            )
    if not computes_in_float(model):
        raise UnsupportedModelError(
            "no operator computes in float32: there is nothing to quantize", where=where, fix="omit --quantize"
        )
    for index in model.main.inputs:
        if model.main.tensors[index].dtype not in STORED:
            dtype = model.main.tensors[index].dtype.name.lower()
            raise UnsupportedModelError(
                f"input {_name(model, index)!r} is of type {dtype}", where=where, fix="use a numeric input"
            )


@dataclass(frozen=True, slots=True)
class FloatTflite:
    """A float32 .tflite in the form that TensorFlow receives.

    original: the file's model with constants in float32. model, content: the model with its operators in the form that
    Keras models have, and its bytes. layers: groups of operators by the names of their tensors.
    specs: the inputs in the graph's order; a first dimension of 1 is the batch. ranges: for synthetic samples. notes:
    sentences for the user.
    """

    original: Model
    model: Model
    content: bytes
    layers: LayerMap
    specs: tuple[InputSpec, ...]
    ranges: tuple[Range, ...]
    notes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs' names in the signature, in the graph's order."""
        return tuple(spec.name for spec in self.specs)


def float_tflite(
    model: Model, scheme: str, where: str, *, known_sizes: Callable[[Model], Model] | None = None
) -> FloatTflite:
    """Prepare a model that the reader accepted for quantization. Raises the same errors as check_quantizable.

    known_sizes: returns a model with the sizes that it computes; None if all are known.
    """
    check_quantizable(model, scheme, where)
    ready, count = _with_float_constants(model)
    for name in (PLAN, PLAN_RECORD, STABLEHLO_CONSTANTS):
        ready = without_metadata(ready, name)
    original = _with_signature(ready)
    sized = original if known_sizes is None else known_sizes(original)
    ready = spread_scales(tidy_float(normalize_accurately(tidy_float(sized), use_l2=scheme == "int8")))
    names = [name for name, _ in ready.signatures[0].inputs]
    tensors = [ready.main.tensors[index] for index in ready.main.inputs]
    specs = tuple(
        InputSpec(name, _sample_shape(tensor.shape), "float32" if is_quantized(tensor) else STORED[tensor.dtype].name)
        for name, tensor in zip(names, tensors, strict=True)
    )
    ranges = tuple(
        _index_range(ready.main, tensor.index) or default_range(spec)
        for tensor, spec in zip(tensors, specs, strict=True)
    )
    notes = (_expanded_note(count),) if count else ()
    return FloatTflite(original, ready, write_model(ready), LayerMap(_scopes(ready)), specs, ranges, notes)


def _expanded_note(count: int) -> str:
    if count == 1:
        return "1 constant that is stored in fewer bits was expanded to float32"
    return f"{count} constants that are stored in fewer bits were expanded to float32"


def _with_float_constants(model: Model) -> tuple[Model, int]:
    """Return the model with float16 and quantized weights as float32, and their number."""
    count = 0
    for subgraph in range(len(model.subgraphs)):
        draft = Draft(model, subgraph)
        changed = 0
        for index in [operator.index for operator in draft.operators]:
            operator = draft.operator(index)
            assert operator is not None
            if not operator.outputs or draft.tensors[operator.outputs[0]].dtype is not DType.FLOAT32:
                continue
            inputs = tuple(_in_float(draft, tensor) for tensor in operator.inputs)
            converted = len(inputs) - inputs.count(None)
            if operator.code == "DEQUANTIZE" and inputs[0] is not None and operator.outputs[0] not in draft.outputs:
                draft.redirect(operator.outputs[0], inputs[0])
                draft.replace(operator)
            elif operator.code != "DEQUANTIZE" and converted:
                new_inputs = (old if new is None else new for old, new in zip(operator.inputs, inputs, strict=True))
                draft.replace(operator, replace(operator, inputs=tuple(new_inputs)))
            else:
                converted = 0
            changed += converted
        if changed:
            model, count = draft.finish(), count + changed
    return model, count


def _in_float(draft: Draft, index: int) -> int | None:
    """Return a float16 or quantized constant as a float32 constant; None for any other tensor."""
    values = draft.values(index)
    if values is None or draft.tensors[index].data is None:
        return None
    tensor, quantization = draft.tensors[index], draft.tensors[index].quantization
    if tensor.dtype is DType.FLOAT16:
        reals = values.astype(np.float32)
    elif tensor.dtype in (DType.INT8, DType.UINT8) and quantization is not None and quantization.scales:
        shape = [1] * values.ndim
        if quantization.per_channel:
            shape[quantization.axis] = -1
        scales = np.array(quantization.scales, np.float32).reshape(shape)
        points = np.array(quantization.zero_points or (0,), np.float32)
        reals = (values.astype(np.float32) - (points.reshape(shape) if points.size > 1 else points)) * scales
    else:
        return None
    return draft.constant(f"{tensor.name}_in_float" if tensor.name else "", reals, None, DType.FLOAT32)


def _with_signature(model: Model) -> Model:
    """Return the model with one signature of all inputs and outputs, with the names in the file or those of tensors."""
    sides = []
    for indices in (model.main.inputs, model.main.outputs):
        sides.append(signature_names(unique_names([_name(model, index) for index in indices])))
    inputs, outputs = (
        tuple(zip(names, indices, strict=True))
        for names, indices in zip(sides, (model.main.inputs, model.main.outputs), strict=True)
    )
    return replace(model, signatures=(Signature(SIGNATURE, 0, inputs, outputs),))


def _name(model: Model, index: int) -> str:
    """Return the user's name of an input or output, without the prefix and the number that converters add."""
    tensor = model.main.tensors[index].name
    return model.argument_name(0, index) or re.sub(r":\d+$", "", tensor.removeprefix(f"{SIGNATURE}_")) or "tensor"


def _sample_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[1:] if shape[:1] == (1,) else shape


def _index_range(graph: Graph, index: int) -> Range | None:
    """Return the range of an input that contains indices of a table; None for other inputs."""
    sizes = []
    for operator in graph.operators:
        if (positions := WITH_TABLE.get(operator.code)) and operator.inputs[positions[0]] == index:
            shape = graph.tensors[operator.inputs[positions[1]]].shape
            axis = operator.options.integer("axis") if operator.code == "GATHER" and operator.options else 0
            sizes.append(shape[axis] if shape else 1)
    return Range(0, min(sizes) - 1, whole=True) if sizes else None


def _scopes(model: Model) -> dict[str, str]:
    """Return layers according to the names of tensors: "block/conv" -> "Conv2D" for "block/conv/Conv2D".

    If a layer has several operations, the one with weights is used.
    """
    scopes: dict[str, str] = {}
    for operator in model.main.operators:
        for name in model.main.tensors[operator.outputs[0]].name.split(";") if operator.outputs else ():
            scope, _, operation = name.rpartition("/")
            scope = scope or name
            if scope and (scope not in scopes or any(word in operation for word in WEIGHTED_LAYERS)):
                scopes[scope] = operation or operator.label
    return scopes


def loaded_tflite(tflite: FloatTflite) -> FloatModel:
    """Return the file as a float model that runs on TensorFlow Lite."""
    reference = TfliteRunner(tflite.original, write_model(tflite.original))
    tidied = None if tflite.model is tflite.original else TfliteRunner(tflite.model, tflite.content)

    def reset() -> None:
        for runner in (reference, tidied):
            if runner is not None:
                runner.start()

    return FloatModel(
        specs=tflite.specs,
        output_names=tuple(name for name, _ in tflite.model.signatures[0].outputs),
        ranges=tflite.ranges,
        call=reference,
        chunk=1,
        tracked=(),
        traced=tidied,
        notes=tflite.notes,
        reset=reset,
    )


class TfliteRunner:
    """Runs one sample at a time; as on a device, states persist between samples."""

    def __init__(self, model: Model, content: bytes) -> None:
        self._graph, self._content = model.main, content
        self._interpreter: Any = None

    def start(self) -> None:
        """Start with new states."""
        self._interpreter = interpreter(self._content)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the outputs of one sample."""
        if self._interpreter is None:
            self.start()
        graph, runtime = self._graph, self._interpreter
        for index, values in zip(graph.inputs, arrays, strict=True):
            runtime.set_tensor(index, _as_stored(values, graph.tensors[index]))
        runtime.invoke()
        return [with_batch(_as_reals(runtime.get_tensor(index), graph.tensors[index])) for index in graph.outputs]

    def shapes(self) -> dict[int, tuple[int, ...]]:
        """Return the shape of each tensor after an inference on zeros, from new states."""
        self.start()
        for index in self._graph.inputs:
            tensor = self._graph.tensors[index]
            self._interpreter.set_tensor(index, np.zeros(tensor.shape, STORED[tensor.dtype]))
        self._interpreter.invoke()
        details = self._interpreter.get_tensor_details()
        return {int(tensor["index"]): tuple(int(size) for size in tensor["shape"]) for tensor in details}


def _as_stored(values: Array, tensor: Tensor) -> Array:
    """Return a sample in the shape of an input, and as codes if the input is quantized."""
    shaped = np.reshape(values, tensor.shape)
    return quantized(shaped.astype(np.float64), tensor).astype(STORED[tensor.dtype]) if is_quantized(tensor) else shaped


def _as_reals(values: Array, tensor: Tensor) -> Array:
    """Return an output as real numbers."""
    return dequantized(values, tensor).astype(np.float32) if is_quantized(tensor) else values


def with_batch(values: Any) -> Any:
    """Return an output with a batch of 1, which is added if its first dimension is not 1."""
    return values if values.shape[:1] == (1,) else values[None]


def with_given_scales(calibrated: bytes) -> bytes:
    """Return a calibrated model in which tensors between float and int8 have only the scales that the file gives.

    From a range as well, TensorFlow's quantizer computes a second scale, and with that the scale of biases.
    """
    model = read_model(calibrated)
    draft = Draft(model)
    floats = [
        (operator.inputs if operator.code == "QUANTIZE" else operator.outputs)[0]
        for operator in draft.operators
        if operator.code in CONVERSIONS
    ]
    ranged = [index for index in floats if draft.tensors[index].dtype is DType.FLOAT32]
    for index in ranged:
        draft.tensors[index] = replace(draft.tensors[index], quantization=None)
    return write_model(draft.finish()) if ranged else calibrated


def quantize_tflite(
    tflite: FloatTflite,
    samples: Sequence[Any],
    options: ConverterOptions,
    workdir: Path,
    progress: child.Progress,
) -> ConversionResult:
    """Calibrate and quantize the file; `samples` has one array (N, ...) per input.

    Raises ConversionError with TensorFlow's message, and UsageError for a layer in keep_float that does not exist.
    """
    if options.quantize not in INTEGER:
        raise UnsupportedModelError(f"a .tflite cannot be converted to {options.quantize}", fix="omit --quantize")
    from tensorflow.lite.python.optimize.calibrator import Calibrator, add_intermediate_tensors
    from tensorflow.python.framework import dtypes

    tensors = {
        name: tflite.model.main.tensors[index]
        for name, index in zip(tflite.names, tflite.model.main.inputs, strict=True)
    }

    def shaped() -> Iterator[dict[str, Any]]:
        for row in sample_rows(tflite.names, samples, progress):
            yield {name: _as_stored(values, tensors[name]) for name, values in row.items()}

    def feed() -> Iterator[list[Any]]:
        return (list(row.values()) for row in shaped())

    def debug_rows() -> list[dict[str, Any]]:
        return list(islice(shaped(), MAX_SAMPLES))

    with explain_errors(tflite.layers, {}, workdir):
        calibrator = Calibrator(add_intermediate_tensors(tflite.content))
        if options.quantize == "int16x8":
            io_type = dtypes.as_dtype(options.io_type)
            content = calibrator.calibrate_and_quantize(
                feed,
                io_type,
                io_type,
                allow_float=True,
                activations_type=dtypes.int16,
                bias_type=dtypes.int64,
                disable_per_channel_quantization_for_dense_layers=options.dense_per_tensor,
            )
            return ConversionResult(bytes(content))
        settings = QuantizerSettings(options.io_type, options.io_type, options.dense_per_tensor)
        calibrated = with_given_scales(bytes(calibrator.calibrate(feed)))
        quantized = quantize_calibrated(settings, calibrated, tflite.layers, options.keep_float)
        return with_layer_losses(quantized, settings, tflite.layers, options, debug_rows, progress)
