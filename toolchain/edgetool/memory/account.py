"""The account of the arena: what TFLM allocates for a model, in TFLM's own order, to the byte.

Source: micro_interpreter.cc, micro_allocator.cc, micro_allocation_info.cc and single_arena_buffer_allocator.cc.
The tail grows downwards from the end of the arena; the head holds the table of scratch requests, above it what is
temporary in Prepare and in planning, and in the end the planned tensors and scratch buffers. Nothing is
allocated in Invoke. The smallest arena is the highest sum of both sides at any moment.

What the account of an arena says, as values.

What TFLM's own planner makes of a problem: first fit, the largest first, around what a plan has fixed.

The tail of the arena: persistent allocations, stacked downwards from its end.

The account of an arena that several models share: one MicroAllocator, and an interpreter for each model.

AllocateTensors runs for one model after the other. The persistent parts of all lie behind each other in the tail, each
with a MicroBuiltinDataAllocator and tables of its own; the allocators come once. Planned tensors and scratch of all
lie at the start of the arena, over each other: MicroAllocator keeps the largest head that it planned
(max_head_buffer_usage_) and reserves it at the end of each AllocateTensors. The next one gives it up first, since its
table of scratch requests takes the arena's only resizable buffer (InitScratchBufferData): the transients of a later
model lie over the heads of the earlier ones, and meet their tails only.

Source: micro_allocator.cc, single_arena_buffer_allocator.cc.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import permutations
from types import MappingProxyType
from typing import Literal

from edgetool.memory.bound import lower_bound
from edgetool.memory.lifetimes import DEAD, Timeline, layout_problem, timeline
from edgetool.memory.problem import ARENA_ALIGNMENT, Buffer, Layout, LayoutProblem, aligned
from edgetool.model.types import DType, Model, Tensor
from edgetool.operators.call import (
    SCRATCH_REQUESTS_PER_OPERATOR,
    Call,
    KernelRefusal,
    Request,
    arena_bytes,
    is_quantized,
    persistent,
)
from edgetool.operators.control import assignments, resource_variables
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import entry_of
from edgetool.target.platform import Platform
from edgetool.target.types import StructSize

Section = Literal["tail", "head", "transient"]


@dataclass(frozen=True, slots=True)
class ArenaRow:
    """One part of the arena: the bytes asked for in `count` allocations, and with the padding of their alignment.

    subgraph and operator are None for what belongs to no operator. category is the name under which TFLM's
    recording allocator prints it, None where it does not.
    """

    section: Section
    part: str
    bytes: int
    requested_bytes: int
    count: int
    subgraph: int | None = None
    operator: int | None = None
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Peak:
    """A moment of AllocateTensors or Invoke: what stands at the head and at the tail of the arena."""

    when: str
    head_bytes: int
    tail_bytes: int
    subgraph: int | None = None
    operator: int | None = None

    @property
    def bytes(self) -> int:
        """The arena that it takes, a multiple of 16."""
        return aligned(self.head_bytes + self.tail_bytes)


@dataclass(frozen=True, slots=True)
class Unaccounted:
    """What is not in the account: an operator without a rule, or what TFLM refuses (why), an operator or a tensor.

    operator is None for a tensor.
    """

    subgraph: int
    operator: int | None
    label: str
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Category:
    """What TFLM's recording allocator counts under one name."""

    used_bytes: int
    requested_bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class ArenaAccount:
    """Every byte that TFLM takes from its arena, by where it lies and what it is for.

    layout holds the realised offsets of the problem's buffers: tensors, then scratch. peak is the moment that sets
    the size of the arena; peaks are the highest moments by what is going on.
    """

    head_bytes: int
    tail_bytes: int
    peak: Peak
    peaks: tuple[Peak, ...]
    rows: tuple[ArenaRow, ...]
    problem: LayoutProblem
    layout: Layout
    unaccounted: tuple[Unaccounted, ...] = ()
    categories: Mapping[str, Category] = field(default_factory=dict)

    @property
    def used_bytes(self) -> int:
        """What arena_used_bytes() gives after AllocateTensors."""
        return self.head_bytes + self.tail_bytes

    @property
    def bytes(self) -> int:
        """The smallest arena, a multiple of 16, in which AllocateTensors and Invoke work."""
        return self.peak.bytes

    @property
    def is_lower_bound(self) -> bool:
        """Whether some operator is not accounted for, so that the true figures are no lower."""
        return bool(self.unaccounted)


def tflm_order(problem: LayoutProblem, indices: Iterable[int]) -> list[int]:
    """The buffers as GreedyMemoryPlanner places them: size descending, equal sizes in reversed order of creation.

    Source: greedy_memory_planner.cc, CalculateOffsetsIfNeeded.
    """
    return sorted(indices, key=lambda i: (-problem.buffers[i].aligned_bytes, -i))


def layout_of(problem: LayoutProblem, offsets: tuple[int, ...], bound: int) -> Layout:
    """The offsets as a layout of the problem, whose lower bound is given."""
    height = max((offset + b.aligned_bytes for offset, b in zip(offsets, problem.buffers, strict=True)), default=0)
    return Layout(offsets, height, bound, "bound met" if height == bound else "none")


def realise(problem: LayoutProblem, fixed: Mapping[int, int]) -> tuple[int, ...]:
    """The offsets that TFLM's GreedyMemoryPlanner gives, some buffers (by index) fixed by an offline plan.

    Source: greedy_memory_planner.cc, CalculateOffsetsIfNeeded: fixed ones first, the others fitted around them.
    """
    free = tflm_order(problem, (i for i in range(len(problem.buffers)) if i not in fixed))
    return first_fit(problem, free, fixed)


def first_fit(
    problem: LayoutProblem, order: Sequence[int], fixed: Mapping[int, int] = MappingProxyType({})
) -> tuple[int, ...]:
    """Place the buffers in `order`, each in the lowest gap between those alive with it; `fixed` ones lie already."""
    buffers = problem.buffers
    offsets = [0] * len(buffers)
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last; by offset
    for index, offset in fixed.items():
        times = buffers[index].lifetime
        offsets[index] = offset
        placed.append((offset, offset + buffers[index].aligned_bytes, times.first, times.last))
    placed.sort()
    for index in order:
        size = buffers[index].aligned_bytes
        first, last = buffers[index].lifetime.first, buffers[index].lifetime.last
        offset = 0
        for start, end, other_first, other_last in placed:
            if other_first > last or first > other_last:
                continue
            if start - offset >= size:
                break
            if end > offset:
                offset = end
        offsets[index] = offset
        insort(placed, (offset, offset + size, first, last))
    return tuple(offsets)


# The names that RecordingMicroAllocator::PrintAllocations uses (recording_micro_allocator.cc), in its order.
EVAL_TENSORS = "TfLiteEvalTensor data"
PERSISTENT_TENSORS = "Persistent TfLiteTensor data"
PERSISTENT_QUANTIZATION = "Persistent TfLiteTensor quantization data"
PERSISTENT_BUFFERS = "Persistent buffer data"
VARIABLES = "TfLiteTensor variable buffer data"
NODES = "NodeAndRegistration struct"
OPERATOR_DATA = "Operator runtime data"
CATEGORIES = (
    EVAL_TENSORS,
    PERSISTENT_TENSORS,
    PERSISTENT_QUANTIZATION,
    PERSISTENT_BUFFERS,
    VARIABLES,
    NODES,
    OPERATOR_DATA,
)


@dataclass(slots=True)
class Tail:
    """A growing tail. `bytes` is its height, counted from the aligned end of the arena."""

    bytes: int = 0
    rows: list[ArenaRow] = field(default_factory=list)

    def take(
        self,
        part: str,
        size_bytes: int,
        alignment: int,
        *,
        subgraph: int | None = None,
        operator: int | None = None,
        category: str | None = None,
        count: int = 1,
    ) -> None:
        """One AllocatePersistentBuffer (single_arena_buffer_allocator.cc): the start is aligned downwards.

        count is what the recording allocator counts for it.
        """
        before = self.bytes
        self.bytes = aligned(before + size_bytes, alignment)
        self.rows.append(ArenaRow("tail", part, self.bytes - before, size_bytes, count, subgraph, operator, category))

    def categories(self) -> dict[str, Category]:
        """The totals by the names that TFLM prints."""
        totals = {name: Category(0, 0, 0) for name in CATEGORIES}
        for row in self.rows:
            if row.category is not None:
                old = totals[row.category]
                totals[row.category] = Category(
                    old.used_bytes + row.bytes, old.requested_bytes + row.requested_bytes, old.count + row.count
                )
        return totals


INT_BYTES = 4

# Types for which TFLM knows no size (TfLiteTypeSizeOf, memory_helpers.cc).
WITHOUT_SIZE = frozenset([DType.STRING, DType.VARIANT, DType.INT2, DType.UINT4, DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2])

Offsets = Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that TFLM does before it plans the head: it depends on the model and the build, not on a plan."""

    model: Model
    platform: Platform
    times: Timeline
    rows: tuple[ArenaRow, ...]
    tail_bytes: int
    scratch: tuple[Buffer, ...]
    peaks: tuple[Peak, ...]
    unaccounted: tuple[Unaccounted, ...]

    @property
    def request_table_bytes(self) -> int:
        """The head between Prepare and planning: the table of scratch requests."""
        return _request_table_bytes(self.platform, len(self.scratch))


def account_model(
    model: Model,
    platform: Platform,
    *,
    offsets: Offsets | None = None,
    custom: Mapping[str, OperatorEntry] | None = None,
) -> ArenaAccount:
    """The account of a model on a build of TFLM; `offsets`, by (subgraph, tensor), is the offline plan in the file.

    Raises UnsupportedModelError for control flow that never ends.
    """
    return account_plan(prepare(model, platform, custom=custom), offsets)


def prepare(
    model: Model, platform: Platform, *, custom: Mapping[str, OperatorEntry] | None = None, behind: int = 0
) -> Prepared:
    """Everything until planning: StartModelAllocation, parsing of options, Init and Prepare of every operator.

    custom: entries of operators that the user describes, by custom code. behind: the bytes of the tail that models
    before this one have taken of the same arena; with 0 the arena is new, and begins with the allocators.
    """
    times = timeline(model)
    tail = Tail(behind)
    peaks: list[Peak] = []
    unaccounted: list[Unaccounted] = []
    scratch: list[Buffer] = []
    if not behind:
        _allocators(platform, tail)
    _start(model, platform, tail)
    _parse_options(model, platform, tail)
    peaks.append(Peak("reading the model", _request_table_bytes(platform, 0), tail.bytes))
    entries = {(graph.index, op.index): entry_of(op, custom) for graph in model.subgraphs for op in graph.operators}
    unaccounted += _init(model, platform, entries, tail)
    assigned = assignments(model)
    for graph in model.subgraphs:
        for operator in graph.operators:
            table = _request_table_bytes(platform, len(scratch))
            entry = entries[graph.index, operator.index]
            if entry is None or entry.prepare is None:
                unaccounted.append(Unaccounted(graph.index, operator.index, operator.label))
                continue
            temporary, refusal = _prepare_operator(
                Call(model, graph, operator, platform, assigned), entry, table, tail, scratch, times
            )
            if refusal is not None:
                unaccounted.append(Unaccounted(graph.index, operator.index, operator.label, refusal))
            peaks.append(Peak(f"Prepare of {operator.label}", temporary, tail.bytes, graph.index, operator.index))
    unaccounted += _refused_in_planning(model)
    return Prepared(
        model, platform, times, tuple(tail.rows), tail.bytes, tuple(scratch), tuple(peaks), tuple(unaccounted)
    )


def account_plan(prepared: Prepared, offsets: Offsets | None = None) -> ArenaAccount:
    """The account when TFLM plans the head around the fixed offsets (none without an offline plan)."""
    model, platform = prepared.model, prepared.platform
    tail = Tail(prepared.tail_bytes, list(prepared.rows))
    if prepared.scratch:
        handle = platform.structs["ScratchBufferHandle"]
        tail.take("ScratchBufferHandle array", handle.size_bytes * len(prepared.scratch), handle.alignment)
    temporary = _planning_bytes(prepared)
    peaks = [*prepared.peaks, Peak("listing allocations", temporary, tail.bytes)]
    _variables(model, offsets, tail)
    problem = head_problem(prepared, offsets)
    layout = realised_layout(problem, offsets)
    planner_bytes = platform.size_of("GreedyMemoryPlannerBuffer") * len(problem.buffers)
    # The planner gets what lies between both sides, each aligned to 16, and needs a record for each buffer.
    peaks.append(Peak("planning", aligned(temporary) + planner_bytes, aligned(tail.bytes)))
    _interface("input", model, model.main.inputs, platform, tail)
    _interface("output", model, model.main.outputs, platform, tail)
    peaks.append(Peak("Invoke", layout.height, tail.bytes))
    return ArenaAccount(
        head_bytes=layout.height,
        tail_bytes=tail.bytes,
        peak=max(peaks, key=lambda peak: peak.bytes),
        peaks=tuple(peaks),
        rows=tuple(tail.rows),
        problem=problem,
        layout=layout,
        unaccounted=prepared.unaccounted,
        categories=tail.categories(),
    )


def head_problem(prepared: Prepared, offsets: Offsets | None = None) -> LayoutProblem:
    """The tensors and scratch buffers that TFLM plans, in its order."""
    return layout_problem(prepared.model, prepared.times, scratch=prepared.scratch, fixed=offsets or {})


def realised_layout(problem: LayoutProblem, offsets: Offsets | None = None) -> Layout:
    """Where TFLM's greedy planner puts every buffer, around those that the plan fixes."""
    fixed = {
        index: offsets[buffer.subgraph, buffer.tensor]
        for index, buffer in enumerate(problem.buffers)
        if offsets and not buffer.is_scratch and offsets.get((buffer.subgraph, buffer.tensor), -1) != -1
    }
    return layout_of(problem, realise(problem, fixed), lower_bound(problem))


def _allocators(platform: Platform, tail: Tail) -> None:
    """What MicroAllocator::Create takes of a new arena."""
    for name in ("SingleArenaBufferAllocator", "GreedyMemoryPlanner", "MicroAllocator"):
        tail.take(name, platform.structs[name].size_bytes, platform.structs[name].alignment)


def _start(model: Model, platform: Platform, tail: Tail) -> None:
    """Resource variables, and the tables of tensors and operators (MicroAllocator::StartModelAllocation)."""
    structs = platform.structs
    variables = len(resource_variables(model))
    if variables:
        for part, count in (("MicroResourceVariables", 1), ("MicroResourceVariable", variables)):
            size = structs[part].size_bytes * count
            tail.take(part, size, ARENA_ALIGNMENT, category=PERSISTENT_BUFFERS)
    for part, count in (("MicroBuiltinDataAllocator", 1), ("SubgraphAllocations", len(model.subgraphs))):
        tail.take(part, structs[part].size_bytes * count, structs[part].alignment)
    # The recording allocator counts tensors and operators here, not allocations.
    for struct, category, counts in (
        ("TfLiteEvalTensor", EVAL_TENSORS, [len(graph.tensors) for graph in model.subgraphs]),
        ("NodeAndRegistration", NODES, [len(graph.operators) for graph in model.subgraphs]),
    ):
        for graph, count in zip(model.subgraphs, counts, strict=True):
            size, alignment = structs[struct].size_bytes * count, structs[struct].alignment
            tail.take(f"{struct} array", size, alignment, subgraph=graph.index, category=category, count=count)


def _parse_options(model: Model, platform: Platform, tail: Tail) -> None:
    for graph in model.subgraphs:
        for operator in graph.operators:
            struct = platform.options.get(operator.code)
            if struct is not None and struct.size_bytes:
                tail.take(
                    "parsed options", struct.size_bytes, struct.alignment, subgraph=graph.index, operator=operator.index
                )


def _init(
    model: Model, platform: Platform, entries: Mapping[tuple[int, int], OperatorEntry | None], tail: Tail
) -> list[Unaccounted]:
    """Init of every operator; the operators whose Init fails."""
    refused = []
    for graph in model.subgraphs:
        for operator in graph.operators:
            entry = entries[graph.index, operator.index]
            # What the profile says of a name is TFLM's own kernel, not one that the user describes under that name.
            own = entry is not None and entry is entry_of(operator)
            struct = platform.op_data.get(operator.label) if own else None
            requests = [persistent("OpData", struct.size_bytes)] if struct is not None and struct.size_bytes else []
            try:
                requests += entry.init(Call(model, graph, operator, platform, {})) if entry is not None else ()
            except KernelRefusal as refusal:
                refused.append(Unaccounted(graph.index, operator.index, operator.label, str(refusal)))
            for request in requests:
                tail.take(
                    request.what,
                    request.size_bytes,
                    ARENA_ALIGNMENT,
                    subgraph=graph.index,
                    operator=operator.index,
                    category=PERSISTENT_BUFFERS,
                )
    return refused


def _prepare_operator(
    call: Call, entry: OperatorEntry, table: int, tail: Tail, scratch: list[Buffer], times: Timeline
) -> tuple[int, str | None]:
    """Prepare of one operator: how far its temporaries push the head, and the kernel's refusal if it has one.

    A persistent buffer is not checked against them (SingleArenaBufferAllocator::AllocatePersistentBuffer): it may lie
    over the last bytes of the last one, which nobody reads any more.
    """
    top, unread = table, 0
    most = table + tail.bytes
    requested = len(scratch)
    key = (call.graph.index, call.operator.index)
    try:
        for request in entry.prepare(call) if entry.prepare is not None else ():
            if request.kind == "persistent":
                tail.take(
                    request.what,
                    request.size_bytes,
                    ARENA_ALIGNMENT,
                    subgraph=key[0],
                    operator=key[1],
                    category=PERSISTENT_BUFFERS,
                )
                most = max(most, top - unread + tail.bytes)
            elif request.kind == "scratch":
                lifetime = times.operators.get(key, DEAD)
                scratch.append(Buffer(key[0], -1, request.what, request.size_bytes, lifetime, key[1]))
            else:
                top, unread = _temporary_top(top, request, call)
                most = max(most, top + tail.bytes)
    except KernelRefusal as refusal:
        return most - tail.bytes, str(refusal)
    if len(scratch) > requested and key not in times.operators:
        # TFLM sets a request's size where its operator runs, and plans the others with what lies in memory.
        return most - tail.bytes, f"{call.operator.label} requests a scratch buffer in a subgraph that is never run"
    return most - tail.bytes, _dynamic_output(call)


def _dynamic_output(call: Call) -> str | None:
    """What TFLM says of an empty output, which it takes for a dynamic tensor; None when there is none.

    Source: CheckDynamicTensors (micro_interpreter_graph.cc); the shape (0) stands for a scalar there.
    """
    for index in call.operator.outputs:
        shape = call.graph.tensors[index].shape if index >= 0 else ()
        if shape != (0,) and any(extent <= 0 for extent in shape):
            return f"{call.operator.label} has an empty output: its shape is {list(shape)}"
    return None


def _refused_in_planning(model: Model) -> list[Unaccounted]:
    """Tensors that AllocationInfoBuilder::InitializeAllocationInfo does not take, constants among them."""
    refused = []
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.dtype in WITHOUT_SIZE:
                text = f"TFLM defines no size for the type {tensor.dtype.name.lower()}"
                refused.append(Unaccounted(graph.index, None, f"tensor {tensor.index}", text))
        for operator in graph.operators:
            if any(arena_bytes(graph.tensors[index]) for index in operator.intermediates if index >= 0):
                text = f"{operator.label} has an intermediate tensor that is not empty"
                refused.append(Unaccounted(graph.index, operator.index, operator.label, text))
    return refused


def _temporary_top(top: int, request: Request, call: Call) -> tuple[int, int]:
    """The top of the temporaries with this one, and the bytes below it that nobody reads once it is made.

    Those are the array of zero points and before it, in TfLiteAffineQuantization, what follows two pointers.
    """
    if request.kind == "temporary buffer":
        return aligned(top, request.alignment) + request.size_bytes, 0
    structs = tensor_structs(call.graph.tensors[request.tensor], call.platform)
    for size in structs:
        top = aligned(top, size.alignment) + size.size_bytes
    if len(structs) == 1:
        return top, 0
    _, parameters, zero_points = structs
    return top, zero_points.size_bytes + parameters.size_bytes - 2 * call.platform.abi.pointer_bytes


def tensor_structs(tensor: Tensor, platform: Platform) -> tuple[StructSize, ...]:
    """The allocations of one TfLiteTensor: itself and, when it is quantized, its parameters and zero points."""
    sizes = (platform.structs["TfLiteTensor"],)
    quantization = tensor.quantization
    if quantization is None or not is_quantized(tensor):
        return sizes
    zero_points = INT_BYTES * (1 + len(quantization.scales))
    return (*sizes, platform.structs["TfLiteAffineQuantization"], StructSize(zero_points, INT_BYTES))


def _request_table_bytes(platform: Platform, requests: int) -> int:
    """The table of scratch requests so far, with room for those that the next operator may make."""
    return platform.size_of("ScratchBufferRequest") * (requests + SCRATCH_REQUESTS_PER_OPERATOR)


def _planning_bytes(prepared: Prepared) -> int:
    """The head while allocations are listed (AllocationInfoBuilder::CreateAllocationInfo)."""
    platform, model = prepared.platform, prepared.model
    word = platform.abi.pointer_bytes
    tensors = sum(len(graph.tensors) for graph in model.subgraphs)
    info = platform.structs["AllocationInfo"]
    top = aligned(prepared.request_table_bytes, word) + word * len(model.subgraphs)
    return aligned(top, info.alignment) + info.size_bytes * (tensors + len(prepared.scratch))


def _variables(model: Model, offsets: Offsets | None, tail: Tail) -> None:
    """Variable tensors go to the tail, unless the offline plan gives them an offset.

    TFLM looks into the plan by the tensor's index within its subgraph, as if it were in the main one
    (MicroAllocator::AllocateVariables).
    """
    words = [] if offsets is None else [offsets.get(key, -1) for key in model.tensor_keys]
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.is_variable and (offsets is None or words[tensor.index] == -1):
                tail.take(
                    "variable tensor",
                    arena_bytes(tensor),
                    ARENA_ALIGNMENT,
                    subgraph=graph.index,
                    category=VARIABLES,
                )


def _interface(what: str, model: Model, indices: tuple[int, ...], platform: Platform, tail: Tail) -> None:
    """The TfLiteTensors that input() or output() of the interpreter give."""
    pointers = platform.abi.pointer_bytes * len(indices)
    tail.take(f"{what} tensor pointers", pointers, ARENA_ALIGNMENT, category=PERSISTENT_BUFFERS)
    for index in indices:
        first, *parameters = tensor_structs(model.main.tensors[index], platform)
        tail.take(f"{what} TfLiteTensor", first.size_bytes, first.alignment, category=PERSISTENT_TENSORS)
        for part, size in zip(("TfLiteAffineQuantization", "zero points"), parameters, strict=False):
            tail.take(f"{what} {part}", size.size_bytes, size.alignment, category=PERSISTENT_QUANTIZATION)


# Up to so many models, every order of initialisation is tried.
MODELS_IN_ANY_ORDER = 5


@dataclass(frozen=True, slots=True)
class Tenant:
    """One of the models: offsets, by (subgraph, tensor), is the offline plan in its file."""

    model: Model
    offsets: Offsets | None = None


@dataclass(frozen=True, slots=True)
class TenantPart:
    """What one model takes: its own head, and what it adds to the tail (the first one the allocators, too)."""

    head_bytes: int
    tail_bytes: int
    unaccounted: tuple[Unaccounted, ...]


@dataclass(frozen=True, slots=True)
class SharedAccount:
    """The arena of all models, initialised in the order of `parts`.

    peak is the moment that sets the arena, and peak_model the position of the model that is then initialised, None
    where it is Invoke. best_order: the positions in the order that needs the smallest arena, of all orders up to
    MODELS_IN_ANY_ORDER models, and best_bytes what it needs.
    """

    parts: tuple[TenantPart, ...]
    peak: Peak
    peak_model: int | None
    best_order: tuple[int, ...]
    best_bytes: int

    @property
    def head_bytes(self) -> int:
        """What the largest head takes."""
        return max(part.head_bytes for part in self.parts)

    @property
    def tail_bytes(self) -> int:
        """The persistent parts of all models."""
        return sum(part.tail_bytes for part in self.parts)

    @property
    def used_bytes(self) -> int:
        """What arena_used_bytes() of each interpreter gives after the last AllocateTensors."""
        return self.head_bytes + self.tail_bytes

    @property
    def bytes(self) -> int:
        """The smallest arena, a multiple of 16, in which every model allocates and runs."""
        return self.peak.bytes

    @property
    def is_lower_bound(self) -> bool:
        """Whether some operator of some model is not accounted for."""
        return any(part.unaccounted for part in self.parts)


# The account of the model at a position, behind a tail of so many bytes.
_Accounts = Callable[[int, int], ArenaAccount]


def account_shared(
    tenants: Sequence[Tenant], platform: Platform, *, custom: Mapping[str, OperatorEntry] | None = None
) -> SharedAccount:
    """The account of these models in one arena, initialised in this order on a build of TFLM.

    custom: entries of operators that the user describes, by custom code. Raises ValueError without a model,
    UnsupportedModelError for control flow that never ends.
    """
    if not tenants:
        raise ValueError("no model")

    @cache
    def account(position: int, behind: int) -> ArenaAccount:
        tenant = tenants[position]
        return account_plan(prepare(tenant.model, platform, custom=custom, behind=behind), tenant.offsets)

    given = tuple(range(len(tenants)))
    parts, peak, peak_model = _stacked(account, given)
    best = min(_orders(account, len(tenants)), key=lambda order: (_stacked(account, order)[1].bytes, order != given))
    return SharedAccount(parts, peak, peak_model, best, _stacked(account, best)[1].bytes)


def _stacked(account: _Accounts, order: Sequence[int]) -> tuple[tuple[TenantPart, ...], Peak, int | None]:
    """The parts in this order, the moment that sets the arena and the model at it."""
    parts, moments, behind = [], list[tuple[Peak, int | None]](), 0
    for position in order:
        # All of an account but its alignment to 16 moves along with the tail before it.
        near = behind and ARENA_ALIGNMENT + behind % ARENA_ALIGNMENT
        own = account(position, near)
        peak = _transient(own)
        moments.append((replace(peak, tail_bytes=peak.tail_bytes + behind - near), position))
        parts.append(TenantPart(own.head_bytes, own.tail_bytes - near, own.unaccounted))
        behind += own.tail_bytes - near
    moments.append((Peak("Invoke", max(part.head_bytes for part in parts), behind), None))
    peak, model = max(moments, key=lambda moment: (moment[0].bytes, moment[1] is None))
    return tuple(parts), peak, model


def _orders(account: _Accounts, count: int) -> list[tuple[int, ...]]:
    """The orders to try: all, or of many models that in which those with the highest transients over their tails begin.

    Without alignment nothing is better than that one: exchanging two neighbours in it never lowers the arena.
    """
    if count <= MODELS_IN_ANY_ORDER:
        return list(permutations(range(count)))
    given = tuple(range(count))
    alone = [account(position, 0) for position in given]
    return [
        given,
        tuple(sorted(given, key=lambda position: alone[position].tail_bytes - _transient(alone[position]).bytes)),
    ]


def _transient(own: ArenaAccount) -> Peak:
    """The highest moment of AllocateTensors, before the head is reserved."""
    return max(own.peaks[:-1], key=lambda peak: peak.bytes)
