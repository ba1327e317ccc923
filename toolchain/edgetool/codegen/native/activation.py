"""Activation functions, and other functions of one tensor, as native kernels.

A function of int8 is a table of 256 codes, which the generator computes as TFLM's kernel does: in fixed point, or for
ELU with exp in float32. Functions of int16 are two multipliers, one for each sign, or TFLM's table of the sigmoid. TFLM
has NEG, SQUARE, SQRT, EXP and LOG only of float32.

Multipliers are quotients of scales in double, as TFLM of October 2026 computes them; that of August 2026 computes those
of RELU, LEAKY_RELU, ABS, RSQRT, HARD_SWISH, SUB and DIV in float32, which differs in results close to a half.

Rows: image rows or the whole tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import exp, frexp, isfinite, log2

import numpy as np

from edgetool.codegen.native.elementwise import CODES, binary_step, elementwise_rows, lookup_step
from edgetool.codegen.native.fixed_functions import divide_pot, inverse_square_root, logistic, tanh
from edgetool.codegen.native.fixed_point import Integers, Multiplier, multiply, quantize_multiplier
from edgetool.codegen.native.movement import is_unused
from edgetool.codegen.native.program import LIMITS, describe
from edgetool.codegen.native.recurrent import sigmoid_table
from edgetool.codegen.native.site import RANGES, Lowered, Lowering, Site, round_half_away
from edgetool.model.types import DType, Graph, Operator, Tensor
from edgetool.operators.call import float32, is_quantized, scale, zero_point

INTEGER_BITS = 4  # of the numbers of which LOGISTIC and TANH of int8 are computed
LOG2_TOLERANCE = 1e-3  # CheckedLog2, kernel_util.cc
LUT_MAX = 32767  # of the multiplier that LOGISTIC and TANH of int16 apply
SQUARE_ROOT_SHIFT = 20  # kShift of RSQRT


def _unary(functions: dict[DType, Callable[[Site], Iterator[Lowered]]]) -> Lowering:
    """Return the lowering of an operator by the type of its first input."""

    def lowering(site: Site) -> Iterator[Lowered]:
        dtype = site.input(0).dtype
        function = functions.get(dtype)
        if function is None:
            site.refuse(f"{dtype.name} is not supported")
        yield from function(site)

    return lowering


def _of_int8(function: Callable[[Site, Integers], Integers]) -> Callable[[Site], Iterator[Lowered]]:
    """Return the lowering of a function of int8; it receives the codes less the zero point, and returns codes."""

    def lowering(site: Site) -> Iterator[Lowered]:
        values = function(site, CODES - zero_point(site.input(0)))
        yield from lookup_step(site, 0, np.clip(values, -128, 127), DType.INT8)

    return lowering


def _ratio(site: Site) -> float:
    """Return the input's scale divided by the output's."""
    site.require(scale(site.output()) > 0, "its output has no scale")
    return scale(site.input(0)) / scale(site.output())


def _relu(site: Site, values: Integers) -> Integers:
    zero = zero_point(site.output())
    return np.maximum(zero + multiply(values, quantize_multiplier(_ratio(site))), zero)


def six(site: Site) -> int:
    """Return the code of 6 in the scale of the input (FloatToQuantizedType, micro_utils.h)."""
    source = site.input(0)
    low, high = RANGES[source.dtype]
    site.require(scale(source) > 0, "its input has no scale")
    return max(low, min(high, round_half_away(float32(6 / scale(source))) + zero_point(source)))


def _relu6(site: Site, values: Integers) -> Integers:
    """RELU6 clamps codes: it does not rescale them (Relu6Quantized, activations.h)."""
    zero = zero_point(site.input(0))
    return np.minimum(np.maximum(values + zero, zero), six(site))


@dataclass(frozen=True, slots=True)
class Sides:
    """A function that multiplies positive numbers and 0 by one multiplier, and negative numbers by another.

    before, after: whether the negative number, or its product, is negated.
    """

    positive: Multiplier
    negative: Multiplier
    before: bool = False
    after: bool = False

    def of(self, values: Integers) -> Integers:
        """Return the products."""
        negative = multiply(-values if self.before else values, self.negative)
        return np.where(values >= 0, multiply(values, self.positive), -negative if self.after else negative)


def _leaky_sides(site: Site) -> Sides:
    """Return the multipliers of LEAKY_RELU (leaky_relu_common.cc and leaky_relu.h)."""
    alpha = float32(site.option("alpha", 0.0))
    source, output = site.input(0), site.output()
    identity = quantize_multiplier(_ratio(site))
    slope = scale(source) * alpha / scale(output)
    site.require(isfinite(slope), "its slope is not finite")
    # TFLM negates the multiplier and the product; QuantizeMultiplier rounds half away from zero.
    return Sides(identity, quantize_multiplier(abs(slope)), after=slope < 0)


def _leaky_relu(site: Site, values: Integers) -> Integers:
    return zero_point(site.output()) + _leaky_sides(site).of(values)


def _abs_sides(site: Site) -> Sides:
    """Return the multipliers of ABS, which are 1 if both scales are equal (elementwise.cc)."""
    multiplier = quantize_multiplier(_ratio(site) if scale(site.input(0)) != scale(site.output()) else 1.0)
    return Sides(multiplier, multiplier, before=True)


def _abs(site: Site, values: Integers) -> Integers:
    return zero_point(site.output()) + _abs_sides(site).of(values)


def _rsqrt(site: Site, values: Integers) -> Integers:
    """RSQRT, with the highest code for 0 and for negative numbers, at which TFLM's Invoke returns an error."""
    source, output = site.input(0), site.output()
    factor = scale(source) ** 0.5 * scale(output)
    site.require(factor > 0, "it has no scales")
    scaled = quantize_multiplier(1 / factor)
    to_output = Multiplier(scaled.value, scaled.shift - SQUARE_ROOT_SHIFT)
    result = []
    for value in values.tolist():
        inverse, shift = inverse_square_root(max(value, 0))
        number = multiply(1, Multiplier(inverse, shift + SQUARE_ROOT_SHIFT))
        result.append(int(multiply(number, to_output)) + zero_point(output) if value > 0 else 127)
    return np.array(result, np.int64)


def _sigmoid_argument(site: Site, values: Integers) -> tuple[Integers, int]:
    """Return the arguments of LOGISTIC and TANH as fixed-point numbers, and from which code on they saturate.

    Source: logistic_common.cc and tanh.cc.
    """
    fraction, shift = frexp(scale(site.input(0)) * 2.0 ** (31 - INTEGER_BITS))
    multiplier = Multiplier(round_half_away(fraction * 2.0**31), shift)
    radius = int((2**INTEGER_BITS - 1) * 2.0 ** (31 - INTEGER_BITS) / 2.0**shift) if shift >= 0 else 2**31
    site.require(shift >= 0, "the scale of its input is too small")
    site.require(shift < 63, "TFLM's shift by the scale of its input is undefined")
    inside = np.where(np.abs(values) < radius, values, 0)
    return multiply(inside, multiplier), radius


def _logistic(site: Site, values: Integers) -> Integers:
    numbers, radius = _sigmoid_argument(site, values)
    codes = np.minimum(divide_pot(logistic(numbers, INTEGER_BITS), 23) - 128, 127)
    return np.where(values <= -radius, -128, np.where(values >= radius, 127, codes))


def _tanh(site: Site, values: Integers) -> Integers:
    numbers, radius = _sigmoid_argument(site, values)
    codes = np.clip(divide_pot(tanh(numbers, INTEGER_BITS), 24), -128, 127)
    return np.where(values <= -radius, -128, np.where(values >= radius, 127, codes))


def _elu(site: Site, values: Integers) -> Integers:
    """ELU, in float32 (PopulateLookupTable, elu.cc)."""
    source, output = site.input(0), site.output()
    site.require(scale(output) > 0, "its output has no scale")
    inverse = float32(1 / scale(output))
    result = []
    for value in values.tolist():
        number = float32(scale(source) * value)
        if number < 0:
            number = float32(float32(exp(number)) - 1)
        result.append(int(float32(round_half_away(float32(number * inverse)) + zero_point(output))))
    return np.array(result, np.int64)


def _to_int16(multiplier: Multiplier) -> int:
    """Return a multiplier of 16 bits (DownScaleInt32ToInt16Multiplier, common.h)."""
    half = 1 << 15
    return 2**15 - 1 if multiplier.value >= 2**31 - 1 - half else (multiplier.value + half) >> 16


def _high_mul_int16(first: Integers, second: int) -> Integers:
    """Return SaturatingRoundingDoublingHighMul of int16, which rounds half up."""
    return np.asarray(np.minimum((first * second + (1 << 14)) >> 15, 2**15 - 1), np.int64)


def _saturated(values: Integers) -> Integers:
    return np.clip(values, -(2**15), 2**15 - 1)


def _hard_swish(site: Site, values: Integers) -> Integers:
    """HARD_SWISH in fixed point of 16 bits (hard_swish.h and hard_swish_common.cc)."""
    source, output = site.input(0), site.output()
    fine = float32(scale(source) / 128)
    scaled = quantize_multiplier(fine / scale(output))
    reluish = quantize_multiplier(fine / (3 / 32768))
    numbers = values << 7
    site.require(scaled.shift <= 0, "the scale of its output is too small")
    gate = numbers
    if reluish.shift > 0:
        gate = _saturated(gate << (reluish.shift - 1))
    gate = _high_mul_int16(gate, _to_int16(reluish))
    gate = _saturated(gate << 1) if reluish.shift > 0 else divide_pot(gate, -reluish.shift)
    gate = (gate + (1 << 15)) >> 1
    product = gate * _high_mul_int16(numbers, _to_int16(scaled))
    # SaturatingDoublingHighMul rounds towards zero.
    high = np.sign(product) * (np.abs(product) >> 15)
    return divide_pot(high, scaled.right) + zero_point(output)


def sides_step(
    site: Site, sides: Sides, low: int, high: int, zero_points: tuple[int, int] | None = None
) -> Iterator[Lowered]:
    """Lower a function of integers that multiplies each sign by its multiplier.

    Args:
        site: The operator.
        sides: The function.
        low: The lowest output code.
        high: The highest output code.
        zero_points: Those of input and output, if the kernel does not use the tensors'.
    """
    if is_unused(site, site.operator.outputs[0]):
        return
    source, output = site.input(0), site.output()
    rows = elementwise_rows(site, (0,))
    pair = (sides.positive, sides.negative)
    zeros = zero_points or (zero_point(source), zero_point(output))
    op = describe(
        "edgetool_requantize",
        count=rows.count,
        multiplier=tuple(item.value for item in pair),
        input_zero_point=zeros[0],
        zero_point=zeros[1],
        low=low,
        high=high,
        left=tuple(item.left for item in pair),
        right=tuple(item.right for item in pair),
        before=-1 if sides.before else 1,
        after=-1 if sides.after else 1,
        input_bytes=source.dtype.bits // 8,
        output_bytes=output.dtype.bits // 8,
    )
    yield rows.step(site, "edgetool_requantize", op)


def _relu_int16(site: Site) -> Iterator[Lowered]:
    multiplier = quantize_multiplier(_ratio(site))
    yield from sides_step(site, Sides(multiplier, multiplier), 0, RANGES[DType.INT16][1])


def _relu6_int16(site: Site) -> Iterator[Lowered]:
    one = quantize_multiplier(1.0)
    zero = zero_point(site.input(0))
    yield from sides_step(site, Sides(one, one), zero, six(site), (0, 0))


def _leaky_relu_int16(site: Site) -> Iterator[Lowered]:
    yield from sides_step(site, _leaky_sides(site), *RANGES[DType.INT16])


def _abs_int16(site: Site) -> Iterator[Lowered]:
    if is_quantized(site.input(0)):
        yield from sides_step(site, _abs_sides(site), *RANGES[DType.INT16])
        return
    one = quantize_multiplier(1.0)
    # -32768 wraps to itself.
    yield from sides_step(site, Sides(one, one, before=True), *LIMITS["int32_t"])


def _sigmoid_int16(site: Site) -> Iterator[Lowered]:
    """LOGISTIC and TANH of int16, whose argument is scaled to units of 1 / (3 * 2^12) (logistic.h, tanh.h)."""
    if is_unused(site, site.operator.outputs[0]):
        return
    is_tanh = site.operator.code == "TANH"
    multiplier, shift = sigmoid_scale(scale(site.input(0)), is_tanh=is_tanh)
    site.require(multiplier * 2**15 + (1 << shift) < 2**31, "the scale of its input is too large")
    rows = elementwise_rows(site, (0,))
    op = describe(
        "edgetool_logistic_s16",
        sigmoid=sigmoid_table(),
        count=rows.count,
        multiplier=multiplier,
        right=shift,
        tanh=int(is_tanh),
    )
    yield rows.step(site, "edgetool_logistic_s16", op)


def sigmoid_scale(real: float, *, is_tanh: bool) -> tuple[int, int]:
    """Return the multiplier and the right shift that scale int16 numbers for the table of the sigmoid.

    Source: LogisticPrepare and TanhPrepare.
    """
    logarithm = log2(real)
    left = 12 + round(logarithm)
    if abs(logarithm - round(logarithm)) < LOG2_TOLERANCE and left in ((0, 1) if is_tanh else (0,)):
        return 3 << left, 0
    scaled, shift = real * 4096.0 * 3.0, 0
    while scaled <= LUT_MAX / 2.0 and shift <= 30:
        shift += 1
        scaled *= 2.0
    return int(scaled), shift


def _prelu(site: Site) -> Iterator[Lowered]:
    """PRELU of int8 or int16, with slopes of int8 (prelu.h and prelu_common.cc)."""
    source, slopes, output = site.input(0), site.input(1), site.output()
    site.require(source.dtype in (DType.INT8, DType.INT16), f"{source.dtype.name} is not supported")
    site.require(slopes.dtype is DType.INT8, f"slopes of type {slopes.dtype.name} are not supported")
    site.require(scale(output) > 0, "its output has no scale")
    positive = quantize_multiplier(scale(source) / scale(output))
    negative = quantize_multiplier(scale(source) * scale(slopes) / scale(output))
    zeros = zero_point(source), zero_point(slopes), zero_point(output)
    low, high = RANGES[source.dtype]

    def function(first: Integers, second: Integers) -> Integers:
        values, factors = first - zeros[0], second - zeros[1]
        scaled = np.where(values >= 0, multiply(values, positive), multiply(values * factors, negative))
        return np.asarray(np.clip(scaled + zeros[2], low, high), np.int64)

    yield from binary_step(
        site,
        "edgetool_prelu",
        function if source.dtype is DType.INT8 else None,
        multiplier=(positive.value, negative.value),
        zero_points=zeros,
        left=(positive.left, negative.left),
        right=(positive.right, negative.right),
        bytes=source.dtype.bits // 8,
    )


@dataclass(frozen=True, slots=True)
class Lookup:
    """A chain of operators that is a function of one byte: its argument, and the constant with its values."""

    source: int
    table: int


@dataclass(frozen=True, slots=True)
class Lookups:
    """The chains of a graph, by the operator that gives their result, and the other operators of the chains."""

    by_operator: Mapping[int, Lookup]
    absorbed: frozenset[int]


def fold_lookups(graph: Graph) -> Lookups:
    """Return the chains that the lookup pass writes for a table: CAST to int32, ADD of 128, and GATHER.

    A chain for each part of a SPLIT_V, whose results a CONCATENATION joins again, is one chain.
    """
    producers = {index: operator for operator in graph.operators for index in operator.outputs}
    readers = Counter(index for operator in graph.operators for index in operator.inputs)
    readers.update(graph.outputs)

    def inner(index: int, code: str) -> Operator | None:
        """Return the operator with this code that computes a tensor with a single reader."""
        operator = producers.get(index)
        return operator if operator is not None and operator.code == code and readers[index] == 1 else None

    lookups: dict[int, Lookup] = {}
    absorbed: set[int] = set()
    for operator in graph.operators:
        if operator.code == "GATHER" and _is_code_table(graph, operator):
            add = inner(operator.inputs[1], "ADD")
            shifts = [] if add is None else [index for index in add.inputs if _is_shift(graph.tensors[index])]
            if add is None or len(shifts) != 1:
                continue
            cast = inner(sum(add.inputs) - shifts[0], "CAST")
            if cast is not None and _is_source(graph.tensors[cast.inputs[0]]):
                lookups[operator.index] = Lookup(cast.inputs[0], operator.inputs[0])
                absorbed |= {cast.index, add.index}
        elif operator.code == "CONCATENATION":
            parts = [inner(index, "GATHER") for index in operator.inputs]
            chains = [lookups[part.index] for part in parts if part is not None and part.index in lookups]
            split = producers.get(chains[0].source) if len(chains) == len(operator.inputs) else None
            if split is None or not _are_parts(graph, split, operator, chains, readers):
                continue
            lookups[operator.index] = Lookup(split.inputs[0], chains[0].table)
            absorbed |= {split.index, *(part.index for part in parts if part is not None)}
    return Lookups({index: lookup for index, lookup in lookups.items() if index not in absorbed}, frozenset(absorbed))


def _is_code_table(graph: Graph, gather: Operator) -> bool:
    """Return whether a GATHER selects int8 from 256 constants."""
    table, options = graph.tensors[gather.inputs[0]], {} if gather.options is None else dict(gather.options.fields)
    return (
        table.dtype is DType.INT8
        and table.data is not None
        and table.shape == (len(CODES),)
        and not options.get("axis", 0)
        and not options.get("batch_dims", 0)
    )


def _is_shift(tensor: Tensor) -> bool:
    """Return whether a tensor is the constant 128, which makes an index of a code."""
    return tensor.dtype is DType.INT32 and tensor.data == (128).to_bytes(4, "little")


def _is_source(tensor: Tensor) -> bool:
    return tensor.dtype is DType.INT8 and not tensor.is_variable


def _are_parts(
    graph: Graph, split: Operator, concatenation: Operator, chains: list[Lookup], readers: Mapping[int, int]
) -> bool:
    """Return whether chains with equal tables read all parts of a SPLIT_V in the order of the CONCATENATION."""
    if split.code != "SPLIT_V" or [chain.source for chain in chains] != list(split.outputs):
        return False
    axis = graph.tensors[split.inputs[2]].data
    rank = len(graph.tensors[split.inputs[0]].shape)
    options = {} if concatenation.options is None else dict(concatenation.options.fields)
    joined = options.get("axis", 0)
    return (
        axis is not None
        and isinstance(joined, int)
        and int.from_bytes(axis, "little", signed=True) % rank == joined % rank
        and len({graph.tensors[chain.table].data for chain in chains}) == 1
        and all(readers[index] == 1 for index in split.outputs)
        and _is_source(graph.tensors[split.inputs[0]])
    )


def lower_lookup(site: Site, lookup: Lookup) -> Iterator[Lowered]:
    """Lower a chain whose result is that of the site's operator."""
    table = np.frombuffer(site.graph.tensors[lookup.table].data or b"", np.int8).astype(np.int64)
    chain = replace(site, operator=replace(site.operator, inputs=(lookup.source,)))
    yield from lookup_step(chain, 0, table, DType.INT8)


LOWERINGS: dict[str, Lowering] = {
    "ABS": _unary({DType.INT8: _of_int8(_abs), DType.INT16: _abs_int16}),
    "ELU": _unary({DType.INT8: _of_int8(_elu)}),
    "EXP": _unary({}),
    "HARD_SWISH": _unary({DType.INT8: _of_int8(_hard_swish)}),
    "LEAKY_RELU": _unary({DType.INT8: _of_int8(_leaky_relu), DType.INT16: _leaky_relu_int16}),
    "LOG": _unary({}),
    "LOGISTIC": _unary({DType.INT8: _of_int8(_logistic), DType.INT16: _sigmoid_int16}),
    "NEG": _unary({}),
    "PRELU": _prelu,
    "RELU": _unary({DType.INT8: _of_int8(_relu), DType.INT16: _relu_int16}),
    "RELU6": _unary({DType.INT8: _of_int8(_relu6), DType.INT16: _relu6_int16}),
    "RSQRT": _unary({DType.INT8: _of_int8(_rsqrt)}),
    "SQRT": _unary({}),
    "SQUARE": _unary({}),
    "TANH": _unary({DType.INT8: _of_int8(_tanh), DType.INT16: _sigmoid_int16}),
}
