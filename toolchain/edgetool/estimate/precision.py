"""The parameters, memory and traffic of a model in other number formats.

Only the types of tensors change. Shapes, lifetimes, index and shape constants remain, and so do tensors that have
another type on purpose (a float input before its QUANTIZE). The kernels' persistent buffers and the quantization tables
in the file follow the types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from edgetool.estimate.retyped import (
    FLOATS,
    TYPES,
    KernelNeeds,
    OperatorGroup,
    PrecisionName,
    Role,
    channel_axes,
    group_operators,
    kernel_needs,
    model_precision,
    retyped,
    scales_of,
    table_bytes,
    tensor_roles,
)
from edgetool.estimate.types import Estimate
from edgetool.memory.bound import lower_bound
from edgetool.memory.overlaps import operator_overlaps, permissions, permitted
from edgetool.memory.planner import Plan
from edgetool.memory.problem import Buffer, LayoutProblem, aligned
from edgetool.model.types import DType, Model, Tensor
from edgetool.target.platform import Platform, platform_of
from edgetool.target.types import Target

STOCK_TFLM: frozenset[PrecisionName] = frozenset(["float32", "int16x8", "int8"])  # its kernels compute in no other
# Some kernels do not support int16; these operators become unnecessary if the types on both sides are the same.
AT_INTERFACE = frozenset(["QUANTIZE", "DEQUANTIZE"])
# The maximum errors of a row's arena and file, as observed on real models of the same network in two precisions.
ARENA_ERROR, MODEL_ERROR = 0.05, 0.10
NOTE = (
    "The sizes follow from the data types. How a precision affects latency depends on the deployment: the kernels, the "
    "core's SIMD and floating-point units, and the memory that holds the weights."
)


@dataclass(frozen=True, slots=True)
class PrecisionRow:
    """The model in one precision.

    parameter_bytes: constants, each payload once. activation_bytes: all other tensors. live_bytes: the maximum live at
    once in the plan's order. arena_bytes and model_bytes are those of the plan and the file if `exact`, and otherwise
    estimated within ARENA_ERROR and MODEL_ERROR. bytes_moved: traffic of an inference. The relative_ figures are
    relative to the model as it is. stock_tflm: TFLM's kernels support the types. fits is None if a limit or the arena
    is not known, or if size and limit differ by less than these errors, unless a limit is exceeded anyway.
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
    """The rows from the highest precision to the lowest, the model as it is, and the highest precision that fits.

    own: the precision of the model; None for a mixture. recommended is the highest precision that fits, None if
    none fits or that is not known, with the reason. advised is the precision to use if its accuracy suffices, None if
    it does not fit, with advice as the explanation.
    """

    own: PrecisionName | None
    as_is: PrecisionRow
    rows: tuple[PrecisionRow, ...]
    recommended: PrecisionName | None
    reason: str
    advised: PrecisionName | None = None
    advice: str = ""
    note: str = NOTE


def precision_tradeoffs(
    model: Model, plan: Plan, estimate: Estimate, target: Target, *, model_bytes: int
) -> PrecisionTradeoffs:
    """Return the model in each precision on the target. model_bytes is the size of its file."""
    is_exact = plan.account is not None and not plan.account.is_lower_bound
    platform, groups = platform_of(target), group_operators(model)
    measure = _PrecisionModel(
        model=model,
        plan=plan,
        roles=tensor_roles(model),
        axes=channel_axes(model),
        current=model_precision(model),
        runs={(item.subgraph, item.index): item.runs for item in estimate.operators},
        target=target,
        platform=platform,
        model_bytes=model_bytes,
        groups=groups,
        needs=kernel_needs(model, groups, platform, lambda _, tensor: tensor) if is_exact else None,
    )
    as_is = measure.as_is()
    needs: dict[PrecisionName, KernelNeeds] = {}
    if is_exact:
        needs = {name: measure.kernel_needs(name) for name in TYPES if name in STOCK_TFLM}
        needs["float16"] = needs["float32"]  # stock TFLM has no float16 kernels: assume the same buffers
    rows = tuple(measure.row(name, as_is, needs.get(name)) for name in TYPES)
    recommended, reason = _recommend(rows, target)
    advised, advice = _advise(rows, measure.current)
    return PrecisionTradeoffs(measure.current, as_is, rows, recommended, reason, advised, advice)


@dataclass(frozen=True, slots=True)
class _PrecisionModel:
    """The data that all rows share."""

    model: Model
    plan: Plan
    roles: Mapping[tuple[int, int], Role]
    axes: Mapping[tuple[int, int], int]
    current: PrecisionName | None
    runs: Mapping[tuple[int, int], int]
    target: Target
    platform: Platform
    model_bytes: int
    groups: tuple[OperatorGroup, ...]
    needs: KernelNeeds | None

    def row(self, name: PrecisionName, as_is: PrecisionRow, needs: KernelNeeds | None) -> PrecisionRow:
        """Return the model with the types of that precision; the model as it is for its own precision."""
        if name == self.current:
            return as_is
        sizes = self.sizes(name)
        parameter_bytes, live_bytes = self.parameter_bytes(sizes), self.live_bytes(name, needs)
        model_bytes = self.model_bytes + parameter_bytes - as_is.parameter_bytes + self.added_table_bytes(name)
        arena_bytes = None if needs is None else self.arena_bytes(live_bytes, as_is.live_bytes, needs)
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
            stock_tflm=name in STOCK_TFLM
            and not (needs is not None and name == "int16x8" and needs.refused - AT_INTERFACE),
            fits=self.fits(arena_bytes, live_bytes, model_bytes, exact=False),
        )

    def as_is(self) -> PrecisionRow:
        """Return the model as it is."""
        sizes = self.sizes(None)
        live_bytes, account = self.live_bytes(None, None), self.plan.account
        arena_bytes = None if account is None or account.is_lower_bound else account.bytes
        return PrecisionRow(
            precision=self.current or "mixed",
            parameter_bytes=self.parameter_bytes(sizes),
            activation_bytes=self.activation_bytes(sizes),
            live_bytes=live_bytes,
            arena_bytes=arena_bytes,
            model_bytes=self.model_bytes,
            bytes_moved=self.bytes_moved(sizes),
            relative_memory=1.0,
            relative_traffic=1.0,
            exact=True,
            stock_tflm=self.current in STOCK_TFLM,
            fits=self.fits(arena_bytes, live_bytes, self.model_bytes, exact=True),
        )

    def kernel_needs(self, name: PrecisionName) -> KernelNeeds:
        """Return the persistent and scratch buffers of the kernels in that precision."""
        if name == self.current and self.needs is not None:
            return self.needs
        return kernel_needs(self.model, self.groups, self.platform, partial(self.retyped, name))

    def retyped(self, name: PrecisionName, subgraph: int, tensor: Tensor) -> Tensor:
        """Return the tensor in that precision."""
        dtype = self.changed(subgraph, tensor, name)
        return tensor if dtype is None else retyped(tensor, dtype, self.axes.get((subgraph, tensor.index)))

    def added_table_bytes(self, name: PrecisionName) -> int:
        """Return the growth of the quantization tables in bytes; for int16x8 the converter adds minima and maxima."""
        more = 0
        for (subgraph, index), role in self.roles.items():
            tensor = self.model.subgraphs[subgraph].tensors[index]
            dtype = self.changed(subgraph, tensor, name)
            if dtype is not None:
                current, scales = tensor.quantization, scales_of(tensor, dtype, self.axes.get((subgraph, index)))
                more += table_bytes(scales, 2 * scales if name == "int16x8" and role != "bias" else 0)
                if current is not None:
                    more -= table_bytes(len(current.scales), len(current.minimum) + len(current.maximum))
        return more

    def arena_bytes(self, live_bytes: int, current_live_bytes: int, needs: KernelNeeds) -> int:
        """Estimate the arena from the plan's account: its head scaled with the live bytes, its tail with the persistent
        buffers.
        """
        account, current, platform = self.plan.account, self.needs, self.platform
        assert account is not None
        assert current is not None
        more = needs.requests - current.requests
        tail = needs.persistent_bytes - current.persistent_bytes + more * platform.size_of("ScratchBufferHandle")
        records = more * sum(map(platform.size_of, ("AllocationInfo", "GreedyMemoryPlannerBuffer")))
        records += more * platform.size_of("ScratchBufferRequest")
        head = round(account.head_bytes * _ratio(live_bytes, current_live_bytes))
        before = max((peak.bytes for peak in account.peaks if peak.when != "Invoke"), default=0)
        return aligned(max(head + account.tail_bytes + tail, before + tail + records))

    def sizes(self, name: PrecisionName | None) -> dict[tuple[int, int], int]:
        """Return the bytes of every tensor; as in the file if no precision is given."""
        return {
            (graph.index, tensor.index): _bytes(tensor, self.changed(graph.index, tensor, name))
            for graph in self.model.subgraphs
            for tensor in graph.tensors
        }

    def changed(self, subgraph: int, tensor: Tensor, name: PrecisionName | None) -> DType | None:
        """Return the tensor's type in that precision; None if it remains."""
        role = self.roles.get((subgraph, tensor.index))
        if name is None or role is None:
            return None
        dtype = TYPES[name][role]
        if (
            self.current is None
            or tensor.dtype == TYPES[self.current][role]
            or (dtype in FLOATS and tensor.dtype not in FLOATS)
        ):
            return dtype
        return None

    def parameter_bytes(self, sizes: Mapping[tuple[int, int], int]) -> int:
        """Return the bytes of constants, each payload once."""
        payloads: dict[int, int] = {}
        for graph in self.model.subgraphs:
            for tensor in graph.tensors:
                if tensor.is_constant:
                    size = sizes[graph.index, tensor.index]
                    payloads[tensor.buffer] = max(payloads.get(tensor.buffer, 0), size)
        return sum(payloads.values())

    def activation_bytes(self, sizes: Mapping[tuple[int, int], int]) -> int:
        """Return the bytes of all tensors that are not constant."""
        return sum(
            sizes[graph.index, tensor.index]
            for graph in self.model.subgraphs
            for tensor in graph.tensors
            if not tensor.is_constant
        )

    def live_bytes(self, name: PrecisionName | None, needs: KernelNeeds | None) -> int:
        """Return the maximum live bytes; scratch buffers do not change if the kernels' needs are not known."""
        scratch_requests = {} if needs is None else needs.scratch
        buffers = [
            Buffer(buffer.subgraph, buffer.tensor, "", self.buffer_bytes(buffer, name), buffer.lifetime)
            for buffer in self.plan.problem.buffers
            if not (buffer.is_scratch and (buffer.subgraph, buffer.operator) in scratch_requests)
        ]
        times = self.plan.timeline.operators
        buffers += [
            Buffer(key[0], -1, "scratch", size_bytes, times[key], key[1])
            for key, sizes in scratch_requests.items()
            for size_bytes in sizes
            if key in times
        ]
        return lower_bound(self.with_overlaps(LayoutProblem(tuple(buffers)), name))

    def with_overlaps(self, problem: LayoutProblem, name: PrecisionName | None) -> LayoutProblem:
        """Return the problem with what the kernels of that precision permit, if the plan lets tensors overlap."""
        plan, model = self.plan, self.model
        if self.platform is None or plan.offsets is None or (plan.planner == "file" and not plan.overlapping):
            return problem
        if name is not None:
            tensors = tuple(self.retyped(name, 0, tensor) for tensor in model.main.tensors)
            model = replace(model, subgraphs=(replace(model.main, tensors=tensors), *model.subgraphs[1:]))
        return permitted(problem, permissions(model, plan.timeline, operator_overlaps(model, self.platform)))

    def buffer_bytes(self, buffer: Buffer, name: PrecisionName | None) -> int:
        """Return the bytes of a buffer in that precision; it can be some rows of a tensor, or sums of native code."""
        tensors = self.model.subgraphs[buffer.subgraph].tensors
        if not 0 <= buffer.tensor < len(tensors):
            return buffer.size_bytes
        tensor = tensors[buffer.tensor]
        dtype = self.changed(buffer.subgraph, tensor, name)
        if dtype is None:
            return buffer.size_bytes
        whole_bytes = _bytes(tensor, dtype)
        return buffer.size_bytes * whole_bytes // tensor.size_bytes if tensor.size_bytes else whole_bytes

    def bytes_moved(self, sizes: Mapping[tuple[int, int], int]) -> int:
        """Return the bytes of the tensors that operators access, each once per run."""
        return sum(
            self.runs.get((graph.index, operator.index), 1)
            * sum(sizes[graph.index, i] for i in dict.fromkeys((*operator.inputs, *operator.outputs)) if i >= 0)
            for graph in self.model.subgraphs
            for operator in graph.operators
        )

    def fits(self, arena_bytes: int | None, live_bytes: int, model_bytes: int, *, exact: bool) -> bool | None:
        """Return whether arena and model fit their regions; None if either is unknown or too close to the limit."""
        arena = _within(arena_bytes, self.target.sram_bytes, 0.0 if exact else ARENA_ERROR)
        model = _within(model_bytes, self.target.flash_bytes, 0.0 if exact else MODEL_ERROR)
        if arena_bytes is None and self.target.sram_bytes is not None and live_bytes > self.target.sram_bytes:
            arena = False
        if False in (arena, model):
            return False
        return None if None in (arena, model) else True


def _within(needed: int | None, limit: int | None, error: float) -> bool | None:
    """Return whether it is within the limit; None if either is unknown or the difference is less than the error."""
    if needed is None or limit is None or abs(limit - needed) < error * needed:
        return None
    return needed <= limit


def _bytes(tensor: Tensor, dtype: DType | None) -> int:
    """Return the bytes of the tensor in that type; those of a constant are scaled with the width."""
    if tensor.data is not None:
        size = len(tensor.data)
        return size if dtype is None or not tensor.dtype.bits else -(-size * dtype.bits // tensor.dtype.bits)
    return tensor.size_bytes if dtype is None else (tensor.element_count * dtype.bits + 7) // 8


def _ratio(part: int, total: int) -> float:
    return part / total if total else 1.0


def _recommend(rows: tuple[PrecisionRow, ...], target: Target) -> tuple[PrecisionName | None, str]:
    """Return the highest precision that fits and that stock TFLM supports, and the reason."""
    runnable = [(name, row) for name, row in zip(TYPES, rows, strict=True) if row.stock_tflm]
    best = next(((name, row) for name, row in runnable if row.fits), None)
    missing = [
        what
        for what, unknown in (
            ("the arena's memory", target.sram_bytes is None),
            ("the flash", target.flash_bytes is None),
            ("the arena", all(row.arena_bytes is None for row in rows)),
        )
        if unknown
    ]
    uncertain = [name for name, row in runnable if row.fits is None and not missing]
    if best is not None:
        name, row = best
        sure = "" if row.exact else " (estimated: convert and plan it to confirm)"
        higher = [other for other in uncertain if list(TYPES).index(other) < list(TYPES).index(name)]
        close = f"; {' or '.join(higher)} is too close to the limit to tell" if higher else ""
        return name, f"the highest precision of stock TFLM that fits {target.name}{sure}{close}"
    if uncertain:
        return None, f"unknown: {' and '.join(uncertain)} may fit {target.name}: convert and plan to confirm"
    if all(row.fits is False for _, row in runnable):
        return None, f"no precision fits {target.name}: use fewer channels, a smaller input or other memory"
    return None, f"unknown: the size of {' and of '.join(missing)} is not known"


def _advise(rows: tuple[PrecisionRow, ...], current: PrecisionName | None) -> tuple[PrecisionName | None, str]:
    """Return int8 if it may fit: the smallest and usually the fastest."""
    row = next(row for name, row in zip(TYPES, rows, strict=True) if name == "int8")
    if row.fits is False:
        return None, "not even int8 fits: use fewer channels or layers, or a smaller input"
    gain = "the smallest and usually the fastest in TFLM"
    if current == "int8":
        return "int8", f"{gain}; use a higher precision only if the accuracy is too low"
    return "int8", f"{gain}; use a higher precision only if int8 loses too much accuracy"
