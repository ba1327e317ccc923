"""The checking reader against files that are wrong in one place each."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from struct import pack, unpack_from

import pytest

from edgetool.errors import InvalidModelError, UnsupportedModelError
from edgetool.model import flatbuffer
from edgetool.model.flatbuffer import Record, read_root
from edgetool.model.reader import read_model
from edgetool.model.schema import UNIONS, Field, Table, table
from edgetool.model.writer import write_model
from tests.model.attacks import Path, alias_bomb, field_at, follow, patched, records, target_at, vtable_at, with_field
from tests.model.builders import add_model, conv_model, conv_model_bytes

BLOB = conv_model_bytes()
ROOT = records(BLOB)
GRAPH = follow(ROOT, ("subgraphs", 0))
TENSOR = follow(ROOT, ("subgraphs", 0, "tensors", 1))
OPERATOR = follow(ROOT, ("subgraphs", 0, "operators", 0))
BUFFER = follow(ROOT, ("buffers", 1))
UNION_SLOT = next(field.id for field in table("Operator").fields if field.name == "builtin_options")


def on_field(record: Record, name: str, value: int) -> Callable[[], bytes]:
    """The offset stored in a field, replaced."""
    return lambda: patched(BLOB, field_at(BLOB, record, name), "I", value)


def on_length(record: Record, name: str, value: int) -> Callable[[], bytes]:
    """The length of a vector or text, replaced."""
    return lambda: patched(BLOB, target_at(BLOB, record, name), "I", value)


def on_vtable(record: Record, half_word: int, value: int) -> Callable[[], bytes]:
    return lambda: patched(BLOB, vtable_at(BLOB, record) + 2 * half_word, "H", value)


def on_table(record: Record, letter: str, value: int) -> Callable[[], bytes]:
    """The distance from a table to its vtable, replaced."""
    return lambda: patched(BLOB, record.at, letter, value)


def text_end(name: str) -> int:
    at = target_at(BLOB, TENSOR, name)
    return int(at + 4 + unpack_from("<I", BLOB, at)[0])


ATTACKS: dict[str, tuple[Callable[[], bytes], str]] = {
    "root beyond the end": (lambda: patched(BLOB, 0, "I", len(BLOB)), "beyond the end"),
    "root not aligned": (lambda: patched(BLOB, 0, "I", 18), "not aligned"),
    "root near 4 GiB": (lambda: patched(BLOB, 0, "I", 0xFFFFFFFC), "beyond the end"),
    "vtable before the file": (on_table(TENSOR, "i", 2**31 - 1), "vtable would be"),
    "vtable after the file": (on_table(TENSOR, "i", -(2**31)), "vtable would be"),
    "vtable at an odd byte": (on_table(TENSOR, "i", 1), "vtable would be"),
    "vtable of 2 bytes": (on_vtable(TENSOR, 0, 2), "declares sizes"),
    "vtable of odd size": (on_vtable(TENSOR, 0, 7), "declares sizes"),
    "vtable past the end": (on_vtable(TENSOR, 0, 0xFFFE), "declares sizes"),
    "table of 2 bytes": (on_vtable(TENSOR, 1, 2), "declares sizes"),
    "table past the end": (on_vtable(TENSOR, 1, 0xFFFF), "extend past the end"),
    "field in the vtable's place": (on_vtable(TENSOR, 2, 2), "outside its table"),
    "field behind its table": (on_vtable(TENSOR, 2, 0xFFF0), "outside its table"),
    "union's type behind its table": (on_vtable(OPERATOR, 2 + 3, 0xFFF0), "outside its table"),
    "scalar not aligned": (on_vtable(TENSOR, 2 + 2, 5), "not aligned"),
    "offset of 0": (on_field(TENSOR, "shape", 0), "does not point to data"),
    "offset out of the file": (on_field(TENSOR, "shape", len(BLOB)), "points past the end"),
    "offset near 4 GiB": (on_field(GRAPH, "tensors", 0xFFFFFFFF), "points past the end"),
    "vector not aligned": (
        lambda: patched(
            patched(BLOB, at := field_at(BLOB, TENSOR, "shape"), "I", unpack_from("<I", BLOB, at)[0] - 2),
            target_at(BLOB, TENSOR, "shape") - 2,
            "I",
            1,
        ),
        "not aligned",
    ),
    "vector past the end": (on_length(TENSOR, "shape", len(BLOB)), "extend past the end"),
    "vector of 4 G elements": (on_length(TENSOR, "shape", 0xFFFFFFFF), "extend past the end"),
    "vector of tables past the end": (on_length(ROOT, "buffers", 0x40000000), "extend past the end"),
    "payload past the end": (on_length(BUFFER, "data", len(BLOB)), "extend past the end"),
    "text past the end": (on_length(TENSOR, "name", len(BLOB)), "extend past the end"),
    "text without an end": (lambda: patched(BLOB, text_end("name"), "B", 65), "null-terminated"),
    "text that is not valid UTF-8": (lambda: patched(BLOB, text_end("name") - 1, "B", 0xFF), "not valid UTF-8"),
}


@pytest.mark.parametrize(("attack", "message"), ATTACKS.values(), ids=ATTACKS)
def test_an_invalid_value_is_rejected_by_name(attack: Callable[[], bytes], message: str) -> None:
    blob = attack()
    assert blob != BLOB
    with pytest.raises(InvalidModelError, match=message) as caught:
        read_model(blob, name="some.tflite")
    assert str(caught.value.where).startswith("some.tflite: ")
    assert " at byte " in str(caught.value.where)
    assert caught.value.fix


def test_the_base_of_the_attacks_is_sound() -> None:
    assert write_model(read_model(BLOB)) == BLOB


def test_every_cut_is_refused() -> None:
    for size in range(len(BLOB) - 16):
        with pytest.raises(InvalidModelError):
            read_model(BLOB[:size])


def test_an_unknown_union_type_is_named() -> None:
    number = len(UNIONS["BuiltinOptions"])
    blob = patched(BLOB, field_at(BLOB, OPERATOR, "builtin_options"), "B", number)
    with pytest.raises(UnsupportedModelError, match=f"BuiltinOptions number {number}"):
        read_model(blob)


def test_a_union_without_a_type_is_absent() -> None:
    blob = write_model(add_model())
    operator = records(blob)["subgraphs"][0]["operators"][0]
    assert read_model(blob).main.operators[0].options is not None
    blob = patched(blob, field_at(blob, operator, "builtin_options"), "B", 0)
    assert read_model(blob).main.operators[0].options is None


@pytest.mark.parametrize("part", [0, 1])
def test_both_fields_of_a_union_lie_in_their_table(part: int) -> None:
    """Whether the other one is there or not."""
    slot = vtable_at(BLOB, OPERATOR) + 4 + 2 * (UNION_SLOT + part)
    other = vtable_at(BLOB, OPERATOR) + 4 + 2 * (UNION_SLOT + 1 - part)
    for blob in (BLOB, patched(BLOB, other, "H", 0)):
        with pytest.raises(InvalidModelError, match="is outside its table"):
            read_model(patched(blob, slot, "H", 0x488))


@pytest.mark.parametrize("name", ["tensors", "inputs", "outputs"])
def test_a_subgraph_has_its_lists(name: str) -> None:
    with pytest.raises(InvalidModelError, match="missing") as caught:
        read_model(with_field(conv_model(), ("subgraphs", 0), name, None))
    assert f"field {name}" in str(caught.value.where)


def test_fields_beyond_the_schema_are_collected() -> None:
    """A buffer's vtable with a fourth field, where the schema knows three."""
    at = BUFFER.at
    vtable = pack("<HHHHHH", 12, 8, 4, 0, 0, 4)
    blob = BLOB + bytes(-len(BLOB) % 4)
    blob = patched(blob, at, "i", at - len(blob)) + vtable
    assert read_model(blob).unknown_fields == ("Buffer.field 3",)


def test_a_shared_payload_is_one_object() -> None:
    first, second = BUFFER, follow(ROOT, ("buffers", 2))
    at = field_at(BLOB, first, "data")
    if target_at(BLOB, second, "data") < at:  # offsets only lead forward
        first, second = second, first
        at = field_at(BLOB, first, "data")
    root, _ = read_root(patched(BLOB, at, "I", target_at(BLOB, second, "data") - at), "Model", "a test")
    assert root["buffers"][1]["data"] is root["buffers"][2]["data"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("subgraphs", "tensors", "refused"),
    [
        (12000, 12000, True),
        (24000, 1, True),
        (2, 20000, True),
        (1000, 1000, True),  # small enough for the budget of bytes to end it
        (1, 400_000, True),
        (1, 9000, False),
    ],
)
def test_a_file_that_stands_for_millions_of_tables_costs_little(subgraphs: int, tensors: int, refused: bool) -> None:
    blob = alias_bomb(subgraphs, tensors)
    assert len(blob) < 2_000_000
    start = time.process_time()
    outcome = attempt(blob)
    assert time.process_time() - start < 1  # hours, if every reference were followed
    assert (outcome is not None and "overlap" in outcome) == refused
    tracemalloc.start()
    try:
        attempt(blob)
        assert tracemalloc.get_traced_memory()[1] < 40 * 2**20
    finally:
        tracemalloc.stop()


def attempt(blob: bytes) -> str | None:
    """What was said when the file was refused."""
    try:
        read_model(blob)
    except InvalidModelError as error:
        return str(error)
    return None


def test_a_little_sharing_is_no_attack() -> None:
    model = read_model(alias_bomb(3, 4))
    assert [len(graph.tensors) for graph in model.subgraphs] == [4, 4, 4]


def test_tables_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a vector of tables at once, before any of them is read; one by one where they are nested."""
    monkeypatch.setattr(flatbuffer, "MAX_TABLES", 5)
    with pytest.raises(InvalidModelError, match="with its 6 elements, the file would have more than 5 tables"):
        read_model(alias_bomb(1, 6))
    monkeypatch.setattr(flatbuffer, "MAX_TABLES", 7)  # the root, a code, a subgraph, its four tensors
    with pytest.raises(InvalidModelError, match=r": the file has more than 7 tables"):
        read_model(BLOB)


def test_a_million_tables_are_refused_before_they_are_read() -> None:
    blob = alias_bomb(1, flatbuffer.MAX_TABLES)
    with pytest.raises(InvalidModelError, match="more than 1000000 tables"):
        read_model(blob)


def test_nesting_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema nests no table in itself; one that does shows the limit."""
    nested = Field("next", 0, "table", "", None, "Node", None, "", optional=False)
    node = Table("Node", (nested,), 1, {"next": None}, ())
    monkeypatch.setattr(flatbuffer, "schema_table", lambda name: node)

    def chain(length: int) -> bytes:
        """Tables of 8 bytes that share the vtable before them; the last has no field and one of its own."""
        tables = [pack("<iI", 8 + 8 * position, 4) for position in range(length - 1)]
        return pack("<I4sHHHH", 16, b"TFL3", 6, 8, 4, 0) + b"".join(tables) + pack("<iHH", -4, 4, 4)

    assert read_root(chain(flatbuffer.MAX_DEPTH), "Node", "a test")[1] == ()
    with pytest.raises(InvalidModelError, match="nested more than 64"):
        read_root(chain(flatbuffer.MAX_DEPTH + 1), "Node", "a test")


WEIGHTS_PATH: Path = ("subgraphs", 0, "tensors", 1)
OPERATOR_PATH: Path = ("subgraphs", 0, "operators", 0)


def text_up_to_the_end() -> bytes:
    """No byte is left for the zero behind it."""
    start = target_at(BLOB, follow(records(BLOB), WEIGHTS_PATH), "name") + 4
    return patched(BLOB, start - 4, "I", len(BLOB) - start)


def text_at_an_odd_byte() -> bytes:
    """Three letters and a zero byte, but for where they stand a text like any other."""
    tensor = follow(records(BLOB), WEIGHTS_PATH)
    at, target = field_at(BLOB, tensor, "name"), target_at(BLOB, tensor, "name") + 1
    return patched(patched(patched(BLOB, at, "I", target - at), target, "I", 3), target + 7, "B", 0)


def union_type_in_the_vtables_place() -> bytes:
    operator = follow(records(BLOB), OPERATOR_PATH)
    return patched(BLOB, vtable_at(BLOB, operator) + 4 + 2 * 3, "H", 2)


def union_value_in_the_vtables_place() -> bytes:
    operator = follow(records(BLOB), OPERATOR_PATH)
    return patched(BLOB, vtable_at(BLOB, operator) + 4 + 2 * 4, "H", 2)


def offset_at_an_odd_byte() -> bytes:
    """It leads to the same shape as before, but for where it stands."""
    tensor = follow(records(BLOB), WEIGHTS_PATH)
    at, target = field_at(BLOB, tensor, "shape") - 1, target_at(BLOB, tensor, "shape")
    moved = patched(BLOB, vtable_at(BLOB, tensor) + 4, "H", at - tensor.at)
    return patched(moved, at, "I", target - at)


def wide_elements_at_half_their_width() -> bytes:
    """One zero point of 8 bytes, where eight were, 4 bytes too early."""
    quantization = follow(records(BLOB), (*WEIGHTS_PATH, "quantization"))
    at, target = field_at(BLOB, quantization, "zero_point"), target_at(BLOB, quantization, "zero_point")
    moved = patched(BLOB, at, "I", unpack_from("<I", BLOB, at)[0] + 4)
    return patched(moved, target + 4, "I", 1)


SPECIAL: dict[str, tuple[Callable[[], bytes], str]] = {
    "text up to the end": (text_up_to_the_end, "null-terminated"),
    "text at an odd byte": (text_at_an_odd_byte, "the vector is not aligned"),
    "union's type in the vtable's place": (union_type_in_the_vtables_place, "outside its table"),
    "union's value in the vtable's place": (union_value_in_the_vtables_place, "outside its table"),
    "offset at an odd byte": (offset_at_an_odd_byte, "does not point to data"),
}


def test_wide_elements_at_half_their_width_are_read() -> None:
    """Some writers align every vector to 4 bytes, and LiteRT takes their files."""
    quantization = read_model(wide_elements_at_half_their_width()).subgraphs[0].tensors[1].quantization
    assert quantization is not None
    assert quantization.zero_points == (0,)


@pytest.mark.parametrize(("attack", "message"), SPECIAL.values(), ids=SPECIAL)
def test_one_wrong_byte_is_refused(attack: Callable[[], bytes], message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        read_model(attack())


@pytest.mark.parametrize("size", range(8))
def test_a_file_shorter_than_a_header_is_not_a_flatbuffer(size: int) -> None:
    with pytest.raises(InvalidModelError, match=f"the file ends after {size} bytes"):
        read_root(BLOB[:size], "Model", "some.tflite")
