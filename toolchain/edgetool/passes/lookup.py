"""Chains of int8 activation functions as one lookup table of 256 codes, which is exact to the last code.

TFLM has no operator for custom tables. CAST to int32, ADD 128 and GATHER from a constant are the cheapest sequence that
both TFLM and LiteRT run: 41 instructions per element on a Cortex-M4, compared with 363 for one LOGISTIC. (QUANTIZE from
int8 to int32 with another zero point would replace the first two, but LiteRT does not support it.)

The lookup is done for a whole tensor at once, or for parts of it to reduce the arena. The indices are int32: CAST and
ADD need 8 bytes per element, so a whole tensor of N bytes needs 8 N temporarily. With k parts it is 2 N (SPLIT_V and
CONCATENATION, like any int8 operator) or N + 7 N / k, whichever is more. Parts cost an eighth more instructions and the
tail of the arena for each operator, so there are only as many as lower the arena as a whole: none if another part of
the model needs more anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from edgetool.model.draft import Draft
from edgetool.model.types import DType, Operator, Quantization
from edgetool.passes.elementwise import (
    Region,
    dequantized,
    evaluate,
    is_int8,
    largest_region,
    quantized,
    remove_unread,
    scale_and_zero_point,
    scope_of,
)
from edgetool.passes.rewrite import Applied, Context, Rewrite, applied

MAX_PARTS = 10  # inputs of TFLM's CONCATENATION
ALIGNMENT = 16
# The cost of a part: 256 bytes of the arena's tail on a 32-bit core for its three operators and their tensors, and 450
# of the file, which count for a quarter: microcontrollers have about four times as much flash as SRAM.
PART_BYTES = 368


@dataclass(frozen=True, slots=True)
class AxisSplit:
    """A split of a tensor along an axis into parts of these sizes."""

    axis: int
    sizes: tuple[int, ...]


def best_split(draft: Draft, region: Region) -> AxisSplit | None:
    """Return the split with the smallest arena, with the fewest parts among equals; None for the whole tensor."""
    shape = draft.tensors[region.source].shape
    axis = _axis(shape)
    if axis is None:
        return None
    elsewhere, concurrent, source_after = _live_bytes(draft, region)
    total = draft.tensors[region.source].size_bytes

    def arena(count: int) -> int:
        if count == 1:
            return max(elsewhere, concurrent + 8 * total + source_after)
        largest = -(-shape[axis] // count) * (total // shape[axis])
        with_region = max(2 * total, total + 7 * largest + source_after, 2 * total + source_after)
        return max(elsewhere, concurrent + with_region) + count * PART_BYTES

    count = min(range(1, min(MAX_PARTS, shape[axis]) + 1), key=arena)
    if count == 1:
        return None
    size, longer = divmod(shape[axis], count)
    return AxisSplit(axis, (size + 1,) * longer + (size,) * (count - longer))


def _axis(shape: tuple[int, ...]) -> int | None:
    """Return the first axis that is long enough for the maximum number of parts, else the longest; None if none is."""
    if max(shape, default=1) < 2:
        return None
    long = [axis for axis, size in enumerate(shape) if size >= MAX_PARTS]
    return long[0] if long else max(range(len(shape)), key=lambda axis: shape[axis])


def _live_bytes(draft: Draft, region: Region) -> tuple[int, int, int]:
    """Return the maximum live bytes outside the region, those beside it at its end, and those of its source after it.

    Scratch buffers are not counted.
    """
    inside = {operator.outputs[0] for operator in region.operators} - {region.result}
    region_indices = {operator.index for operator in region.operators}
    last_place = len(draft.operators) - 1
    lifetimes: dict[int, tuple[int, int]] = dict.fromkeys(draft.inputs, (0, 0))
    end = 0
    for place, operator in enumerate(draft.operators):
        for tensor in operator.outputs:
            lifetimes[tensor] = (place, place)
        for tensor in operator.inputs:
            if tensor in lifetimes:
                lifetimes[tensor] = (lifetimes[tensor][0], place)
        if region.result in operator.outputs:
            end = place
    for tensor in draft.outputs:
        if tensor in lifetimes:
            lifetimes[tensor] = (lifetimes[tensor][0], last_place)

    def size(tensor: int) -> int:
        return -(-draft.tensors[tensor].size_bytes // ALIGNMENT) * ALIGNMENT

    live = [0] * (last_place + 1)
    for tensor, (first, last) in lifetimes.items():
        if tensor not in inside:
            for place in range(first, last + 1):
                live[place] += size(tensor)
    elsewhere = max((live[p] for p, item in enumerate(draft.operators) if item.index not in region_indices), default=0)
    concurrent = sum(
        size(tensor)
        for tensor, (first, last) in lifetimes.items()
        if first <= end <= last and tensor not in inside and tensor not in (region.source, region.result)
    )
    source_after = size(region.source) if lifetimes.get(region.source, (0, 0))[1] > end else 0
    return elsewhere, concurrent, source_after


Codes = npt.NDArray[np.int64]
CODES = np.arange(-128, 128)
# Each operator of a chain goes through the whole tensor, and rounds. From this length on, or if the chain contains a
# conversion to float32 and back, a table takes fewer instructions and fewer bytes of the file, and is more accurate.
LONG_CHAIN = 3


def table_of(draft: Draft, region: Region) -> Codes | None:
    """Return the result's code for each code of the source, from -128 on; None if the function is undefined everywhere.

    The function is computed in float64 and rounded once. Where it is undefined (the root of a value that is negative by
    rounding), the nearest code at which it is defined counts; infinities saturate.
    """
    source, result = draft.tensors[region.source], draft.tensors[region.result]
    values = evaluate(draft, region, dequantized(CODES, source))
    defined = np.flatnonzero(~np.isnan(values))
    if not defined.size:
        return None
    nearest = defined[np.abs(np.arange(len(CODES))[:, None] - defined[None, :]).argmin(axis=1)]
    return quantized(values[nearest], result)


def look_up(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Replace an unsupported operator, and the int8 chain around it."""
    region = largest_region(draft, operator, is_int8)
    return None if region is None else _replace(draft, region, operator, context, "lookup table")


def shorten(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Replace a chain of supported operators, identified by its last one, if it is long or may stop the device."""
    if not is_int8(draft.tensors[operator.outputs[0]]):
        return None
    region = largest_region(draft, operator, is_int8)
    if region is None or not region.closed or region.operators[-1].index != operator.index:
        return None
    steps = region.operators
    if len(steps) < LONG_CHAIN and not any(_may_stop(draft, step) for step in steps):
        return None
    if not all(context.is_supported(draft, step) for step in steps):
        return None
    return _replace(draft, region, operator, context, "one lookup table")


def _may_stop(draft: Draft, operator: Operator) -> bool:
    """Return whether it is an int8 RSQRT whose input may be negative after rounding; TFLM then fails in Invoke."""
    source = draft.tensors[operator.inputs[0]]
    return operator.code == "RSQRT" and is_int8(source) and scale_and_zero_point(source)[1] > CODES[0]


def _replace(draft: Draft, region: Region, operator: Operator, context: Context, name: str) -> Applied | None:
    table = table_of(draft, region)
    if table is None:
        return None
    scope = scope_of(draft, operator)
    elu = _elu_kernel(draft, region, table)
    new = [elu] if elu is not None else _operators(draft, region, table, scope)
    if not all(context.is_supported(draft, step) for step in new):
        return None
    done = applied(name, draft, operator)
    last = draft.producer(region.result)
    assert last is not None
    draft.replace(last, *new)
    remove_unread(draft, region)
    return done


def _elu_kernel(draft: Draft, region: Region, table: Codes) -> Operator | None:
    """Return ELU if it gives the same codes: its int8 kernel has its own table, at a fifth of the instructions."""
    if not any(operator.code in ("ELU", "EXP") for operator in region.operators):
        return None
    source, result = draft.tensors[region.source], draft.tensors[region.result]
    reals = dequantized(CODES, source)
    steps = np.where(reals < 0, np.expm1(reals), reals) / scale_and_zero_point(result)[0]
    # float32 may round these either way
    doubtful = np.abs(np.abs(steps - np.trunc(steps)) - 0.5) < 1e-6 * (1 + np.abs(steps))
    elu = quantized(steps * scale_and_zero_point(result)[0], result)
    saturated = (elu == -128) | (elu == 127)
    if np.array_equal(elu, table) and not np.any(doubtful & ~saturated):
        return draft.make("ELU", [region.source], [region.result])
    return None


def _operators(draft: Draft, region: Region, table: Codes, scope: str) -> list[Operator]:
    result = draft.tensors[region.result]
    scale, zero_point = scale_and_zero_point(result)
    quantization = Quantization((scale,), (zero_point,), 0)
    constant = draft.constant(f"{scope}table", table.astype(np.int8), quantization)
    shift = draft.constant(f"{scope}table_start", np.asarray(128, np.int32))
    split = best_split(draft, region)
    if split is None:
        return _gather(draft, region.source, region.result, constant, shift, scope)
    return _split_lookup(draft, region, split, constant, shift, scope)


def _gather(draft: Draft, source: int, result: int, table: int, shift: int, scope: str) -> list[Operator]:
    shape = draft.tensors[source].shape
    code = draft.tensor(f"{scope}code", shape, DType.INT32)
    index = draft.tensor(f"{scope}index", shape, DType.INT32)
    return [
        draft.make("CAST", [source], [code], in_data_type="INT8", out_data_type="INT32"),
        draft.make("ADD", [code, shift], [index]),
        draft.make("GATHER", [table, index], [result], axis=0),
    ]


def _split_lookup(draft: Draft, region: Region, split: AxisSplit, table: int, shift: int, scope: str) -> list[Operator]:
    """Return SPLIT_V, a lookup for each part, and CONCATENATION."""
    source, result = draft.tensors[region.source], draft.tensors[region.result]
    sizes = draft.constant(f"{scope}sizes", np.asarray(split.sizes, np.int32))
    axis = draft.constant(f"{scope}axis", np.asarray(split.axis, np.int32))
    inputs, outputs, lookups = [], [], []
    for size in split.sizes:
        shape = (*source.shape[: split.axis], size, *source.shape[split.axis + 1 :])
        inputs.append(draft.tensor(f"{scope}piece", shape, DType.INT8, _without_range(source.quantization)))
        outputs.append(draft.tensor(f"{scope}looked_up", shape, DType.INT8, _without_range(result.quantization)))
        lookups += _gather(draft, inputs[-1], outputs[-1], table, shift, scope)
    split_v = draft.make("SPLIT_V", [region.source, sizes, axis], inputs, num_splits=len(inputs))
    return [split_v, *lookups, draft.make("CONCATENATION", outputs, [region.result], axis=split.axis)]


def _without_range(quantization: Quantization | None) -> Quantization | None:
    return None if quantization is None else replace(quantization, minimum=(), maximum=())


LOOK_UP = Rewrite(
    "lookup table",
    "replaced by an exact 256-entry lookup table: TensorFlow Lite Micro has no int8 kernel for this operator",
    look_up,
)
SHORTEN = Rewrite(
    "one lookup table",
    "merged with the preceding operators into one 256-entry lookup table, which rounds only once",
    shorten,
    always=True,
)
