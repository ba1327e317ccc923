"""Tensors by the name of their shared buffer, and graphs that use those names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgetool.errors import UsageError
from edgetool.memory.sharing.graph import Call, NamedOperator, SharingGraph, inner_name, tensor_names
from edgetool.memory.sharing.types import Group


def buffer_names(groups: Sequence[Group], prefix: str = "shared_") -> dict[str, str]:
    """The buffer of each tensor: `prefix` and a number, and its own name where it shares with no other.

    Raises UsageError when a tensor already has the name of a buffer.
    """
    names = {name for group in groups for name in group}
    named = [f"{prefix}{number}" for number, _ in enumerate(group for group in groups if len(group) > 1)]
    if taken := names.intersection(named):
        raise UsageError(
            f"{min(taken)} is already the name of a tensor", fix="choose another prefix for the shared buffers"
        )
    buffers = iter(named)
    found = {}
    for group in groups:
        buffer = next(buffers) if len(group) > 1 else None
        found.update({name: buffer or name for name in group})
    return found


def renamed(graph: SharingGraph, buffers: Mapping[str, str]) -> SharingGraph:
    """The graph with its tensors named by their buffers, in the graphs that it calls as well.

    buffers: by tensor, those of called graphs named as graph.steps says; what is not in it keeps that name. What is
    bound to a tensor of the caller is called as that is; in the end every called graph is bound to all it names.
    """
    return _renamed(graph, {}, "", buffers)


def _renamed(graph: SharingGraph, full: Mapping[str, str], prefix: str, buffers: Mapping[str, str]) -> SharingGraph:
    """full: what bound tensors are called in the main graph."""

    def buffer_of(names: Sequence[str]) -> tuple[str, ...]:
        known_as = [full.get(name, prefix + name) for name in names]
        return tuple(buffers.get(name, name) for name in known_as)

    operators = []
    for op in graph.operators:
        calls = []
        for index, call in enumerate(op.calls):
            bound = {name: full.get(outer, prefix + outer) for name, outer in call.bound}
            inner = _renamed(call.graph, bound, inner_name(prefix + op.name, index, ""), buffers)
            calls.append(Call(inner, tuple((name, name) for name in tensor_names(inner))))
        operators.append(NamedOperator(op.name, buffer_of(op.inputs), buffer_of(op.outputs), tuple(calls)))
    return SharingGraph(tuple(operators), buffer_of(graph.inputs), buffer_of(graph.outputs))
