"""Checks whether the kernels of a runtime accept the operators of a model, and gives the reason if they do not.

It combines three sources: the runtime's profile (the operators that it registers, their types and limits), and the
Prepare rules and the bounds of each operator's family. The reader has already checked that the file is well-formed
(`model/rules.py`), except for operators whose sizes are known only at run time, which no kernel accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol, get_args

from edgetool.model.types import DType, Graph, Model, Operator, Tensor
from edgetool.operators.call import Assignment, Call, KernelRefusal
from edgetool.operators.control import assignments
from edgetool.operators.entry import KernelFault, OperatorEntry
from edgetool.operators.registry import check_bounds, entry_of, faults_of
from edgetool.target.platform import Platform, make_platform
from edgetool.target.signatures import EqualScales, KernelTypes, OperandTypes, TypeSignature
from edgetool.target.types import Kernels, Runtime

UnsupportedKind = Literal["missing", "type", "limit", "scales"]
KERNEL_SETS: tuple[Kernels, ...] = get_args(Kernels)
CONTROL_FLOW = ("ASSIGN_VARIABLE", "CALL_ONCE", "IF", "WHILE")  # operators whose Prepare reads other subgraphs


@dataclass(frozen=True, slots=True)
class UnsupportedOperator:
    """An operator that the runtime does not run as the model requires.

    kind: "missing" if the resolver lacks it; "type" if its kernel does not accept a type; "limit" if Prepare fails
    because of a limit or for any other reason; "scales" if its kernel assumes equal scales. why: a clause such as "EXP
    supports float32, not int8".
    """

    subgraph: int
    operator: Operator
    kind: UnsupportedKind
    why: str


def kernel_faults(
    model: Model, platform: Platform, custom: Mapping[str, OperatorEntry] | None = None
) -> tuple[tuple[int, Operator, KernelFault], ...]:
    """Return each operator whose kernel computes wrong outputs in a build, with its subgraph and the fault.

    Kernels that the user describes are unknown, so no faults are reported for them.
    """
    assignments: Mapping[tuple[int, int], Assignment] = {}
    return tuple(
        (graph.index, operator, fault)
        for graph in model.subgraphs
        for operator in graph.operators
        if operator.code != "CUSTOM" or (operator.custom_code or "") not in (custom or {})
        for fault in faults_of(Call(model, graph, operator, platform, assignments))
    )


class HasTensors(Protocol):
    """A graph, or a draft of one."""

    @property
    def tensors(self) -> Sequence[Tensor]:
        """The tensors that operators refer to by index."""


def supports(operator: Operator, graph: HasTensors, runtime: Runtime, *, kernels: Kernels | None = None) -> bool:
    """Return whether the runtime runs the operator as the graph requires.

    Conditions of control flow and variables on other subgraphs are checked only by unsupported_operators.

    Args:
        kernels: the kernel set; None requires support by every set.
    """
    alone = Graph(0, "", tuple(graph.tensors), (operator,), (), ())
    site = _Site(Model(3, "", (), (alone,), ()), alone, {})
    return next(_reasons(operator, site, runtime, None, kernels), None) is None


def unsupported_operators(
    model: Model,
    runtime: Runtime,
    custom: Mapping[str, OperatorEntry] | None = None,
    *,
    kernels: Kernels | None = None,
) -> tuple[UnsupportedOperator, ...]:
    """Return each operator of every subgraph that the runtime does not run, with the first reason.

    Versions of operators and of the file are ignored, as TFLM ignores them.

    Args:
        custom: the entries of operators that the user describes, by custom code; they count as supported.
        kernels: the kernel set; None requires support by every set.
    """
    unsupported = []
    assigned = assignments(model)
    for graph in model.subgraphs:
        site = _Site(model, graph, assigned, whole=True)
        for operator in graph.operators:
            for kind, why in _reasons(operator, site, runtime, custom, kernels):
                unsupported.append(UnsupportedOperator(graph.index, operator, kind, why))
                break
    return tuple(unsupported)


@dataclass(frozen=True, slots=True)
class _Site:
    """The place of an operator. whole: whether the model contains the other subgraphs that it may refer to."""

    model: Model
    graph: Graph
    assignments: Mapping[tuple[int, int], Assignment]
    whole: bool = False


Reason = tuple[UnsupportedKind, str]


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
    if (operator.custom_code not in tables.custom) if operator.code == "CUSTOM" else operator.code not in tables.codes:
        yield "missing", f"{runtime.name} does not support {operator.label}"
        return
    if operator.shape_conflict:
        yield "limit", f"{operator.shape_conflict}: tensor sizes are known only when the model runs"
        return
    tensors = site.graph.tensors
    accepted = tables.kernel_types.get(operator.code)
    inputs = tuple(tensors[i] if i >= 0 else None for i in operator.inputs)
    outputs = tuple(tensors[i] if i >= 0 else None for i in operator.outputs)
    for kernel_set in KERNEL_SETS if kernels is None else (kernels,):
        if accepted is not None and (why := _type_reason(accepted, inputs, outputs, kernel_set)):
            yield "type", why
        yield from _limit_reasons(operator, inputs, outputs, runtime, kernel_set)
        if why := _rejection_reason(operator, site, _platform(runtime, kernel_set)):
            yield "limit", why
    if accepted is not None and (why := _scale_reason(accepted, inputs, outputs)):
        yield "scales", why


@dataclass(frozen=True, slots=True)
class _Tables:
    """A runtime's tables, indexed by name, because rewrites consult them for every operator."""

    codes: frozenset[str]
    custom: frozenset[str]
    kernel_types: Mapping[str, KernelTypes]


@cache
def _tables(runtime: Runtime) -> _Tables:
    kernel_types = {item.operator: item for item in runtime.kernel_types}
    return _Tables(frozenset(runtime.operators), frozenset(runtime.custom_operators), kernel_types)


@cache
def _platform(runtime: Runtime, kernels: Kernels) -> Platform:
    """Return a build for the runtime's first ABI: what a kernel rejects does not depend on the processor."""
    return make_platform(runtime, runtime.abis[0].name, kernels)


def _rejection_reason(operator: Operator, site: _Site, platform: Platform) -> str | None:
    """Return why Prepare of the operator fails or its Eval must not run; None if no reason is known."""
    entry = entry_of(operator)
    if entry is None or entry.prepare is None or (operator.code in CONTROL_FLOW and not site.whole):
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


def _type_reason(accepted: KernelTypes, inputs: Operands, outputs: Operands, kernels: Kernels) -> str | None:
    """Return why no signature accepts the types, according to the signatures whose first mismatch comes last."""
    signatures = accepted.cmsis_nn if kernels == "cmsis-nn" else accepted.reference
    input_types, output_types = _types(inputs), _types(outputs)
    mismatches = [(signature.first_mismatch(input_types, output_types), signature) for signature in signatures]
    furthest = -1
    for position, _ in mismatches:
        if position is None:
            return None
        furthest = max(furthest, position)
    dtype = (*input_types, *output_types)[furthest]
    names = dict.fromkeys(
        name
        for position, signature in mismatches
        if position == furthest
        for name in _accepted_names(signature, furthest, input_types)
    )
    suffix = "" if furthest == 0 else f" as {_operand_name(furthest, len(input_types), len(output_types))}"
    library = "CMSIS-NN's " if kernels == "cmsis-nn" and accepted.cmsis_nn != accepted.reference else ""
    return f"{library}{accepted.operator} supports {_join_names(list(names))}{suffix}, not {_type_name(dtype)}"


def _accepted_names(signature: TypeSignature, position: int, input_types: tuple[DType | None, ...]) -> list[str]:
    index = position - len(input_types)
    side, place = (signature.inputs, position) if index < 0 else (signature.outputs, index)
    operand: OperandTypes = side[min(place, len(side) - 1)]
    if operand.same_as is not None:
        other = operand.same_as
        return [
            _type_name(input_types[other]) if other < len(input_types) else f"the type of its missing input {other}"
        ]
    return [_type_name(dtype) for dtype in operand.types]


def _operand_name(position: int, inputs: int, outputs: int) -> str:
    if position < inputs:
        return f"input {position}"
    return "output" if outputs == 1 else f"output {position - inputs}"


def _limit_reasons(
    operator: Operator, inputs: Operands, outputs: Operands, runtime: Runtime, kernels: Kernels
) -> Iterator[Reason]:
    maximum = runtime.limit(operator.code, "inputs")
    if maximum is not None and len(inputs) > maximum:
        yield "limit", f"{operator.code} supports at most {maximum} inputs, not {len(inputs)}"
    rank = max((len(tensor.shape) for tensor in (*inputs, *outputs) if tensor is not None), default=0)
    first_type = inputs[0].dtype if inputs and inputs[0] is not None else None
    maximum = runtime.limit(operator.code, "dimensions")
    if maximum is not None and rank > maximum:
        yield "limit", f"{operator.code} supports at most {maximum} dimensions, not {rank}"
    limit = runtime.rank_limit(operator.code, kernels, first_type)
    if limit is not None and rank > limit.maximum:
        library = "CMSIS-NN's " if limit.kernels == "cmsis-nn" else ""
        yield "limit", f"{library}{operator.code} supports at most {limit.maximum} dimensions, not {rank}"


def _scale_reason(accepted: KernelTypes, inputs: Operands, outputs: Operands) -> str | None:
    result = next((tensor for tensor in outputs if tensor is not None), None)
    if result is None:
        return None
    for rule in accepted.equal_scales:
        if result.dtype in rule.types and not _has_equal_scales(rule, result, (*inputs, *outputs)):
            consequence = "and fails if they differ" if rule.refuses else "but does not check that they are equal"
            return f"{accepted.operator} requires the same scale and zero point for inputs and output, {consequence}"
    for fixed in accepted.fixed_scales:
        quantization = result.per_tensor
        if result.dtype == fixed.dtype and quantization is not None and quantization != (fixed.scale, fixed.zero_point):
            return (
                f"{accepted.operator} writes {_type_name(fixed.dtype)} with scale {fixed.scale:g} and zero point "
                f"{fixed.zero_point}, not {quantization[0]:g} and {quantization[1]}"
            )
    return None


def _has_equal_scales(rule: EqualScales, result: Tensor, operands: Operands) -> bool:
    expected = result.per_tensor
    if expected is None:
        return True
    scale, zero_point = expected
    for tensor in operands:
        other = tensor.per_tensor if tensor is not None and tensor.dtype == result.dtype else None
        if other is not None and (abs(other[0] - scale) > rule.tolerance * scale or other[1] != zero_point):
            return False
    return True


def _types(operands: Operands) -> tuple[DType | None, ...]:
    return tuple(None if tensor is None else tensor.dtype for tensor in operands)


def _type_name(dtype: DType | None) -> str:
    return "nothing" if dtype is None else dtype.name.lower()


def _join_names(names: list[str]) -> str:
    """Return the names as an enumeration such as "int8, int16 and float32"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
