"""How a C compiler lays out structs: sizes from field types, so that one description serves every processor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Fields whose size is the same everywhere; "pointer" (also size_t) and "enum" are the ABI's, "i64" its alignment too.
SCALARS: dict[str, int] = {"i8": 1, "bool": 1, "i16": 2, "i32": 4, "f32": 4}


@dataclass(frozen=True, slots=True)
class Abi:
    """A processor's C ABI, and the kernel sets whose arenas were measured on it; others are derived from it alone.

    replaced: structs that a build for it uses in the place of others, as pairs of names.
    """

    name: str
    pointer_bytes: int
    enum_bytes: int
    i64_alignment: int
    measured: tuple[str, ...] = ()
    note: str = ""
    replaced: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class StructSize:
    """What sizeof and alignof give."""

    size_bytes: int
    alignment: int


def struct_size(fields: str, abi: Abi, known: Mapping[str, StructSize]) -> StructSize:
    """The size of a struct of these fields in order, as "i32 pointer TfLitePaddingValues i8*6".

    A field is a scalar, "pointer", "enum", "i64" or a struct of `known`, with "*n" for an array. Members lie at
    multiples of their alignment and the whole is padded to the largest (the rule of every ABI here; System V
    and AAPCS alike). No fields: size 0. Raises KeyError for a field of unknown type.
    """
    offset, alignment = 0, 1
    for field in fields.split():
        kind, _, count = field.partition("*")
        member = _member(kind, abi, known)
        offset = _aligned(offset, member.alignment) + member.size_bytes * int(count or 1)
        alignment = max(alignment, member.alignment)
    return StructSize(_aligned(offset, alignment), alignment)


def _member(kind: str, abi: Abi, known: Mapping[str, StructSize]) -> StructSize:
    if kind in SCALARS:
        return StructSize(SCALARS[kind], SCALARS[kind])
    if kind == "pointer":
        return StructSize(abi.pointer_bytes, abi.pointer_bytes)
    if kind == "enum":
        return StructSize(abi.enum_bytes, abi.enum_bytes)
    if kind == "i64":
        return StructSize(8, abi.i64_alignment)
    return known[kind]


def _aligned(size_bytes: int, alignment: int) -> int:
    return -(-size_bytes // alignment) * alignment
