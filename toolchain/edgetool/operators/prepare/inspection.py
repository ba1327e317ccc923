"""What a Prepare reads of single tensors and options, and what it demands of them."""

from __future__ import annotations

from struct import unpack_from

from edgetool.model.types import DType, Tensor
from edgetool.operators.kernel import Call, KernelRefusal, Request, persistent
from edgetool.operators.prepare.conditions import Condition

INT_BYTES = 4


def demand(call: Call, holds: bool, text: str) -> None:
    """Raises KernelRefusal, "OPERATOR text", unless the condition holds."""
    if not holds:
        raise KernelRefusal(f"{call.operator.label} {text}")


def integer(call: Call, name: str, default: int = 0) -> int:
    """An option that is a number; the default where the file has none."""
    value = call.option(name, default)
    return value if isinstance(value, int) else default


def words(tensor: Tensor) -> tuple[int, ...]:
    """The constant's bytes as int32, whatever its type: kernels that do not check the type read it so."""
    return _integers(tensor, DType.INT32)


def integers(tensor: Tensor) -> tuple[int, ...]:
    """The constant's elements, of one of the types int8 to int64."""
    return _integers(tensor, tensor.dtype)


def dims_copy(tensor: Tensor) -> Request:
    """A copy of the dimensions in a TfLiteIntArray (CreateWritableTensorDimsWithCopy, kernel_util.cc)."""
    return persistent("dimensions of the output", INT_BYTES * (1 + len(tensor.shape)))


def constant_input(position: int, what: str) -> Condition:
    """The file holds the contents of this input."""
    return lambda call: demand(
        call, call.required_input(position).is_constant, f"requires its {what} to be constant in the file"
    )


def input_type(position: int, *types: DType) -> Condition:
    """This input is of one of these types."""
    return lambda call: _typed(call, f"input {position}", call.required_input(position), types)


def output_type(position: int, *types: DType) -> Condition:
    """This output is of one of these types."""
    return lambda call: _typed(call, f"output {position}", call.required_output(position), types)


def input_rank(position: int, lowest: int, highest: int | None = None) -> Condition:
    """This input has so many dimensions; exactly `lowest` when no highest number is given."""
    return lambda call: _ranked(call, f"input {position}", call.required_input(position), lowest, highest)


def output_rank(position: int, lowest: int, highest: int | None = None) -> Condition:
    """This output has so many dimensions; exactly `lowest` when no highest number is given."""
    return lambda call: _ranked(call, f"output {position}", call.required_output(position), lowest, highest)


def _integers(tensor: Tensor, dtype: DType) -> tuple[int, ...]:
    data = tensor.data or b""
    code = {8: "b", 16: "h", 32: "i", 64: "q"}[dtype.bits]
    return unpack_from(f"<{len(data) * 8 // dtype.bits}{code}", data)


def _typed(call: Call, what: str, tensor: Tensor, types: tuple[DType, ...]) -> None:
    names = ", ".join(dtype.name.lower() for dtype in types)
    demand(call, tensor.dtype in types, f"supports {what} of type {names}, not {tensor.dtype.name.lower()}")


def _ranked(call: Call, what: str, tensor: Tensor, lowest: int, highest: int | None) -> None:
    highest = lowest if highest is None else highest
    span = f"{lowest}" if lowest == highest else f"{lowest} to {highest}"
    rank = len(tensor.shape)
    demand(call, lowest <= rank <= highest, f"supports {what} with {span} dimensions, not {rank}")
