"""The live ranges of a graph's tensors, and which of them interfere."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from edgetool.errors import UsageError
from edgetool.memory.sharing.graph import SharingGraph, Step, steps
from edgetool.memory.sharing.types import LiveRange, Ranges, interval


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
