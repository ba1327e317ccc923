"""The tensors of a model in shared whole buffers, and the offsets of these buffers in an arena, one after another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm

from edgetool.errors import UsageError
from edgetool.memory.lifetimes import DEAD, Timeline, layout_problem
from edgetool.memory.problem import Buffer, Effort, LayoutProblem, Lifetime, Proof, aligned
from edgetool.memory.sharing.assign import assign
from edgetool.memory.sharing.types import Algorithm, LiveRange
from edgetool.model.types import Model
from edgetool.operators.call import arena_bytes


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """The shared buffers of a problem.

    groups: the indices of the problem's buffers in each shared buffer; sizes: its bytes. A shared buffer begins where
    the previous one ends, or at the next offset that its alignment allows. offsets: one per buffer of the problem, -1
    for scratch, which TFLM places itself. baseline_bytes: every tensor in separate memory; optimized_bytes: all shared
    buffers. lower_bound holds for every assignment to whole buffers; proof is how optimality was established.
    """

    offsets: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    baseline_bytes: int
    optimized_bytes: int
    lower_bound: int
    proof: Proof
    cut_short: bool


def shared_offsets(
    problem: LayoutProblem, algorithm: Algorithm = "dynamic-programming", effort: Effort | None = None
) -> SharedLayout:
    """Return the tensors of the problem in shared buffers, the largest first; the assignment is checked.

    Sizes count as the arena reserves them. Buffers of one alias share from the start, for all of their lifetimes
    together. Raises UsageError for a buffer that is pinned to an offset, because shared buffers follow each other.
    """
    merged = _merge_aliases(problem)
    ranges = {
        str(index): LiveRange(
            min(buffer.lifetime.first for _, buffer in members),
            max(buffer.lifetime.last for _, buffer in members),
            max(aligned(buffer.aligned_bytes, buffer.alignment) for _, buffer in members),
        )
        for index, members in enumerate(merged)
    }
    sharing = assign(ranges, algorithm, effort=effort)
    sized = [(max(ranges[name].size or 0 for name in group), group) for group in sharing.groups]
    offsets = [-1] * len(problem.buffers)
    groups, sizes, end = [], [], 0
    for size, group in sorted(sized, key=lambda pair: -pair[0]):
        members = [index for name in group for index, _ in merged[int(name)]]
        start = aligned(end, lcm(*(problem.buffers[index].alignment for index in members)))
        for index in members:
            offsets[index] = start
        groups.append(tuple(sorted(members)))
        sizes.append(size)
        end = start + max(problem.buffers[index].aligned_bytes for index in members)
    return SharedLayout(
        offsets=tuple(offsets),
        groups=tuple(groups),
        sizes=tuple(sizes),
        baseline_bytes=sharing.baseline_bytes,
        optimized_bytes=sharing.optimized_bytes,
        lower_bound=sharing.lower_bound,
        proof=sharing.proof,
        cut_short=sharing.cut_short,
    )


def whole_problem(model: Model, times: Timeline) -> LayoutProblem:
    """Return every tensor that needs RAM, without scratch buffers; variables are included, and never share."""
    variables = {
        (graph.index, tensor.index)
        for graph in model.subgraphs
        for tensor in graph.tensors
        if tensor.is_variable and arena_bytes(tensor) > 0
    }
    buffers = layout_problem(model, times, fixed=variables).buffers
    always = Lifetime(DEAD.first, max((buffer.lifetime.last for buffer in buffers), default=0))
    return LayoutProblem(
        tuple(replace(b, lifetime=always) if (b.subgraph, b.tensor) in variables else b for b in buffers)
    )


def _merge_aliases(problem: LayoutProblem) -> list[list[tuple[int, Buffer]]]:
    """Return the (index, buffer) pairs without scratch, those of one alias together."""
    merged: dict[str | int, list[tuple[int, Buffer]]] = {}
    for index, buffer in enumerate(problem.buffers):
        if buffer.is_scratch:
            continue
        if buffer.pinned is not None:
            raise UsageError(
                f"is pinned to offset {buffer.pinned}, but shared buffers have no offsets to choose",
                where=f"buffer {index} ({buffer.name!r})",
                fix="plan without --sharing",
            )
        merged.setdefault(index if buffer.alias is None else buffer.alias, []).append((index, buffer))
    return list(merged.values())
