"""The work of custom operators that TFLM itself brings, by custom code; those of signal processing are in signal.py.

Sources: circular_buffer.cc, detection_postprocess.cc, decode.cc, decode_state_*.cc. How many boxes overlap depends on
the data: as many boxes as may be found are compared with all others.
"""

from __future__ import annotations

from edgetool.model.types import DType, Tensor
from edgetool.operators.kernel import Call
from edgetool.operators.prepare.custom import DECODE_HEADER_BYTES, HUFFMAN, PRUNE
from edgetool.operators.prepare.options import named_size
from edgetool.operators.work.copies import copied_evenly, moved
from edgetool.operators.work.loops import together
from edgetool.operators.work.types import Work, WorkRule

# Elements of int8 that a table decoder makes at once, by the bits of an index.
AT_ONCE = {2: 16, 3: 32, 4: 16}
TABLE_BITS = 0b111


def _circular_buffer(call: Call) -> Work:
    """All slots but the first are moved to the front, and the new one is put behind them."""
    result = call.required_output()
    slots, depth = result.shape[1], result.shape[2] * result.shape[3]
    size = (slots - 1) * depth
    return Work("int8", together(moved(size, 0, depth), copied_evenly(depth, 1, (size, 0))))


def _detection(call: Call) -> Work:
    boxes, classes = call.required_input(0).shape[1], named_size(call, "num_classes")
    found = min(named_size(call, "max_detections"), boxes)
    regular = bool(named_size(call, "use_regular_nms"))
    rounds = classes if regular else 1
    return Work(
        "regular" if regular else "fast",
        {
            "box": boxes,
            "score": boxes * classes,
            "sorted box": rounds * boxes * max(boxes.bit_length() - 1, 1),
            "round": rounds,
            "detection": rounds * found,
            "compared boxes": rounds * sum(boxes - 1 - place for place in range(found)),
        },
    )


def _decode(call: Call) -> Work:
    """One loop over each output, of the decoder that its tables name. Huffman's was not counted."""
    outputs = len(call.operator.outputs)
    parts = [_decoded(call.required_input(2 * at + 1), call.required_output(at)) for at in range(outputs)]
    kinds = sorted({part.path for part in parts})
    return Work(" and ".join(kinds), together({"output": outputs}, *(part.loops for part in parts)))


def _decoded(ancillary: Tensor, result: Tensor) -> Work:
    header = (ancillary.data or b"").ljust(DECODE_HEADER_BYTES, b"\0")
    quantization, last_axis = result.quantization, len(result.shape) - 1
    scales = max(len(quantization.scales), 1) if quantization is not None else 1
    last = quantization is not None and scales > 1 and quantization.axis == last_axis > 0
    elements, name = result.element_count, f"{result.dtype.name.lower()}{' last axis' if last else ''}"
    if header[0] == HUFFMAN:
        return Work(f"Huffman {name}", {"element": elements})
    if header[0] == PRUNE:
        shifted = quantization is not None and scales > 1 and any(quantization.zero_points)
        return Work(f"pruned {'channels of ' if shifted else ''}{name}", {"channel": scales, "element": elements})
    bits = header[5] & TABLE_BITS
    if result.dtype != DType.INT8 or bits not in AT_ONCE or last:
        return Work(f"table of {bits} bits {name}", {"channel": scales, "element": elements})
    channel, step = elements // scales, AT_ONCE[bits]
    # Blocks begin at multiples of their length, counted from the first channel on.
    heads = [min(-at * channel % step, channel) for at in range(scales)]
    blocks = sum((channel - head) // step for head in heads)
    return Work(
        f"table of {bits} bits {name}", {"channel": scales, "block": blocks, "element": elements - blocks * step}
    )


WORK: dict[str, WorkRule] = {
    "CIRCULAR_BUFFER": _circular_buffer,
    "TFLM_DECODE": _decode,
    "TFLite_Detection_PostProcess": _detection,
}
