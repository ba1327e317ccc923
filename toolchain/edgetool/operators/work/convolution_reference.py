"""Convolutions of TFLM's reference kernels: every element of every window is looked at, for every output.

Sources: conv.h, integer_ops/conv.h, depthwiseconv_float.h, integer_ops/depthwise_conv.h.
"""

from __future__ import annotations

from edgetool.model.types import DType
from edgetool.operators.kernel import Call
from edgetool.operators.work.loops import Loops, repeated
from edgetool.operators.work.types import Work
from edgetool.operators.work.values import products
from edgetool.operators.work.windows import Windows


def reference_convolution(call: Call, w: Windows) -> Work:
    """One multiplication for each channel of each element inside the image."""
    outputs = w.batch * w.out_channels
    loops = {
        "output row": w.batch * w.rows.outputs,
        "position": w.batch * w.positions,
        "output": outputs * w.positions,
        "biased output": outputs * w.positions * (call.input(2) is not None),
        "window row": outputs * w.positions * w.rows.kernel,
        "element": outputs * w.inside,
        **products(call, outputs * w.inside * w.filter_channels),
        **repeated(outputs, outside(w)),
    }
    return Work(reference_path(call), loops | _unpacked(call))


def reference_depthwise(call: Call, w: Windows) -> Work:
    """As many outputs per channel as the depth multiplier."""
    outputs = w.batch * w.out_channels
    loops = {
        "output row": w.batch * w.rows.outputs,
        "position": w.batch * w.positions,
        "channel": w.batch * w.positions * w.in_channels,
        "output": outputs * w.positions,
        "biased output": outputs * w.positions * (call.input(2) is not None),
        "window row": outputs * w.positions * w.rows.kernel,
        **products(call, outputs * w.inside),
        **repeated(outputs, outside(w)),
    }
    return Work(reference_path(call), loops | _unpacked(call))


def outside(w: Windows) -> Loops:
    """Elements in the padding, by the first of the four comparisons that tells."""
    rows, columns = w.rows, w.columns
    return {
        "element left": rows.taps * columns.before,
        "element right": rows.taps * (columns.taps - columns.before - columns.inside),
        "element above": rows.before * columns.inside,
        "element below": (rows.taps - rows.before - rows.inside) * columns.inside,
    }


def reference_path(call: Call) -> str:
    """The type of the activations, with the accumulator's where that is the bias's; and of packed weights."""
    source, weights, bias = call.required_input(0), call.required_input(1), call.input(2)
    if source.dtype == DType.INT16 and bias is not None and bias.dtype == DType.INT32:
        return "reference int16 with int32 sums"
    packed = " with int4 weights" if weights.dtype == DType.INT4 else ""
    return f"reference {source.dtype.name.lower()}{packed}"


def _unpacked(call: Call) -> dict[str, int]:
    """int4 weights, two at a time, before each run."""
    weights = call.required_input(1)
    return {"unpacked pair": (weights.element_count + 1) // 2} if weights.dtype == DType.INT4 else {}
