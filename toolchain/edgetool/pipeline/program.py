"""From a model to what its C++ files say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from edgetool.codegen.program import ProgramSpec, Registration
from edgetool.codegen.spec import HeaderSpec
from edgetool.errors import UnsupportedModelError
from edgetool.model.loops import subgraph_runs
from edgetool.model.types import Model, Operator
from edgetool.operators.prepare.control import resource_variables
from edgetool.operators.types import OperatorEntry
from edgetool.pipeline.arena_findings import counted
from edgetool.pipeline.source import Source
from edgetool.target.load import DEFAULT_RUNTIME, load_runtime
from edgetool.target.types import Runtime, Target

HEADER_ALONE = "or write only the header and the data with --project header"


def program_spec(
    source: Source,
    header_spec: HeaderSpec,
    target: Target | None,
    custom: Mapping[str, OperatorEntry] | None,
    shared_arena: str | None = None,
) -> ProgramSpec:
    """What the C++ files say of a model, for TFLM as the target has it, or the default one.

    custom: entries of operators that the user describes, by custom code; shared_arena: the C name of the arena that the
    model shares with others. Raises UnsupportedModelError when nobody has a kernel for an operator.
    """
    runtime = load_runtime(DEFAULT_RUNTIME) if target is None else target.runtime
    return ProgramSpec(
        header=header_spec,
        registrations=_registrations(source, runtime, custom or {}),
        runtime=runtime.name,
        commit=runtime.tflm_commit,
        resource_variables=len(resource_variables(source.model)),
        events=_events(source.model),
        clock_hz=None if target is None else target.clock_hz,
        shared_arena=shared_arena,
    )


def _registrations(source: Source, runtime: Runtime, custom: Mapping[str, OperatorEntry]) -> tuple[Registration, ...]:
    """Each operator once, those of every subgraph."""
    first = {(operator.code, operator.custom_code): operator for operator in _operators(source.model)}
    _refuse_without_kernel(source, runtime, custom)
    found = []
    for operator in first.values():
        method = runtime.resolver_method(operator.code, operator.custom_code)
        described = custom.get(operator.custom_code or "") if operator.code == "CUSTOM" else None
        if described is not None and described.resolver_method is not None:
            method = described.resolver_method
        found.append(Registration(operator.label, method))
    return tuple(found)


def _refuse_without_kernel(source: Source, runtime: Runtime, custom: Mapping[str, OperatorEntry]) -> None:
    lacking = [
        operator
        for operator in _operators(source.model)
        if runtime.resolver_method(operator.code, operator.custom_code) is None
        and (operator.code != "CUSTOM" or operator.custom_code not in custom)
    ]
    if not lacking:
        return
    foreign = all(operator.code == "CUSTOM" for operator in lacking)
    fix = (
        "describe the operators with --custom-operators and provide their kernels"
        if foreign
        else "convert a model without these operators"
    )
    raise UnsupportedModelError(
        f"{runtime.name} has no kernel for {counted(Counter(operator.label for operator in lacking))}",
        where=source.name,
        fix=f"{fix}, {HEADER_ALONE}",
    )


def _operators(model: Model) -> Iterator[Operator]:
    return (operator for graph in model.subgraphs for operator in graph.operators)


def _events(model: Model) -> int | None:
    """The operators that one inference runs; both branches of an IF count, and what CALL_ONCE runs does not."""
    counts = [
        None if runs is None and graph.operators else (runs or 0) * len(graph.operators)
        for graph, runs in zip(model.subgraphs, subgraph_runs(model), strict=True)
    ]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
