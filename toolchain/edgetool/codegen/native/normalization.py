"""SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION as native kernels.

They normalize vectors along the last axis. The exponentials of the differences between int8 codes are a table that
is computed with the arithmetic of gemmlowp's fixedpoint.h. Sources: softmax_common.cc, log_softmax.cc, l2norm.cc,
quantization_util.cc, reference/softmax.h, reference/log_softmax.h and integer_ops/l2normalization.h.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from edgetool.codegen.native.fixed_point import Integers, Multiplier, multiply, quantize_multiplier
from edgetool.codegen.native.program import Constant, FieldValue, RowInput, Step, StepOverlap, describe
from edgetool.codegen.native.site import RANGES, Lowering, Site
from edgetool.model.types import DType
from edgetool.operators.call import scale, zero_point
from edgetool.operators.overlap import elementwise_distance

Floats = npt.NDArray[np.float32]

SCALED_INTEGER_BITS = 5  # kScaledDiffIntegerBits
SUM_INTEGER_BITS = 12  # EDGETOOL_SUM_BITS
MAX_INT8_DEPTH = 2**SUM_INTEGER_BITS - 1  # a sum of exponentials is below 2^12
MAX_INT16_DEPTH = 2**16 - 1  # a sum of exponentials of at most 2^15 fits 31 bits
TABLE_STEPS = 512
# exp(-2^e) in Q0 for e = -2 .. 4, of exp_on_negative_values.
EXPONENTIALS_OF_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)


@dataclass(frozen=True, slots=True)
class Vectors:
    """The rows of an operator along the last axis: each has `count` vectors of `depth` elements."""

    depth: int
    count: int
    rows: int
    batches: int

    @property
    def row_elements(self) -> int:
        """The number of elements of a row."""
        return self.depth * self.count


def _vectors(site: Site, types: set[tuple[DType, DType]]) -> Vectors:
    source, output = site.input(0), site.output()
    names = f"{source.dtype.name} to {output.dtype.name}"
    site.require((source.dtype, output.dtype) in types, f"{names} is not supported")
    shape = source.shape
    matching = bool(shape) and output.shape == shape and source.element_count > 0
    site.require(matching, f"it cannot normalize the shape {shape} to {output.shape}")
    if site.row_wise and len(shape) == 4:
        return Vectors(depth=shape[3], count=shape[2], rows=shape[1], batches=shape[0])
    return Vectors(depth=shape[-1], count=prod(shape[:-1]), rows=1, batches=1)


def _step(site: Site, kernel: str, vectors: Vectors, **values: FieldValue) -> Step:
    source, output = site.input(0), site.output()
    sizes = source.dtype.bits // 8, output.dtype.bits // 8
    return Step(
        operator=site.operator.index,
        kernel=kernel,
        op=describe(kernel, depth=vectors.depth, vectors=vectors.count, **values),
        inputs=(RowInput(site.index(0), row_bytes=vectors.row_elements * sizes[0], rows=vectors.rows),),
        output=site.operator.outputs[0],
        row_bytes=vectors.row_elements * sizes[1],
        rows=vectors.rows,
        batches=vectors.batches,
        overlaps=(StepOverlap(0, elementwise_distance(output.element_count, *sizes)),),
    )


def _scaled_difference(site: Site, beta: float) -> tuple[Multiplier, int]:
    """Return the multiplier of a difference of int8 codes, and the largest one whose exponential is not 0.

    Sources: PreprocessSoftmaxScaling and CalculateInputRadius.
    """
    bits = 31 - SCALED_INTEGER_BITS
    real = min(beta * scale(site.input(0)) * 2.0**bits, 2.0**31 - 1)
    site.require(real > 1, "its scale is too small")
    multiplier = quantize_multiplier(real)
    return multiplier, int((2**SCALED_INTEGER_BITS - 1) * 2.0**bits / 2.0**multiplier.shift)


def exponentials(multiplier: Multiplier, radius: int) -> Integers:
    """Return the exponential in Q0 of each negative difference of int8 codes up to the radius; trailing zeros omitted.

    Args:
        multiplier: Scales a difference to a number with 5 integer bits.
        radius: The largest difference.
    """
    differences = multiply(-np.arange(min(radius, 255) + 1), Multiplier(multiplier.value, multiplier.shift))
    table = exp_on_negative_values(differences)
    return table[: int(np.flatnonzero(table)[-1]) + 1]


def exp_on_negative_values(values: Integers) -> Integers:
    """Return the exponential in Q0 of numbers up to 0 with 5 integer bits (exp_on_negative_values, fixedpoint.h).

    It is a polynomial around -1/8 of what the number has beyond multiples of 1/4, times constants for the bits of the
    multiple.
    """
    fraction_bits = 31 - SCALED_INTEGER_BITS
    quarter = 1 << (fraction_bits - 2)
    rest = (values & (quarter - 1)) - quarter
    x = (rest << SCALED_INTEGER_BITS) + (1 << 28)
    square = _product(x, x)
    cube, fourth = _product(square, x), _product(square, square)
    tail = _product(_halved(fourth, 2) + cube, 715827883) + square
    result = 1895147668 + _product(x + _halved(tail, 1), 1895147668)
    for position, factor in enumerate(EXPONENTIALS_OF_POWERS, fraction_bits - 2):
        result = np.where((rest - values) & (1 << position), _product(result, factor), result)
    return np.where(values == 0, 2**31 - 1, result)


def _product(left: Integers, right: Integers | int) -> Integers:
    """Return SaturatingRoundingDoublingHighMul, without the case that saturates."""
    return np.asarray((left * right + 2**30) >> 31, np.int64)


def _halved(values: Integers, times: int) -> Integers:
    """Return RoundingDivideByPOT."""
    return np.asarray((values + (1 << (times - 1)) - (values < 0)) >> times, np.int64)


def _int32_table(values: Integers) -> Constant:
    return Constant("int32_t", values.astype("<i4").tobytes(), "exponentials")


SOFTMAX_TYPES = {(DType.INT8, DType.INT8), (DType.INT8, DType.INT16), (DType.INT16, DType.INT16)}


def _softmax(site: Site) -> Iterator[Step]:
    vectors = _vectors(site, SOFTMAX_TYPES)
    beta = site.option("beta", 0.0)
    if site.input(0).dtype is DType.INT16:
        yield _softmax_s16(site, vectors, beta)
        return
    site.require(vectors.depth <= MAX_INT8_DEPTH, "its sums may exceed 32 bits")
    table = exponentials(*_scaled_difference(site, beta))
    yield _step(
        site,
        "edgetool_softmax_s8",
        vectors,
        exponentials=_int32_table(table),
        count=len(table),
        output_bits=site.output().dtype.bits,
    )


def _softmax_s16(site: Site, vectors: Vectors, beta: float) -> Step:
    site.require(vectors.depth <= MAX_INT16_DEPTH, "its sums may exceed 32 bits")
    multiplier = quantize_multiplier(scale(site.input(0)) * beta / (10.0 / 65535.0))
    site.require(multiplier.value >= 0 and multiplier.left < 16 and multiplier.right < 32, "its scale is too large")
    range_of_codes = np.float32(65535)
    return _step(
        site,
        "edgetool_softmax_s16",
        vectors,
        exponentials=int16_table(np.float32(10) / range_of_codes, 32767, _exp),
        inverses=int16_table(np.float32(1) / range_of_codes, -32768, _inverse_plus_one),
        multiplier=multiplier.value,
        left=multiplier.left,
        right=multiplier.right,
    )


def int16_table(input_scale: np.float32, input_zero_point: int, function: Callable[[Floats], Floats]) -> Constant:
    """Return a table for interpolation of a function, whose output has the scale 2 / 65535 (LUTPopulate, common.h).

    All steps are rounded to float32. Each entry is corrected by half of the interpolation's error in the middle.
    """
    low, high = RANGES[DType.INT16]
    start, stop = (input_scale * np.float32(code - input_zero_point) for code in (low, high))
    bounds = [np.float32(2) / np.float32(65535) * np.float32(code) for code in (low, high)]
    inverse_scale = np.float32(65536) / (bounds[1] - bounds[0])
    step = (stop - start) / np.float32(TABLE_STEPS)
    places = start + np.arange(TABLE_STEPS + 1, dtype=np.float32) * step

    def scaled(values: Floats) -> Floats:
        return function(values) * inverse_scale

    samples = _rounded(scaled(places[:-1]))
    interpolated = _rounded((scaled(places[1:]) + samples) / np.float32(2))
    error = interpolated - _rounded(scaled(places[:-1] + step / np.float32(2)))
    entries = np.append(samples - _rounded(error / np.float32(2)), _rounded(scaled(np.array([stop], np.float32))))
    return Constant("int16_t", np.clip(entries, low, high).astype("<i2").tobytes(), "interpolated function")


def _exp(values: Floats) -> Floats:
    return np.exp(values.astype(np.float64)).astype(np.float32)


def _inverse_plus_one(values: Floats) -> Floats:
    return np.float32(1) / (np.float32(1) + values)


def _rounded(values: Floats) -> Floats:
    """Return the nearest integers, half away from zero."""
    return np.asarray(np.copysign(np.floor(np.abs(values) + np.float32(0.5)), values), np.float32)


def _log_softmax(site: Site) -> Iterator[Step]:
    vectors = _vectors(site, {(DType.INT8, DType.INT8)})
    site.require(vectors.depth <= MAX_INT8_DEPTH, "its sums may exceed 32 bits")
    multiplier, radius = _scaled_difference(site, 1.0)
    inverse = 2.0 ** (31 - multiplier.shift) / multiplier.value
    site.require(multiplier.shift > 0 and inverse < 1, "its scale is too small")
    inverse_multiplier = quantize_multiplier(inverse)
    table = exponentials(multiplier, radius)
    yield _step(
        site,
        "edgetool_log_softmax_s8",
        vectors,
        exponentials=_int32_table(table),
        count=len(table),
        multiplier=multiplier.value,
        left=multiplier.left,
        inverse_multiplier=inverse_multiplier.value,
        inverse_right=inverse_multiplier.right,
        lowest=max(-radius, -256),
    )


def _l2_normalization(site: Site) -> Iterator[Step]:
    vectors = _vectors(site, {(DType.INT8, DType.INT8)})
    zero = zero_point(site.input(0))
    largest = max(abs(code - zero) for code in RANGES[DType.INT8])
    site.require(vectors.depth * largest**2 < 2**31, "its sums may exceed 32 bits")
    yield _step(site, "edgetool_l2_normalization_s8", vectors, input_zero_point=zero)


LOWERINGS: dict[str, Lowering] = {
    "L2_NORMALIZATION": _l2_normalization,
    "LOG_SOFTMAX": _log_softmax,
    "SOFTMAX": _softmax,
}
