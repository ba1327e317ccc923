"""An instance from its text, and the answer as text.

MiniMalloc's CSV: id, lower, upper, size; optional alignment, offset (a pin), and alias, which is our own.

Lifetimes are half-open there: a buffer with lower 3 and upper 5 is alive at the times 3 and 4. Columns may stand in any
order; cells of optional columns may be empty. The answer is the same text with every offset filled in.

What makes an instance impossible: pins that collide or cannot be, and a capacity below what is alive at once.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import Any

from edgetool.errors import FailedCheckError, UsageError
from edgetool.memory.bound import live_bytes
from edgetool.memory.checker import Violation, check_layout
from edgetool.memory.instances.graph import graph_instance, read_graph
from edgetool.memory.instances.types import (
    MAX_ALIGNMENT,
    MAX_NAME_SHOWN,
    MAX_NUMBER,
    MAX_ROWS,
    MAX_TOTAL_BYTES,
    Graph,
    Instance,
    Table,
    invalid,
)
from edgetool.memory.problem import Buffer, Layout, LayoutProblem, Lifetime, aligned

MAX_PROBLEMS_SHOWN = 10_000
LARGEST_SHOWN = 8
# Of the fullest moments: padding may make another than the very fullest impossible.
MOMENTS_LOOKED_AT = 100


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of memory: a buffer, or all of an alias as one, with the buffers' indices."""

    buffer: Buffer
    members: tuple[int, ...]


def pieces_of(problem: LayoutProblem) -> tuple[Piece, ...]:
    """The pieces of memory, in the order of their first buffers; an alias' pin is the first of its members'."""
    groups: dict[object, list[int]] = {}
    for i, buffer in enumerate(problem.buffers):
        groups.setdefault(i if buffer.alias is None else buffer.alias, []).append(i)
    return tuple(Piece(_merged([problem.buffers[i] for i in members]), tuple(members)) for members in groups.values())


def naive_bytes(problem: LayoutProblem) -> int:
    """The sum of all pieces: the memory without any reuse."""
    return sum(piece.buffer.aligned_bytes for piece in pieces_of(problem))


def check_pins(instance: Instance, capacity: int | None = None) -> None:
    """Raise InvalidModelError, every row named, for pins that collide, are unaligned or end above the capacity.

    Also for members of one alias with different pins, and for sizes that sum to 2**63 or more.
    """
    pieces = pieces_of(instance.problem)
    if sum(piece.buffer.aligned_bytes for piece in pieces) > MAX_TOTAL_BYTES:
        raise invalid("the sizes add up to 2**63 bytes or more", "use a larger unit for sizes")
    problems = _different_pins(instance)
    pinned = [piece for piece in pieces if piece.buffer.pinned is not None]
    problem = LayoutProblem(tuple(piece.buffer for piece in pinned))
    offsets = tuple(piece.buffer.pinned or 0 for piece in pinned)
    top = 0
    for piece, offset in zip(pinned, offsets, strict=True):
        end = offset + piece.buffer.aligned_bytes if piece.buffer.size_bytes else 0
        top = max(top, end)
        if capacity is not None and end > capacity:
            problems.append(f"{_told(instance, piece)} is pinned to end at {end:,}, above the capacity of {capacity:,}")
    violations = check_layout(problem, Layout(offsets, top, 0, "none"))
    problems += [_violation(instance, violation, [pinned[i] for i in violation.buffers]) for violation in violations]
    if problems:
        fix = "change or remove these offsets"
        if len(problems) == 1:
            raise invalid(problems[0], fix)
        shown = problems[:MAX_PROBLEMS_SHOWN]
        if len(problems) > len(shown):
            shown.append(f"and {len(problems) - len(shown):,} more")
        count = "thousands of" if len(problems) > MAX_PROBLEMS_SHOWN else f"{len(problems):,}"
        raise invalid(f"has {count} conflicts between pinned offsets", fix, tuple(shown))


def check_capacity(instance: Instance, capacity: int) -> None:
    """Raise FailedCheckError when one moment needs more than the capacity; its details name what is alive then.

    Where all offsets are multiples of a grain, all that is alive but the highest takes up a multiple of it.
    """
    pieces = [piece for piece in pieces_of(instance.problem) if piece.buffer.size_bytes]
    grain = gcd(*(piece.buffer.alignment for piece in pieces), *(piece.buffer.pinned or 0 for piece in pieces)) or 1
    padded = LayoutProblem(tuple(_padded(piece.buffer, grain) for piece in pieces))
    moments = sorted(live_bytes(padded), key=lambda item: -item[1])[:MOMENTS_LOOKED_AT]
    for position, most in moments:
        if most <= capacity:
            return
        moment = Lifetime(position, position)
        alive = [piece for piece in pieces if piece.buffer.lifetime.overlaps(moment)]
        needed = most - max(-piece.buffer.aligned_bytes % grain for piece in alive)
        if needed > capacity:
            raise _impossible(instance, capacity, position, needed, alive)


def _padded(buffer: Buffer, grain: int) -> Buffer:
    return replace(buffer, size_bytes=aligned(buffer.aligned_bytes, grain), granule=1)


def _impossible(instance: Instance, capacity: int, position: int, needed: int, alive: list[Piece]) -> FailedCheckError:
    alive.sort(key=lambda piece: -piece.buffer.aligned_bytes)
    lines = [f"{piece.buffer.aligned_bytes:,} B  {_told(instance, piece)}" for piece in alive[:LARGEST_SHOWN]]
    if rest := alive[LARGEST_SHOWN:]:
        lines.append(f"{sum(piece.buffer.aligned_bytes for piece in rest):,} B  in {len(rest):,} more")
    padding = needed - sum(piece.buffer.aligned_bytes for piece in alive)
    gaps = f", including {padding:,} B of alignment padding" if padding else ""
    return FailedCheckError(
        f"no layout fits within the capacity of {capacity:,} B: {needed:,} B are live {instance.moment(position)}"
        f"{gaps}",
        fix=f"use a capacity of {needed:,} B or more, or reduce what is live there",
        details=tuple(lines),
    )


def _merged(buffers: list[Buffer]) -> Buffer:
    if len(buffers) == 1:
        return buffers[0]
    pins = [buffer.pinned for buffer in buffers if buffer.pinned is not None]
    return Buffer(
        subgraph=buffers[0].subgraph,
        tensor=buffers[0].tensor,
        name=buffers[0].name,
        size_bytes=max(buffer.aligned_bytes for buffer in buffers),
        lifetime=Lifetime(min(b.lifetime.first for b in buffers), max(b.lifetime.last for b in buffers)),
        alignment=lcm(*(buffer.alignment for buffer in buffers)),
        granule=1,
        pinned=pins[0] if pins else None,
    )


def _different_pins(instance: Instance) -> list[str]:
    """Members of one alias that are pinned to another place than its first pinned one."""
    first: dict[str, int] = {}
    problems = []
    for i, buffer in enumerate(instance.problem.buffers):
        if buffer.alias is None or buffer.pinned is None:
            continue
        other = first.setdefault(buffer.alias, i)
        pin = instance.problem.buffers[other].pinned
        if pin != buffer.pinned:
            text = f"{instance.told(other)} and {instance.told(i)} share the alias {buffer.alias[:40]!a}"
            problems.append(f"{text}, but are pinned to {pin:,} and {buffer.pinned:,}")
    return problems


def _violation(instance: Instance, violation: Violation, pieces: list[Piece]) -> str:
    if not pieces:
        return violation.message
    told = " and ".join(_told(instance, piece) for piece in pieces)
    buffers = [piece.buffer for piece in pieces]
    spans = " and ".join(f"{b.pinned or 0:,} to {(b.pinned or 0) + b.aligned_bytes:,}" for b in buffers)
    if violation.rule == "overlap":
        both = max(buffer.lifetime.first for buffer in buffers)
        return f"{told} overlap (bytes {spans}) {instance.moment(both)}"
    if violation.rule == "alignment":
        return f"{told} is at {buffers[0].pinned:,}, which is not a multiple of its alignment {buffers[0].alignment:,}"
    return f"{told}: {violation.message}"


def _told(instance: Instance, piece: Piece) -> str:
    told = instance.told(piece.members[0])
    others = len(piece.members) - 1
    return f"{told} and {others:,} more with the same alias" if others else told


REQUIRED = ("id", "lower", "upper", "size")
OPTIONAL = ("alignment", "offset", "alias")
EXAMPLE = "start with the header id,lower,upper,size"
MAX_SHOWN = 40

_whole = re.compile(r"[ \t]*(-?[0-9]{1,19})[ \t]*").fullmatch


def read_csv(text: str) -> Instance:
    """The instance that a CSV states. Raises InvalidModelError naming row and column."""
    table = _table(text)
    at = {name: column for column, name in enumerate(table.header)}
    where = [at.get(name, -1) for name in (*REQUIRED, *OPTIONAL)]
    buffers = []
    first_row: dict[str, int] = {}
    for row, cells in zip(table.rows, table.cells, strict=True):
        # An absent column reads as the empty cell that ends each row.
        name, lower, upper, size, alignment, offset, alias = [(*cells, "")[column] for column in where]
        if not name or (earlier := first_row.setdefault(name, row)) != row:
            problem = f"has the id {name[:MAX_NAME_SHOWN]!a} of row {earlier}" if name else "has no id"
            raise invalid(f"row {row} {problem}", "use a unique id for every buffer")
        first = _number(lower, row, "lower", -MAX_NUMBER, MAX_NUMBER)
        end = _number(upper, row, "upper", -MAX_NUMBER, MAX_NUMBER)
        if first >= end:
            raise invalid(
                f"row {row} ({name[:MAX_NAME_SHOWN]!a}) has an empty lifetime: lower is {first}, upper is {end}",
                "use an upper greater than lower",
            )
        buffers.append(
            Buffer(
                subgraph=0,
                tensor=-1,
                name=name,
                size_bytes=_number(size, row, "size", 0, MAX_NUMBER),
                lifetime=Lifetime(first, end - 1),
                alignment=_number(alignment, row, "alignment", 1, MAX_ALIGNMENT) if alignment.strip() else 1,
                granule=1,
                pinned=_number(offset, row, "offset", 0, MAX_NUMBER) if offset.strip() else None,
                alias=alias.strip() or None,
            )
        )
    return Instance(LayoutProblem(tuple(buffers)), table)


def write_csv(table: Table, layout: Layout) -> str:
    """The table's text with the layout's offset in every row; the column is the last if there was none."""
    header = table.header
    if "offset" not in header:
        header = (*header, "offset")
    column = header.index("offset")
    lines = _Lines()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(header)
    for cells, offset in zip(table.cells, layout.offsets, strict=True):
        writer.writerow((*cells[:column], offset, *cells[column + 1 :]))
    return "".join(lines.written)


class _Lines:
    """What csv writes to."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, text: str) -> None:
        """Keep the text."""
        self.written.append(text)


def _table(text: str) -> Table:
    if text.count("\n") > MAX_ROWS + 1:
        raise invalid(f"has more than {MAX_ROWS:,} rows", "split it and lay out the parts separately")
    if "\0" in text:
        raise invalid("contains a NUL byte: it is not a CSV file", EXAMPLE)
    rows = _rows(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    _, names = next(rows, (1, []))
    header = tuple(name.strip() for name in names)
    _check_header(header)
    kept = []
    numbers = []
    for number, cells in rows:
        if len(cells) != len(header):
            raise invalid(
                f"row {number} has {_count(len(cells), 'cell')}, but the header has {len(header)}",
                "cells may be empty, but the commas are required",
            )
        kept.append(tuple(cells))
        numbers.append(number)
    return Table(header, tuple(kept), tuple(numbers))


def _rows(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Number and cells of every row that is not blank; a row is a line."""
    reader = csv.reader(lines, strict=True)
    before = 0
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise invalid(f"row {before + 1} is not valid CSV: {error}", "check its quotes") from None
        if cells is None:
            return
        if reader.line_num != before + 1:
            raise invalid(f"row {before + 1} has an unclosed quote", "check its quotes")
        before = reader.line_num
        if cells and (len(cells) > 1 or cells[0].strip()):
            yield before, cells


def _check_header(header: tuple[str, ...]) -> None:
    shown = ",".join(header)[:MAX_SHOWN]
    missing = [name for name in REQUIRED if name not in header]
    if missing:
        raise invalid(f"the header {shown!a} is missing {' and '.join(missing)}", EXAMPLE)
    for i, name in enumerate(header):
        if name not in (*REQUIRED, *OPTIONAL):
            known = ", ".join((*REQUIRED, *OPTIONAL))
            raise invalid(f"the header has an unknown column {name[:MAX_SHOWN]!a}", f"the columns are {known}")
        if name in header[:i]:
            raise invalid(f"the header has the column {name} twice", "remove one")


def _number(text: str, row: int, column: str, least: int, most: int) -> int:
    found = _whole(text)
    value = int(found[1]) if found is not None else most + 1
    if not least <= value <= most:
        raise invalid(
            f"row {row}: the {column} {text[:MAX_SHOWN]!a} is not an integer from {_power(least)} to {_power(most)}"
        )
    return value


def _power(number: int) -> str:
    return {MAX_NUMBER: "2**62", -MAX_NUMBER: "-2**62", MAX_ALIGNMENT: "2**32"}.get(number, str(number))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def read_instance(text: str, *, constants_in_ram: bool = False) -> Instance:
    """The instance that a text states: a graph when it begins with a brace, else a CSV (docs/layout-format.md).

    constants_in_ram: each use of a constant of a graph is a buffer too. Raises InvalidModelError naming row or tensor,
    UsageError for constants_in_ram with a CSV.
    """
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise invalid("is empty", "use a CSV file with the header id,lower,upper,size, or a graph as JSON")
    if text.lstrip()[0] in "{[":
        return graph_instance(read_graph(text), constants_in_ram=constants_in_ram)
    if constants_in_ram:
        raise UsageError("a CSV file has no constants", fix="omit --constants-in-ram, or use a graph in JSON")
    return read_csv(text)


def write_answer(instance: Instance, layout: Layout) -> str:
    """The instance's text with the layout's offsets in it: read again, every buffer is pinned there.

    A constant of a graph gets the offset of each of its uses, as a list if there are several.
    """
    if isinstance(instance.source, Table):
        return write_csv(instance.source, layout)
    return json.dumps(_with_offsets(instance.source, instance, layout), indent=2) + "\n"


def _with_offsets(graph: Graph, instance: Instance, layout: Layout) -> dict[str, object]:
    offsets: dict[int, list[int]] = {}
    for buffer, offset in zip(instance.problem.buffers, layout.offsets, strict=True):
        offsets.setdefault(buffer.tensor, []).append(offset)
    stated: Any = graph.document["tensors"]
    if isinstance(stated, dict):
        tensors: object = {name: _entry(stated[name], offsets.get(i)) for i, name in enumerate(stated)}
    else:
        tensors = [_entry(entry, offsets.get(i)) for i, entry in enumerate(stated)]
    return {**graph.document, "tensors": tensors}


def _entry(stated: Any, offsets: list[int] | None) -> object:
    if offsets is None:
        return stated
    entry = stated if isinstance(stated, dict) else {"size": stated}
    return {**entry, "offset": offsets[0] if len(offsets) == 1 else offsets}
