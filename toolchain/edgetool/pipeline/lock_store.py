"""edgetool.lock on disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgetool.errors import OutputError, UsageError
from edgetool.gate.lock_file import ANEW, MOST_CHARACTERS, Entry, Lock, lock_text, parse_lock
from edgetool.pipeline.files import read_file, write_file
from edgetool.pipeline.placing import writing_in


@dataclass(frozen=True, slots=True)
class LockStore:
    """The file, its text and what it says; both None where there is none."""

    path: Path
    text: str | None
    lock: Lock | None

    def name_of(self, model: Path) -> str:
        """A model's path relative to the lock's folder, with slashes. Raises UsageError on another drive."""
        try:
            return Path(os.path.relpath(model, self.path.parent)).as_posix()
        except ValueError:
            raise UsageError(
                "is on a different drive from the lock file", where=str(model), fix="choose another --lock"
            ) from None


def read_lock(path: Path) -> LockStore:
    """The lock file, if there is one. Raises UsageError naming the line or key of what is no lock."""
    try:
        path.stat()
    except FileNotFoundError:
        return LockStore(path, None, None)
    except (OSError, ValueError):  # a link to itself, say: no missing lock, which a gate would pass
        pass
    blob = read_file(path, what="a lock file", most_bytes=MOST_CHARACTERS)
    try:
        text = blob.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError("is not a UTF-8 text file", where=str(path), fix=ANEW) from None
    return LockStore(path, text, parse_lock(text, where=str(path)))


def write_lock(
    store: LockStore, entries: Mapping[str, Mapping[str, Entry]], *, inputs: tuple[Path, ...]
) -> tuple[bool, tuple[str, ...]]:
    """Put the entries into the file, and keep all others, those that another program has written meanwhile too.

    Whether it was written, as a file that would stay the same is not, and what is to be said of entries whose model is
    gone. A link stays one. Raises OutputError where it cannot be written.
    """
    path = Path(os.path.realpath(store.path))
    try:
        with writing_in(path.parent):
            newest = read_lock(path)
            merged = {name: dict(targets) for name, targets in (newest.lock or {}).items()}
            for name, targets in entries.items():
                merged.setdefault(name, {}).update(targets)
            text = lock_text(merged)
            if text != newest.text:
                write_file(path, text.encode("ascii"), force=True, inputs=inputs, alone=True)
    except OutputError as error:
        raise OutputError(error.what, where=str(store.path), fix="choose another --lock") from error
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        raise OutputError(what, where=str(store.path), fix="choose another --lock") from error
    gone = [name for name in sorted(merged) if name not in entries and not (store.path.parent / name).exists()]
    return text != newest.text, tuple(
        f"{store.path} still lists {name}, which does not exist: to remove it, delete the lock file and recreate it "
        "for all models"
        for name in gone
    )
