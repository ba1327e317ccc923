"""One operator as the kernel that prepares it sees it: its tensors, requests to the arena, and conditions on both.

Families write their Prepare rules with this module. A rule yields the kernel's requests to the arena in order, and
raises KernelRefusal where the kernel returns an error. The module contains

- requests: persistent, scratch and temporary buffers, and temporary TfLiteTensors;
- quantization as TFLM sees it (micro_allocator.cc: what a TfLiteTensor takes from the file; quantization_util.cc);
- conditions on single tensors and options, and `looks_at`, which makes a rule of a list of them;
- fixed-point multipliers of matrix products: what computing them requests, and which scales it accepts. Sources:
  CalculateOpDataFullyConnected (fully_connected_common.cc) and GetQuantizedConvolutionMultipler (kernel_util.cc).
  Infinite multipliers pass on most builds, and so they do here;
- options of custom operators, as numbers.

Conditions on operand counts exist only for custom operators, and on shapes only as far as the reader's rules
(`model/rules.py`) do not imply them or an operator in a subgraph that is never run may break them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isnan
from struct import pack, unpack, unpack_from
from typing import Literal

from edgetool.model.flexbuffer import FlexbufferError, FlexVector, read_flexbuffer
from edgetool.model.types import DType, Graph, Model, Operator, OptionValue, Tensor
from edgetool.target.platform import Platform

# The requests for scratch that one operator may make (kMaxScratchBuffersPerOp, micro_allocator.h).
SCRATCH_REQUESTS_PER_OPERATOR = 12

INT32_BYTES = 4
# Limits and types that the kernels of several families share.
MAX_SMALL_RANK = 6  # RuntimeShape::kMaxSmallSize
QUANTIZED_TYPES = (DType.INT8, DType.INT16)
ACTIVATION_TYPES = (DType.UINT8, *QUANTIZED_TYPES)  # types with a range for the fused activation

# Where TFLM's element differs from the schema's width (TfLiteTypeSizeOf, memory_helpers.cc).
ARENA_ELEMENT_BYTES: dict[DType, int] = {DType.INT4: 1, DType.RESOURCE: 4}

RequestKind = Literal["persistent", "scratch", "temporary tensor", "temporary buffer"]


class KernelRefusal(Exception):  # noqa: N818  # not an error of edgetool: the kernel's answer
    """The kernel's Prepare would return an error, so that AllocateTensors fails on the device. The text says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """One allocation: a description of its contents, and its size.

    "persistent" (AllocatePersistentBuffer, aligned to 16) stays in the tail; "scratch"
    (RequestScratchBufferInArena) lies in the head while the operator runs; both temporary kinds lie above the
    head until Prepare of the operator ends. tensor is the index of a "temporary tensor", whose bytes follow
    from the runtime's structs.
    """

    kind: RequestKind
    what: str
    size_bytes: int = 0
    alignment: int = 16
    tensor: int = -1


def arena_bytes(tensor: Tensor) -> int:
    """Return the bytes that TFLM reserves in the arena for the tensor's elements."""
    element_bytes = ARENA_ELEMENT_BYTES.get(tensor.dtype)
    return tensor.size_bytes if element_bytes is None else tensor.element_count * element_bytes


def persistent(what: str, size_bytes: int) -> Request:
    """Return a request for a buffer that lives as long as the interpreter."""
    return Request("persistent", what, size_bytes)


def scratch(what: str, size_bytes: int) -> Request:
    """Return a request for a buffer that lives while the operator runs."""
    return Request("scratch", what, size_bytes)


def temporary_buffer(what: str, size_bytes: int, alignment: int) -> Request:
    """Return a request for a buffer that lives until Prepare of the operator ends."""
    return Request("temporary buffer", what, size_bytes, alignment)


@dataclass(frozen=True, slots=True)
class Assignment:
    """What ASSIGN_VARIABLE sees in Prepare: its variable, the number of variables, and whether it is the first writer.

    variable: None if no earlier operator made the handle. size_bytes: the size that the first writer gives the variable
    permanently; None if it is unknown. A READ_VARIABLE has an assignment too, and is never the first.
    """

    variable: int | None
    variable_count: int
    first: bool
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One operator in Prepare, and the build of TFLM that prepares it.

    assignments: those of the whole model by (subgraph, operator); they depend on earlier operators.
    """

    model: Model
    graph: Graph
    operator: Operator
    platform: Platform
    assignments: Mapping[tuple[int, int], Assignment]

    def input(self, position: int) -> Tensor | None:
        """Return the input at a position; None if it is left out or the operator has fewer."""
        return self._tensor(self.operator.inputs, position)

    def output(self, position: int = 0) -> Tensor | None:
        """Return the output at a position; None if the operator has fewer."""
        return self._tensor(self.operator.outputs, position)

    def required_input(self, position: int) -> Tensor:
        """Return the input at a position. Raises KernelRefusal if there is none."""
        tensor = self.input(position)
        if tensor is None:
            raise KernelRefusal(f"{self.operator.label} has no input {position}")
        return tensor

    def required_output(self, position: int = 0) -> Tensor:
        """Return the output at a position. Raises KernelRefusal if there is none."""
        tensor = self.output(position)
        if tensor is None:
            raise KernelRefusal(f"{self.operator.label} has no output {position}")
        return tensor

    def option(self, name: str, default: OptionValue = None) -> OptionValue:
        """Return a field of the operator's options; the default if its option table is missing or lacks the field."""
        options = self.operator.options
        return default if options is None else dict(options.fields).get(name, default)

    def temporary_inputs(self, *positions: int) -> Iterator[Request]:
        """Yield AllocateTempInputTensor for each position; nothing for an input left out, as in TFLM."""
        for position in positions:
            yield from _temporary_tensor(self.input(position))

    def temporary_outputs(self, *positions: int) -> Iterator[Request]:
        """Yield AllocateTempOutputTensor for each position."""
        for position in positions:
            yield from _temporary_tensor(self.output(position))

    def _tensor(self, indices: tuple[int, ...], position: int) -> Tensor | None:
        if not 0 <= position < len(indices) or indices[position] < 0:
            return None
        return self.graph.tensors[indices[position]]


def _temporary_tensor(tensor: Tensor | None) -> Iterator[Request]:
    if tensor is not None:
        yield Request("temporary tensor", f"TfLiteTensor of {tensor.name!r}", tensor=tensor.index)


PrepareRule = Callable[[Call], Iterable[Request]]


def no_requests(_: Call) -> Iterable[Request]:
    """The rule of a kernel whose Prepare requests nothing, or that has no Prepare."""
    return ()


# The real values to which a fused activation clamps: the kernel quantizes each.
CLAMP_BOUNDS: dict[object, tuple[float, ...]] = {"RELU": (0.0,), "RELU_N1_TO_1": (-1.0, 1.0), "RELU6": (0.0, 6.0)}
MAX_QUANTIZED = 2.0**31


def is_quantized(tensor: Tensor) -> bool:
    """Return whether TFLM treats the tensor as quantized: the file contains its scales and zero points."""
    quantization = tensor.quantization
    return quantization is not None and bool(quantization.scales) and bool(quantization.zero_points)


def scale(tensor: Tensor) -> float:
    """Return the first scale; 0 for a tensor that is not quantized."""
    return tensor.quantization.scales[0] if tensor.quantization is not None and is_quantized(tensor) else 0.0


def zero_point(tensor: Tensor) -> int:
    """Return the first zero point; 0 for a tensor that is not quantized."""
    return tensor.quantization.zero_points[0] if tensor.quantization is not None and is_quantized(tensor) else 0


def ratio(dividend: float, divisor: float) -> float:
    """Return the quotient; infinity for a divisor of 0, so that no condition on it holds."""
    return dividend / divisor if divisor else inf


def is_below_one(multiplier: float) -> bool:
    """Return whether QuantizeMultiplierSmallerThanOneExp accepts the multiplier; otherwise it aborts the program.

    A fraction that would round to 2^31 / 2^31 is too large, too.
    """
    return 0.0 < multiplier < 1.0 - 2.0**-32


def float32(value: float) -> float:
    """Round the value to single precision, in which some kernels calculate."""
    try:
        (rounded,) = unpack("<f", pack("<f", value))
    except OverflowError:
        return inf if value > 0 else -inf
    return float(rounded)


def check_activation_range(call: Call) -> None:
    """Require the bounds of the fused activation to fit 32 bits (CalculateActivationRangeQuantized, kernel_util.cc).

    Raises KernelRefusal if they do not, as for an output without a scale.
    """
    output_scale = scale(call.required_output())
    for bound in CLAMP_BOUNDS.get(call.option("fused_activation_function", "NONE"), ()):
        quantized = float32(bound / output_scale) if output_scale else inf
        if abs(quantized) > MAX_QUANTIZED:
            raise KernelRefusal(
                f"{call.operator.label} cannot clamp to {bound:g} with an output scale of {output_scale}"
            )


# Raises KernelRefusal if the kernel would reject the operator.
Condition = Callable[[Call], None]


def prepare_rule(inputs: Iterable[int], outputs: Iterable[int], *conditions: Condition) -> PrepareRule:
    """Return the rule of a kernel that requests only the TfLiteTensors at these positions and checks conditions."""

    def rule(call: Call) -> Iterator[Request]:
        for position in inputs:
            call.required_input(position)
            yield from call.temporary_inputs(position)
        for position in outputs:
            call.required_output(position)
            yield from call.temporary_outputs(position)
        for condition in conditions:
            condition(call)

    return rule


def operand_counts(inputs: int, outputs: int = 1) -> Condition:
    """Accept only this number of inputs and outputs, including inputs left out.

    For custom operators: the reader counts the operands of all others (`model/rules.py`).
    """

    def condition(call: Call) -> None:
        actual = (len(call.operator.inputs), len(call.operator.outputs))
        if actual != (inputs, outputs):
            raise KernelRefusal(
                f"{call.operator.label} requires {inputs} inputs and {outputs} outputs, not {actual[0]} and {actual[1]}"
            )

    return condition


def same_input_types(call: Call) -> None:
    """Require the first two inputs to have one type."""
    _check_same_type(call, call.required_input(0), call.required_input(1))


def same_output_type(call: Call) -> None:
    """Require the output to have the first input's type."""
    _check_same_type(call, call.required_input(0), call.required_output())


def same_output_shape(call: Call) -> None:
    """Require the output to have the input's shape."""
    source, result = call.required_input(0), call.required_output()
    if source.shape != result.shape:
        raise KernelRefusal(
            f"{call.operator.label} cannot produce an output of shape {result.shape} from {source.shape}"
        )


def symmetric_int16(inputs: int) -> Condition:
    """Require zero points of 0 of this many inputs and the output if the first input is int16."""

    def condition(call: Call) -> None:
        tensors = [*(call.required_input(position) for position in range(inputs)), call.required_output()]
        for tensor in tensors if tensors[0].dtype == DType.INT16 else ():
            if zero_point(tensor) != 0:
                raise KernelRefusal(
                    f"{call.operator.label} supports int16 only with zero points of 0, not {zero_point(tensor)}"
                )

    return condition


def _check_same_type(call: Call, first: Tensor, second: Tensor) -> None:
    if first.dtype != second.dtype:
        raise KernelRefusal(
            f"{call.operator.label} does not support {_type_name(first)} together with {_type_name(second)}"
        )


def _type_name(tensor: Tensor) -> str:
    return tensor.dtype.name.lower()


def require(call: Call, holds: bool, text: str) -> None:
    """Raise KernelRefusal("OPERATOR text") unless the condition holds."""
    if not holds:
        raise KernelRefusal(f"{call.operator.label} {text}")


def integer_option(call: Call, name: str, default: int = 0) -> int:
    """Return an option that is a number; the default if the file does not contain it."""
    value = call.option(name, default)
    return value if isinstance(value, int) else default


def int32_words(tensor: Tensor) -> tuple[int, ...]:
    """Return the constant's bytes as int32 regardless of its type, as kernels read it that do not check the type."""
    return _integers(tensor, DType.INT32)


def integers(tensor: Tensor) -> tuple[int, ...]:
    """Return the elements of a constant of one of the types int8 to int64."""
    return _integers(tensor, tensor.dtype)


def dimensions_copy(tensor: Tensor) -> Request:
    """Return a request for a copy of the dimensions (CreateWritableTensorDimsWithCopy, kernel_util.cc)."""
    return persistent("dimensions of the output", INT32_BYTES * (1 + len(tensor.shape)))


def constant_input(position: int, what: str) -> Condition:
    """Require this input to be a constant in the file."""
    return lambda call: require(
        call, call.required_input(position).is_constant, f"requires its {what} to be constant in the file"
    )


def input_type(position: int, *types: DType) -> Condition:
    """Require this input to have one of these types."""
    return lambda call: _check_type(call, f"input {position}", call.required_input(position), types)


def output_type(position: int, *types: DType) -> Condition:
    """Require this output to have one of these types."""
    return lambda call: _check_type(call, f"output {position}", call.required_output(position), types)


def input_rank(position: int, lowest: int, highest: int | None = None) -> Condition:
    """Require this input to have from `lowest` to `highest` dimensions; exactly `lowest` without `highest`."""
    return lambda call: _check_rank(call, f"input {position}", call.required_input(position), lowest, highest)


def output_rank(position: int, lowest: int, highest: int | None = None) -> Condition:
    """Require this output to have from `lowest` to `highest` dimensions; exactly `lowest` without `highest`."""
    return lambda call: _check_rank(call, f"output {position}", call.required_output(position), lowest, highest)


def _integers(tensor: Tensor, dtype: DType) -> tuple[int, ...]:
    data = tensor.data or b""
    code = {8: "b", 16: "h", 32: "i", 64: "q"}[dtype.bits]
    return unpack_from(f"<{len(data) * 8 // dtype.bits}{code}", data)


def _check_type(call: Call, what: str, tensor: Tensor, types: tuple[DType, ...]) -> None:
    names = ", ".join(dtype.name.lower() for dtype in types)
    require(call, tensor.dtype in types, f"supports {what} of type {names}, not {tensor.dtype.name.lower()}")


def _check_rank(call: Call, what: str, tensor: Tensor, lowest: int, highest: int | None) -> None:
    highest = lowest if highest is None else highest
    span = f"{lowest}" if lowest == highest else f"{lowest} to {highest}"
    rank = len(tensor.shape)
    require(call, lowest <= rank <= highest, f"supports {what} with {span} dimensions, not {rank}")


BIAS_TOLERANCE = 0.02  # of the output's scale


def is_per_channel(weights: Tensor) -> bool:
    """Return whether TFLM treats the weights as quantized with more than one scale."""
    return is_quantized(weights) and weights.quantization is not None and weights.quantization.per_channel


def check_scale_product(call: Call, first: Tensor, second: Tensor) -> None:
    """Require the product of two scales not to be negative. Raises KernelRefusal otherwise."""
    product = float32(scale(first) * scale(second))
    require(call, product >= 0, f"does not support {product} as the product of scales")


def weight_multipliers(
    call: Call, source: Tensor, weights: Tensor, bias: Tensor | None, output_scale: float
) -> Iterator[Request]:
    """Yield the requests for the multipliers of weights: buffers if they are quantized per channel, nothing for floats.

    Raises KernelRefusal if the kernel cannot compute the multipliers.
    """
    if source.dtype == DType.FLOAT32:
        return
    quantization = weights.quantization
    if quantization is not None and is_per_channel(weights):
        scales, axis = quantization.scales, quantization.axis
        taken = source.dtype in (DType.INT8, DType.INT16) and weights.dtype != DType.INT4
        names = f"{source.dtype.name.lower()} with weights of {weights.dtype.name.lower()}"
        require(call, taken, f"does not support {names} quantized per channel")
        alike = 0 <= axis < len(weights.shape) and weights.shape[axis] == len(scales)
        require(call, alike, f"does not support {len(scales)} scales for weights of shape {weights.shape}")
        for what in ("per-channel multipliers", "per-channel shifts"):
            yield persistent(what, INT32_BYTES * len(scales))
        return
    if bias is not None:
        off = abs(scale(source) * scale(weights) - scale(bias))
        error = off / output_scale if output_scale else inf
        near = not isnan(error) and error <= BIAS_TOLERANCE
        require(call, near, "requires the bias scale to be the product of the input scale and the weight scale")
    check_scale_product(call, source, weights)


def flex_options(call: Call) -> FlexVector:
    """Return the flexbuffer in the operator's options. Raises KernelRefusal if it cannot be read."""
    try:
        return read_flexbuffer(call.operator.custom_options or b"")
    except FlexbufferError as damage:
        raise KernelRefusal(f"{call.operator.label} has custom options that are {damage}") from damage


def flex_size(call: Call, position: int) -> int:
    """Return the size at this position, as TFLM's FlexbufferWrapper reads it, which ignores its type.

    Raises KernelRefusal if there is none, or if it is negative, for which no arena is large enough.
    """
    raw = flex_options(call).raw
    if position >= len(raw):
        raise KernelRefusal(f"{call.operator.label} has {len(raw)} options, not {position + 1}")
    if raw[position] < 0:
        raise KernelRefusal(f"{call.operator.label} does not support a size of {raw[position]}")
    return raw[position]


def named_size(call: Call, name: str) -> int:
    """Return the size with this name; 0 if there is none. Raises KernelRefusal for a negative one."""
    size = flex_options(call).integer(name)
    if size < 0:
        raise KernelRefusal(f"{call.operator.label} does not support a size of {size}")
    return size


def tensor_at(operator: Operator, graph: Graph, position: int) -> Tensor | None:
    """Return the operator's input at a position; None if it is left out or the operator has fewer."""
    if position >= len(operator.inputs) or operator.inputs[position] < 0:
        return None
    return graph.tensors[operator.inputs[position]]


def input_shapes(operator: Operator, graph: Graph, *positions: int) -> list[tuple[int, ...]] | None:
    """Return the shapes of these inputs; None if one is missing."""
    tensors = [tensor_at(operator, graph, position) for position in positions]
    return None if None in tensors else [tensor.shape for tensor in tensors if tensor is not None]


def output_elements(operator: Operator, graph: Graph) -> int:
    """Return the number of elements of the first output."""
    return graph.tensors[operator.outputs[0]].element_count if operator.outputs else 0


def all_of(*conditions: Condition) -> Condition:
    """Return the conjunction of the conditions, checked in this order."""

    def condition(call: Call) -> None:
        for each in conditions:
            each(call)

    return condition
