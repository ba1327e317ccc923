"""Custom operators that TFLM itself includes, by custom code: Prepare, loop counts and bounds.

Sources of Prepare: basic_classifier.cc, circular_buffer_common.cc, detection_postprocess.cc, decode.cc,
decode_state_*.cc. Those of custom signal-processing operators are in signal.py.

Sources of the loop counts: basic_classifier.cc, circular_buffer.cc, detection_postprocess.cc, decode.cc,
decode_state_*.cc. How many boxes overlap depends on the data: the maximum number of detections are compared with all
other boxes.

basic_classifier.cc is as of TFLM commit 0cc6f98: it is newer than the snapshots in targets/runtimes/.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import (
    INT32_BYTES,
    Call,
    Condition,
    PrepareRule,
    Request,
    constant_input,
    flex_options,
    input_rank,
    input_type,
    integers,
    is_quantized,
    named_size,
    operand_counts,
    output_rank,
    output_type,
    persistent,
    prepare_rule,
    require,
    same_output_type,
    scratch,
    temporary_buffer,
)
from edgetool.operators.entry import entries
from edgetool.operators.loops import LoopCounts, LoopRule, combined, memmove_loops, strided_memcpy_loops

FLOAT_BYTES = 4

# Decode types (decode_state.h): the state's name, and its size in pointers.
# The bytes and flags at the end of the state are rounded up.
TABLE, HUFFMAN, PRUNE = 0, 1, 2
DECODE_STATES = {TABLE: ("table decoder", 9), HUFFMAN: ("Huffman decoder", 7), PRUNE: ("pruning decoder", 10)}
DECODE_HEADER_BYTES = 16
INT32_LIMIT = 2**31
BOX_COORDINATES = IMAGE_RANK = 4
DETECTIONS_PER_CLASS = 100  # if an operator does not specify it (kNumDetectionsPerClass, detection_postprocess.cc)
MAX_CODE_BITS = 7


# Inputs: the class scores, the classes to detect, and their thresholds. Outputs: whether each is detected, its score.
SCORES, TARGETS, THRESHOLDS = range(3)
DETECTED, TARGET_SCORES = range(2)


def _check_targets(call: Call) -> None:
    """Require one threshold, one flag and one score for each target (basic_classifier.cc, lines 63 to 66)."""
    targets, thresholds = call.required_input(TARGETS), call.required_input(THRESHOLDS)
    for tensor in (thresholds, call.required_output(DETECTED), call.required_output(TARGET_SCORES)):
        fits = tensor.shape == targets.shape
        require(call, fits, f"requires a tensor of shape {targets.shape} for its targets, not {tensor.shape}")


def _check_slice_shape(call: Call) -> None:
    source, result = call.required_input(0).shape, call.required_output().shape
    fits = source[:1] == result[:1] and source[1:2] == (1,) and source[2:4] == result[2:4]
    require(call, fits, f"cannot add {source} to {result}")


def _prepare_detection_postprocess(call: Call) -> Iterator[Request]:
    """Yield the requests of TFLite_Detection_PostProcess, which uses no outputs and checks no types."""
    operand_counts(3, 4)(call)
    boxes = call.required_input(0)
    yield from call.temporary_inputs(0, 1, 2)
    for position, rank in enumerate((3, 3, 2)):
        input_rank(position, rank)(call)
    number = boxes.shape[1]
    classes, detections = named_size(call, "num_classes"), named_size(call, "max_detections")
    scores = call.required_input(1).shape[1] * call.required_input(1).shape[2]
    yield scratch("active candidates", number)
    yield scratch("decoded boxes", number * BOX_COORDINATES * FLOAT_BYTES)
    yield scratch("scores", scores * FLOAT_BYTES)
    yield scratch("scores of a class", number * FLOAT_BYTES)
    yield scratch("kept scores", number * FLOAT_BYTES)
    yield scratch("scores after suppression", detections * number * FLOAT_BYTES)
    yield scratch("sorted scores", detections * number * FLOAT_BYTES)
    yield scratch("kept indices", number * INT32_BYTES)
    yield scratch("sorted indices", detections * number * INT32_BYTES)
    yield scratch("indices", max(classes, detections) * number * INT32_BYTES)
    yield scratch("selected boxes", min(number, detections) * number * INT32_BYTES)


def _prepare_decode(call: Call) -> Iterator[Request]:
    outputs = len(call.operator.outputs)
    require(call, outputs > 0, "has no output")
    operand_counts(2 * outputs, outputs)(call)
    yield persistent("states' pointers", outputs * call.platform.abi.pointer_bytes)
    for position in range(outputs):
        ancillary, result = call.required_input(2 * position + 1), call.required_output(position)
        yield from call.temporary_inputs(2 * position, 2 * position + 1)
        yield from call.temporary_outputs(position)
        # The axis and zero points are read after the persistent buffers are allocated, which must not overwrite them.
        yield temporary_buffer("quantization that is read later", 0, 1)
        constant_input(2 * position, "codes")(call)
        constant_input(2 * position + 1, "tables")(call)
        header = (ancillary.data or b"").ljust(DECODE_HEADER_BYTES, b"\0")
        kind, version, table_version, parameters = header[0], header[1], header[4], header[5]
        require(call, version == 1, f"supports version 1, not {version}")
        require(call, kind in DECODE_STATES, f"has no decoder for type {kind}")
        state, pointers = DECODE_STATES[kind]
        yield persistent(state, pointers * call.platform.abi.pointer_bytes)
        require(call, table_version == 1, f"supports tables of version 1, not {table_version}")
        if kind == HUFFMAN:
            int8 = parameters & 1 != 0 or result.dtype == DType.INT8
            require(call, int8, "decodes only to int8 with 16-bit tables")
        else:
            _check_axis(call, result)
        if kind == PRUNE:
            yield from _zero_points(call, result)


def _check_axis(call: Call, result: Tensor) -> None:
    if result.quantization is None or not is_quantized(result):
        return
    axis, last = result.quantization.axis, len(result.shape) - 1
    supported = axis == 0 or (axis == last and result.quantization.per_channel)
    require(call, supported, f"decodes only to tensors quantized along the first or last axis, not {axis}")


def _zero_points(call: Call, result: Tensor) -> Iterator[Request]:
    """Yield the request for a copy of the zero points if they differ from 0 along an axis."""
    if result.quantization is None or not is_quantized(result):
        return
    shifted = any(result.quantization.zero_points)
    require(call, not shifted or result.dtype == DType.INT8, "supports zero points other than 0 only for int8")
    if shifted and result.quantization.per_channel:
        yield persistent("zero points", len(result.quantization.scales))


PREPARE: dict[str, PrepareRule] = {
    # basic_classifier.cc, lines 34 to 80; it has no Init.
    "BasicClassifier": prepare_rule(
        (SCORES, TARGETS, THRESHOLDS),
        (DETECTED, TARGET_SCORES),
        operand_counts(3, 2),
        input_rank(SCORES, 1, 2),
        *(input_rank(position, 1) for position in (TARGETS, THRESHOLDS)),
        *(output_rank(position, 1) for position in (DETECTED, TARGET_SCORES)),
        _check_targets,
        *(input_type(position, DType.INT32) for position in (SCORES, TARGETS, THRESHOLDS)),
        output_type(DETECTED, DType.BOOL),
        output_type(TARGET_SCORES, DType.INT32),
    ),
    "CIRCULAR_BUFFER": prepare_rule((0,), (0,), _check_slice_shape, same_output_type, input_type(0, DType.INT8)),
    "TFLM_DECODE": _prepare_decode,
    "TFLite_Detection_PostProcess": _prepare_detection_postprocess,
}


# int8 elements that a table decoder produces at once, by the bits of an index.
BLOCK_ELEMENTS = {2: 16, 3: 32, 4: 16}
TABLE_BITS = 0b111


def _classifier_loops(call: Call) -> LoopCounts:
    """Return the loops of BasicClassifier: one comparison for each target."""
    return LoopCounts("int32", {"target": call.required_output(DETECTED).element_count})


def _circular_buffer_loops(call: Call) -> LoopCounts:
    """Return the loops of CIRCULAR_BUFFER: all slots but the first are moved forward, and the new one is appended."""
    result = call.required_output()
    slots, depth = result.shape[1], result.shape[2] * result.shape[3]
    size = (slots - 1) * depth
    return LoopCounts("int8", combined(memmove_loops(size, 0, depth), strided_memcpy_loops(depth, 1, (size, 0))))


def _detection_loops(call: Call) -> LoopCounts:
    boxes, classes = call.required_input(0).shape[1], named_size(call, "num_classes")
    detections = min(named_size(call, "max_detections"), boxes)
    is_regular = bool(named_size(call, "use_regular_nms"))
    rounds = classes if is_regular else 1
    return LoopCounts(
        "regular" if is_regular else "fast",
        {
            "box": boxes,
            "score": boxes * classes,
            "sorted box": rounds * boxes * max(boxes.bit_length() - 1, 1),
            "round": rounds,
            "detection": rounds * detections,
            "compared boxes": rounds * sum(boxes - 1 - place for place in range(detections)),
        },
    )


def _decode_loops(call: Call) -> LoopCounts:
    """Return the loops of TFLM_DECODE: one loop over each output, of the decoder that its tables select.

    The instructions of Huffman decoding have not been counted.
    """
    outputs = len(call.operator.outputs)
    parts = [_decoder_loops(call.required_input(2 * at + 1), call.required_output(at)) for at in range(outputs)]
    kinds = sorted({part.path for part in parts})
    return LoopCounts(" and ".join(kinds), combined({"output": outputs}, *(part.loops for part in parts)))


def _decoder_loops(ancillary: Tensor, result: Tensor) -> LoopCounts:
    header = (ancillary.data or b"").ljust(DECODE_HEADER_BYTES, b"\0")
    quantization, last_axis = result.quantization, len(result.shape) - 1
    scales = max(len(quantization.scales), 1) if quantization is not None else 1
    last = quantization is not None and scales > 1 and quantization.axis == last_axis > 0
    elements, name = result.element_count, f"{result.dtype.name.lower()}{' last axis' if last else ''}"
    if header[0] == HUFFMAN:
        return LoopCounts(f"Huffman {name}", {"element": elements})
    if header[0] == PRUNE:
        shifted = quantization is not None and scales > 1 and any(quantization.zero_points)
        return LoopCounts(f"pruned {'channels of ' if shifted else ''}{name}", {"channel": scales, "element": elements})
    bits = header[5] & TABLE_BITS
    if result.dtype != DType.INT8 or bits not in BLOCK_ELEMENTS or last:
        return LoopCounts(f"table of {bits} bits {name}", {"channel": scales, "element": elements})
    channel, step = elements // scales, BLOCK_ELEMENTS[bits]
    # Blocks begin at multiples of their length, counted from the first channel.
    heads = [min(-at * channel % step, channel) for at in range(scales)]
    blocks = sum((channel - head) // step for head in heads)
    return LoopCounts(
        f"table of {bits} bits {name}", {"channel": scales, "block": blocks, "element": elements - blocks * step}
    )


LOOPS: dict[str, LoopRule] = {
    "BasicClassifier": _classifier_loops,
    "CIRCULAR_BUFFER": _circular_buffer_loops,
    "TFLM_DECODE": _decode_loops,
    "TFLite_Detection_PostProcess": _detection_loops,
}


def _classifier_bounds(call: Call) -> None:
    """Require each target of BasicClassifier to be a class.

    The kernel's first version (85be6df) reads beyond the scores otherwise. Later versions let Invoke fail
    (basic_classifier.cc, line 112).
    """
    classes, targets = call.required_input(SCORES).element_count, call.required_input(TARGETS)
    for target in integers(targets) if targets.is_constant else ():
        require(call, 0 <= target < classes, f"cannot detect class {target}: there are only {classes}")


def _circular_buffer_bounds(call: Call) -> None:
    """Require 4 dimensions of CIRCULAR_BUFFER, which moves all slots but one, of the dimensions 1 to 3."""
    source, result = call.required_input(0).shape, call.required_output().shape
    require(
        call, len(source) == len(result) == IMAGE_RANK, f"requires 4 dimensions, not the shapes {source} and {result}"
    )
    require(call, result[1] > 0, "does not support an output whose dimension 1 is 0")


def _detection_bounds(call: Call) -> None:
    """Require TFLite_Detection_PostProcess to have room for a fast or regular selection of boxes, all in float32."""
    boxes, scores, anchors = (call.required_input(position) for position in range(3))
    box_count, options = boxes.shape[1], flex_options(call)
    classes, max_detections = named_size(call, "num_classes"), named_size(call, "max_detections")
    require(
        call, classes > 0 and max_detections > 0, f"does not support {classes} classes with {max_detections} detections"
    )
    require(
        call,
        max(classes, max_detections) * box_count * 4 < INT32_LIMIT,
        f"does not have room for {max_detections} of {box_count} boxes",
    )
    require(call, anchors.element_count >= BOX_COORDINATES * box_count, f"requires {box_count} anchors of 4 numbers")
    for tensor in (boxes, scores, anchors, *(call.required_output(position) for position in range(4))):
        require(call, tensor.dtype == DType.FLOAT32, f"requires float32, not {tensor.dtype.name.lower()}")
    written = max_detections
    if options.integer("use_regular_nms"):
        candidates = min(box_count, options.integer("detections_per_class") or DETECTIONS_PER_CLASS)
        max_boxes = max_detections * box_count
        require(
            call,
            (0 if classes == 1 else max_detections) + candidates <= max_boxes,
            f"can merge at most {max_boxes} boxes from two classes",
        )
    else:
        classes_per_detection = min(options.integer("max_classes_per_detection"), classes)
        # This is how the kernel counts them.
        written = min(max_detections, box_count) * classes_per_detection * classes_per_detection
    for position, width in enumerate((BOX_COORDINATES, 1, 1)):
        capacity = call.required_output(position).element_count
        require(
            call,
            written * width <= capacity,
            f"writes {written * width} elements to output {position}, which has {capacity}",
        )
    require(call, call.required_output(3).element_count > 0, "does not support an empty output 3")


def _decode_bounds(call: Call) -> None:
    """Require codes for all elements, and tables with all values of TFLM_DECODE.

    Huffman codes are not checked.
    """
    for position in range(len(call.operator.outputs)):
        codes, tables = call.required_input(2 * position), call.required_input(2 * position + 1)
        result = call.required_output(position)
        header = (tables.data or b"").ljust(DECODE_HEADER_BYTES, b"\0")
        code_bits, element_bytes = len(codes.data or b"") * 8, max(result.dtype.bits // 8, 1)
        capacity = (len(tables.data or b"") - DECODE_HEADER_BYTES) // element_bytes
        if header[0] == TABLE:
            bits, stride = header[5] & 7, header[6]
            require(call, 0 < bits <= MAX_CODE_BITS, f"does not support codes of {bits} bits")
            needed = result.element_count * bits
            channels = len(result.quantization.scales) if result.quantization is not None else 1
            values = (max(channels, 1) - 1) * stride + 1
        elif header[0] == PRUNE:
            needed = result.element_count
            values = sum(byte.bit_count() for byte in codes.data or b"")
        else:
            continue
        require(call, needed <= code_bits, f"requires {needed} bits of codes, not {code_bits}")
        require(call, values <= capacity, f"requires a table of {values} values, not {capacity}")


BOUNDS: dict[str, Condition] = {
    "BasicClassifier": _classifier_bounds,
    "CIRCULAR_BUFFER": _circular_buffer_bounds,
    "TFLM_DECODE": _decode_bounds,
    "TFLite_Detection_PostProcess": _detection_bounds,
}


OPERATORS = entries(prepare=PREPARE, loops=LOOPS, bounds=BOUNDS)
