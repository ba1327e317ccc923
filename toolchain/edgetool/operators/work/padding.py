"""The work of operators that enlarge a tensor.

Sources: reference/pad.h, cmsis_nn/pad.cc, arm_pad_s8.c, mirror_pad.cc, reference/broadcast_to.h, reference/fill.h.
CMSIS-NN pads int8 only.
"""

from __future__ import annotations

from math import prod

from edgetool.model.types import DType
from edgetool.operators.kernel import Call
from edgetool.operators.prepare.inspection import demand, integers
from edgetool.operators.work.copies import copied, copied_evenly, dimensions, filled, repeating
from edgetool.operators.work.loops import Loops, repeated, together
from edgetool.operators.work.types import Work, WorkRule

PADDED_RANK = 5  # PadKernelMaxDimensionCount (pad.h)
BROADCAST_RANK = 5  # kMaxDims (broadcast_to.cc)
CMSIS_RANK = 4
IMAGE_RANK, IMAGE_TYPES = 4, (DType.INT8, DType.FLOAT32)
VECTOR_BYTES = 16


def _extended(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(shape)) + shape


def _around(call: Call, rank: int) -> list[tuple[int, int]]:
    """The padding before and after each of `rank` axes; all after where the file does not hold it."""
    given, source = call.required_input(1), _extended(call.required_input(0).shape, rank)
    made = _extended(call.required_output().shape, rank)
    if not given.is_constant:
        return [(0, after - before) for before, after in zip(source, made, strict=True)]
    values = integers(given)
    demand(call, len(values) % 2 == 0, "requires two paddings for each dimension")
    pairs = list(zip(values[::2], values[1::2], strict=True))[-rank:]
    around = [(0, 0)] * (rank - len(pairs)) + pairs
    axes = zip(source[-rank:], around, made[-rank:], strict=True)
    grown = all(min(pad) >= 0 and size + sum(pad) == side for size, pad, side in axes)
    demand(call, grown, "requires paddings that match its input and output shapes")
    return around


def _pad(call: Call) -> Work:
    """Images that grow in height and width only have a copy of the code of their own (PadImageStyle)."""
    source = call.required_input(0)
    if source.dtype == DType.INT8 and call.platform.cmsis_nn:
        return Work("int8 CMSIS-NN", _cmsis_pad(call, vectors=call.platform.mve))
    shape, around = _extended(call.required_output().shape, PADDED_RANK), _around(call, PADDED_RANK)
    loops = {"axis 3": prod(shape[:4]), "axis 2": prod(shape[:3])}
    inside = 1  # the elements of the output for which all axes before lie inside
    for axis, (size, (before, after)) in enumerate(zip(shape, around, strict=True)):
        behind = inside * prod(shape[axis + 1 :])
        # An element is compared with the borders of one axis after the other, until it lies outside.
        loops[f"before axis {axis}"] = before * behind
        loops[f"after axis {axis}"] = after * behind
        inside *= size - before - after
    image = len(source.shape) == IMAGE_RANK and around[1] == around[4] == (0, 0) and source.dtype in IMAGE_TYPES
    name = source.dtype.name.lower()
    return Work(f"{name} image" if image else name, loops | {"inside": inside})


def _cmsis_pad(call: Call, *, vectors: bool) -> Loops:
    """Whole blocks of padding are filled, and what lies between copied: rows, or pixels where channels are added."""
    batches, height, width, channels = _extended(call.required_input(0).shape, CMSIS_RANK)[-CMSIS_RANK:]
    around = _around(call, CMSIS_RANK)
    made = [size + sum(pad) for size, pad in zip((batches, height, width, channels), around, strict=True)]
    pixel, row, image = made[3], made[2] * made[3], made[1] * made[2] * made[3]
    parts: list[Loops] = [{"row": batches * height}]

    def fill(size: int, address: int, times: int = 1) -> None:
        parts.append(repeated(times, _vectors("filled", size) if vectors else filled(size, address)))

    def copy(size: int, target: int, source: int, times: int = 1) -> None:
        one = _vectors("copied", size) if vectors else copied(size, [(target, source)])
        parts.append(repeated(times, one))

    fill(image * around[0][0], 0)
    for batch, images in repeating(batches):
        start = image * (around[0][0] + batch)
        fill(row * around[1][0], start, images)
        for y, rows in repeating(height):
            left = start + row * (around[1][0] + y)
            target, source = left + pixel * around[2][0], (batch * height + y) * width * channels
            lines = images * rows
            fill(pixel * around[2][0], left, lines)
            if channels == pixel:
                copy(width * channels, target, source, lines)
            else:
                for x, columns in repeating(width):
                    place, times = target + x * pixel, lines * columns
                    fill(around[3][0], place, times)
                    copy(channels, place + around[3][0], source + x * channels, times)
                    fill(around[3][1], place + around[3][0] + channels, times)
            fill(pixel * around[2][1], target + width * pixel, lines)
        fill(row * around[1][1], start + row * (around[1][0] + height), images)
    fill(image * around[0][1], image * (around[0][0] + batches))
    return together(*parts)


def _vectors(what: str, size: int) -> Loops:
    return {f"{what} block": 1, f"{what} vector": -(-size // VECTOR_BYTES)}


def _mirror_pad(call: Call) -> Work:
    """Every element finds its place in the input anew, axis by axis."""
    result = call.required_output()
    return Work(
        result.dtype.name.lower(),
        {"element": result.element_count, "axis of an element": result.element_count * len(result.shape)},
    )


def _broadcast(call: Call) -> Work:
    """From the last axis that grows outwards: what is made once is copied as often as the axis is long."""
    source, result = call.required_input(0), call.required_output()
    element = max(result.dtype.bits // 8, 1)
    before, after = _extended(source.shape, BROADCAST_RANK), _extended(result.shape, BROADCAST_RANK)
    growing = [axis for axis in range(BROADCAST_RANK) if before[axis] != after[axis]]
    if not growing:
        return Work("same shape", copied_evenly(source.size_bytes, 1))
    last, parts = growing[-1], []
    block = prod(after[last + 1 :]) * element
    runs = prod(before[:last])
    parts.append({"axis step": sum(prod(before[: axis + 1]) for axis in range(last))})
    parts.append(repeated(runs, copied_evenly(block, after[last], (0, block))))
    for axis in growing[:-1]:
        block = prod(after[axis + 1 :]) * element
        parts.append(repeated(prod(before[:axis]), copied_evenly(block, after[axis] - 1, (block, block))))
    return Work("copy", together(*parts))


def _fill(call: Call) -> Work:
    result = call.required_output()
    return Work(result.dtype.name.lower(), {**dimensions(len(result.shape)), "element": result.element_count})


def _zeros(call: Call) -> Work:
    """One memset."""
    result = call.required_output()
    return Work("fill", together(dimensions(len(result.shape)), filled(result.size_bytes)))


WORK: dict[str, WorkRule] = {
    "BROADCAST_TO": _broadcast,
    "FILL": _fill,
    "MIRROR_PAD": _mirror_pad,
    "PAD": _pad,
    "PADV2": _pad,
    "ZEROS_LIKE": _zeros,
}
