"""The offsets of a model's tensors that make the head lowest, as TFLM will realise it.

An offline plan fixes tensors alone: TFLM's own planner fits scratch buffers around them, the largest first. So a
layout of tensors and scratch together bounds what can be reached, and what counts is the layout that comes back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from edgetool.memory.account import realised_layout
from edgetool.memory.layout.solve import solve
from edgetool.memory.plan_options import PlanOptions
from edgetool.memory.sharing.plan import SharedLayout, shared_offsets
from edgetool.memory.types import Buffer, Layout, LayoutProblem, Proof
from edgetool.model.types import Model

Offsets = Mapping[tuple[int, int], int]


def place(model: Model, problem: LayoutProblem, options: PlanOptions) -> tuple[Offsets, Layout]:
    """Offsets by (subgraph, tensor) for an offline plan, and the layout that TFLM makes of them.

    The layout's lower bound and proof hold for the head that any plan of this operator order could reach.
    """
    joint = solve(problem, options.effort, strategy=options.strategy)
    best: tuple[Offsets, Layout] | None = None
    for layout in _tries(problem, joint, options):
        offsets = tensor_offsets(model, problem, layout)
        realised = realised_layout(problem, offsets)
        if best is None or realised.height < best[1].height:
            best = offsets, realised
        if best[1].height <= joint.height:
            break
    assert best is not None
    offsets, realised = best
    proof: Proof = "none"
    if realised.height == joint.lower_bound:
        # What the search could not reach, TFLM's own fit of scratch may: the bound that it meets may be the search's.
        found: Proof = "bound met" if joint.lower_bound == realised.lower_bound else "search exhausted"
        proof = found if joint.proof == "none" else joint.proof
    return offsets, replace(realised, lower_bound=joint.lower_bound, proof=proof)


def place_shared(model: Model, problem: LayoutProblem, options: PlanOptions) -> tuple[SharedLayout, Offsets, Layout]:
    """Shared whole buffers one after another, the offsets that this gives, and the layout that TFLM makes of them."""
    assert options.sharing is not None
    shared = shared_offsets(problem, options.sharing, options.effort)
    offsets = tensor_offsets(model, problem, shared.offsets)
    return shared, offsets, realised_layout(problem, offsets)


def _tries(problem: LayoutProblem, joint: Layout, options: PlanOptions) -> Iterator[tuple[int, ...]]:
    """Layouts to realise, made when asked for: the best one, then such as leave scratch no choice."""
    yield joint.offsets
    if options.strategy != "optimal":
        return
    if any(buffer.is_scratch for buffer in problem.buffers):
        yield _with_joined_scratch(problem, options)
    yield solve(problem, options.effort, strategy="greedy").offsets


def _with_joined_scratch(problem: LayoutProblem, options: PlanOptions) -> tuple[int, ...]:
    """A layout in which the scratch of each operator lies together: however TFLM fits it in there, there is room."""
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, buffer in enumerate(problem.buffers):
        groups[(buffer.subgraph, buffer.operator) if buffer.is_scratch else (-1, index)].append(index)
    members = list(groups.values())
    joined = LayoutProblem(tuple(_joined([problem.buffers[index] for index in group]) for group in members))
    layout = solve(joined, options.effort, strategy=options.strategy)
    offsets = [0] * len(problem.buffers)
    for group, start in zip(members, layout.offsets, strict=True):
        for index in group:
            offsets[index] = start
            start += problem.buffers[index].aligned_bytes
    return tuple(offsets)


def _joined(buffers: list[Buffer]) -> Buffer:
    return replace(buffers[0], size_bytes=sum(buffer.aligned_bytes for buffer in buffers))


def tensor_offsets(model: Model, problem: LayoutProblem, offsets: Sequence[int]) -> Offsets:
    """What an offline plan fixes of a layout: its tensors, less those that TFLM would confuse with variables."""
    kept = set(_confused_with_variables(model))
    return {
        (buffer.subgraph, buffer.tensor): offset
        for buffer, offset in zip(problem.buffers, offsets, strict=True)
        if not buffer.is_scratch and (buffer.subgraph, buffer.tensor) not in kept
    }


def _confused_with_variables(model: Model) -> list[tuple[int, int]]:
    """Tensors whose offset TFLM takes for that of a variable tensor of a later subgraph, which then gets no memory.

    MicroAllocator::AllocateVariables looks into the plan by the variable's index within its own subgraph.
    """
    keys = model.tensor_keys
    return [keys[tensor.index] for graph in model.subgraphs[1:] for tensor in graph.tensors if tensor.is_variable]
