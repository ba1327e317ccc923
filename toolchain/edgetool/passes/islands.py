"""Float islands: operators that the runtime supports only in float32, between DEQUANTIZE and QUANTIZE.

They are used for int16 (a table would have 65536 values), and operators with several inputs. They need four bytes for
each element of each tensor in between, and on cores without a floating-point unit a lot of time. They lose nothing:
values that pass from one island to the next are neither rounded to a tensor's quantized values nor saturated to its
range, so results may be closer to the float model's than those of integer kernels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgetool.model.draft import Draft
from edgetool.model.types import CONVERSIONS, DType, Operator, Tensor
from edgetool.passes.elementwise import (
    FUNCTIONS,
    Region,
    dequantized,
    is_quantized,
    largest_region,
    remove_unread,
    scope_of,
)
from edgetool.passes.expansions import EXPANDED
from edgetool.passes.rewrite import Applied, Context, Rewrite, applied

# Operators besides elementwise ones whose float32 kernels have no weights, which would be four times as large.
WITHOUT_WEIGHTS = frozenset(
    """
    ADD_N ARG_MAX ARG_MIN BATCH_TO_SPACE_ND CUMSUM DEPTH_TO_SPACE GATHER GATHER_ND L2_NORMALIZATION L2_POOL_2D
    LOG_SOFTMAX MEAN MIRROR_PAD REDUCE_MAX REDUCE_MIN RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR SOFTMAX SPACE_TO_BATCH_ND
    SPACE_TO_DEPTH SUM
    """.split()
)
CODES = (frozenset(FUNCTIONS) | {"GELU", "LEAKY_RELU"} | WITHOUT_WEIGHTS) - CONVERSIONS - {"CAST"}


class _Island:
    """The operators of an island so far, and the float32 tensor of each quantized one."""

    def __init__(self, draft: Draft, scope: str) -> None:
        self.draft = draft
        self.scope = scope
        self.float_tensors: dict[int, int] = {}
        self.operators: list[Operator] = []

    def read(self, index: int) -> int:
        """Return the float32 tensor for an input of the island; a tensor without a scale is returned unchanged."""
        if index < 0 or not is_quantized(self.draft.tensors[index]):
            return self.float_tensors.get(index, index)
        if index not in self.float_tensors:
            self.float_tensors[index] = self._read(index, self.draft.tensors[index])
        return self.float_tensors[index]

    def _read(self, index: int, tensor: Tensor) -> int:
        values = self.draft.values(index)
        if values is not None:
            return self.draft.constant(tensor.name, dequantized(values, tensor).astype(np.float32))
        producer = self.draft.producer(index)
        if producer is not None and producer.code == "QUANTIZE":
            before = producer.inputs[0]
            if self.draft.tensors[before].dtype is DType.FLOAT32:  # this is the end of another island
                return before
        float_tensor = self.draft.tensor(f"{self.scope}real", tensor.shape, DType.FLOAT32)
        self.operators.append(self.draft.make("DEQUANTIZE", [index], [float_tensor], version=2))
        return float_tensor

    def write(self, index: int) -> int:
        """Return a new tensor for a result of the island: float32 for a quantized one."""
        tensor = self.draft.tensors[index]
        dtype = DType.FLOAT32 if is_quantized(tensor) else tensor.dtype
        self.float_tensors[index] = self.draft.tensor(tensor.name, tensor.shape, dtype)
        return self.float_tensors[index]

    def compute(self, operator: Operator) -> None:
        """Add the operator in float32."""
        if operator.code in CONVERSIONS:
            self.float_tensors[operator.outputs[0]] = self.read(operator.inputs[0])
            return
        inputs = [self.read(index) for index in operator.inputs]
        new = self.draft.make(operator.code, inputs, [self.write(index) for index in operator.outputs])
        self.operators.append(replace(new, options=operator.options))

    def finish(self, index: int) -> None:
        """Write a result to the tensor that others read; readers that dequantize it read the float32 tensor instead."""
        tensor, float_tensor = self.draft.tensors[index], self.float_tensors[index]
        if tensor.dtype is DType.FLOAT32 or not is_quantized(tensor):
            self._rename(index, float_tensor)
            return
        self.operators.append(self.draft.make("QUANTIZE", [float_tensor], [index]))
        for reader in self.draft.consumers(index):
            if reader.code == "DEQUANTIZE" and reader.outputs[0] not in self.draft.outputs:
                self.draft.redirect(reader.outputs[0], float_tensor)

    def _rename(self, index: int, float_tensor: int) -> None:
        """Let the new operators write the old tensor directly, which has no scale."""
        self.operators = [
            replace(operator, outputs=tuple(index if output == float_tensor else output for output in operator.outputs))
            for operator in self.operators
        ]

    def is_supported(self, context: Context) -> bool:
        """Whether the runtime supports all operators, or will after expansion."""
        return all(
            operator.code in EXPANDED or context.is_supported(self.draft, operator) for operator in self.operators
        )


def in_float(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Compute an unsupported operator, or the chain around it, in float32."""
    if operator.code not in CODES or not _has_quantized_operand(draft, operator):
        return None
    region = largest_region(draft, operator, _is_end)
    if region is None or not region.closed:
        region = None
    return (region and _convert_region(draft, region, operator, context)) or _convert_one(draft, operator, context)


def _has_quantized_operand(draft: Draft, operator: Operator) -> bool:
    """Whether the operator has a quantized operand, which an island can convert."""
    return any(index >= 0 and is_quantized(draft.tensors[index]) for index in (*operator.inputs, *operator.outputs))


def _is_end(tensor: Tensor) -> bool:
    return is_quantized(tensor) and not tensor.is_variable


def _convert_region(draft: Draft, region: Region, operator: Operator, context: Context) -> Applied | None:
    island = _Island(draft, scope_of(draft, operator))
    for member in region.operators:
        island.compute(member)
    return _insert(draft, island, region.operators, (region.result,), operator, context, region)


def _convert_one(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    island = _Island(draft, scope_of(draft, operator))
    island.compute(operator)
    return _insert(draft, island, (operator,), operator.outputs, operator, context, None)


def _insert(
    draft: Draft,
    island: _Island,
    old: tuple[Operator, ...],
    results: tuple[int, ...],
    operator: Operator,
    context: Context,
    region: Region | None,
) -> Applied | None:
    """Put the island in the place of the last old operator, if the runtime supports all of it."""
    if not island.is_supported(context):
        return None
    done = applied("float island", draft, operator)
    for index in results:
        island.finish(index)
    current = draft.operator(old[-1].index)
    assert current is not None
    draft.replace(current, *island.operators)
    if region is not None:
        remove_unread(draft, region)
    return done


IN_FLOAT = Rewrite(
    "float island",
    "kept in float32, between DEQUANTIZE and QUANTIZE: TensorFlow Lite Micro has no integer kernel for this operator",
    in_float,
)
