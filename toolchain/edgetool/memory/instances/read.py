"""Read an instance from text, check its pins and capacity, and write the layout back as the same text.

MiniMalloc's CSV has the columns id, lower, upper and size, and optionally alignment, offset (a pin), and alias, which
is our extension. Its lifetimes are half-open: a buffer with lower 3 and upper 5 is live at the times 3 and 4. Columns
may be in any order; cells of optional columns may be empty. The answer is the same text with every offset filled in.

An instance is impossible if its pins conflict, or if the capacity is less than the live bytes of some moment.
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
    CsvTable,
    InstanceFile,
    TensorGraph,
    invalid,
)
from edgetool.memory.problem import Buffer, Layout, LayoutProblem, Lifetime, aligned

MAX_PROBLEMS_SHOWN = 10_000
LARGEST_SHOWN = 8
# The number of moments examined, the fullest first: because of padding, a moment other than the fullest may be the
# impossible one.
MAX_MOMENTS = 100


@dataclass(frozen=True, slots=True)
class MergedBuffer:
    """A buffer, or all buffers of one alias as one, with the indices of its members."""

    buffer: Buffer
    members: tuple[int, ...]


def merged_buffers(problem: LayoutProblem) -> tuple[MergedBuffer, ...]:
    """Return the merged buffers, in the order of their first members; the pin of an alias is the first among its
    members.
    """
    groups: dict[object, list[int]] = {}
    for i, buffer in enumerate(problem.buffers):
        groups.setdefault(i if buffer.alias is None else buffer.alias, []).append(i)
    return tuple(
        MergedBuffer(_merged([problem.buffers[i] for i in members]), tuple(members)) for members in groups.values()
    )


def naive_bytes(problem: LayoutProblem) -> int:
    """Return the sum of all merged buffers: the memory without any reuse."""
    return sum(item.buffer.aligned_bytes for item in merged_buffers(problem))


def check_pins(instance: InstanceFile, capacity: int | None = None) -> None:
    """Raise InvalidModelError, naming every row, for pins that conflict, are unaligned or end above the capacity.

    Also for members of one alias with different pins, and for sizes that sum to 2**63 or more.
    """
    merged = merged_buffers(instance.problem)
    if sum(item.buffer.aligned_bytes for item in merged) > MAX_TOTAL_BYTES:
        raise invalid("the sizes add up to 2**63 bytes or more", "use a larger unit for sizes")
    problems = _different_pins(instance)
    pinned = [item for item in merged if item.buffer.pinned is not None]
    problem = LayoutProblem(tuple(item.buffer for item in pinned))
    offsets = tuple(item.buffer.pinned or 0 for item in pinned)
    top = 0
    for item, offset in zip(pinned, offsets, strict=True):
        end = offset + item.buffer.aligned_bytes if item.buffer.size_bytes else 0
        top = max(top, end)
        if capacity is not None and end > capacity:
            problems.append(
                f"{_describe(instance, item)} is pinned to end at {end:,}, above the capacity of {capacity:,}"
            )
    violations = check_layout(problem, Layout(offsets, top, 0, "none"))
    problems += [
        _violation_text(instance, violation, [pinned[i] for i in violation.buffers]) for violation in violations
    ]
    if problems:
        fix = "change or remove these offsets"
        if len(problems) == 1:
            raise invalid(problems[0], fix)
        shown = problems[:MAX_PROBLEMS_SHOWN]
        if len(problems) > len(shown):
            shown.append(f"and {len(problems) - len(shown):,} more")
        count = "thousands of" if len(problems) > MAX_PROBLEMS_SHOWN else f"{len(problems):,}"
        raise invalid(f"has {count} conflicts between pinned offsets", fix, tuple(shown))


def check_capacity(instance: InstanceFile, capacity: int) -> None:
    """Raise FailedCheckError if one moment needs more than the capacity; its details list the buffers live then.

    If all offsets are multiples of a grain, all live buffers but the highest occupy a multiple of it.
    """
    merged = [item for item in merged_buffers(instance.problem) if item.buffer.size_bytes]
    grain = gcd(*(item.buffer.alignment for item in merged), *(item.buffer.pinned or 0 for item in merged)) or 1
    padded = LayoutProblem(tuple(_padded(item.buffer, grain) for item in merged))
    moments = sorted(live_bytes(padded), key=lambda item: -item[1])[:MAX_MOMENTS]
    for position, maximum in moments:
        if maximum <= capacity:
            return
        moment = Lifetime(position, position)
        alive = [item for item in merged if item.buffer.lifetime.overlaps(moment)]
        needed = maximum - max(-item.buffer.aligned_bytes % grain for item in alive)
        if needed > capacity:
            raise _capacity_error(instance, capacity, position, needed, alive)


def _padded(buffer: Buffer, grain: int) -> Buffer:
    return replace(buffer, size_bytes=aligned(buffer.aligned_bytes, grain), granule=1)


def _capacity_error(
    instance: InstanceFile, capacity: int, position: int, needed: int, alive: list[MergedBuffer]
) -> FailedCheckError:
    alive.sort(key=lambda item: -item.buffer.aligned_bytes)
    lines = [f"{item.buffer.aligned_bytes:,} B  {_describe(instance, item)}" for item in alive[:LARGEST_SHOWN]]
    if rest := alive[LARGEST_SHOWN:]:
        lines.append(f"{sum(item.buffer.aligned_bytes for item in rest):,} B  in {len(rest):,} more")
    padding = needed - sum(item.buffer.aligned_bytes for item in alive)
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


def _different_pins(instance: InstanceFile) -> list[str]:
    """Return the members of one alias whose pins differ from that of its first pinned member."""
    first: dict[str, int] = {}
    problems = []
    for i, buffer in enumerate(instance.problem.buffers):
        if buffer.alias is None or buffer.pinned is None:
            continue
        other = first.setdefault(buffer.alias, i)
        pin = instance.problem.buffers[other].pinned
        if pin != buffer.pinned:
            text = f"{instance.describe(other)} and {instance.describe(i)} share the alias {buffer.alias[:40]!a}"
            problems.append(f"{text}, but are pinned to {pin:,} and {buffer.pinned:,}")
    return problems


def _violation_text(instance: InstanceFile, violation: Violation, merged: list[MergedBuffer]) -> str:
    if not merged:
        return violation.message
    names = " and ".join(_describe(instance, item) for item in merged)
    buffers = [item.buffer for item in merged]
    spans = " and ".join(f"{b.pinned or 0:,} to {(b.pinned or 0) + b.aligned_bytes:,}" for b in buffers)
    if violation.rule == "overlap":
        both = max(buffer.lifetime.first for buffer in buffers)
        return f"{names} overlap (bytes {spans}) {instance.moment(both)}"
    if violation.rule == "alignment":
        return f"{names} is at {buffers[0].pinned:,}, which is not a multiple of its alignment {buffers[0].alignment:,}"
    return f"{names}: {violation.message}"


def _describe(instance: InstanceFile, item: MergedBuffer) -> str:
    description = instance.describe(item.members[0])
    others = len(item.members) - 1
    return f"{description} and {others:,} more with the same alias" if others else description


REQUIRED = ("id", "lower", "upper", "size")
OPTIONAL = ("alignment", "offset", "alias")
EXAMPLE = "start with the header id,lower,upper,size"
MAX_SHOWN = 40

_integer = re.compile(r"[ \t]*(-?[0-9]{1,19})[ \t]*").fullmatch


def read_csv(text: str) -> InstanceFile:
    """Return the instance of a CSV. Raises InvalidModelError naming row and column."""
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
    return InstanceFile(LayoutProblem(tuple(buffers)), table)


def write_csv(table: CsvTable, layout: Layout) -> str:
    """Return the table's text with the layout's offset in every row, in a new last column if there was none."""
    header = table.header
    if "offset" not in header:
        header = (*header, "offset")
    column = header.index("offset")
    lines = _LineBuffer()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(header)
    for cells, offset in zip(table.cells, layout.offsets, strict=True):
        writer.writerow((*cells[:column], offset, *cells[column + 1 :]))
    return "".join(lines.written)


class _LineBuffer:
    """The file object that the csv writer writes to."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, text: str) -> None:
        """Store the text."""
        self.written.append(text)


def _table(text: str) -> CsvTable:
    if text.count("\n") > MAX_ROWS + 1:
        raise invalid(f"has more than {MAX_ROWS:,} rows", "split it and lay out the parts separately")
    if "\0" in text:
        raise invalid("contains a NUL byte: it is not a CSV file", EXAMPLE)
    rows = _rows(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    _, names = next(rows, (1, []))
    header = tuple(name.strip() for name in names)
    _check_header(header)
    cells_by_row = []
    numbers = []
    for number, cells in rows:
        if len(cells) != len(header):
            raise invalid(
                f"row {number} has {_count(len(cells), 'cell')}, but the header has {len(header)}",
                "cells may be empty, but the commas are required",
            )
        cells_by_row.append(tuple(cells))
        numbers.append(number)
    return CsvTable(header, tuple(cells_by_row), tuple(numbers))


def _rows(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and cells of every row that is not blank; a row is a line."""
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
            columns = ", ".join((*REQUIRED, *OPTIONAL))
            raise invalid(f"the header has an unknown column {name[:MAX_SHOWN]!a}", f"the columns are {columns}")
        if name in header[:i]:
            raise invalid(f"the header has the column {name} twice", "remove one")


def _number(text: str, row: int, column: str, minimum: int, maximum: int) -> int:
    match = _integer(text)
    value = int(match[1]) if match is not None else maximum + 1
    if not minimum <= value <= maximum:
        limits = f"from {_power(minimum)} to {_power(maximum)}"
        raise invalid(f"row {row}: the {column} {text[:MAX_SHOWN]!a} is not an integer {limits}")
    return value


def _power(number: int) -> str:
    return {MAX_NUMBER: "2**62", -MAX_NUMBER: "-2**62", MAX_ALIGNMENT: "2**32"}.get(number, str(number))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def read_instance(text: str, *, constants_in_ram: bool = False) -> InstanceFile:
    """Return the instance of a text: a graph if it begins with a brace, else a CSV (docs/layout-format.md).

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


def write_answer(instance: InstanceFile, layout: Layout) -> str:
    """Return the instance's text with the layout's offsets: if it is read again, every buffer is pinned to its offset.

    A constant of a graph gets the offset of each of its uses, as a list if there are several.
    """
    if isinstance(instance.source, CsvTable):
        return write_csv(instance.source, layout)
    return json.dumps(_with_offsets(instance.source, instance, layout), indent=2) + "\n"


def _with_offsets(graph: TensorGraph, instance: InstanceFile, layout: Layout) -> dict[str, object]:
    offsets: dict[int, list[int]] = {}
    for buffer, offset in zip(instance.problem.buffers, layout.offsets, strict=True):
        offsets.setdefault(buffer.tensor, []).append(offset)
    value: Any = graph.document["tensors"]
    if isinstance(value, dict):
        tensors: object = {name: _entry(value[name], offsets.get(i)) for i, name in enumerate(value)}
    else:
        tensors = [_entry(entry, offsets.get(i)) for i, entry in enumerate(value)]
    return {**graph.document, "tensors": tensors}


def _entry(value: Any, offsets: list[int] | None) -> object:
    if offsets is None:
        return value
    entry = value if isinstance(value, dict) else {"size": value}
    return {**entry, "offset": offsets[0] if len(offsets) == 1 else offsets}
