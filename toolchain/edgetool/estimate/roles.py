"""In which number format a model computes, and what each of its tensors is to the operators."""

from __future__ import annotations

from typing import Literal

from edgetool.estimate.retyped import FLOATS
from edgetool.model.types import DType, Model, Operator, Tensor
from edgetool.operators.registry import MAC_RULES

PrecisionName = Literal["float32", "float16", "int16x8", "int8"]
Role = Literal["weight", "bias", "activation"]

# From the highest to the lowest.
TYPES: dict[PrecisionName, dict[Role, DType]] = {
    "float32": {"weight": DType.FLOAT32, "bias": DType.FLOAT32, "activation": DType.FLOAT32},
    "float16": {"weight": DType.FLOAT16, "bias": DType.FLOAT16, "activation": DType.FLOAT16},
    "int16x8": {"weight": DType.INT8, "bias": DType.INT64, "activation": DType.INT16},
    "int8": {"weight": DType.INT8, "bias": DType.INT32, "activation": DType.INT8},
}
# Where operators take a bias; their other constants are weights.
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
WEIGHTED = frozenset(MAC_RULES) - {"BATCH_MATMUL"}  # which takes a constant for an activation


def own_precision(model: Model) -> PrecisionName | None:
    """What the operators that multiply and accumulate take, or where there are none, all; None for a mixture."""
    found: set[PrecisionName | None] = set()
    for graph in model.subgraphs:
        for operator in graph.operators:
            if operator.code in WEIGHTED:
                tensors = [graph.tensors[index] for index in operator.inputs if index >= 0]
                activation = next((tensor.dtype for tensor in tensors if not tensor.is_constant), None)
                weights = (tensor.dtype for tensor in tensors if tensor.is_constant and _is_number(tensor))
                found.add(_named(activation, next(weights, None)))
    if not found:
        tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors if not tensor.is_constant]
        found = {_named(tensor.dtype, None) for tensor in tensors if _is_number(tensor)}
    return found.pop() if len(found) == 1 else None


def _named(activation: DType | None, weight: DType | None) -> PrecisionName | None:
    for name, types in TYPES.items():
        if activation == types["activation"] and weight in (None, types["weight"]):
            return name
    return None


def _is_number(tensor: Tensor) -> bool:
    """Whether it holds real values: others are indices, shapes and masks."""
    return tensor.dtype in FLOATS or (tensor.quantization is not None and bool(tensor.quantization.scales))


def tensor_roles(model: Model) -> dict[tuple[int, int], Role]:
    """What each tensor of real values is; its first use decides."""
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
