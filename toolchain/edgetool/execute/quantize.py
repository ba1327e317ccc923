"""Convert real numbers to a tensor's integers and back, as TensorFlow Lite does, and generate random inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool import errors
from edgetool.model.types import DType, Model, Quantization, Tensor

Array = npt.NDArray[Any]

NUMPY_DTYPES: dict[DType, np.dtype[Any]] = {
    DType.FLOAT32: np.dtype(np.float32),
    DType.FLOAT16: np.dtype(np.float16),
    DType.FLOAT64: np.dtype(np.float64),
    DType.INT8: np.dtype(np.int8),
    DType.INT16: np.dtype(np.int16),
    DType.INT32: np.dtype(np.int32),
    DType.INT64: np.dtype(np.int64),
    DType.UINT8: np.dtype(np.uint8),
    DType.UINT16: np.dtype(np.uint16),
    DType.UINT32: np.dtype(np.uint32),
    DType.UINT64: np.dtype(np.uint64),
    DType.BOOL: np.dtype(np.bool_),
}


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """Return the NumPy dtype of `dtype`. Raises UnsupportedModelError if there is none."""
    try:
        return NUMPY_DTYPES[dtype]
    except KeyError:
        raise errors.UnsupportedModelError(
            f"arrays of type {dtype.name} cannot be passed to a model",
            fix="use a model whose inputs and outputs are int8, uint8, int16 or float32",
        ) from None


def quantize(real: npt.ArrayLike, quantization: Quantization | None, dtype: DType) -> Array:
    """Return `real` in the tensor's dtype: real / scale, rounded half away from zero, + zero point, saturated.

    The division is done in float32, as TensorFlow Lite's AffineQuantize does. Without quantization the
    scale is 1 and the zero point 0. Any shape; with per-channel parameters `quantization.axis` counts
    from the array's own first dimension. Raises UsageError for NaN, which has no integer representation.
    """
    kind = numpy_dtype(dtype)
    if kind.kind in "fb":
        return np.asarray(real).astype(kind)
    values = np.asarray(real)
    if values.dtype.kind == "f" and np.isnan(values).any():
        first = tuple(int(index) for index in np.argwhere(np.isnan(values))[0])
        raise errors.UsageError("NaN cannot be quantized", where=f"element {list(first)}")
    if not _is_affine(quantization):
        return _saturate(values if values.dtype.kind in "iu" else _round(values.astype(np.float64)), kind)
    scale, zero_point = _parameters(quantization, values.ndim)
    with np.errstate(over="ignore"):  # a quotient beyond float32 saturates like any other
        quotient = values.astype(np.float32) / scale
    return _saturate(_round(quotient).astype(np.float64) + zero_point, kind)


def dequantize(raw: npt.ArrayLike, quantization: Quantization | None) -> npt.NDArray[np.float32]:
    """Return scale * (raw - zero point) as float32; without quantization the numbers are unchanged."""
    values = np.asarray(raw)
    if values.dtype.kind in "fb" or not _is_affine(quantization):
        return values.astype(np.float32)
    scale, zero_point = _parameters(quantization, values.ndim)
    return ((values.astype(np.float64) - zero_point) * scale).astype(np.float32)


def random_inputs(model: Model, count: int, seed: int) -> tuple[Array, ...]:
    """Return `count` samples per graph input, (count, *shape) each; the same seed gives the same arrays.

    Quantized and 8- or 16-bit integers take any value of their dtype, floats are standard normal, and
    wide integers without quantization, which are indices or counts, are 0 or 1.
    """
    generator = np.random.default_rng(seed)
    graph = model.main
    return tuple(_random(graph.tensors[index], count, generator) for index in graph.inputs)


def _random(tensor: Tensor, count: int, generator: np.random.Generator) -> Array:
    kind = numpy_dtype(tensor.dtype)
    shape = (count, *tensor.shape)
    if kind.kind == "f":
        return generator.standard_normal(shape).astype(kind)
    if kind.kind == "b" or (kind.itemsize > 2 and not _is_affine(tensor.quantization)):
        return generator.integers(0, 2, shape).astype(kind)
    limits = np.iinfo(kind)
    return generator.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)


def _is_affine(quantization: Quantization | None) -> bool:
    """Return whether there are scales; a tensor may record its range only."""
    return quantization is not None and bool(quantization.scales)


def _parameters(quantization: Quantization | None, rank: int) -> tuple[Array, Array]:
    """Return the scale (float32) and zero point, shaped to broadcast with an array of that rank."""
    assert quantization is not None
    scale = np.array(quantization.scales, np.float32)
    zero_point = np.array(quantization.zero_points or (0,) * len(scale), np.int64)
    if not quantization.per_channel:
        return scale[0], zero_point[0]
    shape = tuple(len(scale) if axis == quantization.axis else 1 for axis in range(rank))
    return scale.reshape(shape), np.broadcast_to(zero_point, scale.shape).reshape(shape)


def _round(values: Array) -> Array:
    """Round to the nearest integer, halves away from zero; exact, unlike floor(x + 0.5)."""
    whole = np.trunc(values)
    with np.errstate(invalid="ignore"):  # infinity - infinity: not a half, stays infinite
        return np.where(np.abs(values - whole) >= 0.5, whole + np.copysign(1.0, values), whole)


def _saturate(values: Array, kind: np.dtype[Any]) -> Array:
    """Clip to the range of the integer dtype."""
    limits = np.iinfo(kind)
    if values.dtype.kind in "iu":
        source = np.iinfo(values.dtype)
        return np.clip(values, max(limits.min, source.min), min(limits.max, source.max)).astype(kind)
    # float64 has no 2**63 - 1: values at the limits are set, not converted
    inside = np.clip(values, limits.min, np.nextafter(float(limits.max) + 1, 0)).astype(kind)
    return np.where(values >= limits.max, limits.max, inside).astype(kind)
