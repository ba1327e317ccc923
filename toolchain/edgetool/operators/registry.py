"""The registry of operators: the entries of all families, and the queries that other packages make on them.

The cost of an operator is its multiply-accumulates, and the bytes that it reads or writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from edgetool.model.types import DType, Graph, Model, Operator
from edgetool.operators.call import Call, KernelRefusal
from edgetool.operators.entry import KernelFault, OperatorEntry
from edgetool.operators.loops import LoopCounts, TooLongError
from edgetool.target.types import Precision

# The operators of each family, which is a module of this package.
FAMILIES: dict[str, str] = {
    "activation": "ELU HARD_SWISH LEAKY_RELU LOGISTIC PRELU RELU RELU6 TANH",
    "arithmetic": "ADD ADD_N DIV FLOOR_DIV FLOOR_MOD MAXIMUM MINIMUM MUL SQUARED_DIFFERENCE SUB",
    "comparison": "EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND LOGICAL_NOT LOGICAL_OR NOT_EQUAL SELECT_V2",
    "control": "ASSIGN_VARIABLE CALL_ONCE IF READ_VARIABLE VAR_HANDLE WHILE",
    "convolution": "CONV_2D CONV_3D CONV_3D_TRANSPOSE",
    "dense": "BATCH_MATMUL FULLY_CONNECTED",
    "depthwise": "DEPTHWISE_CONV_2D",
    "elementwise": "ABS CAST CEIL COS DEQUANTIZE EXP FLOOR LOG NEG QUANTIZE ROUND RSQRT SIN SQRT SQUARE ZEROS_LIKE",
    "movement": """
        BATCH_TO_SPACE_ND CONCATENATION DEPTH_TO_SPACE PACK RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR REVERSE_V2
        SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPLIT SPLIT_V TRANSPOSE UNPACK
    """,
    "normalization": "L2_NORMALIZATION LOG_SOFTMAX SOFTMAX",
    "padding": "BROADCAST_TO FILL MIRROR_PAD PAD PADV2",
    "pooling": "AVERAGE_POOL_2D L2_POOL_2D MAX_POOL_2D",
    "recurrent": """
        BIDIRECTIONAL_SEQUENCE_LSTM BIDIRECTIONAL_SEQUENCE_RNN LSTM RNN SVDF UNIDIRECTIONAL_SEQUENCE_LSTM
        UNIDIRECTIONAL_SEQUENCE_RNN
    """,
    "reduction": "ARG_MAX ARG_MIN CUMSUM MEAN REDUCE_ALL REDUCE_MAX REDUCE_MIN SUM",
    "selection": "DYNAMIC_UPDATE_SLICE EMBEDDING_LOOKUP GATHER GATHER_ND SLICE STRIDED_SLICE",
    "shape": "BROADCAST_ARGS EXPAND_DIMS RESHAPE SHAPE SQUEEZE",
    "transpose_conv": "TRANSPOSE_CONV",
}
# The custom operators that TFLM includes, by custom code.
CUSTOM_FAMILIES: dict[str, str] = {
    "custom": "BasicClassifier CIRCULAR_BUFFER TFLM_DECODE TFLite_Detection_PostProcess",
    "signal": """
        SignalDelay SignalEnergy SignalFftAutoScale SignalFilterBank SignalFilterBankLog
        SignalFilterBankSpectralSubtraction SignalFilterBankSquareRoot SignalFramer SignalIrfft SignalOverlapAdd
        SignalPCAN SignalRfft SignalStacker SignalWindow
    """,
}
# The other operators of the schema: TFLM does not support them, or their kernels are not described. They have no MACs.
OTHERS = """
ATAN2 BITCAST BITWISE_XOR DELEGATE DENSIFY DILATE FAKE_QUANT GELU LOCAL_RESPONSE_NORMALIZATION MATRIX_DIAG
MATRIX_SET_DIAG NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 ONE_HOT POW RANGE RANK REDUCE_ANY REDUCE_PROD
RELU_0_TO_1 RELU_N1_TO_1 REVERSE_SEQUENCE RIGHT_SHIFT SCATTER_ND SEGMENT_SUM SELECT SIGN SPARSE_TO_DENSE TILE TOPK_V2
UNIQUE UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM WHERE
""".split()


class _Entries(Mapping[str, OperatorEntry]):
    """A mapping from operator to entry that imports a family on the first lookup: most models use few families."""

    def __init__(self, families: Mapping[str, str], others: Sequence[str] = ()) -> None:
        family_of = {code: family for family, codes in families.items() for code in codes.split()}
        self._family_of = dict(sorted({**dict.fromkeys(others), **family_of}.items()))

    def __getitem__(self, code: str) -> OperatorEntry:
        family = self._family_of[code]
        return OperatorEntry(code) if family is None else _entries(family)[code]

    def __contains__(self, code: object) -> bool:
        return code in self._family_of

    def __iter__(self) -> Iterator[str]:
        return iter(self._family_of)

    def __len__(self) -> int:
        return len(self._family_of)


@cache
def _entries(family: str) -> dict[str, OperatorEntry]:
    module = import_module(f"edgetool.operators.{family}")
    return {entry.code: entry for entry in module.OPERATORS}


OPERATORS = _Entries(FAMILIES, OTHERS)
CUSTOM_OPERATORS = _Entries(CUSTOM_FAMILIES)
# Loop rules iterate along the sides of images; no supported device has memory for a longer side.
MAX_SIDE = 2**17


def entry_of(operator: Operator, custom: Mapping[str, OperatorEntry] | None = None) -> OperatorEntry | None:
    """Return the operator's entry or None; entries of `custom` (by custom code) take precedence over TFLM's."""
    if operator.code != "CUSTOM":
        return OPERATORS.get(operator.code)
    name = operator.custom_code or ""
    return (custom or {}).get(name) or CUSTOM_OPERATORS.get(name)


def loop_counts_of(call: Call) -> LoopCounts | None:
    """Return the loop counts of one run of the operator's kernel on this build.

    Return None if there is no rule for the operator, or if a side of a tensor is longer than MAX_SIDE.

    Raises KernelRefusal if the tensors' shapes do not match each other: a kernel that accepts them reads beyond their
    ends, and its loop counts cannot be derived from their shapes.
    """
    operator = call.operator
    entry = entry_of(operator)
    indices = {index for index in (*operator.inputs, *operator.outputs) if index >= 0}
    longest_side = max((side for index in indices for side in call.graph.tensors[index].shape), default=0)
    if entry is None or entry.loops is None or longest_side > MAX_SIDE:
        return None
    try:
        counts = entry.loops(call)
    except TooLongError:
        return None
    except (ArithmeticError, LookupError, ValueError) as error:
        raise KernelRefusal(f"{operator.label} does not support tensors of these shapes and types") from error
    if min(counts.loops.values(), default=0) < 0:
        raise KernelRefusal(f"{operator.label} cannot produce a result of this shape")
    return counts


def check_bounds(call: Call) -> None:
    """Raise KernelRefusal if Eval would access memory outside its tensors although Prepare accepts the operator."""
    entry = entry_of(call.operator)
    if entry is not None and entry.bounds is not None:
        entry.bounds(call)


def faults_of(call: Call) -> tuple[KernelFault, ...]:
    """Return the faults of the operator's kernel in this build that apply to an operator that the kernel accepts."""
    entry, platform = entry_of(call.operator), call.platform
    if entry is None:
        return ()
    kernels = platform.kernels
    if platform.esp_nn is not None:
        from edgetool.operators.esp_nn import build_of  # few builds need it

        kernels = "reference" if build_of(call) is None else kernels
    faults = [fault for fault in entry.faults if fault.name in platform.faults and kernels in fault.kernels]
    try:
        return tuple(fault for fault in faults if fault.applies(call))
    except (ArithmeticError, LookupError, ValueError, KernelRefusal, TooLongError):
        return ()  # shapes that the kernel rejects


def constant_reads(call: Call) -> int:
    """Return how many times one run of the operator reads all its constants, assuming TFLM's own kernels."""
    entry = entry_of(call.operator)
    return 1 if entry is None or entry.constant_reads is None else max(1, entry.constant_reads(call))


def input_reads(call: Call) -> int:
    """Return how many times one run of the operator reads all its inputs that are not constant."""
    entry = entry_of(call.operator)
    return 1 if entry is None or entry.input_reads is None else max(1, entry.input_reads(call))


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
    an operator without an entry, whose byte counts are correct but whose macs is 0. output_bytes: the part of
    activation_bytes that it writes.
    """

    subgraph: int
    index: int
    operator: str
    macs: int
    parameter_bytes: int
    activation_bytes: int
    precision: Precision
    known: bool
    output_bytes: int = 0

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
            parameter_bytes = activation_bytes = output_bytes = 0
            for index in dict.fromkeys(i for i in (*operator.inputs, *operator.outputs) if i >= 0):
                tensor = graph.tensors[index]
                if tensor.data is not None:
                    parameter_bytes += len(tensor.data)
                else:
                    activation_bytes += tensor.size_bytes
                    output_bytes += tensor.size_bytes if index in operator.outputs else 0
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
                    output_bytes=output_bytes,
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
