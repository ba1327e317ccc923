"""Judges the offline memory plan of a model file: TFLM follows any plan, safe or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgetool.errors import InvalidModelError
from edgetool.memory.checker import check_layout
from edgetool.memory.lifetimes import Timeline, layout_problem
from edgetool.memory.types import Buffer, Layout, LayoutProblem, Lifetime
from edgetool.model.metadata import COMPILED_OPERATORS, METADATA_NAME, keeps_own_plan, unjudged_offsets
from edgetool.model.types import Model

# A variable tensor that the plan moves to the head keeps its contents only where nothing else ever lies.
_ALWAYS = Lifetime(-2, 2**31)


def fixed_offsets(model: Model, times: Timeline) -> dict[tuple[int, int], int]:
    """The offsets by (subgraph, tensor) that the file's own plan fixes, judged; empty when it has none.

    Offsets of constants and of empty tensors mean nothing and are left out. Raises InvalidModelError when two live
    tensors overlap in it, an offset is negative or unaligned, or a variable tensor would lose its contents or its
    memory: TFLM would follow it all the same.
    """
    offsets = unjudged_offsets(model)
    if not offsets:
        return {}
    fixed = [
        replace(buffer, lifetime=_ALWAYS)
        if model.subgraphs[buffer.subgraph].tensors[buffer.tensor].is_variable
        else buffer
        for buffer in layout_problem(model, times, fixed=offsets).buffers
        if (buffer.subgraph, buffer.tensor) in offsets
    ]
    placed = tuple(offsets[b.subgraph, b.tensor] for b in fixed)
    height = max((offset + b.aligned_bytes for offset, b in zip(placed, fixed, strict=True)), default=0)
    problems = [
        violation.message
        for violation in check_layout(LayoutProblem(tuple(fixed)), Layout(placed, height, 0, "none"))
        if violation.rule != "overlap" or not _may_overlap(model, *(fixed[i] for i in violation.buffers))
    ]
    problems += _variables_without_memory(model, offsets)
    if problems:
        raise InvalidModelError(
            f"the plan is unsafe: {problems[0]}",
            where=f"metadata {METADATA_NAME}",
            fix="create a new plan with --replan",
            details=tuple(problems[1:6]),
        )
    return {(b.subgraph, b.tensor): offset for b, offset in zip(fixed, placed, strict=True)}


def _variables_without_memory(model: Model, offsets: Mapping[tuple[int, int], int]) -> list[str]:
    """Variables of later subgraphs that TFLM gives no memory: it looks up their offset as if they were in the first."""
    keys = model.tensor_keys
    return [
        f"the variable {tensor.name!r} (tensor {tensor.index} of subgraph {graph.index}) would get no memory"
        for graph in model.subgraphs[1:]
        for tensor in graph.tensors
        if tensor.is_variable and (graph.index, tensor.index) not in offsets and keys[tensor.index] in offsets
    ]


def judged_layout(model: Model, problem: LayoutProblem, layout: Layout) -> Layout:
    """The layout with the bound that holds for it: compiled operators lay tensors over each other.

    Where they do, the largest tensor is all that is certain.
    """
    if not keeps_own_plan(model):
        return layout
    bound = max((b.aligned_bytes for b in problem.buffers), default=0)
    return Layout(layout.offsets, layout.height, bound, "bound met" if layout.height == bound else "none")


def _may_overlap(model: Model, first: Buffer, second: Buffer) -> bool:
    """Operands of one compiled operator: its compiler laid them over each other on purpose."""
    if first.subgraph != second.subgraph:
        return False
    return any(
        {first.tensor, second.tensor} <= {*op.inputs, *op.outputs}
        for op in model.subgraphs[first.subgraph].operators
        if op.custom_code in COMPILED_OPERATORS
    )
