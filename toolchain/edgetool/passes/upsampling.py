"""Chains of RESHAPE and TILE that repeat the rows and columns of an image are RESIZE_NEAREST_NEIGHBOR."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgetool.model.edit import Draft
from edgetool.model.types import Operator
from edgetool.passes.rewrite import Applied, Context, Rewrite
from edgetool.passes.sound import is_sound
from edgetool.passes.steps import Steps

Index = npt.NDArray[np.int64]

LONGEST_CHAIN = 8
MAX_ELEMENTS = 1 << 24


def _upsample(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """The longest chain from this operator on whose result is an upsampling of the image before it.

    Which element of the image each element of the result is decides that, not the form of the chain.
    """
    source = operator.inputs[0]
    before = draft.producer(source)
    if before is not None and before.code == "RESHAPE" and is_sound(draft, before):
        source = before.inputs[0]
    image = draft.tensors[source]
    if len(image.shape) != 4 or not 0 < image.element_count <= MAX_ELEMENTS:
        return None
    index = np.arange(image.element_count).reshape(draft.tensors[operator.inputs[0]].shape)
    last, at = None, operator
    for _ in range(LONGEST_CHAIN):
        moved = _moved(draft, at, index)
        if moved is None:
            break
        index = moved
        if _is_upsampled(index, image.shape):
            last = at
        readers = draft.consumers(at.outputs[0])
        if len(readers) != 1 or at.outputs[0] in draft.outputs:
            break
        at = readers[0]
    if last is None:
        return None
    steps = Steps(draft, last)
    shape = draft.tensors[last.outputs[0]].shape
    size = steps.constant([shape[1], shape[2]])
    resized = steps.step("RESIZE_NEAREST_NEIGHBOR", [source, size], shape, like=source, half_pixel_centers=True)
    if not all(context.legal(draft, made) for made in steps.made):
        return None
    return replace(steps.finish("upsample", resized), operator_label=operator.label)


def _moved(draft: Draft, operator: Operator, index: Index) -> Index | None:
    """Where the elements of an operator's result come from, as it moves them; None where it does something else."""
    if not is_sound(draft, operator) or (output := draft.tensors[operator.outputs[0]]).element_count > MAX_ELEMENTS:
        return None
    if operator.code in {"RESHAPE", "EXPAND_DIMS", "SQUEEZE"}:
        return index.reshape(output.shape)
    if operator.code == "BROADCAST_TO":
        return np.broadcast_to(index, output.shape)
    values = draft.values(operator.inputs[1]) if operator.code in {"TILE", "TRANSPOSE"} else None
    if values is None:
        return None
    return np.tile(index, values) if operator.code == "TILE" else np.transpose(index, values)


def _is_upsampled(index: Index, image: tuple[int, ...]) -> bool:
    """Whether an array of indices into an image (N, H, W, C) has each row and column that often in a row."""
    batch, height, width, channels = image
    if index.ndim != 4 or index.shape[::3] != (batch, channels):
        return False
    rows, columns = _nearest(height, index.shape[1]), _nearest(width, index.shape[2])
    expected = np.arange(batch * height * width * channels).reshape(image)[:, rows][:, :, columns]
    return np.array_equal(index, expected)


def _nearest(size: int, resized: int) -> Index:
    """The row that RESIZE_NEAREST_NEIGHBOR takes for each of its own, in float32 as its kernels compute it.

    Source: GetNearestNeighbor in resize_nearest_neighbor.h (TensorFlow Lite), with half_pixel_centers.
    """
    scale = np.float32(size) / np.float32(resized)
    places = np.floor((np.arange(resized, dtype=np.float32) + np.float32(0.5)) * scale)
    nearest: Index = np.minimum(places.astype(np.int64), size - 1)
    return nearest


RULES = (
    Rewrite(
        "upsample",
        "replaced by RESIZE_NEAREST_NEIGHBOR: TensorFlow Lite Micro does not support TILE",
        _upsample,
        frozenset({"TILE"}),
    ),
)
