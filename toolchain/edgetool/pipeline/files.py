"""Reading inputs and writing sets of outputs: all files of a set appear, or none does."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from edgetool.errors import InvalidModelError, OutputError, UsageError

# A .tflite addresses its tables with 32-bit offsets; no valid file is larger.
MAX_INPUT_BYTES = 2**31


def read_file(path: Path, *, what: str = "the model") -> bytes:
    """The file's bytes. Raises UsageError for a path that cannot be read, InvalidModelError for a size no model has."""
    if path.is_dir():
        raise UsageError("is a directory, not a file", where=str(path), fix=f"give the path of {what}")
    _refuse_special(path)
    try:
        if path.stat().st_size >= MAX_INPUT_BYTES:
            raise InvalidModelError(f"is too large for {what}", where=str(path), fix="give another file")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror or error}", where=str(path), fix=f"give the path of {what}"
        ) from error


def check_readable(path: Path) -> None:
    """Raise UsageError unless the file can be opened, or the directory listed."""
    _refuse_special(path)
    try:
        if path.is_dir():
            next(path.iterdir(), None)
        else:
            path.open("rb").close()
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror or error}", where=str(path), fix="give the path of a readable file"
        ) from error


def _refuse_special(path: Path) -> None:
    """Pipes and devices may block for ever or never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UsageError("is a pipe or a device, not a file", where=str(path), fix="give a regular file")


def write_files(
    directory: Path,
    files: Mapping[str, bytes],
    *,
    force: bool = False,
    inputs: tuple[Path, ...] = (),
    option: str = "--output",
) -> tuple[Path, ...]:
    """Write the files into the directory, made if need be; their paths.

    They are written to a temporary directory beside their place and renamed, so an error or a signal leaves
    either the old files or the new ones. Raises OutputError when a file exists (unless force), would
    replace one of `inputs`, or cannot be written; `option` is what chooses another place.
    """
    for name in files:
        _refuse_collision(directory / name, force=force, inputs=inputs, option=option)
    existing = directory if directory.exists() else None
    try:
        base = existing or directory.resolve().parent
        base.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".edgetool-", dir=base))
    except OSError as error:
        raise _unwritable(directory, error, option) from error
    try:
        new = staging / "new"
        new.mkdir()
        for name, content in files.items():
            _write_through(new / name, content)
        with _signals_deferred():
            if existing is None:
                new.rename(directory)
            else:
                _swap_in(new, directory, list(files), staging / "old")
    except OSError as error:
        raise _unwritable(directory, error, option) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return tuple(directory / name for name in files)


def write_file(
    path: Path,
    content: bytes,
    *,
    force: bool = False,
    inputs: tuple[Path, ...] = (),
    option: str = "--output",
) -> Path:
    """Write one file by the same rules."""
    directory = path.parent
    if not directory.is_dir():
        raise OutputError("the directory does not exist", where=str(directory), fix="create it, or choose another")
    return write_files(directory, {path.name: content}, force=force, inputs=inputs, option=option)[0]


def check_writable(
    directory: Path, names: tuple[str, ...], *, force: bool, inputs: tuple[Path, ...], option: str = "--output"
) -> None:
    """Raise the OutputError that write_files would raise for these names, before any long work is done."""
    for name in names:
        _refuse_collision(directory / name, force=force, inputs=inputs, option=option)
    nearest = directory.resolve()
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        raise OutputError("is not a directory", where=str(nearest), fix=f"choose another {option}")
    try:
        Path(tempfile.mkdtemp(prefix=".edgetool-", dir=nearest)).rmdir()
    except OSError as error:
        raise _unwritable(directory, error, option) from error


def _refuse_collision(path: Path, *, force: bool, inputs: tuple[Path, ...], option: str) -> None:
    if not os.path.lexists(path):
        return
    for source in inputs:
        with contextlib.suppress(OSError):
            if path.samefile(source):
                raise OutputError("would replace the input", where=str(path), fix=f"choose another {option}")
    if path.is_dir() and not path.is_symlink():
        raise OutputError("is a directory", where=str(path), fix=f"choose another {option}")
    if path.exists() and not path.is_file():  # root may rename over a device, which then is none any more
        raise OutputError("is a pipe or a device, not a file", where=str(path), fix=f"choose another {option}")
    if not force:
        raise OutputError("exists already", where=str(path), fix=f"use --force to replace it, or another {option}")


def _write_through(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _keep_aside(path: Path, copy: Path) -> None:
    try:
        os.link(path, copy, follow_symlinks=False)
    except OSError:  # a file system without hard links
        shutil.copy2(path, copy, follow_symlinks=False)


def _swap_in(new: Path, directory: Path, names: list[str], old: Path) -> None:
    """Rename every new file into place, keeping the old ones aside; put those back if one rename fails."""
    old.mkdir()
    done: list[str] = []
    try:
        for name in names:
            if os.path.lexists(directory / name):
                _keep_aside(directory / name, old / name)
            (new / name).replace(directory / name)
            done.append(name)
    except OSError:
        for name in done:
            with contextlib.suppress(OSError):
                if os.path.lexists(old / name):
                    (old / name).replace(directory / name)
                else:
                    (directory / name).unlink()
        raise


@contextlib.contextmanager
def _signals_deferred() -> Iterator[None]:
    """Hold Ctrl-C and termination back until the block ends: renaming takes milliseconds."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    held = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _unwritable(directory: Path, error: OSError, option: str) -> OutputError:
    return OutputError(
        f"cannot be written: {error.strerror or error}", where=str(directory), fix=f"choose another {option}"
    )
