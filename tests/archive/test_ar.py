"""Static libraries: their members, and files that are none."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.archive import ar
from edgetool.archive.ar import read_members
from edgetool.errors import LibraryError
from tests.archive.objects import library_bytes

NAMES = st.text("abcdefgh_.0123456789", min_size=1, max_size=40).filter(lambda name: name.strip("/"))


@given(st.dictionaries(NAMES, st.binary(max_size=30), max_size=6))
def test_members_read_back(members: dict[str, bytes]) -> None:
    read = read_members(library_bytes(members), "lib.a")
    assert {member.name: bytes(member.data) for member in read} == members
    assert [member.number for member in read] == list(range(len(members)))


@pytest.mark.skipif(shutil.which("ar") is None, reason="ar is not installed")
@pytest.mark.parametrize("options", ["rcs", "rcS"])
def test_what_ar_writes(tmp_path: Path, options: str) -> None:
    names = ["short.o", "a_name_of_more_than_fifteen_characters.o", "with space.o"]
    for name in names:
        (tmp_path / name).write_bytes(name.encode() * 3)
    subprocess.run(["ar", options, "lib.a", *names], cwd=tmp_path, check=True)
    read = read_members((tmp_path / "lib.a").read_bytes(), "lib.a")
    assert {member.name: bytes(member.data) for member in read} == {name: name.encode() * 3 for name in names}


def test_names_of_bsd() -> None:
    blob = b"!<arch>\n" + b"#1/8".ljust(16) + b"0".ljust(32) + b"11".ljust(10) + b"`\nlong.o\0\0abc\n"
    assert [(member.name, bytes(member.data)) for member in read_members(blob, "lib.a")] == [("long.o", b"abc")]


GOOD = library_bytes({"a.o": b"1234", "a_name_of_more_than_fifteen_characters.o": b"56"})


@pytest.mark.parametrize(
    ("blob", "what"),
    [
        (b"", "lib.a: is not a static library"),
        (b"\x7fELF" + bytes(100), "is not a static library"),
        (b"!<thin>\n", "is a thin archive"),
        (GOOD[:30], "ends within the header of a member at byte 8"),
        (GOOD[:-1], "fifteen_characters.o\\): has 2 bytes, but the file ends after 1"),
        (GOOD.replace(b"`\n", b"xx", 1), "has no header of a member at byte 8"),
        (GOOD.replace(b"/0 ", b"/99", 1), "whose name is outside the table of names"),
        (b"!<arch>\n" + b"a.o/".ljust(48) + b"x".ljust(10) + b"`\n", "has a member without a size at byte 8"),
        (b"!<arch>\n" + b"a.o/".ljust(48) + b"9999999999`\n", "has 9,999,999,999 bytes"),
        (b"!<arch>\n" + b"#1/9999".ljust(48) + b"2".ljust(10) + b"`\nab", "a name of 9,999 bytes"),
    ],
)
def test_damaged_files_are_refused(blob: bytes, what: str) -> None:
    with pytest.raises(LibraryError, match=what):
        read_members(blob, "lib.a")


def test_the_number_of_members_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ar, "MAX_MEMBERS", 2)
    with pytest.raises(LibraryError, match="more than 2 members"):
        read_members(library_bytes(dict.fromkeys("abc", b"")), "lib.a")


def test_a_name_cannot_change_the_terminal() -> None:
    [member] = read_members(library_bytes({"a\x1b[2J": b""}), "lib.a")
    assert member.name == "a\\x1b[2J"
