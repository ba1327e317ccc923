"""The cost of each operator of a model: multiply-accumulates, and bytes read or written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgetool.model.types import DType, Graph, Model, Operator
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import entry_of
from edgetool.target.types import Precision

PRECISIONS: dict[DType, Precision] = {
    DType.INT16: "int16",
    DType.FLOAT32: "float32",
    DType.FLOAT16: "float32",
    DType.FLOAT64: "float32",
    DType.BFLOAT16: "float32",
}


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """One operator's multiply-accumulates, and the bytes of its constants and of its other tensors.

    precision: the precision of its arithmetic, determined by the first operand that is not constant. known: False for
    an operator without an entry, whose byte counts are correct but whose macs is 0.
    """

    subgraph: int
    index: int
    operator: str
    macs: int
    parameter_bytes: int
    activation_bytes: int
    precision: Precision
    known: bool

    @property
    def memory_bytes(self) -> int:
        """The bytes of all tensors that the operator uses, each counted once."""
        return self.parameter_bytes + self.activation_bytes


def operator_costs(model: Model, custom: Mapping[str, OperatorEntry] | None = None) -> tuple[OperatorCost, ...]:
    """Return one cost per operator, subgraph by subgraph, as if each operator ran once.

    Args:
        custom: the entries of operators that the user describes, by custom code.
    """
    costs = []
    for graph in model.subgraphs:
        for operator in graph.operators:
            entry = entry_of(operator, custom)
            parameter_bytes = activation_bytes = 0
            for index in dict.fromkeys(i for i in (*operator.inputs, *operator.outputs) if i >= 0):
                tensor = graph.tensors[index]
                if tensor.data is not None:
                    parameter_bytes += len(tensor.data)
                else:
                    activation_bytes += tensor.size_bytes
            macs = entry.macs(operator, graph) if entry is not None and entry.macs is not None else 0
            costs.append(
                OperatorCost(
                    subgraph=graph.index,
                    index=operator.index,
                    operator=operator.label,
                    macs=macs,
                    parameter_bytes=parameter_bytes,
                    activation_bytes=activation_bytes,
                    precision=_precision(operator, graph),
                    known=entry is not None and (entry.macs is not None or operator.code != "CUSTOM"),
                )
            )
    return tuple(costs)


def _precision(operator: Operator, graph: Graph) -> Precision:
    for index in (*operator.inputs, *operator.outputs):
        if index >= 0 and not graph.tensors[index].is_constant:
            return PRECISIONS.get(graph.tensors[index].dtype, "int8")
    return "int8"


def parameter_count(model: Model) -> int:
    """Return the number of elements of trained constants: those of float type or with a scale, not indices or shapes.

    A payload that several tensors share is counted once.
    """
    sizes: dict[int, int] = {}
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.data is None:
                continue
            quantized = tensor.quantization is not None and bool(tensor.quantization.scales)
            if quantized or tensor.dtype.name in {"FLOAT32", "FLOAT16", "BFLOAT16"}:
                sizes[tensor.buffer] = max(sizes.get(tensor.buffer, 0), tensor.element_count)
    return sum(sizes.values())
