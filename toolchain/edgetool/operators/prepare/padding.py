"""Operators that enlarge a tensor: what their kernels ask for in Prepare.

Sources: pad_common.cc, mirror_pad.cc, broadcast_to.cc, fill.cc. CMSIS-NN's pad shares the reference kernel's Prepare.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgetool.model.types import DType, Tensor
from edgetool.operators.kernel import Call, PrepareRule, Request, scratch
from edgetool.operators.prepare.conditions import counts, looks_at, output_alike
from edgetool.operators.prepare.inspection import (
    INT_BYTES,
    constant_input,
    demand,
    input_rank,
    input_type,
    integers,
    words,
)
from edgetool.operators.prepare.quantization import scale, zero_point

# PadKernelMaxDimensionCount (pad.h) and kMaxDims (broadcast_to.cc)
LARGEST_RANK = 5


def _pad(call: Call) -> Iterator[Request]:
    inputs = len(call.operator.inputs)
    demand(call, inputs in (2, 3), f"requires 2 or 3 inputs, not {inputs}")
    counts(inputs)(call)
    source, paddings, value, result = (
        call.required_input(0), call.required_input(1), call.input(2), call.required_output()
    )  # fmt: skip
    yield from call.temporary_inputs(0, 1, 2)
    yield from call.temporary_outputs(0)
    output_alike(call)
    input_rank(0, 0, LARGEST_RANK)(call)
    if value is not None:
        input_type(2, source.dtype)(call)
        demand(call, value.element_count == 1, f"requires one padding value, not {value.element_count}")
    rank = len(result.shape)
    demand(call, paddings.element_count == 2 * rank, f"requires 2 paddings for each of {rank} dimensions")
    constant_input(1, "paddings")(call)
    _check_padded_shape(call, source, paddings, result)
    if source.dtype == DType.INT8:
        _check_padding_value(call, value, result)


def _check_padded_shape(call: Call, source: Tensor, paddings: Tensor, result: Tensor) -> None:
    # The type is not checked: int64 paddings are read as twice as many words.
    around = words(paddings)
    if len(around) < 2 * len(result.shape):
        return  # Narrower paddings: the kernel reads on behind them, and what it finds there is not known.
    for axis, (size, padded) in enumerate(zip(source.shape, result.shape, strict=False)):
        before, after = around[2 * axis], around[2 * axis + 1]
        made = size + before + after
        demand(call, made == padded, f"produces {made} in dimension {axis}, but the file specifies {padded}")


def _check_padding_value(call: Call, value: Tensor | None, result: Tensor) -> None:
    if value is None:
        demand(
            call,
            -128 <= zero_point(result) <= 127,
            f"does not support an int8 output with a zero point of {zero_point(result)}",
        )
    else:
        same = (scale(value), zero_point(value)) == (scale(result), zero_point(result))
        demand(call, same, "supports an int8 value only if it is quantized like the output")


def _mirror_pad(call: Call) -> Iterator[Request]:
    rank, paddings = len(call.required_input(0).shape), call.required_input(1).shape
    yield from call.temporary_inputs(0, 1)
    yield from call.temporary_outputs(0)
    demand(call, len(paddings) == 2 and paddings[0] == rank, f"requires paddings for {rank} dimensions, not {paddings}")
    yield scratch("strides of the output", INT_BYTES * rank)
    yield scratch("strides of the input", INT_BYTES * rank)


def _broadcast_fits(call: Call) -> None:
    source, result = call.required_input(0).shape, call.required_output().shape
    shape = call.required_input(1)
    rank = len(result)
    demand(
        call, shape.shape == (rank,), f"requires a shape with {rank} dimensions, not a tensor of shape {shape.shape}"
    )
    demand(call, len(source) <= rank <= LARGEST_RANK, f"cannot broadcast {source} to {result}")
    target = integers(shape)
    aligned = zip(source, target[rank - len(source) :], strict=False)  # a sparse shape may be short
    demand(call, all(size in (1, wanted) for size, wanted in aligned), f"cannot broadcast {source} to {target}")
    demand(call, target == result, f"produces {target}, but the file specifies {result}")


def _filled_shape(call: Call) -> None:
    shape, result = call.required_input(0), call.required_output()
    input_type(0, DType.INT8, DType.INT16, DType.INT32, DType.INT64)(call)
    demand(
        call,
        shape.shape == (len(result.shape),),
        f"requires a shape for {result.shape}, not a tensor of shape {shape.shape}",
    )
    demand(call, integers(shape) == result.shape, f"produces {integers(shape)}, but the file specifies {result.shape}")


def _value_as_output(call: Call) -> None:
    input_type(1, call.required_output().dtype)(call)


RULES: dict[str, PrepareRule] = {
    "BROADCAST_TO": looks_at(
        (0, 1),
        (0,),
        counts(2),
        input_rank(0, 0, LARGEST_RANK),
        input_type(1, DType.INT32, DType.INT64),
        output_alike,
        constant_input(1, "shape"),
        _broadcast_fits,
    ),
    "FILL": looks_at(
        (0, 1), (0,), input_rank(1, 0), _value_as_output, constant_input(0, "shape"), input_rank(0, 1), _filled_shape
    ),
    "MIRROR_PAD": _mirror_pad,
    "PAD": _pad,
    "PADV2": _pad,
}
