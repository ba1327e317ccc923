"""A TOML file of the user's as text and as a table, whatever it turns out to be."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from edgetool.errors import SettingsError
from edgetool.pipeline.files import read_file

MAX_FILE_BYTES = 2**20
# The time and memory that Python's TOML reader takes for a dotted key grow with the square of its length.
MAX_LINE_BYTES = 8000


def read_toml_text(path: Path, *, what: str) -> str:
    """The file's text. what: "a sweep.toml", for messages. Raises UsageError for what is not a text file."""
    if path.is_file() and path.stat().st_size > MAX_FILE_BYTES:
        raise SettingsError(f"is larger than {MAX_FILE_BYTES:,} bytes", where=str(path), fix=f"give {what}")
    raw = read_file(path, what=what)
    try:
        text = raw.decode("utf-8-sig")  # some editors mark their files
    except UnicodeDecodeError:
        raise SettingsError("is not a UTF-8 text file", where=str(path), fix=f"give {what}") from None
    if any(len(line) > MAX_LINE_BYTES for line in raw.splitlines()):
        raise SettingsError(
            f"has a line of more than {MAX_LINE_BYTES:,} bytes", where=str(path), fix="break the list up"
        )
    return text


def read_toml(path: Path, *, what: str) -> dict[str, Any]:
    """The file's table. Raises UsageError; a syntax error names line and column."""
    text = read_toml_text(path, what=what)
    try:
        return tomllib.loads(text)
    except ValueError as error:
        reason = str(error).splitlines()[0][:200]
        raise SettingsError(f"is not TOML: {reason}", where=str(path), fix="see docs/sweep.md") from None
    except RecursionError:
        raise SettingsError("is not TOML: nested too deeply", where=str(path), fix="see docs/sweep.md") from None
