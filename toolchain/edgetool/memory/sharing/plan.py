"""The tensors of a model in shared whole buffers, and those buffers one after another in an arena."""

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

    groups: the buffers of the problem by index, for each shared buffer; sizes: its bytes. A shared buffer begins where
    the one before it ends, or at the next offset that its alignment allows. offsets: one per buffer of the problem, -1
    for scratch, which TFLM alone places.
    baseline_bytes: each tensor with memory of its own; optimized_bytes: all shared buffers. lower_bound is what no
    assignment to whole buffers can beat, and proof says how optimality was established.
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
    """The tensors of the problem in shared buffers, the largest first; judged.

    Sizes count as the arena reserves them. Buffers of one alias share from the start, for the time of them all. Raises
    UsageError for a buffer that is pinned to an offset: shared ones lie where the others end.
    """
    pieces = _pieces(problem)
    ranges = {
        str(piece): LiveRange(
            min(buffer.lifetime.first for _, buffer in members),
            max(buffer.lifetime.last for _, buffer in members),
            max(aligned(buffer.aligned_bytes, buffer.alignment) for _, buffer in members),
        )
        for piece, members in enumerate(pieces)
    }
    sharing = assign(ranges, algorithm, effort=effort)
    sized = [(max(ranges[name].size or 0 for name in group), group) for group in sharing.groups]
    offsets = [-1] * len(problem.buffers)
    groups, sizes, end = [], [], 0
    for size, group in sorted(sized, key=lambda pair: -pair[0]):
        members = [index for name in group for index, _ in pieces[int(name)]]
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
    """Every tensor that needs RAM, without an arena and its scratch: variables as well, which never share."""
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


def _pieces(problem: LayoutProblem) -> list[list[tuple[int, Buffer]]]:
    """The buffers that are no scratch, by index, those of one alias together."""
    pieces: dict[str | int, list[tuple[int, Buffer]]] = {}
    for index, buffer in enumerate(problem.buffers):
        if buffer.is_scratch:
            continue
        if buffer.pinned is not None:
            raise UsageError(
                f"is pinned to offset {buffer.pinned}, but shared buffers have no offsets to choose",
                where=f"buffer {index} ({buffer.name!r})",
                fix="plan without --sharing",
            )
        pieces.setdefault(index if buffer.alias is None else buffer.alias, []).append((index, buffer))
    return list(pieces.values())
