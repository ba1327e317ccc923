"""Which operators of a model the kernels of a runtime do not take, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol, get_args

from edgetool.model.types import DType, Graph, Model, Operator, Tensor
from edgetool.operators.call import Assignment, Call, KernelRefusal
from edgetool.operators.control import assignments
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import check_bounds, entry_of
from edgetool.target.platform import Platform, make_platform
from edgetool.target.signatures import EqualScales, KernelTypes, OperandTypes, TypeSignature
from edgetool.target.types import Kernels, Runtime

IllegalKind = Literal["missing", "type", "limit", "scales"]
KERNEL_SETS: tuple[Kernels, ...] = get_args(Kernels)
CONTROL = ("ASSIGN_VARIABLE", "CALL_ONCE", "IF", "WHILE")  # their Prepare looks at other subgraphs


@dataclass(frozen=True, slots=True)
class Illegal:
    """An operator that the runtime does not run as the model means it.

    kind: "missing" from the resolver; a "type" that its kernel does not take; a "limit", or anything else for which
    Prepare fails; "scales" that its kernel takes for equal. why: a clause such as "its EXP takes float32, not int8".
    """

    subgraph: int
    operator: Operator
    kind: IllegalKind
    why: str


class HasTensors(Protocol):
    """A graph, or one under change."""

    @property
    def tensors(self) -> Sequence[Tensor]:
        """The tensors that operators refer to by index."""


def supports(operator: Operator, graph: HasTensors, runtime: Runtime, *, kernels: Kernels | None = None) -> bool:
    """Whether the runtime runs the operator as the graph means it: with these kernels, or (None) with every set.

    What control flow and variables ask of other subgraphs is not looked at: illegal_operators does.
    """
    own = Graph(0, "", tuple(graph.tensors), (operator,), (), ())
    site = _Site(Model(3, "", (), (own,), ()), own, {})
    return next(_reasons(operator, site, runtime, None, kernels), None) is None


def illegal_operators(
    model: Model,
    runtime: Runtime,
    custom: Mapping[str, OperatorEntry] | None = None,
    *,
    kernels: Kernels | None = None,
) -> tuple[Illegal, ...]:
    """Each operator of every subgraph that the runtime does not run, with the first reason.

    custom: operators that the user describes, by custom code: legal. kernels: the set that is meant; None holds the
    model against every set. Operators' versions and the file's are not looked at: nor does TFLM look at them.
    """
    found = []
    assigned = assignments(model)
    for graph in model.subgraphs:
        site = _Site(model, graph, assigned, whole=True)
        for operator in graph.operators:
            for kind, why in _reasons(operator, site, runtime, custom, kernels):
                found.append(Illegal(graph.index, operator, kind, why))
                break
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Site:
    """Where an operator is; whole: with the other subgraphs that it may name."""

    model: Model
    graph: Graph
    assignments: Mapping[tuple[int, int], Assignment]
    whole: bool = False


Reason = tuple[IllegalKind, str]


def _reasons(
    operator: Operator,
    site: _Site,
    runtime: Runtime,
    custom: Mapping[str, OperatorEntry] | None,
    kernels: Kernels | None,
) -> Iterator[Reason]:
    if operator.code == "CUSTOM" and operator.custom_code in (custom or {}):
        return
    tables = _tables(runtime)
    if (operator.custom_code not in tables.custom) if operator.code == "CUSTOM" else operator.code not in tables.known:
        yield "missing", f"{runtime.name} does not support {operator.label}"
        return
    if operator.unsettled:
        yield "limit", f"{operator.unsettled}: tensor sizes are known only when the model runs"
        return
    tensors = site.graph.tensors
    takes = tables.takes.get(operator.code)
    inputs = tuple(tensors[i] if i >= 0 else None for i in operator.inputs)
    outputs = tuple(tensors[i] if i >= 0 else None for i in operator.outputs)
    for one in KERNEL_SETS if kernels is None else (kernels,):
        if takes is not None and (why := _type_reason(takes, inputs, outputs, one)):
            yield "type", why
        yield from _limit_reasons(operator, inputs, outputs, runtime, one)
        if why := _refusal(operator, site, _platform(runtime, one)):
            yield "limit", why
    if takes is not None and (why := _scale_reason(takes, inputs, outputs)):
        yield "scales", why


@dataclass(frozen=True, slots=True)
class _Tables:
    """A runtime's tables by name: a model is asked about again and again while it is rewritten."""

    known: frozenset[str]
    custom: frozenset[str]
    takes: Mapping[str, KernelTypes]


@cache
def _tables(runtime: Runtime) -> _Tables:
    takes = {item.operator: item for item in runtime.kernel_types}
    return _Tables(frozenset(runtime.operators), frozenset(runtime.custom_operators), takes)


@cache
def _platform(runtime: Runtime, kernels: Kernels) -> Platform:
    """What a kernel refuses does not depend on the processor."""
    return make_platform(runtime, runtime.abis[0].name, kernels)


def _refusal(operator: Operator, site: _Site, platform: Platform) -> str | None:
    """Why Prepare of the operator fails or its Eval must not run; None where neither is so, as far as that is known."""
    entry = entry_of(operator)
    if entry is None or entry.prepare is None or (operator.code in CONTROL and not site.whole):
        return None
    call = Call(site.model, site.graph, operator, platform, site.assignments)
    try:
        for _ in entry.prepare(call):
            pass
        check_bounds(call)
    except KernelRefusal as refusal:
        return f"its {refusal}"
    return None


Operands = tuple[Tensor | None, ...]


def _type_reason(takes: KernelTypes, inputs: Operands, outputs: Operands, kernels: Kernels) -> str | None:
    """Of the signatures that fail, the one that fits furthest tells why."""
    signatures = takes.cmsis_nn if kernels == "cmsis-nn" else takes.reference
    given, made = _types(inputs), _types(outputs)
    misfits = [(signature.first_mismatch(given, made), signature) for signature in signatures]
    furthest = -1
    for position, _ in misfits:
        if position is None:
            return None
        furthest = max(furthest, position)
    dtype = (*given, *made)[furthest]
    taken = dict.fromkeys(
        name for position, signature in misfits if position == furthest for name in _taken(signature, furthest, given)
    )
    which = "" if furthest == 0 else f" as {_operand(furthest, len(given), len(made))}"
    own = "CMSIS-NN's " if kernels == "cmsis-nn" and takes.cmsis_nn != takes.reference else ""
    return f"{own}{takes.operator} supports {_listed(list(taken))}{which}, not {_name(dtype)}"


def _taken(signature: TypeSignature, position: int, given: tuple[DType | None, ...]) -> list[str]:
    inputs, outputs = signature.inputs, signature.outputs
    index = position - len(given)
    side, place = (inputs, position) if index < 0 else (outputs, index)
    operand: OperandTypes = side[min(place, len(side) - 1)]
    if operand.same_as is not None:
        other = operand.same_as
        return [_name(given[other]) if other < len(given) else f"the type of its missing input {other}"]
    return [_name(dtype) for dtype in operand.types]


def _operand(position: int, inputs: int, outputs: int) -> str:
    if position < inputs:
        return f"input {position}"
    return "output" if outputs == 1 else f"output {position - inputs}"


def _limit_reasons(
    operator: Operator, inputs: Operands, outputs: Operands, runtime: Runtime, kernels: Kernels
) -> Iterator[Reason]:
    most = runtime.limit(operator.code, "inputs")
    if most is not None and len(inputs) > most:
        yield "limit", f"{operator.code} supports at most {most} inputs, not {len(inputs)}"
    rank = max((len(tensor.shape) for tensor in (*inputs, *outputs) if tensor is not None), default=0)
    first = inputs[0].dtype if inputs and inputs[0] is not None else None
    most = runtime.limit(operator.code, "dimensions")
    if most is not None and rank > most:
        yield "limit", f"{operator.code} supports at most {most} dimensions, not {rank}"
    limit = runtime.rank_limit(operator.code, kernels, first)
    if limit is not None and rank > limit.maximum:
        own = "CMSIS-NN's " if limit.kernels == "cmsis-nn" else ""
        yield "limit", f"{own}{operator.code} supports at most {limit.maximum} dimensions, not {rank}"


def _scale_reason(takes: KernelTypes, inputs: Operands, outputs: Operands) -> str | None:
    result = next((tensor for tensor in outputs if tensor is not None), None)
    if result is None:
        return None
    for rule in takes.equal_scales:
        if result.dtype in rule.types and not _equal(rule, result, (*inputs, *outputs)):
            but = "and fails if they differ" if rule.refuses else "but does not check that they are equal"
            return f"{takes.operator} requires the same scale and zero point for inputs and output, {but}"
    for fixed in takes.fixed_scales:
        own = result.per_tensor
        if result.dtype == fixed.dtype and own is not None and own != (fixed.scale, fixed.zero_point):
            return (
                f"{takes.operator} writes {_name(fixed.dtype)} with scale {fixed.scale:g} and zero point "
                f"{fixed.zero_point}, not {own[0]:g} and {own[1]}"
            )
    return None


def _equal(rule: EqualScales, result: Tensor, operands: Operands) -> bool:
    expected = result.per_tensor
    if expected is None:
        return True
    scale, zero_point = expected
    for tensor in operands:
        own = tensor.per_tensor if tensor is not None and tensor.dtype == result.dtype else None
        if own is not None and (abs(own[0] - scale) > rule.tolerance * scale or own[1] != zero_point):
            return False
    return True


def _types(operands: Operands) -> tuple[DType | None, ...]:
    return tuple(None if tensor is None else tensor.dtype for tensor in operands)


def _name(dtype: DType | None) -> str:
    return "nothing" if dtype is None else dtype.name.lower()


def _listed(names: list[str]) -> str:
    """As in "int8, int16 and float32"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
