"""A custom operator's options, as numbers."""

from __future__ import annotations

from edgetool.model.flexbuffer import FlexbufferError, FlexVector, read_flexbuffer
from edgetool.operators.kernel import Call, KernelRefusal


def flex_options(call: Call) -> FlexVector:
    """The flexbuffer among the operator's options. Raises KernelRefusal when it cannot be read."""
    try:
        return read_flexbuffer(call.operator.custom_options or b"")
    except FlexbufferError as damage:
        raise KernelRefusal(f"{call.operator.label} has custom options that are {damage}") from damage


def flex_size(call: Call, position: int) -> int:
    """The size at this position, as TFLM's FlexbufferWrapper reads it: without a look at its type.

    Raises KernelRefusal when there is none, or a negative one, for which no arena is large enough.
    """
    raw = flex_options(call).raw
    if position >= len(raw):
        raise KernelRefusal(f"{call.operator.label} has {len(raw)} options, not {position + 1}")
    if raw[position] < 0:
        raise KernelRefusal(f"{call.operator.label} does not support a size of {raw[position]}")
    return raw[position]


def named_size(call: Call, name: str) -> int:
    """The size of this name; 0 when there is none. Raises KernelRefusal for a negative one."""
    size = flex_options(call).integer(name)
    if size < 0:
        raise KernelRefusal(f"{call.operator.label} does not support a size of {size}")
    return size
