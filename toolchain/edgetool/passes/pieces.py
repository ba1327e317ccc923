"""Whether a table is looked up for a whole tensor at once, or piece by piece to spare the arena.

The indices are int32: CAST and ADD hold 8 bytes for each element, so a whole tensor of N bytes needs 8 N for a moment.
In k pieces it is 2 N (SPLIT_V and CONCATENATION, as any int8 operator) or N + 7 N / k, whichever is more. Pieces cost
an eighth more instructions and what each operator takes of the arena's tail, so there are only as many as lower the
arena as a whole: none where another part of the model needs more anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.model.edit import Draft
from edgetool.passes.region import Region

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
