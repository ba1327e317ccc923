"""Reductions along axes, ARG_MAX and ARG_MIN, and running sums: Prepare, loop counts and bounds.

Sources of Prepare: reduce.cc, reduce_common.cc, cumsum.cc; arg_min_max.cc has no Prepare. Axes are counted, not read.

Sources of the loop counts: reduce_common.cc, reference/reduce.h, internal/types.h, arg_min_max.cc,
reference/arg_min_max.h, reference/cumsum.h. How many times an element exceeds all earlier ones depends on the data: the
mean is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from math import log, prod
from operator import mul

from edgetool.model.types import DType
from edgetool.operators.call import (
    INT32_BYTES,
    MAX_SMALL_RANK,
    Call,
    Condition,
    PrepareRule,
    Request,
    constant_input,
    input_rank,
    input_type,
    integers,
    is_below_one,
    no_requests,
    persistent,
    ratio,
    require,
    same_output_shape,
    same_output_type,
    scale,
    scratch,
)
from edgetool.operators.entry import KernelFault, entries
from edgetool.operators.loops import LoopCounts, LoopRule, Loops

SUM_SHIFT = 20  # kCumSumIntegerShift


def _prepare_mean_or_sum(call: Call) -> Iterator[Request]:
    source, result = call.required_input(0), call.required_output()
    yield from _request_tensors(call)
    if source.dtype in (DType.INT8, DType.INT16):
        yield scratch("accumulators", INT32_BYTES * result.element_count)
    if call.platform.has("scratch-of-mean-and-sum"):
        yield from _request_iterators(call)
    yield from _request_simple(call)


def _prepare_min_or_max(call: Call) -> Iterator[Request]:
    yield from _request_simple(call)
    yield from _request_tensors(call)
    yield from _request_iterators(call)


def _prepare_all(call: Call) -> Iterator[Request]:
    yield from _request_tensors(call)
    input_type(0, DType.BOOL)(call)
    yield from _request_simple(call)
    yield from _request_iterators(call)


def _request_simple(call: Call) -> Iterator[Request]:
    """Yield the requests of PrepareSimple, which requests the output for int8 only."""
    yield from call.temporary_inputs(0)
    yield from call.temporary_inputs(1)
    input_type(1, DType.INT32)(call)
    if call.required_input(0).dtype == DType.INT8:
        yield from call.temporary_outputs(0)


def _request_tensors(call: Call) -> Iterator[Request]:
    yield from call.temporary_inputs(0)
    yield from call.temporary_outputs(0)
    yield from call.temporary_inputs(1)


def _request_iterators(call: Call) -> Iterator[Request]:
    yield scratch("position in the input", INT32_BYTES * len(call.required_input(0).shape))
    yield scratch("resolved axes", INT32_BYTES * call.required_input(1).element_count)


def _prepare_cumsum(call: Call) -> Iterator[Request]:
    source, axis, result = call.required_input(0), call.required_input(1), call.required_output()
    yield from call.temporary_inputs(0, 1)
    input_type(0, DType.FLOAT32, DType.INT8)(call)
    input_type(1, DType.INT32)(call)
    require(call, axis.element_count == 1, f"requires one axis, not {axis.element_count}")
    require(call, len(source.shape) > 0, "does not support a scalar")
    yield from call.temporary_outputs(0)
    same_output_type(call)
    same_output_shape(call)
    if source.dtype == DType.INT8:
        yield persistent("parameters", call.platform.size_of("OpDataCumSum"))
        common = 2 * scale(source)
        fits = is_below_one(ratio(scale(source), common)) and is_below_one(ratio(common, 2**SUM_SHIFT * scale(result)))
        require(call, fits, f"cannot produce an output with the scale {scale(result)} from the scale {scale(source)}")


PREPARE: dict[str, PrepareRule] = {
    "ARG_MAX": no_requests,
    "ARG_MIN": no_requests,
    "CUMSUM": _prepare_cumsum,
    "MEAN": _prepare_mean_or_sum,
    "REDUCE_ALL": _prepare_all,
    "REDUCE_MAX": _prepare_min_or_max,
    "REDUCE_MIN": _prepare_min_or_max,
    "SUM": _prepare_mean_or_sum,
}


EULER_GAMMA = 0.57721566


def _axes(call: Call) -> tuple[int, ...]:
    """Return each axis once, in the file's order, or the last axis if the tensor is not in the file."""
    rank, axes_tensor = len(call.required_input(0).shape), call.required_input(1)
    axes = (integers(axes_tensor) if axes_tensor.data else ()) or (-1,)
    return tuple(dict.fromkeys(axis % rank for axis in axes)) if rank else ()


def _reduction(call: Call) -> LoopCounts:
    """Return the loops of a reduction, which computes each element's position in the output axis by axis."""
    return LoopCounts(call.required_input(0).dtype.name.lower(), _reduction_loops(call))


def _reduction_loops(call: Call) -> Loops:
    shape, axes = call.required_input(0).shape, _axes(call)
    elements = prod(shape)
    # How many of the reduced axes each axis is compared with before it is found among them.
    compared = sum(axes.index(axis) + 1 if axis in axes else len(axes) for axis in range(len(shape)))
    return {
        "element": elements,
        "axis of an element": elements * len(shape),
        "kept axis of an element": elements * (len(shape) - len(axes)),
        "axis compared": elements * compared,
        "last axis reduced": elements * (len(shape) - 1 in axes),
        # The position is incremented like an odometer.
        "axis counted on": sum(accumulate(shape, mul)),
        "output": call.required_output().element_count,
    }


def _mean(call: Call) -> LoopCounts:
    """Return the loops of MEAN, which has separate code for floats over height and width of images."""
    source = call.required_input(0)
    image = len(source.shape) == 4 and set(_axes(call)) == {1, 2} and call.required_input(1).element_count == 2
    if source.dtype == DType.FLOAT32 and image and call.option("keep_dims", False):
        outputs = source.shape[0] * source.shape[3]
        rows = outputs * source.shape[1]
        return LoopCounts("float32 image", {"output": outputs, "row": rows, "element": rows * source.shape[2]})
    return _reduction(call)


def _harmonic(count: int) -> float:
    """Return the sum of 1 / n up to `count`, by its asymptotic expansion."""
    return log(count) + EULER_GAMMA + 1 / (2 * count) if count > 0 else 1


def _arg_min_max(call: Call) -> LoopCounts:
    """Return the loops of ARG_MAX and ARG_MIN.

    In random order, the n-th element exceeds all earlier ones with a probability of 1 / n.
    """
    input_rank(0, 1, MAX_SMALL_RANK)(call)
    source = call.required_input(0)
    axis = _axes(call)[0]
    outputs, size = source.element_count // max(source.shape[axis], 1), source.shape[axis]
    return LoopCounts(
        source.dtype.name.lower(),
        {
            "turn": prod(source.shape[:axis]),
            "output": outputs,
            "element": source.element_count,
            "new extreme": round(outputs * (_harmonic(size) - 1)),
        },
    )


def _cumsum(call: Call) -> LoopCounts:
    """Return the loops of CUMSUM, which has separate code for reverse and for exclusive sums."""
    source, axis = call.required_input(0), _axes(call)[0]
    variants = [variant for variant in ("exclusive", "reverse") if call.option(variant)]
    rows = source.element_count // max(source.shape[axis], 1)
    loops = {"lane": prod(source.shape[axis + 1 :]), "row": rows, "element": source.element_count}
    return LoopCounts(" ".join([source.dtype.name.lower(), *variants]), loops)


LOOPS: dict[str, LoopRule] = {
    "ARG_MAX": _arg_min_max,
    "ARG_MIN": _arg_min_max,
    "CUMSUM": _cumsum,
    "MEAN": _mean,
    "REDUCE_ALL": _reduction,
    "REDUCE_MAX": _reduction,
    "REDUCE_MIN": _reduction,
    "SUM": _reduction,
}


def _mean_bounds(call: Call) -> None:
    """Require MEAN over height and width to have an output with the input's number of dimensions if it keeps them.

    The kernel aborts the program otherwise.
    """
    constant_input(1, "axes")(call)
    source, result = call.required_input(0).shape, call.required_output().shape
    same_rank = len(source) == len(result) or not call.option("keep_dims", False)
    require(call, same_rank, f"cannot keep {len(source)} dimensions in an output of shape {result}")


_AXIS_BOUNDS = constant_input(1, "axis")


BOUNDS: dict[str, Condition] = {
    "ARG_MAX": _AXIS_BOUNDS,
    "ARG_MIN": _AXIS_BOUNDS,
    "MEAN": _mean_bounds,
    "REDUCE_ALL": _AXIS_BOUNDS,
    "REDUCE_MAX": _AXIS_BOUNDS,
    "REDUCE_MIN": _AXIS_BOUNDS,
    "SUM": _AXIS_BOUNDS,
}


STACK_AXES = 2  # kMaxNumberOfReducedAxis of versions before "scratch-of-mean-and-sum"


def _exceeds_the_stack(call: Call) -> bool:
    return call.required_input(1).element_count > STACK_AXES


_AXES_FAULTS = (
    KernelFault(
        name="mean-axes",
        kernels=("reference", "cmsis-nn"),
        applies=_exceeds_the_stack,
        condition="over more than two axes",
        effect="writes past an array on the stack, and may crash",
        remedy="reduce over two axes at a time, or use a version of TFLM from 2026 or later",
        source="reduce_common.cc",
        fixed_by="0efdd51a3",
        wrong="",
        right="",
    ),
)
FAULTS: dict[str, tuple[KernelFault, ...]] = {"MEAN": _AXES_FAULTS, "SUM": _AXES_FAULTS}


OPERATORS = entries(prepare=PREPARE, loops=LOOPS, bounds=BOUNDS, faults=FAULTS)
