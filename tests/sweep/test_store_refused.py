"""What is no store, or a damaged one: told, and left alone."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
from pathlib import Path

import pytest

from edgetool.errors import InternalError, OutputError, UsageError
from edgetool.sweep.store import APPLICATION_ID, TABLES, VERSION, open_store
from tests.sweep.stores import read_all, write


def broken(whole: bytes) -> dict[str, tuple[bytes, str]]:
    return {
        "half": (whole[: len(whole) // 2], "is damaged"),
        "first pages": (whole[:5000], "is damaged"),
        "overwritten": (whole[:100] + bytes(len(whole) - 100), "is damaged"),
        "header": (whole[:50], "is not a sweep store|is damaged"),
        "text": (b"level,precision\n" * 100, "is not a sweep store"),
        "short text": (b"hello\n", "is not a sweep store"),
        "foreign mark": (whole[:68] + b"GPKG" + whole[72:], "is not a sweep store"),
        "newer": (whole[:60] + (VERSION + 1).to_bytes(4, "big") + whole[64:], "newer edgetool"),
    }


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("case", broken(bytes(200)))
def test_what_is_no_store_is_told_and_left_alone(path: Path, case: str, create: bool) -> None:
    content, said = broken(write(path))[case]
    path.write_bytes(content)
    with pytest.raises(UsageError, match=said) as caught:
        read_all(path, create=create)
    assert caught.value.where == str(path)
    assert caught.value.fix
    assert path.read_bytes() == content


@pytest.mark.parametrize("create", [False, True])
def test_another_programs_database_is_left_alone(path: Path, create: bool) -> None:
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE results (key, value)")
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is not a sweep store"):
        open_store(path, create=create)
    assert path.read_bytes() == before


@pytest.mark.parametrize("table", TABLES)
def test_a_missing_table_is_damage(path: Path, table: str) -> None:
    write(path)
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute(f"DROP TABLE {table}")
    with pytest.raises(UsageError, match="is damaged") as caught:
        open_store(path)
    assert table in caught.value.details[0]


@pytest.mark.parametrize("column", ["results.value", "results.reason", "sweep.record", "variants.variant"])
@pytest.mark.parametrize("content", ["{", "[1]", "null", "{}", "{}, {}"])
def test_a_record_that_cannot_be_read_is_damage(path: Path, column: str, content: str) -> None:
    write(path)
    table, _, name = column.partition(".")
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute(f"UPDATE {table} SET {name} = ?", (content,))
        other.commit()
    acceptable = {("results.value", "{}"), ("results.reason", "null")}
    told = pytest.raises(UsageError, match="damage")
    expected = contextlib.nullcontext() if (column, content) in acceptable else told
    with open_store(path) as store, expected:
        store.outcomes()
        store.sweep()
        store.entries()


def test_a_fuzzed_store_is_read_or_told(path: Path) -> None:
    whole = write(path)
    seeded = random.Random(7)
    refused = 0
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(seeded.choice([1, 20, 2000])):
            content[seeded.randrange(len(content))] = seeded.randrange(256)
        path.write_bytes(content)
        try:
            read_all(path)
        except (UsageError, InternalError):  # an InternalError: a key has changed, and its blob is not found
            refused += 1
    assert 0 < refused < 60


def test_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the store does not exist.*sweep run"):
        open_store(tmp_path / "none.sqlite")
    with pytest.raises(OutputError, match="directory does not exist"):
        open_store(tmp_path / "none" / "s.sqlite", create=True)
    with pytest.raises(UsageError, match="is a directory"):
        open_store(tmp_path, create=True)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(UsageError, match="is a pipe"):
            open_store(tmp_path / "pipe", create=True)
    assert not (tmp_path / "none.sqlite").exists()


def test_an_empty_file_becomes_a_store_by_writing_alone(path: Path) -> None:
    path.touch()
    with pytest.raises(UsageError, match=r"is empty.*sweep run"):
        open_store(path)
    assert path.read_bytes() == b""
    with open_store(path, create=True) as store, pytest.raises(UsageError, match="contains no sweep"):
        store.sweep()


def test_the_mark_is_in_the_header(path: Path) -> None:
    whole = write(path)
    assert int.from_bytes(whole[68:72], "big") == APPLICATION_ID
    assert whole[18:20] == b"\x01\x01"  # a rollback journal
