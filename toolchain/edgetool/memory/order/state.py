"""What operators share beside the tensors that they hand on: state, which fixes their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from edgetool.memory.lifetimes import called_subgraphs
from edgetool.model.types import Graph, Model, Operator
from edgetool.operators.registry import CUSTOM_OPERATORS

# Readers of a piece of state may change places; a writer keeps its own.
Access = Literal["read", "write"]

# A resource variable by its shared name, or what all operators of a kind share.
State = tuple[str, str]
HANDLES: State = ("all", "numbers of resource variables")
VARIABLES: State = ("all", "resource variables")
TABLES: State = ("all", "hash tables")
RANDOM: State = ("all", "random numbers")
CUSTOM: State = ("all", "what custom operators may share")
SUBGRAPHS: State = ("all", "state within subgraphs")
RUN: State = ("all", "whether the run goes on")

# Until it has seen enough, CIRCULAR_BUFFER ends the run (circular_buffer.cc returns kTfLiteAbort): what stands before
# it runs more often than what stands after it.
ENDS_RUNS = frozenset(["CIRCULAR_BUFFER"])

STATEFUL_CODES: Mapping[str, State] = {
    "CALL_ONCE": VARIABLES,
    "VAR_HANDLE": HANDLES,  # TFLM numbers variables in the order of their handles.
    **dict.fromkeys(("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE"), TABLES),
    **dict.fromkeys(("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "STABLEHLO_RNG_BIT_GENERATOR"), RANDOM),
}


def variable_names(graph: Graph) -> dict[int, str]:
    """The shared names of the resource variables of a graph, by the tensor that is their handle."""
    return {
        operator.outputs[0]: operator.options.text("shared_name")
        for operator in graph.operators
        if operator.code == "VAR_HANDLE" and operator.outputs and operator.options is not None
    }


def accesses(model: Model, operator: Operator, names: Mapping[int, str]) -> Iterator[tuple[State, Access]]:
    """The state that an operator reads or writes. names: the variables of its graph, by handle.

    A variable whose handle comes from elsewhere may be any. Custom operators that are none of TFLM's own may share
    what nobody knows of, and control flow writes all that its subgraphs may touch. TFLM's own custom operators may keep
    state of their own (those for signals do), which matters where several operators run the subgraph that they are in.
    """
    yield from _own_accesses(operator, names)
    graphs = [model.subgraphs[index] for index in reachable_subgraphs(model, operator)]
    inside = [inner for graph in graphs for inner in graph.operators]
    touched = {found for inner in inside for found in _own_accesses(inner, {})} - {(RUN, "read")}
    for state in sorted({state for state, _ in touched}):
        yield state, "write"
    if any(inner.code == "CUSTOM" for inner in inside) or any(t.is_variable for graph in graphs for t in graph.tensors):
        yield SUBGRAPHS, "write"


def _own_accesses(operator: Operator, names: Mapping[int, str]) -> Iterator[tuple[State, Access]]:
    """What it touches itself, without the subgraphs that it runs."""
    yield RUN, "write" if operator.custom_code in ENDS_RUNS else "read"
    if operator.code in ("READ_VARIABLE", "ASSIGN_VARIABLE"):
        name = names.get(operator.inputs[0]) if operator.inputs else None
        if name is None:
            yield VARIABLES, "write"
        else:
            yield VARIABLES, "read"
            yield ("variable", name), "read" if operator.code == "READ_VARIABLE" else "write"
    elif operator.code in STATEFUL_CODES:
        yield STATEFUL_CODES[operator.code], "write"
    elif operator.code == "CUSTOM" and operator.custom_code not in CUSTOM_OPERATORS:
        yield CUSTOM, "write"


def reachable_subgraphs(model: Model, operator: Operator) -> list[int]:
    """The subgraphs that the operator runs, directly or not. A timeline has shown that there is no circle."""
    found: list[int] = []
    waiting = list(called_subgraphs(operator))
    while waiting:
        index = waiting.pop()
        if index not in found:
            found.append(index)
            waiting += [called for inner in model.subgraphs[index].operators for called in called_subgraphs(inner)]
    return found
