"""QUANTIZE and DEQUANTIZE left at a model's ends: told always, taken out where its ends are to be integers. Pure.

Models that were trained for quantization, and those of older converters, begin with a QUANTIZE of float inputs and end
with a DEQUANTIZE. Without them the firmware quantizes by the scales of the tensors behind.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from edgetool.model.edit import Draft
from edgetool.model.types import CONVERSIONS, DType, Model, Operator, Tensor

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
    return operator.code in CONVERSIONS and len(operator.inputs) == len(operator.outputs) == 1


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
