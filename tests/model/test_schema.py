"""The schema as data against the classes that LiteRT generates from its own schema file."""

from __future__ import annotations

import inspect
from typing import Any

import flatbuffers
import pytest

from edgetool.model import schema
from edgetool.model.flatbuffer import Record, read_root
from edgetool.model.schema import ENUMERATIONS, OPTION_TABLES, UNIONS, Enumeration
from edgetool.model.types import DType

generated: Any = pytest.importorskip("ai_edge_litert.schema_py_generated")

EXTREMES = {
    "bool": True,
    "i8": -(2**7),
    "u8": 2**8 - 1,
    "i16": -(2**15),
    "u16": 2**16 - 1,
    "i32": -(2**31),
    "u32": 2**32 - 1,
    "i64": -(2**63),
    "u64": 2**64 - 1,
    "f32": -1.5,
}


def generated_names() -> set[str]:
    return {name for name, value in vars(generated).items() if inspect.isclass(value)}


def attribute(field: str) -> str:
    """The name that the generator makes of a field's."""
    first, *rest = field.split("_")
    return first + "".join(part.capitalize() for part in rest)


def packed(made: Any) -> bytes:
    builder = flatbuffers.Builder(64)
    builder.Finish(made.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def new(table: str) -> Any:
    """A table with nothing in it but the lists that must be there."""
    made = getattr(generated, f"{table}T")()
    for field in schema.table(table).fields:
        if field.required:
            setattr(made, attribute(field.name), [])
    return made


def live_fields(table: str) -> list[schema.Field]:
    return [field for field in schema.table(table).fields if field.kind != "deprecated"]


def test_the_tables_are_all_there() -> None:
    tables = {name.removesuffix("T") for name in generated_names() if hasattr(getattr(generated, name), "Pack")}
    assert set(schema.TABLE_NAMES) == tables


def test_the_enumerations_are_all_there() -> None:
    others = {name for name in generated_names() if "__slots__" not in vars(getattr(generated, name))}
    others = {name for name in others if not hasattr(getattr(generated, name), "Pack")}
    assert ENUMERATIONS.keys() | UNIONS.keys() == others


@pytest.mark.parametrize("name", sorted({*ENUMERATIONS, *UNIONS}))
def test_names_and_numbers_agree(name: str) -> None:
    ours = ENUMERATIONS[name].names if name in ENUMERATIONS else UNIONS[name]
    theirs = {key: value for key, value in vars(getattr(generated, name)).items() if isinstance(value, int)}
    assert {key: number for number, key in enumerate(ours)} == theirs


def test_tensor_types_have_the_codes_of_the_schema() -> None:
    assert {dtype.name: dtype.code for dtype in DType} == {
        name: number for number, name in enumerate(ENUMERATIONS["TensorType"].names)
    }


@pytest.mark.parametrize("name", schema.TABLE_NAMES)
def test_fields_and_defaults_agree(name: str) -> None:
    made = new(name)
    expected = set()
    for field in live_fields(name):
        expected.add(attribute(field.name))
        if field.kind == "union":
            expected.add(attribute(field.name) + "Type")
        if field.kind == "scalar":
            default = field.enumeration.number(field.default) if field.enumeration else field.default
            value = getattr(made, attribute(field.name))
            assert value == default
            assert type(value) is type(default)
    assert set(vars(made)) == expected


@pytest.mark.parametrize("name", schema.TABLE_NAMES)
def test_slots_agree(name: str) -> None:
    """As many vtable slots, the deprecated ones included."""
    started = []

    class Recorder:
        def StartObject(self, slots: int) -> None:  # noqa: N802
            started.append(slots)

    getattr(generated, f"{name}Start")(Recorder())
    assert started == [schema.table(name).slots]


def sample(field: schema.Field) -> tuple[Any, Any]:
    """A value for the generated class, and what our reader makes of it."""
    if field.enumeration:
        number = len(field.enumeration.names) - 1 or 77  # an enumeration of one name: a number without one
        number = 0 if number == field.enumeration.number(field.default or 0) else number
        given, read = number, field.enumeration.name(number)
    else:
        given = read = EXTREMES.get(field.scalar)
        if field.default is True:
            given = read = False
    if field.kind == "scalar":
        return given, read
    if field.kind == "scalars":
        return [given], (read,)
    if field.kind == "bytes":
        return [1, 255], b"\x01\xff"
    if field.kind == "string":
        return "é", "é"
    if field.kind == "tables":
        return [new(field.target)], (field.target,)
    return new(field.target), field.target


def plain(value: Any) -> Any:
    """Tables by their names."""
    if isinstance(value, Record):
        return value.table
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize("name", schema.TABLE_NAMES)
def test_each_field_alone_is_read_where_the_generated_class_puts_it(name: str) -> None:
    for field in live_fields(name):
        variants: list[tuple[int, str]] = (
            list(enumerate(UNIONS[field.target]))[1:] if field.kind == "union" else [(0, "")]
        )
        for number, target in variants:
            made = new(name)
            if field.kind == "union":
                given, read = new(target), target
                setattr(made, attribute(field.name) + "Type", number)
            else:
                given, read = sample(field)
            setattr(made, attribute(field.name), given)
            record, unknown = read_root(packed(made), name, "a test")
            expected = {**schema.table(name).defaults, field.name: read}
            assert {key: plain(value) for key, value in record.fields.items()} == expected
            assert list(record.fields) == list(expected)
            assert not unknown


def test_option_tables_hold_only_plain_fields() -> None:
    """types.Options has no need of tables within tables, as long as this holds."""
    for union in ("BuiltinOptions", "BuiltinOptions2"):
        for name in UNIONS[union][1:]:
            assert not {field.kind for field in live_fields(name)} & {"table", "tables", "union"}


def test_every_option_table_belongs_to_an_operator() -> None:
    tables = {*UNIONS["BuiltinOptions"][1:], *UNIONS["BuiltinOptions2"][1:]}
    assert set(OPTION_TABLES.values()) == tables
    assert set(OPTION_TABLES) <= set(ENUMERATIONS["BuiltinOperator"].names)


def test_a_number_without_a_name_stands_for_itself() -> None:
    colours = Enumeration("i8", ("RED", "GREEN"))
    assert [colours.name(number) for number in (0, 1, 2, -1)] == ["RED", "GREEN", 2, -1]
    assert [colours.number(name) for name in ("RED", "GREEN", 2, -1)] == [0, 1, 2, -1]
    with pytest.raises(KeyError):
        colours.number("BLUE")
