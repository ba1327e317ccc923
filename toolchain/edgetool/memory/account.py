"""The account of the arena: what TFLM allocates for a model, in TFLM's own order, to the byte.

The tail grows downwards from the end of the arena and contains the persistent allocations. The head contains first the
table of scratch requests, with the temporary allocations of Prepare and of planning above it, and in the end the
planned tensors and scratch buffers. Nothing is allocated in Invoke. The smallest arena is the maximum over time of the
sum of both sides. TFLM's planner is first fit, the largest buffer first, around the buffers that an offline plan fixes.

Several models can share an arena, with one MicroAllocator and one interpreter per model. AllocateTensors runs for one
model after another. Their persistent allocations follow each other in the tail, each with its own
MicroBuiltinDataAllocator and tables; the allocators are allocated once. Their planned tensors and scratch buffers all
begin at the start of the arena and overlap: MicroAllocator stores the size of the largest head that it planned
(max_head_buffer_usage_) and reserves it at the end of each AllocateTensors. The next AllocateTensors releases it first,
because the table of scratch requests takes the arena's only resizable buffer (InitScratchBufferData): the temporary
allocations of a later model may overwrite the heads of the earlier ones, and are limited only by their tails.

Head and tail can also be separate arenas, in different memories (MicroAllocator::Create with a persistent and a
non-persistent arena). Each must then be as large as its own largest moment. The tail begins with the two allocators
instead of one, so that what follows is aligned differently.

Source: micro_interpreter.cc, micro_allocator.cc, micro_allocation_info.cc, greedy_memory_planner.cc,
recording_micro_allocator.cc, single_arena_buffer_allocator.cc, persistent_arena_buffer_allocator.cc and
non_persistent_arena_buffer_allocator.cc.
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

ArenaSection = Literal["tail", "head", "transient"]


@dataclass(frozen=True, slots=True)
class ArenaRow:
    """One part of the arena: the bytes requested in `count` allocations, and the bytes used including alignment
    padding.

    subgraph and operator are None for parts that do not belong to an operator. category is the name under which TFLM's
    recording allocator prints the part, None if it does not.
    """

    section: ArenaSection
    part: str
    bytes: int
    requested_bytes: int
    count: int
    subgraph: int | None = None
    operator: int | None = None
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Peak:
    """A moment of AllocateTensors or Invoke, with the bytes at the head and at the tail of the arena.

    alignment: what the size of the arena is a multiple of.
    """

    when: str
    head_bytes: int
    tail_bytes: int
    subgraph: int | None = None
    operator: int | None = None
    alignment: int = ARENA_ALIGNMENT

    @property
    def bytes(self) -> int:
        """The arena that the moment needs."""
        return aligned(self.head_bytes + self.tail_bytes, self.alignment)


@dataclass(frozen=True, slots=True)
class Unaccounted:
    """An operator without a rule, or an operator or tensor that TFLM rejects, with the reason in `refusal`.

    operator is None for a tensor.
    """

    subgraph: int
    operator: int | None
    label: str
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class AllocationTotals:
    """The totals that TFLM's recording allocator counts under one name."""

    used_bytes: int
    requested_bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class ArenaAccount:
    """Every byte that TFLM allocates from its arena, by location and purpose.

    layout contains the actual offsets of the problem's buffers: tensors, then scratch. peak is the moment that
    determines the size of the arena; peaks are the highest moments of each phase.
    """

    head_bytes: int
    tail_bytes: int
    peak: Peak
    peaks: tuple[Peak, ...]
    rows: tuple[ArenaRow, ...]
    problem: LayoutProblem
    layout: Layout
    unaccounted: tuple[Unaccounted, ...] = ()
    categories: Mapping[str, AllocationTotals] = field(default_factory=dict)

    @property
    def used_bytes(self) -> int:
        """The value that arena_used_bytes() returns after AllocateTensors."""
        return self.head_bytes + self.tail_bytes

    @property
    def bytes(self) -> int:
        """The smallest arena, a multiple of 16, in which AllocateTensors and Invoke succeed."""
        return self.peak.bytes

    @property
    def is_lower_bound(self) -> bool:
        """Whether some operator is not accounted for, so that the true figures may be higher."""
        return bool(self.unaccounted)


def tflm_order(problem: LayoutProblem, indices: Iterable[int]) -> list[int]:
    """Return the buffers as GreedyMemoryPlanner places them: by descending size, equal sizes in reverse order.

    Source: greedy_memory_planner.cc, CalculateOffsetsIfNeeded.
    """
    return sorted(indices, key=lambda i: (-problem.buffers[i].aligned_bytes, -i))


def layout_from_offsets(problem: LayoutProblem, offsets: tuple[int, ...], bound: int) -> Layout:
    """Return the layout of the problem with these offsets and this lower bound."""
    height = _height(problem, offsets)
    return Layout(offsets, height, bound, "bound met" if height == bound else "none")


def _height(problem: LayoutProblem, offsets: tuple[int, ...]) -> int:
    """Return where the last buffer ends."""
    return max((offset + b.aligned_bytes for offset, b in zip(offsets, problem.buffers, strict=True)), default=0)


def tflm_offsets(problem: LayoutProblem, fixed: Mapping[int, int]) -> tuple[int, ...]:
    """Return the offsets that TFLM's GreedyMemoryPlanner chooses if an offline plan fixes some buffers (by index).

    Source: greedy_memory_planner.cc, CalculateOffsetsIfNeeded: the fixed ones first, the others around them.
    """
    free = tflm_order(problem, (i for i in range(len(problem.buffers)) if i not in fixed))
    return first_fit(problem, free, fixed)


def first_fit(
    problem: LayoutProblem, order: Sequence[int], fixed: Mapping[int, int] = MappingProxyType({})
) -> tuple[int, ...]:
    """Place the buffers in `order`, each in the lowest gap between those live with it, around the `fixed` ones."""
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
    """A growing tail. `bytes` is its size, counted from the aligned end of the arena."""

    bytes: int = 0
    rows: list[ArenaRow] = field(default_factory=list)

    def allocate(
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
        """Add one AllocatePersistentBuffer (single_arena_buffer_allocator.cc), whose start is aligned downwards.

        count: the number that the recording allocator counts for it.
        """
        before = self.bytes
        self.bytes = aligned(before + size_bytes, alignment)
        self.rows.append(ArenaRow("tail", part, self.bytes - before, size_bytes, count, subgraph, operator, category))

    def categories(self) -> dict[str, AllocationTotals]:
        """Return the totals by the names that TFLM prints."""
        totals = {name: AllocationTotals(0, 0, 0) for name in CATEGORIES}
        for row in self.rows:
            if row.category is not None:
                totals_so_far = totals[row.category]
                totals[row.category] = AllocationTotals(
                    totals_so_far.used_bytes + row.bytes,
                    totals_so_far.requested_bytes + row.requested_bytes,
                    totals_so_far.count + row.count,
                )
        return totals


INT_BYTES = 4

# Types whose size TFLM does not know (TfLiteTypeSizeOf, memory_helpers.cc).
TYPES_WITHOUT_SIZE = frozenset(
    [DType.STRING, DType.VARIANT, DType.INT2, DType.UINT4, DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2]
)

Offsets = Mapping[tuple[int, int], int]
# Returns the buffers that a plan places, with what may share bytes, for those that TFLM plans.
Sharing = Callable[[LayoutProblem], LayoutProblem]


def unshared(problem: LayoutProblem) -> LayoutProblem:
    """Return the problem itself: every buffer has bytes of its own."""
    return problem


@dataclass(frozen=True, slots=True)
class Prepared:
    """The state before TFLM plans the head: it depends on the model and the build, not on a plan.

    separate: head and tail are separate arenas.
    """

    model: Model
    platform: Platform
    times: Timeline
    rows: tuple[ArenaRow, ...]
    tail_bytes: int
    scratch: tuple[Buffer, ...]
    peaks: tuple[Peak, ...]
    unaccounted: tuple[Unaccounted, ...]

    separate: bool = False

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
    """Return the account of a model on a build of TFLM; `offsets`, by (subgraph, tensor), is the offline plan in the
    file.

    Raises UnsupportedModelError for control flow that never ends.
    """
    return account_plan(prepare(model, platform, custom=custom), offsets)


@dataclass(frozen=True, slots=True)
class SeparateAccount:
    """The account of a model whose head and tail are separate arenas: peaks count the bytes of each on their own."""

    account: ArenaAccount

    @property
    def head_arena_bytes(self) -> int:
        """The smallest non-persistent arena, a multiple of 16, in which AllocateTensors and Invoke succeed."""
        return aligned(max(peak.head_bytes for peak in self.account.peaks))

    @property
    def tail_arena_bytes(self) -> int:
        """The smallest persistent arena, a multiple of 16, in which AllocateTensors succeeds."""
        return aligned(self.account.tail_bytes)

    @property
    def head_peak(self) -> Peak:
        """The moment that determines the size of the non-persistent arena."""
        return max(self.account.peaks, key=lambda peak: peak.head_bytes)


def account_separate(
    model: Model,
    platform: Platform,
    *,
    offsets: Offsets | None = None,
    custom: Mapping[str, OperatorEntry] | None = None,
) -> SeparateAccount:
    """Return the account of a model on a build of TFLM, with head and tail in separate arenas.

    The layout of the head is the one in a single arena. offsets: as for account_model. Raises UnsupportedModelError for
    control flow that never ends.
    """
    return SeparateAccount(account_plan(prepare(model, platform, custom=custom, separate=True), offsets))


def prepare(
    model: Model,
    platform: Platform,
    *,
    custom: Mapping[str, OperatorEntry] | None = None,
    preceding_bytes: int = 0,
    separate: bool = False,
) -> Prepared:
    """Account for all steps before planning: StartModelAllocation, parsing of options, Init and Prepare of every
    operator.

    custom: entries of operators that the user describes, by custom code. preceding_bytes: the bytes of the tail that
    earlier models in the same arena use; 0 means a new arena, which begins with the allocators. separate: head and tail
    are separate arenas.
    """
    times = timeline(model)
    tail = Tail(preceding_bytes)
    peaks: list[Peak] = []
    unaccounted: list[Unaccounted] = []
    scratch: list[Buffer] = []
    if not preceding_bytes:
        _allocate_allocators(platform, SEPARATE_ALLOCATORS if separate else ALLOCATORS, tail)
    _start_model_allocation(model, platform, tail)
    _parse_options(model, platform, tail)
    peaks.append(Peak("reading the model", _request_table_bytes(platform, 0), tail.bytes))
    entries = {(graph.index, op.index): entry_of(op, custom) for graph in model.subgraphs for op in graph.operators}
    unaccounted += _init_operators(model, platform, entries, tail)
    assigned = assignments(model)
    for graph in model.subgraphs:
        for operator in graph.operators:
            table = _request_table_bytes(platform, len(scratch))
            entry = entries[graph.index, operator.index]
            if entry is None or entry.prepare is None:
                unaccounted.append(Unaccounted(graph.index, operator.index, operator.label))
                continue
            call = Call(model, graph, operator, platform, assigned)
            temporary, refusal = _prepare_operator(call, entry, table, tail, scratch, times, separate=separate)
            if refusal is not None:
                unaccounted.append(Unaccounted(graph.index, operator.index, operator.label, refusal))
            peaks.append(Peak(f"Prepare of {operator.label}", temporary, tail.bytes, graph.index, operator.index))
    unaccounted += _planning_failures(model)
    return Prepared(
        model, platform, times, tuple(tail.rows), tail.bytes, tuple(scratch), tuple(peaks), tuple(unaccounted), separate
    )


def account_plan(prepared: Prepared, offsets: Offsets | None = None, sharing: Sharing = unshared) -> ArenaAccount:
    """Return the account with TFLM's plan of the head around the fixed offsets (none without an offline plan).

    sharing: what may share bytes in the plan. TFLM does not check offsets: it only affects the problem and the bound.
    """
    model, platform = prepared.model, prepared.platform
    tail = Tail(prepared.tail_bytes, list(prepared.rows))
    if prepared.scratch:
        handle = platform.structs["ScratchBufferHandle"]
        tail.allocate("ScratchBufferHandle array", handle.size_bytes * len(prepared.scratch), handle.alignment)
    temporary = _planning_bytes(prepared)
    peaks = [*prepared.peaks, Peak("listing allocations", temporary, tail.bytes)]
    _allocate_variables(model, offsets, tail)
    whole = head_problem(prepared, offsets)
    problem = sharing(whole)
    places = _places(whole, offsets)
    layout = _layout_of(problem, whole, places)
    # A view at an offset that is no multiple of 16 may end below the bytes that the layout reserves for its parent.
    head_bytes = _height(whole, places)
    planner_bytes = platform.size_of("GreedyMemoryPlannerBuffer") * len(whole.buffers)
    # The planner gets the space between both sides, each aligned to 16, and needs a record for each buffer.
    peaks.append(Peak("planning", aligned(temporary) + planner_bytes, aligned(tail.bytes)))
    _allocate_interface("input", model, model.main.inputs, platform, tail)
    _allocate_interface("output", model, model.main.outputs, platform, tail)
    peaks.append(Peak("Invoke", head_bytes, tail.bytes))
    return ArenaAccount(
        head_bytes=head_bytes,
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
    """Return the tensors and scratch buffers that TFLM plans, in its order."""
    return layout_problem(prepared.model, prepared.times, scratch=prepared.scratch, fixed=offsets or {})


def tflm_layout(problem: LayoutProblem, offsets: Offsets | None = None, whole: LayoutProblem | None = None) -> Layout:
    """Return the layout that TFLM's greedy planner makes around the offsets of the plan.

    whole: the buffers that TFLM plans, if these are not only those of the problem but also views of them.
    """
    planned = problem if whole is None else whole
    return _layout_of(problem, planned, _places(planned, offsets))


def _places(planned: LayoutProblem, offsets: Offsets | None) -> tuple[int, ...]:
    """Return the offsets of all buffers that TFLM plans, around those of the plan."""
    fixed = {
        index: offsets[buffer.subgraph, buffer.tensor]
        for index, buffer in enumerate(planned.buffers)
        if offsets and not buffer.is_scratch and offsets.get((buffer.subgraph, buffer.tensor), -1) != -1
    }
    return tflm_offsets(planned, fixed)


def _layout_of(problem: LayoutProblem, planned: LayoutProblem, places: tuple[int, ...]) -> Layout:
    """Return the layout of the buffers that are no views, given the offsets of all that TFLM plans."""
    if len(planned.buffers) > len(problem.buffers):
        kept, roots = [], iter(problem.buffers)
        root = next(roots, None)
        for buffer, place in zip(planned.buffers, places, strict=True):
            if root is not None and _contents(buffer) == _contents(root):
                kept.append(place)
                root = next(roots, None)
        places = tuple(kept)
    return layout_from_offsets(problem, places, lower_bound(problem))


def _contents(buffer: Buffer) -> tuple[int, int, int, str]:
    return buffer.subgraph, buffer.tensor, buffer.operator, buffer.name


# The allocations of MicroAllocator::Create, in a single arena and in the tail of separate ones.
ALLOCATORS = ("SingleArenaBufferAllocator", "GreedyMemoryPlanner", "MicroAllocator")
SEPARATE_ALLOCATORS = (
    "PersistentArenaBufferAllocator",
    "NonPersistentArenaBufferAllocator",
    "GreedyMemoryPlanner",
    "MicroAllocator",
)


def _allocate_allocators(platform: Platform, names: Sequence[str], tail: Tail) -> None:
    """Account for the allocations of MicroAllocator::Create."""
    for name in names:
        tail.allocate(name, platform.structs[name].size_bytes, platform.structs[name].alignment)


def _start_model_allocation(model: Model, platform: Platform, tail: Tail) -> None:
    """Account for resource variables and the tables of tensors and operators (MicroAllocator::StartModelAllocation)."""
    structs = platform.structs
    variables = len(resource_variables(model))
    if variables:
        for part, count in (("MicroResourceVariables", 1), ("MicroResourceVariable", variables)):
            size = structs[part].size_bytes * count
            tail.allocate(part, size, ARENA_ALIGNMENT, category=PERSISTENT_BUFFERS)
    for part, count in (("MicroBuiltinDataAllocator", 1), ("SubgraphAllocations", len(model.subgraphs))):
        tail.allocate(part, structs[part].size_bytes * count, structs[part].alignment)
    # The recording allocator counts tensors and operators here, not allocations.
    for struct, category, counts in (
        ("TfLiteEvalTensor", EVAL_TENSORS, [len(graph.tensors) for graph in model.subgraphs]),
        ("NodeAndRegistration", NODES, [len(graph.operators) for graph in model.subgraphs]),
    ):
        for graph, count in zip(model.subgraphs, counts, strict=True):
            size, alignment = structs[struct].size_bytes * count, structs[struct].alignment
            tail.allocate(f"{struct} array", size, alignment, subgraph=graph.index, category=category, count=count)


def _parse_options(model: Model, platform: Platform, tail: Tail) -> None:
    for graph in model.subgraphs:
        for operator in graph.operators:
            struct = platform.options.get(operator.code)
            if struct is not None and struct.size_bytes:
                tail.allocate(
                    "parsed options", struct.size_bytes, struct.alignment, subgraph=graph.index, operator=operator.index
                )


def _init_operators(
    model: Model, platform: Platform, entries: Mapping[tuple[int, int], OperatorEntry | None], tail: Tail
) -> list[Unaccounted]:
    """Account for Init of every operator; return the operators whose Init fails."""
    failures = []
    for graph in model.subgraphs:
        for operator in graph.operators:
            entry = entries[graph.index, operator.index]
            # The profile describes TFLM's own kernel, not one that the user describes under the same name.
            is_builtin = entry is not None and entry is entry_of(operator)
            struct = platform.op_data.get(operator.label) if is_builtin else None
            requests = [persistent("OpData", struct.size_bytes)] if struct is not None and struct.size_bytes else []
            try:
                requests += entry.init(Call(model, graph, operator, platform, {})) if entry is not None else ()
            except KernelRefusal as refusal:
                failures.append(Unaccounted(graph.index, operator.index, operator.label, str(refusal)))
            for request in requests:
                tail.allocate(
                    request.what,
                    request.size_bytes,
                    ARENA_ALIGNMENT,
                    subgraph=graph.index,
                    operator=operator.index,
                    category=PERSISTENT_BUFFERS,
                )
    return failures


def _prepare_operator(
    call: Call,
    entry: OperatorEntry,
    table: int,
    tail: Tail,
    scratch: list[Buffer],
    times: Timeline,
    *,
    separate: bool,
) -> tuple[int, str | None]:
    """Account for Prepare of one operator; return the head including its temporary allocations, and the kernel's
    refusal.

    A persistent buffer is not checked against the temporary ones
    (SingleArenaBufferAllocator::AllocatePersistentBuffer): it may overlap the last bytes of the last one, which are
    not read any more. In separate arenas, every temporary allocation needs bytes of the head.
    """
    top, unread = table, 0
    highest, peak = table, table + tail.bytes
    requested = len(scratch)
    key = (call.graph.index, call.operator.index)
    try:
        for request in entry.prepare(call) if entry.prepare is not None else ():
            if request.kind == "persistent":
                tail.allocate(
                    request.what,
                    request.size_bytes,
                    ARENA_ALIGNMENT,
                    subgraph=key[0],
                    operator=key[1],
                    category=PERSISTENT_BUFFERS,
                )
                peak = max(peak, top - unread + tail.bytes)
            elif request.kind == "scratch":
                lifetime = times.operators.get(key, DEAD)
                scratch.append(Buffer(key[0], -1, request.what, request.size_bytes, lifetime, key[1]))
            else:
                top, unread = _temporary_top(top, request, call)
                highest, peak = max(highest, top), max(peak, top + tail.bytes)
    except KernelRefusal as refusal:
        return highest if separate else peak - tail.bytes, str(refusal)
    head_bytes = highest if separate else peak - tail.bytes
    if len(scratch) > requested and key not in times.operators:
        # TFLM sets a request's size when its operator runs, and plans the others with uninitialized memory.
        return head_bytes, f"{call.operator.label} requests a scratch buffer in a subgraph that is never run"
    return head_bytes, _dynamic_output(call)


def _dynamic_output(call: Call) -> str | None:
    """Return TFLM's error about an empty output, which it takes for a dynamic tensor; None if there is none.

    Source: CheckDynamicTensors (micro_interpreter_graph.cc), where the shape (0) means a scalar.
    """
    for index in call.operator.outputs:
        shape = call.graph.tensors[index].shape if index >= 0 else ()
        if shape != (0,) and any(extent <= 0 for extent in shape):
            return f"{call.operator.label} has an empty output: its shape is {list(shape)}"
    return None


def _planning_failures(model: Model) -> list[Unaccounted]:
    """Return the tensors that AllocationInfoBuilder::InitializeAllocationInfo rejects, constants included."""
    failures = []
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.dtype in TYPES_WITHOUT_SIZE:
                text = f"TFLM defines no size for the type {tensor.dtype.name.lower()}"
                failures.append(Unaccounted(graph.index, None, f"tensor {tensor.index}", text))
        for operator in graph.operators:
            if any(arena_bytes(graph.tensors[index]) for index in operator.intermediates if index >= 0):
                text = f"{operator.label} has an intermediate tensor that is not empty"
                failures.append(Unaccounted(graph.index, operator.index, operator.label, text))
    return failures


def _temporary_top(top: int, request: Request, call: Call) -> tuple[int, int]:
    """Return the top of the temporary allocations with this one, and the bytes below it that are not read afterwards.

    These are the array of zero points and, before it, the part of TfLiteAffineQuantization after two pointers.
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
    """Return the allocations of one TfLiteTensor: itself and, if it is quantized, its parameters and zero points."""
    sizes = (platform.structs["TfLiteTensor"],)
    quantization = tensor.quantization
    if quantization is None or not is_quantized(tensor):
        return sizes
    zero_points = INT_BYTES * (1 + len(quantization.scales))
    return (*sizes, platform.structs["TfLiteAffineQuantization"], StructSize(zero_points, INT_BYTES))


def _request_table_bytes(platform: Platform, requests: int) -> int:
    """Return the size of the table of scratch requests, with room for those that the next operator may make."""
    return platform.size_of("ScratchBufferRequest") * (requests + SCRATCH_REQUESTS_PER_OPERATOR)


def _planning_bytes(prepared: Prepared) -> int:
    """Return the head while allocations are listed (AllocationInfoBuilder::CreateAllocationInfo)."""
    platform, model = prepared.platform, prepared.model
    word = platform.abi.pointer_bytes
    tensors = sum(len(graph.tensors) for graph in model.subgraphs)
    info = platform.structs["AllocationInfo"]
    top = aligned(prepared.request_table_bytes, word) + word * len(model.subgraphs)
    return aligned(top, info.alignment) + info.size_bytes * (tensors + len(prepared.scratch))


def _allocate_variables(model: Model, offsets: Offsets | None, tail: Tail) -> None:
    """Allocate variable tensors in the tail, unless the offline plan gives them an offset.

    TFLM looks up the plan by the tensor's index within its subgraph, as if it were in the main one
    (MicroAllocator::AllocateVariables).
    """
    words = [] if offsets is None else [offsets.get(key, -1) for key in model.tensor_keys]
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.is_variable and (offsets is None or words[tensor.index] == -1):
                tail.allocate(
                    "variable tensor",
                    arena_bytes(tensor),
                    ARENA_ALIGNMENT,
                    subgraph=graph.index,
                    category=VARIABLES,
                )


def _allocate_interface(what: str, model: Model, indices: tuple[int, ...], platform: Platform, tail: Tail) -> None:
    """Allocate the TfLiteTensors that input() or output() of the interpreter return."""
    pointers = platform.abi.pointer_bytes * len(indices)
    tail.allocate(f"{what} tensor pointers", pointers, ARENA_ALIGNMENT, category=PERSISTENT_BUFFERS)
    for index in indices:
        first, *parameters = tensor_structs(model.main.tensors[index], platform)
        tail.allocate(f"{what} TfLiteTensor", first.size_bytes, first.alignment, category=PERSISTENT_TENSORS)
        for part, size in zip(("TfLiteAffineQuantization", "zero points"), parameters, strict=False):
            tail.allocate(f"{what} {part}", size.size_bytes, size.alignment, category=PERSISTENT_QUANTIZATION)


# Up to this number of models, every order of initialization is tried.
MODELS_IN_ANY_ORDER = 5


@dataclass(frozen=True, slots=True)
class Tenant:
    """One of the models that share an arena: offsets, by (subgraph, tensor), is the offline plan in its file."""

    model: Model
    offsets: Offsets | None = None


@dataclass(frozen=True, slots=True)
class TenantUsage:
    """The bytes of one model: its head, and what it adds to the tail (for the first one including the allocators)."""

    head_bytes: int
    tail_bytes: int
    unaccounted: tuple[Unaccounted, ...]


@dataclass(frozen=True, slots=True)
class SharedAccount:
    """The arena of all models, initialized in the order of `parts`.

    peak is the moment that determines the arena, and peak_model the position of the model being initialized then,
    None for Invoke. best_order: the positions in the order that needs the smallest arena, of all orders for up to
    MODELS_IN_ANY_ORDER models; best_bytes is that arena.
    """

    parts: tuple[TenantUsage, ...]
    peak: Peak
    peak_model: int | None
    best_order: tuple[int, ...]
    best_bytes: int

    @property
    def head_bytes(self) -> int:
        """The size of the largest head."""
        return max(part.head_bytes for part in self.parts)

    @property
    def tail_bytes(self) -> int:
        """The persistent allocations of all models."""
        return sum(part.tail_bytes for part in self.parts)

    @property
    def used_bytes(self) -> int:
        """The value that arena_used_bytes() of each interpreter returns after the last AllocateTensors."""
        return self.head_bytes + self.tail_bytes

    @property
    def bytes(self) -> int:
        """The smallest arena, a multiple of 16, in which every model allocates and runs."""
        return self.peak.bytes

    @property
    def is_lower_bound(self) -> bool:
        """Whether some operator of some model is not accounted for."""
        return any(part.unaccounted for part in self.parts)


# Returns the account of the model at a position, with this number of bytes in the tail before it.
_AccountFunction = Callable[[int, int], ArenaAccount]


def account_shared(
    tenants: Sequence[Tenant], platform: Platform, *, custom: Mapping[str, OperatorEntry] | None = None
) -> SharedAccount:
    """Return the account of these models in one arena, initialized in this order on a build of TFLM.

    custom: entries of operators that the user describes, by custom code. Raises ValueError without a model,
    UnsupportedModelError for control flow that never ends.
    """
    if not tenants:
        raise ValueError("no model")

    @cache
    def account(position: int, preceding_bytes: int) -> ArenaAccount:
        tenant = tenants[position]
        return account_plan(
            prepare(tenant.model, platform, custom=custom, preceding_bytes=preceding_bytes), tenant.offsets
        )

    given = tuple(range(len(tenants)))
    parts, peak, peak_model = _stacked(account, given)
    best = min(
        _orders_to_try(account, len(tenants)), key=lambda order: (_stacked(account, order)[1].bytes, order != given)
    )
    return SharedAccount(parts, peak, peak_model, best, _stacked(account, best)[1].bytes)


@dataclass(frozen=True, slots=True)
class SharedSeparateAccount:
    """The two arenas of models that share them, initialized in the order of `parts`."""

    parts: tuple[TenantUsage, ...]
    head_arena_bytes: int
    tail_arena_bytes: int

    @property
    def is_lower_bound(self) -> bool:
        """Whether some operator of some model is not accounted for."""
        return any(part.unaccounted for part in self.parts)


def account_shared_separate(
    tenants: Sequence[Tenant], platform: Platform, *, custom: Mapping[str, OperatorEntry] | None = None
) -> SharedSeparateAccount:
    """Return the account of these models, initialized in this order, with head and tail in separate arenas.

    The head is that of the model with the highest moment, and the tails follow each other. custom, and the errors: as
    for account_shared.
    """
    if not tenants:
        raise ValueError("no model")
    parts, head_bytes, preceding_bytes = [], 0, 0
    for tenant in tenants:
        shifted_bytes = _shifted(preceding_bytes)
        prepared = prepare(tenant.model, platform, custom=custom, preceding_bytes=shifted_bytes, separate=True)
        single = account_plan(prepared, tenant.offsets)
        head_bytes = max(head_bytes, *(peak.head_bytes for peak in single.peaks))
        parts.append(TenantUsage(single.head_bytes, single.tail_bytes - shifted_bytes, single.unaccounted))
        preceding_bytes += single.tail_bytes - shifted_bytes
    return SharedSeparateAccount(tuple(parts), aligned(head_bytes), aligned(preceding_bytes))


def _shifted(preceding_bytes: int) -> int:
    """Return a small tail after which everything is aligned as after this one."""
    return preceding_bytes and ARENA_ALIGNMENT + preceding_bytes % ARENA_ALIGNMENT


def _stacked(account: _AccountFunction, order: Sequence[int]) -> tuple[tuple[TenantUsage, ...], Peak, int | None]:
    """Return the usages in this order, the moment that determines the arena, and the model at that moment."""
    parts, moments, preceding_bytes = [], list[tuple[Peak, int | None]](), 0
    for position in order:
        # Everything in an account shifts with the preceding tail, except for alignment to 16.
        shifted_bytes = _shifted(preceding_bytes)
        single = account(position, shifted_bytes)
        peak = _transient(single)
        moments.append((replace(peak, tail_bytes=peak.tail_bytes + preceding_bytes - shifted_bytes), position))
        parts.append(TenantUsage(single.head_bytes, single.tail_bytes - shifted_bytes, single.unaccounted))
        preceding_bytes += single.tail_bytes - shifted_bytes
    moments.append((Peak("Invoke", max(part.head_bytes for part in parts), preceding_bytes), None))
    peak, model = max(moments, key=lambda moment: (moment[0].bytes, moment[1] is None))
    return tuple(parts), peak, model


def _orders_to_try(account: _AccountFunction, count: int) -> list[tuple[int, ...]]:
    """Return all orders or, for many models, the given order and that of descending temporary bytes above the tail.

    Without alignment, the latter is optimal: exchanging two neighbours in it never lowers the arena.
    """
    if count <= MODELS_IN_ANY_ORDER:
        return list(permutations(range(count)))
    given = tuple(range(count))
    alone = [account(position, 0) for position in given]
    return [
        given,
        tuple(sorted(given, key=lambda position: alone[position].tail_bytes - _transient(alone[position]).bytes)),
    ]


def _transient(single: ArenaAccount) -> Peak:
    """Return the highest moment of AllocateTensors before the head is reserved."""
    return max(single.peaks[:-1], key=lambda peak: peak.bytes)
