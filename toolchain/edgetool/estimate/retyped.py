"""Models with other tensor types: the precision of a model, the role of each tensor, and what the kernels request.

Only the types change: the scales are invented, such that every kernel accepts them. An operator's Prepare rule runs
once for all operators that look the same to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from edgetool.memory.account import tensor_structs
from edgetool.memory.problem import aligned
from edgetool.model.types import DType, Graph, Model, Operator, Quantization, Tensor
from edgetool.operators.call import Assignment, Call, KernelRefusal, PrepareRule
from edgetool.operators.control import assignments
from edgetool.operators.registry import OPERATORS, entry_of
from edgetool.target.platform import Platform

# The dimension of weights (input 1) that converters quantize per channel, and the input of the bias.
CHANNEL_AXES = {"CONV_2D": (0, 2), "DEPTHWISE_CONV_2D": (3, 2), "TRANSPOSE_CONV": (0, 3)}
FLOATS = frozenset([DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64])
# Scale and zero point by type: those that SOFTMAX and LOGISTIC require, of weights, and of the products of both.
WEIGHT_SCALE = 2.0**-7
ACTIVATIONS = {DType.INT8: (2.0**-8, -128), DType.INT16: (2.0**-15, 0)}
BIAS_QUANTIZATIONS = {DType.INT32: (2.0**-8 * WEIGHT_SCALE, 0), DType.INT64: (2.0**-15 * WEIGHT_SCALE, 0)}
# Bytes in a file: a scale with its zero point, a minimum or maximum, and besides these the table, its vectors' lengths
# and their padding: 35 to 44 per tensor in the MLPerf Tiny models compared with their float originals.
SCALE_BYTES, RANGE_BYTES, TABLE_BYTES = 12, 4, 36

Retype = Callable[[int, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class OperatorGroup:
    """Operators that look the same to their rule: the first of them, and all by (subgraph, operator)."""

    graph: Graph
    operator: Operator
    rule: PrepareRule
    members: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class KernelNeeds:
    """The memory that kernels request.

    persistent_bytes: what kernels and the interface store in the tail, aligned. scratch: bytes of each request, by
    (subgraph, operator), for the operators that have a rule. refused: the operators whose kernel rejects them.
    """

    persistent_bytes: int
    scratch: Mapping[tuple[int, int], tuple[int, ...]]
    refused: frozenset[str]

    @property
    def requests(self) -> int:
        """The number of requests for scratch buffers."""
        return sum(map(len, self.scratch.values()))


def channel_axes(model: Model) -> dict[tuple[int, int], int]:
    """Return the dimension that converters quantize per channel, by (subgraph, tensor): of weights and their bias."""
    axes: dict[tuple[int, int], int] = {}
    for graph in model.subgraphs:
        for operator in graph.operators:
            if operator.code in CHANNEL_AXES:
                axis, bias = CHANNEL_AXES[operator.code]
                for position, dimension in ((1, axis), (bias, 0)):
                    index = operator.inputs[position] if position < len(operator.inputs) else -1
                    if index >= 0 and graph.tensors[index].is_constant:
                        axes[graph.index, index] = dimension
    return axes


def retyped(tensor: Tensor, dtype: DType, axis: int | None) -> Tensor:
    """Return the tensor in another type, with its contents unchanged. axis: the dimension for per-channel scales."""
    count = scales_of(tensor, dtype, axis)
    if not count:
        return replace(tensor, dtype=dtype, quantization=None)
    quantizations = BIAS_QUANTIZATIONS if dtype in BIAS_QUANTIZATIONS else {} if tensor.is_constant else ACTIVATIONS
    scale, zero_point = quantizations.get(dtype, (WEIGHT_SCALE, 0))
    current = tensor.quantization
    axis = current.axis if current is not None and current.scales else axis or 0
    return replace(tensor, dtype=dtype, quantization=Quantization((scale,) * count, (zero_point,) * count, axis))


def scales_of(tensor: Tensor, dtype: DType, axis: int | None) -> int:
    """Return the number of scales that the tensor has in another type: the current number, if it has any."""
    if dtype in FLOATS:
        return 0
    if tensor.quantization is not None and tensor.quantization.scales:
        return len(tensor.quantization.scales)
    if tensor.data is None or axis is None or axis >= len(tensor.shape):
        return 1
    return min(tensor.shape[axis], len(tensor.data))  # a sparse tensor may claim any shape


def table_bytes(scales: int, ranges: int = 0) -> int:
    """Return the bytes of a tensor's quantization in a file: its scales with zero points, and minima and maxima."""
    return TABLE_BYTES + SCALE_BYTES * scales + RANGE_BYTES * ranges if scales else 0


def group_operators(model: Model) -> tuple[OperatorGroup, ...]:
    """Return the operators that have a rule, grouped by what the rule can distinguish."""
    groups: dict[object, OperatorGroup] = {}
    assigned = assignments(model)
    for graph in model.subgraphs:
        for operator in graph.operators:
            entry, key = entry_of(operator), (graph.index, operator.index)
            if entry is not None and entry.prepare is not None:
                rule_key = _operator_key(graph, operator, assigned.get(key))
                groups.setdefault(rule_key, OperatorGroup(graph, operator, entry.prepare, [])).members.append(key)
    return tuple(groups.values())


def kernel_needs(model: Model, groups: Sequence[OperatorGroup], platform: Platform, retype: Retype) -> KernelNeeds:
    """Return the requests of the model's operators with the tensors that retype returns, up to where a kernel rejects
    one.

    retype receives a subgraph and its tensor.
    """
    assigned = assignments(model)
    tensors = {graph.index: list(graph.tensors) for graph in model.subgraphs}
    done: set[tuple[int, int]] = set()
    persistent_bytes, scratch, refused = 0, dict[tuple[int, int], tuple[int, ...]](), set[str]()
    for group in groups:
        graph, operator = group.graph, group.operator
        retyped_tensors = tensors[graph.index]
        new_tensors = {(graph.index, i) for i in (*operator.inputs, *operator.outputs) if i >= 0} - done
        for _, index in new_tensors:
            retyped_tensors[index] = retype(graph.index, retyped_tensors[index])
        done |= new_tensors
        changed = replace(graph, tensors=tuple(retyped_tensors))
        persistent, requests, accepted = _requests(Call(model, changed, operator, platform, assigned), group.rule)
        refused |= set() if accepted else {operator.label}
        persistent_bytes += persistent * len(group.members)
        scratch |= dict.fromkeys(group.members, requests)
    for index in (*model.main.inputs, *model.main.outputs):
        structs = tensor_structs(retype(0, model.main.tensors[index]), platform)
        persistent_bytes += sum(aligned(size.size_bytes, size.alignment) for size in structs)
    return KernelNeeds(persistent_bytes, scratch, frozenset(refused))


def _operator_key(graph: Graph, operator: Operator, assignment: Assignment | None) -> object:
    """Return the properties by which a rule can distinguish operators. Contents count unless they are real values."""
    tensor_keys = tuple(
        _tensor_key(graph.tensors[i]) if i >= 0 else None for i in (*operator.inputs, *operator.outputs)
    )
    operator_key = (
        operator.code,
        operator.custom_code,
        operator.custom_options,
        operator.options,
        len(operator.inputs),
    )
    return (operator_key, operator.intermediates, assignment, tensor_keys)


def _tensor_key(tensor: Tensor) -> object:
    quantization = tensor.quantization
    scales = len(quantization.scales) if quantization is not None else 0
    number = scales > 0 or tensor.dtype in FLOATS
    contents = tensor.is_constant if number else tensor.data
    return (tensor.shape, tensor.dtype, tensor.is_variable, scales, contents)


def _requests(call: Call, rule: PrepareRule) -> tuple[int, tuple[int, ...], bool]:
    """Return the persistent bytes and scratch requests of one operator, and whether its kernel accepted it.

    Requests count up to the refusal of the kernel.
    """
    persistent_bytes, scratch = 0, list[int]()
    try:
        for request in rule(call):
            if request.kind == "persistent":
                persistent_bytes += aligned(request.size_bytes)
            elif request.kind == "scratch":
                scratch.append(request.size_bytes)
    except KernelRefusal:
        return persistent_bytes, tuple(scratch), False
    return persistent_bytes, tuple(scratch), True


PrecisionName = Literal["float32", "float16", "int16x8", "int8"]
Role = Literal["weight", "bias", "activation"]

# From the highest to the lowest.
TYPES: dict[PrecisionName, dict[Role, DType]] = {
    "float32": {"weight": DType.FLOAT32, "bias": DType.FLOAT32, "activation": DType.FLOAT32},
    "float16": {"weight": DType.FLOAT16, "bias": DType.FLOAT16, "activation": DType.FLOAT16},
    "int16x8": {"weight": DType.INT8, "bias": DType.INT64, "activation": DType.INT16},
    "int8": {"weight": DType.INT8, "bias": DType.INT32, "activation": DType.INT8},
}
# The inputs of operators that are a bias; their other constants are weights.
BIASES: dict[str, tuple[int, ...]] = {
    "CONV_2D": (2,),
    "CONV_3D": (2,),
    "CONV_3D_TRANSPOSE": (3,),
    "DEPTHWISE_CONV_2D": (2,),
    "FULLY_CONNECTED": (2,),
    "SVDF": (3,),
    "TRANSPOSE_CONV": (3,),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (12, 13, 14, 15),
}
# BATCH_MATMUL treats a constant as an activation.
WEIGHTED = frozenset(code for code, entry in OPERATORS.items() if entry.macs is not None) - {"BATCH_MATMUL"}


def model_precision(model: Model) -> PrecisionName | None:
    """Return the precision of the operators that multiply and accumulate, or else of all; None for a mixture."""
    precisions: set[PrecisionName | None] = set()
    for graph in model.subgraphs:
        for operator in graph.operators:
            if operator.code in WEIGHTED:
                tensors = [graph.tensors[index] for index in operator.inputs if index >= 0]
                activation = next((tensor.dtype for tensor in tensors if not tensor.is_constant), None)
                weights = (tensor.dtype for tensor in tensors if tensor.is_constant and _is_number(tensor))
                precisions.add(_precision_of(activation, next(weights, None)))
    if not precisions:
        tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors if not tensor.is_constant]
        precisions = {_precision_of(tensor.dtype, None) for tensor in tensors if _is_number(tensor)}
    return precisions.pop() if len(precisions) == 1 else None


def _precision_of(activation: DType | None, weight: DType | None) -> PrecisionName | None:
    for name, types in TYPES.items():
        if activation == types["activation"] and weight in (None, types["weight"]):
            return name
    return None


def _is_number(tensor: Tensor) -> bool:
    """Return whether it contains real values: others are indices, shapes and masks."""
    return tensor.dtype in FLOATS or (tensor.quantization is not None and bool(tensor.quantization.scales))


def tensor_roles(model: Model) -> dict[tuple[int, int], Role]:
    """Return the role of each tensor of real values; its first use decides."""
    roles: dict[tuple[int, int], Role] = {}
    for graph in model.subgraphs:
        numbers = {tensor.index for tensor in graph.tensors if _is_number(tensor)}
        for operator in graph.operators:
            for position, index in enumerate(operator.inputs):
                if index in numbers and graph.tensors[index].is_constant:
                    roles.setdefault((graph.index, index), _constant_role(operator, position))
        for index in numbers:
            roles.setdefault((graph.index, index), "activation")
    return roles


def _constant_role(operator: Operator, position: int) -> Role:
    if operator.code not in WEIGHTED:
        return "activation"
    return "bias" if position in BIASES.get(operator.code, ()) else "weight"
