"""Sizes of structs as compilers give them; on this machine's own ABI ctypes is the judge."""

from __future__ import annotations

import ctypes
import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.target.load import DEFAULT_RUNTIME, load_runtime
from edgetool.target.types import Abi, StructSize, struct_size

ARM = Abi("arm-eabi", 4, 1, 8, "measured")
HOST = load_runtime(DEFAULT_RUNTIME).abi("x86-64")
C_TYPES: dict[str, type] = {
    "i8": ctypes.c_int8,
    "bool": ctypes.c_bool,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "f32": ctypes.c_float,
    "i64": ctypes.c_int64,
    "pointer": ctypes.c_void_p,
    "enum": ctypes.c_int,
    "Inner": type("Inner", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_int64), ("b", ctypes.c_int8)]}),
}
INNER = {"Inner": StructSize(16, 8)}


@pytest.mark.skipif(sys.platform == "win32" or struct.calcsize("P") != 8, reason="needs a 64-bit System V machine")
@given(st.lists(st.tuples(st.sampled_from(sorted(C_TYPES)), st.integers(1, 5)), min_size=1, max_size=12))
def test_this_machine_agrees(fields: list[tuple[str, int]]) -> None:
    members = [(f"m{i}", C_TYPES[kind] * count) for i, (kind, count) in enumerate(fields)]
    compiled = type("Compiled", (ctypes.Structure,), {"_fields_": members})
    text = " ".join(f"{kind}*{count}" for kind, count in fields)
    assert struct_size(text, HOST, INNER) == StructSize(ctypes.sizeof(compiled), ctypes.alignment(compiled))


@pytest.mark.parametrize(
    ("fields", "size", "alignment"),
    [
        ("", 0, 1),
        ("bool", 1, 1),
        ("enum*2 bool*2 enum", 5, 1),  # short enums
        ("bool i32", 8, 4),
        ("i32 bool", 8, 4),  # the tail is padded: elements of an array stay aligned
        ("i32 i64", 16, 8),
        ("pointer enum", 8, 4),
        ("i8 i16*3 i8", 10, 2),
        ("Inner i8", 24, 8),
    ],
)
def test_arm(fields: str, size: int, alignment: int) -> None:
    assert struct_size(fields, ARM, INNER) == StructSize(size, alignment)


def test_an_abi_may_align_eight_bytes_to_four() -> None:
    assert struct_size("i32 i64", Abi("i386", 4, 4, 4, "derived"), {}) == StructSize(12, 4)


@pytest.mark.parametrize("fields", ["u32", "i32 Unknown", "pointers", "*3"])
def test_an_unknown_field_is_a_key_error(fields: str) -> None:
    with pytest.raises(KeyError):
        struct_size(fields, ARM, {})
