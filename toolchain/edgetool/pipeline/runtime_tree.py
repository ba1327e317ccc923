"""Recognize the TFLM and the kernel libraries in a folder, by the contents of the files that our rules cite.

Nothing in the folder is executed, and no link in it is followed. Only files with the names of cited ones are read.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from edgetool.errors import TargetError, UsageError
from edgetool.target.fingerprints import (
    CMSIS_NN,
    KERNEL_LIBRARIES,
    TFLM,
    FileDifference,
    Fingerprints,
    LibraryMatch,
    TreeFile,
    fingerprint,
    is_version_of,
    load_fingerprints,
    match_library,
    upstream_name,
)
from edgetool.target.types import RuntimeTree, Target

# A checkout of TFLM with all its downloads has about 10,000 entries in 1,000 folders, and 5 MB in 700 cited files.
MAX_ENTRIES = 100_000
MAX_FOLDERS = 10_000
MAX_LINKS = 1_000
MAX_FILES = 3_000
MAX_BYTES = 10_000_000
MAX_FILE_BYTES = 2**18
MAX_UNREAD = 5
MAX_SHOWN = 200  # characters of a path that was not read
FIX = "give the folder of TFLM's source code"
# Folders of version control, whose files have no names of their own.
IGNORED_FOLDERS = frozenset([".git", ".hg", ".svn"])


@dataclass(frozen=True, slots=True)
class TreeReport:
    """What a folder contains.

    folder: its name. tflm: the nearest runtime, and the files in which the tree differs from it. kernels: the kernel
    libraries beside or inside TFLM. unread: what was not read, and why, at most MAX_UNREAD lines.
    """

    folder: str
    tflm: LibraryMatch
    kernels: tuple[LibraryMatch, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def nearest(self) -> str:
        """The name of the nearest runtime."""
        return self.tflm.nearest

    @property
    def exact(self) -> bool:
        """Whether the tree's files of TFLM are those of the nearest runtime."""
        return self.tflm.exact

    @property
    def differs(self) -> tuple[FileDifference, ...]:
        """The files of TFLM in which the tree differs from the nearest runtime."""
        return self.tflm.differs


def recognize_tree(folder: Path) -> TreeReport:
    """Return the nearest runtime of a folder that contains TFLM in any layout, and what differs.

    Raises UsageError if the folder cannot be read, is too large or contains no TFLM, or two versions of a library.
    """
    return recognize(folder, load_fingerprints(TFLM), map(load_fingerprints, KERNEL_LIBRARIES))


def recognize(folder: Path, tflm: Fingerprints, kernels: Iterable[Fingerprints]) -> TreeReport:
    """Do the same with given tables."""
    kernels = tuple(kernels)
    names = frozenset(path.rpartition("/")[2] for known in (tflm, *kernels) for path in known.files)
    unread: list[str] = []
    files = _read(folder, sorted(_cited_files(folder, names, unread)), unread)
    try:
        matches = [match_library(known, files) for known in (tflm, *kernels)]
    except TargetError as error:
        raise UsageError(error.what, where=str(folder), fix=error.fix) from None
    if matches[0] is None:
        raise UsageError(
            f"contains no TFLM: of the files in {tflm.library.core}, none is there",
            where=str(folder),
            fix=FIX,
            details=tuple(unread[:MAX_UNREAD]),
        )
    name = _unicode(Path(os.path.realpath(folder)).name)
    return TreeReport(name, matches[0], tuple(match for match in matches[1:] if match is not None), _shortened(unread))


def runtime_tree_of(report: TreeReport, target: Target) -> RuntimeTree:
    """Return in what the tree differs from the target's runtime and kernels; the runtime is the nearest one."""
    differs = [f"{item.file} {_state(item, report.nearest)}" for item in report.differs]
    notes = [f"{version} is as near" for version in report.tflm.ties]
    linked = {match.library: match for match in report.kernels if match.library.kernels == target.kernels}
    for library, match in linked.items():
        if library == CMSIS_NN and not is_version_of(match.nearest, target.runtime.cmsis_nn_commit):
            differs.append(f"{library.name} is {match.nearest}, not {target.runtime.cmsis_nn_commit[:12]}")
        else:
            notes.append(f"{library.name} is {match.nearest}")
        differs += [f"{item.file} of {library.name} {_state(item, match.nearest)}" for item in match.differs]
    if target.kernels == CMSIS_NN.kernels and CMSIS_NN not in linked:
        notes.append(f"{CMSIS_NN.name} is not there, so that {target.runtime.cmsis_nn_commit[:12]} is assumed")
    return RuntimeTree(f"tree:{report.folder}", tuple(differs), (*notes, *report.unread))


def _state(item: FileDifference, nearest: str) -> str:
    if item.kind == "other-version":
        first, *others = item.versions
        return f"is as in {first}" if not others else f"is as in {first} to {others[-1]}"
    return {
        "changed": "is as in no known version",
        "damaged": "is not a readable text file",
        "added": f"is not in {nearest}",
        "missing": "is missing",
    }[item.kind]


def _cited_files(root: Path, names: frozenset[str], unread: list[str]) -> Iterator[str]:
    """Yield the paths of files with cited names; append to unread what cannot be read. Raises UsageError."""
    inside = (resolved := os.path.realpath(root), f"{resolved.removesuffix(os.sep)}{os.sep}")
    folders = [str(root)]
    counts: Counter[str] = Counter()
    while folders:
        folder = folders.pop()
        _count(counts, "folders", MAX_FOLDERS, root)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    _count(counts, "entries", MAX_ENTRIES, root)
                    if entry.is_symlink():
                        _count(counts, "links", MAX_LINKS, root)
                        target = os.path.realpath(entry.path)
                        if target != inside[0] and not target.startswith(inside[1]):
                            unread.append(f"{_shown(entry.path, root)}: not followed, because it leads outside")
                    elif entry.is_dir(follow_symlinks=False):
                        if entry.name not in IGNORED_FOLDERS:
                            folders.append(entry.path)
                    elif upstream_name(entry.name) in names:
                        _count(counts, "files with names of TFLM's", MAX_FILES, root)
                        yield entry.path
        except OSError as error:
            if folder == str(root):
                raise UsageError(f"cannot be read: {error.strerror}", where=folder, fix=FIX) from error
            unread.append(f"{_shown(folder, root)}: {error.strerror}")


def _count(counts: Counter[str], what: str, maximum: int, root: Path) -> None:
    counts[what] += 1
    if counts[what] > maximum:
        raise UsageError(f"has more than {maximum:,} {what}", where=str(root), fix=FIX)


def _read(root: Path, paths: Iterable[str], unread: list[str]) -> list[TreeFile]:
    """Return the files with their fingerprints. Raises UsageError if they are too large together."""
    blobs: dict[str, bytes] = {}
    size_bytes = 0
    for path in paths:
        try:
            blobs[path] = _regular_file(path)
        except OSError as error:
            blobs[path] = b""
            unread.append(f"{_shown(path, root)}: {error.strerror}")
        size_bytes += len(blobs[path])
        if size_bytes > MAX_BYTES:
            raise UsageError(
                f"has more than {MAX_BYTES:,} bytes in files with names of TFLM's", where=str(root), fix=FIX
            )
    return [TreeFile(_unicode(os.path.relpath(path, root)), _fingerprint(blob)) for path, blob in blobs.items()]


def _fingerprint(blob: bytes) -> str | None:
    is_text = blob and len(blob) <= MAX_FILE_BYTES and b"\0" not in blob
    return fingerprint(blob) if is_text else None


def _regular_file(path: str) -> bytes:
    """Return up to one byte more than MAX_FILE_BYTES. Raises OSError, also for what is no regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file")
        return file.read(MAX_FILE_BYTES + 1)


def _shown(path: str, root: Path) -> str:
    shown = _unicode(os.path.relpath(path, root))
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."


def _unicode(name: str) -> str:
    """Return the name of a file in Unicode: bytes in other encodings are escaped."""
    return name.encode(errors="backslashreplace").decode()


def _shortened(unread: list[str]) -> tuple[str, ...]:
    rest = len(unread) - MAX_UNREAD
    return (*unread[:MAX_UNREAD], *((f"and {rest:,} more",) if rest > 0 else ()))
