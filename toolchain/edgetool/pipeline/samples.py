"""The samples that a .tflite is run on: random ones, and those of a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.convert.numpy_files import load_npy, load_npz
from edgetool.errors import UsageError
from edgetool.execute.quantize import numpy_dtype, quantize
from edgetool.model.types import Model, Tensor
from edgetool.pipeline.files import check_readable

Array = npt.NDArray[Any]


def load_samples(path: Path, model: Model) -> tuple[Array, ...]:
    """The samples of an .npz or .npy for the model, (N, *shape) per graph input in the tensor's own dtype.

    Arrays are named as the signature's arguments or the tensors are; the one array for a single input by any name.
    Raises UsageError for what does not fit.
    """
    check_readable(path)
    arrays = {path.name: load_npy(path)} if path.suffix.lower() == ".npy" else load_npz(path)
    return raw_samples(arrays, model, where=str(path))


def raw_samples(arrays: Mapping[str, Array], model: Model, *, where: str) -> tuple[Array, ...]:
    """The arrays as the graph's inputs take them: in the tensor's own dtype as they are, else real numbers, quantized.

    The dimension of samples comes first and may stand for a batch dimension of 1.
    """
    tensors = [model.main.tensors[index] for index in model.main.inputs]
    columns = [
        _raw(_named(arrays, _names(model, tensor), single=len(tensors) == 1, where=where), tensor, where)
        for tensor in tensors
    ]
    counts = sorted({len(column) for column in columns})
    if len(counts) > 1 or counts == [0]:
        raise UsageError(
            f"contains {', '.join(map(str, counts))} samples",
            where=where,
            fix="provide the same number for every input, at least one",
        )
    return tuple(columns)


def _names(model: Model, tensor: Tensor) -> tuple[str, ...]:
    """What an input may be called, the author's own name for it first."""
    argument = model.argument_name(0, tensor.index)
    return (tensor.name,) if argument is None else (argument, tensor.name)


def _named(arrays: Mapping[str, Array], names: tuple[str, ...], *, single: bool, where: str) -> Array:
    for name in names:
        if name in arrays:
            return arrays[name]
    if single and len(arrays) == 1:
        return next(iter(arrays.values()))
    raise UsageError(
        f"has no array {names[0]!r}; it has {', '.join(map(repr, arrays)) or 'none'}",
        where=where,
        fix="name each array after its model input",
    )


def _raw(values: Array, tensor: Tensor, where: str) -> Array:
    kind = numpy_dtype(tensor.dtype)
    if values.dtype.kind not in "fiub":
        raise UsageError(f"contains {values.dtype} values instead of numbers", where=where, fix="save it as float32")
    shapes = [tensor.shape, *([tensor.shape[1:]] if tensor.shape[:1] == (1,) else [])]
    if not values.ndim or values.shape[1:] not in shapes:
        raise UsageError(
            f"has shape {list(values.shape)} for {tensor.name!r}, which requires samples of shape {list(tensor.shape)}",
            where=where,
            fix="provide an array of shape (N, *shape)",
        )
    shaped = values.reshape(len(values), *tensor.shape)
    if kind.kind in "iu" and values.dtype.kind == "f" and np.isnan(values).any():
        raise UsageError(
            f"contains NaN for {tensor.name!r}, which {kind} cannot represent", where=where, fix="remove the NaN values"
        )
    raw = shaped if values.dtype == kind else quantize(shaped, tensor.quantization, tensor.dtype)
    is_integer = kind.kind in "iu" and (tensor.quantization is None or not tensor.quantization.scales)
    if is_integer and not np.array_equal(raw.astype(np.float64), shaped.astype(np.float64)):
        raise UsageError(f"contains values that {tensor.name!r} ({kind} without a scale) cannot represent", where=where)
    return raw
