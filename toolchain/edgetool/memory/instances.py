"""Layout problems as text: MiniMalloc's CSV and a graph as JSON, with the layout written back in the same form.

Pins and capacity are checked by functions of their own.

MiniMalloc's CSV has the columns id, lower, upper and size, and optionally alignment, offset (a pin), and our extensions
alias, memory (the names of the memories that can hold the buffer) and traffic (the bytes that an inference moves). Its
lifetimes are half-open: a buffer with lower 3 and upper 5 is live at the times 3 and 4. Columns may be in any order;
cells of optional columns may be empty. The answer is the same text with every offset filled in.

An instance is impossible if its pins conflict, or if the capacity is less than the live bytes of some moment.

A graph as JSON has tensors with sizes, and the operators that read and write them.

{"tensors": [{"name": "x", "size": 784}, {"name": "w", "size": 288, "constant": true}, ...],
     "operators": [{"name": "conv", "inputs": ["x", "w"], "outputs": ["y"]}, ...],
     "inputs": ["x"], "outputs": ["y"], "order": ["conv", ...], "alignment": 4}

Tensors may also be an object of name: size or name: entry. An entry may have alignment, offset (a pin), constant,
alias, memory and traffic. Tensors and operators are referred to by name, or by index from 0. Any other key is an error,
so that misspelled keys are detected.

The lifetimes follow from the execution order: that of "order", or else of the list, sorted topologically.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from math import gcd, lcm
from typing import Annotated, Any

from msgspec import Meta

from edgetool.errors import MAX_PROBLEMS, FailedCheckError, InvalidModelError, UsageError
from edgetool.memory.bound import live_bytes
from edgetool.memory.checker import Violation, check_layout
from edgetool.memory.problem import Buffer, Layout, LayoutProblem, Lifetime, SeveralLayout, aligned
from edgetool.structure import Object, StructureError, shown, strict_json, structured

# The limits of one row, and of all rows together: sums of sizes are below 2**63, as in CP-SAT and in C.
MAX_NUMBER = 2**62
MAX_ALIGNMENT = 2**32
MAX_TOTAL_BYTES = 2**63 - 1
MAX_ROWS = 1_000_000
MAX_NAME_SHOWN = 60


@dataclass(frozen=True, slots=True)
class CsvTable:
    """The cells of a CSV as text, its columns, and the row number of each in the file (the header is row 1)."""

    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """A tensor of a graph. offsets: its pin; for a constant, one per use, or one for all uses.

    memories: the names of those that can hold it; empty for any. traffic: the bytes that an inference moves; None for
    its size times the number of its readers and writers.
    """

    name: str
    size: int
    alignment: int
    offsets: tuple[int, ...] = ()
    constant: bool = False
    alias: str | None = None
    memories: tuple[str, ...] = ()
    traffic: int | None = None


@dataclass(frozen=True, slots=True)
class GraphOperator:
    """An operator, with the indices of the tensors that it reads and writes; label is its position in the list and its
    name.
    """

    name: str
    label: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorGraph:
    """Tensors, and operators in execution order. document is the JSON value that they were read from.

    inputs are written before the first operator; outputs are needed after the last one.
    """

    tensors: tuple[GraphTensor, ...]
    operators: tuple[GraphOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    document: dict[str, object]


@dataclass(frozen=True, slots=True)
class InstanceFile:
    """A layout problem and its source; the buffers of a graph contain the index of their tensor.

    memories: for each buffer, the names of the memories that can hold it; empty for any. traffic: the bytes of each
    buffer that an inference moves.
    """

    problem: LayoutProblem
    source: CsvTable | TensorGraph
    memories: tuple[tuple[str, ...], ...]
    traffic: tuple[int, ...]

    def describe(self, index: int) -> str:
        """Return the row or tensor of a buffer in the file, and its name."""
        buffer = self.problem.buffers[index]
        name = f"{buffer.name[:MAX_NAME_SHOWN]!a}"
        if isinstance(self.source, CsvTable):
            return f"row {self.source.rows[index]} ({name})"
        return f"tensor {buffer.tensor} ({name})"

    def moment(self, position: int) -> str:
        """Return the time in the CSV, or the operator of the graph."""
        if isinstance(self.source, CsvTable):
            return f"at time {position}"
        if position < 0:
            return "before the first operator"
        if position >= len(self.source.operators):
            return "after the last operator"
        return f"at {self.source.operators[position].label}"


def invalid(what: str, fix: str | None = None, details: tuple[str, ...] = ()) -> InvalidModelError:
    """Return the error for an invalid instance."""
    return InvalidModelError(what, fix=fix, details=details)


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
OPTIONAL = ("alignment", "offset", "alias", "memory", "traffic")
MOVES = 2  # a buffer is written and read once unless its traffic is stated
CSV_EXAMPLE = "start with the header id,lower,upper,size"
MAX_SHOWN = 40

_integer = re.compile(r"[ \t]*(-?[0-9]{1,19})[ \t]*").fullmatch


def read_csv(text: str) -> InstanceFile:
    """Return the instance of a CSV. Raises InvalidModelError naming row and column."""
    table = _table(text)
    at = {name: column for column, name in enumerate(table.header)}
    where = [at.get(name, -1) for name in (*REQUIRED, *OPTIONAL)]
    buffers = []
    memories: list[tuple[str, ...]] = []
    traffic: list[int] = []
    first_row: dict[str, int] = {}
    for row, cells in zip(table.rows, table.cells, strict=True):
        # An absent column reads as the empty cell that ends each row.
        name, lower, upper, size, alignment, offset, alias, memory, moved = [(*cells, "")[column] for column in where]
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
        memories.append(tuple(memory.split()))
        moved_bytes = _number(moved, row, "traffic", 0, MAX_NUMBER) if moved.strip() else MOVES * buffers[-1].size_bytes
        traffic.append(moved_bytes)
    return InstanceFile(LayoutProblem(tuple(buffers)), table, tuple(memories), tuple(traffic))


def write_csv(table: CsvTable, offsets: Sequence[int], memories: Sequence[str] | None = None) -> str:
    """Return the table's text with the offset, and the memory if there are several, in every row.

    A column that the table does not have comes last.
    """
    columns: dict[str, Sequence[object]] = {"offset": offsets}
    if memories is not None:
        columns["memory"] = memories
    header = (*table.header, *(name for name in columns if name not in table.header))
    lines = _LineBuffer()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(header)
    for row, cells in enumerate(table.cells):
        given = dict(zip(table.header, cells, strict=True))
        writer.writerow([columns[name][row] if name in columns else given[name] for name in header])
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
        raise invalid("contains a NUL byte: it is not a CSV file", CSV_EXAMPLE)
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
        raise invalid(f"the header {shown!a} is missing {' and '.join(missing)}", CSV_EXAMPLE)
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


def write_answer(instance: InstanceFile, layout: Layout | SeveralLayout, memories: Sequence[str] | None = None) -> str:
    """Return the instance's text with the layout's offsets: if it is read again, every buffer is pinned to its offset.

    A constant of a graph gets the offset of each of its uses, as a list if there are several. memories: the memory of
    each buffer, if there are several.
    """
    if isinstance(instance.source, CsvTable):
        return write_csv(instance.source, layout.offsets, memories)
    return json.dumps(_with_answers(instance.source, instance, layout.offsets, memories), indent=2) + "\n"


def _with_answers(
    graph: TensorGraph, instance: InstanceFile, offsets: Sequence[int], memories: Sequence[str] | None
) -> dict[str, object]:
    answers: dict[int, dict[str, list[Any]]] = {}
    for index, buffer in enumerate(instance.problem.buffers):
        answer = answers.setdefault(buffer.tensor, {"offset": []} if memories is None else {"offset": [], "memory": []})
        answer["offset"].append(offsets[index])
        if memories is not None:
            answer["memory"].append(memories[index])
    value: Any = graph.document["tensors"]
    if isinstance(value, dict):
        tensors: object = {name: _entry(value[name], answers.get(i)) for i, name in enumerate(value)}
    else:
        tensors = [_entry(entry, answers.get(i)) for i, entry in enumerate(value)]
    return {**graph.document, "tensors": tensors}


def _entry(value: Any, answers: dict[str, list[Any]] | None) -> object:
    if answers is None:
        return value
    entry = value if isinstance(value, dict) else {"size": value}
    return {**entry, **{key: items[0] if len(items) == 1 else items for key, items in answers.items()}}


MAX_CYCLE_SHOWN = 20


def graph_instance(graph: TensorGraph, *, constants_in_ram: bool = False) -> InstanceFile:
    """Return the graph's tensors as buffers, in their order, with the lifetimes that follow from the execution order.

    Inputs are live from before the first operator to their last reader, outputs to the end. A tensor that no operator
    uses needs no memory. Constants do not either, unless constants_in_ram is set: then each use is a separate buffer,
    live only at its operator. Raises InvalidModelError for a wrong number of offsets of a constant.
    """
    readers: list[list[int]] = [[] for _ in graph.tensors]
    writer: dict[int, int] = dict.fromkeys(graph.inputs, -1)
    for position, operator in enumerate(graph.operators):
        for i in operator.reads:
            readers[i].append(position)
        for i in operator.writes:
            writer[i] = position
    outputs = set(graph.outputs)
    end = len(graph.operators) - 1
    buffers: list[Buffer] = []
    for i, tensor in enumerate(graph.tensors):
        if tensor.constant:
            if constants_in_ram:
                buffers += _constant_uses(graph, i, readers[i])
        elif i in writer:
            last = max([writer[i], *readers[i][-1:], *([end] if i in outputs else [])])
            pin = tensor.offsets[0] if tensor.offsets else None
            buffers.append(_buffer(tensor, i, tensor.name, Lifetime(writer[i], last), pin))
    tensors = [graph.tensors[buffer.tensor] for buffer in buffers]
    # A use of a constant is loaded and read once.
    moves = [
        MOVES if tensor.constant else 1 + len(readers[b.tensor]) for tensor, b in zip(tensors, buffers, strict=True)
    ]
    traffic = tuple(
        tensor.size * times if tensor.traffic is None else tensor.traffic
        for tensor, times in zip(tensors, moves, strict=True)
    )
    return InstanceFile(LayoutProblem(tuple(buffers)), graph, tuple(tensor.memories for tensor in tensors), traffic)


def _constant_uses(graph: TensorGraph, index: int, readers: list[int]) -> list[Buffer]:
    tensor = graph.tensors[index]
    pins = tensor.offsets * len(readers) if len(tensor.offsets) == 1 else tensor.offsets
    if pins and len(pins) != len(readers):
        raise invalid(
            f"tensor {index} ({_quoted_name(tensor)}) has {len(pins)} offsets for {len(readers)} uses",
            "specify one offset for each operator that reads it, in execution order",
        )
    uses = []
    for use, position in enumerate(readers):
        name = tensor.name if len(readers) == 1 else f"{tensor.name} at {graph.operators[position].name}"
        pin = pins[use] if pins else None
        uses.append(_buffer(tensor, index, name, Lifetime(position, position), pin, operator=position))
    return uses


def _buffer(
    tensor: GraphTensor, index: int, name: str, lifetime: Lifetime, pin: int | None, operator: int = -1
) -> Buffer:
    return Buffer(0, index, name, tensor.size, lifetime, operator, tensor.alignment, 1, pin, tensor.alias)


def check_dataflow(
    tensors: Sequence[GraphTensor], operators: Sequence[GraphOperator], inputs: Sequence[int], outputs: Sequence[int]
) -> None:
    """Check that every tensor is written at most once, as an input or by one operator, and never if it is constant.

    Tensors that are read, and outputs, must be written. Raises InvalidModelError naming tensor and operators.
    """
    writer: dict[int, str] = {}
    for i in inputs:
        if tensors[i].constant:
            raise invalid(
                f"tensor {i} ({_quoted_name(tensors[i])}) is both constant and an input", "remove one of the two"
            )
        writer[i] = "as an input of the graph"
    for operator in operators:
        for i in operator.writes:
            if tensors[i].constant:
                raise invalid(
                    f"tensor {i} ({_quoted_name(tensors[i])}) is constant, but {operator.label} writes it",
                    "remove the tensor from the operator's outputs",
                )
            if i in writer:
                raise invalid(
                    f"tensor {i} ({_quoted_name(tensors[i])}) is written twice: {writer[i]} and by {operator.label}",
                    "make one of the two write to a different tensor",
                )
            writer[i] = f"by {operator.label}"
    for operator in operators:
        for i in operator.reads:
            if i not in writer and not tensors[i].constant:
                raise invalid(
                    f"tensor {i} ({_quoted_name(tensors[i])}) is read by {operator.label}, but never written",
                    "add it to the inputs, or make it constant",
                )
    for i in outputs:
        if i not in writer and not tensors[i].constant:
            raise invalid(
                f"tensor {i} ({_quoted_name(tensors[i])}) is an output, but never written",
                "add it to the outputs of an operator",
            )


def execution_order(
    tensors: Sequence[GraphTensor],
    operators: Sequence[GraphOperator],
    inputs: Sequence[int],
    given: Sequence[int] | None,
) -> tuple[int, ...]:
    """Return the given order, checked, or else the topological order that always runs the first operator that can run.

    Raises InvalidModelError for a given order that is incomplete or reads a tensor before it is written, and for a
    cycle.
    """
    writer = {i: index for index, operator in enumerate(operators) for i in operator.writes}
    needs = [{writer[i] for i in operator.reads if i in writer} for operator in operators]
    if given is not None:
        _check_order(tensors, operators, given, writer)
        return tuple(given)
    waiting = [len(need) for need in needs]
    then: list[list[int]] = [[] for _ in operators]
    for index, need in enumerate(needs):
        for other in need:
            then[other].append(index)
    ready = [index for index, count in enumerate(waiting) if count == 0]
    heapify(ready)
    order: list[int] = []
    while ready:
        index = heappop(ready)
        order.append(index)
        for follower in then[index]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heappush(ready, follower)
    if len(order) < len(operators):
        cycle = _cycle(needs, set(range(len(operators))) - set(order))
        shown = " -> ".join(operators[i].label for i in cycle[:MAX_CYCLE_SHOWN])
        more = (
            f" -> ... ({len(cycle):,} in all)" if len(cycle) > MAX_CYCLE_SHOWN else f" -> {operators[cycle[0]].label}"
        )
        raise invalid(
            f"the operators form a cycle: {shown}{more}", "break the cycle: none of its operators can run first"
        )
    return tuple(order)


def _check_order(
    tensors: Sequence[GraphTensor], operators: Sequence[GraphOperator], given: Sequence[int], writer: dict[int, int]
) -> None:
    missing = sorted(set(range(len(operators))) - set(given))
    if missing:
        raise invalid(
            f"the order does not include {operators[missing[0]].label}", f"list all {len(operators):,} operators"
        )
    place = {index: position for position, index in enumerate(given)}
    for index in given:
        for i in operators[index].reads:
            if i in writer and place[writer[i]] >= place[index]:
                raise invalid(
                    f"in the order, {operators[index].label} reads tensor {i} ({_quoted_name(tensors[i])}) before "
                    f"{operators[writer[i]].label} writes it",
                    "change the order, or remove it",
                )


def _cycle(needs: Sequence[set[int]], stuck: set[int]) -> list[int]:
    """Return one cycle among operators that wait for each other, writers before readers."""
    seen: dict[int, int] = {}
    path: list[int] = []
    at = min(stuck)
    while at not in seen:
        seen[at] = len(path)
        path.append(at)
        at = min(need for need in needs[at] if need in stuck)
    cycle = path[seen[at] :][::-1]
    start = cycle.index(min(cycle))
    return cycle[start:] + cycle[:start]


def _quoted_name(tensor: GraphTensor) -> str:
    return f"{tensor.name[:MAX_NAME_SHOWN]!a}"


MAX_VALUES = 16 * MAX_ROWS
GRAPH_EXAMPLE = 'start with {"tensors": [{"name": "x", "size": 784}], "operators": [{"inputs": ["x"], "outputs": []}]}'

Size = Annotated[int, Meta(ge=0, le=MAX_NUMBER, description="an integer from 0 to 2**62")]
Alignment = Annotated[int, Meta(ge=1, le=MAX_ALIGNMENT, description="an integer from 1 to 2**32")]
Name = Annotated[str, Meta(min_length=1, description="a string that is not empty")]
References = Annotated[tuple[int | str, ...], Meta(max_length=MAX_ROWS)]


class TensorObject(Object):
    """A tensor of the document."""

    size: Size
    name: Name | None = None
    alignment: Alignment | None = None
    offset: Size | tuple[Size, ...] | None = None
    constant: bool = False
    alias: Name | None = None
    memory: Name | tuple[Name, ...] | None = None
    traffic: Size | None = None


class OperatorObject(Object):
    """An operator of the document."""

    name: Name | None = None
    inputs: References = ()
    outputs: References = ()


class GraphObject(Object):
    """The document."""

    tensors: Annotated[tuple[TensorObject, ...], Meta(max_length=MAX_ROWS)] | dict[str, Size | TensorObject]
    operators: Annotated[tuple[OperatorObject, ...], Meta(max_length=MAX_ROWS)]
    inputs: References | None = None
    outputs: References | None = None
    order: References | None = None
    alignment: Alignment = 1


def read_graph(text: str) -> TensorGraph:
    """Return the graph of a JSON text, with its operators in execution order.

    This is "order" if the document has it, else the order of the list, in which an operator listed before the writer of
    one of its inputs runs later. Without "inputs", inputs are the tensors that no operator writes; without "outputs",
    outputs are those that are written but not read. Raises InvalidModelError naming the tensor or operator.
    """
    try:
        document = strict_json(text, max_values=MAX_VALUES)
        stated = structured(document, GraphObject)
    except StructureError as error:
        first, *others = error.problems
        raise invalid(
            str(first),
            first.fix or GRAPH_EXAMPLE,
            tuple(f"{item}; {item.fix}" if item.fix else str(item) for item in others[:MAX_PROBLEMS]),
        ) from None
    tensors = _tensors(stated)
    names = _indices([tensor.name for tensor in tensors], "tensor")
    operators = _operators(stated, names)
    constants = {i for i, tensor in enumerate(tensors) if tensor.constant}
    written = {i for operator in operators for i in operator.writes}
    read = {i for operator in operators for i in operator.reads}
    inputs = tuple(sorted(read - written - constants))
    if stated.inputs is not None:
        inputs = _references(stated.inputs, "inputs", "tensor", names)
    outputs = tuple(sorted(written - read))
    if stated.outputs is not None:
        outputs = _references(stated.outputs, "outputs", "tensor", names)
    check_dataflow(tensors, operators, inputs, outputs)
    places = _indices([operator.name for operator in operators], "operator")
    given = None
    if stated.order is not None:
        given = _references(stated.order, "order", "operator", places)
    order = execution_order(tensors, operators, inputs, given)
    return TensorGraph(tensors, tuple(operators[i] for i in order), inputs, outputs, document)


def _tensors(graph: GraphObject) -> tuple[GraphTensor, ...]:
    if isinstance(graph.tensors, tuple):
        return tuple(_tensor(item, item.name, i, graph.alignment) for i, item in enumerate(graph.tensors))
    tensors = []
    for i, (name, stated) in enumerate(graph.tensors.items()):
        item = TensorObject(stated) if isinstance(stated, int) else stated
        if item.name is not None:
            raise invalid(f"tensor {_short(name)} has two names", 'remove its key "name"')
        tensors.append(_tensor(item, name, i, graph.alignment))
    return tuple(tensors)


def _tensor(tensor: TensorObject, name: str | None, index: int, alignment: int) -> GraphTensor:
    if not name:
        raise invalid(f"tensor {index} has no name", "use a string that no other tensor has")
    if isinstance(tensor.offset, tuple) and not tensor.constant:
        raise invalid(f"tensor {index} ({_short(name)}): offset is a list", "use one offset: it is not constant")
    offsets = (tensor.offset,) if isinstance(tensor.offset, int) else tensor.offset or ()
    memories = (tensor.memory,) if isinstance(tensor.memory, str) else tensor.memory or ()
    return GraphTensor(
        name,
        tensor.size,
        tensor.alignment or alignment,
        offsets,
        tensor.constant,
        tensor.alias,
        tuple(dict.fromkeys(memories)),
        tensor.traffic,
    )


def _operators(graph: GraphObject, names: dict[str, int]) -> tuple[GraphOperator, ...]:
    operators = []
    for i, item in enumerate(graph.operators):
        name = item.name or f"operator {i}"
        where = f"operator {i} ({_short(name)})" if item.name else name
        reads = _references(item.inputs, f"{where}: inputs", "tensor", names, repeated=True)
        writes = _references(item.outputs, f"{where}: outputs", "tensor", names)
        operators.append(GraphOperator(name, where, reads, writes))
    return tuple(operators)


def _references(
    items: Sequence[int | str], where: str, kind: str, names: dict[str, int], *, repeated: bool = False
) -> tuple[int, ...]:
    """Return tensors or operators given by name or index; duplicates are an error unless repeated is set."""
    indices: dict[int, None] = {}
    for item in items:
        index = names.get(item, -1) if isinstance(item, str) else item
        if not 0 <= index < len(names):
            raise invalid(f"{where}: there is no {kind} {_short(item)}", f"name one of the {len(names):,} {kind}s")
        if index in indices and not repeated:
            raise invalid(f"{where}: {kind} {_short(item)} is listed twice", "remove one")
        indices[index] = None
    return tuple(indices)


def _indices(names: Sequence[str], kind: str) -> dict[str, int]:
    indices: dict[str, int] = {}
    for i, name in enumerate(names):
        if indices.setdefault(name, i) != i:
            raise invalid(f"{kind}s {indices[name]} and {i} are both called {_short(name)}", "use unique names")
    return indices


def _short(reference: int | str) -> str:
    """Return a name in quotes, or an index."""
    return f"{reference[:MAX_NAME_SHOWN]!a}" if isinstance(reference, str) else shown(reference)
