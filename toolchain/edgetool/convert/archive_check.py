"""Refuses zip archives whose entries lead out of them, hide one another or claim more than they hold."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath

from edgetool.convert.hdf5_check import AGAIN, EXPANDING_BYTES, MOST_EXPANSION, TOTAL_LIMIT_BYTES
from edgetool.errors import UnsupportedModelError

METHODS = frozenset([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
ENCRYPTED = 1  # in the flags of an entry


def leads_out(name: str) -> bool:
    """Whether the name of an inner file leads out of the folder it belongs to, on any system."""
    windows = PureWindowsPath(name)
    return ".." in windows.parts or bool(windows.drive or windows.root) or PurePosixPath(name).is_absolute()


def check_entries(entries: Sequence[zipfile.ZipInfo], path: Path) -> None:
    """Raise UnsupportedModelError naming the first entry of an archive that is not to be trusted.

    What zipfile reads of an entry never exceeds the size that the entry claims, whatever entries share, and it makes a
    file of a symbolic link.
    """
    seen: set[str] = set()
    for entry in entries:
        reason = _reason(entry, seen)
        if reason is not None:
            raise UnsupportedModelError(f"entry {entry.filename!r} {reason}", where=str(path), fix=AGAIN)
        seen.add(entry.filename)
    claimed_bytes = sum(entry.file_size for entry in entries)
    if claimed_bytes > TOTAL_LIMIT_BYTES:
        raise UnsupportedModelError(
            f"its files declare a total of {claimed_bytes} bytes, more than any convertible model can have",
            where=str(path),
        )


def _reason(entry: zipfile.ZipInfo, seen: set[str]) -> str | None:
    """What is wrong with an entry, after the names before it."""
    if leads_out(entry.filename) or "\\" in entry.filename:
        return "points outside the archive"
    if entry.filename in seen:
        return "occurs twice"
    if entry.flag_bits & ENCRYPTED:
        return "is encrypted"
    if entry.compress_type not in METHODS:
        return "uses a compression method that Keras does not use"
    if entry.file_size > max(EXPANDING_BYTES, MOST_EXPANSION * entry.compress_size):
        return f"declares {entry.file_size} bytes but occupies only {entry.compress_size}"
    return None
