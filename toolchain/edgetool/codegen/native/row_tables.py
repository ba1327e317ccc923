"""The tables of a plan of rows in C: where each row is, what each step reads and writes, and the schedule.

The rows of a tensor in the plan are its cells. Cells that follow each other need only the place of the first. For the
others there is a table with their places, and, if many cells share few places, one with a byte for each cell. Sequences
of places that are equal, or part of another one, are stored once. edgetool_rows.h describes the structs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from edgetool.codegen.native.emit import (
    ARENA_SHIFT,
    NULL_TEXT,
    Arrays,
    base_and_offset,
    constant_input,
    descriptor,
    io_type,
    wrapped,
)
from edgetool.codegen.native.lower import NativeProgram
from edgetool.codegen.native.program import LIMITS, Constant, RowInput, Step
from edgetool.codegen.native.rows import FEED, TAKE, step_operators
from edgetool.codegen.templates import TemplateValue
from edgetool.errors import InternalError, UnsupportedModelError
from edgetool.memory.problem import place_in_parts
from edgetool.memory.streaming.planner import place_unit
from edgetool.memory.streaming.problem import NO_SCRATCH, RowPlan, RowProblem

TOGETHER, EACH, CONSTANT = 0xFFFF, 0xFFFE, 0xFFFD
NONE = 0xFFFF  # the place of what does not exist
MAX_SHARED = 256  # places that a byte distinguishes
# Bytes of the structs on a core of 32 bits.
POINTER, STEP, ACCESS, WALK, CELLS, TABLES = 4, 16, 6, 14, 8, 44
BLOCK = 16  # turns, as in edgetool_rows.h: of 8 to 32, the one with which schedules of all lengths are small


@dataclass(frozen=True, slots=True)
class Handed:
    """An input that is fed by rows, or an output that is taken by rows.

    Attributes:
        number: Its number in the schedule of the tables.
        position: Its position among the model's inputs or outputs.
        tensor: Its number in the tables.
        rows: The number of its rows that are handed over.
        row_bytes: The size of each.
        first: The number of the first one: those before are in a ring.
    """

    number: int
    position: int
    tensor: int
    rows: int
    row_bytes: int
    first: int = 0


@dataclass(frozen=True, slots=True)
class RowTables:
    """The tables of a plan.

    Attributes:
        text: The definitions in C: descriptors and NAME_tables.
        offsets: The offset in the arena of each root tensor that lies together, as inputs and outputs do.
        feeds: The inputs that are fed by rows.
        takes: The outputs that are taken by rows.
        firings: The length of the schedule.
        operators: The number of fed inputs, taken outputs and steps.
        bytes: The size of the tables on a core of 32 bits, without the descriptors that every plan has.
        declarations: NAME_tables, as another file may declare it.
    """

    text: str
    offsets: Mapping[int, int]
    feeds: tuple[Handed, ...]
    takes: tuple[Handed, ...]
    firings: int
    operators: int
    bytes: int
    declarations: tuple[str, ...] = ()


def table_bytes(program: NativeProgram, problem: RowProblem, plan: RowPlan) -> int:
    """Return the size of the tables of a plan on a core of 32 bits; see RowTables.bytes."""
    return _Writer("model", program, problem, plan, None).tables().bytes


def row_tables(
    name: str,
    program: NativeProgram,
    problem: RowProblem,
    plan: RowPlan,
    arrays: Arrays | None,
    *,
    shared: bool = False,
) -> RowTables:
    """Return the tables of a plan of row_problem(program).

    arrays: None if the text does not matter. shared: whether another file uses them.

    Raises:
        UnsupportedModelError: A number is larger than the tables can state.
    """
    return _Writer(name, program, problem, plan, arrays, shared=shared).tables()


class _Items:
    """The items of a table in C, equal ones only once."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, *fields: int | str) -> int:
        """Return the number of a struct in the table."""
        item = f"{{{', '.join(map(str, fields))}}}" if len(fields) > 1 else str(fields[0])
        if item not in self._numbers:
            self._numbers[item] = len(self.items)
            self.items.append(item)
        return self._numbers[item]


class _Pool:
    """Sequences of numbers in one table, in which any of them may be a part of another one."""

    def __init__(self, sequences: Iterable[tuple[int, ...]]) -> None:
        self.numbers: list[int] = []
        self._starts: dict[tuple[int, ...], int] = {}
        text = ""
        for sequence in sequences:
            part = "".join(map(chr, sequence))
            start = text.find(part)
            if start < 0:
                # It may begin with the end of what is there.
                both = next(count for count in range(len(part), -1, -1) if text.endswith(part[:count]))
                start = len(text) - both
                text += part[both:]
            self._starts[sequence] = start
        self.numbers = [ord(character) for character in text]

    def start(self, sequence: tuple[int, ...]) -> int:
        """Return where a sequence starts."""
        return self._starts[sequence]


@dataclass(frozen=True, slots=True)
class _Tensor:
    """Cells of a tensor: their size, their places, and for each cell the number of its place.

    kind: TOGETHER, EACH or CONSTANT if the cells have no such numbers. constant: the number of the constant. part: that
    of the part of the arena, if it has several.
    """

    cell_bytes: int
    kind: int = 0
    places: tuple[int, ...] = ()
    index: tuple[int, ...] = ()
    constant: int = 0
    part: int = 0


class _Writer:
    """Writes the tables of one plan. arrays: None if only the sizes matter."""

    def __init__(
        self,
        name: str,
        program: NativeProgram,
        problem: RowProblem,
        plan: RowPlan,
        arrays: Arrays | None,
        *,
        shared: bool = False,
    ) -> None:
        self._linkage = "" if shared else "static "
        self._name, self._program, self._problem, self._plan, self._arrays = name, program, problem, plan, arrays
        self._unit = place_unit(max((part.size_bytes for part in plan.parts), default=plan.memory_bytes))
        self._roots = {tensor.tensor: index for index, tensor in enumerate(problem.tensors)}
        # In the schedule of the tables, operators of the application have the first numbers, and steps the others.
        self._operators = step_operators(problem)
        feeds, takes = ([i for i, item in enumerate(problem.operators) if item.name == kind] for kind in (FEED, TAKE))
        self._feeds, self._takes = feeds, takes
        self._numbers = {number: i for i, number in enumerate((*feeds, *takes, *self._operators))}
        self._tensors: dict[_Tensor, int] = {}
        self._constants, self._kernels, self._walks = _Items(), _Items(), _Items()
        self._accesses: list[str] = []
        self._access_starts: dict[tuple[str, ...], int] = {}

    def tables(self) -> RowTables:
        """Return the tables."""
        name = self._name
        graph = self._program.graph
        feeds = tuple(self._handed(number, graph.inputs) for number in self._feeds)
        takes = tuple(self._handed(number, graph.outputs) for number in self._takes)
        steps = [self._step(position, step) for position, step in enumerate(self._program.steps)]
        places = _Pool(_longest_first(tensor.places for tensor in self._tensors))
        index = _Pool(_longest_first(tensor.index for tensor in self._tensors))
        tensors = [self._cells(tensor, places, index) for tensor in self._tensors]
        schedule = tuple(self._numbers[number] for number in self._plan.schedule)
        blocks = [schedule[at : at + BLOCK] for at in range(0, len(schedule), BLOCK)]
        turns = _Pool(blocks)
        turn_bytes = 2 if len(self._problem.operators) > 256 else 1
        turns_as_bytes = [byte for number in turns.numbers for byte in number.to_bytes(turn_bytes, "little")]
        parts = []
        if self._arrays is not None:
            parts = [
                descriptor(f"{name}_op_{position}", step, None, self._arrays)
                for position, step in enumerate(self._program.steps)
            ]
        arrays = (
            ("kernels", "edgetool_kernel ", self._kernels.items),
            ("steps", "edgetool_row_step ", steps),
            ("accesses", "edgetool_access ", self._accesses),
            ("walks", "edgetool_walk ", self._walks.items),
            ("cells", "edgetool_cells ", tensors),
            ("places", "uint16_t ", list(map(str, places.numbers))),
            ("index", "uint8_t ", list(map(str, index.numbers))),
            ("constants", "void *const ", self._constants.items),
            (
                "blocks",
                "uint16_t ",
                [str(_fits("turns", turns.start(item), "uint16_t", "the model")) for item in blocks],
            ),
            ("turns", "uint8_t ", list(map(str, turns_as_bytes))),
        )
        parts += [_array(f"{name}_{what}", c_type, items) for what, c_type, items in arrays]
        fields = [f"{name}_{what}" if items else "NULL" for what, _, items in arrays]
        if tensors:
            shift = self._unit.bit_length() - 1
            values = wrapped([*fields, str(turn_bytes), str(shift)])
            parts.append(f"{self._linkage}const edgetool_row_tables {name}_tables = {{\n{values}}};\n\n")
        sizes = (POINTER, STEP, ACCESS, WALK, CELLS, 2, 1, POINTER, 2, 1)
        size = sum(len(items) * each for (_, _, items), each in zip(arrays, sizes, strict=True))
        return RowTables(
            text="".join(parts).rstrip("\n") + "\n" if parts else "",
            offsets=self._offsets(),
            feeds=feeds,
            takes=takes,
            firings=len(schedule),
            operators=len(self._problem.operators),
            bytes=size + (TABLES if tensors else 0),
            declarations=(f"edgetool_row_tables {name}_tables",),
        )

    def _handed(self, number: int, tensors: Sequence[int]) -> Handed:
        """Return a fed input or a taken output. tensors: the inputs or outputs."""
        firing = self._problem.operators[number].firings[0]
        row = (*firing.reads, *firing.writes)[0]
        tensor = self._problem.tensor_of_rows()[row]
        item = self._problem.tensors[tensor]
        places = self._program.places
        position = [places[index].root for index in tensors].index(item.tensor)
        cells = self._number(self._root(item.tensor))
        first = row - self._problem.first_row(tensor)
        rows = len(self._problem.operators[number].firings)
        return Handed(self._numbers[number], position, cells, rows, item.row_bytes, first)

    def _step(self, position: int, step: Step) -> str:
        """Return a step in C."""
        what = f"operator {step.operator}"
        place = self._program.places[step.output]
        start = place.offset + step.output_offset
        rows = _fits("rows", step.rows, "uint16_t", what)
        _fits("rows of all batches", step.rows * step.batches, "uint16_t", what)
        batches = 1 if step.accumulates else step.batches
        tensor, first, cells = self._access(place.root, start, step.row_bytes)
        self._check_together(place.root, first, cells, 1 if step.accumulates else rows, batches, step.band)
        output = self._walks.number(rows, 0 if step.accumulates else cells, 1, 1, 1, 0, 1)
        accesses = [_struct(tensor, first, output)]
        accesses += [self._input(item, step.batches, what) for item in step.inputs]
        for state in step.states:
            place = self._program.places[state]
            size = self._program.graph.tensors[state].size_bytes
            tensor, first, cells = self._access(place.root, place.offset, size)
            accesses.append(_struct(tensor, first, self._walks.number(1, cells, 1, 1, 1, 0, 1)))
        scratch, is_moving = self._scratch(self._plan.scratch[self._operators[position]], step)
        return _struct(
            f"&{self._name}_op_{position}",
            self._access_start(tuple(accesses)),
            scratch,
            _fits("batches", step.batches, "uint16_t", what),
            _fits("band", step.band, "uint16_t", what),
            _fits("kernels", self._kernels.number(step.kernel), "uint8_t", what),
            _fits("inputs", len(step.inputs), "uint8_t", what),
            len(step.states),
            int(is_moving),
        )

    def _scratch(self, offsets: Sequence[int], step: Step) -> tuple[int | str, bool]:
        """Return the place of the scratch, or the tensor with a cell for each output row, and which of both it is.

        The cell is the scratch of the call that computes the row.
        """
        if not offsets:
            return "EDGETOOL_NONE", False
        places = [NONE if offset == NO_SCRATCH else self._place(offset) for offset in offsets]
        part = next((self._part(offset) for offset in offsets if offset != NO_SCRATCH), 0)
        if len({*places}) == 1:
            if part == 0:
                return places[0], False
            return self._number(_Tensor(0, TOGETHER, (places[0],), part=part)), True
        calls = -(-step.rows // step.band)
        rows = range(step.rows * step.batches)
        of_rows = [places[row // step.rows * calls + row % step.rows // step.band] for row in rows]
        return self._number(_cells_at(of_rows, part)), True

    def _access_start(self, accesses: tuple[str, ...]) -> int:
        """Return the number of the first of the accesses of a step."""
        if accesses not in self._access_starts:
            self._access_starts[accesses] = _fits("accesses", len(self._accesses), "uint16_t", "the model")
            self._accesses += accesses
        return self._access_starts[accesses]

    def _input(self, item: RowInput, batches: int, what: str) -> str:
        """Return the access of an input in C."""
        constant = constant_input(self._program, item)
        if constant is not None:
            tensor, first = self._constant(constant, item), 0
            cells = 1 if item.row_bytes else 0
        else:
            assert isinstance(item.source, int)
            place = self._program.places[item.source]
            tensor, first, cells = self._access(place.root, place.offset, item.row_bytes)
            self._check_together(place.root, first, cells, item.rows, batches)
        walk = self._walks.number(
            _fits("rows", item.rows, "uint16_t", what),
            cells,
            *(
                _fits(field, getattr(item, field), "int16_t" if field == "pad" else "uint16_t", what)
                for field in ("taps", "stride", "dilation", "pad", "divisor")
            ),
        )
        return _struct(tensor, first, walk)

    def _constant(self, constant: Constant, item: RowInput) -> int:
        """Return the tensor of a constant input."""
        start = 0 if isinstance(item.source, Constant) else self._program.places[item.source].offset
        name = "constant" if self._arrays is None else self._arrays.name(constant)
        number = self._constants.number(f"(const uint8_t *){name} + {start}")
        return self._number(_Tensor(item.row_bytes, CONSTANT, constant=number))

    def _access(self, root: int, offset: int, row_bytes: int) -> tuple[int, int, int]:
        """Return the tensor, the first cell, and the cells of a row of what a step reads or writes.

        row_bytes: 0 if all rows are the same.
        """
        cell = self._problem.tensors[self._roots[root]].row_bytes
        tensor = self._root(root)
        if offset % cell == 0 and row_bytes % cell == 0:
            return self._number(tensor), offset // cell, row_bytes // cell
        # A tensor of too many cells is one row in the plan.
        start = self._start(root) + offset
        return self._number(_Tensor(row_bytes, TOGETHER, (self._place(start),), part=self._part(start))), 0, 1

    def _check_together(self, root: int, first: int, cells: int, rows: int, batches: int, band: int = 1) -> None:
        """Raise InternalError unless the cells of each row follow each other, and the rows of each band do."""
        if cells * band == 1 or self._lies_together(root):
            return
        offsets, size = self._cell_offsets(root), self._problem.tensors[self._roots[root]].row_bytes
        for start in (batch * rows + y for batch in range(batches) for y in range(0, rows, band)):
            count = min(band, rows - start % rows) * cells
            begin = first + start * cells
            if any(offsets[begin + i] != offsets[begin] + i * size for i in range(count)):
                raise InternalError(f"the rows of tensor {root} must follow each other", where="a plan of rows")

    def _root(self, root: int) -> _Tensor:
        """Return the cells of a root tensor."""
        item = self._problem.tensors[self._roots[root]]
        if self._lies_together(root):
            start = self._start(root)
            return _Tensor(item.row_bytes, TOGETHER, (self._place(start),), part=self._part(start))
        offsets = self._cell_offsets(root)
        return _cells_at([self._place(offset) for offset in offsets], self._part(offsets[0]))

    def _cell_offsets(self, root: int) -> Sequence[int]:
        rows = self._problem.rows_of(self._roots[root])
        return self._plan.offsets[rows.start : rows.stop]

    def _lies_together(self, root: int) -> bool:
        """Return whether the cells of a root tensor follow each other."""
        offsets, size = self._cell_offsets(root), self._problem.tensors[self._roots[root]].row_bytes
        return all(offset == offsets[0] + i * size for i, offset in enumerate(offsets))

    def _start(self, root: int) -> int:
        """Return the offset of a root tensor that lies together."""
        if not self._lies_together(root):
            raise InternalError(f"the rows of tensor {root} must follow each other", where="a plan of rows")
        return next(iter(self._cell_offsets(root)), 0)

    def _offsets(self) -> dict[int, int]:
        """Return the offsets of root tensors that lie together; outputs, state, and inputs as a whole must."""
        whole = {tensor.tensor for tensor in self._problem.tensors if tensor.given or tensor.kept}
        return {root: self._start(root) for root in self._roots if root in whole or self._lies_together(root)}

    def _place(self, offset: int) -> int:
        """Return an offset in its part of the arena in units."""
        _, inside = place_in_parts(self._plan.parts, offset)
        if inside % self._unit:
            raise InternalError(f"the offset {inside} is not a multiple of {self._unit}", where="a plan of rows")
        return inside // self._unit

    def _part(self, offset: int) -> int:
        """Return the number of the part of the arena that an offset is in."""
        return place_in_parts(self._plan.parts, offset)[0]

    def _number(self, tensor: _Tensor) -> int:
        """Return the number of a tensor in its table."""
        return _fits("tensors", self._tensors.setdefault(tensor, len(self._tensors)), "uint16_t", "the model")

    @staticmethod
    def _cells(tensor: _Tensor, places: _Pool, index: _Pool) -> str:
        """Return a tensor in C."""
        if tensor.kind == CONSTANT:
            return _struct(tensor.cell_bytes, tensor.constant, "EDGETOOL_CONSTANT")
        start = _fits("places", places.start(tensor.places), "uint16_t", "the model")
        cell_bytes = tensor.part << ARENA_SHIFT | tensor.cell_bytes
        kinds = {TOGETHER: "EDGETOOL_TOGETHER", EACH: "EDGETOOL_EACH"}
        if tensor.kind in kinds:
            return _struct(cell_bytes, start, kinds[tensor.kind])
        number = index.start(tensor.index)
        if number >= CONSTANT:
            raise _too_large("places", number, "the model")
        return _struct(cell_bytes, start, number)


def _cells_at(places: Sequence[int], part: int) -> _Tensor:
    """Return cells with places of their own in a part of the arena."""
    numbers = {place: number for number, place in enumerate(dict.fromkeys(places))}
    if len(numbers) > MAX_SHARED or 2 * len(numbers) >= len(places):
        return _Tensor(0, EACH, tuple(places), part=part)
    return _Tensor(0, 0, tuple(numbers), tuple(numbers[place] for place in places), part=part)


def _longest_first(sequences: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return each sequence once, in an order in which short ones are likely to be parts of those before."""
    return sorted({*sequences}, key=lambda item: (-len(item), item))


def _struct(*fields: int | str) -> str:
    return f"{{{', '.join(map(str, fields))}}}"


def _array(name: str, c_type: str, items: Sequence[str]) -> str:
    """Return an array in C; nothing without items."""
    if not items:
        return ""
    lines = "".join(f"    {item},\n" for item in items) if items[0].startswith(("{", "(")) else wrapped(items)
    return f"static const {c_type}{name}[{len(items)}] = {{\n{lines}}};\n\n"


def _fits(what: str, value: int, c_type: str, where: str) -> int:
    """Return a number that a table can state. Raises UnsupportedModelError if it cannot."""
    low, high = LIMITS[c_type]
    if not low <= value <= high:
        raise _too_large(what, value, where)
    return value


def _too_large(what: str, value: int, where: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"the tables of rows have no room for its {what} ({value:,})", where=where, fix="plan tensors instead of rows"
    )


def row_values(program: NativeProgram, plan: RowPlan, tables: RowTables) -> dict[str, TemplateValue]:
    """Return what NAME.c has for a plan of rows, besides source_values."""
    handed = bool(tables.feeds or tables.takes)
    several = "_several" if plan.parts else ""
    feeds, takes, stream = tables.feeds, tables.takes, program.stream
    graph = program.graph

    def items(accesses: Sequence[Handed], tensors: Sequence[int], number: str) -> list[dict[str, TemplateValue]]:
        return [
            {
                "my_position": item.position,
                "my_type": io_type(graph.tensors[tensors[item.position]]),
                number: item.number,
                "MY_TENSOR": item.tensor,
                "MY_FIRST": item.first,
                "MY_ROWBYTES": item.row_bytes,
            }
            for item in accesses
        ]

    return {
        "MY_TABLES": tables.text,
        "MY_ROWWISE": True,
        "MY_HANDED": handed,
        "MY_ROWINPUT": bool(feeds),
        "MY_ROWOUTPUT": bool(takes),
        "MY_START": "begin" if handed else "invoke",
        "MY_NULLTEXT": null_text(is_handed=handed, is_placed=bool(plan.parts)),
        "MY_ORDERTEXT": order_text(is_stream=stream is not None, is_fed=bool(feeds), is_taken=bool(takes)),
        "MY_FIRINGS": tables.firings,
        "MY_HANDEDCOUNT": len(feeds) + len(takes),
        "MY_FEDCOUNT": len(feeds),
        "MY_TAKENCOUNT": len(takes),
        "MY_FEDPOSITIONS": ", ".join(str(feed.position) for feed in feeds),
        "MY_TAKENPOSITIONS": ", ".join(str(take.position) for take in takes),
        "MY_FEDS": items(feeds, graph.inputs, "MY_FEEDNUMBER"),
        "MY_TAKES": items(takes, graph.outputs, "MY_TAKENUMBER"),
        "MY_INCREMENTAL": stream is not None,
        "my_fire": f"edgetool_fire{several}",
        "my_cell": f"edgetool_cell{several}",
        "MY_RINGS": [
            {
                "my_base": base_and_offset(plan.parts, tables.offsets[root])[0],
                "MY_RINGOFFSET": base_and_offset(plan.parts, tables.offsets[root])[1],
                "MY_KEPTBYTES": ring.kept_bytes,
                "MY_HOPBYTES": ring.hop_bytes,
            }
            for root, ring in ({} if stream is None else stream.rings).items()
        ],
    }


def order_text(*, is_stream: bool, is_fed: bool, is_taken: bool) -> str:
    """Return what else may have to come first. is_fed, is_taken: whether rows are handed over."""
    if is_stream:
        return "init or begin must be called first, or a hop needs more rows, or none"
    if is_taken:
        return "init or begin must be called first, or it is the turn of another input or output, or of none"
    if is_fed:
        return "init or begin must be called first, or a row of another input, or none, is needed"
    return "init must be called first"


def null_text(*, is_handed: bool, is_placed: bool) -> str:
    """Return what may be a null pointer although it must not.

    is_handed: whether rows are handed over. is_placed: whether the arena is in several memories.
    """
    if is_placed:
        return "the context or a row" if is_handed else "the context"
    return "the context, the memory or a row" if is_handed else NULL_TEXT
