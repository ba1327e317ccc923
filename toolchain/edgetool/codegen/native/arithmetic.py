"""Arithmetic of two tensors or more, comparisons and selections as native kernels.

Operands of different shapes are broadcast; see elementwise.py. A function of two tensors of int8 of which one is a
constant number, or of the same tensor twice, is a function of one code, and so a table. Operators on two constants of
int32 are computed by the generator.

ADD and SUB of int8 apply one line to both codes, (a * slope + b * slope + intercept) >> shift, if it equals TFLM's
three roundings for all 65,536 pairs of codes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from edgetool.codegen.native.elementwise import CODES, Function, binary_step, elementwise_rows, lookup_step
from edgetool.codegen.native.fixed_functions import high_mul, one_over_one_plus_x, wrapped
from edgetool.codegen.native.fixed_point import (
    DOUBLE_ROUNDING,
    Integers,
    Multiplier,
    Reach,
    double_rounding_scales,
    layer_scales,
    multiply,
    quantize_multiplier,
)
from edgetool.codegen.native.movement import is_unused
from edgetool.codegen.native.program import LIMITS, Constant, FieldValue, describe
from edgetool.codegen.native.site import RANGES, Array, Folded, Lowered, Lowering, Site, fused_range
from edgetool.model.types import DType
from edgetool.operators.call import float32, scale, zero_point

MAX_LINE_SHIFT = 30
# Slopes around the real ones that are tried for a line of two codes, the nearest first.
TRIED = sorted(((i, j) for i in range(-3, 4) for j in range(-3, 4)), key=lambda pair: abs(pair[0]) + abs(pair[1]))
# The field `kind` of edgetool_arithmetic_s32.
KINDS = {"ADD": 0, "SUB": 1, "MUL": 2, "SQUARED_DIFFERENCE": 3, "DIV": 4}
# The field `accept` of edgetool_compare and edgetool_compare_f32.
ACCEPTED = {
    "EQUAL": 2, "NOT_EQUAL": 1 | 4 | 8, "LESS": 1, "LESS_EQUAL": 1 | 2, "GREATER": 4, "GREATER_EQUAL": 2 | 4
}  # fmt: skip
LESS, EQUAL, GREATER = 1, 2, 4
INT32_BOUNDS = {"NONE": (), "RELU": (0,), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1)}
COMPARISON_SHIFT = 8  # kLeftShift of comparisons.cc
ADD_N_SHIFT = 20
MAX_RIGHT_SHIFT = 31  # of RoundingDivideByPOT


@dataclass(frozen=True, slots=True)
class Addition:
    """ADD or SUB of quantized numbers: codes less zero points, times 2^shift, scaled, added, and scaled (add.h)."""

    multipliers: tuple[Multiplier, Multiplier, Multiplier]
    zero_points: tuple[int, int, int]
    shift: int
    subtract: bool
    low: int
    high: int

    def of(self, first: Integers, second: Integers) -> Integers:
        """Return the output codes of input codes."""
        a, b = (
            multiply((codes - zero) << self.shift, multiplier)
            for codes, zero, multiplier in zip((first, second), self.zero_points, self.multipliers, strict=False)
        )
        total = multiply(a - b if self.subtract else a + b, self.multipliers[2])
        return np.clip(total + self.zero_points[2], self.low, self.high)


@dataclass(frozen=True, slots=True)
class Line:
    """(a * slopes[0] + b * slopes[1] + intercept) >> shift."""

    slopes: tuple[int, int]
    intercept: int
    shift: int


@cache
def addition_line(addition: Addition) -> Line | None:
    """Return the line that equals an addition of int8 for all pairs of codes, before it is clamped; None if none does.

    No sum of the line exceeds 32 bits.
    """
    results = addition.of(CODES[:, None], CODES)
    real = [_real(item) * 2.0**addition.shift * _real(addition.multipliers[2]) for item in addition.multipliers[:2]]
    if addition.subtract:
        real[1] = -real[1]
    # The largest sum, with a margin for the intercept.
    largest = 128 * (abs(real[0]) + abs(real[1])) + abs(addition.zero_points[2]) + 2
    largest += abs(addition.zero_points[0] * real[0]) + abs(addition.zero_points[1] * real[1])
    shift = MAX_LINE_SHIFT
    while shift and largest * 2.0**shift >= 2**31:
        shift -= 1
    for delta in TRIED:
        slopes = (round(real[0] * 2**shift) + delta[0], round(real[1] * 2**shift) + delta[1])
        sums = CODES[:, None] * slopes[0] + CODES * slopes[1]
        # Codes at an end of the range have no bound there: the result is clamped.
        least = np.where(results > addition.low, (results << shift) - sums, -(2**62)).max()
        most = np.where(results < addition.high, ((results + 1) << shift) - 1 - sums, 2**62).min()
        if least > most:
            continue
        intercept = int(most if least == -(2**62) else least if most == 2**62 else (least + most) // 2)
        if max(abs(int(sums.min())), abs(int(sums.max()))) + abs(intercept) < 2**31:
            return Line(slopes, intercept, shift)
    return None


def _real(multiplier: Multiplier) -> float:
    return multiplier.value * 2.0 ** (multiplier.shift - 31)


def _addition(site: Site, shift: int, *, subtract: bool) -> Addition:
    """Return the fixed-point numbers of ADD or SUB (add_common.cc, sub_common.cc)."""
    scales = scale(site.input(0)), scale(site.input(1)), scale(site.output())
    site.require(min(scales) > 0, "a tensor has no scale")
    twice = 2 * max(scales[:2])
    real = (scales[0] / twice, scales[1] / twice, twice / (2.0**shift * scales[2]))
    first, second, third = (quantize_multiplier(item) for item in real)
    site.require(max(first.shift, second.shift, third.shift) <= 0, "the scale of its output is too small")
    zero_points = (zero_point(site.input(0)), zero_point(site.input(1)), zero_point(site.output()))
    return Addition((first, second, third), zero_points, shift, subtract, *fused_range(site, site.output()))


def _add(site: Site) -> Iterator[Lowered]:
    dtype, subtract = site.output().dtype, site.operator.code == "SUB"
    if dtype is DType.INT32:
        yield from _arithmetic_int32(site)
        return
    site.require(dtype in (DType.INT8, DType.INT16), f"{dtype.name} is not supported")
    addition = _addition(site, 20 if dtype is DType.INT8 else 15, subtract=subtract)
    multipliers = tuple(item.value for item in addition.multipliers)
    fields: dict[str, FieldValue] = {
        "right": tuple(item.right for item in addition.multipliers),
        "zero_points": addition.zero_points,
        "subtract": int(subtract),
        "low": addition.low,
        "high": addition.high,
    }
    if dtype is DType.INT16:
        yield from binary_step(site, "edgetool_add_s16", None, multiplier=multipliers, **fields)
        return
    line = addition_line(addition)
    if line is None:
        fields |= {"numbers": multipliers, "shift": DOUBLE_ROUNDING}
    else:
        fields |= {"numbers": (*line.slopes, line.intercept), "shift": line.shift}
    yield from binary_step(site, "edgetool_add_s8", addition.of, **fields)


def product_multiplier(site: Site) -> Multiplier:
    """Return what MUL scales products of quantized numbers with (mul_common.cc)."""
    return quantize_multiplier(scale(site.input(0)) * scale(site.input(1)) / scale(site.output()))


def _mul(site: Site) -> Iterator[Lowered]:
    dtype = site.output().dtype
    if dtype is DType.INT32:
        yield from _arithmetic_int32(site)
        return
    site.require(dtype in (DType.INT8, DType.INT16), f"{dtype.name} is not supported")
    site.require(scale(site.output()) > 0, "its output has no scale")
    multiplier = product_multiplier(site)
    zeros = zero_point(site.input(0)), zero_point(site.input(1))
    zero = zero_point(site.output())
    low, high = fused_range(site, site.output())
    ends = np.array(RANGES[dtype], np.int64)
    products = np.multiply.outer(ends - zeros[0], ends - zeros[1])
    site.require(np.abs(products).max() << multiplier.left < 2**31 - 2**16, "the scale of its output is too small")
    if dtype is DType.INT16:
        scales = double_rounding_scales([multiplier], np.zeros(1, np.int64))
        fields: dict[str, FieldValue] = {"scale": scales.constant, "shift": scales.shift, "low": low, "high": high}
        yield from binary_step(site, "edgetool_mul_s16", None, **fields)
        return
    reach = Reach(np.array([products.min()]), np.array([products.max()]))
    scales = layer_scales([multiplier], np.zeros(1, np.int64), reach, zero, low, high)

    def function(first: Integers, second: Integers) -> Integers:
        return np.clip(multiply((first - zeros[0]) * (second - zeros[1]), multiplier) + zero, low, high)

    yield from binary_step(
        site,
        "edgetool_mul_s8",
        function,
        scale=scales.constant,
        shift=scales.shift,
        zero_points=zeros,
        zero_point=zero,
        low=low,
        high=high,
    )


def _arithmetic_int32(site: Site) -> Iterator[Lowered]:
    """Lower arithmetic of int32, which wraps; ADD ignores its fused activation (add.cc)."""
    code = site.operator.code
    name = "NONE" if code in ("ADD", "SQUARED_DIFFERENCE") else site.option("fused_activation_function", "NONE")
    site.require(name in INT32_BOUNDS, f"the fused activation {name} is not supported")
    bounds = INT32_BOUNDS[name]
    low, high = (*bounds, *LIMITS["int32_t"][len(bounds) :])
    output = site.output()
    if output.element_count and site.input(0).data is not None and site.input(1).data is not None:
        values = _computed_int32(site, code)
        if values is not None and values.size == output.element_count:
            yield Folded(site.operator.outputs[0], np.clip(values, low, high).astype("<i4").tobytes())
            return
    yield from binary_step(site, "edgetool_arithmetic_s32", None, low=low, high=high, kind=KINDS[code])


def _computed_int32(site: Site, code: str) -> Array | None:
    """Return the result of an operator on constants of int32; None for a division."""
    a, b = site.constant(0), site.constant(1)
    if code == "DIV":
        return None
    difference = np.subtract(a, b)
    return {"ADD": a + b, "SUB": difference, "MUL": a * b, "SQUARED_DIFFERENCE": difference * difference}[code]


def _squared_difference(site: Site) -> Iterator[Lowered]:
    dtype = site.output().dtype
    if dtype is DType.INT32:
        yield from _arithmetic_int32(site)
        return
    site.require(dtype in (DType.INT8, DType.INT16), f"{dtype.name} is not supported")
    shift = 7 if dtype is DType.INT8 else 0
    tensors = site.input(0), site.input(1), site.output()
    scales = [scale(tensor) for tensor in tensors]
    site.require(min(scales) > 0, "a tensor has no scale")
    twice = 2.0 * max(scales[:2])
    real = (scales[0] / twice, scales[1] / twice, twice * twice / float32(2.0 ** (2 * shift) * scales[2]))
    multipliers = [quantize_multiplier(item) for item in real]
    zeros = [zero_point(tensor) for tensor in tensors]
    low, high = RANGES[dtype]

    def function(first: Integers, second: Integers) -> Integers:
        a, b = (multiply((codes - zeros[k]) << shift, multipliers[k]) for k, codes in enumerate((first, second)))
        return np.clip(multiply((a - b) ** 2, multipliers[2]) + zeros[2], low, high)

    yield from binary_step(
        site,
        "edgetool_squared_difference",
        function if dtype is DType.INT8 else None,
        multiplier=tuple(item.value for item in multipliers),
        zero_points=tuple(zeros),
        right=tuple(item.right for item in multipliers),
        left=multipliers[2].left,
        left_shift=shift,
        bytes=dtype.bits // 8,
    )


def _maximum(site: Site) -> Iterator[Lowered]:
    """Lower MAXIMUM and MINIMUM, which compare codes; LOGICAL_OR and LOGICAL_AND are the same of 0 and 1."""
    dtype = site.input(0).dtype
    types = (DType.BOOL,) if site.operator.code.startswith("LOGICAL") else (DType.INT8, DType.INT16, DType.INT32)
    site.require(dtype in types, f"{dtype.name} is not supported")
    minimum = site.operator.code in ("MINIMUM", "LOGICAL_AND")
    function: Function = np.minimum if minimum else np.maximum
    yield from binary_step(
        site,
        "edgetool_maximum",
        function if dtype is DType.INT8 else None,
        bytes=dtype.bits // 8,
        minimum=int(minimum),
    )


def _logical_not(site: Site) -> Iterator[Lowered]:
    values = np.zeros(256, np.int64)
    values[0] = 1
    yield from lookup_step(site, 0, values, DType.BOOL)


def _compare(site: Site) -> Iterator[Lowered]:
    """Lower comparisons; codes of int8 are scaled before (comparisons.cc)."""
    first, second, accepted = site.input(0), site.input(1), ACCEPTED[site.operator.code]
    if first.dtype is DType.FLOAT32:
        yield from binary_step(site, "edgetool_compare_f32", None, accept=accepted)
        return
    site.require(first.dtype in (DType.INT8, DType.INT32, DType.BOOL), f"{first.dtype.name} is not supported")
    accept = accepted & (LESS | EQUAL | GREATER)
    if first.dtype is not DType.INT8:
        yield from binary_step(site, "edgetool_compare", None, accept=accept, bytes=first.dtype.bits // 8)
        return
    multipliers = [quantize_multiplier(scale(tensor)) for tensor in (first, second)]
    site.require(max(item.shift for item in multipliers) <= 0, "the scale of an input is too large")
    zeros = zero_point(first), zero_point(second)

    def function(left: Integers, right: Integers) -> Integers:
        a, b = (
            multiply((codes - zeros[k]) << COMPARISON_SHIFT, multipliers[k]) for k, codes in enumerate((left, right))
        )
        return np.asarray(np.where(a < b, LESS, np.where(a == b, EQUAL, GREATER)) & accept != 0, np.int64)

    yield from binary_step(
        site,
        "edgetool_compare",
        function,
        multiplier=tuple(item.value for item in multipliers),
        zero_points=zeros,
        right=tuple(item.right for item in multipliers),
        scaled=1,
        accept=accept,
        bytes=1,
    )


def _select(site: Site) -> Iterator[Lowered]:
    dtype = site.output().dtype
    site.require(dtype in (DType.INT8, DType.INT16, DType.FLOAT32), f"{dtype.name} is not supported")
    if is_unused(site, site.operator.outputs[0]):
        return
    rows = elementwise_rows(site, (0, 1, 2))
    yield rows.step(site, "edgetool_select", describe("edgetool_select", loops=rows.loops, bytes=dtype.bits // 8))


def _add_n(site: Site) -> Iterator[Lowered]:
    output = site.output()
    site.require(output.dtype is DType.INT8, f"{output.dtype.name} is not supported")
    if is_unused(site, site.operator.outputs[0]):
        return
    operands = len(site.operator.inputs)
    zero = zero_point(site.input(0))
    # TFLM's sum begins with a code of 0 less the zero point.
    offset = -(operands + 1) * zero
    largest = max(abs(operands * code + offset) for code in RANGES[DType.INT8])
    site.require(largest << (ADD_N_SHIFT - 1) < 2**31, "its sum may exceed 32 bits")
    site.require(scale(output) > 0, "its output has no scale")
    multiplier = quantize_multiplier(2 * scale(site.input(0)) / (2.0**ADD_N_SHIFT * scale(output)))
    site.require(multiplier.shift <= 0, "the scale of its output is too small")
    rows = elementwise_rows(site, range(operands))
    op = describe(
        "edgetool_add_n_s8",
        count=rows.count,
        operands=operands,
        offset=offset,
        multiplier=multiplier.value,
        right=multiplier.right,
        zero_point=zero_point(output),
    )
    yield rows.step(site, "edgetool_add_n_s8", op)


def _bits(values: Integers) -> Integers:
    """Return the number of bits of numbers from 0 to 255."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


# The reciprocals of numbers from 0 to 255 divided by the largest power of 2 in them (GetReciprocal, common.h).
RECIPROCALS = one_over_one_plus_x((np.arange(256) << (32 - _bits(np.arange(256)))) - 2**31)


@dataclass(frozen=True, slots=True)
class Quotients:
    """DIV of int8 (DivElementwise, div.h)."""

    multiplier: Multiplier
    zero_points: tuple[int, int, int]
    low: int
    high: int

    def right_shift(self, dividends: Integers, divisors: Integers) -> Integers:
        """Return the shift at the end, of numbers less their zero points; divisors are not negative."""
        return _bits(divisors) - 1 + self.headroom(dividends) - self.multiplier.shift

    @staticmethod
    def headroom(dividends: Integers) -> Integers:
        """Return the bits in front of the leading one of positive numbers, or the leading zero of negative ones."""
        return np.asarray(31 - _bits(np.where(dividends < 0, ~dividends, dividends)), np.int64)

    def of(self, first: Integers, second: Integers) -> Integers:
        """Return the output codes of input codes."""
        a, b = first - self.zero_points[0], second - self.zero_points[1]
        a, b = np.where(b < 0, -a, a), np.abs(b)
        right = self.right_shift(a, b)
        numbers = high_mul(wrapped(a << self.headroom(a)), RECIPROCALS[b])
        scaled = high_mul(numbers, self.multiplier.value)
        half = np.where(right > 0, 1 << np.maximum(right - 1, 0), 0)
        quotients = (scaled + half - ((scaled < 0) & (right > 0))) >> right
        return np.asarray(np.clip(quotients + self.zero_points[2], self.low, self.high), np.int64)


def _div(site: Site) -> Iterator[Lowered]:
    output = site.output()
    if output.dtype is DType.INT32:
        yield from _arithmetic_int32(site)
        return
    site.require(output.dtype is DType.INT8, f"{output.dtype.name} is not supported")
    tensors = site.input(0), site.input(1), output
    scales = [scale(tensor) for tensor in tensors]
    site.require(min(scales) > 0, "a tensor has no scale")
    multiplier = quantize_multiplier(scales[0] / (scales[1] * scales[2]))
    zeros = (zero_point(tensors[0]), zero_point(tensors[1]), zero_point(output))
    dividends, divisors = (_numbers(site, position) for position in (0, 1))
    quotients = Quotients(multiplier, zeros, *fused_range(site, output))
    # The sign of a divisor may change that of the dividend.
    shifts = [quotients.right_shift(sign * dividends[:, None], np.abs(divisors)) for sign in (1, -1)]
    site.require(
        min(item.min() for item in shifts) >= 0 and max(item.max() for item in shifts) <= MAX_RIGHT_SHIFT,
        "TFLM's result is undefined for its scales",
    )
    yield from binary_step(
        site,
        "edgetool_div_s8",
        quotients.of,
        reciprocals=Constant("int32_t", RECIPROCALS.astype("<i4").tobytes(), "reciprocals"),
        multiplier=multiplier.value,
        shift=multiplier.shift,
        zero_points=zeros,
        low=quotients.low,
        high=quotients.high,
    )


def _numbers(site: Site, position: int) -> Integers:
    """Return what an operand of int8 may contain, less its zero point."""
    tensor = site.input(position)
    codes = CODES if tensor.data is None else np.unique(site.constant(position)).astype(np.int64)
    return codes - zero_point(tensor)


LOWERINGS: dict[str, Lowering] = {
    "ADD": _add,
    "ADD_N": _add_n,
    "DIV": _div,
    "EQUAL": _compare,
    "GREATER": _compare,
    "GREATER_EQUAL": _compare,
    "LESS": _compare,
    "LESS_EQUAL": _compare,
    "LOGICAL_AND": _maximum,
    "LOGICAL_NOT": _logical_not,
    "LOGICAL_OR": _maximum,
    "MAXIMUM": _maximum,
    "MINIMUM": _maximum,
    "MUL": _mul,
    "NOT_EQUAL": _compare,
    "SELECT_V2": _select,
    "SQUARED_DIFFERENCE": _squared_difference,
    "SUB": _add,
}
