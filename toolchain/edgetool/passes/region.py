"""Parts of a graph that are a function of one tensor's elements, each on its own: chains of activation functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from edgetool.model.edit import Draft
from edgetool.model.types import DType, Operator, Tensor
from edgetool.passes.functions import Reals, apply, dequantized, is_function, is_quantized, is_real

IsEnd = Callable[[Tensor], bool]


@dataclass(frozen=True, slots=True)
class Region:
    """All operators between two tensors of one shape, in execution order: the second is a function of the first.

    closed: nothing else reads what lies between.
    """

    source: int
    result: int
    operators: tuple[Operator, ...]
    closed: bool


def largest_region(draft: Draft, operator: Operator, is_end: IsEnd) -> Region | None:
    """The longest closed region through the operator that starts and ends at tensors of that kind.

    Where none is closed, the shortest that is not; None where the operator is in none.
    """
    if not _is_step(draft, operator):
        return None
    best: Region | None = None
    places = {one.index: place for place, one in enumerate(draft.operators)}
    for source in _sources(draft, operator, is_end):
        reached = _functions_of(draft, source)
        for result in reached:
            if is_end(draft.tensors[result]):
                region = _between(draft, source, result, reached, places)
                if any(one.index == operator.index for one in region.operators) and _better(region, best):
                    best = region
    return best


def _better(region: Region, best: Region | None) -> bool:
    if best is None or region.closed != best.closed:
        return best is None or region.closed
    more = len(region.operators) > len(best.operators)
    return more if region.closed else len(region.operators) < len(best.operators)


def _is_step(draft: Draft, operator: Operator) -> bool:
    """Whether the operator computes each element of its result from one element of each input that is no constant."""
    if not is_function(operator) or not is_real(draft.tensors[operator.outputs[0]]):
        return False
    shape = draft.tensors[operator.outputs[0]].shape
    dynamic = 0
    for index in operator.inputs:
        if index < 0 or not is_real(draft.tensors[index]):
            return False
        if draft.values(index) is None:
            dynamic += 1
            if draft.tensors[index].shape != shape or draft.tensors[index].is_variable:
                return False
        elif uniform_value(draft, index) is None:
            return False
    if operator.code == "CAST" and any(is_quantized(draft.tensors[i]) for i in (*operator.inputs, *operator.outputs)):
        return False
    return dynamic > 0


def uniform_value(draft: Draft, tensor: int) -> float | None:
    """The real number that every element of a constant stands for; None where they differ or it is no constant."""
    values = draft.values(tensor)
    if values is None or not values.size or not is_real(draft.tensors[tensor]):
        return None
    first = values.flat[0]
    return float(dequantized(np.asarray(first), draft.tensors[tensor])) if np.all(values == first) else None


def dynamic_inputs(draft: Draft, operator: Operator) -> list[int]:
    """The inputs that are no constants, each once."""
    return [index for index in dict.fromkeys(operator.inputs) if index >= 0 and draft.values(index) is None]


def _sources(draft: Draft, operator: Operator, is_end: IsEnd) -> Iterator[int]:
    """The tensors of that kind from which the operator's result follows by elementwise steps, among others."""
    seen: set[int] = set()
    waiting = dynamic_inputs(draft, operator)
    while waiting:
        tensor = waiting.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        if is_end(draft.tensors[tensor]):
            yield tensor
        producer = draft.producer(tensor)
        if producer is not None and _is_step(draft, producer):
            waiting += dynamic_inputs(draft, producer)


def _functions_of(draft: Draft, source: int) -> dict[int, Operator]:
    """Every tensor that is a function of the source alone, with the operator that computes it."""
    reached: dict[int, Operator] = {}
    waiting = [source]
    while waiting:
        for reader in draft.consumers(waiting.pop()):
            result = reader.outputs[0] if reader.outputs else -1
            if result in reached or not _is_step(draft, reader):
                continue
            if all(index == source or index in reached for index in dynamic_inputs(draft, reader)):
                reached[result] = reader
                waiting.append(result)
    return reached


def _between(draft: Draft, source: int, result: int, reached: dict[int, Operator], places: dict[int, int]) -> Region:
    needed: dict[int, Operator] = {}
    waiting = [result]
    while waiting:
        tensor = waiting.pop()
        if tensor != source and reached[tensor].index not in needed:
            operator = needed[reached[tensor].index] = reached[tensor]
            waiting += dynamic_inputs(draft, operator)
    operators = tuple(sorted(needed.values(), key=lambda operator: places[operator.index]))
    inside = {operator.outputs[0] for operator in operators} - {result}
    closed = all(
        tensor not in draft.outputs and all(reader.index in needed for reader in draft.consumers(tensor))
        for tensor in inside
    )
    return Region(source, result, operators, closed)


def evaluate(draft: Draft, region: Region, values: Reals) -> Reals:
    """The result for real numbers at the region's source, in float64 and without rounding in between."""
    known: dict[int, Reals] = {region.source: values}

    def value(tensor: int) -> Reals:
        if tensor not in known:
            constant = uniform_value(draft, tensor)
            assert constant is not None
            known[tensor] = np.full_like(values, constant)
        return known[tensor]

    for operator in region.operators:
        known[operator.outputs[0]] = apply(operator, *(value(tensor) for tensor in operator.inputs))
    return known[region.result]


def remove_unread(draft: Draft, region: Region) -> None:
    """Take the region's operators out of the draft, but for those that something else reads."""
    for operator in reversed(region.operators):
        output = operator.outputs[0]
        current = draft.operator(operator.index)
        if current is not None and output not in draft.outputs and not draft.consumers(output):
            draft.replace(current)


def is_int8(tensor: Tensor) -> bool:
    """Whether it is an int8 tensor with one scale."""
    return tensor.dtype is DType.INT8 and is_quantized(tensor) and not tensor.is_variable


def scope_of(draft: Draft, operator: Operator) -> str:
    """The name scope of an operator's result with its slash ("model/activation/"), for tensors that take its place."""
    name = draft.tensors[operator.outputs[0]].name.split(";")[-1]
    return name[: name.rfind("/") + 1]
