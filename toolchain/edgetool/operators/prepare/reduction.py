"""Reductions along axes: what their kernels ask for in Prepare.

Sources: reduce.cc, reduce_common.cc, cumsum.cc; arg_min_max.cc has no Prepare. Axes are counted, not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgetool.model.types import DType
from edgetool.operators.kernel import Call, PrepareRule, Request, nothing, persistent, scratch
from edgetool.operators.prepare.conditions import counts, output_alike, same_shape
from edgetool.operators.prepare.inspection import demand, input_type
from edgetool.operators.prepare.quantization import is_below_one, ratio, scale

INT32_BYTES = 4
SUM_SHIFT = 20  # kCumSumIntegerShift


def _mean_or_sum(call: Call) -> Iterator[Request]:
    source, result = call.required_input(0), call.required_output()
    yield from _tensors(call)
    if source.dtype in (DType.INT8, DType.INT16):
        yield scratch("accumulators", INT32_BYTES * result.element_count)
    yield from _iterators(call)
    yield from _simple(call)


def _minimum_or_maximum(call: Call) -> Iterator[Request]:
    yield from _simple(call)
    yield from _tensors(call)
    yield from _iterators(call)


def _all(call: Call) -> Iterator[Request]:
    yield from _tensors(call)
    input_type(0, DType.BOOL)(call)
    yield from _simple(call)
    yield from _iterators(call)


def _simple(call: Call) -> Iterator[Request]:
    """PrepareSimple: the output is looked at for int8 only."""
    yield from call.temporary_inputs(0)
    counts(2)(call)
    yield from call.temporary_inputs(1)
    input_type(1, DType.INT32)(call)
    if call.required_input(0).dtype == DType.INT8:
        yield from call.temporary_outputs(0)


def _tensors(call: Call) -> Iterator[Request]:
    yield from call.temporary_inputs(0)
    yield from call.temporary_outputs(0)
    yield from call.temporary_inputs(1)


def _iterators(call: Call) -> Iterator[Request]:
    yield scratch("position in the input", INT32_BYTES * len(call.required_input(0).shape))
    yield scratch("resolved axes", INT32_BYTES * call.required_input(1).element_count)


def _cumulative_sum(call: Call) -> Iterator[Request]:
    counts(2)(call)
    source, axis, result = call.required_input(0), call.required_input(1), call.required_output()
    yield from call.temporary_inputs(0, 1)
    input_type(0, DType.FLOAT32, DType.INT8)(call)
    input_type(1, DType.INT32)(call)
    demand(call, axis.element_count == 1, f"requires one axis, not {axis.element_count}")
    demand(call, len(source.shape) > 0, "does not support a scalar")
    yield from call.temporary_outputs(0)
    output_alike(call)
    same_shape(call)
    if source.dtype == DType.INT8:
        yield persistent("parameters", call.platform.size_of("OpDataCumSum"))
        common = 2 * scale(source)
        fits = is_below_one(ratio(scale(source), common)) and is_below_one(ratio(common, 2**SUM_SHIFT * scale(result)))
        demand(call, fits, f"cannot produce an output with the scale {scale(result)} from the scale {scale(source)}")


RULES: dict[str, PrepareRule] = {
    "ARG_MAX": nothing,
    "ARG_MIN": nothing,
    "CUMSUM": _cumulative_sum,
    "MEAN": _mean_or_sum,
    "REDUCE_ALL": _all,
    "REDUCE_MAX": _minimum_or_maximum,
    "REDUCE_MIN": _minimum_or_maximum,
    "SUM": _mean_or_sum,
}
