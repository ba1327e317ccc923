"""Tables of a run: the profile of its operators, their totals, the achieved performance, and the memory of a batch.

A batch is several samples that a model processes at once, or plain data. The batched model has the batch size as the
first dimension of every tensor that depends on an input. It computes the same function only if each operator treats
samples independently; a model is rejected if this cannot be established for one of its operators.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace

from edgetool.errors import UnsupportedModelError, UsageError
from edgetool.estimate.memory_speed import bandwidth_of, estimated_bandwidth
from edgetool.estimate.types import Estimate, integer, not_negative, positive
from edgetool.memory.planner import PlanRequest, plan_memory
from edgetool.memory.problem import Effort
from edgetool.model.types import Graph, Model, Operator, Tensor
from edgetool.operators.call import integers
from edgetool.operators.entry import OperatorEntry
from edgetool.target.platform import Platform

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\n")
BYTES_PER_KB = 1000  # kB is a power of ten, as wherever sizes are read
COUNTS = ("macs", "parameter_bytes", "activation_bytes")  # the figures that every operator must have


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One operator of a profile; field names are the columns of operator_profile.csv.

    memory_kb is the memory needed at once (constants, inputs and outputs), in 1000 bytes; the byte counts are what it
    moves in all its runs.
    """

    operator: str
    latency_ms: float
    memory_kb: float
    macs: int
    parameter_bytes: int
    activation_bytes: int


@dataclass(frozen=True, slots=True)
class HardwareTotals:
    """Sums over operators, except for memory_kb, which is their maximum; field names are the columns of
    hardware_totals.csv.

    latency_ms is the sum of the operators' times, not a measurement.
    """

    operators: int
    latency_ms: float
    memory_kb: float
    parameter_bytes: int
    activation_bytes: int
    estimated_total_bytes: int
    estimated_total_macs: int


@dataclass(frozen=True, slots=True)
class HardwareSummary:
    """The performance of a run; field names are the columns of hardware_summary.csv. None if no time is known.

    bandwidth_utilization is not clamped.
    """

    estimated_total_bytes: int
    estimated_total_macs: int
    achieved_bandwidth_gbps: float | None
    configured_memory_bandwidth_gbps: float
    bandwidth_utilization: float | None
    achieved_gmacs: float | None


# The figures of an operator: a row of a profile, or a mapping with the same keys (macs and the bytes are required).
OperatorFigures = OperatorRow | Mapping[str, object]


def operator_profile(estimate: Estimate) -> tuple[OperatorRow, ...]:
    """Return one row per operator, in the order of the model."""
    return tuple(
        OperatorRow(
            operator=item.operator,
            latency_ms=item.ms.value,
            memory_kb=item.footprint_bytes / BYTES_PER_KB,
            macs=item.macs,
            parameter_bytes=item.parameter_bytes,
            activation_bytes=item.activation_bytes,
        )
        for item in estimate.operators
    )


def hardware_totals(operators: Estimate | Iterable[OperatorFigures]) -> HardwareTotals:
    """Return the totals of an estimate, or of any operators' figures.

    Raises UsageError naming the operator and the figure that is missing or not a number of 0 or more.
    """
    rows = operator_profile(operators) if isinstance(operators, Estimate) else tuple(_rows(operators))
    parameter_bytes = sum(row.parameter_bytes for row in rows)
    activation_bytes = sum(row.activation_bytes for row in rows)
    return HardwareTotals(
        operators=len(rows),
        latency_ms=sum(row.latency_ms for row in rows),
        memory_kb=max((row.memory_kb for row in rows), default=0.0),
        parameter_bytes=parameter_bytes,
        activation_bytes=activation_bytes,
        estimated_total_bytes=parameter_bytes + activation_bytes,
        estimated_total_macs=sum(row.macs for row in rows),
    )


def hardware_summary(
    operators: Estimate | Iterable[OperatorFigures], measured_latency_ms: float, configured_bandwidth_gbps: float
) -> HardwareSummary:
    """Return the performance of a run of measured_latency_ms, from the figures of its operators.

    configured_bandwidth_gbps is the bandwidth of the device's memory, in 10^9 bytes per second. Raises UsageError
    naming the argument: both are numbers above 0.
    """
    latency_ms = positive(measured_latency_ms, "measured_latency_ms")
    configured_gbps = positive(configured_bandwidth_gbps, "configured_bandwidth_gbps")
    totals = hardware_totals(operators)
    run = bandwidth_of(totals.estimated_total_bytes, totals.estimated_total_macs, latency_ms, configured_gbps)
    return HardwareSummary(
        run.bytes_moved, run.macs, run.achieved_gbps, run.configured_gbps, run.utilization, run.gmacs_per_s
    )


def estimated_summary(estimate: Estimate, measured_ms: float | None = None) -> HardwareSummary:
    """Return the performance of the estimated inference, or of a measured one. Raises UsageError for a time not above
    0.
    """
    run = estimated_bandwidth(estimate, measured_ms)
    return HardwareSummary(
        estimate.bytes_moved,
        estimate.macs,
        None if run is None else run.achieved_gbps,
        estimate.configured_bandwidth_gbps,
        None if run is None else run.utilization,
        None if run is None else run.gmacs_per_s,
    )


def operator_profile_csv(rows: Sequence[OperatorRow]) -> str:
    """Return the text of operator_profile.csv. A name that looks like a formula begins with an apostrophe."""
    return _csv(OperatorRow, [replace(row, operator=_as_text(row.operator)) for row in rows])


def hardware_totals_csv(totals: HardwareTotals) -> str:
    """Return the text of hardware_totals.csv."""
    return _csv(HardwareTotals, [totals])


def hardware_summary_csv(summary: HardwareSummary) -> str:
    """Return the text of hardware_summary.csv; a cell is empty if no time is known."""
    return _csv(HardwareSummary, [summary])


def _as_text(name: str) -> str:
    """Return a name, which the model's author chooses freely, as a cell that a spreadsheet neither evaluates nor
    splits.
    """
    name = name.replace("\r", "\\r")  # the writer leaves it without quotes, and readers end the row there
    return f"'{name}" if name.startswith(FORMULA_STARTS) else name


def _rows(operators: Iterable[OperatorFigures]) -> Iterator[OperatorRow]:
    for number, figures in enumerate(operators):
        given = asdict(figures) if isinstance(figures, OperatorRow) else figures
        where = f"operators[{number}]"
        if not isinstance(given, Mapping):
            raise UsageError(f"must be a row of values, not {type(given).__name__}", where=where)
        missing = [name for name in COUNTS if name not in given]
        if missing:
            raise UsageError(f"is missing {' and '.join(missing)}", where=where)
        macs, parameter_bytes, activation_bytes = (integer(given[name], f"{where}.{name}") for name in COUNTS)
        yield OperatorRow(
            operator=str(given.get("operator", "")),
            latency_ms=not_negative(given.get("latency_ms", 0.0), f"{where}.latency_ms"),
            memory_kb=not_negative(
                given.get("memory_kb", (parameter_bytes + activation_bytes) / BYTES_PER_KB), f"{where}.memory_kb"
            ),
            macs=macs,
            parameter_bytes=parameter_bytes,
            activation_bytes=activation_bytes,
        )


class _LineBuffer:
    """The file object that the csv writer writes to."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, text: str) -> None:
        """Store the text."""
        self.written.append(text)


def _csv(
    columns: type[OperatorRow | HardwareTotals | HardwareSummary],
    rows: Sequence[OperatorRow | HardwareTotals | HardwareSummary],
) -> str:
    lines = _LineBuffer()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(field.name for field in fields(columns))
    writer.writerows(astuple(row) for row in rows)
    return "".join(lines.written)


BYTES_PER_FEATURE = 8  # a double, as numpy and pandas hold plain data


def batch_memory_bytes(batch_size: int, features: int, bytes_per_feature: int = BYTES_PER_FEATURE) -> int:
    """Return the bytes of batch_size rows with this number of features.

    Raises UsageError naming the argument that is not an integer of 1 or more.
    """
    return integer(batch_size, "batch_size", 1) * _row_bytes(features, bytes_per_feature)


def largest_batch(limit_bytes: int, features: int, bytes_per_feature: int = BYTES_PER_FEATURE) -> int:
    """Return the maximum number of rows that fit in limit_bytes; 0 if not even one fits.

    Raises UsageError naming the argument that is not an integer of 1 or more.
    """
    return integer(limit_bytes, "limit_bytes", 1) // _row_bytes(features, bytes_per_feature)


def _row_bytes(features: int, bytes_per_feature: int) -> int:
    return integer(features, "features", 1) * integer(bytes_per_feature, "bytes_per_feature", 1)


MAX_BATCH = 2**20


@dataclass(frozen=True, slots=True)
class BatchMemory:
    """The memory of a batch of a model. arena_bytes is the exact arena, None if an operator is not accounted for.

    live_bytes are the tensors and scratch buffers that are live at once; constants do not grow with the batch.
    """

    batch_size: int
    arena_bytes: int | None
    live_bytes: int
    model_bytes: int

    @property
    def total_bytes(self) -> int | None:
        """Arena and model."""
        return None if self.arena_bytes is None else self.arena_bytes + self.model_bytes


def batched_model(model: Model, batch_size: int) -> Model:
    """Return the model for this number of samples at once.

    Raises UsageError for an impossible batch_size, UnsupportedModelError naming the input or operator for which the
    first dimension is not a batch of 1.
    """
    size = integer(batch_size, "batch_size", 1)
    if size > MAX_BATCH:
        raise UsageError(f"must be at most {MAX_BATCH:,}, not {size:,}", where="batch_size")
    if len(model.subgraphs) > 1:
        raise _unsupported("the model has several subgraphs", None)
    graph = model.main
    for index in graph.inputs:
        shape = graph.tensors[index].shape
        if shape[:1] != (1,) or len(shape) == 1:
            raise _unsupported(
                f"the first dimension of its shape {shape} is not 1", f"input {graph.tensors[index].name!r}"
            )
    if graph.inputs == () or any(tensor.is_variable for tensor in graph.tensors):
        raise _unsupported("it has no inputs" if not graph.inputs else "it keeps state between inferences", None)
    depends = set(graph.inputs)
    for operator in graph.operators:
        operation = _BatchOperator(graph, operator, depends)
        if not operation.inputs:
            continue
        rule = BATCH_RULES.get(operator.code)
        if rule is None or not operation.keeps_batch or not rule(operation):
            raise _unsupported("it may mix the samples of a batch", f"{operator.label} {operator.index}")
        depends.update(operator.outputs)
    tensors = tuple(
        replace(tensor, shape=(size, *tensor.shape[1:]), shape_signature=()) if tensor.index in depends else tensor
        for tensor in graph.tensors
    )
    return replace(model, subgraphs=(replace(graph, tensors=tensors),))


def model_batch_memory(
    model: Model,
    batch_size: int,
    platform: Platform,
    *,
    model_bytes: int,
    custom: Mapping[str, OperatorEntry] | None = None,
    effort: Effort | None = None,
) -> BatchMemory:
    """Return the memory of this number of samples at once, with a new plan for them.

    model_bytes is the size of the file, which does not change. Raises UsageError and UnsupportedModelError like
    batched_model.
    """
    integer(model_bytes, "model_bytes")
    batched = batched_model(model, batch_size)
    plan = plan_memory(batched, platform, PlanRequest(file_plan="replace"), effort, custom=custom)
    known = plan.account is not None and not plan.account.is_lower_bound
    arena = plan.account.bytes if plan.account is not None and known else None
    return BatchMemory(int(batch_size), arena, plan.live_bytes, model_bytes)


def largest_model_batch(
    model: Model,
    limit_bytes: int,
    platform: Platform,
    *,
    custom: Mapping[str, OperatorEntry] | None = None,
    effort: Effort | None = None,
) -> int:
    """Return the maximum number of samples at once whose arena fits limit_bytes; 0 if not even one fits.

    The arena of the result was planned and fits, that of one sample more does not. Raises UsageError for an impossible
    limit, UnsupportedModelError like batched_model, and for an arena for which only a lower bound is known.
    """
    limit = integer(limit_bytes, "limit_bytes", 1)

    def fits(batch_size: int) -> bool:
        memory = model_batch_memory(model, batch_size, platform, model_bytes=0, custom=custom, effort=effort)
        if memory.arena_bytes is None:
            raise _unsupported("the arena of at least one operator is unknown", None)
        return memory.arena_bytes <= limit

    if not fits(1):
        return 0
    fit, too_large = 1, 2
    while too_large <= MAX_BATCH and fits(too_large):
        fit, too_large = too_large, 2 * too_large
    while too_large - fit > 1 and fit < MAX_BATCH:
        middle = (fit + too_large) // 2
        fit, too_large = (middle, too_large) if fits(middle) else (fit, middle)
    return fit


def _unsupported(why: str, where: str | None) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"cannot process several samples at once: {why}",
        where=where,
        fix="convert the model with the required batch size, and plan that file",
    )


@dataclass(frozen=True, slots=True)
class _BatchOperator:
    """An operator, and the tensors that depend on the batch so far."""

    graph: Graph
    operator: Operator
    depends: set[int]

    @property
    def inputs(self) -> list[Tensor]:
        """The inputs that depend on the batch."""
        return [self.graph.tensors[index] for index in self.operator.inputs if index in self.depends]

    @property
    def outputs(self) -> list[Tensor]:
        return [self.graph.tensors[index] for index in self.operator.outputs]

    @property
    def keeps_batch(self) -> bool:
        """Whether inputs and outputs all begin with one sample."""
        return all(tensor.shape[:1] == (1,) for tensor in (*self.inputs, *self.outputs))

    def constant(self, position: int) -> tuple[int, ...] | None:
        """Return the contents of a constant input; None if it is not constant."""
        inputs = self.operator.inputs
        tensor = self.graph.tensors[inputs[position]] if position < len(inputs) and inputs[position] >= 0 else None
        return None if tensor is None or tensor.data is None else integers(tensor)

    def option(self, name: str) -> int | None:
        """Return an option that is an integer; None if it is missing."""
        fields = {} if self.operator.options is None else dict(self.operator.options.fields)
        value = fields.get(name)
        return value if isinstance(value, int) else None


BatchRule = Callable[[_BatchOperator], bool]


def _has_sample_dimensions(operation: _BatchOperator) -> bool:
    """Return whether there are dimensions besides the batch."""
    return all(len(tensor.shape) > 1 for tensor in operation.inputs)


def _by_element(operation: _BatchOperator) -> bool:
    """Return whether all ranks are equal: only then does broadcasting keep the first dimension as the batch."""
    ranks = {len(tensor.shape) for tensor in (*operation.inputs, *operation.outputs)}
    return len(ranks) == 1


def _matrices(operation: _BatchOperator) -> bool:
    return _by_element(operation) and len(operation.inputs[0].shape) > 2


def _excludes_first_axis(axes: tuple[int, ...] | None, rank: int) -> bool:
    """Return whether the axes are known and none of them is the first."""
    return axes is not None and all(axis % rank != 0 for axis in axes)


def _axes_input(position: int) -> BatchRule:
    return lambda operation: _excludes_first_axis(operation.constant(position), len(operation.inputs[0].shape))


def _axis_option(operation: _BatchOperator) -> bool:
    """Return whether tensors are joined or split along another axis; if one input is a batch, all must be."""
    axis = operation.option("axis")
    rank = max(len(tensor.shape) for tensor in (*operation.inputs, *operation.outputs))
    given = sum(index >= 0 for index in operation.operator.inputs)
    return axis is not None and _excludes_first_axis((axis,), rank) and len(operation.inputs) == given


def _begins_with(position: int, *values: int) -> BatchRule:
    """Return a rule that the constant begins with these values: a permutation or padding that keeps the first
    dimension.
    """
    return lambda operation: (operation.constant(position) or ())[: len(values)] == values


def _expand_dims(operation: _BatchOperator) -> bool:
    return _excludes_first_axis(operation.constant(1), len(operation.outputs[0].shape))


def _squeeze(operation: _BatchOperator) -> bool:
    options = operation.operator.options
    option = None if options is None else options["squeeze_dims"]
    axes = tuple(axis for axis in option if isinstance(axis, int)) if isinstance(option, tuple) else ()
    return bool(axes) and _excludes_first_axis(axes, len(operation.inputs[0].shape))


BY_SHAPE = """
AVERAGE_POOL_2D CONV_2D CONV_3D DEPTHWISE_CONV_2D DEPTH_TO_SPACE FULLY_CONNECTED L2_NORMALIZATION L2_POOL_2D LOG_SOFTMAX
MAX_POOL_2D RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR SOFTMAX SPACE_TO_DEPTH
""".split()
BY_ELEMENT = """
ABS ADD ADD_N CAST CEIL COS DEQUANTIZE DIV ELU EQUAL EXP FLOOR FLOOR_DIV FLOOR_MOD GELU GREATER
GREATER_EQUAL HARD_SWISH LEAKY_RELU LESS LESS_EQUAL LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC MAXIMUM MINIMUM MUL
NEG NOT_EQUAL POW PRELU QUANTIZE RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SELECT_V2 SIGN SIN SQRT SQUARE
SQUARED_DIFFERENCE SUB TANH
""".split()
REDUCTIONS = "ARG_MAX ARG_MIN CUMSUM MEAN REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD SUM".split()

# Operators that treat samples independently, and the condition for it, besides that inputs and outputs begin with one
# sample.
BATCH_RULES: dict[str, BatchRule] = {
    **dict.fromkeys(BY_SHAPE, _has_sample_dimensions),
    **dict.fromkeys(BY_ELEMENT, _by_element),
    **dict.fromkeys(REDUCTIONS, _axes_input(1)),
    **dict.fromkeys(["CONCATENATION", "PACK", "UNPACK"], _axis_option),
    **dict.fromkeys(["PAD", "PADV2", "MIRROR_PAD"], _begins_with(1, 0, 0)),
    "BATCH_MATMUL": _matrices,
    "EXPAND_DIMS": _expand_dims,
    "SPLIT": _axes_input(0),
    "SPLIT_V": _axes_input(2),
    "SQUEEZE": _squeeze,
    "TRANSPOSE": _begins_with(1, 0),
}
