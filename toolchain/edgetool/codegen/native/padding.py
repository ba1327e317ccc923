"""PAD, PADV2 and MIRROR_PAD as native kernels.

PAD is written in the order of its output, as runs of data with padding between them. Rows: image rows, unless batches
are padded; a row of padding has no input row. Otherwise, and always for MIRROR_PAD, a whole tensor is one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from edgetool.codegen.native.movement import Strided, copy_step, is_foldable, is_image, is_unused, whole_element
from edgetool.codegen.native.program import RowInput, Step, describe
from edgetool.codegen.native.selection import looked_up
from edgetool.codegen.native.site import Array, Folded, Lowered, Lowering, Site, View
from edgetool.model.types import DType
from edgetool.operators.call import zero_point

MAX_LOOPS = 4  # of edgetool_pad


@dataclass(frozen=True, slots=True)
class Side:
    """An axis of a padded tensor: the size of its data and the padding in front of it and behind it."""

    size: int
    before: int
    after: int

    @property
    def total(self) -> int:
        """The size of the padded axis."""
        return self.before + self.size + self.after


def merged_sides(sides: list[Side], element: int) -> list[Side]:
    """Return the axes with neighbours merged that are padded as one; the last one is in bytes."""
    merged = [Side(element, 0, 0)]
    for side in reversed(sides):
        inner = merged[0]
        if inner.before or inner.after:
            merged.insert(0, side)
        else:
            merged[0] = Side(*(number * inner.size for number in (side.size, side.before, side.after)))
    return merged


def _amounts(site: Site) -> list[tuple[int, int]]:
    amounts = site.constant(1).reshape(-1, 2).tolist()
    site.require(len(amounts) == len(site.input(0).shape), "it does not pad every axis")
    site.require(all(number >= 0 for pair in amounts for number in pair), "it has negative padding")
    return [(int(before), int(after)) for before, after in amounts]


def _pad(site: Site) -> Iterator[Lowered]:
    source, output, index = site.input(0), site.output(), site.operator.outputs[0]
    sides = [Side(size, *pair) for size, pair in zip(source.shape, _amounts(site), strict=True)]
    site.require(output.shape == tuple(side.total for side in sides), "its output has another shape than it computes")
    if is_unused(site, index):
        return
    site.require(source.element_count > 0, "its input is empty")
    value = _value(site)
    if is_foldable(site, 0, output):
        yield Folded(index, _padded(site.constant(0), sides, value).tobytes())
        return
    if source.shape == output.shape:
        yield View(index, site.index(0))
        return
    element = whole_element(site, source)
    rows = RowInput(site.index(0), source.size_bytes)
    count = batches = 1
    if is_image(site, output) and source.shape[0] == output.shape[0]:
        batches, count = output.shape[:2]
        rows = RowInput(site.index(0), prod(source.shape[2:]) * element, rows=source.shape[1], pad=sides[1].before)
        sides = sides[2:]
    *loops, last = merged_sides(sides, element)
    # The size of one index of each loop in the output.
    sizes = [last.total * prod(side.total for side in loops[k + 1 :]) for k in range(len(loops))]
    leads = [side.before * size for side, size in zip(loops, sizes, strict=True)]
    gaps = [(side.before + side.after) * size for side, size in zip(loops, sizes, strict=True)]
    site.require(len(loops) <= MAX_LOOPS, f"it pads more than {MAX_LOOPS + 1} axes")
    spare = MAX_LOOPS - len(loops)
    yield Step(
        operator=site.operator.index,
        kernel="edgetool_pad",
        op=describe(
            "edgetool_pad",
            count=(*[1] * spare, *(side.size for side in loops)),
            # Behind each turn of a loop, the padding of the axis that is inside it.
            gap=(*[0] * spare, *[*gaps, last.before + last.after][1:]),
            run=last.size,
            lead=sum(leads) + last.before,
            row_bytes=output.size_bytes // (count * batches),
            value=tuple(value.tobytes() * (4 // element)),
            uniform=int(len(set(value.tobytes())) == 1),
        ),
        inputs=(rows,),
        output=index,
        row_bytes=output.size_bytes // (count * batches),
        rows=count,
        batches=batches,
    )


def _value(site: Site) -> Array:
    """Return the element of the padding: the third input, or the output's zero point."""
    source = site.input(0)
    site.require(
        source.dtype in (DType.INT8, DType.INT16, DType.INT32, DType.FLOAT32), f"{source.dtype.name} is not supported"
    )
    if site.optional(2) is not None:
        return site.constant(2).reshape(-1)[:1]
    types = {DType.INT8: "i1", DType.INT16: "<i2", DType.INT32: "<i4", DType.FLOAT32: "<f4"}
    return np.array([zero_point(site.output()) if source.dtype is DType.INT8 else 0], types[source.dtype])


def _padded(values: Array, sides: list[Side], value: Array) -> Array:
    output = np.full([side.total for side in sides], value[0], values.dtype)
    output[tuple(slice(side.before, side.before + side.size) for side in sides)] = values
    return output


def _mirror_pad(site: Site) -> Iterator[Lowered]:
    """MIRROR_PAD: along each axis, positions outside the input are mirrored (GetInputDimension, mirror_pad.cc)."""
    source = site.input(0)
    sides = [Side(size, *pair) for size, pair in zip(source.shape, _amounts(site), strict=True)]
    site.require(
        site.output().shape == tuple(side.total for side in sides), "its output has another shape than it computes"
    )
    edge = 1 if site.option("mode") == "REFLECT" else 0
    site.require(
        all(max(side.before, side.after) <= side.size - edge for side in sides), "its padding is longer than its input"
    )
    padded = [axis for axis, side in enumerate(sides) if side.before or side.after]
    if len(padded) == 1 and prod(source.shape[: padded[0]]) == 1 and source.data is None:
        yield from _mirrored_ends(site, sides[padded[0]], edge)
        return
    offsets, stride = [], source.element_count
    for side in sides:
        stride //= max(1, side.size)
        places = np.arange(-side.before, side.size + side.after)
        places = np.where(places < 0, edge - 1 - places, places)
        places = np.where(places >= side.size, 2 * side.size - 1 - edge - places, places)
        offsets.append(places * stride)
    yield from looked_up(site, 0, site.operator.outputs[0], offsets)


def _mirrored_ends(site: Site, side: Side, edge: int) -> Iterator[Step]:
    """Lower MIRROR_PAD along the outermost axis as copies of the mirrored first rows, of all rows, and of the last."""
    source, output = site.input(0), site.operator.outputs[0]
    if is_unused(site, output):
        return
    row = source.size_bytes // side.size
    start = 0
    for first, count, step in (
        (side.before - 1 + edge, side.before, -row),
        (0, side.size, row),
        (side.size - 1 - edge, side.after, -row),
    ):
        if count:
            place = Strided(first * row, ((count, step), (row, 1)))
            copied = copy_step(site, output, RowInput(site.index(0), source.size_bytes), place, 1)
            yield replace(copied, output_offset=start)
        start += count * row


LOWERINGS: dict[str, Lowering] = {"MIRROR_PAD": _mirror_pad, "PAD": _pad, "PADV2": _pad}
