"""Operators that the runtime has in float32 alone: DEQUANTIZE, the operators in float32, QUANTIZE.

For what no table serves: int16 (a table would have 65536 values), and operators of several tensors. It costs four bytes
for each element of each tensor in between, and on cores without a floating-point unit a lot of time. It loses nothing:
what passes from one island to the next is neither rounded to a tensor's codes nor saturated to its range, so results
may lie nearer to the float model's than those of integer kernels would.
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

# Besides elementwise operators: those whose float32 kernels take no weights, which would be four times as large.
WITHOUT_WEIGHTS = frozenset(
    """
    ADD_N ARG_MAX ARG_MIN BATCH_TO_SPACE_ND CUMSUM DEPTH_TO_SPACE GATHER GATHER_ND L2_NORMALIZATION L2_POOL_2D
    LOG_SOFTMAX MEAN MIRROR_PAD REDUCE_MAX REDUCE_MIN RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR SOFTMAX SPACE_TO_BATCH_ND
    SPACE_TO_DEPTH SUM
    """.split()
)
CODES = (frozenset(FUNCTIONS) | {"GELU", "LEAKY_RELU"} | WITHOUT_WEIGHTS) - CONVERSIONS - {"CAST"}


class _Island:
    """Operators being made in float32: the float32 tensor for each quantized one, and what was made so far."""

    def __init__(self, draft: Draft, scope: str) -> None:
        self.draft = draft
        self.scope = scope
        self.real: dict[int, int] = {}
        self.operators: list[Operator] = []

    def read(self, index: int) -> int:
        """The float32 tensor with the values of one that the island reads; what needs no scale stays as it is."""
        if index < 0 or not is_quantized(self.draft.tensors[index]):
            return self.real.get(index, index)
        if index not in self.real:
            self.real[index] = self._read(index, self.draft.tensors[index])
        return self.real[index]

    def _read(self, index: int, tensor: Tensor) -> int:
        values = self.draft.values(index)
        if values is not None:
            return self.draft.constant(tensor.name, dequantized(values, tensor).astype(np.float32))
        producer = self.draft.producer(index)
        if producer is not None and producer.code == "QUANTIZE":
            before = producer.inputs[0]
            if self.draft.tensors[before].dtype is DType.FLOAT32:  # an island ends where this one starts
                return before
        real = self.draft.tensor(f"{self.scope}real", tensor.shape, DType.FLOAT32)
        self.operators.append(self.draft.make("DEQUANTIZE", [index], [real], version=2))
        return real

    def write(self, index: int) -> int:
        """A new tensor for one that the island computes: float32 for a quantized one."""
        tensor = self.draft.tensors[index]
        dtype = DType.FLOAT32 if is_quantized(tensor) else tensor.dtype
        self.real[index] = self.draft.tensor(tensor.name, tensor.shape, dtype)
        return self.real[index]

    def compute(self, operator: Operator) -> None:
        """The operator in float32."""
        if operator.code in CONVERSIONS:
            self.real[operator.outputs[0]] = self.read(operator.inputs[0])
            return
        inputs = [self.read(index) for index in operator.inputs]
        new = self.draft.make(operator.code, inputs, [self.write(index) for index in operator.outputs])
        self.operators.append(replace(new, options=operator.options))

    def finish(self, index: int) -> None:
        """Put the values of a tensor that others read into it; those that turn them to float32 again take them so."""
        tensor, real = self.draft.tensors[index], self.real[index]
        if tensor.dtype is DType.FLOAT32 or not is_quantized(tensor):
            self._rename(index, real)
            return
        self.operators.append(self.draft.make("QUANTIZE", [real], [index]))
        for reader in self.draft.consumers(index):
            if reader.code == "DEQUANTIZE" and reader.outputs[0] not in self.draft.outputs:
                self.draft.redirect(reader.outputs[0], real)

    def _rename(self, index: int, real: int) -> None:
        """Let the last operator write the old tensor itself, which had no scale anyway."""
        self.operators = [
            replace(one, outputs=tuple(index if output == real else output for output in one.outputs))
            for one in self.operators
        ]

    def is_legal(self, context: Context) -> bool:
        """Whether the runtime has all of it, or will when it is expanded."""
        return all(one.code in EXPANDED or context.legal(self.draft, one) for one in self.operators)


def in_float(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """An operator that the runtime lacks in its types: the chain around it, or itself alone, in float32."""
    if operator.code not in CODES or not _mixes(draft, operator):
        return None
    region = largest_region(draft, operator, _is_end)
    if region is None or not region.closed:
        region = None
    return (region and _convert_region(draft, region, operator, context)) or _convert_one(draft, operator, context)


def _mixes(draft: Draft, operator: Operator) -> bool:
    """Whether it has a quantized operand at all, so that there is something to convert."""
    return any(index >= 0 and is_quantized(draft.tensors[index]) for index in (*operator.inputs, *operator.outputs))


def _is_end(tensor: Tensor) -> bool:
    return is_quantized(tensor) and not tensor.is_variable


def _convert_region(draft: Draft, region: Region, operator: Operator, context: Context) -> Applied | None:
    island = _Island(draft, scope_of(draft, operator))
    for one in region.operators:
        island.compute(one)
    return _settle(draft, island, region.operators, (region.result,), operator, context, region)


def _convert_one(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    island = _Island(draft, scope_of(draft, operator))
    island.compute(operator)
    return _settle(draft, island, (operator,), operator.outputs, operator, context, None)


def _settle(
    draft: Draft,
    island: _Island,
    old: tuple[Operator, ...],
    results: tuple[int, ...],
    operator: Operator,
    context: Context,
    region: Region | None,
) -> Applied | None:
    """Put the island into the place of the last of the old operators, where the runtime has all of it."""
    if not island.is_legal(context):
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
