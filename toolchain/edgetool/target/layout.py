"""What a runtime's profile says of C structs: its ABIs, and field lists that struct_size can compute."""

from __future__ import annotations

from collections.abc import Collection
from typing import get_args

from edgetool.target.abi import SCALARS, Abi
from edgetool.target.schema import Section, did_you_mean
from edgetool.target.types import Kernels

KINDS = (*SCALARS, "i64", "enum", "pointer")
MAX_COUNT = 2**16  # elements of an array in a struct

FieldLists = tuple[tuple[str, str], ...]


def read_structs(section: Section, name: str) -> FieldLists:
    """The table of structs, each of which may be made of those before it; problems are noted in the section."""
    structs: dict[str, str] = {}
    for struct, fields in section.entries(name):
        if not struct.isidentifier() or struct in KINDS:
            section.note(f"{name}.{struct}", "is not a valid name of a struct")
        elif _valid(section, f"{name}.{struct}", fields, structs):
            structs[struct] = fields
    return tuple(structs.items())


def read_field_lists(section: Section, name: str, owners: Collection[str], structs: Collection[str]) -> FieldLists:
    """A table of field lists by operator, which may be made of the structs; problems are noted in the section."""
    lists = []
    for owner, fields in section.entries(name):
        if owner not in owners:
            section.note(f"{name}.{owner}", "is not an operator of this runtime", did_you_mean(owner, owners))
        elif _valid(section, f"{name}.{owner}", fields, structs):
            lists.append((owner, fields))
    return tuple(lists)


def read_abis(section: Section, structs: Collection[str]) -> tuple[Abi, ...]:
    """The ABIs that the runtime is described for; problems are noted in the section."""
    abis: list[Abi] = []
    for item in section.sections("abi"):
        abi = Abi(
            name=item.name("name"),
            pointer_bytes=_one_of(item, "pointer_bytes", (4, 8)),
            enum_bytes=_one_of(item, "enum_bytes", (1, 4)),
            i64_alignment=_one_of(item, "i64_alignment", (4, 8)),
            measured=_kernel_sets(item),
            note=item.text("note", required=False),
            replaced=item.entries("replaced", required=False),
        )
        item.finish()
        for pair in abi.replaced:
            for struct in pair:
                if struct not in structs:
                    item.note(
                        f"replaced.{pair[0]}", f"there is no struct {struct[:80]!r}", did_you_mean(struct, structs)
                    )
        if abi.name in [other.name for other in abis]:
            item.note("name", f"there are two ABIs with the name {abi.name!r}")
        abis.append(abi)
    if not abis:
        section.note("abi", "is missing", "add an [[abi]] table")
    return tuple(abis)


def fields_problem(fields: str, structs: Collection[str]) -> str | None:
    """Why struct_size could not compute these fields; None when it can."""
    for field in fields.split():
        kind, star, count = field.partition("*")
        if kind not in KINDS and kind not in structs:
            return f"{kind[:80]!r} is neither a scalar nor a previously defined struct"
        if star and not (count.isascii() and count.isdigit() and len(count) < 9 and 1 <= int(count) <= MAX_COUNT):
            return f"{field[:80]!r} must have a count from 1 to {MAX_COUNT}"
    return None


def _valid(section: Section, key: str, fields: str, structs: Collection[str]) -> bool:
    reason = fields_problem(fields, structs)
    if reason is None:
        return True
    near = next((field.partition("*")[0] for field in fields.split() if fields_problem(field, structs)), "")
    section.note(key, reason, did_you_mean(near, (*KINDS, *structs)))
    return False


def _one_of(section: Section, key: str, known: tuple[int, ...]) -> int:
    value = section.integer(key, known[0], known[-1])
    if value not in known:
        section.note(key, f"{value} is not one of {', '.join(map(str, known))}")
        return known[0]
    return value


def _kernel_sets(section: Section) -> tuple[str, ...]:
    known = get_args(Kernels)
    words = section.texts("measured") if section.has("measured") else ()
    for word in words:
        if word not in known:
            section.note("measured", f"{word[:80]!r} is not one of {', '.join(known)}", did_you_mean(word, known))
    return words
