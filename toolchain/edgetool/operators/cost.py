"""What each operator of a model computes and touches.

How often a kernel reads its constants from one end to the other, where that is more than once.

Sources: arm_convolve_1x1_s8.c, arm_convolve_s8.c, arm_convolve_s16.c, arm_nn_mat_mult_nt_t_s8.c,
arm_fully_connected_s8.c, conv.h, fully_connected.h.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgetool.model.types import DType, Graph, Model, Operator
from edgetool.operators.call import Call
from edgetool.operators.dense import is_pointwise
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import entry_of
from edgetool.target.types import Precision

# Output pixels for which CMSIS-NN's general convolution reads the filters once: the columns that it collects, by
# whether the build has the vector extension.
COLUMNS = {True: 4, False: 2}
ROWS_AT_ONCE = 4  # of the vector extension's matrix product


def _convolution(call: Call) -> int:
    """Once for each pixel, or for the columns or rows of pixels that CMSIS-NN takes together."""
    source, filters, output = call.input(0), call.input(1), call.output()
    if source is None or filters is None or output is None or len(filters.shape) != 4 or len(output.shape) != 4:
        return 1
    batch, rows, columns, _ = output.shape
    pixels = batch * rows * columns
    if not _optimized(call):
        return pixels
    if filters.shape[1] == filters.shape[2] == 1 and source.dtype is DType.INT8:
        return _product(call, pixels) if _stride(call) == 1 else batch * rows * _product(call, columns)
    return -(-pixels // COLUMNS[call.platform.mve])


def _dense(call: Call) -> int:
    """Once for each row of the input, unless it runs as a convolution."""
    source, weights, output = call.input(0), call.input(1), call.output()
    if source is None or weights is None or output is None or not weights.shape or not all(output.shape[-1:]):
        return 1
    rows = output.element_count // (output.shape[-1] if output.shape else 1)
    return _product(call, rows) if _optimized(call) and is_pointwise(call) else rows


def _lstm(call: Call) -> int:
    """Once for each step of each sequence."""
    source = call.input(0)
    return 1 if source is None or len(source.shape) != 3 else source.shape[0] * source.shape[1]


def _product(call: Call, rows: int) -> int:
    """A matrix product walks the weights in its outer loop; with vectors, the rows of the input."""
    return rows // ROWS_AT_ONCE + rows % ROWS_AT_ONCE if call.platform.mve else 1


def _optimized(call: Call) -> bool:
    """Whether CMSIS-NN runs it: float32 runs the reference kernels everywhere."""
    source = call.input(0)
    return call.platform.cmsis_nn and source is not None and source.dtype is not DType.FLOAT32


def _stride(call: Call) -> int:
    strides = (call.option("stride_h", 1), call.option("stride_w", 1))
    return max(stride if isinstance(stride, int) else 1 for stride in strides)


PASSES: dict[str, Callable[[Call], int]] = {
    "CONV_2D": _convolution,
    "FULLY_CONNECTED": _dense,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
}


def constant_passes(call: Call) -> int:
    """The times that one run of the operator reads all its constants; 1 of operators that PASSES does not name."""
    rule = PASSES.get(call.operator.code)
    return 1 if rule is None else max(1, rule(call))


PRECISIONS: dict[DType, Precision] = {
    DType.INT16: "int16",
    DType.FLOAT32: "float32",
    DType.FLOAT16: "float32",
    DType.FLOAT64: "float32",
    DType.BFLOAT16: "float32",
}


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """One operator's work: multiply-accumulates, and bytes of constants and of other tensors it touches.

    precision is that of its arithmetic, by its first input that is no constant.

    known is False for an operator without an entry: its bytes are right, its macs are 0.
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
        """All bytes it touches, each tensor once."""
        return self.parameter_bytes + self.activation_bytes


def operator_costs(model: Model, custom: Mapping[str, OperatorEntry] | None = None) -> tuple[OperatorCost, ...]:
    """One cost per operator, subgraph by subgraph, each as if run once.

    custom: entries of operators that the user describes, by custom code.
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
    """Elements of trained constants: those of float type, or with a scale; index and shape constants apart.

    A payload that several tensors share counts once.
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
