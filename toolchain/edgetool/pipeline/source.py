"""Read the inputs of a command: a .tflite, and the user's description of custom operators."""

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
    """A model read from a file: the file's name without directories, its bytes, and the parsed model."""

    name: str
    blob: bytes
    model: Model

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the bytes, in hex."""
        return sha256_of(self.blob)


def absolute_path(path: Path) -> Path:
    """Return the absolute path without resolving links: a link may lead to a file that is named by its hash."""
    return Path(os.path.abspath(path))


def sha256_of(blob: bytes) -> str:
    """Return the SHA-256 of the bytes, in hex."""
    return hashlib.sha256(blob).hexdigest()


def refuse_saved_model(path: Path) -> None:
    """Raise InvalidModelError if the path is the directory of a SavedModel, which must be converted first."""
    if (path / "saved_model.pb").is_file():
        raise InvalidModelError(
            "this is a SavedModel directory, not a .tflite model",
            where=str(path),
            fix=f"convert it first: edgetool convert {shlex.quote(str(path))} --target NAME",
        )


def open_tflite(path: Path) -> Source:
    """Read and check a .tflite.

    Raises:
        UsageError: The file cannot be read.
        ModelError: The content is not a valid model.
    """
    refuse_saved_model(path)
    blob = read_file(path)
    return Source(path.name, blob, read_model(blob, name=str(path)))


MAX_FILE_BYTES = 2**16  # enough for several hundred operators
EXAMPLE = 'begin with [[operator]] and name = "MyOp"'


def read_custom_operators(path: Path | None) -> dict[str, OperatorEntry]:
    """Return the operators that the file describes, by custom code; none without a file.

    operators.described documents the format. Raises UsageError, which names the file and the key; its details list
    further problems.
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
    """Return the file's name without its directory, so that the options of a report do not depend on the directory."""
    return path.name if path is not None else None


def _document(path: Path) -> dict[str, Any]:
    from edgetool.target.toml import toml_table, toml_text

    where = str(path)
    blob = read_file(path, what="a TOML file with custom operators", max_bytes=MAX_FILE_BYTES)
    text = toml_text(blob, where=where, fix=EXAMPLE, error=UsageError)
    return toml_table(text, where=where, fix=EXAMPLE, error=UsageError)
