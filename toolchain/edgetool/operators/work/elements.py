"""Loops over elements, as nearly all kernels of single elements have them."""

from __future__ import annotations

from edgetool.operators.kernel import Call
from edgetool.operators.work.broadcast import alike, binary_loops, copied_shapes
from edgetool.operators.work.types import Work


def dtype_name(call: Call) -> str:
    """The type of the first input, as paths are named."""
    return call.required_input(0).dtype.name.lower()


def flat(call: Call, path: str, **loops: int) -> Work:
    """One loop over the elements of the result; the shapes are copied and walked before."""
    result = call.required_output()
    tensors = (*(call.input(position) for position in range(len(call.operator.inputs))), result)
    shapes = [tensor.shape for tensor in tensors if tensor is not None]
    return Work(path, {**copied_shapes(*shapes), "element": result.element_count, **loops})


def strict(call: Call, path: str, **loops: int) -> Work:
    """A function of two operands that takes only equal shapes for no broadcast."""
    same = call.required_input(0).shape == call.required_input(1).shape
    return flat(call, path, **loops) if same else broadcast(call, path, **loops)


def lenient(call: Call, path: str, **loops: int) -> Work:
    """A function of two operands that takes shapes for equal up to ones in front."""
    same = alike(call.required_input(0).shape, call.required_input(1).shape)
    return flat(call, path, **loops) if same else broadcast(call, path, **loops)


def broadcast(call: Call, path: str, **loops: int) -> Work:
    """The broadcast of a function of two operands."""
    first, second, result = call.required_input(0), call.required_input(1), call.required_output()
    return Work(f"{path} broadcast", {**binary_loops(first.shape, second.shape, result.shape), **loops})
