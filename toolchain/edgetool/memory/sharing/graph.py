"""Graphs of named tensors in execution order, with the graphs that their operators call, and their live ranges.

Nested graphs are flattened to one timeline, on which a caller spans all that it calls. From it follow the live range of
every tensor and the pairs that interfere. A graph can be rewritten to use the names of shared buffers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from edgetool.errors import UsageError
from edgetool.memory.sharing.types import LiveRange, Ranges, TensorGroup, interval


@dataclass(frozen=True, slots=True)
class NamedOperator:
    """An operator with the tensors that it reads and writes, and the graphs that it calls, possibly several times."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    calls: tuple[SubgraphCall, ...] = ()


@dataclass(frozen=True, slots=True)
class SubgraphCall:
    """A graph that an operator calls (the body of a loop, or a branch).

    bound: pairs of a tensor of the graph and a tensor of the caller that are the same memory.
    """

    graph: SharingGraph
    bound: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SharingGraph:
    """Operators in execution order; inputs come from outside, outputs are read after the end."""

    operators: tuple[NamedOperator, ...]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """An operator on the timeline, from `start` to `end`, which include all that it calls.

    owner: start and end of the operator of the main graph that calls it, None for those of the main graph.
    """

    start: int
    end: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    owner: tuple[int, int] | None


def inner_name(operator: str, call: int, name: str) -> str:
    """Return the name in the main graph of a subgraph's tensor that is not bound to one of the caller."""
    return f"{operator}/{call}/{name}"


def timeline_steps(graph: SharingGraph) -> tuple[TimelineStep, ...]:
    """Return every operator of the graph and of the graphs that it calls, on one timeline, callers first.

    At its last position, a caller reads those outputs of the graphs that are not bound to one of its tensors.

    A bound tensor has its caller's name and is live as long as the caller runs; all others of a subgraph are named by
    inner_name. Raises UsageError if two tensors would have the same name.
    """
    result: list[TimelineStep] = []
    taken = dict.fromkeys(tensor_names(graph), "")
    _add_steps(graph, _CallSite("", {}, None), 0, result, taken)
    return tuple(result)


@dataclass(frozen=True, slots=True)
class _CallSite:
    """The context of a called graph: the prefix of its names, the names of its tensors, and the owning operator."""

    prefix: str
    names: Mapping[str, str]
    owner: tuple[int, int] | None


def _add_steps(
    graph: SharingGraph, site: _CallSite, start: int, result: list[TimelineStep], taken: dict[str, str]
) -> None:
    for operator in graph.operators:
        begin, end = start, start + _length(operator) - 1
        inputs, outputs = list(operator.inputs), list(operator.outputs)
        bodies = []
        exported: list[str] = []
        for index, call in enumerate(operator.calls):
            outer = dict(call.bound)
            prefix = inner_name(site.prefix + operator.name, index, "")
            inside = {}
            for name in tensor_names(call.graph):
                if name in outer:
                    inside[name] = site.names.get(outer[name], outer[name])
                    continue
                inside[name] = prefix + name
                if taken.setdefault(prefix + name, f"{start} {index}") != f"{start} {index}":
                    text = f"two tensors would have the name {prefix}{name}"
                    raise UsageError(text, fix="use unique names for operators that call graphs")
            needed, written = needed_and_written(call.graph)
            inputs += [outer[name] for name in needed if name in outer]
            outputs += [outer[name] for name in written if name in outer]
            exported += [prefix + name for name in _read_within(call.graph) if name not in outer]
            bodies.append((call.graph, _CallSite(prefix, inside, site.owner or (start, end))))
        named = [tuple(site.names.get(name, name) for name in names) for names in (inputs, outputs)]
        result.append(TimelineStep(start, end, named[0], named[1], site.owner))
        start += 1
        for body, inner in bodies:
            _add_steps(body, inner, start, result, taken)
            start += sum(map(_length, body.operators))
        if exported:
            result.append(TimelineStep(end, end, tuple(exported), (), site.owner or (begin, end)))
        start = end + 1


def _length(operator: NamedOperator) -> int:
    """Return the number of positions; a caller has its first and last position for itself, when nothing it
    calls runs.
    """
    if not operator.calls:
        return 1
    return 2 + sum(_length(inner) for call in operator.calls for inner in call.graph.operators)


def _read_within(graph: SharingGraph) -> list[str]:
    """Return the outputs that the graph's own operators read as well: they must outlive these readers."""
    inside = {name for operator in graph.operators for name in operator.inputs}
    inside.update(outer for operator in graph.operators for call in operator.calls for _, outer in call.bound)
    return [name for name in graph.outputs if name in inside]


def needed_and_written(graph: SharingGraph) -> tuple[list[str], list[str]]:
    """Return the tensors whose contents the graph reads from outside, and those that it writes."""
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
    """Return every tensor that the graph itself uses, in order, without those that only the called graphs use."""
    inside = [name for op in graph.operators for name in (*op.inputs, *op.outputs)]
    bound = [outer for op in graph.operators for call in op.calls for _, outer in call.bound]
    return list(dict.fromkeys((*graph.inputs, *inside, *bound, *graph.outputs)))


def buffer_names(groups: Sequence[TensorGroup], prefix: str = "shared_") -> dict[str, str]:
    """Return the buffer of each tensor: `prefix` and a number, or the tensor's name if it does not share.

    Raises UsageError if a tensor already has the name of a buffer.
    """
    names = {name for group in groups for name in group}
    named = [f"{prefix}{number}" for number, _ in enumerate(group for group in groups if len(group) > 1)]
    if taken := names.intersection(named):
        raise UsageError(
            f"{min(taken)} is already the name of a tensor", fix="choose another prefix for the shared buffers"
        )
    buffers = iter(named)
    result = {}
    for group in groups:
        buffer = next(buffers) if len(group) > 1 else None
        result.update({name: buffer or name for name in group})
    return result


def renamed(graph: SharingGraph, buffers: Mapping[str, str]) -> SharingGraph:
    """Return the graph with its tensors named by their buffers, also in the graphs that it calls.

    buffers: by tensor, those of called graphs named as in timeline_steps; a tensor that is not in it keeps its name. A
    tensor bound to one of the caller gets the caller's name; in the result, every called graph is bound to all of its
    tensors.
    """
    return _renamed(graph, {}, "", buffers)


def _renamed(
    graph: SharingGraph, outer_names: Mapping[str, str], prefix: str, buffers: Mapping[str, str]
) -> SharingGraph:
    """Rename one graph. outer_names: the names of bound tensors in the main graph."""

    def buffer_of(names: Sequence[str]) -> tuple[str, ...]:
        global_names = [outer_names.get(name, prefix + name) for name in names]
        return tuple(buffers.get(name, name) for name in global_names)

    operators = []
    for op in graph.operators:
        calls = []
        for index, call in enumerate(op.calls):
            bound = {name: outer_names.get(outer, prefix + outer) for name, outer in call.bound}
            inner = _renamed(call.graph, bound, inner_name(prefix + op.name, index, ""), buffers)
            calls.append(SubgraphCall(inner, tuple((name, name) for name in tensor_names(inner))))
        operators.append(NamedOperator(op.name, buffer_of(op.inputs), buffer_of(op.outputs), tuple(calls)))
    return SharingGraph(tuple(operators), buffer_of(graph.inputs), buffer_of(graph.outputs))


def compute_ranges(graph: SharingGraph, sizes: Mapping[str, int] | None = None) -> dict[str, LiveRange]:
    """Return the live range of every tensor that the graph or one of its subgraphs uses, by name.

    The definition is unknown for an input and for a tensor that is read before it is written; the use is unknown for an
    output and for a tensor that is written but not read afterwards. Such tensors of a subgraph (named as in
    timeline_steps) live as long as the operator that calls it, which may run it more than once. Raises UsageError if
    sizes are given but one is missing.
    """
    reads: dict[str, list[TimelineStep]] = {}
    writes: dict[str, list[TimelineStep]] = {}
    for step in timeline_steps(graph):
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


def fill_unknowns(ranges: Ranges) -> dict[str, LiveRange]:
    """Return the ranges with every unknown filled in. Raises UsageError for ranges that end before they start."""
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
    """Return whether a tensor may join a buffer: it interferes with none of its members."""
    named = {str(index): live for index, live in enumerate((candidate, *members))}
    candidate_interval, *others = (interval(live, in_place=in_place) for live in fill_unknowns(named).values())
    return all(other.end < candidate_interval.start or candidate_interval.end < other.start for other in others)


def interference(ranges: Ranges, *, in_place: bool = False) -> dict[str, frozenset[str]]:
    """Return, for every tensor, those that may not share a buffer with it."""
    times = {name: interval(live, in_place=in_place) for name, live in fill_unknowns(ranges).items()}
    result: dict[str, set[str]] = {name: set() for name in times}
    alive: list[str] = []
    for name in sorted(times, key=lambda name: times[name].start):
        alive = [other for other in alive if times[other].end >= times[name].start]
        for other in alive:
            result[name].add(other)
            result[other].add(name)
        alive.append(name)
    return {name: frozenset(others) for name, others in result.items()}


def with_sizes(ranges: Ranges, sizes: Mapping[str, int]) -> dict[str, LiveRange]:
    """Return the ranges with these sizes, if available."""
    return {name: replace(live, size=sizes.get(name, live.size)) for name, live in ranges.items()}
