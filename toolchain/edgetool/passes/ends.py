"""The ends of a model: conversions left there, and inputs of types that TFLM cannot cast.

Models that were trained for quantization, and those of older converters, begin with a QUANTIZE of float inputs and end
with a DEQUANTIZE. Without them the firmware quantizes by the scales of the tensors behind.

Inputs of types that TensorFlow Lite Micro cannot cast become inputs of a type that it can read. Pure.

Keras casts what it is given to the type that its layers compute in. TFLM casts no uint8, no int64 and no float64, and a
picture cast to float32 takes four times its memory before it is quantized.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from edgetool.model.draft import Draft
from edgetool.model.types import CONVERSIONS, DType, Model, Operator, Quantization, Tensor

# The types that an end may become, by the name that --io has for them.
INTEGERS = {"int8": DType.INT8, "int16": DType.INT16}
# What a quantized number may be at the ends of a graph.
QUANTIZED = frozenset([DType.INT8, DType.INT16, DType.UINT8])


@dataclass(frozen=True, slots=True)
class End:
    """Operators at one end that only change how its numbers are stored.

    tensor: the graph's input or output now; inner: the tensor that would take its place; operators: which would go.
    """

    tensor: int
    inner: int
    operators: tuple[Operator, ...]


def leftover_ends(model: Model) -> tuple[str, ...]:
    """A sentence for each input and output behind or before which operators only change the type or the scale."""
    draft = Draft(model)
    return tuple(_told(draft, end, side) for side, end in _all(draft))


def trim_ends(model: Model, io_type: str, keep_inputs: Container[int] = ()) -> tuple[Model, tuple[str, ...]]:
    """The model whose ends have that type where they can, and a sentence for each end where operators went or stayed.

    io_type: "int8" or "int16"; any other type takes nothing out. keep_inputs: positions of inputs that stay as they
    are, since integers is what the model itself takes. A removed QUANTIZE or DEQUANTIZE is for the firmware to do with
    the scale and zero point of the new end; all other values stay as they are, and so do names, order and signatures.
    An end stays that is used otherwise too, or where no tensor of that type lies behind it. Nothing is said of an end
    that has the type asked for.
    """
    draft = Draft(model)
    notes: list[str] = []
    changed = False
    for side, end in _all(draft):
        outer, inner = draft.tensors[end.tensor], draft.tensors[end.inner]
        kept = side == "input" and draft.inputs.index(end.tensor) in keep_inputs
        goes = inner.dtype is INTEGERS.get(io_type) and not kept
        if goes:
            notes.append(f"{_told(draft, end, side)} {'was' if len(end.operators) == 1 else 'were'} removed")
            (_trim_input if side == "input" else _trim_output)(draft, end)
            changed = True
        elif outer.dtype.name.lower() != io_type:
            notes.append(_told(draft, end, side))
    return draft.finish() if changed else model, tuple(notes)


def _all(draft: Draft) -> list[tuple[str, End]]:
    return [*(("input", end) for end in _input_ends(draft)), *(("output", end) for end in _output_ends(draft))]


def _input_ends(draft: Draft) -> list[End]:
    """Inputs whose every use is a conversion to one and the same quantization."""
    return [end for index in dict.fromkeys(draft.inputs) if (end := _input_end(draft, index)) is not None]


def _input_end(draft: Draft, index: int) -> End | None:
    gone: list[Operator] = []
    inner = index
    while inner not in draft.outputs:
        readers = draft.consumers(inner)
        made = [draft.tensors[reader.outputs[0]] for reader in readers if _converts(reader)]
        if not made or len(made) != len(readers) or any(not _same(tensor, made[0]) for tensor in made):
            break
        if any(tensor.index in draft.outputs for tensor in made) or made[0].shape != draft.tensors[index].shape:
            break
        if len(made) > 1 and any(tensor.dtype not in QUANTIZED for tensor in made):
            break
        gone += readers
        inner = made[0].index
        if len(made) > 1:
            break  # what follows each of them may differ
    while gone and draft.tensors[inner].dtype not in QUANTIZED:  # an end in float again is no gain
        inner = gone.pop().inputs[0]
    return End(index, inner, tuple(gone)) if gone else None


def _converts(operator: Operator) -> bool:
    return operator.code in CONVERSIONS


def _output_ends(draft: Draft) -> list[End]:
    """Outputs that a conversion makes, which nothing else reads."""
    return [end for index in dict.fromkeys(draft.outputs) if (end := _output_end(draft, index)) is not None]


def _output_end(draft: Draft, index: int) -> End | None:
    gone: list[Operator] = []
    inner, read_by = index, 0  # how many operators may read it: the one that went before
    while (maker := draft.producer(inner)) is not None and _converts(maker):
        source = draft.tensors[maker.inputs[0]]
        if len(draft.consumers(inner)) > read_by or (gone and inner in draft.outputs):
            break
        if source.is_constant or source.is_variable or source.index in draft.inputs:
            break
        gone.append(maker)
        inner, read_by = source.index, 1
    while gone and draft.tensors[inner].dtype not in QUANTIZED:
        inner = gone.pop().outputs[0]
    return End(index, inner, tuple(gone)) if gone and inner not in draft.outputs else None


def _same(first: Tensor, second: Tensor) -> bool:
    """Whether both hold numbers in the same way: with one scale and zero point, or without any."""
    by_channel = any(tensor.quantization and tensor.quantization.per_channel for tensor in (first, second))
    return first.dtype is second.dtype and not by_channel and first.per_tensor == second.per_tensor


def _trim_input(draft: Draft, end: End) -> None:
    old, inner = draft.tensors[end.tensor], draft.tensors[end.inner]
    for operator in end.operators:
        if _same(draft.tensors[operator.outputs[0]], inner):
            draft.redirect(operator.outputs[0], end.inner)
    for operator in end.operators:
        draft.replace(operator)
    draft.tensors[end.inner] = replace(inner, name=old.name, shape_signature=old.shape_signature)
    draft.replace_input(end.tensor, end.inner)


def _trim_output(draft: Draft, end: End) -> None:
    old, inner = draft.tensors[end.tensor], draft.tensors[end.inner]
    draft.tensors[end.inner] = replace(inner, name=old.name)
    draft.redirect(end.tensor, end.inner)
    for operator in end.operators:
        draft.replace(operator)


def _told(draft: Draft, end: End, side: str) -> str:
    """ "input 'x': QUANTIZE from float32 to int8 (scale 0.5, zero point -1)", in the direction of the data."""
    outer, inner = draft.tensors[end.tensor], draft.tensors[end.inner]
    name = draft.model.argument_name(draft.subgraph, end.tensor) or outer.name
    labels = ", ".join(dict.fromkeys(operator.label for operator in end.operators))
    first, last = (outer, inner) if side == "input" else (inner, outer)
    return f"{side} {name!r}: {labels} from {_stored(first)} to {_stored(last)}"


def _stored(tensor: Tensor) -> str:
    name, own = tensor.dtype.name.lower(), tensor.per_tensor
    return name if own is None else f"{name} (scale {own[0]:.6g}, zero point {own[1]})"


# Types whose values a narrower type holds, as far as a device has them, and that type.
NARROWER = {
    DType.FLOAT64: DType.FLOAT32,
    DType.FLOAT16: DType.FLOAT32,
    DType.INT64: DType.INT32,
    DType.UINT64: DType.INT32,
    DType.UINT16: DType.INT32,
}
# Types that QUANTIZE reads as codes: the numbers themselves, with a scale of 1.
CODES = frozenset([DType.INT8, DType.UINT8])
PLAIN = Quantization((1.0,), (0,), 0)


def readable_inputs(model: Model) -> tuple[Model, tuple[str, ...]]:
    """The model with a CAST behind an input left out, and a sentence for each input whose type changed.

    A float64, float16, int64, uint64 or uint16 input becomes float32 or int32: equal for values that those hold. An
    int8 or uint8 input that is cast to float to be quantized is quantized from its own codes, with scale 1 and zero
    point 0: equal but for numbers in the middle of two codes. Inputs that anything but CAST reads stay as they are.
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
        made = cast.outputs[0]
        if draft.tensors[made].dtype is narrow and made not in draft.outputs:
            draft.redirect(made, tensor.index)
            draft.replace(cast)
        else:  # from the new type; the options repeat the types where a file has them
            draft.replace(cast, replace(cast, options=None, version=1))


def _only_to_quantize(draft: Draft, casts: list[Operator]) -> bool:
    """Whether the casts give float32 that nothing but QUANTIZE to int8 reads."""
    made = [cast.outputs[0] for cast in casts]
    if any(draft.tensors[index].dtype is not DType.FLOAT32 or index in draft.outputs for index in made):
        return False
    readers = [draft.consumers(index) for index in made]
    quantized = [draft.tensors[reader.outputs[0]] for group in readers for reader in group if reader.code == "QUANTIZE"]
    all_quantize = all(readers) and len(quantized) == sum(map(len, readers))
    return all_quantize and all(tensor.dtype is DType.INT8 for tensor in quantized)


def _quantize_directly(draft: Draft, tensor: Tensor, casts: list[Operator]) -> None:
    draft.tensors[tensor.index] = replace(tensor, quantization=PLAIN)
    for cast in casts:
        draft.redirect(cast.outputs[0], tensor.index)
        draft.replace(cast)
