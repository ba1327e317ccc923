"""The offline memory plan: how a layout reaches stock TFLM through the model file's metadata.

Format (micro_allocation_info.cc, GetOfflinePlannedOffsets): int32 words, little endian: version,
subgraph count, n, then n offsets, one for each tensor of all subgraphs in order. -1 leaves a tensor to the
runtime. TFLM checks n alone, so whoever writes a plan is the only guard it has.
"""

from __future__ import annotations

import struct

from edgetool.errors import InvalidModelError, UnsupportedModelError
from edgetool.memory.bound import lower_bound
from edgetool.memory.checker import check_layout
from edgetool.memory.types import Buffer, Layout, LayoutProblem
from edgetool.model.types import Model

METADATA_NAME = "OfflineMemoryAllocation"
PLAN_VERSION = 1
PLANNED_AT_RUN_TIME = -1
HEADER_WORDS = 3
# Custom operators that hold a command stream for an accelerator, with the addresses of its tensors in it
# (Arm's Vela writes "ethos-u"). Their plan must stay as it is.
COMPILED_OPERATORS = frozenset(["ethos-u"])
MAX_OFFSET = 2**31 - 1


def encode_plan(model: Model, problem: LayoutProblem, layout: Layout) -> bytes:
    """The plan's payload. Constants, variables and empty tensors stay with the runtime.

    Raises UnsupportedModelError when the layout is higher than a plan can say, or compiled operators rely on the
    plan that the file has.
    """
    if keeps_own_plan(model):
        raise UnsupportedModelError(
            f"{', '.join(sorted(COMPILED_OPERATORS))} operators hold addresses of the plan that is in the file",
            fix="keep the file's own plan",
        )
    if layout.height > MAX_OFFSET:
        raise UnsupportedModelError(
            f"the layout takes {layout.height:,} bytes, more than the 32-bit offsets of a plan can address",
            fix="check the shapes of the model: no microcontroller has that much memory",
        )
    planned = {
        (buffer.subgraph, buffer.tensor): offset for buffer, offset in zip(problem.buffers, layout.offsets, strict=True)
    }
    words = [
        planned.get((graph.index, tensor.index), PLANNED_AT_RUN_TIME)
        for graph in model.subgraphs
        for tensor in graph.tensors
    ]
    return struct.pack(f"<{HEADER_WORDS + len(words)}i", PLAN_VERSION, len(model.subgraphs), len(words), *words)


def decode_plan(model: Model) -> dict[tuple[int, int], int] | None:
    """Offsets by (subgraph, tensor) of the plan in the file; None when it has none.

    TFLM takes the last entry of that name. Raises InvalidModelError when the payload cannot be a plan for
    this model (TFLM would fail, or read past its end).
    """
    payloads = [entry.data for entry in model.metadata if entry.name == METADATA_NAME]
    if not payloads:
        return None
    keys = [(graph.index, tensor.index) for graph in model.subgraphs for tensor in graph.tensors]
    payload = payloads[-1]
    count = len(payload) // 4 - HEADER_WORDS
    claimed = struct.unpack_from("<i", payload, 8)[0] if count >= 0 else None
    if claimed != len(keys) or count < len(keys):
        raise InvalidModelError(
            f"the plan has {max(count, 0)} offsets and claims {claimed}; the model has {len(keys)} tensors",
            where=f"metadata {METADATA_NAME}",
            fix="remove the entry, or write the plan anew",
        )
    return dict(zip(keys, struct.unpack_from(f"<{len(keys)}i", payload, 4 * HEADER_WORDS), strict=True))


def fixed_offsets(model: Model, problem: LayoutProblem) -> dict[tuple[int, int], int]:
    """The offsets by (subgraph, tensor) that the file's own plan fixes, judged; empty when it has none.

    Raises InvalidModelError when two live tensors overlap in it, or an offset is negative or unaligned: TFLM
    would follow it all the same.
    """
    offsets = decode_plan(model) or {}
    fixed = [b for b in problem.buffers if offsets.get((b.subgraph, b.tensor), -1) != PLANNED_AT_RUN_TIME]
    placed = tuple(offsets[b.subgraph, b.tensor] for b in fixed)
    height = max((offset + b.aligned_bytes for offset, b in zip(placed, fixed, strict=True)), default=0)
    violations = [
        violation
        for violation in check_layout(LayoutProblem(tuple(fixed)), Layout(placed, height, 0, "none"))
        if violation.rule != "overlap" or not _may_overlap(model, *(fixed[i] for i in violation.buffers))
    ]
    if violations:
        raise InvalidModelError(
            f"the plan is unsafe: {violations[0].message}",
            where=f"metadata {METADATA_NAME}",
            fix="write the plan anew with 'edgetool plan -o'",
            details=tuple(violation.message for violation in violations[1:6]),
        )
    return {(b.subgraph, b.tensor): offset for b, offset in zip(fixed, placed, strict=True)}


def layout_in_file(model: Model, problem: LayoutProblem) -> Layout | None:
    """The layout that the file's own plan fixes; None when it has none, or leaves a tensor to the runtime.

    Where compiled operators lay tensors over each other, the largest tensor is the bound. Raises
    InvalidModelError as fixed_offsets does.
    """
    offsets = fixed_offsets(model, problem)
    if not offsets or len(offsets) < len(problem.buffers):
        return None
    placed = tuple(offsets[b.subgraph, b.tensor] for b in problem.buffers)
    height = max((offset + b.aligned_bytes for offset, b in zip(placed, problem.buffers, strict=True)), default=0)
    bound = max(b.aligned_bytes for b in problem.buffers) if keeps_own_plan(model) else lower_bound(problem)
    return Layout(placed, height, bound, "bound met" if height == bound else "none")


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
