"""Chains of int8 activation functions as one table of 256 codes, which is exact to the last code.

TFLM has no operator for a table of one's own. CAST to int32, ADD 128 and GATHER from a constant come cheapest of what
both TFLM and LiteRT run: 41 instructions per element on a Cortex-M4, where one LOGISTIC takes 363. (QUANTIZE from int8
to int32 with another zero point would do for the first two, but LiteRT has it not.)

Whether a table is looked up for a whole tensor at once, or piece by piece to spare the arena.

The indices are int32: CAST and ADD hold 8 bytes for each element, so a whole tensor of N bytes needs 8 N for a moment.
In k pieces it is 2 N (SPLIT_V and CONCATENATION, as any int8 operator) or N + 7 N / k, whichever is more. Pieces cost
an eighth more instructions and what each operator takes of the arena's tail, so there are only as many as lower the
arena as a whole: none where another part of the model needs more anyway.
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
    parameters,
    quantized,
    remove_unread,
    scope_of,
)
from edgetool.passes.rewrite import Applied, Context, Rewrite, applied

MOST_PIECES = 10  # what TFLM's CONCATENATION takes
ALIGNMENT = 16
# What a piece costs: 256 bytes of the arena's tail on a 32-bit core for its three operators and their tensors, and 450
# of the file, which count for a quarter: microcontrollers have about four times as much flash as SRAM.
PIECE_BYTES = 368


@dataclass(frozen=True, slots=True)
class Pieces:
    """A tensor cut along an axis into pieces of these sizes."""

    axis: int
    sizes: tuple[int, ...]


def pieces_of(draft: Draft, region: Region) -> Pieces | None:
    """The cut with the smallest arena, the coarsest among equals; None for the whole."""
    shape = draft.tensors[region.source].shape
    axis = _axis(shape)
    if axis is None:
        return None
    elsewhere, beside, stays = _live_bytes(draft, region)
    total = draft.tensors[region.source].size_bytes

    def arena(count: int) -> int:
        if count == 1:
            return max(elsewhere, beside + 8 * total + stays)
        largest = -(-shape[axis] // count) * (total // shape[axis])
        own = max(2 * total, total + 7 * largest + stays, 2 * total + stays)
        return max(elsewhere, beside + own) + count * PIECE_BYTES

    count = min(range(1, min(MOST_PIECES, shape[axis]) + 1), key=arena)
    if count == 1:
        return None
    size, longer = divmod(shape[axis], count)
    return Pieces(axis, (size + 1,) * longer + (size,) * (count - longer))


def _axis(shape: tuple[int, ...]) -> int | None:
    """The first that can be cut into as many pieces as there may be, else the longest; None where there is nothing."""
    if max(shape, default=1) < 2:
        return None
    long = [axis for axis, size in enumerate(shape) if size >= MOST_PIECES]
    return long[0] if long else max(range(len(shape)), key=lambda axis: shape[axis])


def _live_bytes(draft: Draft, region: Region) -> tuple[int, int, int]:
    """What tensors hold: the most while another operator runs; beside the region where it ends; of its source after it.

    Scratch buffers are not counted.
    """
    inside = {operator.outputs[0] for operator in region.operators} - {region.result}
    own = {operator.index for operator in region.operators}
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
    elsewhere = max((live[p] for p, one in enumerate(draft.operators) if one.index not in own), default=0)
    beside = sum(
        size(tensor)
        for tensor, (first, last) in lifetimes.items()
        if first <= end <= last and tensor not in inside and tensor not in (region.source, region.result)
    )
    stays = size(region.source) if lifetimes.get(region.source, (0, 0))[1] > end else 0
    return elsewhere, beside, stays


Codes = npt.NDArray[np.int64]
CODES = np.arange(-128, 128)
# Each operator of a chain is a pass over the tensor, and rounds. From this many on, or with a way to float32 and back
# among them, a table has fewer instructions, fewer bytes of the file and the better result.
LONG_CHAIN = 3


def table_of(draft: Draft, region: Region) -> Codes | None:
    """The result's code for each code of the source, from -128 on; None where the function is defined nowhere.

    The function is computed in float64 and rounded once. Where it is not defined (the root of what is negative by
    rounding) the nearest code at which it is has its say; infinities saturate.
    """
    source, result = draft.tensors[region.source], draft.tensors[region.result]
    values = evaluate(draft, region, dequantized(CODES, source))
    defined = np.flatnonzero(~np.isnan(values))
    if not defined.size:
        return None
    nearest = defined[np.abs(np.arange(len(CODES))[:, None] - defined[None, :]).argmin(axis=1)]
    return quantized(values[nearest], result)


def look_up(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """An operator that the runtime lacks, and the int8 chain around it."""
    region = largest_region(draft, operator, is_int8)
    return None if region is None else _replace(draft, region, operator, context, "lookup table")


def shorten(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """A chain of operators that the runtime has, told by its last one: a long one, or one that may stop the device."""
    if not is_int8(draft.tensors[operator.outputs[0]]):
        return None
    region = largest_region(draft, operator, is_int8)
    if region is None or not region.closed or region.operators[-1].index != operator.index:
        return None
    steps = region.operators
    if len(steps) < LONG_CHAIN and not any(_may_stop(draft, one) for one in steps):
        return None
    if not all(context.legal(draft, one) for one in steps):
        return None
    return _replace(draft, region, operator, context, "one lookup table")


def _may_stop(draft: Draft, operator: Operator) -> bool:
    """Whether it is an int8 RSQRT of what rounding may put below 0: TFLM's then ends Invoke with an error."""
    source = draft.tensors[operator.inputs[0]]
    return operator.code == "RSQRT" and is_int8(source) and parameters(source)[1] > CODES[0]


def _replace(draft: Draft, region: Region, operator: Operator, context: Context, name: str) -> Applied | None:
    table = table_of(draft, region)
    if table is None:
        return None
    scope = scope_of(draft, operator)
    own = _own_kernel(draft, region, table)
    new = [own] if own is not None else _operators(draft, region, table, scope)
    if not all(context.legal(draft, one) for one in new):
        return None
    done = applied(name, draft, operator)
    last = draft.producer(region.result)
    assert last is not None
    draft.replace(last, *new)
    remove_unread(draft, region)
    return done


def _own_kernel(draft: Draft, region: Region, table: Codes) -> Operator | None:
    """ELU where it gives the same codes: its int8 kernel has a table of its own, at a fifth of the instructions."""
    if not any(one.code in ("ELU", "EXP") for one in region.operators):
        return None
    source, result = draft.tensors[region.source], draft.tensors[region.result]
    reals = dequantized(CODES, source)
    steps = np.where(reals < 0, np.expm1(reals), reals) / parameters(result)[0]
    doubtful = np.abs(np.abs(steps - np.trunc(steps)) - 0.5) < 1e-6 * (1 + np.abs(steps))  # in float32, to either side
    elu = quantized(steps * parameters(result)[0], result)
    saturated = (elu == -128) | (elu == 127)
    if np.array_equal(elu, table) and not np.any(doubtful & ~saturated):
        return draft.make("ELU", [region.source], [region.result])
    return None


def _operators(draft: Draft, region: Region, table: Codes, scope: str) -> list[Operator]:
    result = draft.tensors[region.result]
    scale, zero_point = parameters(result)
    own = Quantization((scale,), (zero_point,), 0)
    constant = draft.constant(f"{scope}table", table.astype(np.int8), own)
    shift = draft.constant(f"{scope}table_start", np.asarray(128, np.int32))
    pieces = pieces_of(draft, region)
    if pieces is None:
        return _gather(draft, region.source, region.result, constant, shift, scope)
    return _in_pieces(draft, region, pieces, constant, shift, scope)


def _gather(draft: Draft, source: int, result: int, table: int, shift: int, scope: str) -> list[Operator]:
    shape = draft.tensors[source].shape
    code = draft.tensor(f"{scope}code", shape, DType.INT32)
    index = draft.tensor(f"{scope}index", shape, DType.INT32)
    return [
        draft.make("CAST", [source], [code], in_data_type="INT8", out_data_type="INT32"),
        draft.make("ADD", [code, shift], [index]),
        draft.make("GATHER", [table, index], [result], axis=0),
    ]


def _in_pieces(draft: Draft, region: Region, pieces: Pieces, table: int, shift: int, scope: str) -> list[Operator]:
    """SPLIT_V, a table for each piece in turn, CONCATENATION."""
    source, result = draft.tensors[region.source], draft.tensors[region.result]
    sizes = draft.constant(f"{scope}sizes", np.asarray(pieces.sizes, np.int32))
    axis = draft.constant(f"{scope}axis", np.asarray(pieces.axis, np.int32))
    given, made, steps = [], [], []
    for size in pieces.sizes:
        shape = (*source.shape[: pieces.axis], size, *source.shape[pieces.axis + 1 :])
        given.append(draft.tensor(f"{scope}piece", shape, DType.INT8, _plain(source.quantization)))
        made.append(draft.tensor(f"{scope}looked_up", shape, DType.INT8, _plain(result.quantization)))
        steps += _gather(draft, given[-1], made[-1], table, shift, scope)
    split = draft.make("SPLIT_V", [region.source, sizes, axis], given, num_splits=len(given))
    return [split, *steps, draft.make("CONCATENATION", made, [region.result], axis=pieces.axis)]


def _plain(quantization: Quantization | None) -> Quantization | None:
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
    wanted=True,
)
