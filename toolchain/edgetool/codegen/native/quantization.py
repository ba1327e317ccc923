"""QUANTIZE, DEQUANTIZE and CAST as native kernels.

Of 8 bits to 8 bits, they are tables, and casts that keep the bits are views. Constants are converted by the generator.
Rows: image rows or the whole tensor.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgetool.codegen.native.activation import Sides, sides_step
from edgetool.codegen.native.elementwise import elementwise_rows, lookup_step
from edgetool.codegen.native.fixed_point import Multiplier, multiply, quantize_multiplier
from edgetool.codegen.native.movement import is_unused, moved
from edgetool.codegen.native.program import LIMITS, describe
from edgetool.codegen.native.site import NUMPY_TYPES, Array, Folded, Lowered, Lowering, Site
from edgetool.model.types import DType
from edgetool.operators.call import scale, zero_point

RANGES: dict[DType, tuple[int, int]] = {
    DType.INT8: LIMITS["int8_t"],
    DType.UINT8: LIMITS["uint8_t"],
    DType.INT16: LIMITS["int16_t"],
    DType.INT32: LIMITS["int32_t"],
}
BYTES = (DType.INT8, DType.UINT8)
REQUANTIZED = {
    DType.INT8: (DType.INT16, DType.INT32),
    DType.INT16: (DType.INT8, DType.INT16, DType.INT32),
    DType.INT32: (DType.INT8, DType.INT16),
}
# The numbers of types in edgetool_cast.
CAST_TYPES = {DType.BOOL: 1, DType.INT8: 1, DType.INT16: 2, DType.INT32: 4, DType.UINT32: 5, DType.FLOAT32: 6}


def _quantize(site: Site) -> Iterator[Lowered]:
    source, output = site.input(0), site.output()
    site.require(scale(output) > 0, "its output has no scale")
    if source.dtype is DType.FLOAT32:
        yield from _quantize_float(site)
        return
    if source.dtype in BYTES and output.dtype in BYTES and DType.INT8 in (source.dtype, output.dtype):
        low, high = RANGES[source.dtype]
        values = multiply(np.arange(low, high + 1) - zero_point(source), _multiplier(site)) + zero_point(output)
        yield from lookup_step(site, 0, np.clip(values, *RANGES[output.dtype]), source.dtype)
        return
    site.require(
        output.dtype in REQUANTIZED.get(source.dtype, ()),
        f"{source.dtype.name} to {output.dtype.name} is not supported",
    )
    multiplier = _multiplier(site)
    yield from sides_step(site, Sides(multiplier, multiplier), *RANGES[output.dtype])


def _multiplier(site: Site) -> Multiplier:
    """Return the scale of the input divided by that of the output (PrepareQuantizeReference, quantize_common.cc)."""
    return quantize_multiplier(scale(site.input(0)) / scale(site.output()))


def _quantize_float(site: Site) -> Iterator[Lowered]:
    output, index = site.output(), site.operator.outputs[0]
    site.require(output.dtype in (DType.INT8, DType.INT16), f"FLOAT32 to {output.dtype.name} is not supported")
    low, high = RANGES[output.dtype]
    zero = zero_point(output)
    site.require(low <= zero <= high, "the zero point of its output is outside the type")
    if is_unused(site, index):
        return
    if site.input(0).data is not None:
        real = (site.constant(0) / np.float32(scale(output))).astype(np.float64)
        codes = np.trunc(np.clip(np.nan_to_num(real, nan=-np.inf), -(2**17), 2**17) + np.copysign(0.5, real))
        yield Folded(index, np.clip(codes + zero, low, high).astype(NUMPY_TYPES[output.dtype]).tobytes())
        return
    rows = elementwise_rows(site, (0,))
    op = describe(
        "edgetool_quantize", scale=scale(output), count=rows.count, zero_point=zero, bytes=output.dtype.bits // 8
    )
    yield rows.step(site, "edgetool_quantize", op)


def _dequantize(site: Site) -> Iterator[Lowered]:
    source, output, index = site.input(0), site.output(), site.operator.outputs[0]
    site.require(
        source.dtype in (DType.INT8, DType.UINT8, DType.INT16) and output.dtype is DType.FLOAT32,
        f"{source.dtype.name} to {output.dtype.name} is not supported",
    )
    if is_unused(site, index):
        return
    zero = zero_point(source)
    site.require(abs(zero) < 2**23, "the zero point of its input is too large")
    if source.data is not None:
        real = np.float32(scale(source)) * (site.constant(0).astype(np.int32) - zero).astype(np.float32)
        yield Folded(index, real.astype("<f4").tobytes())
        return
    rows = elementwise_rows(site, (0,))
    op = describe(
        "edgetool_dequantize",
        scale=scale(source),
        count=rows.count,
        zero_point=zero,
        bytes=source.dtype.bits // 8,
        is_unsigned=int(source.dtype is DType.UINT8),
    )
    yield rows.step(site, "edgetool_dequantize", op)


def _cast(site: Site) -> Iterator[Lowered]:
    source, output, index = site.input(0), site.output(), site.operator.outputs[0]
    for dtype in (source.dtype, output.dtype):
        site.require(dtype in CAST_TYPES, f"{dtype.name} is not supported")
    site.require(output.dtype is not DType.BOOL, "BOOL is not supported")
    floats = [tensor.dtype is DType.FLOAT32 for tensor in (source, output)]
    if source.dtype.bits == output.dtype.bits and floats[0] == floats[1]:
        yield from moved(site, 0, index, _unchanged)
        return
    if is_unused(site, index):
        return
    if source.data is not None and not floats[0]:
        yield Folded(index, site.constant(0).astype(NUMPY_TYPES[output.dtype]).tobytes())
        return
    rows = elementwise_rows(site, (0,))
    numbers = CAST_TYPES[source.dtype], CAST_TYPES[output.dtype]
    op = describe("edgetool_cast", count=rows.count, **{"from": numbers[0], "to": numbers[1]})
    yield rows.step(site, "edgetool_cast", op)


def _unchanged(values: Array) -> Array:
    return values


LOWERINGS: dict[str, Lowering] = {"CAST": _cast, "DEQUANTIZE": _dequantize, "QUANTIZE": _quantize}
