"""Conversions at the inputs and outputs of a model that can be removed, and inputs of types that TFLM cannot cast.

An "end" is an input or an output of the graph.

Models from quantization-aware training, and those of older converters, begin with a QUANTIZE of float inputs and end
with a DEQUANTIZE. Without these, the firmware quantizes with the scales of the inner tensors.

Keras casts its inputs to the type that its layers compute in. TFLM cannot cast uint8, int64 and float64, and an image
cast to float32 takes four times its memory before it is quantized. Such inputs get a type that TFLM can read.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from edgetool.model.draft import Draft
from edgetool.model.types import CONVERSIONS, DType, Model, Operator, Quantization, Tensor

# The types that an end can get, by their --io name.
INTEGERS = {"int8": DType.INT8, "int16": DType.INT16}
# The types of quantized values at the ends of a graph.
QUANTIZED = frozenset([DType.INT8, DType.INT16, DType.UINT8])


@dataclass(frozen=True, slots=True)
class GraphEnd:
    """Operators at one end that only change how its values are stored.

    tensor: the current input or output of the graph; inner: the tensor that would replace it; operators: those that
    would be removed.
    """

    tensor: int
    inner: int
    operators: tuple[Operator, ...]


def conversions_at_ends(model: Model) -> tuple[str, ...]:
    """Return a sentence for each input and output next to operators that only change its type or scale."""
    draft = Draft(model)
    return tuple(_describe(draft, end, side) for side, end in _all_ends(draft))


def trim_ends(model: Model, io_type: str, keep_inputs: Container[int] = ()) -> tuple[Model, tuple[str, ...]]:
    """Return the model whose ends have that type if possible, and a sentence for each end with such operators.

    io_type: "int8" or "int16"; for any other type, nothing is removed. keep_inputs: positions of inputs that do not
    change, because the model itself reads integers. The firmware takes over a removed QUANTIZE or DEQUANTIZE, with the
    scale and zero point of the new end; all other values stay the same, and so do names, order and signatures. An end
    remains if it has other uses, or if no inner tensor has that type. There is no sentence for an end that already has
    the requested type.
    """
    draft = Draft(model)
    notes: list[str] = []
    changed = False
    for side, end in _all_ends(draft):
        outer, inner = draft.tensors[end.tensor], draft.tensors[end.inner]
        is_kept = side == "input" and draft.inputs.index(end.tensor) in keep_inputs
        is_removed = inner.dtype is INTEGERS.get(io_type) and not is_kept
        if is_removed:
            notes.append(f"{_describe(draft, end, side)} {'was' if len(end.operators) == 1 else 'were'} removed")
            (_trim_input if side == "input" else _trim_output)(draft, end)
            changed = True
        elif outer.dtype.name.lower() != io_type:
            notes.append(_describe(draft, end, side))
    return draft.finish() if changed else model, tuple(notes)


def _all_ends(draft: Draft) -> list[tuple[str, GraphEnd]]:
    return [*(("input", end) for end in _input_ends(draft)), *(("output", end) for end in _output_ends(draft))]


def _input_ends(draft: Draft) -> list[GraphEnd]:
    """Return the inputs whose every use is a conversion to one and the same quantization."""
    return [end for index in dict.fromkeys(draft.inputs) if (end := _input_end(draft, index)) is not None]


def _input_end(draft: Draft, index: int) -> GraphEnd | None:
    removed: list[Operator] = []
    inner = index
    while inner not in draft.outputs:
        readers = draft.consumers(inner)
        converted = [draft.tensors[reader.outputs[0]] for reader in readers if _converts(reader)]
        if (
            not converted
            or len(converted) != len(readers)
            or any(not _same_representation(tensor, converted[0]) for tensor in converted)
        ):
            break
        if (
            any(tensor.index in draft.outputs for tensor in converted)
            or converted[0].shape != draft.tensors[index].shape
        ):
            break
        if len(converted) > 1 and any(tensor.dtype not in QUANTIZED for tensor in converted):
            break
        removed += readers
        inner = converted[0].index
        if len(converted) > 1:
            break  # the operators after each of them may differ
    while removed and draft.tensors[inner].dtype not in QUANTIZED:  # a float end would be no improvement
        inner = removed.pop().inputs[0]
    return GraphEnd(index, inner, tuple(removed)) if removed else None


def _converts(operator: Operator) -> bool:
    return operator.code in CONVERSIONS


def _output_ends(draft: Draft) -> list[GraphEnd]:
    """Return the outputs that a conversion writes and that no other operator reads."""
    return [end for index in dict.fromkeys(draft.outputs) if (end := _output_end(draft, index)) is not None]


def _output_end(draft: Draft, index: int) -> GraphEnd | None:
    removed: list[Operator] = []
    inner, read_by = index, 0  # the number of readers that are removed anyway
    while (producer := draft.producer(inner)) is not None and _converts(producer):
        source = draft.tensors[producer.inputs[0]]
        if len(draft.consumers(inner)) > read_by or (removed and inner in draft.outputs):
            break
        if source.is_constant or source.is_variable or source.index in draft.inputs:
            break
        removed.append(producer)
        inner, read_by = source.index, 1
    while removed and draft.tensors[inner].dtype not in QUANTIZED:
        inner = removed.pop().outputs[0]
    return GraphEnd(index, inner, tuple(removed)) if removed and inner not in draft.outputs else None


def _same_representation(first: Tensor, second: Tensor) -> bool:
    """Whether both store values in the same way: with one scale and zero point, or without."""
    by_channel = any(tensor.quantization and tensor.quantization.per_channel for tensor in (first, second))
    return first.dtype is second.dtype and not by_channel and first.per_tensor == second.per_tensor


def _trim_input(draft: Draft, end: GraphEnd) -> None:
    old, inner = draft.tensors[end.tensor], draft.tensors[end.inner]
    for operator in end.operators:
        if _same_representation(draft.tensors[operator.outputs[0]], inner):
            draft.redirect(operator.outputs[0], end.inner)
    for operator in end.operators:
        draft.replace(operator)
    draft.tensors[end.inner] = replace(inner, name=old.name, shape_signature=old.shape_signature)
    draft.replace_input(end.tensor, end.inner)


def _trim_output(draft: Draft, end: GraphEnd) -> None:
    old, inner = draft.tensors[end.tensor], draft.tensors[end.inner]
    draft.tensors[end.inner] = replace(inner, name=old.name)
    draft.redirect(end.tensor, end.inner)
    for operator in end.operators:
        draft.replace(operator)


def _describe(draft: Draft, end: GraphEnd, side: str) -> str:
    """Return "input 'x': QUANTIZE from float32 to int8 (scale 0.5, zero point -1)", in the direction of the data."""
    outer, inner = draft.tensors[end.tensor], draft.tensors[end.inner]
    name = draft.model.argument_name(draft.subgraph, end.tensor) or outer.name
    labels = ", ".join(dict.fromkeys(operator.label for operator in end.operators))
    first, last = (outer, inner) if side == "input" else (inner, outer)
    return f"{side} {name!r}: {labels} from {_stored(first)} to {_stored(last)}"


def _stored(tensor: Tensor) -> str:
    name, quantization = tensor.dtype.name.lower(), tensor.per_tensor
    return name if quantization is None else f"{name} (scale {quantization[0]:.6g}, zero point {quantization[1]})"


# Types that become a narrower type, which can represent the values that occur on a device.
NARROWER = {
    DType.FLOAT64: DType.FLOAT32,
    DType.FLOAT16: DType.FLOAT32,
    DType.INT64: DType.INT32,
    DType.UINT64: DType.INT32,
    DType.UINT16: DType.INT32,
}
# Types that QUANTIZE reads as codes: the values themselves, with a scale of 1.
CODES = frozenset([DType.INT8, DType.UINT8])
IDENTITY_QUANTIZATION = Quantization((1.0,), (0,), 0)


def readable_inputs(model: Model) -> tuple[Model, tuple[str, ...]]:
    """Return the model without CAST operators at its inputs, and a sentence for each input whose type changed.

    A float64, float16, int64, uint64 or uint16 input becomes float32 or int32: exact for values that these can
    represent. An int8 or uint8 input that is cast to float to be quantized is quantized from its own codes, with scale
    1 and zero point 0: exact except for values half-way between two codes. Inputs with a reader other than CAST do not
    change.
    """
    draft = Draft(model)
    notes: list[str] = []
    changed = False
    for index in dict.fromkeys(draft.inputs):
        tensor = draft.tensors[index]
        casts = draft.consumers(index)
        if not casts or index in draft.outputs or any(cast.code != "CAST" for cast in casts):
            continue
        if tensor.dtype in NARROWER:
            narrow = NARROWER[tensor.dtype]
            _narrow(draft, tensor, casts, narrow)
            name = draft.model.argument_name(draft.subgraph, index) or tensor.name
            notes.append(
                f"input {name!r} is {narrow.name.lower()} instead of {tensor.dtype.name.lower()}: TFLM cannot cast it"
            )
            changed = True
        elif tensor.dtype in CODES and tensor.quantization is None and _only_to_quantize(draft, casts):
            _quantize_directly(draft, tensor, casts)
            changed = True
    return draft.finish() if changed else model, tuple(notes)


def _narrow(draft: Draft, tensor: Tensor, casts: list[Operator], narrow: DType) -> None:
    draft.tensors[tensor.index] = replace(tensor, dtype=narrow)
    for cast in casts:
        output = cast.outputs[0]
        if draft.tensors[output].dtype is narrow and output not in draft.outputs:
            draft.redirect(output, tensor.index)
            draft.replace(cast)
        else:  # from the new type; the options repeat the types where a file has them
            draft.replace(cast, replace(cast, options=None, version=1))


def _only_to_quantize(draft: Draft, casts: list[Operator]) -> bool:
    """Whether the results of the casts are float32 and read only by QUANTIZE to int8."""
    outputs = [cast.outputs[0] for cast in casts]
    if any(draft.tensors[index].dtype is not DType.FLOAT32 or index in draft.outputs for index in outputs):
        return False
    readers = [draft.consumers(index) for index in outputs]
    quantized = [draft.tensors[reader.outputs[0]] for group in readers for reader in group if reader.code == "QUANTIZE"]
    all_quantize = all(readers) and len(quantized) == sum(map(len, readers))
    return all_quantize and all(tensor.dtype is DType.INT8 for tensor in quantized)


def _quantize_directly(draft: Draft, tensor: Tensor, casts: list[Operator]) -> None:
    draft.tensors[tensor.index] = replace(tensor, quantization=IDENTITY_QUANTIZATION)
    for cast in casts:
        draft.redirect(cast.outputs[0], tensor.index)
        draft.replace(cast)
