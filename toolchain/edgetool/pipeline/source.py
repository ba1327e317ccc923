"""The .tflite that a command works on.

The user's file that describes custom operators.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetool.errors import InvalidModelError, UsageError, problems_as_error
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.operators.entry import OperatorEntry
from edgetool.pipeline.output import read_file


@dataclass(frozen=True, slots=True)
class Source:
    """A model read from a file: its name (the file's, without directories), its bytes and what they mean."""

    name: str
    blob: bytes
    model: Model

    @property
    def sha256(self) -> str:
        """The hash of the bytes, in hex."""
        return sha256_of(self.blob)


def own_path(path: Path) -> Path:
    """The absolute path, its links not resolved: a link may lead to a file that is named by its hash."""
    return Path(os.path.abspath(path))


def sha256_of(blob: bytes) -> str:
    """The SHA-256 of the bytes, in hex."""
    return hashlib.sha256(blob).hexdigest()


def refuse_saved_model(path: Path) -> None:
    """Raise InvalidModelError for the directory of a SavedModel, which must be converted first."""
    if (path / "saved_model.pb").is_file():
        raise InvalidModelError(
            "this is a SavedModel directory, not a .tflite model",
            where=str(path),
            fix=f"convert it first: edgetool convert {shlex.quote(str(path))} --target NAME",
        )


def open_tflite(path: Path) -> Source:
    """Read and check a .tflite. Raises UsageError (path) and ModelError (contents)."""
    refuse_saved_model(path)
    blob = read_file(path)
    return Source(path.name, blob, read_model(blob, name=str(path)))


MAX_FILE_BYTES = 2**16  # some hundred operators
EXAMPLE = 'begin with [[operator]] and name = "MyOp"'


def read_custom_operators(path: Path | None) -> dict[str, OperatorEntry]:
    """The operators that the file describes, by custom code; none without a file. The form: operators.described.

    Raises UsageError naming file and key; its details hold the further problems.
    """
    if path is None:
        return {}
    # Imported on use: few users describe operators.
    from edgetool.operators.described import describe_operators

    entries, problems = describe_operators(_document(path))
    if problems:
        raise problems_as_error(problems, str(path))
    return entries


def file_name(path: Path | None) -> str | None:
    """The file as a report's options name it: without its directory, so that reports are the same anywhere."""
    return path.name if path is not None else None


def _document(path: Path) -> dict[str, Any]:
    from edgetool.target.toml import toml_table, toml_text

    where = str(path)
    blob = read_file(path, what="a TOML file with custom operators", most_bytes=MAX_FILE_BYTES)
    text = toml_text(blob, where=where, fix=EXAMPLE, error=UsageError)
    return toml_table(text, where=where, fix=EXAMPLE, error=UsageError)
