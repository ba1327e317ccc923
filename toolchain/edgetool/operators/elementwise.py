"""Functions and conversions of single elements: Prepare and loop counts.

Sources of Prepare: elementwise.cc, exp.cc, ceil.cc, round.cc, zeros_like.cc, quantize_common.cc, dequantize_common.cc,
cast.cc; neg.cc and floor.cc have no Prepare. The type check of elementwise.cc tests a conversion to a function pointer
and so accepts every type; Invoke rejects unsupported ones.

Sources of the loop counts: elementwise.cc, exp.cc, ceil.cc, floor.cc, round.cc, neg.cc, quantize_common.cc,
dequantize.cc and cast.cc. The instructions of the C library's float functions depend on the number: their mean is
counted.
"""

from __future__ import annotations

from edgetool.model.types import DType
from edgetool.operators.call import (
    Call,
    KernelRefusal,
    PrepareRule,
    input_type,
    is_quantized,
    no_requests,
    output_type,
    prepare_rule,
    same_output_shape,
    same_output_type,
    scale,
    symmetric_int16,
    zero_point,
)
from edgetool.operators.entry import entries
from edgetool.operators.loops import (
    LoopCounts,
    LoopRule,
    combined,
    dimension_loops,
    dtype_name,
    elementwise_loops,
    memset_loops,
    negative_count,
)
from edgetool.operators.overlap import OverlapRules, elementwise_overlaps
from edgetool.operators.rows import RowRule, same_rows


def _check_quantized(call: Call) -> None:
    """Require quantization of input and output if the input is int8, or int16 with quantization."""
    source, result = call.required_input(0), call.required_output()
    needed = source.dtype == DType.INT8 or (source.dtype == DType.INT16 and is_quantized(source))
    if not needed:
        return
    if not (is_quantized(source) and is_quantized(result)):
        raise KernelRefusal(f"{call.operator.label} supports {source.dtype.name.lower()} only with quantization")
    symmetric_int16(1)(call)


def _check_single_scale(call: Call) -> None:
    result = call.required_output()
    if not is_quantized(result) or result.quantization is None or len(result.quantization.scales) != 1:
        raise KernelRefusal(f"{call.operator.label} produces only tensors with a single scale")


_FUNCTION_RULE = prepare_rule((0,), (0,), same_output_type)
_RESCALING_RULE = prepare_rule((0,), (0,), same_output_type, _check_quantized)
_FLOAT_FUNCTION_RULE = prepare_rule((0,), (0,), input_type(0, DType.FLOAT32), same_output_type, same_output_shape)

PREPARE: dict[str, PrepareRule] = {
    "ABS": _RESCALING_RULE,
    "CAST": prepare_rule((0,), (0,)),
    "CEIL": _FLOAT_FUNCTION_RULE,
    "COS": _FUNCTION_RULE,
    "DEQUANTIZE": prepare_rule(
        (0,), (0,), input_type(0, DType.INT8, DType.INT16, DType.UINT8), output_type(0, DType.FLOAT32)
    ),
    "EXP": _FLOAT_FUNCTION_RULE,
    "FLOOR": no_requests,
    "LOG": _FUNCTION_RULE,
    "NEG": no_requests,
    "QUANTIZE": prepare_rule(
        (0,),
        (0,),
        _check_single_scale,
        input_type(0, DType.FLOAT32, DType.INT32, DType.INT16, DType.INT8, DType.UINT8),
        output_type(0, DType.INT8, DType.INT16, DType.INT32, DType.UINT8),
    ),
    "ROUND": _FLOAT_FUNCTION_RULE,
    "RSQRT": _RESCALING_RULE,
    "SIN": _FUNCTION_RULE,
    "SQRT": _FUNCTION_RULE,
    "SQUARE": _FUNCTION_RULE,
    "ZEROS_LIKE": prepare_rule((0,), (0,)),
}


def _function_loops(call: Call) -> LoopCounts:
    return elementwise_loops(call, dtype_name(call))


def _abs_loops(call: Call) -> LoopCounts:
    """Return the loops of ABS; quantized numbers are multiplied if the scales differ."""
    source = call.required_input(0)
    if not is_quantized(source) or source.dtype == DType.FLOAT32:
        return elementwise_loops(call, dtype_name(call))
    rescaled = scale(source) != scale(call.required_output())
    return elementwise_loops(call, f"{dtype_name(call)} {'rescaled' if rescaled else 'quantized'}")


FUNCTIONS = ("CEIL", "COS", "EXP", "FLOOR", "LOG", "NEG", "ROUND", "RSQRT", "SIN", "SQRT", "SQUARE")


def _zeros_like_loops(call: Call) -> LoopCounts:
    """Return the loops of ZEROS_LIKE, which is one memset."""
    result = call.required_output()
    return LoopCounts("fill", combined(dimension_loops(len(result.shape)), memset_loops(result.size_bytes)))


LOOPS: dict[str, LoopRule] = {
    "ABS": _abs_loops,
    "ZEROS_LIKE": _zeros_like_loops,
    **dict.fromkeys(FUNCTIONS, _function_loops),
}


# The differences of zero points for which types of the same scale differ only in the sign bit.
SIGN_CHANGES = {(DType.INT8, DType.UINT8): -128, (DType.UINT8, DType.INT8): 128}


def _conversion_loops(call: Call) -> LoopCounts:
    return elementwise_loops(call, f"{dtype_name(call)} to {call.required_output().dtype.name.lower()}")


def _quantize_loops(call: Call) -> LoopCounts:
    source, result = call.required_input(0), call.required_output()
    path = f"{dtype_name(call)} to {result.dtype.name.lower()}"
    if source.dtype == DType.FLOAT32:
        return elementwise_loops(call, path)
    flips = SIGN_CHANGES.get((source.dtype, result.dtype)) == zero_point(source) - zero_point(result)
    if flips and scale(source) == scale(result):
        return elementwise_loops(call, f"{path} of one scale")
    return elementwise_loops(call, path, negative=negative_count(call))


CONVERSION_LOOPS: dict[str, LoopRule] = {
    "CAST": _conversion_loops,
    "DEQUANTIZE": _conversion_loops,
    "QUANTIZE": _quantize_loops,
}


OVERLAPS: dict[str, OverlapRules] = dict.fromkeys(set(PREPARE) - {"ZEROS_LIKE"}, elementwise_overlaps(0))
ROWS: dict[str, RowRule] = dict.fromkeys(set(PREPARE) - {"ZEROS_LIKE"}, same_rows(0))


OPERATORS = entries(prepare=PREPARE, loops={**LOOPS, **CONVERSION_LOOPS}, overlaps=OVERLAPS, rows=ROWS)
