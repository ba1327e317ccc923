"""Graphs of named tensors in the order in which they run, with the graphs that their operators call.

Tensors by the name of their shared buffer, and graphs that use those names.

The live ranges of a graph's tensors, and which of them interfere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from edgetool.errors import UsageError
from edgetool.memory.sharing.types import Group, LiveRange, Ranges, interval


@dataclass(frozen=True, slots=True)
class NamedOperator:
    """An operator: the tensors that it reads and writes, and the graphs that it runs, each maybe more than once."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A graph that an operator runs (the step of a loop, a branch).

    bound: (tensor of the graph, tensor of the caller) that are one and the same memory.
    """

    graph: SharingGraph
    bound: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SharingGraph:
    """Operators in the order in which they run; inputs come from outside, outputs are read after the end."""

    operators: tuple[NamedOperator, ...]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """An operator on the time line: from `start` to `end`, which include all that it calls.

    owner: start and end of the operator of the main graph that runs it, None for those of the main graph.
    """

    start: int
    end: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    owner: tuple[int, int] | None


def inner_name(operator: str, call: int, name: str) -> str:
    """The name in the main graph of a subgraph's tensor that is not bound to one of the caller."""
    return f"{operator}/{call}/{name}"


def steps(graph: SharingGraph) -> tuple[Step, ...]:
    """Every operator of the graph and of those that it calls, on one time line, callers before what they call.

    At its last position a caller reads what the graphs hand out to it that is not bound to a tensor of its own.

    A bound tensor goes by its caller's name and is alive as long as the caller runs; all others of a subgraph are named
    by inner_name. Raises UsageError when that gives two tensors one name.
    """
    found: list[Step] = []
    taken = dict.fromkeys(tensor_names(graph), "")
    _add_steps(graph, _Place("", {}, None), 0, found, taken)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a called graph stands: what its names begin with, what each is called there, and whose time it takes."""

    prefix: str
    names: Mapping[str, str]
    owner: tuple[int, int] | None


def _add_steps(graph: SharingGraph, place: _Place, start: int, found: list[Step], taken: dict[str, str]) -> None:
    for operator in graph.operators:
        begun, end = start, start + _length(operator) - 1
        inputs, outputs = list(operator.inputs), list(operator.outputs)
        bodies = []
        handed_out: list[str] = []
        for index, call in enumerate(operator.calls):
            outer = dict(call.bound)
            prefix = inner_name(place.prefix + operator.name, index, "")
            inside = {}
            for name in tensor_names(call.graph):
                if name in outer:
                    inside[name] = place.names.get(outer[name], outer[name])
                    continue
                inside[name] = prefix + name
                if taken.setdefault(prefix + name, f"{start} {index}") != f"{start} {index}":
                    text = f"two tensors would have the name {prefix}{name}"
                    raise UsageError(text, fix="use unique names for operators that call graphs")
            needed, written = needed_and_written(call.graph)
            inputs += [outer[name] for name in needed if name in outer]
            outputs += [outer[name] for name in written if name in outer]
            handed_out += [prefix + name for name in _read_within(call.graph) if name not in outer]
            bodies.append((call.graph, _Place(prefix, inside, place.owner or (start, end))))
        named = [tuple(place.names.get(name, name) for name in names) for names in (inputs, outputs)]
        found.append(Step(start, end, named[0], named[1], place.owner))
        start += 1
        for body, inner in bodies:
            _add_steps(body, inner, start, found, taken)
            start += sum(map(_length, body.operators))
        if handed_out:
            found.append(Step(end, end, tuple(handed_out), (), place.owner or (begun, end)))
        start = end + 1


def _length(operator: NamedOperator) -> int:
    """Its positions; one that calls has the first and the last for itself, when all that it calls is not running."""
    if not operator.calls:
        return 1
    return 2 + sum(_length(inner) for call in operator.calls for inner in call.graph.operators)


def _read_within(graph: SharingGraph) -> list[str]:
    """The outputs that its own operators read as well: they must outlast those readers."""
    inside = {name for operator in graph.operators for name in operator.inputs}
    inside.update(outer for operator in graph.operators for call in operator.calls for _, outer in call.bound)
    return [name for name in graph.outputs if name in inside]


def needed_and_written(graph: SharingGraph) -> tuple[list[str], list[str]]:
    """The tensors whose contents the graph takes from outside, and those that it writes."""
    needed, written = dict.fromkeys(graph.inputs), dict[str, None]()
    for operator in graph.operators:
        reads, writes = list(operator.inputs), list(operator.outputs)
        for call in operator.calls:
            outer = dict(call.bound)
            inner_reads, inner_writes = needed_and_written(call.graph)
            reads += [outer[name] for name in inner_reads if name in outer]
            writes += [outer[name] for name in inner_writes if name in outer]
        needed.update(dict.fromkeys(name for name in reads if name not in written))
        written.update(dict.fromkeys(writes))
    needed.update(dict.fromkeys(name for name in graph.outputs if name not in written))
    return list(needed), list(written)


def tensor_names(graph: SharingGraph) -> list[str]:
    """Every tensor that the graph itself mentions, in order; none of those that only the graphs know that it calls."""
    inside = [name for op in graph.operators for name in (*op.inputs, *op.outputs)]
    bound = [outer for op in graph.operators for call in op.calls for _, outer in call.bound]
    return list(dict.fromkeys((*graph.inputs, *inside, *bound, *graph.outputs)))


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


def compute_ranges(graph: SharingGraph, sizes: Mapping[str, int] | None = None) -> dict[str, LiveRange]:
    """The live range of every tensor that the graph or one of its subgraphs mentions, by name.

    Unknown is the definition of an input, and of what is read before it is written; and the use of an output, and of
    what is written and not read after. Tensors of a subgraph (named as graph.steps says) for which that holds live as
    long as the operator that calls it: it may run more than once. Raises UsageError when sizes are given and one
    is missing.
    """
    reads: dict[str, list[Step]] = {}
    writes: dict[str, list[Step]] = {}
    for step in steps(graph):
        for name in step.inputs:
            reads.setdefault(name, []).append(step)
        for name in step.outputs:
            writes.setdefault(name, []).append(step)
    names = dict.fromkeys((*graph.inputs, *reads, *writes, *graph.outputs))
    if sizes is not None and (missing := [name for name in names if name not in sizes]):
        raise UsageError(
            f"there is no size for {', '.join(missing[:5])}", fix="specify the size of every tensor in bytes"
        )
    ranges = {}
    for name in names:
        read, written = reads.get(name, []), writes.get(name, [])
        first = min((step.start for step in written), default=None)
        last = max((step.end for step in read), default=None)
        from_outside = first is None or name in graph.inputs or any(step.start <= first for step in read)
        to_the_end = last is None or name in graph.outputs or any(step.end >= last for step in written)
        defined, used = (None if from_outside else first), (None if to_the_end else last)
        owners = [step.owner for step in (*read, *written)]
        if owners and None not in owners and None in (defined, used):
            defined, used = owners[0] or (None, None)
        ranges[name] = LiveRange(defined, used, None if sizes is None else sizes[name])
    return ranges


def known(ranges: Ranges) -> dict[str, LiveRange]:
    """The ranges with every unknown filled in. Raises UsageError for ranges that end before they start."""
    positions = [at for live in ranges.values() for at in (live.defined, live.used) if at is not None]
    before, after = min([0, *positions]) - 1, max([0, *positions]) + 1
    filled = {}
    for name, live in ranges.items():
        defined = before if live.defined is None else live.defined
        used = after if live.used is None else live.used
        size = 1 if live.size is None else live.size
        if used < defined:
            text = f"{name} is last used at {used}, before it is defined at {defined}"
            raise UsageError(text, fix="use ranges that do not end before they start")
        if size < 0:
            raise UsageError(f"{name} has {size} bytes", fix="use sizes of 0 or more")
        filled[name] = LiveRange(defined, used, size)
    return filled


def is_compatible(candidate: LiveRange, members: Collection[LiveRange], *, in_place: bool = False) -> bool:
    """Whether a tensor may join those of a buffer: it interferes with none of them."""
    named = {str(index): live for index, live in enumerate((candidate, *members))}
    mine, *others = (interval(live, in_place=in_place) for live in known(named).values())
    return all(other.end < mine.start or mine.end < other.start for other in others)


def interference(ranges: Ranges, *, in_place: bool = False) -> dict[str, frozenset[str]]:
    """For every tensor those that may not share a buffer with it."""
    times = {name: interval(live, in_place=in_place) for name, live in known(ranges).items()}
    found: dict[str, set[str]] = {name: set() for name in times}
    alive: list[str] = []
    for name in sorted(times, key=lambda name: times[name].start):
        alive = [other for other in alive if times[other].end >= times[name].start]
        for other in alive:
            found[name].add(other)
            found[other].add(name)
        alive.append(name)
    return {name: frozenset(others) for name, others in found.items()}


def with_sizes(ranges: Ranges, sizes: Mapping[str, int]) -> dict[str, LiveRange]:
    """The ranges with these sizes where they are given."""
    return {name: replace(live, size=sizes.get(name, live.size)) for name, live in ranges.items()}
