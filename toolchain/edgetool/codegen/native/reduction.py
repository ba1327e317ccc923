"""Reductions along axes, ARG_MAX, ARG_MIN and CUMSUM as native kernels.

Whole tensors are one row. If rows of images stay apart, a reduction over height reads all of them for one output row;
MEAN and SUM of int8 are computed from sums of rows instead, if that takes less memory.
Sources: reduce_common.cc, arg_min_max.cc, cumsum.cc, reference/reduce.h, arg_min_max.h and cumsum.h.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from edgetool.codegen.native.fixed_point import Multiplier, quantize_multiplier
from edgetool.codegen.native.program import FieldValue, RowInput, Step, StepOverlap, describe
from edgetool.codegen.native.site import Lowering, Site
from edgetool.codegen.native.sums import SummedRows, summed_rows_steps
from edgetool.model.types import DType
from edgetool.operators.call import scale, zero_point
from edgetool.operators.overlap import elements_distance

MAX_LOOPS = 2  # of each kind in the kernels
MAX_TAPS = 2**16 - 1
SUM_SHIFT = 20  # kCumSumIntegerShift


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over one or more axes of a row: the number of turns and the distance between two, in elements."""

    count: int
    step: int


@dataclass(frozen=True, slots=True)
class Loops:
    """How the outputs of a reduction are computed: its rows, and the loops over the axes of one.

    taps: the number of input rows that are reduced to one output row.
    """

    kept: tuple[Loop, ...]
    reduced: tuple[Loop, ...]
    batches: int
    rows: int
    taps: int
    row_elements: int

    @property
    def output_elements(self) -> int:
        """The number of elements of an output row."""
        return prod(loop.count for loop in self.kept)

    @property
    def fields(self) -> dict[str, FieldValue]:
        """The fields of a kernel's descriptor."""
        kinds = {"kept": self.kept, "reduced": self.reduced}
        return {
            f"{kind}_{name}": tuple(getattr(loop, name) for loop in loops)
            for kind, loops in kinds.items()
            for name in ("count", "step")
        }


def _loops(shape: tuple[int, ...], axes: frozenset[int]) -> tuple[list[Loop], list[Loop]]:
    """Return the loops over kept and over reduced axes, outermost first; neighbours of the same kind are one loop."""
    kinds: tuple[list[Loop], list[Loop]] = ([], [])
    last: bool | None = None
    step = 1
    for axis in reversed(range(len(shape))):
        reduced, size = axis in axes, shape[axis]
        if size == 1:
            continue
        loops = kinds[reduced]
        if reduced == last:
            loops[0] = Loop(loops[0].count * size, loops[0].step)
        else:
            loops.insert(0, Loop(size, step))
        last = reduced
        step *= size
    return kinds


def loops_of(site: Site, shape: tuple[int, ...], axes: frozenset[int]) -> Loops:
    """Return the rows and loops of a reduction of a shape along axes."""
    batches = rows = taps = 1
    if site.row_wise and len(shape) == 4 and 0 not in axes and shape[1] <= MAX_TAPS:
        batches, height = shape[:2]
        rows, taps = (1, height) if 1 in axes else (height, 1)
        shape, axes = shape[2:], frozenset(axis - 2 for axis in axes if axis > 1)
    kept, reduced = _loops(shape, axes)
    elements = prod(shape)
    if len(kept) > MAX_LOOPS and kept[0].step * kept[0].count == elements and batches * rows * taps == 1:
        rows, elements = kept[0].count, kept[0].step
        del kept[0]
    fits = max(len(kept), len(reduced)) <= MAX_LOOPS
    site.require(fits, f"it reduces the shape {shape} along the axes {', '.join(map(str, sorted(axes)))}")
    padding = [Loop(1, 0)] * MAX_LOOPS
    return Loops(
        kept=(*padding[len(kept) :], *kept),
        reduced=(*padding[len(reduced) :], *reduced),
        batches=batches,
        rows=rows,
        taps=taps,
        row_elements=elements,
    )


def _axes(site: Site) -> frozenset[int]:
    """Return the axes without duplicates and from 0 on (ResolveAxis); a scalar has none."""
    rank = len(site.input(0).shape)
    site.require(site.input(1).dtype is DType.INT32, f"its axes are {site.input(1).dtype.name}")
    axes = [int(axis) for axis in site.constant(1).reshape(-1)] if rank else []
    site.require(all(-rank <= axis < rank for axis in axes), f"it has no axes {', '.join(map(str, axes))}")
    return frozenset(axis % rank for axis in axes)


def _step(site: Site, kernel: str, axes: frozenset[int], loops: Loops, **values: FieldValue) -> Step:
    """Return the step of a reduction, after a check of the output's size."""
    source, output = site.input(0), site.output()
    shape = source.shape
    kept = prod(size for axis, size in enumerate(shape) if axis not in axes)
    site.require(source.element_count > 0, "its input is empty")
    site.require(output.element_count == kept, f"it reduces {shape} to {kept} elements, not to {output.shape}")
    sizes = source.dtype.bits // 8, output.dtype.bits // 8
    firsts = np.arange(source.element_count).reshape(shape).min(axis=tuple(axes)).reshape(-1).tolist()
    return Step(
        operator=site.operator.index,
        kernel=kernel,
        op=describe(kernel, **values),
        inputs=(
            RowInput(
                site.index(0),
                row_bytes=loops.row_elements * sizes[0],
                rows=loops.rows * loops.taps,
                taps=loops.taps,
            ),
        ),
        output=site.operator.outputs[0],
        row_bytes=loops.output_elements * sizes[1],
        rows=loops.rows,
        batches=loops.batches,
        overlaps=(StepOverlap(0, elements_distance(firsts, input_bytes=sizes[0], output_bytes=sizes[1])),),
    )


def _folded_count(multiplier: Multiplier, count: int) -> Multiplier:
    """Return a multiplier divided by the number of elements (QuantizedMeanOrSum, reduce.h)."""
    shift = min(count.bit_length() - 1, 32, 31 + multiplier.shift)
    return Multiplier((multiplier.value << shift) // count, multiplier.shift - shift)


def _mean_or_sum(site: Site, *, mean: bool) -> Iterator[Step]:
    source, output = site.input(0), site.output()
    known = source.dtype in (DType.INT8, DType.INT16) and output.dtype is source.dtype
    site.require(known, f"{source.dtype.name} is not supported")
    axes = _axes(site)
    count = prod(source.shape[axis] for axis in axes)
    site.require(count > 0, "its input is empty")
    multiplier = quantize_multiplier(scale(source) / scale(output))
    if mean:
        multiplier = _folded_count(multiplier, count)
    loops = loops_of(site, source.shape, axes)
    scaling: dict[str, FieldValue] = {
        "offset": -zero_point(source) * count % 2**32,
        "multiplier": multiplier.value,
        "left": multiplier.left,
        "right": multiplier.right,
        "zero_point": zero_point(output),
    }
    kernel = "edgetool_sum_s8" if source.dtype is DType.INT8 else "edgetool_sum_s16"
    step = _step(site, kernel, axes, loops, taps=loops.taps, **scaling, **loops.fields)
    summed = _summed_rows(site, loops)
    if summed is None:
        yield step
    else:
        yield from summed_rows_steps(site, summed, low=-128, high=127, **scaling)


def _summed_rows(site: Site, loops: Loops) -> SummedRows | None:
    """Return how a reduction over height is computed row by row; None if it is not possible, or saves nothing."""
    if not site.can_add_rows or loops.taps == 1:
        return None
    kept, reduced = (
        ((outer.count, outer.step), (inner.count, inner.step)) for outer, inner in (loops.kept, loops.reduced)
    )
    summed = SummedRows(loops.taps, loops.row_elements, kept, reduced)
    return summed if summed.saves_memory else None


def _mean(site: Site) -> Iterator[Step]:
    return _mean_or_sum(site, mean=True)


def _sum(site: Site) -> Iterator[Step]:
    return _mean_or_sum(site, mean=False)


def _extremum(dtype: DType, *, smallest: bool) -> Lowering:
    def lowering(site: Site) -> Iterator[Step]:
        source, output = site.input(0), site.output()
        site.require(source.dtype is dtype and output.dtype is dtype, f"{source.dtype.name} is not supported")
        if dtype is DType.INT8:
            same = scale(source) == scale(output) and zero_point(source) == zero_point(output)
            site.require(same, "its output is quantized differently")
        axes = _axes(site)
        loops = loops_of(site, source.shape, axes)
        flip = -1 if smallest else 0
        yield _step(site, "edgetool_extremum_s8", axes, loops, taps=loops.taps, flip=flip, **loops.fields)

    return lowering


def _arg_extremum(*, smallest: bool) -> Lowering:
    def lowering(site: Site) -> Iterator[Step]:
        source, output = site.input(0), site.output()
        known = source.dtype is DType.INT8 and output.dtype is DType.INT32
        site.require(known, f"{source.dtype.name} to {output.dtype.name} is not supported")
        site.require(len(source.shape) > 0, "its input is a scalar")
        axes = _axes(site)
        site.require(len(axes) == 1, f"it has {len(axes)} axes")
        loops = loops_of(site, source.shape, axes)
        if loops.taps > 1:
            loops = loops_of(replace(site, row_wise=False), source.shape, axes)
        fields = {name: value for name, value in loops.fields.items() if name.startswith("kept")}
        reduced = loops.reduced[-1]
        yield _step(
            site,
            "edgetool_arg_extremum_s8",
            axes,
            loops,
            count=reduced.count,
            step=reduced.step,
            flip=-1 if smallest else 0,
            **fields,
        )

    return lowering


def _cumsum(site: Site) -> Iterator[Step]:
    source, output = site.input(0), site.output()
    known = source.dtype is DType.INT8 and output.dtype is DType.INT8
    site.require(known, f"{source.dtype.name} is not supported")
    axes, shape = _axes(site), source.shape
    site.require(len(axes) == 1 and output.shape == shape and source.element_count > 0, f"it cannot sum {shape}")
    (axis,) = axes
    # The sums are in units of half of the input's scale times 2^-20.
    multiplier = quantize_multiplier(2 * scale(source) / (2**SUM_SHIFT * scale(output)))
    site.require(multiplier.left == 0, "its scales differ too much")
    batches, rows = shape[:2] if site.row_wise and len(shape) == 4 and axis > 1 else (1, 1)
    depth, lanes = shape[axis], prod(shape[axis + 1 :])
    elements = source.element_count // (batches * rows)
    reverse = bool(site.option("reverse", False))
    yield Step(
        operator=site.operator.index,
        kernel="edgetool_cumsum_s8",
        op=describe(
            "edgetool_cumsum_s8",
            blocks=elements // (depth * lanes),
            depth=depth,
            lanes=lanes,
            multiplier=multiplier.value,
            right=multiplier.right,
            exclusive=int(bool(site.option("exclusive", False))),
            reverse=int(reverse),
            input_zero_point=zero_point(source),
            zero_point=zero_point(output),
        ),
        inputs=(RowInput(site.index(0), row_bytes=elements, rows=rows),),
        output=site.operator.outputs[0],
        row_bytes=elements,
        rows=rows,
        batches=batches,
        overlaps=(StepOverlap(0, _lanes_distance(depth, lanes, reverse=reverse)),),
    )


def _lanes_distance(depth: int, lanes: int, *, reverse: bool) -> int:
    """Return the distance in bytes of a kernel that sums `depth` by `lanes` codes lane by lane.

    The last code of a lane is written when the first one of the next lane is outstanding, or the first one of its own
    lane if that runs backwards. The first code of a lane is read before it is written.
    """
    if reverse:
        return (depth - 1) * lanes + 1 if depth > 1 else 0
    return (depth - 1) * lanes if lanes > 1 else 0


LOWERINGS: dict[str, Lowering] = {
    "ARG_MAX": _arg_extremum(smallest=False),
    "ARG_MIN": _arg_extremum(smallest=True),
    "CUMSUM": _cumsum,
    "MEAN": _mean,
    "REDUCE_ALL": _extremum(DType.BOOL, smallest=True),
    "REDUCE_MAX": _extremum(DType.INT8, smallest=False),
    "REDUCE_MIN": _extremum(DType.INT8, smallest=True),
    "SUM": _sum,
}
