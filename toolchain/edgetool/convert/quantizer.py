"""TensorFlow's int8 quantizer, run apart from its calibration, and ways around its defects. In the child process only.

TensorFlow's converter calibrates and quantizes in one call. If these are separate, one calibration serves the model
itself, the one that verifies each layer, and those that keep layers in float.

**Order of results.** The same model must give the same file. In TensorFlow 2.21, `QuantizationDriver::Finalize` puts a
QUANTIZE and a DEQUANTIZE after each operator result, and visits the results in the order of `result_states_`, an
`llvm::DenseMap` whose keys hold the address of the operation. That order differs from run to run, even without address
space randomization and on one core. It does not matter to operators with one result, since each pair goes directly
after its own operator. After an operator with several results, the pairs are in random order, with two
consequences:

- If nothing reads one of the results (the forget gate of an LSTM's first time step, which is multiplied by zero), its
  pair is dead code. Whether it is removed before or after the operator is rewritten depends on the order. The rewrite
  needs the pair: without it, the operator stays in float32 between DEQUANTIZE and QUANTIZE.
- The pairs that remain, such as those of a layer that is kept in float32, have random positions and names.

So results that nothing reads become graph outputs while the quantizer runs, and the remaining pairs are put in the
order of the results afterwards. Models without such operators pass through unchanged, byte for byte.

**Common scales.** The quantizer gives the inputs and outputs of CONCATENATION, MAXIMUM, MINIMUM and PACK one scale. If
several of them meet on one tensor, or the tensor's scale is not free (TANH, a graph output), it chooses two
("quantization parameters violate the same scale constraint") and rejects the model, or breaks the scale that a kernel
requires. Such operators are hidden from it as custom operators, which it leaves in float and does not constrain. Then
they are restored in int8, with a QUANTIZE for each input whose scale differs from the result's. This is for
SavedModels, whose graphs are converted as they are. In the graph of a Keras model, lowering.requantize gives such
tensors a second scale before the quantizer sees them, so that it succeeds at the first attempt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from edgetool.convert.lite import mlir_quantize
from edgetool.errors import UsageError
from edgetool.model.draft import Draft
from edgetool.model.edit import renumbered
from edgetool.model.reader import read_model
from edgetool.model.scopes import layer_of, sanitised
from edgetool.model.types import CONVERSIONS, DType, Graph, Model, Operator, Quantization, Signature, Tensor
from edgetool.model.writer import write_model

# The quantizable operators with more than one float32 result.
MULTI_RESULT_OPERATORS = frozenset(["SPLIT", "SPLIT_V", "UNPACK"])
_UNREAD = "edgetool_unread_"

Quantizer = Callable[[bytes], bytes]


def quantize_in_order(quantize: Quantizer, calibrated: bytes) -> bytes:
    """Quantize a calibrated .tflite independently of the order in which `quantize` visits results."""
    model = read_model(calibrated)
    if not any(_multi_result_operators(graph) for graph in model.subgraphs):
        return quantize(calibrated)
    unread = unread_results(model.main)
    content = quantize(write_model(with_outputs(model, unread)) if unread else calibrated)
    quantized = read_model(content)
    if unread:
        quantized = without_last_outputs(quantized, len(unread))
    # Even if all are in order: write_model lays a file out differently from TensorFlow.
    rewritten = unread or any(
        len(tuple(_conversions_after(graph, operator.index))) > 1
        for graph in quantized.subgraphs
        for operator in _multi_result_operators(graph)
    )
    return write_model(in_result_order(quantized)) if rewritten else content


def unread_results(graph: Graph) -> tuple[int, ...]:
    """Return the float32 results of operators with several that neither an operator nor the graph's caller reads."""
    read = {index for operator in graph.operators for index in operator.inputs} | set(graph.outputs)
    return tuple(
        index
        for operator in _multi_result_operators(graph)
        for index in operator.outputs
        if index not in read and graph.tensors[index].dtype is DType.FLOAT32
    )


def with_outputs(model: Model, tensors: Sequence[int]) -> Model:
    """Return the model with these tensors as further outputs of its main graph, and of the graph's signatures."""
    named = tuple((f"{_UNREAD}{position}", tensor) for position, tensor in enumerate(tensors))
    main = replace(model.main, outputs=(*model.main.outputs, *tensors))
    return _with_main(model, main, lambda signature: (*signature.outputs, *named))


def without_last_outputs(model: Model, count: int) -> Model:
    """Return the model without the last `count` outputs of its main graph, and without the conversions for them."""
    kept, removed = model.main.outputs[:-count], model.main.outputs[-count:]
    draft = Draft(
        _with_main(
            model,
            replace(model.main, outputs=kept),
            lambda signature: tuple(pair for pair in signature.outputs if not pair[0].startswith(_UNREAD)),
        )
    )
    for tensor in removed:
        while (producer := draft.producer(tensor)) is not None and producer.code in CONVERSIONS:
            if draft.consumers(tensor) or tensor in draft.outputs:
                break
            draft.replace(producer)
            tensor = producer.inputs[0]
    return draft.finish()


def _with_main(model: Model, main: Graph, outputs: Callable[[Signature], tuple[tuple[str, int], ...]]) -> Model:
    signatures = tuple(
        signature if signature.subgraph else replace(signature, outputs=outputs(signature))
        for signature in model.signatures
    )
    return replace(model, subgraphs=(main, *model.subgraphs[1:]), signatures=signatures)


def in_result_order(model: Model) -> Model:
    """Return the model with the conversions after each operator with several results in the order of these.

    Only conversions directly after the operator move, and only among their own places. Each place keeps the index and
    name of its tensor, which follow from it; a graph output keeps its name.
    """
    for subgraph in range(len(model.subgraphs)):
        for operator in _multi_result_operators(model.subgraphs[subgraph]):
            model = _in_order_after(model, subgraph, operator.index)
    return model


def _in_order_after(model: Model, subgraph: int, place: int) -> Model:
    graph = model.subgraphs[subgraph]
    old = tuple(_conversions_after(graph, place))
    new = tuple(_sorted(graph, graph.operators[place].outputs, old))
    if old == new:
        return model
    moved_to = {one.outputs[0]: slot.outputs[0] for slot, one in zip(old, new, strict=True)}

    def moved(indices: Sequence[int]) -> tuple[int, ...]:
        return tuple(moved_to.get(index, index) for index in indices)

    names = iter([graph.tensors[one.outputs[0]].name for one in old if one.outputs[0] not in graph.outputs])
    tensors = list(graph.tensors)
    for slot, one in zip(old, new, strict=True):
        tensor, slot_tensor = graph.tensors[one.outputs[0]], graph.tensors[slot.outputs[0]]
        name = tensor.name if tensor.index in graph.outputs else next(names)
        tensors[slot_tensor.index] = replace(tensor, index=slot_tensor.index, name=name, buffer=slot_tensor.buffer)
    operators = list(graph.operators)
    operators[place + 1 : place + 1 + len(new)] = new
    changed = replace(
        graph,
        tensors=tuple(tensors),
        operators=tuple(replace(one, inputs=moved(one.inputs), outputs=moved(one.outputs)) for one in operators),
        outputs=moved(graph.outputs),
    )
    signatures = tuple(
        replace(one, outputs=tuple((name, moved_to.get(tensor, tensor)) for name, tensor in one.outputs))
        if one.subgraph == subgraph
        else one
        for one in model.signatures
    )
    graphs = tuple(changed if one.index == subgraph else one for one in model.subgraphs)
    return renumbered(replace(model, subgraphs=graphs, signatures=signatures))


def _conversions_after(graph: Graph, place: int) -> Iterator[Operator]:
    """Yield the conversions directly after an operator, of its results or of other conversions' results."""
    reached = set(graph.operators[place].outputs)
    for operator in graph.operators[place + 1 :]:
        if operator.code not in CONVERSIONS or operator.inputs[0] not in reached:
            return
        reached.add(operator.outputs[0])
        yield operator


def _sorted(graph: Graph, results: Sequence[int], conversions: Sequence[Operator]) -> Iterator[Operator]:
    """Yield the conversions result by result, each before its readers; those of one tensor sorted by their results."""
    for result in results:
        readers = [operator for operator in conversions if operator.inputs[0] == result]
        for operator in sorted(readers, key=lambda one: _sort_key(one, graph.tensors[one.outputs[0]])):
            yield operator
            yield from _sorted(graph, operator.outputs, conversions)


def _sort_key(operator: Operator, tensor: Tensor) -> tuple[str, int, float, int]:
    scale, zero_point = tensor.per_tensor or (0.0, 0)
    return operator.code, tensor.dtype.code, scale, zero_point


def _multi_result_operators(graph: Graph) -> tuple[Operator, ...]:
    return tuple(one for one in graph.operators if one.code in MULTI_RESULT_OPERATORS and len(one.outputs) > 1)


SAME_SCALE_OPERATORS = frozenset(["CONCATENATION", "MAXIMUM", "MINIMUM", "PACK"])
# The scale that kernels require of an int8 result.
FIXED_RESULT_SCALES = {"LOGISTIC": 1 / 256, "SOFTMAX": 1 / 256, "TANH": 1 / 128}
INT8_VERSION = 2  # of these operators' int8 forms
MAX_TRIALS = 16  # operators that are restored before quantization, one at a time; each trial quantizes the whole model
MIN_COVERED_RANGE = 0.95  # of a tensor's range that its scale must cover, or an operator stays hidden
_HIDDEN = "edgetool.hidden."


@dataclass(frozen=True, slots=True)
class QuantizerOutput:
    """A quantized .tflite, and the operators of the calibrated model whose inputs were requantized to one scale."""

    content: bytes
    requantized: tuple[Operator, ...] = ()


def quantize_with_hidden_operators(quantize: Quantizer, calibrated: bytes) -> QuantizerOutput:
    """Quantize a calibrated model with as few operators hidden from `quantize` as possible.

    Raises the RuntimeError of `quantize` if hiding operators does not help.
    """
    refusal: RuntimeError | None = None
    try:
        content = quantize(calibrated)
        if not _wrong_scales(read_model(content).main):
            return QuantizerOutput(content)
    except RuntimeError as error:
        refusal, content = error, b""
    model = read_model(calibrated)
    candidates = tuple(operator for operator in model.main.operators if operator.code in SAME_SCALE_OPERATORS)
    best = _quantize_hiding(quantize, model, candidates) if candidates else None
    if best is None:
        if refusal is not None:
            raise refusal
        return QuantizerOutput(content)
    for operator in sorted(candidates, key=lambda one: -_elements(model.main, one))[:MAX_TRIALS]:
        fewer = _quantize_hiding(quantize, model, tuple(one for one in best.requantized if one is not operator))
        if fewer is not None and not _clips_calibrated_range(fewer.content, model.main):
            best = fewer
    return best


def _quantize_hiding(quantize: Quantizer, model: Model, hidden: tuple[Operator, ...]) -> QuantizerOutput | None:
    """Return None if the quantizer still rejects the model, or breaks a scale that a kernel requires."""
    try:
        content = quantize(_hide(model, hidden))
    except RuntimeError:
        return None
    shown = _unhide(read_model(content), {f"{_HIDDEN}{operator.index}": operator for operator in hidden})
    return None if _wrong_scales(shown.main) else QuantizerOutput(write_model(shown), hidden)


def _wrong_scales(graph: Graph) -> bool:
    """Return whether the scale of an operator's result differs from the one that its kernel requires."""
    for operator in graph.operators:
        result = graph.tensors[operator.outputs[0]] if operator.code in FIXED_RESULT_SCALES else None
        if result is not None and result.dtype is DType.INT8 and result.per_tensor is not None:
            scale, _ = result.per_tensor
            if abs(scale / FIXED_RESULT_SCALES[operator.code] - 1) > 1e-3:
                return True
    return False


def _clips_calibrated_range(content: bytes, calibrated: Graph) -> bool:
    """Return whether a tensor's int8 values do not cover its calibrated range."""
    ranges = {tensor.name: tensor.quantization for tensor in calibrated.tensors if tensor.data is None}
    for tensor in read_model(content).main.tensors:
        parameters, expected = tensor.per_tensor, ranges.get(tensor.name)
        if tensor.dtype is not DType.INT8 or parameters is None or expected is None or not expected.maximum:
            continue
        scale, zero_point = parameters
        low, high = (scale * (end - zero_point) for end in (-128, 127))
        minimum, maximum = min(expected.minimum[0], 0.0), max(expected.maximum[0], 0.0)
        if low > MIN_COVERED_RANGE * minimum or high < MIN_COVERED_RANGE * maximum:
            return True
    return False


def _hide(model: Model, operators: Sequence[Operator]) -> bytes:
    draft = Draft(model)
    for operator in operators:
        name = f"{_HIDDEN}{operator.index}"
        draft.replace(
            operator, replace(operator, code="CUSTOM", version=1, custom_code=name, options=None, options_in_2=False)
        )
    return write_model(draft.finish())


def _unhide(model: Model, hidden: Mapping[str, Operator]) -> Model:
    """Restore the hidden operators: in int8 if their result is quantized, otherwise in float."""
    draft = Draft(model)
    for custom in draft.operators.copy():
        original = hidden.get(custom.custom_code or "")
        if original is None:
            continue
        form = replace(original, index=custom.index, inputs=custom.inputs, outputs=custom.outputs)
        draft.replace(custom, form)
        readers = draft.consumers(form.outputs[0])
        if len(readers) == 1 and readers[0].code == "QUANTIZE" and form.outputs[0] not in draft.outputs:
            _make_int8(draft, form, readers[0])
    return draft.finish()


def _make_int8(draft: Draft, operator: Operator, after: Operator) -> None:
    """Replace an operator and the QUANTIZE after it by its int8 form, with every input in the scale of the result."""
    result = draft.tensors[after.outputs[0]]
    common = result.quantization
    if result.dtype is not DType.INT8 or common is None or common.per_tensor is None:
        return
    before = [_int8_input(draft, index, common) for index in operator.inputs]
    if None in before:
        return
    inputs: list[int] = []
    steps: dict[int, Operator] = {}
    for index in (index for index in before if index is not None):
        tensor = draft.tensors[index]
        if tensor.per_tensor == common.per_tensor:
            inputs.append(index)
            continue
        if index not in steps:
            requantized = draft.tensor(f"{tensor.name}_requantized", tensor.shape, DType.INT8, _without_range(common))
            steps[index] = draft.make("QUANTIZE", [index], [requantized])
        inputs.append(steps[index].outputs[0])
    version = max(operator.version, INT8_VERSION)
    form = replace(operator, inputs=tuple(inputs), outputs=after.outputs, version=version)
    producers = [draft.producer(index) for index in dict.fromkeys(operator.inputs)]
    draft.replace(operator, *steps.values(), form)
    draft.replace(after)
    for producer in producers:
        if producer is None:
            continue
        if not draft.consumers(producer.outputs[0]) and producer.outputs[0] not in draft.outputs:
            draft.replace(producer)


def _int8_input(draft: Draft, index: int, common: Quantization) -> int | None:
    """Return the int8 tensor of a dequantized or constant input; None for any other input."""
    values = draft.values(index)
    if values is not None and common.per_tensor is not None:
        scale, zero_point = common.per_tensor
        codes = np.clip(np.round(values / scale) + zero_point, -128, 127)
        return draft.constant(f"{draft.tensors[index].name}_quantized", codes, _without_range(common), DType.INT8)
    producer = draft.producer(index)
    if producer is None or producer.code != "DEQUANTIZE" or draft.tensors[producer.inputs[0]].dtype is not DType.INT8:
        return None
    return producer.inputs[0]


def _without_range(quantization: Quantization) -> Quantization:
    return replace(quantization, minimum=(), maximum=())


def _elements(graph: Graph, operator: Operator) -> int:
    return sum(graph.tensors[index].element_count for index in (*operator.inputs, *operator.outputs) if index >= 0)


# Layers with weights, whose operator absorbs the normalization and activation that follow: parts of Keras's class
# names, and of TensorFlow's operations.
WEIGHTED_LAYERS = ("Conv", "Dense", "conv", "depthwise", "MatMul")
_CUT_END = re.compile(r"(.+)_(?:given|taken)_\d+")


@dataclass(frozen=True, slots=True)
class LayerMap:
    """The Keras layers of a converted model.

    classes: the Keras class by scope. outputs: the scope of the layer that computes each output, by its name in the
    signature; "" or absent if unknown.
    """

    classes: Mapping[str, str]
    outputs: Mapping[str, str] = field(default_factory=dict)

    def layer_of(self, operator: Operator, model: Model) -> str | None:
        """Return the layer of an operator of the main graph; of several layers in one operator, the one with weights.

        The tensor of an output has no layer in its name: its layer follows from the signature.
        """
        graph = model.main
        if not operator.outputs:
            return None
        name = graph.tensors[operator.outputs[0]].name
        scopes = [scope for part in name.split(";") if (scope := layer_of(part, self.classes)) is not None]
        weighted = [scope for scope in scopes if any(word in self.classes[scope] for word in WEIGHTED_LAYERS)]
        if scopes:
            return (weighted or scopes)[0]
        position = _output_position(operator.outputs[0], graph)
        output = None if position is None else model.argument_name(0, graph.outputs[position])
        return self.outputs.get(output or "") or None

    def cut_layer_of(self, operator: Operator, model: Model) -> str | None:
        """Return the cut layer whose output an operator without a layer reads, or whose input it computes.

        The cut graph's signature names these after the layer: "lstm_given_0" is its output, "lstm_taken_0" its input.
        """
        graph = model.main
        given = _with_sources(operator.inputs, graph) & set(graph.inputs)
        names = [model.argument_name(0, index) for index in graph.inputs if index in given]
        for tensor in operator.outputs:
            position = _output_position(tensor, graph)
            names += [] if position is None else [model.argument_name(0, graph.outputs[position])]
        ends = [match[1] for name in names if (match := _CUT_END.fullmatch(name or ""))]
        return next((scope for scope in self.classes if _signature_name(scope) in ends), None)


@dataclass(frozen=True, slots=True)
class Int8Model:
    """A .tflite in int8, and the calibrated float model it was quantized from; None if nothing was calibrated.

    requantized: the operators whose inputs were requantized because the quantizer found no common scale; each as its
    label and its layer, "" if unknown.
    """

    content: bytes
    calibrated: bytes | None
    requantized: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class QuantizerSettings:
    """Settings of TensorFlow's quantizer: numpy's names of the types of the graph's inputs and outputs.

    dense_per_tensor: one scale for all weights of a dense layer.
    """

    input_type: str
    output_type: str
    dense_per_tensor: bool = False


def settings_of(converter: Any) -> QuantizerSettings:
    """Return the settings of a configured TFLiteConverter."""
    return QuantizerSettings(
        converter.inference_input_type.name,
        converter.inference_output_type.name,
        converter._experimental_disable_per_channel_quantization_for_dense_layers,
    )


def quantize_calibrated(
    settings: QuantizerSettings, calibrated: bytes, layers: LayerMap, keep_float: Sequence[str]
) -> Int8Model:
    """Quantize a calibrated .tflite.

    keep_float: layers whose operators stay in float. Raises UsageError for a layer without operators.
    """
    output = quantize(settings, calibrated, denied=layer_tensors(calibrated, layers, keep_float))
    model = read_model(calibrated)
    requantized = tuple((operator.label, layers.layer_of(operator, model) or "") for operator in output.requantized)
    return Int8Model(output.content, calibrated, requantized)


def convert_calibrated(converter: Any, layers: LayerMap, keep_float: Sequence[str]) -> Int8Model:
    """Run a converter that is configured for int8.

    keep_float: layers whose operators stay in float. Raises UsageError for a layer without operators.
    """
    calibrate, int8_model = converter._quantize, None

    def quantized(*arguments: Any, **named: Any) -> bytes:
        nonlocal int8_model
        converter._experimental_calibrate_only = True
        try:
            captured = bytes(calibrate(*arguments, **named))
        finally:
            converter._experimental_calibrate_only = False
        int8_model = quantize_calibrated(settings_of(converter), captured, layers, keep_float)
        return int8_model.content

    converter._quantize = quantized
    try:
        content = bytes(converter.convert())
    finally:
        converter._quantize = calibrate
    return Int8Model(content, None) if int8_model is None else replace(int8_model, content=content)


def quantize(
    settings: QuantizerSettings, calibrated: bytes, *, denied: Sequence[str] = (), verify: bool = False
) -> QuantizerOutput:
    """Quantize a calibrated model as TensorFlow's converter does, and work around cases that its quantizer rejects.

    denied: names of the calibrated model's tensors whose operators stay in float. verify: add an operator
    NumericVerify(quantized, float) for each one that was quantized, as in TensorFlow's QuantizationDebugger; inputs
    and outputs are then float.
    """

    def quantized(float_model: bytes) -> bytes:
        return mlir_quantize(
            float_model,
            "float32" if verify else settings.input_type,
            "float32" if verify else settings.output_type,
            denied=denied,
            verify=verify,
            dense_per_tensor=settings.dense_per_tensor,
        )

    return quantize_with_hidden_operators(lambda float_model: quantize_in_order(quantized, float_model), calibrated)


def layer_tensors(calibrated: bytes, layers: LayerMap, requested: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the output tensors of all operators of these layers, sub-layers included.

    Raises UsageError for a layer without operators.
    """
    model = read_model(calibrated)
    operators = [(layer, op) for op in model.main.operators if (layer := layers.layer_of(op, model)) is not None]
    tensors: dict[str, list[str]] = {}
    for name in requested:
        scopes = _scopes_of(name, {layer for layer, _ in operators})
        tensors[name] = [
            model.main.tensors[index].name for layer, op in operators if layer in scopes for index in op.outputs
        ]
    missing = [name for name in requested if not tensors[name]]
    if missing:
        available = sorted({layer for layer, _ in operators})
        raise UsageError(
            f"no operator belongs to layer {missing[0]!r}, so there is nothing to keep in float",
            where="--keep-float",
            fix=f"the layers with operators are {', '.join(available[:20]) or 'unknown for this model'}",
        )
    return tuple(dict.fromkeys(name for names in tensors.values() for name in names))


def _scopes_of(name: str, scopes: Collection[str]) -> set[str]:
    """Return the scopes of a layer and of the layers inside it, by its scope or by its Keras name.

    A Keras name may contain other characters ("first conv"), and may omit the models around the layer.
    """
    for scope_name in dict.fromkeys([name, "/".join(sanitised(part) for part in name.split("/")), sanitised(name)]):
        matching = {scope for scope in scopes if f"{scope}/".startswith(f"{scope_name}/")}
        matching = matching or {scope for scope in scopes if f"/{scope_name}/" in f"/{scope}/"}
        if matching:
            return matching
    return set()


def consumer_layers(calibrated: bytes, layers: LayerMap, layer: str) -> tuple[str, ...]:
    """Return the layers that read a layer's results, in the order of the graph."""
    model = read_model(calibrated)
    results: set[int] = set()
    readers: dict[str, None] = {}
    for operator in model.main.operators:
        operator_layer = layers.layer_of(operator, model)
        if operator_layer == layer:
            results |= set(operator.outputs)
        elif results & set(operator.inputs):
            if operator_layer is None or "Concatenate" in layers.classes.get(operator_layer, ""):
                results |= set(operator.outputs)  # values pass through
            if operator_layer is not None:
                readers[operator_layer] = None
    return tuple(readers)


def _with_sources(tensors: Collection[int], graph: Graph) -> set[int]:
    """Return the tensors, and the tensors that they were quantized or dequantized from."""
    reached = set(tensors)
    for operator in reversed(graph.operators):
        if operator.code in CONVERSIONS and reached & set(operator.outputs):
            reached |= set(operator.inputs)
    return reached


def _signature_name(scope: str) -> str:
    """Return a scope as it appears in the names of a signature."""
    return re.sub(r"\W", "_", scope)


def _output_position(tensor: int, graph: Graph) -> int | None:
    """Return the position of the graph output with a tensor's values, quantized or not; None if there is none."""
    reached = {tensor}
    for operator in graph.operators:
        if operator.code in CONVERSIONS and reached & set(operator.inputs):
            reached |= set(operator.outputs)
    return next((position for position, index in enumerate(graph.outputs) if index in reached), None)
