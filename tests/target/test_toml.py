"""TOML texts: what Python's reader takes too long for, or gives what nobody can print, is refused; nothing else is."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import SettingsError, UsageError
from edgetool.target.load import validate_target
from edgetool.target.toml import MAX_DEPTH, MAX_FILE_BYTES, toml_table, toml_text

ROOT = Path(__file__).parents[2]
DOTS = ".a" * 3990


def table(text: str) -> dict[str, Any]:
    return toml_table(text, where="x.toml", fix="repair it", error=SettingsError)


# Forty seconds and eight gigabytes for Python's reader, or what nothing can print.
BOMBS = {
    "dotted keys": "\n".join(f"a{i}{DOTS} = 1" for i in range(125)),
    "dotted headers": "\n".join(f"[a{i}{DOTS}]" for i in range(125)),
    "dots with spaces": "a" + " . a" * 200_000 + " = 1",
    "quoted parts": '"="' + '."="' * 200_000 + " = 1",
    "a key after a string that ends with a quote": 'a = ["""x"""", {a' + DOTS + '=1}, "]',
    "lists": "a = " + "[\n" * 500_000,
    "tables": "a = " + "{b = " * 100_000,
    "a depth that can be read": "a = " + "[" * 90 + "]" * 90,
    "an integer": "a = 0x" + "f" * 900_000,
    "digits": "a = " + "9" * 900_000,
    "a string without end": 'a = """' + '\\"""' * 250_000,
    "quotes": '"' * 1_000_000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_at_once(name: str) -> None:
    begun = time.process_time()
    with pytest.raises(SettingsError, match=r"^x\.toml: is not valid TOML: "):
        table(BOMBS[name])
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "text",
    [
        'a = "1.2.3' + ".4" * 100 + '"',
        "a = '''" + "x.y." * 100 + "'''",
        "# " + "." * 5000 + "\na = 1",
        "a = [" + "0.1, " * 3000 + "]",
        ".".join("b" * (MAX_DEPTH - 1)) + " = 1",
        'a = """one ""quoted"" word"""\nb = \'\'\'it\'s\'\'\'',
    ],
)
def test_what_only_looks_deep_is_read(text: str) -> None:
    assert table(text) == tomllib.loads(text)


def test_every_file_of_the_repository_is_read() -> None:
    files = [*ROOT.glob("targets/**/*.toml"), *ROOT.glob("examples/**/*.toml"), ROOT / "pyproject.toml"]
    assert len(files) > 30
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert table(text) == tomllib.loads(text)


def test_a_file_is_text_of_a_size_that_people_write() -> None:
    said = {b"\xff\xfea": "is not a UTF-8 text file", b"#" * (MAX_FILE_BYTES + 1): "is larger than 1,048,576 bytes"}
    for blob, what in said.items():
        with pytest.raises(UsageError, match=what):
            toml_text(blob, where="x.toml", fix="repair it", error=UsageError)
    assert toml_text(b"\xef\xbb\xbfa = 1", where="x.toml", fix="", error=UsageError) == "a = 1"


@given(st.text(alphabet=" \n.=[]{},#'\"\\ab1_-:+", max_size=40) | st.text(max_size=40))
def test_any_text_is_a_table_or_refused(text: str) -> None:
    try:
        found = table(text)
    except SettingsError:
        return
    assert found == tomllib.loads(text) or "nan" in text


def test_only_the_first_of_thousands_of_problems_are_reported() -> None:
    for text in ("\n".join(f"k{i} = 1" for i in range(20_000)), "[[source]]\ncovers = [" + "'a'," * 20_000 + "]"):
        assert 10 < len(validate_target(text, where="x.toml")) < 100
