"""What keeps a kernel of TensorFlow Lite Micro within its tensors, where neither it nor the file's reader looks.

Prepare succeeds on such operators, and Eval reads or writes past a tensor, divides by 0 or never ends. Values count
only where the file holds them; where they decide what is read, the file must. Sources: the kernels of the same names;
signal processing has its own table, bounds_signal.
"""

from __future__ import annotations

from math import prod

from edgetool.model.types import DType
from edgetool.operators.call import (
    Call,
    Condition,
    constant_input,
    demand,
    flex_options,
    integer,
    integers,
    named_size,
    words,
)
from edgetool.operators.signal import SIGNAL_BOUNDS

INT32_LIMIT = 2**31
BOX_COORDINATES = IMAGE_RANK = 4
DETECTIONS_PER_CLASS = 100  # of an operator that does not say (kNumDetectionsPerClass, detection_postprocess.cc)
DECODE_HEADER_BYTES = 16
TABLE, PRUNE = 0, 2  # types of decoders (decode_state.h)
WIDEST_CODE_BITS = 7


def _all(*conditions: Condition) -> Condition:
    def condition(call: Call) -> None:
        for one in conditions:
            one(call)

    return condition


def _slice_constants(call: Call) -> None:
    """STRIDED_SLICE: a beginning, an end and a stride for each dimension, and one that is there where it is dropped."""
    source = call.required_input(0).shape
    for position in (1, 2, 3):
        given = call.required_input(position).element_count
        demand(call, given >= len(source), f"reads {len(source)} elements of input {position}, which has {given}")
    begins, strides = words(call.required_input(1)), words(call.required_input(3))
    for axis, size in enumerate(source):
        if not integer(call, "shrink_axis_mask") & 1 << axis:
            continue
        begin = begins[axis] + (size if begins[axis] < 0 else 0)
        if integer(call, "begin_mask") & 1 << axis:
            begin = 0 if strides[axis] > 0 else size - 1
        demand(call, 0 <= begin < size, f"reads element {begins[axis]} of a dimension of size {size}")


def _sliced(call: Call) -> None:
    """SLICE reads the sizes in the type of the beginnings, and writes as many elements as they say."""
    begins, counts = call.required_input(1), call.required_input(2)
    types = begins.dtype.name.lower(), counts.dtype.name.lower()
    demand(call, types[0] == types[1], f"does not support {types[0]} together with {types[1]}")
    constant_input(2, "sizes")(call)
    if begins.is_constant:
        return  # the reader holds all three against each other
    source, made = call.required_input(0).shape, call.required_output().element_count
    most = [size if count == -1 else count for size, count in zip(source, integers(counts), strict=False)]
    fits = all(0 <= count <= size for size, count in zip(source, most, strict=False))
    demand(
        call,
        fits and prod(most) == made,
        f"may write a {tuple(most)} slice of its {source} input to an output with only {made} elements",
    )


def _image(call: Call) -> None:
    """SPACE_TO_DEPTH and DEPTH_TO_SPACE write 4 sizes over the output's own."""
    rank = len(call.required_output().shape)
    demand(call, rank == IMAGE_RANK, f"writes 4 dimensions to an output with {rank}")


def _gathered_rank(call: Call) -> None:
    """GATHER and GATHER_ND write their sizes over the output's own."""
    source, positions = call.required_input(0).shape, call.required_input(1).shape
    if call.operator.code == "GATHER":
        batches = integer(call, "batch_dims")
        made = len(source) + len(positions) - 1 - (batches + len(positions) if batches < 0 else batches)
    else:
        made = len(positions) - 1 + len(source) - positions[-1]
    held = len(call.required_output().shape)
    demand(call, made <= held, f"writes {made} dimensions to an output with {held}")


def _kept_rank(call: Call) -> None:
    """MEAN over height and width ends the program where the output that keeps its dimensions has others."""
    constant_input(1, "axes")(call)
    source, result = call.required_input(0).shape, call.required_output().shape
    alike = len(source) == len(result) or not call.option("keep_dims", False)
    demand(call, alike, f"cannot keep {len(source)} dimensions in an output of shape {result}")


def _reversed_axes(call: Call) -> None:
    demand(call, call.required_input(1).element_count > 0, "does not support an empty list of axes")


def _shapes_to_join(call: Call) -> None:
    """BROADCAST_ARGS ends the program where two sizes differ and neither is 1."""
    shapes = [integers(tensor)[::-1] for tensor in map(call.required_input, (0, 1)) if tensor.is_constant]
    for sizes in zip(*shapes, strict=False):
        demand(call, len({*sizes} - {1}) <= 1, f"cannot broadcast {sizes[0]} to {sizes[-1]}")


def _slots(call: Call) -> None:
    """CIRCULAR_BUFFER moves all slots but one, of the dimensions 1 to 3."""
    source, result = call.required_input(0).shape, call.required_output().shape
    demand(
        call, len(source) == len(result) == IMAGE_RANK, f"requires 4 dimensions, not the shapes {source} and {result}"
    )
    demand(call, result[1] > 0, "does not support an output whose dimension 1 is 0")


def _detections(call: Call) -> None:
    """TFLite_Detection_PostProcess: a quick or a regular choice of boxes, all as float32."""
    boxes, scores, anchors = (call.required_input(position) for position in range(3))
    number, options = boxes.shape[1], flex_options(call)
    classes, most = named_size(call, "num_classes"), named_size(call, "max_detections")
    demand(call, classes > 0 and most > 0, f"does not support {classes} classes with {most} detections")
    demand(call, max(classes, most) * number * 4 < INT32_LIMIT, f"does not have room for {most} of {number} boxes")
    demand(call, anchors.element_count >= BOX_COORDINATES * number, f"requires {number} anchors of 4 numbers")
    for tensor in (boxes, scores, anchors, *(call.required_output(position) for position in range(4))):
        demand(call, tensor.dtype == DType.FLOAT32, f"requires float32, not {tensor.dtype.name.lower()}")
    written = most
    if options.integer("use_regular_nms"):
        chosen = min(number, options.integer("detections_per_class") or DETECTIONS_PER_CLASS)
        room = most * number
        demand(
            call,
            (0 if classes == 1 else most) + chosen <= room,
            f"can merge at most {room} boxes from two classes",
        )
    else:
        each = min(options.integer("max_classes_per_detection"), classes)
        written = min(most, number) * each * each  # as the kernel counts them
    for position, width in enumerate((BOX_COORDINATES, 1, 1)):
        held = call.required_output(position).element_count
        demand(
            call, written * width <= held, f"writes {written * width} elements to output {position}, which has {held}"
        )
    demand(call, call.required_output(3).element_count > 0, "does not support an empty output 3")


def _decoded(call: Call) -> None:
    """TFLM_DECODE: codes for all elements, and tables with what they stand for. Of Huffman's codes nothing is known."""
    for position in range(len(call.operator.outputs)):
        codes, tables = call.required_input(2 * position), call.required_input(2 * position + 1)
        result = call.required_output(position)
        header = (tables.data or b"").ljust(DECODE_HEADER_BYTES, b"\0")
        held, element_bytes = len(codes.data or b"") * 8, max(result.dtype.bits // 8, 1)
        room = (len(tables.data or b"") - DECODE_HEADER_BYTES) // element_bytes
        if header[0] == TABLE:
            bits, stride = header[5] & 7, header[6]
            demand(call, 0 < bits <= WIDEST_CODE_BITS, f"does not support codes of {bits} bits")
            needed = result.element_count * bits
            channels = len(result.quantization.scales) if result.quantization is not None else 1
            values = (max(channels, 1) - 1) * stride + 1
        elif header[0] == PRUNE:
            needed = result.element_count
            values = sum(byte.bit_count() for byte in codes.data or b"")
        else:
            continue
        demand(call, needed <= held, f"requires {needed} bits of codes, not {held}")
        demand(call, values <= room, f"requires a table of {values} values, not {room}")


_BLOCKS = _all(constant_input(1, "blocks"), constant_input(2, "border"))
_AXIS = constant_input(1, "axis")

BOUNDS: dict[str, Condition] = {
    "ARG_MAX": _AXIS,
    "ARG_MIN": _AXIS,
    "BATCH_TO_SPACE_ND": _BLOCKS,
    "BROADCAST_ARGS": _shapes_to_join,
    "CIRCULAR_BUFFER": _slots,
    "DEPTH_TO_SPACE": _image,
    "GATHER": _gathered_rank,
    "GATHER_ND": _gathered_rank,
    "MEAN": _kept_rank,
    "MIRROR_PAD": constant_input(1, "border"),
    "REDUCE_ALL": _AXIS,
    "REDUCE_MAX": _AXIS,
    "REDUCE_MIN": _AXIS,
    "REVERSE_V2": _reversed_axes,
    "SLICE": _sliced,
    "SPACE_TO_BATCH_ND": _BLOCKS,
    "SPACE_TO_DEPTH": _image,
    "STRIDED_SLICE": _slice_constants,
    "SUM": _AXIS,
    "TFLM_DECODE": _decoded,
    "TFLite_Detection_PostProcess": _detections,
    **SIGNAL_BOUNDS,
}


def check_bounds(call: Call) -> None:
    """Raises KernelRefusal when the kernel, whose Prepare takes the operator, would leave its tensors."""
    operator = call.operator
    condition = BOUNDS.get(operator.custom_code or "" if operator.code == "CUSTOM" else operator.code)
    if condition is not None:
        condition(call)
