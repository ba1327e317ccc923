"""The user's file that describes custom operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgetool.errors import UsageError
from edgetool.operators.described import describe_operators
from edgetool.operators.types import OperatorEntry
from edgetool.pipeline.files import read_file
from edgetool.target.profile import problems_as_error
from edgetool.target.toml_text import toml_table, toml_text

MAX_FILE_BYTES = 2**16  # some hundred operators
EXAMPLE = 'begin with [[operator]] and name = "MyOp"'


def read_custom_operators(path: Path | None) -> dict[str, OperatorEntry]:
    """The operators that the file describes, by custom code; none without a file. The form: operators.described.

    Raises UsageError naming file and key; its details hold the further problems.
    """
    if path is None:
        return {}
    entries, problems = describe_operators(_document(path))
    if problems:
        raise problems_as_error(problems, str(path), UsageError)
    return entries


def file_name(path: Path | None) -> str | None:
    """The file as a report's options name it: without its directory, so that reports are the same anywhere."""
    return path.name if path is not None else None


def _document(path: Path) -> dict[str, Any]:
    where = str(path)
    blob = read_file(path, what="a TOML file with custom operators", most_bytes=MAX_FILE_BYTES)
    text = toml_text(blob, where=where, fix=EXAMPLE, error=UsageError)
    return toml_table(text, where=where, fix=EXAMPLE, error=UsageError)
