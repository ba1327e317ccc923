"""Operators that join, split and rearrange tensors: what their kernels ask for in Prepare.

Sources: concatenation.cc, split.cc, split_v.cc, transpose_common.cc, reverse.cc, space_to_depth.cc,
depth_to_space.cc, space_to_batch_nd.cc, batch_to_space_nd.cc, resize_bilinear.cc, resize_nearest_neighbor.cc.
pack.cc and unpack.cc have no Prepare. CMSIS-NN's transpose shares the reference kernel's Prepare.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgetool.model.types import DType
from edgetool.operators.kernel import Call, KernelRefusal, PrepareRule, Request, nothing
from edgetool.operators.prepare.conditions import counts, looks_at, output_alike
from edgetool.operators.prepare.inspection import (
    constant_input,
    demand,
    dims_copy,
    input_rank,
    input_type,
    integer,
    output_rank,
    words,
)
from edgetool.operators.prepare.quantization import scale, zero_point

CONCATENATION_INPUTS = 10
# RuntimeShape::kMaxSmallSize
SMALL_RANK = 6


def _concatenation(call: Call) -> Iterator[Request]:
    """The first input is looked at twice."""
    first, result = call.required_input(0), call.required_output()
    yield from call.temporary_inputs(0)
    yield from call.temporary_outputs(0)
    activation = call.option("fused_activation_function", "NONE")
    demand(call, activation == "NONE", f"does not support the fused activation {activation!r}")
    input_type(0, DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.BOOL)(call)
    output_alike(call)
    inputs = len(call.operator.inputs)
    demand(call, inputs <= CONCATENATION_INPUTS, f"supports at most {CONCATENATION_INPUTS} inputs, not {inputs}")
    for position in range(inputs):
        tensor = call.required_input(position)
        yield from call.temporary_inputs(position)
        input_type(position, first.dtype)(call)
        input_rank(position, 0, SMALL_RANK)(call)
        if first.dtype == DType.INT8:
            same = (scale(tensor), zero_point(tensor)) == (scale(result), zero_point(result))
            demand(call, same, "supports int8 only if all inputs are quantized like the output")
        if first.dtype == DType.INT16:
            demand(call, zero_point(tensor) == 0, "supports int16 only with zero points of 0")
    if first.dtype == DType.INT16:
        demand(call, zero_point(result) == 0, "supports int16 only with zero points of 0")


def _permutation(call: Call) -> None:
    rank, permutation = len(call.required_input(0).shape), call.required_input(1)
    demand(call, permutation.shape == (rank,), f"requires {rank} axes for {rank} dimensions, not {permutation.shape}")
    # The type is not checked: an int64 list is read as twice as many words.
    for axis in words(permutation)[:rank]:
        demand(call, 0 <= axis < rank, f"supports axes from 0 to {rank - 1}, not {axis}")


def _reversed_axes(call: Call) -> None:
    rank, axes = len(call.required_input(0).shape), call.required_input(1).element_count
    demand(call, axes <= rank, f"supports at most as many axes as dimensions, not {axes} axes for {rank} dimensions")


def _space_to_depth(call: Call) -> Iterator[Request]:
    yield from _BLOCKS(call)
    _, height, width, _ = call.required_input(0).shape
    block = integer(call, "block_size")
    demand(call, block != 0, "does not support a block size of 0")
    demand(call, height % block == width % block == 0, f"cannot divide {height} x {width} into blocks of {block}")
    yield dims_copy(call.required_output())


def _depth_to_space(call: Call) -> Iterator[Request]:
    yield from _BLOCKS(call)
    channels = call.required_input(0).shape[3]
    block = integer(call, "block_size")
    demand(call, block > 0, f"does not support a block size of {block}")
    demand(call, channels % (block * block) == 0, f"cannot divide {channels} channels into blocks of {block}")
    yield dims_copy(call.required_output())


def _pixel_centers(call: Call) -> None:
    if call.option("half_pixel_centers", False) and call.option("align_corners", False):
        raise KernelRefusal(f"{call.operator.label} does not support half-pixel centers together with aligned corners")


def _two_sizes(call: Call) -> None:
    size = call.required_input(1).shape
    demand(call, size == (2,), f"requires a height and a width, not a tensor of shape {size}")


def _three_inputs(call: Call) -> None:
    inputs = len(call.operator.inputs)
    demand(call, inputs == 3, f"requires 3 inputs, not {inputs}")


_BLOCKS = looks_at(
    (0,), (0,), counts(1), input_rank(0, 4), input_type(0, DType.FLOAT32, DType.INT8), output_alike
)  # fmt: skip
_BATCHES = looks_at((0,), (0,), counts(3), input_rank(0, 3, 4), output_rank(0, 3, 4), output_alike)
_RESIZED = (counts(2), input_rank(0, 4), input_rank(1, 1), input_type(1, DType.INT32), constant_input(1, "size"))
_REVERSIBLE = (DType.INT32, DType.FLOAT32, DType.UINT8, DType.INT8, DType.INT16, DType.INT64, DType.BOOL)

RULES: dict[str, PrepareRule] = {
    "BATCH_TO_SPACE_ND": _BATCHES,
    "CONCATENATION": _concatenation,
    "DEPTH_TO_SPACE": _depth_to_space,
    "PACK": nothing,
    "RESIZE_BILINEAR": looks_at((0, 1), (0,), *_RESIZED, _pixel_centers),
    "RESIZE_NEAREST_NEIGHBOR": looks_at((0, 1), (0,), *_RESIZED, _two_sizes),
    "REVERSE_V2": looks_at(
        (0, 1),
        (0,),
        counts(2),
        input_rank(1, 1),
        input_rank(0, 0, SMALL_RANK),
        _reversed_axes,
        input_type(0, *_REVERSIBLE),
        input_type(1, DType.INT32),
        output_alike,
    ),
    "SPACE_TO_BATCH_ND": _BATCHES,
    "SPACE_TO_DEPTH": _space_to_depth,
    # The outputs and the tensor that is split are not looked at.
    "SPLIT": looks_at((0,), (), constant_input(0, "axis")),
    "SPLIT_V": looks_at((2,), (), _three_inputs, constant_input(2, "axis")),
    "TRANSPOSE": looks_at(
        (0, 1), (0,), counts(2), input_rank(0, 0, 5), output_alike, constant_input(1, "permutation"), _permutation
    ),
    "UNPACK": nothing,
}
