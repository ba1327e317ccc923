"""The offline memory plan: how a layout reaches stock TFLM through the model file's metadata.

Format (micro_allocation_info.cc, GetOfflinePlannedOffsets): int32 words, little endian: version,
subgraph count, n, then n offsets, one for each tensor of all subgraphs in order. -1 leaves a tensor to the
runtime. TFLM checks n alone, so whoever writes a plan is the only guard it has.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace

from edgetool.errors import InvalidModelError, UnsupportedModelError
from edgetool.memory.checker import check_layout
from edgetool.memory.lifetimes import Timeline, layout_problem
from edgetool.memory.types import Buffer, Layout, LayoutProblem, Lifetime
from edgetool.model.types import Model

METADATA_NAME = "OfflineMemoryAllocation"
PLAN_VERSION = 1
PLANNED_AT_RUN_TIME = -1
HEADER_WORDS = 3
# Custom operators that hold a command stream for an accelerator, with the addresses of its tensors in it
# (Arm's Vela writes "ethos-u"). Their plan must stay as it is.
COMPILED_OPERATORS = frozenset(["ethos-u"])
MAX_OFFSET = 2**31 - 1
# A variable tensor that the plan moves to the head keeps its contents only where nothing else ever lies.
_ALWAYS = Lifetime(-2, 2**31)


def encode_plan(model: Model, offsets: Mapping[tuple[int, int], int]) -> bytes:
    """The plan's payload for offsets by (subgraph, tensor). All other tensors stay with the runtime.

    Raises UnsupportedModelError when an offset is more than a plan can say, or compiled operators rely on the
    plan that the file has.
    """
    if keeps_own_plan(model):
        raise UnsupportedModelError(
            f"{', '.join(sorted(COMPILED_OPERATORS))} operators contain addresses from the plan in the file",
            fix="keep the file's own plan",
        )
    highest = max(offsets.values(), default=0)
    if highest > MAX_OFFSET:
        raise UnsupportedModelError(
            f"a tensor would be placed at {highest:,}, which exceeds the 32-bit offsets of a plan",
            fix="check the shapes of the model: no microcontroller has that much memory",
        )
    words = [offsets.get(key, PLANNED_AT_RUN_TIME) for key in model.tensor_keys]
    return struct.pack(f"<{HEADER_WORDS + len(words)}i", PLAN_VERSION, len(model.subgraphs), len(words), *words)


def has_plan(model: Model) -> bool:
    """Whether the file has a plan, of the right length or not."""
    return any(entry.name == METADATA_NAME for entry in model.metadata)


def decode_plan(model: Model) -> dict[tuple[int, int], int] | None:
    """Offsets by (subgraph, tensor) of the plan in the file; None when it has none.

    TFLM reads every entry of that name and takes the last. Raises InvalidModelError when one of them cannot be a plan
    for this model (TFLM would fail, or read past its end).
    """
    payloads = [entry.data for entry in model.metadata if entry.name == METADATA_NAME]
    if not payloads:
        return None
    keys = model.tensor_keys
    for payload in payloads:
        count = len(payload) // 4 - HEADER_WORDS
        claimed = struct.unpack_from("<i", payload, 8)[0] if count >= 0 else None
        if claimed != len(keys) or count < len(keys):
            raise InvalidModelError(
                f"the plan has {max(count, 0)} offsets, but declares {claimed}; the model has {len(keys)} tensors",
                where=f"metadata {METADATA_NAME}",
                fix="create a new plan with 'edgetool plan --replan -o'",
            )
    return dict(zip(keys, struct.unpack_from(f"<{len(keys)}i", payloads[-1], 4 * HEADER_WORDS), strict=True))


def unjudged_offsets(model: Model) -> dict[tuple[int, int], int]:
    """What the plan in the file fixes, safe or not. Raises InvalidModelError as decode_plan does."""
    return {key: offset for key, offset in (decode_plan(model) or {}).items() if offset != PLANNED_AT_RUN_TIME}


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


def keeps_own_plan(model: Model) -> bool:
    """Whether the file has a plan that compiled operators rely on."""
    compiled = any(op.custom_code in COMPILED_OPERATORS for graph in model.subgraphs for op in graph.operators)
    return compiled and decode_plan(model) is not None


def _may_overlap(model: Model, first: Buffer, second: Buffer) -> bool:
    """Operands of one compiled operator: its compiler laid them over each other on purpose."""
    if first.subgraph != second.subgraph:
        return False
    return any(
        {first.tensor, second.tensor} <= {*op.inputs, *op.outputs}
        for op in model.subgraphs[first.subgraph].operators
        if op.custom_code in COMPILED_OPERATORS
    )
