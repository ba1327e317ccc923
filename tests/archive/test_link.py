"""What a linker keeps: chosen cases, random libraries against a brute force, and GNU ld itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.archive.ar import read_members
from edgetool.archive.elf import read_object
from edgetool.archive.link import Linked, Linker
from tests.archive.objects import ALLOC, MERGE, STRINGS, Part, Unit, object_bytes

TEXTS = ALLOC | MERGE | STRINGS


def link(units: list[Unit], *symbols: str) -> Linked:
    """Return what is kept of object files in this order."""
    files = [read_object(memoryview(object_bytes(unit)), f"{number}.o") for number, unit in enumerate(units)]
    return Linker(files).link(symbols)


def kept(linked: Linked) -> list[str]:
    """Return the names of the kept sections with their files."""
    return [f"{file.name}:{section.name}" for file, section in linked.sections]


def test_only_what_is_reachable_is_kept() -> None:
    units = [
        Unit((Part(".text.f", b"12345678", ("g",)), Part(".text.unused", bytes(100))), {"f": 0, "unused": 1}),
        Unit((Part(".text.g", bytes(6), ("memcpy",)), Part(".text.h")), {"g": 0, "h": 1}),
    ]
    linked = link(units, "f", "absent")
    assert kept(linked) == ["0.o:.text.f", "1.o:.text.g"]
    assert linked.flash_bytes == 8 + 8
    assert linked.undefined == {"memcpy", "absent"}


def test_a_weak_definition_gives_way_to_a_loaded_one() -> None:
    """As in libgcc, which has the product of doubles alone, and together with their quotient."""
    weak = Unit((Part(".text.f", bytes(40)),), {"f": 0}, weak=frozenset({"f"}))
    strong = Unit((Part(".text.f", bytes(8)), Part(".text.g")), {"f": 0, "g": 1})
    assert link([weak, strong], "f").flash_bytes == 40
    assert link([weak, strong], "f", "g").flash_bytes == 8 + 4
    assert link([weak, weak], "f").flash_bytes == 40


def test_a_weak_reference_loads_nothing() -> None:
    caller = Unit((Part(".text.f", refers=("g",)),), {"f": 0}, weak=frozenset({"g"}))
    definition = Unit((Part(".text.g", bytes(100)), Part(".text.h")), {"g": 0, "h": 1})
    linked = link([caller, definition], "f")
    assert kept(linked) == ["0.o:.text.f"]
    assert not linked.undefined
    assert "1.o:.text.g" in kept(link([caller, definition], "f", "h"))


def test_a_file_uses_its_own_weak_definition_if_no_other_is_loaded() -> None:
    template = Part(".text.t", bytes(12))
    first = Unit((template, Part(".text.other")), {"t": 0, "other": 1}, weak=frozenset({"t"}))
    second = Unit((template, Part(".text.f", refers=("t",))), {"t": 0, "f": 1}, weak=frozenset({"t"}))
    assert kept(link([first, second], "f")) == ["1.o:.text.t", "1.o:.text.f"]
    assert kept(link([first, second], "f", "other")) == ["0.o:.text.t", "0.o:.text.other", "1.o:.text.f"]


def test_constructors_of_loaded_files_are_kept() -> None:
    used = Unit(
        (Part(".text.f"), Part(".init_array", refers=("setup",), kind=14), Part(".text.setup")), {"f": 0, "setup": 2}
    )
    unused = Unit((Part(".init_array", kind=14),), {"g": 0})
    assert kept(link([used, unused], "f")) == ["0.o:.text.f", "0.o:.init_array", "0.o:.text.setup"]


def test_equal_strings_and_ends_of_strings_take_no_space() -> None:
    def unit(name: str, data: bytes) -> Unit:
        texts = Part(".rodata.str1.1", data, flags=TEXTS, alignment=1, entry_bytes=1)
        return Unit((Part(f".text.{name}", refers=(f"{name}_text",)), texts), {name: 0, f"{name}_text": 1})

    units = [unit("f", b"invalid size\0x\0"), unit("g", b"size\0x\0"), unit("h", b"other\0")]
    assert link(units, "f").flash_bytes == 4 + len("invalid size0x0")
    assert link(units, "f", "g").flash_bytes == 8 + len("invalid size0x0")
    assert link(units, "f", "g", "h").flash_bytes == 12 + len("invalid size0x0other0")


def test_equal_constants_are_kept_once() -> None:
    def unit(name: str, data: bytes) -> Unit:
        constants = Part(".rodata.cst4", data, flags=ALLOC | MERGE, entry_bytes=4)
        return Unit((Part(f".text.{name}", refers=(f"{name}_value",)), constants), {name: 0, f"{name}_value": 1})

    assert link([unit("f", b"aaaabbbb"), unit("g", b"bbbbcccc")], "f", "g").flash_bytes == 8 + 12


def test_functions_without_unwinding_share_an_entry() -> None:
    def entry(of: int) -> Part:
        return Part(".ARM.exidx", bytes(4) + b"\1\0\0\0", flags=ALLOC | 0x80, kind=0x70000001, link=of)

    unit = Unit((Part(".text.f", refers=("g",)), Part(".text.g"), entry(0), entry(1)), {"f": 0, "g": 1})
    assert link([unit], "f").flash_bytes == 8 + 8
    assert link([unit], "g").flash_bytes == 4 + 8


GRAPHS = st.lists(st.lists(st.lists(st.integers(0, 11), max_size=3), min_size=1, max_size=3), min_size=1, max_size=4)


@given(GRAPHS, st.sets(st.integers(0, 11), min_size=1, max_size=3))
def test_random_libraries_agree_with_a_brute_force(graph: list[list[list[int]]], roots: set[int]) -> None:
    """Each file has sections with one symbol each, numbered throughout; a section refers to symbols."""
    units, references, number = [], {}, 0
    for sections in graph:
        parts, defines = [], {}
        for place, refers in enumerate(sections):
            parts.append(
                Part(f".text.{number}", bytes(4 * (number + 1)), tuple(sorted({f"s{each}" for each in refers})))
            )
            defines[f"s{number}"] = place
            references[number] = set(refers)
            number += 1
        units.append(Unit(parts, defines))
    reached, count = set(roots), 0
    while count != len(reached):
        count = len(reached)
        reached |= {each for known in reached for each in references.get(known, ())}
    linked = link(units, *(f"s{root}" for root in roots))
    assert linked.flash_bytes == sum(4 * (each + 1) for each in reached if each < number)
    assert linked.undefined == {f"s{each}" for each in reached if each >= number}


SOURCES = {
    "main.c": "extern int used(int); void reset(void); void reset(void) { for (;;) used(3); }",
    "used.c": "extern int helper(const char *); int unused(void); int used(int x);"
    'int used(int x) { return helper("used text") / x; }'
    'int unused(void) { return helper("a text that nobody uses"); }',
    "helper.c": "static const int table[40] = {1, 2}; int helper(const char *text);"
    'int helper(const char *text) { return table[text[0] % 40] + "text"[1]; }',
}
SCRIPT = "SECTIONS { .text : { *(.text*) *(.rodata*) } .ARM.exidx : { *(.ARM.exidx*) } .data : { *(.data*) } }"
GCC = shutil.which("arm-none-eabi-gcc")


@pytest.mark.skipif(GCC is None, reason="arm-none-eabi-gcc is not installed")
@pytest.mark.parametrize("level", ["-O1", "-Os"])
def test_the_size_is_that_of_gnu_ld(tmp_path: Path, level: str) -> None:
    assert GCC is not None
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text, encoding="ascii")
    (tmp_path / "all.ld").write_text(SCRIPT, encoding="ascii")
    flags = ["-mcpu=cortex-m0plus", "-mthumb", level, "-ffunction-sections", "-fdata-sections"]

    def run(*command: str) -> str:
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    run(GCC, *flags, "-c", *SOURCES)
    run("arm-none-eabi-ar", "rcs", "lib.a", "used.o", "helper.o")
    rest = ["-nostartfiles", "-Wl,--gc-sections", "-Wl,--entry=reset", "-Tall.ld"]
    run(GCC, *flags, *rest, "main.o", "lib.a", "-o", "program.elf")
    size = run("arm-none-eabi-size", "program.elf").splitlines()[1].split()
    libgcc = run(GCC, *flags, "-print-file-name=libgcc.a").strip()
    files = [read_object(memoryview((tmp_path / "main.o").read_bytes()), "main.o")]
    for path in (tmp_path / "lib.a", Path(libgcc)):
        members = read_members(path.read_bytes(), path.name)
        files += [read_object(member.data, f"{path.name}({member.name})") for member in members]
    assert abs(Linker(files).link(["reset"]).flash_bytes - int(size[0]) - int(size[1])) <= 8
