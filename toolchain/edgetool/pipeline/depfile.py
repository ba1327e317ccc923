"""The dependency file of a build system: which files were read to make which, as a rule of make."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from edgetool.errors import OutputError
from edgetool.pipeline.files import write_file


def write_depfile(path: Path, written: Sequence[Path], read: Iterable[Path | None]) -> None:
    """Write the rule that the files were made from those read; a directory stands for all files in it.

    Raises OutputError where it cannot be written, is one of the files, or a name cannot stand in a rule.
    """
    if any(_same(path, file) for file in written):
        raise OutputError(
            "would overwrite a file that was just written", where=str(path), fix="choose another --depfile"
        )
    sources = [item for item in read if item is not None]
    inputs = dict.fromkeys(file for source in sources for file in _files(source))
    text = f"{' '.join(_quoted(file) for file in written)}:"
    text += "".join(f" \\\n  {_quoted(file)}" for file in inputs) + "\n"
    write_file(path, text.encode("utf-8", "surrogateescape"), force=True, inputs=tuple(inputs))


def _same(path: Path, file: Path) -> bool:
    return path.exists() and path.samefile(file)


def _files(path: Path) -> list[Path]:
    """The file, or every file below the directory, and the directory itself: a new file changes its date."""
    if not path.is_dir():
        return [path]
    return [path, *sorted(item for item in path.rglob("*") if item.is_file())]


def _quoted(path: Path) -> str:
    """The absolute path as make and ninja read it. What follows ; or != make would run as a command."""
    text = os.path.abspath(path)
    if any(mark in text for mark in ("\n", "\r", "\t", "\\", ";", "|", "!=")):
        raise OutputError(
            "a path with a line break, a tab or one of \\ ; | != cannot be used in a dependency file",
            where=repr(text),
            fix="choose another path",
        )
    return text.replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ")
