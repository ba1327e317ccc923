"""A TOML file of the user's as text and as a table, whatever it turns out to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgetool.errors import SettingsError
from edgetool.pipeline.files import read_file
from edgetool.target.toml_text import MAX_FILE_BYTES, toml_table, toml_text


def read_toml_text(path: Path, *, what: str) -> str:
    """The file's text. what: "a sweep.toml", for messages. Raises UsageError for what is not a text file."""
    blob = read_file(path, what=what, most_bytes=MAX_FILE_BYTES)
    return toml_text(blob, where=str(path), fix=f"specify {what}", error=SettingsError)


def read_toml(path: Path, *, what: str) -> dict[str, Any]:
    """The file's table. Raises UsageError; a syntax error names line and column."""
    text = read_toml_text(path, what=what)
    return toml_table(text, where=str(path), fix="see docs/sweep.md", error=SettingsError)
