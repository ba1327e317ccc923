"""What a model would need in other number formats: parameters, memory and traffic.

Only the types of tensors change: shapes, lifetimes, index and shape constants, and what is kept in another type on
purpose (a float input before its QUANTIZE) stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from edgetool.estimate.types import Estimate
from edgetool.memory.bound import lower_bound
from edgetool.memory.planner import MemoryPlan
from edgetool.memory.types import Buffer, LayoutProblem, aligned
from edgetool.model.types import DType, Model, Operator, Tensor
from edgetool.operators.registry import MAC_RULES
from edgetool.target.types import Target

PrecisionName = Literal["float32", "float16", "int16x8", "int8"]
Role = Literal["weight", "bias", "activation"]

# From the highest to the lowest.
TYPES: dict[PrecisionName, dict[Role, DType]] = {
    "float32": {"weight": DType.FLOAT32, "bias": DType.FLOAT32, "activation": DType.FLOAT32},
    "float16": {"weight": DType.FLOAT16, "bias": DType.FLOAT16, "activation": DType.FLOAT16},
    "int16x8": {"weight": DType.INT8, "bias": DType.INT64, "activation": DType.INT16},
    "int8": {"weight": DType.INT8, "bias": DType.INT32, "activation": DType.INT8},
}
STOCK_TFLM: frozenset[PrecisionName] = frozenset(["float32", "int16x8", "int8"])  # its kernels compute in no other
FLOATS = frozenset([DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64])
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

NOTE = (
    "Bytes follow from the types. What a precision does to latency depends on the deployment: on the kernels, the "
    "core's SIMD and floating-point units, and the memory that holds the weights."
)


@dataclass(frozen=True, slots=True)
class PrecisionRow:
    """The model in one precision.

    parameter_bytes: constants, each payload once. activation_bytes: all other tensors. live_bytes: the most that is
    alive at once in the plan's order. arena_bytes and model_bytes are the plan's and the file's own where `exact`, and
    otherwise scaled: what lies beside tensors and constants is taken as it is. bytes_moved: traffic of an inference.
    The relative_ figures are by the model as it is. fits is None where a limit or the arena is not known.
    """

    precision: str
    parameter_bytes: int
    activation_bytes: int
    live_bytes: int
    arena_bytes: int | None
    model_bytes: int
    bytes_moved: int
    relative_memory: float
    relative_traffic: float
    exact: bool
    stock_tflm: bool
    fits: bool | None


@dataclass(frozen=True, slots=True)
class PrecisionTradeoffs:
    """The rows from the highest precision to the lowest, the model as it is, and the highest that fits.

    own: the precision that the model has; None for a mixture. recommended is None where none fits or that is not
    known; reason says why it is what it is.
    """

    own: PrecisionName | None
    as_is: PrecisionRow
    rows: tuple[PrecisionRow, ...]
    recommended: PrecisionName | None
    reason: str
    note: str = NOTE


def precision_tradeoffs(
    model: Model, plan: MemoryPlan, estimate: Estimate, target: Target, *, model_bytes: int
) -> PrecisionTradeoffs:
    """The model in each precision on the target. model_bytes is the size of its file."""
    known = plan.account is not None and not plan.account.is_lower_bound
    measure = _Measure(
        model=model,
        plan=plan,
        roles=_roles(model),
        own=own_precision(model),
        runs={(item.subgraph, item.index): item.runs for item in estimate.operators},
        target=target,
        model_bytes=model_bytes,
        arena_bytes=plan.account.bytes if plan.account is not None and known else None,
    )
    as_is = measure.as_is()
    rows = tuple(measure.row(name, as_is) for name in TYPES)
    recommended, reason = _recommended(rows, target)
    return PrecisionTradeoffs(measure.own, as_is, rows, recommended, reason)


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


def _roles(model: Model) -> dict[tuple[int, int], Role]:
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


@dataclass(frozen=True, slots=True)
class _Measure:
    """All that the rows have in common."""

    model: Model
    plan: MemoryPlan
    roles: Mapping[tuple[int, int], Role]
    own: PrecisionName | None
    runs: Mapping[tuple[int, int], int]
    target: Target
    model_bytes: int
    arena_bytes: int | None

    def row(self, name: PrecisionName, as_is: PrecisionRow) -> PrecisionRow:
        """The model with the types of that precision: the model as it is where that is its own."""
        if name == self.own:
            return as_is
        sizes = self.sizes(name)
        parameter_bytes, live_bytes = self.parameter_bytes(sizes), self.live_bytes(name)
        model_bytes = self.model_bytes + parameter_bytes - as_is.parameter_bytes
        arena_bytes = None if self.arena_bytes is None else aligned(self.arena_bytes + live_bytes - as_is.live_bytes)
        bytes_moved = self.bytes_moved(sizes)
        return PrecisionRow(
            precision=name,
            parameter_bytes=parameter_bytes,
            activation_bytes=self.activation_bytes(sizes),
            live_bytes=live_bytes,
            arena_bytes=arena_bytes,
            model_bytes=model_bytes,
            bytes_moved=bytes_moved,
            relative_memory=_ratio(parameter_bytes + live_bytes, as_is.parameter_bytes + as_is.live_bytes),
            relative_traffic=_ratio(bytes_moved, as_is.bytes_moved),
            exact=False,
            stock_tflm=name in STOCK_TFLM,
            fits=self.fits(arena_bytes, live_bytes, model_bytes),
        )

    def as_is(self) -> PrecisionRow:
        """The model as it is."""
        sizes = self.sizes(None)
        live_bytes = self.live_bytes(None)
        return PrecisionRow(
            precision=self.own or "mixed",
            parameter_bytes=self.parameter_bytes(sizes),
            activation_bytes=self.activation_bytes(sizes),
            live_bytes=live_bytes,
            arena_bytes=self.arena_bytes,
            model_bytes=self.model_bytes,
            bytes_moved=self.bytes_moved(sizes),
            relative_memory=1.0,
            relative_traffic=1.0,
            exact=True,
            stock_tflm=self.own in STOCK_TFLM,
            fits=self.fits(self.arena_bytes, live_bytes, self.model_bytes),
        )

    def sizes(self, name: PrecisionName | None) -> dict[tuple[int, int], int]:
        """The bytes of every tensor; as the file has them where no precision is given."""
        return {
            (graph.index, tensor.index): _bytes(tensor, self.changed(graph.index, tensor, name))
            for graph in self.model.subgraphs
            for tensor in graph.tensors
        }

    def changed(self, subgraph: int, tensor: Tensor, name: PrecisionName | None) -> DType | None:
        """The tensor's type in that precision; None where it stays."""
        role = self.roles.get((subgraph, tensor.index))
        if name is None or role is None or (self.own is not None and tensor.dtype != TYPES[self.own][role]):
            return None
        return TYPES[name][role]

    def parameter_bytes(self, sizes: Mapping[tuple[int, int], int]) -> int:
        """Constants, each payload once."""
        payloads: dict[int, int] = {}
        for graph in self.model.subgraphs:
            for tensor in graph.tensors:
                if tensor.is_constant:
                    size = sizes[graph.index, tensor.index]
                    payloads[tensor.buffer] = max(payloads.get(tensor.buffer, 0), size)
        return sum(payloads.values())

    def activation_bytes(self, sizes: Mapping[tuple[int, int], int]) -> int:
        """All tensors that are no constants."""
        return sum(
            sizes[graph.index, tensor.index]
            for graph in self.model.subgraphs
            for tensor in graph.tensors
            if not tensor.is_constant
        )

    def live_bytes(self, name: PrecisionName | None) -> int:
        """The most that is alive at once; scratch stays as it is."""
        buffers = tuple(
            replace(buffer, size_bytes=self.buffer_bytes(buffer, name), pinned=None)
            for buffer in self.plan.problem.buffers
        )
        return lower_bound(LayoutProblem(buffers))

    def buffer_bytes(self, buffer: Buffer, name: PrecisionName | None) -> int:
        """The bytes of a buffer in that precision."""
        if buffer.tensor < 0:
            return buffer.size_bytes
        tensor = self.model.subgraphs[buffer.subgraph].tensors[buffer.tensor]
        dtype = self.changed(buffer.subgraph, tensor, name)
        return buffer.size_bytes if dtype is None else _bytes(tensor, dtype)

    def bytes_moved(self, sizes: Mapping[tuple[int, int], int]) -> int:
        """The tensors that operators touch, each once in each run."""
        return sum(
            self.runs.get((graph.index, operator.index), 1)
            * sum(sizes[graph.index, i] for i in dict.fromkeys((*operator.inputs, *operator.outputs)) if i >= 0)
            for graph in self.model.subgraphs
            for operator in graph.operators
        )

    def fits(self, arena_bytes: int | None, live_bytes: int, model_bytes: int) -> bool | None:
        """Whether arena and model fit their regions; None where that is not known of both."""
        sram, flash = self.target.sram_bytes, self.target.flash_bytes
        if (sram is not None and max(arena_bytes or 0, live_bytes) > sram) or (
            flash is not None and model_bytes > flash
        ):
            return False
        return None if sram is None or flash is None or arena_bytes is None else True


def _bytes(tensor: Tensor, dtype: DType | None) -> int:
    """The bytes of the tensor in that type; of a constant, as many as it has now, in proportion."""
    if tensor.data is not None:
        size = len(tensor.data)
        return size if dtype is None else -(-size * dtype.bits // tensor.dtype.bits)
    return tensor.size_bytes if dtype is None else (tensor.element_count * dtype.bits + 7) // 8


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _recommended(rows: tuple[PrecisionRow, ...], target: Target) -> tuple[PrecisionName | None, str]:
    """The highest precision that fits and that stock TFLM computes in, and why."""
    runnable = [(name, row) for name, row in zip(TYPES, rows, strict=True) if row.stock_tflm]
    for name, row in runnable:
        if row.fits:
            how = "as planned" if row.exact else "by its scaled arena: convert and plan it to be sure"
            return name, f"the highest precision that stock TFLM computes in and that fits {target.name}, {how}"
    if all(row.fits is False for _, row in runnable):
        return None, f"none fits {target.name}: the model needs fewer channels, a smaller input or other memory"
    missing = [
        what
        for what, unknown in (
            ("the arena's memory", target.sram_bytes is None),
            ("the flash", target.flash_bytes is None),
            ("the arena", all(row.arena_bytes is None for row in rows)),
        )
        if unknown
    ]
    return None, f"not known: the size of {' and of '.join(missing)} is missing"
