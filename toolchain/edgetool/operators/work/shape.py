"""The work of operators that change or tell a tensor's shape.

Sources: reshape.cc, squeeze.cc, expand_dims.cc, shape.cc, reference/broadcast_args.h. The first two copy bytes.
"""

from __future__ import annotations

from edgetool.operators.kernel import Call
from edgetool.operators.work.copies import copied_evenly
from edgetool.operators.work.loops import together
from edgetool.operators.work.types import Work, WorkRule


def _copy(call: Call) -> Work:
    """Dimensions are multiplied to the bytes: those of the input, and by SQUEEZE those of the output too."""
    source, result = call.required_input(0), call.required_output()
    axes = {"axis": len(source.shape), "axis of the output": len(result.shape)}
    return Work("copy", together(axes, copied_evenly(source.size_bytes, 1)))


def _elements(call: Call) -> Work:
    source = call.required_input(0)
    return Work(source.dtype.name.lower(), {"element": source.element_count, "axis": len(source.shape)})


def _shape(call: Call) -> Work:
    return Work("int32", {"axis": len(call.required_input(0).shape)})


def _broadcast_args(call: Call) -> Work:
    return Work(call.required_output().dtype.name.lower(), {"axis": call.required_output().element_count})


WORK: dict[str, WorkRule] = {
    "BROADCAST_ARGS": _broadcast_args,
    "EXPAND_DIMS": _elements,
    "RESHAPE": _copy,
    "SHAPE": _shape,
    "SQUEEZE": _copy,
}
