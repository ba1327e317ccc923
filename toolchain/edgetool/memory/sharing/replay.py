"""Does a graph still compute the same with its tensors in shared buffers: it is run, with marks for contents.

This shares nothing with live ranges and solvers. Every operator writes marks that nothing else has; each reader must
find in its buffers what it would have found in tensors of their own. Called graphs run twice, as a loop would.

Training graphs: the gradients share buffers among each other, and nothing else does.
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
    """An assignment in which the named gradients whose names start with `prefix` share, and all else is static.

    Leave out the gradients of parameters, if an optimizer reads them outside of the graph and they are no outputs of
    it. Raises UsageError for names that are no tensors of the graph.
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
    """The marks in tensors of their own, and in the buffers that stand for them."""

    buffers: Mapping[str, str]
    in_place: bool
    true: dict[str, Mark] = field(default_factory=dict)
    actual: dict[str, Mark] = field(default_factory=dict)
    unread: dict[str, None] = field(default_factory=dict)
    found: list[Conflict] = field(default_factory=list)

    def buffer(self, name: str) -> str:
        return self.buffers.get(name, name)

    def bring(self, name: str) -> None:
        """Contents from outside: they have been in the buffer all along."""
        mark = self.true[name] = object()
        if self.actual.setdefault(self.buffer(name), mark) is not mark:
            text = f"{name} is an external input, but {self.buffer(name)} contains another tensor"
            self.found.append(Conflict("contents", text, (name,)))

    def write(self, name: str) -> None:
        self.true[name] = self.actual[self.buffer(name)] = object()
        self.unread[name] = None

    def read(self, name: str, reader: str) -> None:
        if name not in self.true:
            self.bring(name)
        self.unread.pop(name, None)
        self.keeps(name, reader)

    def keeps(self, name: str, reader: str) -> None:
        if self.actual.get(self.buffer(name)) is not self.true[name]:
            text = f"{reader} reads {name}, but {self.buffer(name)} contains another tensor"
            self.found.append(Conflict("contents", text, (name,)))


def check_replay(graph: SharingGraph, buffers: Mapping[str, str], *, in_place: bool = False) -> tuple[Conflict, ...]:
    """Every reader that finds the contents of another tensor, and every operator that would write over its inputs.

    buffers: the buffer of each tensor (those of called graphs named as graph.steps says); a tensor that is not in it
    has its own. What is written and never read must last to the end.
    """
    memory = _Memory(buffers, in_place)
    for name in graph.inputs:
        memory.bring(name)
    for operator in graph.operators:
        _run(operator, {}, "", memory)
    for name in dict.fromkeys((*graph.outputs, *memory.unread)):
        memory.read(name, "the caller of the graph")
    return tuple(memory.found)


def _run(operator: NamedOperator, full: Mapping[str, str], prefix: str, memory: _Memory) -> None:
    label = prefix + operator.name
    inputs = [full.get(name, prefix + name) for name in operator.inputs]
    outputs = list(dict.fromkeys(full.get(name, prefix + name) for name in operator.outputs))
    for name in inputs:
        memory.read(name, label)
    _check_places(label, inputs, outputs, memory, memory.in_place and not operator.calls)
    for name in outputs:
        memory.write(name)
    for index, call in enumerate(operator.calls):
        bound = dict(call.bound)
        # What else the called graph takes from outside, its operator puts there.
        for name in needed_and_written(call.graph)[0]:
            if name not in bound:
                memory.write(f"{label}/{index}/{name}")
    for _ in range(ROUNDS if operator.calls else 0):
        for index, call in enumerate(operator.calls):
            inside = f"{label}/{index}/"
            names = {inner: full.get(outer, prefix + outer) for inner, outer in call.bound}
            for inner in call.graph.operators:
                _run(inner, names, inside, memory)
            for name in call.graph.outputs:
                memory.read(names.get(name, inside + name), label)
            for name in [name for name in memory.unread if name.startswith(inside)]:
                del memory.unread[name]
    for name in (*inputs, *outputs) if operator.calls else ():
        memory.keeps(name, label)


def _check_places(label: str, inputs: list[str], outputs: list[str], memory: _Memory, in_place: bool) -> None:
    """Outputs lie apart from each other and, unless work in place is allowed, from the inputs."""
    holders: dict[str, str] = {} if in_place else {memory.buffer(name): name for name in inputs}
    for name in outputs:
        other = holders.setdefault(memory.buffer(name), name)
        if other != name:
            text = f"{label} overwrites {other} with {name} in {memory.buffer(name)}"
            memory.found.append(Conflict("operator", text, (other, name)))
