"""A check that a graph computes the same in shared buffers, by execution with marks as contents; and training graphs.

The check shares nothing with live ranges and solvers. Every operator writes unique marks; each reader must find the
marks in its buffers that it would find in separate tensors. Called graphs run twice, as in a loop.

In training graphs, the gradients share buffers with each other, and all other tensors are static.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from edgetool.errors import UsageError
from edgetool.memory.problem import Effort
from edgetool.memory.sharing.assign import assign
from edgetool.memory.sharing.check import Conflict
from edgetool.memory.sharing.graph import NamedOperator, SharingGraph, compute_ranges, needed_and_written
from edgetool.memory.sharing.types import Algorithm, Sharing


def share_gradients(
    graph: SharingGraph,
    gradients: Collection[str],
    sizes: Mapping[str, int] | None = None,
    *,
    algorithm: Algorithm = "dynamic-programming",
    prefix: str = "",
    in_place: bool = False,
    effort: Effort | None = None,
) -> Sharing:
    """Return an assignment in which the named gradients whose names start with `prefix` share; all others are static.

    Omit the gradients of parameters if an optimizer outside of the graph reads them and they are not outputs. Raises
    UsageError for names that are not tensors of the graph.
    """
    ranges = compute_ranges(graph, sizes)
    if unknown := sorted(set(gradients).difference(ranges)):
        raise UsageError(
            f"not tensors of the graph: {', '.join(unknown[:5])}", fix="specify gradients that the graph writes"
        )
    static = set(ranges).difference(gradients)
    return assign(ranges, algorithm, static=static, prefix=prefix, in_place=in_place, effort=effort)


ROUNDS = 2
Mark = object


@dataclass(slots=True)
class _Memory:
    """The marks in separate tensors (true), and in the buffers that replace them (actual)."""

    buffers: Mapping[str, str]
    in_place: bool
    true: dict[str, Mark] = field(default_factory=dict)
    actual: dict[str, Mark] = field(default_factory=dict)
    unread: dict[str, None] = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)

    def buffer(self, name: str) -> str:
        return self.buffers.get(name, name)

    def load_external(self, name: str) -> None:
        """Load contents from outside, which are in the buffer from the start."""
        mark = self.true[name] = object()
        if self.actual.setdefault(self.buffer(name), mark) is not mark:
            text = f"{name} is an external input, but {self.buffer(name)} contains another tensor"
            self.conflicts.append(Conflict("contents", text, (name,)))

    def write(self, name: str) -> None:
        self.true[name] = self.actual[self.buffer(name)] = object()
        self.unread[name] = None

    def read(self, name: str, reader: str) -> None:
        if name not in self.true:
            self.load_external(name)
        self.unread.pop(name, None)
        self.check_contents(name, reader)

    def check_contents(self, name: str, reader: str) -> None:
        if self.actual.get(self.buffer(name)) is not self.true[name]:
            text = f"{reader} reads {name}, but {self.buffer(name)} contains another tensor"
            self.conflicts.append(Conflict("contents", text, (name,)))


def check_replay(graph: SharingGraph, buffers: Mapping[str, str], *, in_place: bool = False) -> tuple[Conflict, ...]:
    """Return every reader that finds the contents of another tensor, and every operator that would overwrite its
    inputs.

    buffers: the buffer of each tensor (those of called graphs named as in timeline_steps); a tensor that is not in it
    has a separate one. A tensor that is written but never read must last to the end.
    """
    memory = _Memory(buffers, in_place)
    for name in graph.inputs:
        memory.load_external(name)
    for operator in graph.operators:
        _run(operator, {}, "", memory)
    for name in dict.fromkeys((*graph.outputs, *memory.unread)):
        memory.read(name, "the caller of the graph")
    return tuple(memory.conflicts)


def _run(operator: NamedOperator, outer_names: Mapping[str, str], prefix: str, memory: _Memory) -> None:
    label = prefix + operator.name
    inputs = [outer_names.get(name, prefix + name) for name in operator.inputs]
    outputs = list(dict.fromkeys(outer_names.get(name, prefix + name) for name in operator.outputs))
    for name in inputs:
        memory.read(name, label)
    _check_overwrites(label, inputs, outputs, memory, memory.in_place and not operator.calls)
    for name in outputs:
        memory.write(name)
    for index, call in enumerate(operator.calls):
        bound = dict(call.bound)
        # The operator provides everything else that the called graph reads from outside.
        for name in needed_and_written(call.graph)[0]:
            if name not in bound:
                memory.write(f"{label}/{index}/{name}")
    for _ in range(ROUNDS if operator.calls else 0):
        for index, call in enumerate(operator.calls):
            inside = f"{label}/{index}/"
            names = {inner: outer_names.get(outer, prefix + outer) for inner, outer in call.bound}
            for inner in call.graph.operators:
                _run(inner, names, inside, memory)
            for name in call.graph.outputs:
                memory.read(names.get(name, inside + name), label)
            for name in [name for name in memory.unread if name.startswith(inside)]:
                del memory.unread[name]
    for name in (*inputs, *outputs) if operator.calls else ():
        memory.check_contents(name, label)


def _check_overwrites(label: str, inputs: list[str], outputs: list[str], memory: _Memory, in_place: bool) -> None:
    """Check that outputs are disjoint from each other and, unless in_place is set, from the inputs."""
    holders: dict[str, str] = {} if in_place else {memory.buffer(name): name for name in inputs}
    for name in outputs:
        other = holders.setdefault(memory.buffer(name), name)
        if other != name:
            text = f"{label} overwrites {other} with {name} in {memory.buffer(name)}"
            memory.conflicts.append(Conflict("operator", text, (other, name)))
