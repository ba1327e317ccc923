"""One operator as seen by the kernel that prepares it: its tensors, its requests to the arena, and conditions on both.

The families write their Prepare rules with this module. A rule yields the kernel's requests to the arena in order, and
raises KernelRefusal if the kernel returns an error. The module contains

- requests: persistent, scratch and temporary buffers, and temporary TfLiteTensors;
- quantization as TFLM sees it (micro_allocator.cc: what a TfLiteTensor takes from the file; quantization_util.cc);
- conditions on single tensors and options, and `prepare_rule`, which makes a rule from a list of them;
- fixed-point multipliers of matrix products: what computing them requests, and which scales it accepts. Sources:
  CalculateOpDataFullyConnected (fully_connected_common.cc) and GetQuantizedConvolutionMultipler (kernel_util.cc).
  Most builds accept infinite multipliers, and so does this module;
- options of custom operators, as numbers.

Conditions on operand counts exist only for custom operators. Conditions on shapes exist only if the reader's rules
(`model/rules.py`) do not imply them, or if an operator in a subgraph that never runs may violate them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, isnan
from struct import pack, unpack, unpack_from
from typing import Literal

from edgetool.model.flexbuffer import FlexbufferError, FlexVector, read_flexbuffer
from edgetool.model.types import DType, Graph, Model, Operator, OptionValue, Tensor
from edgetool.target.platform import Platform

# The maximum number of scratch requests of one operator (kMaxScratchBuffersPerOp, micro_allocator.h).
SCRATCH_REQUESTS_PER_OPERATOR = 12

INT32_BYTES = 4
# Limits and types that the kernels of several families share.
MAX_SMALL_RANK = 6  # RuntimeShape::kMaxSmallSize
QUANTIZED_TYPES = (DType.INT8, DType.INT16)
ACTIVATION_TYPES = (DType.UINT8, *QUANTIZED_TYPES)  # types with a range for the fused activation

# Types whose elements have a different width in TFLM from that in the schema (TfLiteTypeSizeOf, memory_helpers.cc).
ARENA_ELEMENT_BYTES: dict[DType, int] = {DType.INT4: 1, DType.RESOURCE: 4}

RequestKind = Literal["persistent", "scratch", "temporary tensor", "temporary buffer"]


class KernelRefusal(Exception):  # noqa: N818  # the kernel's answer, not an error of edgetool
    """The kernel's Prepare would return an error, so AllocateTensors fails on the device. The message says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """One allocation: a description of its contents, and its size.

    A "persistent" buffer (AllocatePersistentBuffer, aligned to 16) stays in the tail. A "scratch" buffer
    (RequestScratchBufferInArena) is in the head while the operator runs. Both temporary kinds are above the head until
    Prepare of the operator ends. tensor is the index of a "temporary tensor", whose size follows from the
    runtime's structs.
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
    """What Prepare of an ASSIGN_VARIABLE or READ_VARIABLE knows about its variable.

    variable: its number; None if no earlier operator has created the handle. variable_count: the number of variables so
    far. first: whether the operator is the first ASSIGN_VARIABLE of its variable; False for every READ_VARIABLE.
    size_bytes: the size that the first ASSIGN_VARIABLE gives the variable permanently; None if it is unknown.
    """

    variable: int | None
    variable_count: int
    first: bool
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One operator in Prepare, and the build of TFLM that prepares it.

    assignments: the assignments of the whole model, by (subgraph, operator); they depend on earlier operators.
    """

    model: Model
    graph: Graph
    operator: Operator
    platform: Platform
    assignments: Mapping[tuple[int, int], Assignment]

    def input(self, position: int) -> Tensor | None:
        """Return the input at a position; None if it is omitted or the operator has fewer inputs."""
        return self._tensor(self.operator.inputs, position)

    def output(self, position: int = 0) -> Tensor | None:
        """Return the output at a position; None if the operator has fewer outputs."""
        return self._tensor(self.operator.outputs, position)

    def required_input(self, position: int) -> Tensor:
        """Return the input at a position. Raises KernelRefusal if it does not exist."""
        tensor = self.input(position)
        if tensor is None:
            raise KernelRefusal(f"{self.operator.label} has no input {position}")
        return tensor

    def required_output(self, position: int = 0) -> Tensor:
        """Return the output at a position. Raises KernelRefusal if it does not exist."""
        tensor = self.output(position)
        if tensor is None:
            raise KernelRefusal(f"{self.operator.label} has no output {position}")
        return tensor

    def option(self, name: str, default: OptionValue = None) -> OptionValue:
        """Return a field of the operator's options; the default if its option table is missing or lacks the field."""
        options = self.operator.options
        return default if options is None else dict(options.fields).get(name, default)

    def temporary_inputs(self, *positions: int) -> Iterator[Request]:
        """Yield the request of AllocateTempInputTensor for each position, none for an omitted input."""
        for position in positions:
            yield from _temporary_tensor(self.input(position))

    def temporary_outputs(self, *positions: int) -> Iterator[Request]:
        """Yield the request of AllocateTempOutputTensor for each position."""
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
    """Return no requests: the rule of a kernel that has no Prepare, or whose Prepare requests nothing."""
    return ()


# The real values to which a fused activation clamps; the kernel quantizes each of them.
CLAMP_BOUNDS: dict[object, tuple[float, ...]] = {"RELU": (0.0,), "RELU_N1_TO_1": (-1.0, 1.0), "RELU6": (0.0, 6.0)}
MAX_QUANTIZED = 2.0**31


def is_quantized(tensor: Tensor) -> bool:
    """Return whether TFLM treats the tensor as quantized: the file contains its scales and zero points."""
    quantization = tensor.quantization
    return quantization is not None and bool(quantization.scales) and bool(quantization.zero_points)


def scale(tensor: Tensor) -> float:
    """Return the tensor's first scale, or 0 if it is not quantized."""
    return tensor.quantization.scales[0] if tensor.quantization is not None and is_quantized(tensor) else 0.0


def zero_point(tensor: Tensor) -> int:
    """Return the tensor's first zero point, or 0 if it is not quantized."""
    return tensor.quantization.zero_points[0] if tensor.quantization is not None and is_quantized(tensor) else 0


def ratio(dividend: float, divisor: float) -> float:
    """Return the quotient, or infinity if the divisor is 0, so that no condition on it holds."""
    return dividend / divisor if divisor else inf


def is_below_one(multiplier: float) -> bool:
    """Return whether QuantizeMultiplierSmallerThanOneExp accepts the multiplier; otherwise it aborts the program.

    It also rejects a fraction that would round to 2^31 / 2^31.
    """
    return 0.0 < multiplier < 1.0 - 2.0**-32


def float32(value: float) -> float:
    """Round the value to single precision, which some kernels use."""
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
    """Return the rule of a kernel that only requests the TfLiteTensors at these positions and checks conditions."""

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
    """Require exactly this number of inputs and outputs, including omitted inputs.

    Only custom operators need it: the reader counts the operands of all others (`model/rules.py`).
    """

    def condition(call: Call) -> None:
        actual = (len(call.operator.inputs), len(call.operator.outputs))
        if actual != (inputs, outputs):
            raise KernelRefusal(
                f"{call.operator.label} requires {inputs} inputs and {outputs} outputs, not {actual[0]} and {actual[1]}"
            )

    return condition


def same_input_types(call: Call) -> None:
    """Require the first two inputs to have the same type."""
    _check_same_type(call, call.required_input(0), call.required_input(1))


def same_output_type(call: Call) -> None:
    """Require the output to have the same type as the first input."""
    _check_same_type(call, call.required_input(0), call.required_output())


def same_output_shape(call: Call) -> None:
    """Require the output to have the same shape as the first input."""
    source, result = call.required_input(0), call.required_output()
    if source.shape != result.shape:
        raise KernelRefusal(
            f"{call.operator.label} cannot produce an output of shape {result.shape} from {source.shape}"
        )


def symmetric_int16(inputs: int) -> Condition:
    """Require the first `inputs` inputs and the output to have zero points of 0 if the first input is int16."""

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
    """Return an integer option, or the default if the file does not contain it."""
    value = call.option(name, default)
    return value if isinstance(value, int) else default


def int32_words(tensor: Tensor) -> tuple[int, ...]:
    """Return the constant's bytes as int32 regardless of its type, like kernels that do not check the type."""
    return _integers(tensor, DType.INT32)


def integers(tensor: Tensor) -> tuple[int, ...]:
    """Return the elements of a constant whose type is one of int8 to int64."""
    return _integers(tensor, tensor.dtype)


def dimensions_copy(tensor: Tensor) -> Request:
    """Return the request for a copy of the dimensions (CreateWritableTensorDimsWithCopy, kernel_util.cc)."""
    return persistent("dimensions of the output", INT32_BYTES * (1 + len(tensor.shape)))


def constant_input(position: int, what: str) -> Condition:
    """Require this input to be a constant that the file contains."""
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
    """Require this input to have `lowest` to `highest` dimensions, or exactly `lowest` if `highest` is None."""
    return lambda call: _check_rank(call, f"input {position}", call.required_input(position), lowest, highest)


def output_rank(position: int, lowest: int, highest: int | None = None) -> Condition:
    """Require this output to have `lowest` to `highest` dimensions, or exactly `lowest` if `highest` is None."""
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


BIAS_TOLERANCE = 0.02  # relative to the output's scale


def is_per_channel(weights: Tensor) -> bool:
    """Return whether TFLM treats the weights as quantized with more than one scale."""
    return is_quantized(weights) and weights.quantization is not None and weights.quantization.per_channel


def check_scale_product(call: Call, first: Tensor, second: Tensor) -> None:
    """Require the product of two scales not to be negative. Raises KernelRefusal otherwise."""
    product = float32(scale(first) * scale(second))
    require(call, product >= 0, f"does not support {product} as the product of scales")


def per_tensor(weights: Tensor) -> Tensor:
    """Return the weights as a kernel sees them that uses only the first scale."""
    quantization = weights.quantization
    if quantization is None or not is_per_channel(weights):
        return weights
    first = replace(quantization, scales=quantization.scales[:1], zero_points=quantization.zero_points[:1])
    return replace(weights, quantization=first)


def weight_multipliers(
    call: Call, source: Tensor, weights: Tensor, bias: Tensor | None, output_scale: float
) -> Iterator[Request]:
    """Yield the requests for the multipliers of weights: two buffers if they are quantized per channel, otherwise none.

    Raises KernelRefusal if the kernel cannot compute the multipliers.
    """
    if source.dtype == DType.FLOAT32:
        return
    quantization = weights.quantization
    if quantization is not None and is_per_channel(weights):
        scales, axis = quantization.scales, quantization.axis
        supported = source.dtype in (DType.INT8, DType.INT16) and weights.dtype != DType.INT4
        names = f"{source.dtype.name.lower()} with weights of {weights.dtype.name.lower()}"
        require(call, supported, f"does not support {names} quantized per channel")
        matching = 0 <= axis < len(weights.shape) and weights.shape[axis] == len(scales)
        require(call, matching, f"does not support {len(scales)} scales for weights of shape {weights.shape}")
        for what in ("per-channel multipliers", "per-channel shifts"):
            yield persistent(what, INT32_BYTES * len(scales))
        return
    if bias is not None:
        difference = abs(scale(source) * scale(weights) - scale(bias))
        error = difference / output_scale if output_scale else inf
        is_close = not isnan(error) and error <= BIAS_TOLERANCE
        require(call, is_close, "requires the bias scale to be the product of the input scale and the weight scale")
    check_scale_product(call, source, weights)


def flex_options(call: Call) -> FlexVector:
    """Return the flexbuffer in the operator's options. Raises KernelRefusal if it cannot be read."""
    try:
        return read_flexbuffer(call.operator.custom_options or b"")
    except FlexbufferError as error:
        raise KernelRefusal(f"{call.operator.label} has custom options that are {error}") from error


def flex_size(call: Call, position: int) -> int:
    """Return the size at this position of the options, ignoring its type, as TFLM's FlexbufferWrapper does.

    Raises KernelRefusal if the options have no such position, or if the size is negative, for which no arena is large
    enough.
    """
    raw = flex_options(call).raw
    if position >= len(raw):
        raise KernelRefusal(f"{call.operator.label} has {len(raw)} options, not {position + 1}")
    if raw[position] < 0:
        raise KernelRefusal(f"{call.operator.label} does not support a size of {raw[position]}")
    return raw[position]


def named_size(call: Call, name: str) -> int:
    """Return the size with this name, or 0 if there is none. Raises KernelRefusal if it is negative."""
    size = flex_options(call).integer(name)
    if size < 0:
        raise KernelRefusal(f"{call.operator.label} does not support a size of {size}")
    return size


def tensor_at(operator: Operator, graph: Graph, position: int) -> Tensor | None:
    """Return the operator's input at a position; None if it is omitted or the operator has fewer inputs."""
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
    """Return a condition that checks the conditions in this order."""

    def condition(call: Call) -> None:
        for each in conditions:
            each(call)

    return condition
