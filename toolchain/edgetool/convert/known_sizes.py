"""A .tflite whose batch is unknown, for a batch of 1.

TensorFlow's converter leaves the batch open: the file computes sizes from that of its input (SHAPE, STRIDED_SLICE,
PACK, RESHAPE), and records 1 for each dimension that it does not know. Here the sizes become constants. In the child
process only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgetool.convert.float_tflite import TfliteRunner
from edgetool.errors import ConversionError
from edgetool.model.draft import Draft
from edgetool.model.reader import read_model
from edgetool.model.types import Model, Operator, Tensor
from edgetool.model.writer import write_model
from edgetool.passes.folding import fold_constants
from edgetool.passes.validation import is_in_order

# Operators whose outputs have sizes that depend on the values of inputs: the positions of these inputs.
SIZES: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(["MEAN", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"], (1,)),
    **dict.fromkeys(["MIRROR_PAD", "PAD", "PADV2"], (1,)),
    **dict.fromkeys(["BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "SLICE", "SPLIT_V"], (1, 2)),
    **dict.fromkeys(["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"], (1,)),
    **dict.fromkeys(["NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"], (2,)),
    **dict.fromkeys(["RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"], (0,)),
    **dict.fromkeys([f"UNSORTED_SEGMENT_{name}" for name in ("MAX", "MIN", "PROD", "SUM")], (2,)),
    "BROADCAST_TO": (1,),
    "EXPAND_DIMS": (1,),
    "FILL": (0,),
    "MULTINOMIAL": (1,),
    "ONE_HOT": (1,),
    "RANGE": (0, 1, 2),
    "RESHAPE": (1,),
    "RFFT2D": (1,),
    "SCATTER_ND": (2,),
    "SEGMENT_SUM": (1,),
    "SPARSE_TO_DENSE": (1,),
    "SPLIT": (0,),
    "STRIDED_SLICE": (1, 2, 3),
    "TILE": (1,),
    "TOPK_V2": (1,),
    "TRANSPOSE": (1,),
    "TRANSPOSE_CONV": (0,),
    "UNIQUE": (0,),
    "WHERE": (0,),
}
UNKNOWN = -1


def with_known_sizes(model: Model, where: str) -> Model:
    """Return the model with the sizes of a batch of 1; itself if they are known or cannot be.

    Raises ConversionError at `where` if TensorFlow Lite cannot run the model.
    """
    if not has_unknown_batch(model):
        return model
    try:
        shapes = TfliteRunner(model, write_model(model)).shapes()
    except (RuntimeError, ValueError) as error:
        raise ConversionError(
            f"TensorFlow Lite cannot run the model for a batch of 1: {error}",
            where=where,
            fix="convert the Keras model, or export the .tflite with a batch of 1",
        ) from error
    return with_shapes(model, shapes, where)


def has_unknown_batch(model: Model) -> bool:
    """Return whether the main graph has unknown sizes, but only the batch of its inputs is unknown."""
    graph = model.main
    inputs = (graph.tensors[index].shape_signature for index in graph.inputs)
    unknown = any(UNKNOWN in tensor.shape_signature for tensor in graph.tensors)
    return unknown and not any(UNKNOWN in signature[1:] for signature in inputs)


def with_shapes(model: Model, shapes: Mapping[int, tuple[int, ...]], where: str) -> Model:
    """Return the model with these shapes by tensor of the main graph; what it computes from them becomes constant.

    The model is returned unchanged if a size depends on the values of its inputs, or if its operators are not in order.
    Raises InvalidModelError at `where` if the shapes contradict an operator.
    """
    graph = model.main
    tensors = tuple(_with_shape(tensor, shapes) for tensor in graph.tensors)
    sized = replace(model, subgraphs=(replace(graph, tensors=tensors), *model.subgraphs[1:]))
    draft = Draft(read_model(write_model(sized), name=where))  # the reader checks the operators with their new shapes
    if not is_in_order(draft):
        return model
    fold_constants(draft)
    if any(_depends_on_values(draft, operator) for operator in draft.operators):
        return model
    return draft.finish()


def _with_shape(tensor: Tensor, shapes: Mapping[int, tuple[int, ...]]) -> Tensor:
    if tensor.is_constant:
        return tensor
    return replace(tensor, shape=shapes.get(tensor.index, tensor.shape), shape_signature=())


def _depends_on_values(draft: Draft, operator: Operator) -> bool:
    """Return whether the sizes of an operator's outputs depend on values that the model computes."""
    inputs = (operator.inputs[place] for place in SIZES.get(operator.code, ()) if place < len(operator.inputs))
    return any(index >= 0 and draft.values(index) is None for index in inputs)
