"""The .tflite that a command works on."""

from __future__ import annotations

import hashlib
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from edgetool.errors import InvalidModelError
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.pipeline.files import read_file


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
