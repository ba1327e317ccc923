"""The arena of native code in several memories of a board: which memory holds each buffer, and what that costs.

A buffer costs the cycles that the core waits for the bytes which an inference moves: a tensor is written once and read
once by each step that needs it; scratch is written and read once in each call of its kernel. As in the estimate, the
core does not wait for what an operator touches if the memory's cache holds all of it. memory/several.py places all
buffers as one problem, and memory/streaming/several.py those of a plan of rows: all rows of a tensor, and the scratch
of a step, are one buffer there. External memories whose speed the profile does not state come last, and of equally fast
memories, the board's usual one first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from edgetool.codegen.memories import KERNEL_FILES
from edgetool.codegen.native.code_size import kernels_bytes
from edgetool.codegen.native.files import ARENA
from edgetool.codegen.native.loads import (
    begun_early,
    begun_late,
    block_bytes,
    require_loaded,
    with_loads,
    with_transfers,
)
from edgetool.codegen.native.loops.registry import code_of, program_loops
from edgetool.codegen.native.lower import NativeProgram
from edgetool.codegen.native.plan import NativeMemory, memory_apart, memory_in_parts, native_problem
from edgetool.codegen.native.program import Step
from edgetool.codegen.spec import PlacedCode, PlacedSpec
from edgetool.errors import FailedCheckError
from edgetool.estimate.memory_speed import speeds_of
from edgetool.estimate.native import is_estimated, step_instructions
from edgetool.finding import Finding
from edgetool.memory.checker import require_valid, require_valid_choice, require_valid_lowest
from edgetool.memory.problem import (
    Buffer,
    Effort,
    LayoutProblem,
    LowestLayout,
    Memory,
    SeveralLayout,
    SeveralProblem,
)
from edgetool.memory.several import NoChoice, solve_lowest, solve_several
from edgetool.pipeline.analysis import Analysis
from edgetool.pipeline.native_rows import program_costs
from edgetool.pipeline.placed_code import code_finding, code_part, placed_code
from edgetool.report.document import ArenaPlacementInfo, BufferPlaceInfo, PlacedInfo
from edgetool.target.load import with_memories
from edgetool.target.native_places import CONSTANTS, NativePlaces, unknown_tensor
from edgetool.target.places import OPTION
from edgetool.target.tables import load_instructions, native_core
from edgetool.target.types import MemoryRegion, Target

# Costs are in these parts of a cycle per byte; one of them is the price of a memory that is one place further behind.
STEPS_PER_CYCLE = 1_000_000
UNKNOWN_COST = 1_000 * STEPS_PER_CYCLE  # per byte of an external memory whose speed is unknown
# The findings on a single arena in the board's usual memory.
REPLACED_RULES = frozenset({"arena-too-large", "model-too-large", "code-too-large"})


@dataclass(frozen=True, slots=True)
class PlacedArena:
    """A program's buffers in several memories.

    Attributes:
        program: The program, with a copy of the constants of some steps (codegen/native/loads.py).
        memory: The arena, with its parts.
        places: The memories that were possible.
        choice: The memory of each buffer by its number in places.arena; of a plan of rows, of each tensor, and of the
            scratch of each operator.
        lowest: The same, if the bytes in one memory were minimized.
        waiting_cycles: How long the core waits for memory at each operator, by index.
        waiting_bound: What no placement waits less than, in cycles.
        is_known: Whether the speeds of all memories in use are known.
        buffers: The buffers for reports.
        row_wise: Whether rows are planned instead of tensors.
    """

    program: NativeProgram
    memory: NativeMemory
    places: NativePlaces
    choice: SeveralLayout
    lowest: LowestLayout | None
    waiting_cycles: dict[int, float]
    waiting_bound: float
    is_known: bool
    buffers: tuple[BufferPlaceInfo, ...]
    row_wise: bool = False

    @property
    def regions(self) -> tuple[MemoryRegion, ...]:
        """The memories in use, in the order of the arena's parts."""
        by_name = {region.name: region for region in self.places.arena}
        return tuple(by_name[part.memory] for part in self.memory.parts)

    def waits_longer_than(self, other: PlacedArena) -> bool:
        """Return whether the core waits at least a cycle longer for buffers, where unknown memories count most."""
        return self.choice.cost // STEPS_PER_CYCLE > other.choice.cost // STEPS_PER_CYCLE

    def on(self, target: Target) -> Target:
        """Return the target with its constants there, and its arena in the slowest kind of the memories in use."""
        slowest = max(self.regions, key=lambda region: region.kind == "external-ram", default=None)
        constants = self.places.constants
        return with_memories(
            target,
            arena=None if slowest is None else slowest.name,
            model=None if constants is None else constants.name,
        )

    def parts(self, constant_bytes: int) -> tuple[PlacedInfo, ...]:
        """Return what each memory holds."""
        sizes = [(ARENA, region, part.size_bytes) for region, part in zip(self.regions, self.memory.parts, strict=True)]
        if self.places.constants is not None:
            sizes.append((CONSTANTS, self.places.constants, constant_bytes))
        if self.places.code is not None and self.code_bytes is not None:
            sizes.append((code_part(self.places.code), self.places.code, self.code_bytes))
        used = Counter[str]()
        for _, region, size in sizes:
            used[region.name] += size
        return tuple(
            PlacedInfo(part, region.name, size, region.size_bytes, used[region.name] <= region.size_bytes)
            for part, region, size in sizes
        )

    @property
    def code_bytes(self) -> int | None:
        """The bytes of the kernels; None if they were not measured for the core."""
        return kernels_bytes(self.program, self.places.core.name, row_wise=self.row_wise)

    def specs(self, target: Target, constant_bytes: int) -> tuple[PlacedSpec, ...]:
        """Return the same for the firmware."""
        regions = {region.name: region for region in target.regions}
        code = target.code_region
        return tuple(
            PlacedSpec(
                item.part,
                item.memory,
                item.memory_bytes,
                item.bytes,
                regions[item.memory].base_address,
                item.part == CONSTANTS and code is not None and code.name == item.memory,
            )
            for item in self.parts(constant_bytes)
            if item.part in (ARENA, CONSTANTS)
        )

    def code_spec(self) -> PlacedCode | None:
        """Return where the firmware has its kernels; None for the compiler's own section."""
        return placed_code(self.places.code, KERNEL_FILES)

    def judged(self, analysis: Analysis, constant_bytes: int) -> Analysis:
        """Return an analysis with the fit and the findings for these memories."""
        fit = analysis.fit
        if fit is None or not self.regions:
            return analysis
        parts = self.parts(constant_bytes)
        first = parts[0]
        stored = next((item for item in parts if item.part == CONSTANTS), None)
        judged = replace(
            fit,
            region=first.memory,
            sram_bytes=first.memory_bytes,
            flash_bytes=None if stored is None else stored.memory_bytes,
            arena_fits=first.fits,
            model_fits=None if stored is None else stored.fits,
        )
        findings = [finding for finding in analysis.findings if finding.rule not in REPLACED_RULES]
        where = None if analysis.target is None else analysis.target.name
        for name in dict.fromkeys(item.memory for item in parts if not item.fits):
            there = [item for item in parts if item.memory == name]
            size, taken = there[0].memory_bytes, " and ".join(f"{item.part} {item.bytes:,}" for item in there)
            text = f"{name} has {size:,} bytes, {sum(item.bytes for item in there) - size:,} fewer than {taken}"
            findings.append(Finding("memory-too-small", text, where=where))
        if self.places.code is not None:
            findings.append(code_finding(self.places.code, self.code_bytes, self.places.core.name, where))
        return replace(analysis, fit=judged, findings=tuple(findings))

    @property
    def info(self) -> ArenaPlacementInfo:
        """The placement for reports."""
        choice, regions = self.choice, [region.name for region in self.places.arena]
        steps = self.program.steps
        copied = [step for step in steps if step.block is not None]
        waiting = sum(self.waiting_cycles.values())
        # Whether a placement that waits for nothing has the usual memories first does not matter.
        is_least = self.is_known and self.lowest is None and not waiting
        return ArenaPlacementInfo(
            waiting_cycles=waiting if self.is_known else None,
            waiting_lower_bound_cycles=min(self.waiting_bound, waiting) if self.is_known else None,
            optimal=choice.optimal or is_least,
            proof="bound met" if is_least else choice.proof,
            minimized=None if self.lowest is None else regions[self.lowest.memory],
            minimized_bytes=None if self.lowest is None else self.lowest.height,
            minimized_lower_bound=None if self.lowest is None else self.lowest.lower_bound_bytes,
            buffers=self.buffers,
            copied=tuple(step.operator for step in copied),
            copied_bytes=sum(block_bytes(step) or 0 for step in copied),
            copies_begin=tuple(steps[step.begins].operator for step in steps if step.begins is not None),
        )


def load_savings(program: NativeProgram, target: Target) -> dict[int, float]:
    """Return the cycles that a copy of the constants of a step in RAM saves, by step, where it saves any.

    The constants are then read once from flash. The copy costs its instructions. Nothing is returned if the estimate
    has no such costs: it has them for operators that read more constants than the cache of a serial flash holds.
    """
    speeds, core = speeds_of(target), native_core(target.core)
    if not is_estimated(target) or core is None or target.timing is None or not speeds.in_place:
        return {}
    costs = {cost.index: cost for cost in program_costs(program) if cost.subgraph == 0}
    with_constants = Counter(step.operator for step in program.steps if block_bytes(step))
    candidates = [
        position
        for position, step in enumerate(program.steps)
        if with_constants[step.operator] == 1
        and block_bytes(step)
        and costs[step.operator].parameter_bytes > speeds.cache_bytes
    ]
    code, table = code_of(target.core), load_instructions(core, "native")
    loaded = with_loads(program, candidates)
    loops, copies = (program_loops(item, memory_apart(item), code) for item in (program, loaded))
    savings = {}
    for number, position in enumerate(candidates):
        copy = copies[position + number]
        instructions = step_instructions(copy.kernel, copy.counts, table)
        parameter_bytes = costs[program.steps[position].operator].parameter_bytes
        saved = parameter_bytes * (loops[position].constant_reads - 1) * speeds.constant_stall
        if instructions is not None and saved > instructions * target.timing.cpi:
            savings[position] = saved - instructions * target.timing.cpi
    return savings


def place_arena(
    program: NativeProgram, places: NativePlaces, effort: Effort, savings: Mapping[int, float] | None = None
) -> PlacedArena | NoChoice:
    """Return the placement of a program's buffers with the least waiting, or with the fewest bytes of one memory.

    savings: the cycles that copies of the constants of steps save; they are made where RAM on the chip is free for it.
    """
    if not savings or places.minimized is not None:
        return _placed(program, places, effort)
    positions = sorted(savings)
    candidates = with_loads(program, positions)
    if places.dma:
        candidates = begun_late(with_transfers(candidates, places.core.data_cache_line_bytes))
    first = len(program.graph.tensors)
    optional = {first + number: savings[position] for number, position in enumerate(positions)}
    found = solve_several(_problem(candidates, places, optional), effort)
    if isinstance(found, NoChoice):
        return found
    in_ram = {
        buffer.tensor
        for buffer, memory in zip(native_problem(candidates).buffers, found.memories, strict=True)
        if memory < len(places.arena)
    }
    loaded = with_loads(program, [item for number, item in enumerate(positions) if first + number in in_ram])
    if not places.dma:
        return _placed(loaded, places, effort)
    ahead = with_transfers(loaded, places.core.data_cache_line_bytes)
    late, early = (_placed(item, places, effort) for item in (begun_late(ahead), ahead))
    # Buffers that are live longer must not push others into slower memory.
    if isinstance(early, NoChoice) or (isinstance(late, PlacedArena) and early.waits_longer_than(late)):
        early = late
    return early if isinstance(early, NoChoice) else _begun_early(early)


def _begun_early(placed: PlacedArena) -> PlacedArena:
    """Return the same arena with copies that begin as soon as their bytes are free."""
    program = begun_early(placed.program, placed.memory)
    return _arena_of(program, placed.places, _loaded_problem(program, placed.places), placed.choice, placed.lowest)


def _loaded_problem(program: NativeProgram, places: NativePlaces) -> SeveralProblem:
    """Return the problem of a program all of whose copies of constants are made."""
    blocks = {step.block.tensor: 0.0 for step in program.steps if step.block is not None}
    return _problem(program, places, blocks, must_load=True)


def _problem(
    program: NativeProgram, places: NativePlaces, loads: Mapping[int, float], *, must_load: bool = False
) -> SeveralProblem:
    """Return the buffers and their costs in the memories of the arena.

    loads: copies of constants, by tensor, with the cycles that they save; unless they must be made, another memory
    stands for those that are not.
    """
    problem = native_problem(program)
    moves = _moves(program, problem)
    costs: list[tuple[int | None, ...]] = []
    for buffer, moved, allowed in zip(problem.buffers, moves, _allowed(problem.buffers, places), strict=True):
        saving = loads.get(buffer.tensor)
        if saving is not None:
            allowed = tuple(
                region
                for region in allowed
                if region.kind != "external-ram" and (not places.dma or region in places.dma)
            )
        own: list[int | None] = [
            sum(move.cost(region, rank) for move in moved) if region in allowed else None
            for rank, region in enumerate(places.arena)
        ]
        if loads and not must_load:
            own.append(None if saving is None else round(saving * STEPS_PER_CYCLE))
        costs.append(tuple(own))
    memories = memories_beside_code(program, places)
    if loads and not must_load:
        memories.append(Memory("not copied", sum(buffer.aligned_bytes for buffer in problem.buffers)))
    return SeveralProblem(problem, tuple(memories), tuple(costs))


def memories_beside_code(program: NativeProgram, places: NativePlaces, *, row_wise: bool = False) -> list[Memory]:
    """Return the memories of the arena, of which one may have room only beside the kernels."""
    code_bytes = kernels_bytes(program, places.core.name, row_wise=row_wise) or 0
    return [
        Memory(region.name, max(0, region.size_bytes - (code_bytes if region == places.code else 0)))
        for region in places.arena
    ]


def _placed(program: NativeProgram, places: NativePlaces, effort: Effort) -> PlacedArena | NoChoice:
    several = _loaded_problem(program, places)
    if places.minimized is None:
        found = solve_several(several, effort)
        return found if isinstance(found, NoChoice) else _arena_of(program, places, several, found, None)
    least = solve_lowest(several, places.arena.index(places.minimized), effort)
    if isinstance(least, NoChoice):
        return least
    lowest = require_valid_lowest(several, least)
    return _arena_of(program, places, several, lowest.layout, lowest)


def _arena_of(
    program: NativeProgram,
    places: NativePlaces,
    several: SeveralProblem,
    choice: SeveralLayout,
    lowest: LowestLayout | None,
) -> PlacedArena:
    """Return the arena of a choice of memories after the checkers have judged it."""
    require_valid_choice(several, choice)
    problem = several.buffers
    memory = memory_in_parts(program, problem, choice, [region.name for region in places.arena])
    require_valid(memory.problem, memory.layout)
    require_loaded(program, memory)
    of_buffers = zip(_moves(program, problem), choice.memories, strict=True)
    moved = [(move, places.arena[number]) for moves, number in of_buffers for move in moves]
    locations = (memory.place_of(offset)[1] for offset in memory.layout.offsets)
    buffers = tuple(
        BufferPlaceInfo(buffer.name, buffer.tensor, places.arena[number].name, start, buffer.size_bytes)
        for buffer, number, start in zip(problem.buffers, choice.memories, locations, strict=True)
    )
    used = {places.arena[number] for number in choice.memories}
    return PlacedArena(
        program,
        memory,
        places,
        choice,
        lowest,
        waiting_cycles(moved),
        waiting_bound(choice, places, (move for move, _ in moved)),
        are_known(used),
        buffers,
    )


def waiting_bound(choice: SeveralLayout, places: NativePlaces, moves: Iterable[Move]) -> float:
    """Return what no placement waits less than, in cycles, from the bound of its cost without the prices of ranks."""
    most = (len(places.arena) - 1) * sum(move.read_bytes + move.written_bytes for move in moves)
    return max(0.0, (choice.lower_bound - most) / STEPS_PER_CYCLE)


def are_known(regions: Iterable[MemoryRegion]) -> bool:
    """Return whether the waits for all of these memories are known."""
    nothing = Move(0, None, 0, 0, 0, 0)
    return all(nothing.waiting(region) is not None for region in regions)


def _moves(program: NativeProgram, problem: LayoutProblem) -> list[list[Move]]:
    """Return what is moved of each buffer."""
    numbers = {(buffer.tensor, buffer.operator): i for i, buffer in enumerate(problem.buffers)}
    moves: list[list[Move]] = [[] for _ in problem.buffers]
    for move in moves_of(program):
        key = (-1, move.position) if move.tensor is None else (move.tensor, -1)
        moves[numbers[key]].append(move)
    return moves


def no_room(arena_bytes: int, places: NativePlaces, name: str, target: Target, *, proven: bool) -> FailedCheckError:
    """Return the error for buffers that fit no memories. arena_bytes: those of the smallest plan in one memory."""
    sizes = ", ".join(f"{region.name} with {region.size_bytes:,} bytes" for region in places.arena)
    found = "no placement of the buffers fits" if proven else "no placement was found that fits"
    return FailedCheckError(
        f"{found} in {sizes}: in one memory, the smallest arena takes {arena_bytes:,} bytes",
        where=f"{name} on {target.name}, {OPTION}",
        fix="allow more memories for the arena, or choose a board with more",
    )


def require_tensors(names: Sequence[str], places: NativePlaces) -> None:
    """Raise UsageError if one of the tensors that are placed is not among the names of buffers."""
    for name in places.tensors:
        if name not in names:
            raise unknown_tensor(name, names)


def _allowed(buffers: Sequence[Buffer], places: NativePlaces) -> list[tuple[MemoryRegion, ...]]:
    return [places.tensors.get(buffer.name, places.arena) if buffer.tensor >= 0 else places.arena for buffer in buffers]


@dataclass(frozen=True, slots=True)
class Move:
    """What a step moves in an inference.

    Attributes:
        operator: The index of the operator that the step belongs to.
        tensor: The root tensor; None for the scratch of the step.
        position: That of the step.
        read_bytes: What it reads.
        written_bytes: What it writes.
        touched_bytes: What its operator touches: constants, inputs and outputs.
    """

    operator: int
    tensor: int | None
    position: int
    read_bytes: int
    written_bytes: int
    touched_bytes: int

    def waiting(self, region: MemoryRegion) -> float | None:
        """Return the cycles that the core waits for a memory; None if they are unknown.

        RAM on the chip has none, and neither has memory whose cache holds all that the operator touches: it holds what
        the operators before wrote (estimate/memory_speed.py).
        """
        if region.kind != "external-ram":
            return 0.0
        stall = region.stall_cycles_per_byte
        if stall is None and region.wait_states is not None and region.access_bytes is not None:
            stall = region.wait_states / region.access_bytes
        if stall is None:
            return None
        if self.touched_bytes <= region.cache_bytes:
            return 0.0
        writing = region.write_stall_cycles_per_byte
        return self.read_bytes * stall + self.written_bytes * (stall if writing is None else writing)

    def cost(self, region: MemoryRegion, rank: int) -> int:
        """Return the same in parts of a cycle, and more for memories that are further behind."""
        waiting, moved = self.waiting(region), self.read_bytes + self.written_bytes
        return moved * rank + (moved * UNKNOWN_COST if waiting is None else round(waiting * STEPS_PER_CYCLE))


def moves_of(program: NativeProgram) -> Iterator[Move]:
    """Yield what each step reads or writes in the arena: a tensor, or its scratch."""
    costs = {cost.index: cost for cost in program_costs(program) if cost.subgraph == 0}
    for position, step in enumerate(program.steps):
        cost = costs[step.operator]
        base = Move(step.operator, None, position, 0, 0, cost.parameter_bytes + cost.activation_bytes)
        yield replace(base, tensor=program.places[step.output].root, written_bytes=step.output_bytes)
        for tensor in (*(item.source for item in step.inputs if isinstance(item.source, int)), *step.states):
            place = program.places[tensor]
            if place.constant is None:
                yield replace(base, tensor=place.root, read_bytes=program.graph.tensors[tensor].size_bytes)
        if step.block is not None:
            yield replace(base, tensor=step.block.tensor, read_bytes=block_bytes(step) or 0)
        if step.scratch_bytes:
            scratch_bytes = step.scratch_bytes * _calls(step)
            yield replace(base, read_bytes=scratch_bytes, written_bytes=scratch_bytes)


def waiting_cycles(moves: Iterable[tuple[Move, MemoryRegion]]) -> dict[int, float]:
    """Return how long the core waits for memories at each operator, by index; unknown waits count nothing."""
    waiting: dict[int, float] = {}
    for move, region in moves:
        waiting[move.operator] = waiting.get(move.operator, 0.0) + (move.waiting(region) or 0.0)
    return waiting


def _calls(step: Step) -> int:
    """Return how many times a step calls its kernel with its scratch."""
    return -(-step.rows // step.band) * step.batches - len(step.bare)
