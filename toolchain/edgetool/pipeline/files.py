"""Reading inputs and writing sets of outputs: all files of a set appear, or none does."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

from edgetool.errors import InvalidModelError, OutputError, UsageError
from edgetool.pipeline.placing import place_new, place_over, writing_in
from edgetool.pipeline.swap import PREFIX

# A .tflite addresses its tables with 32-bit offsets; no valid file is larger.
MAX_INPUT_BYTES = 2**31


def read_file(path: Path, *, what: str = "the model", most_bytes: int = MAX_INPUT_BYTES) -> bytes:
    """The file's bytes.

    Raises UsageError for a path that cannot be read and for more than most_bytes, InvalidModelError for a size that no
    model has.
    """
    if path.is_dir():
        raise UsageError("is a directory, not a file", where=str(path), fix=f"specify the path of {what}")
    _refuse_special(path)
    try:
        with path.open("rb") as stream:
            size_bytes = os.fstat(stream.fileno()).st_size
            if size_bytes >= MAX_INPUT_BYTES:
                raise InvalidModelError(f"is too large for {what}", where=str(path), fix="specify another file")
            if size_bytes > most_bytes:
                raise UsageError(
                    f"is larger than {most_bytes:,} bytes, too large for {what}", where=str(path), fix="specify another"
                )
            content = stream.read(size_bytes + 1)
    except (OSError, ValueError) as error:  # the latter for a name that no file can have
        raise _unreadable(path, error, what) from error
    if len(content) != size_bytes:  # what the kernel makes up as it is read may have no end
        raise UsageError("has no size, or changed while being read", where=str(path), fix="specify a copy of it")
    return content


def check_readable(path: Path) -> None:
    """Raise UsageError unless the file can be opened, or the directory listed."""
    _refuse_special(path)
    try:
        if path.is_dir():
            next(path.iterdir(), None)
        else:
            path.open("rb").close()
    except (OSError, ValueError) as error:
        raise _unreadable(path, error, "a readable file") from error


def _unreadable(path: Path, error: OSError | ValueError, what: str) -> UsageError:
    said = f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else "is not a path"
    return UsageError(said, where=str(path), fix=f"specify the path of {what}")


def _refuse_special(path: Path) -> None:
    """Pipes and devices may block for ever or never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UsageError("is a pipe or a device, not a file", where=str(path), fix="specify a regular file")


def write_files(
    directory: Path,
    files: Mapping[str, bytes],
    *,
    force: bool = False,
    inputs: tuple[Path, ...] = (),
    option: str = "--output",
    alone: bool = False,
) -> tuple[Path, ...]:
    """Write the files into the directory, made if need be; their paths.

    They are written to a temporary directory beside their place and renamed: an error leaves the old files, a signal or
    SIGKILL at any moment the old ones or the new ones. One run at a time writes into a directory, and what a killed one
    left there is settled first. A directory that is a link is followed, a file that is one is replaced. Raises
    OutputError when a file exists (unless force), would replace one of `inputs`, or cannot be written; `option` is what
    chooses another place. alone: the caller is `writing_in` the directory.
    """
    try:
        if not directory.exists():
            parent = _parent_of_new(directory, option)
            parent.mkdir(parents=True, exist_ok=True)
            with writing_in(parent):
                if not directory.exists():
                    place_new(parent, directory, files)
                    return tuple(directory / name for name in files)
        with nullcontext() if alone else writing_in(directory) as lock:
            for name in files:
                _refuse_collision(directory / name, force=force, inputs=inputs, option=option)
            place_over(directory, files, lock)
    except OSError as error:
        raise _unwritable(directory, error, option) from error
    return tuple(directory / name for name in files)


def write_file(
    path: Path,
    content: bytes,
    *,
    force: bool = False,
    inputs: tuple[Path, ...] = (),
    option: str = "--output",
    alone: bool = False,
) -> Path:
    """Write one file by the same rules."""
    directory = path.parent
    if not directory.is_dir():
        raise OutputError(
            "the directory does not exist", where=str(directory), fix="create it, or choose another directory"
        )
    return write_files(directory, {path.name: content}, force=force, inputs=inputs, option=option, alone=alone)[0]


def check_writable(
    directory: Path, names: tuple[str, ...], *, force: bool, inputs: tuple[Path, ...], option: str = "--output"
) -> None:
    """Raise the OutputError that write_files would raise for these names, before any long work is done."""
    for name in names:
        _refuse_collision(directory / name, force=force, inputs=inputs, option=option)
    try:
        nearest = directory if directory.exists() else _parent_of_new(directory, option)
        while not nearest.exists():
            nearest = nearest.parent
        if not nearest.is_dir():
            raise OutputError("is not a directory", where=str(nearest), fix=f"choose another {option}")
        probe = Path(tempfile.mkdtemp(prefix=PREFIX, dir=nearest))
        with contextlib.suppress(FileNotFoundError):  # a run that writes there took it for what a killed one left
            probe.rmdir()
    except OSError as error:
        raise _unwritable(directory, error, option) from error


def _parent_of_new(directory: Path, option: str) -> Path:
    if directory.is_symlink():
        raise OutputError("is a dangling link", where=str(directory), fix=f"remove it, or choose another {option}")
    return directory.resolve().parent


def _refuse_collision(path: Path, *, force: bool, inputs: tuple[Path, ...], option: str) -> None:
    if not os.path.lexists(path):
        return
    for source in inputs:
        with contextlib.suppress(OSError):
            if path.samefile(source):
                raise OutputError("would overwrite the input", where=str(path), fix=f"choose another {option}")
    if path.is_dir() and not path.is_symlink():
        raise OutputError("is a directory", where=str(path), fix=f"choose another {option}")
    if path.exists() and not path.is_file():  # root may rename over a device, which then is none any more
        raise OutputError("is a pipe or a device, not a file", where=str(path), fix=f"choose another {option}")
    if not force:
        raise OutputError(
            "already exists", where=str(path), fix=f"use --force to replace it, or choose another {option}"
        )


def _unwritable(directory: Path, error: OSError, option: str) -> OutputError:
    return OutputError(
        f"cannot be written: {error.strerror or error}", where=str(directory), fix=f"choose another {option}"
    )
