"""The inputs and outputs of a model: removable conversions, arithmetic folded into scales, types without a cast.

An "end" is an input or an output of the graph.

Models from quantization-aware training, and those of older converters, begin with a QUANTIZE of float inputs and end
with a DEQUANTIZE. Without these, the firmware quantizes with the scales of the inner tensors.

Keras casts its inputs to the type that its layers compute in. TFLM cannot cast uint8, int64 and float64, and an image
cast to float32 takes four times its memory before it is quantized. Such inputs get a type that TFLM can read.

Arithmetic at a model's start that only changes the meaning of its input's codes is folded into the input's scale.
Rescaling pixels by 1/255 makes a MUL whose output has the codes of its input, with another scale. Whether operators do
that is tested with every code and every constant; if a result is so close to the middle of two codes that kernels may
round it either way, they remain. (x / 127.5 - 1 is such a case: its codes lie half-way between those of x.)
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.model.draft import Draft
from edgetool.model.rules import common_shape
from edgetool.model.types import CONVERSIONS, DType, Model, Operator, Quantization, Tensor
from edgetool.passes.elementwise import Reals
from edgetool.passes.validation import is_consistent

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
    """Return whether both store values in the same way: with one scale and zero point, or without."""
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
    """Return whether the results of the casts are float32 and read only by QUANTIZE to int8."""
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


ScaleAndZeroPoint = tuple[float, int]

# The minimum distance of a result from the middle of two codes: the kernels' fixed-point error is below 1e-5.
TIE = 1e-3
# The lowest and the highest code of 8-bit types.
CODES = {DType.INT8: (-128, 127), DType.UINT8: (0, 255)}
LIMIT_CONSTANTS = 2**16
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"MUL": np.multiply, "ADD": np.add, "SUB": np.subtract}


@dataclass(frozen=True, slots=True)
class Affine:
    """The new contents of a graph input: x * scale + offset, where x is the old contents."""

    scale: float
    offset: float

    def apply(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return the new contents of the input for old values."""
        return np.asarray(values.astype(np.float64) * self.scale + self.offset, np.float32)


@dataclass(frozen=True, slots=True)
class RescaledModel:
    """The model; for each graph input, the map from its old real values to the new ones, None if they are the same."""

    model: Model
    inputs: tuple[Affine | None, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Chain:
    """Operators at an input, in order, that do not change its codes, and the tensor that the last one writes."""

    operators: tuple[Operator, ...]
    last: int
    affine: Affine


def fold_rescaling(model: Model) -> RescaledModel:
    """Return the model without leading operators that leave each code of an 8-bit input unchanged.

    MUL, ADD, SUB with constants and QUANTIZE are removed, and the input tensor gets the quantization of their result:
    for the same codes, the outputs stay the same. A uint8 input keeps its type, and one QUANTIZE.
    """
    draft = Draft(model)
    affine: list[Affine | None] = []
    notes: list[str] = []
    for index in draft.inputs:
        before = draft.tensors[index]
        chain = _longest_chain(draft, index)
        affine.append(None if chain is None else chain.affine)
        if chain is not None:
            _fold(draft, before, chain)
            notes.append(_note(model, before, chain))
    return RescaledModel(draft.finish() if notes else model, tuple(affine), tuple(notes))


def _longest_chain(draft: Draft, index: int) -> _Chain | None:
    """Return the longest removable chain from the input; None if there is none."""
    start = draft.tensors[index]
    start_scale = start.per_tensor
    if start.dtype not in CODES or start_scale is None or index in draft.outputs:
        return None
    low, high = CODES[start.dtype]
    codes = np.arange(low, high + 1, dtype=np.float64)
    values: Reals | None = _real(codes, start_scale)
    operators: list[Operator] = []
    best, tensor = None, index
    while values is not None:
        readers = draft.consumers(tensor)
        if len(readers) != 1 or len(readers[0].outputs) != 1:
            break
        if draft.tensors[readers[0].outputs[0]].shape != start.shape:
            break
        operators.append(readers[0])
        tensor = readers[0].outputs[0]
        if tensor in draft.outputs:
            break
        values = _after(draft, readers[0], values)
        result = draft.tensors[tensor]
        if values is None or result.dtype is not DType.INT8 or result.per_tensor is None:
            continue
        if _is_code_of(codes - (low + 128), values, result.per_tensor):
            best = _Chain(tuple(operators), tensor, _between(start.dtype, start_scale, result.per_tensor))
    # A uint8 input keeps one QUANTIZE, which may be the whole chain.
    return best if best is None or start.dtype is DType.INT8 or len(best.operators) > 1 else None


def _is_code_of(codes: Reals, values: Reals, quantization: ScaleAndZeroPoint) -> bool:
    """Return whether each real value, (256, ...), is that of its code, (256,)."""
    scale, zero_point = quantization
    nearest = np.rint(values / scale) + zero_point
    return bool((nearest == codes.reshape(-1, *[1] * (nearest.ndim - 1))).all())


def _between(dtype: DType, old: ScaleAndZeroPoint, new: ScaleAndZeroPoint) -> Affine:
    """Return the map from the real value of an input's code to that of the same code of the result."""
    low, _ = CODES[dtype]
    zero_point = new[1] + low + 128
    return Affine(new[0] / old[0], new[0] * (old[1] - zero_point))


def _constants(draft: Draft, operator: Operator) -> list[Reals | None]:
    """Return the real values of an arithmetic operator's constants, None for a computed input; empty for other
    operators.
    """
    options = operator.options
    if operator.code not in ARITHMETIC or options is None or not is_consistent(draft, operator):
        return []
    if options.text("fused_activation_function") != "NONE":
        return []
    return [_constant(draft, tensor) for tensor in operator.inputs]


def _after(draft: Draft, operator: Operator, values: Reals) -> Reals | None:
    """Return the operator's results for these real values, (256, *constants); None if the rounding is uncertain."""
    output = draft.tensors[operator.outputs[0]]
    if operator.code == "QUANTIZE":
        return _rounded(values, output)
    constants = _constants(draft, operator)
    constant_input = next((constant for constant in constants if constant is not None), None)
    if constant_input is None or constant_input.size * values[0].size > LIMIT_CONSTANTS:
        return None
    if common_shape([constant_input.shape, output.shape]) != output.shape:
        return None
    rank = max(constant_input.ndim, values.ndim - 1)
    values = values.reshape(-1, *[1] * (rank - values.ndim + 1), *values.shape[1:])
    parts = [values if constant is None else constant for constant in constants]
    return _rounded(ARITHMETIC[operator.code](*parts), output)


def _constant(draft: Draft, tensor: int) -> Reals | None:
    """Return the real values of a quantized constant, without leading dimensions of 1; None for anything else."""
    nearest, codes = draft.tensors[tensor], draft.values(tensor)
    if codes is None or nearest.per_tensor is None or nearest.dtype not in CODES:
        return None
    codes = codes.reshape(codes.shape[np.argmax(np.array((*codes.shape, 2)) != 1) :])
    return _real(codes.astype(np.float64), nearest.per_tensor)


def _rounded(values: Reals, tensor: Tensor) -> Reals | None:
    """Return the real values of a quantized tensor's codes; None if a value lies in the middle of two codes."""
    if tensor.dtype not in CODES or tensor.per_tensor is None:
        return None
    scale, zero_point = tensor.per_tensor
    low, high = CODES[tensor.dtype]
    exact = np.clip(values / scale + zero_point, low, high)
    codes = np.rint(exact)
    if (np.abs(exact - codes) > 0.5 - TIE).any():
        return None
    return _real(codes, tensor.per_tensor)


def _real(codes: Reals, quantization: ScaleAndZeroPoint) -> Reals:
    scale, zero_point = quantization
    return np.asarray((codes - zero_point) * scale)


def _fold(draft: Draft, start: Tensor, chain: _Chain) -> None:
    """Remove the chain, and give the input the quantization of its result."""
    result = draft.tensors[chain.last].quantization
    assert result is not None
    assert result.per_tensor is not None
    unsigned = start.dtype is DType.UINT8
    shifted = (result.per_tensor[1] + (128 if unsigned else 0),)
    quantization = replace(result, zero_points=shifted, minimum=(), maximum=())
    draft.tensors[start.index] = replace(start, quantization=quantization)
    if unsigned:
        draft.replace(chain.operators[-1], draft.make("QUANTIZE", [start.index], [chain.last]))
    else:
        draft.redirect(chain.last, start.index)
        draft.replace(chain.operators[-1])
    for operator in chain.operators[:-1]:
        draft.replace(operator)


def _note(model: Model, start: Tensor, chain: _Chain) -> str:
    name = model.argument_name(0, start.index) or start.name
    labels = ", ".join(operator.label for operator in chain.operators)
    scale, offset = chain.affine.scale, chain.affine.offset
    shift = "" if offset == 0 else f" {'-' if offset < 0 else '+'} {abs(offset):.6g}"
    kind = start.dtype.name.lower()
    verb = "was" if len(chain.operators) == 1 else "were"
    return (
        f"{labels} {verb} folded into the scale of input {name!r}: an original input value x now corresponds to the "
        f"real value x * {scale:.6g}{shift}; the stored {kind} value stays the same"
    )
