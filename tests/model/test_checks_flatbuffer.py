"""Checks of a file's form that only one wrong byte in one special place shows."""

from __future__ import annotations

from collections.abc import Callable
from struct import unpack_from

import pytest

from edgetool.errors import InvalidModelError
from edgetool.model.flatbuffer import read_root
from edgetool.model.reader import read_model
from tests.model.attacks import Path, field_at, follow, patched, records, target_at, vtable_at
from tests.model.builders import conv_model_bytes

BLOB = conv_model_bytes()
WEIGHTS: Path = ("subgraphs", 0, "tensors", 1)
OPERATOR: Path = ("subgraphs", 0, "operators", 0)


def text_up_to_the_end() -> bytes:
    """No byte is left for the zero behind it."""
    start = target_at(BLOB, follow(records(BLOB), WEIGHTS), "name") + 4
    return patched(BLOB, start - 4, "I", len(BLOB) - start)


def text_at_an_odd_byte() -> bytes:
    """Three letters and a zero byte, but for where they stand a text like any other."""
    tensor = follow(records(BLOB), WEIGHTS)
    at, target = field_at(BLOB, tensor, "name"), target_at(BLOB, tensor, "name") + 1
    return patched(patched(patched(BLOB, at, "I", target - at), target, "I", 3), target + 7, "B", 0)


def union_type_in_the_vtables_place() -> bytes:
    operator = follow(records(BLOB), OPERATOR)
    return patched(BLOB, vtable_at(BLOB, operator) + 4 + 2 * 3, "H", 2)


def union_value_in_the_vtables_place() -> bytes:
    operator = follow(records(BLOB), OPERATOR)
    return patched(BLOB, vtable_at(BLOB, operator) + 4 + 2 * 4, "H", 2)


def offset_at_an_odd_byte() -> bytes:
    """It leads to the same shape as before, but for where it stands."""
    tensor = follow(records(BLOB), WEIGHTS)
    at, target = field_at(BLOB, tensor, "shape") - 1, target_at(BLOB, tensor, "shape")
    moved = patched(BLOB, vtable_at(BLOB, tensor) + 4, "H", at - tensor.at)
    return patched(moved, at, "I", target - at)


def wide_elements_at_half_their_width() -> bytes:
    """One zero point of 8 bytes, where eight were, 4 bytes too early."""
    quantization = follow(records(BLOB), (*WEIGHTS, "quantization"))
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
def test_less_than_a_header_is_no_flatbuffer(size: int) -> None:
    with pytest.raises(InvalidModelError, match=f"the file ends after {size} bytes"):
        read_root(BLOB[:size], "Model", "some.tflite")
