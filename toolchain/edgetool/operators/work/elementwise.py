"""Functions of single elements: which loops their kernels run.

Sources: elementwise.cc, exp.cc, ceil.cc, floor.cc, round.cc and neg.cc. What the C library's functions of
floats take depends on the number: the mean counts.
"""

from __future__ import annotations

from edgetool.model.types import DType
from edgetool.operators.kernel import Call
from edgetool.operators.prepare.quantization import is_quantized, scale
from edgetool.operators.work.elements import dtype_name, flat
from edgetool.operators.work.types import Work, WorkRule


def _plain(call: Call) -> Work:
    return flat(call, dtype_name(call))


def _absolute(call: Call) -> Work:
    """Quantized numbers are multiplied where the scales differ."""
    source = call.required_input(0)
    if not is_quantized(source) or source.dtype == DType.FLOAT32:
        return flat(call, dtype_name(call))
    rescaled = scale(source) != scale(call.required_output())
    return flat(call, f"{dtype_name(call)} {'rescaled' if rescaled else 'quantized'}")


FUNCTIONS = ("CEIL", "COS", "EXP", "FLOOR", "LOG", "NEG", "ROUND", "RSQRT", "SIN", "SQRT", "SQUARE")

WORK: dict[str, WorkRule] = {
    "ABS": _absolute,
    **dict.fromkeys(FUNCTIONS, _plain),
}
