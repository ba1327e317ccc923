"""The memory of a native program: its buffers as a layout problem, and the arena of a layout.

Buffers are the tensors that are computed, scratch of kernels, and state. The arena contains nothing else. An output may
overlap an input that dies at its step, as far as the kernel's order of access allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgetool.codegen.native.lower import NativeProgram
from edgetool.codegen.native.program import Step
from edgetool.memory.bound import lower_bound
from edgetool.memory.layout.solve import LayoutStrategy, solve
from edgetool.memory.problem import (
    ArenaPart,
    Buffer,
    Effort,
    Layout,
    LayoutProblem,
    Lifetime,
    Overlap,
    SeveralLayout,
    aligned,
    place_in_parts,
)

# Offsets are multiples of this, which is enough for every kernel; those of 64-bit elements are of twice that.
ALIGNMENT = 4


@dataclass(frozen=True, slots=True)
class NativeMemory:
    """The offset of each root tensor and of each step's scratch in the arena, and the layout that they are from.

    descending: the steps that must run with a field of their descriptor set, by index, because of their overlap. parts:
    those of an arena in several memories, by start; no buffer is in two of them. Nothing if the arena is one array.
    """

    problem: LayoutProblem
    layout: Layout
    tensors: Mapping[int, int]
    scratch: Mapping[int, int]
    fields: Mapping[int, str]
    parts: tuple[ArenaPart, ...] = ()

    def place_of(self, offset: int) -> tuple[int, int]:
        """Return the number of the part of the arena that an offset is in, and the offset in that part."""
        return place_in_parts(self.parts, offset)

    @property
    def alignment(self) -> int:
        """The alignment of the arena."""
        return max((buffer.alignment for buffer in self.problem.buffers), default=ALIGNMENT)

    @property
    def arena_bytes(self) -> int:
        """The size of the arena: 0 for a model without any buffer."""
        return self.layout.height


def in_program_order(program: NativeProgram, order: tuple[int, ...]) -> NativeProgram:
    """Return the program with its steps in the order of these operators."""
    place = {operator: position for position, operator in enumerate(order)}
    return replace(program, steps=tuple(sorted(program.steps, key=lambda step: place[step.operator])))


def native_problem(program: NativeProgram) -> LayoutProblem:
    """Return the buffers of a program and how they may overlap; positions are those of its steps."""
    graph, last_step = program.graph, len(program.steps)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    always = {program.places[state].root for step in program.steps for state in step.states}
    for index in graph.inputs:
        _touch(program, index, -1, first, last)
    for position, step in enumerate(program.steps):
        for item in step.inputs:
            if isinstance(item.source, int):
                _touch(program, item.source, position, first, last)
        if step.block is not None:
            _touch(program, step.block.tensor, position, first, last)
        _touch(program, step.output, position if step.begins is None else step.begins, first, last)
        for state in step.states:
            _touch(program, state, position, first, last)
    for index in graph.outputs:
        _touch(program, index, last_step, first, last)
    always |= {root for root in first if graph.tensors[root].is_variable}
    blocks = {step.block.tensor: step.block.alignment for step in program.steps if step.block is not None}
    buffers = [
        Buffer(
            subgraph=0,
            tensor=root,
            name=graph.tensors[root].name,
            size_bytes=graph.tensors[root].size_bytes,
            lifetime=Lifetime(-1, last_step) if root in always else Lifetime(first[root], last[root]),
            alignment=max(ALIGNMENT, graph.tensors[root].dtype.bits // 8, blocks.get(root, ALIGNMENT)),
            granule=ALIGNMENT,
        )
        for root in sorted(first)
    ]
    position_of = {buffer.tensor: i for i, buffer in enumerate(buffers)}
    for position, step in enumerate(program.steps):
        if step.scratch_bytes:
            buffers.append(
                Buffer(
                    subgraph=0,
                    tensor=-1,
                    name=step.kernel,
                    size_bytes=step.scratch_bytes,
                    lifetime=Lifetime(position, position),
                    operator=position,
                    alignment=ALIGNMENT,
                    granule=ALIGNMENT,
                )
            )
    writers = Counter(program.places[step.output].root for step in program.steps)
    overlaps = [
        overlap
        for position, step in enumerate(program.steps)
        if writers[program.places[step.output].root] == 1
        for overlap in _step_overlaps(program, position, step, position_of, buffers)
    ]
    return LayoutProblem(tuple(buffers), tuple(overlaps))


def _touch(program: NativeProgram, tensor: int, position: int, first: dict[int, int], last: dict[int, int]) -> None:
    place = program.places[tensor]
    if place.constant is None:
        first.setdefault(place.root, position)
        last[place.root] = position


def _step_overlaps(
    program: NativeProgram, position: int, step: Step, position_of: Mapping[int, int], buffers: list[Buffer]
) -> list[Overlap]:
    """Return the overlaps of the output of a step, which alone writes it, with inputs that die there."""
    output = program.places[step.output]
    written = buffers[position_of[output.root]].lifetime
    if written.first != position or any(output.root == program.places[state].root for state in step.states):
        return []
    result = []
    for number, item in enumerate(step.inputs):
        if not isinstance(item.source, int) or program.places[item.source].constant is not None:
            continue
        source = program.places[item.source]
        times = [i for i, other in enumerate(step.inputs) if _root(program, other.source) == source.root]
        if source.root == output.root or buffers[position_of[source.root]].lifetime.last != position or len(times) > 1:
            continue
        shift = source.offset - output.offset - step.output_offset
        for overlap in step.overlaps:
            if overlap.input != number:
                continue
            first, second = position_of[source.root], position_of[output.root]
            if overlap.descending:
                result.append(Overlap(second, first, overlap.distance + shift))
            else:
                result.append(Overlap(first, second, overlap.distance - shift))
    return result


def _root(program: NativeProgram, source: object) -> int | None:
    return program.places[source].root if isinstance(source, int) else None


def place_buffers(
    program: NativeProgram, effort: Effort | None = None, *, strategy: LayoutStrategy = "optimal"
) -> NativeMemory:
    """Return the smallest arena for the program's steps in their order."""
    problem = native_problem(program)
    return memory_of(program, problem, solve(problem, effort, strategy=strategy))


def memory_of(program: NativeProgram, problem: LayoutProblem, layout: Layout) -> NativeMemory:
    """Return the offsets of a layout by tensor and step, and the fields that its overlaps need."""
    tensors = {b.tensor: offset for b, offset in zip(problem.buffers, layout.offsets, strict=True) if b.tensor >= 0}
    scratch = {b.operator: offset for b, offset in zip(problem.buffers, layout.offsets, strict=True) if b.tensor < 0}
    fields = {}
    for position, step in enumerate(program.steps):
        for overlap in step.overlaps:
            if overlap.descending and _needs(program, step, overlap.input, tensors):
                fields[position] = overlap.field
    return NativeMemory(problem, layout, tensors, scratch, fields)


def _needs(program: NativeProgram, step: Step, number: int, tensors: Mapping[int, int]) -> bool:
    """Return whether a step's output overlaps an input so that only the descending order is safe."""
    source = step.inputs[number].source
    if not isinstance(source, int) or program.places[source].constant is not None:
        return False
    here, there = program.places[step.output], program.places[source]
    start = tensors[here.root] + here.offset + step.output_offset
    other = tensors[there.root] + there.offset
    size = program.graph.tensors[step.output].size_bytes
    disjoint = start + size <= other or other + program.graph.tensors[source].size_bytes <= start
    ascending = any(o.input == number and not o.descending and other - start >= o.distance for o in step.overlaps)
    return not disjoint and not ascending


def memory_in_parts(
    program: NativeProgram, problem: LayoutProblem, placed: SeveralLayout, names: Sequence[str]
) -> NativeMemory:
    """Return the arena of a choice of memories: the parts in them, one behind the other.

    names: the names of the memories. A memory without buffers has no part.
    """
    alignment = max((buffer.alignment for buffer in problem.buffers), default=ALIGNMENT)
    starts, parts, end = [], [], 0
    for name, height in zip(names, placed.heights, strict=True):
        starts.append(aligned(end, alignment))
        if height:
            parts.append(ArenaPart(name, starts[-1], height))
            end = starts[-1] + height
    offsets = tuple(starts[memory] + offset for memory, offset in zip(placed.memories, placed.offsets, strict=True))
    layout = Layout(offsets, end, lower_bound(problem), "none")
    return replace(memory_of(program, problem, layout), parts=tuple(parts))


def memory_apart(program: NativeProgram) -> NativeMemory:
    """Return an arena in which no buffers share bytes, for counts that do not depend on a plan."""
    problem = native_problem(program)
    offsets, end = [], 0
    for buffer in problem.buffers:
        offsets.append(aligned(end, buffer.alignment))
        end = offsets[-1] + buffer.aligned_bytes
    return memory_of(program, problem, Layout(tuple(offsets), end, end, "none"))
