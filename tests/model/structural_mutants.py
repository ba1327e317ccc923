"""Files that are well formed and wrong in meaning: changes to the tables of a file, which is then written again.

Damaged bytes (mutants.py) mostly end in the reader. These mostly pass it, and meet the rules of operators, the planner
and the emitter: other indices, counts, types, shapes, options, operators, names and plans, tables that are missing,
doubled or shared.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from struct import error, pack, pack_into, unpack_from
from typing import Any

from edgetool.errors import ModelError
from edgetool.model.flatbuffer import Record, read_root
from edgetool.model.schema import BUILTIN_OPERATORS, OPTION_TABLES, SCALARS, UNIONS, Field, table
from edgetool.model.types import DType
from edgetool.model.writer import write_root
from tests.model.attacks import target_at

MAX_PAYLOAD_BYTES = 1 << 16  # of a constant that takes another shape
# Operators of TensorFlow Lite proper; what follows are those of StableHLO, which no microcontroller runs.
COMMON_OPERATORS = BUILTIN_OPERATORS[: BUILTIN_OPERATORS.index("STABLEHLO_LOGISTIC")]
DIMENSIONS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 64, 100, 255, 256, 1000, 32767, 32768, 65536, 1 << 20, 1 << 24)
INTEGERS = (
    *DIMENSIONS,
    -1,
    -1,
    -2,
    -128,
    127,
    128,
    (1 << 30) + 1,
    (1 << 31) - 1,
    -(1 << 31),
    (1 << 63) - 1,
    -(1 << 63),
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-3, 1e-45, 3e38, 1e10, float("inf"), float("-inf"), float("nan"))
NAMES = (
    "", "*/", "a\nb", "??/", "\u202eabc", "int", "x" * 300, "</script>", "%s%n", "\x1b[2J", "a/../../b", "\U0001f600",
    "main", "0", "a;b", '"', "\\", "::error::x", "=1+1", "\x00", "serving_default",
)  # fmt: skip
REPEATS = (1, 1, 1, 2, 2, 3, 7, 30, 200)
MAX_TABLES = 2000  # that doubling adds: files of a megabyte take their second without being odd
PLAN = "OfflineMemoryAllocation"


@dataclass(slots=True)
class Parts:
    """The tables of a file that is being changed: the root, and all of them by kind."""

    root: Record
    by_table: dict[str, list[Record]]

    def any_of(self, kind: str, generator: random.Random) -> Record | None:
        """One table of that kind; None where there is none."""
        tables = self.by_table.get(kind)
        return generator.choice(tables) if tables else None


def restructured(root: Record, generator: random.Random) -> bytes:
    """A file with one to five changes to its tables, which stay as they are here."""
    for _ in range(20):
        parts = _parts(_copied(root))
        for _ in range(generator.choice((1, 1, 1, 1, 2, 2, 3, 5))):
            generator.choice(CHANGES)(parts, generator)
        try:
            blob = write_root(parts.root)
        except (TypeError, error):  # a number that its field cannot hold
            continue
        return _shared_table(blob, generator) if generator.random() < 0.1 else blob
    return write_root(root)


def _copied(record: Record) -> Record:
    return Record(record.table, record.at, {name: _copied_value(value) for name, value in record.fields.items()})


def _copied_value(value: Any) -> Any:
    if isinstance(value, Record):
        return _copied(value)
    if isinstance(value, tuple | list) and value and isinstance(value[0], Record):
        return [_copied(element) for element in value]
    return value


def _parts(root: Record) -> Parts:
    by_table: dict[str, list[Record]] = {}
    for record in _all(root):
        by_table.setdefault(record.table, []).append(record)
    return Parts(root, by_table)


def _all(record: Record) -> Iterator[Record]:
    yield record
    for value in record.fields.values():
        if isinstance(value, Record):
            yield from _all(value)
        elif isinstance(value, tuple | list) and value and isinstance(value[0], Record):
            for element in value:
                yield from _all(element)


def _field(parts: Parts, generator: random.Random, kinds: tuple[str, ...]) -> tuple[Record, Field] | None:
    """A table and a field of one of these kinds, where a table that was drawn has one."""
    for _ in range(8):
        record = generator.choice(parts.by_table[generator.choice(list(parts.by_table))])
        fields = [field for field in table(record.table).fields if field.kind in kinds]
        if fields:
            return record, generator.choice(fields)
    return None


def _value(field: Field, parts: Parts, old: Any, generator: random.Random) -> Any:
    """Another value for a scalar, or for an element of a vector of scalars."""
    if field.enumeration:
        return generator.choice((*field.enumeration.names, len(field.enumeration.names), 127))
    if field.scalar == "bool":
        return not old
    if field.scalar == "f32":
        return generator.choice(FLOATS)
    if field.index_of and generator.random() < 0.7:
        return generator.randrange(max(1, _count(parts, field.index_of)))
    value = generator.choice((*INTEGERS, int(old) + 1, int(old) - 1))
    width = 8 * SCALARS[field.scalar][1]
    value %= 1 << width
    signed = field.scalar.startswith("i")
    return value - (1 << width) if signed and value >> (width - 1) else value


def _count(parts: Parts, list_name: str) -> int:
    kinds = {"tensor": "Tensor", "buffer": "Buffer", "subgraph": "SubGraph", "operator_code": "OperatorCode"}
    return len(parts.by_table.get(kinds[list_name], ()))


def _other_scalar(parts: Parts, generator: random.Random) -> None:
    found = _field(parts, generator, ("scalar",))
    if found:
        record, field = found
        record.fields[field.name] = _value(
            field, parts, record[field.name] if field.name in record.fields else 0, generator
        )


def _other_vector(parts: Parts, generator: random.Random) -> None:
    found = _field(parts, generator, ("scalars",))
    if not found:
        return
    record, field = found
    values = list(record.fields.get(field.name) or ())
    at = generator.randrange(len(values) + 1)
    new = _value(field, parts, values[at] if at < len(values) else 0, generator)
    way = generator.randrange(7)
    if way == 0:
        values.insert(at, new)
    elif way == 1:
        values = values[:at]
    elif way == 2:
        values = values * generator.choice(REPEATS)
    elif way == 3:
        generator.shuffle(values)
    elif way == 4:
        del values[at : at + 1]
    else:
        values[at : at + 1] = [new]
    record.fields[field.name] = tuple(values)


def _other_list(parts: Parts, generator: random.Random) -> None:
    """Tables of a vector left out, doubled, exchanged; a doubled one is written twice."""
    found = _field(parts, generator, ("tables",))
    if not found or not found[0].fields.get(found[1].name):
        return
    record, field = found
    elements = list(record[field.name])
    at, other = generator.randrange(len(elements)), generator.randrange(len(elements))
    way = generator.randrange(5)
    if way == 0:
        del elements[at]
    elif way == 1:
        below = sum(1 for _ in _all(elements[other]))
        elements[at:at] = [elements[other]] * min(generator.choice(REPEATS), 1 + MAX_TABLES // below)
    elif way == 2:
        elements[at], elements[other] = elements[other], elements[at]
    elif way == 3:
        elements[at] = elements[other]
    else:
        elements.append(_copied(elements[at]))
    record.fields[field.name] = elements


def _field_left_out(parts: Parts, generator: random.Random) -> None:
    found = _field(parts, generator, ("string", "bytes", "scalars", "table", "tables", "union"))
    if found:
        found[0].fields[found[1].name] = None


def _other_name(parts: Parts, generator: random.Random) -> None:
    found = _field(parts, generator, ("string",))
    if found:
        found[0].fields[found[1].name] = generator.choice(NAMES)


def _other_shape(parts: Parts, generator: random.Random) -> None:
    """Another shape or type of a tensor, and contents of the right length where it is a constant."""
    tensor = parts.any_of("Tensor", generator)
    if tensor is None:
        return
    shape = list(tensor.fields.get("shape") or ())
    if generator.random() < 0.6:
        way, at = generator.randrange(4), generator.randrange(len(shape) + 1)
        if way == 0:
            shape.insert(at, generator.choice((1, 1, *DIMENSIONS)))
        elif way == 1:
            del shape[at : at + 1]
        else:
            shape[at : at + 1] = [generator.choice(DIMENSIONS)]
        tensor.fields["shape"] = tuple(shape)
    else:
        tensor.fields["type"] = generator.choice(list(DType)).name
    kind = tensor["type"]
    size_bytes = (prod(shape) * DType[kind].bits + 7) // 8 if isinstance(kind, str) else 0
    buffer = _buffer(parts, tensor)
    if buffer is not None and buffer["data"] and size_bytes <= MAX_PAYLOAD_BYTES:
        data = buffer["data"]
        _own_buffer(parts, tensor, (data * (size_bytes // len(data) + 1))[:size_bytes])


def _buffer(parts: Parts, tensor: Record) -> Record | None:
    buffers = parts.root["buffers"] or ()
    return buffers[tensor["buffer"]] if tensor["buffer"] < len(buffers) else None


def _own_buffer(parts: Parts, owner: Record, data: bytes) -> None:
    owner.fields["buffer"] = len(parts.root["buffers"])
    parts.root.fields["buffers"] = [*parts.root["buffers"], Record("Buffer", 0, {"data": data})]


def _other_contents(parts: Parts, generator: random.Random) -> None:
    """A small constant, as operators read shapes, axes and paddings from it, with a hostile number in it."""
    tensor = parts.any_of("Tensor", generator)
    buffer = None if tensor is None else _buffer(parts, tensor)
    if tensor is None or buffer is None or not 0 < len(buffer["data"] or b"") <= 256:
        return
    data = bytearray(buffer["data"])
    at = generator.randrange(len(data)) & ~3
    word = pack("<i", generator.choice([value for value in INTEGERS if -(1 << 31) <= value < 1 << 31]))
    data[at : at + 4] = word[: len(data) - at]
    _own_buffer(parts, tensor, bytes(data))


def _now_constant(parts: Parts, generator: random.Random) -> None:
    """An activation becomes a constant, or a constant an activation; or it turns into a variable."""
    tensor = parts.any_of("Tensor", generator)
    if tensor is None:
        return
    way = generator.randrange(3)
    if way == 0:
        tensor.fields["is_variable"] = not tensor["is_variable"]
    elif way == 1:
        tensor.fields["buffer"] = 0
    else:
        shape, kind = tensor.fields.get("shape") or (), tensor["type"]
        size_bytes = (prod(shape) * DType[kind].bits + 7) // 8 if isinstance(kind, str) else 0
        if 0 <= size_bytes <= MAX_PAYLOAD_BYTES and parts.root["buffers"]:
            _own_buffer(parts, tensor, generator.randbytes(size_bytes))


def _other_operator(parts: Parts, generator: random.Random) -> None:
    """Another operator in the place of one, with its own option table."""
    operator = parts.any_of("Operator", generator)
    if operator is None:
        return
    codes = COMMON_OPERATORS if generator.random() < 0.95 else BUILTIN_OPERATORS
    code = generator.choice(codes)
    number = BUILTIN_OPERATORS.index(code)
    entry = {"deprecated_builtin_code": min(number, 127), "builtin_code": number}
    entry["version"] = generator.choice((1, 1, 1, 2, 3, 5, 12))
    named = {"custom_code": generator.choice(NAMES)} if code == "CUSTOM" else {}
    codes = parts.root["operator_codes"] or ()
    operator.fields["opcode_index"] = len(codes)
    parts.root.fields["operator_codes"] = [*codes, Record("OperatorCode", 0, {**entry, **named})]
    operator.fields["builtin_options"] = operator.fields["builtin_options_2"] = None
    name = OPTION_TABLES.get(code)
    if name and generator.random() < 0.9:
        options = Record(name, 0, dict(table(name).defaults))
        for field in table(name).fields:
            if field.kind == "scalar" and generator.random() < 0.6:
                options.fields[field.name] = _option(field, parts, options[field.name], generator)
        operator.fields["builtin_options_2" if name in UNIONS["BuiltinOptions2"] else "builtin_options"] = options


def _option(field: Field, parts: Parts, old: Any, generator: random.Random) -> Any:
    """A value that is often sensible, so that the operator's own rules are reached."""
    if field.scalar in ("i32", "i64") and not field.enumeration and not field.index_of and generator.random() < 0.7:
        return generator.choice((1, 1, 2, 3))
    return _value(field, parts, old, generator)


def _other_wiring(parts: Parts, generator: random.Random) -> None:
    """Other tensors into or out of an operator: fewer, more, the same twice, none at all."""
    operator, graph = parts.any_of("Operator", generator), parts.any_of("SubGraph", generator)
    if operator is None or graph is None:
        return
    count = len(graph.fields.get("tensors") or ())
    side = generator.choice(("inputs", "inputs", "outputs"))
    indices = list(operator.fields.get(side) or ())
    new = -1 if generator.random() < 0.15 else generator.randrange(max(1, count))
    at = generator.randrange(len(indices) + 1)
    way = generator.randrange(4)
    if way == 0:
        indices.insert(at, new)
    elif way == 1:
        del indices[at : at + 1]
    elif way == 2:
        indices = [generator.randrange(max(1, count)) for _ in range(generator.randrange(8))]
    else:
        indices[at : at + 1] = [new]
    operator.fields[side] = tuple(indices)


def _other_plan(parts: Parts, generator: random.Random) -> None:
    """A memory plan in the file, mostly of the right length: offsets that overlap, lie anywhere, or are none."""
    if not parts.root["buffers"]:
        return
    tensors = sum(len(graph.fields.get("tensors") or ()) for graph in parts.root["subgraphs"] or ())
    highest = generator.choice((1, 4, 1 << 10, 1 << 26))
    words = [generator.choice((-1, 16 * generator.randrange(highest))) for _ in range(tensors)]
    if words and generator.random() < 0.3:
        words[generator.randrange(len(words))] = generator.choice((1, -2, 2**31 - 1, -(2**31), 2**31 - 16))
    claimed = tensors if generator.random() < 0.9 else generator.choice((0, -1, tensors + 1, 2**31 - 1))
    data = pack(f"<{3 + len(words)}i", 1, len(parts.root["subgraphs"] or ()), claimed, *words)
    entry = Record("Metadata", 0, {"name": PLAN, "buffer": 0})
    _own_buffer(parts, entry, data if generator.random() < 0.9 else data[: generator.randrange(len(data))])
    parts.root.fields["metadata"] = [*(parts.root["metadata"] or ()), entry]


def _shared_table(blob: bytes, generator: random.Random) -> bytes:
    """The file with one entry of a vector of tables led to another entry's table: two that are one."""
    vectors = _vectors_of_tables(blob)
    if not vectors:
        return blob
    record, field = generator.choice(vectors)
    elements = record[field.name]
    slot, other = generator.randrange(len(elements)), generator.choice(elements)
    at = target_at(blob, record, field.name) + 4 + 4 * slot
    if other.at <= at:
        return blob
    changed = bytearray(blob)
    assert at + unpack_from("<I", blob, at)[0] == elements[slot].at
    pack_into("<I", changed, at, other.at - at)
    return bytes(changed)


def _vectors_of_tables(blob: bytes) -> list[tuple[Record, Field]]:
    """The tables of a file and those of their fields that have two entries or more; none in one that cannot be read."""
    try:
        root = read_root(blob, "Model", "mutant")[0]
    except ModelError:
        return []
    return [
        (record, field)
        for record in _all(root)
        for field in table(record.table).fields
        if field.kind == "tables" and len(record[field.name]) > 1
    ]


CHANGES: tuple[Callable[[Parts, random.Random], None], ...] = (
    _other_scalar,
    _other_scalar,
    _other_vector,
    _other_vector,
    _other_list,
    _field_left_out,
    _other_name,
    _other_shape,
    _other_shape,
    _other_contents,
    _other_contents,
    _now_constant,
    _other_operator,
    _other_operator,
    _other_operator,
    _other_wiring,
    _other_wiring,
    _other_plan,
)
