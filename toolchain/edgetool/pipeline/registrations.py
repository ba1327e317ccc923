"""The registrations of a model's operators with TFLM: one for each kind of operator, in the order of first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from edgetool.codegen.spec import Registration
from edgetool.model.types import DType, Model, Operator
from edgetool.operators.entry import OperatorEntry
from edgetool.target.types import Kernels, Runtime

Types = tuple[DType | None, ...]


def registrations_of(
    model: Model, runtime: Runtime, kernels: Kernels | None, custom: Mapping[str, OperatorEntry]
) -> tuple[Registration, ...]:
    """Return one registration for each kind of operator in all subgraphs.

    Args:
        model: The model.
        runtime: The version of TFLM.
        kernels: The set of its kernels; None if it is unknown.
        custom: Operators that the user describes, by custom code.
    """
    operators = (operator for graph in model.subgraphs for operator in graph.operators)
    first_of_kind: dict[tuple[str, str | None], Operator] = {}
    for operator in operators:
        first_of_kind.setdefault((operator.code, operator.custom_code), operator)
    registrations = []
    for operator in first_of_kind.values():
        method = runtime.resolver_method(operator.code, operator.custom_code)
        described = custom.get(operator.custom_code or "") if operator.code == "CUSTOM" else None
        if described is not None and described.resolver_method is not None:
            method = described.resolver_method
        typed = None if kernels is None else runtime.registration(operator.code, kernels, _types(model, operator))
        function, header = (None, "") if typed is None else (typed.function, typed.header)
        registrations.append(Registration(operator.label, method, function, header))
    return tuple(registrations)


def _types(model: Model, kind: Operator) -> Iterator[tuple[Types, Types]]:
    """Yield the types of the inputs and of the outputs of each operator of the same kind, None for an omitted one."""
    for graph in model.subgraphs:
        for operator in graph.operators:
            if (operator.code, operator.custom_code) == (kind.code, kind.custom_code):
                inputs, outputs = (
                    tuple(None if index < 0 else graph.tensors[index].dtype for index in indices)
                    for indices in (operator.inputs, operator.outputs)
                )
                yield inputs, outputs
