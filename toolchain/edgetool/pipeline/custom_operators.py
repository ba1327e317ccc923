"""The user's file that describes custom operators."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from edgetool.errors import UsageError
from edgetool.operators.described import describe_operators
from edgetool.operators.types import OperatorEntry
from edgetool.pipeline.files import read_file
from edgetool.target.profile import problems_as_error

MAX_FILE_BYTES = 2**16  # some hundred operators
# The time and memory that Python's TOML reader takes for a dotted key grow with the square of its length.
MAX_LINE_BYTES = 1000
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
    if path.is_file() and path.stat().st_size > MAX_FILE_BYTES:
        raise UsageError(f"is larger than {MAX_FILE_BYTES:,} bytes", where=where, fix="describe fewer operators")
    raw = read_file(path, what="a TOML file with custom operators")
    if any(len(line) > MAX_LINE_BYTES for line in raw.splitlines()):
        raise UsageError(f"has a line of more than {MAX_LINE_BYTES:,} bytes", where=where, fix="break the list up")
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError("is not a UTF-8 text file", where=where, fix=EXAMPLE) from error
    except ValueError as error:
        raise UsageError(f"is not TOML: {str(error).splitlines()[0][:200]}", where=where, fix=EXAMPLE) from None
    except RecursionError:
        raise UsageError("is not TOML: nested too deeply", where=where, fix=EXAMPLE) from None
