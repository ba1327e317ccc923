"""Putting files in their place: staged beside it, on the disk, and then renamed, all of them or none."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from edgetool.errors import OutputError
from edgetool.pipeline import swap
from edgetool.pipeline.directory_lock import held
from edgetool.pipeline.swap import NEW, PREFIX, commit, keep_aside, left_behind, resume, settle, sync


@contextlib.contextmanager
def writing_in(directory: Path) -> Iterator[int | None]:
    """Hold the directory's lock, and first finish or remove what killed runs left there; yields as `held`.

    Where there is no lock nothing is removed: its writers may be at work. Raises OSError and OutputError.
    """
    with held(directory) as lock:
        for staging in () if lock is None else left_behind(directory):
            try:
                settle(staging)
            except OSError as error:
                raise OutputError(
                    f"an interrupted run left files that cannot be moved into place: {error.strerror or error}",
                    where=str(staging),
                    fix="the old files are in 'old', the new ones next to it: copy the ones you need, then delete this "
                    "directory",
                ) from error
        yield lock


def place_new(parent: Path, directory: Path, files: Mapping[str, bytes]) -> None:
    """Make the directory, with the files in it, in its parent, which is held. Raises OSError."""
    _move(_stage(parent, files), NEW, directory)


def place_over(directory: Path, files: Mapping[str, bytes], lock: int | None) -> None:
    """Put the files into the directory, over those of their names; `lock` is what holds it. Raises OSError."""
    if len(files) == 1:
        (name,) = files
        _move(_stage(directory, files), f"{NEW}/{name}", directory / name)
        return
    staging = _stage(directory, files, replacing=True)
    with _signals_deferred():
        _commit_apart(staging, lock)


def _stage(base: Path, files: Mapping[str, bytes], *, replacing: bool = False) -> Path:
    """A temporary directory with the files in its `new`, on the disk, and with what they replace in its `old`."""
    staging = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    try:
        (staging / NEW).mkdir()
        for name, content in files.items():
            with (staging / NEW / name).open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        sync(staging / NEW)
        if replacing:
            keep_aside(staging, files)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return staging


def _move(staging: Path, part: str, place: Path) -> None:
    """Rename a file or directory of the staging directory to its place, in one step, and remove the rest."""
    try:
        (staging / part).replace(place)
        sync(place.parent)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _commit_apart(staging: Path, lock: int | None) -> None:
    """Put the files in place from a process that no signal to this one, or to its group, reaches; where none can be
    started, from this one."""
    if os.name != "posix":
        commit(staging)
        return
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", Path(swap.__file__).resolve(), staging.name],
            cwd=staging.parent,
            pass_fds=() if lock is None else (lock,),  # so that the directory is held until it is done
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:  # no process more, no memory, no descriptor
        commit(staging)
        return
    with process:
        said, _ = process.communicate()
    if process.returncode:
        resume(staging)
    elif said:
        raise OSError(int(said), os.strerror(int(said)))


@contextlib.contextmanager
def _signals_deferred() -> Iterator[None]:
    """Hold Ctrl-C and termination back until the block ends, as far as one thread can: renaming takes milliseconds.

    Where another thread takes a Ctrl-C, Python interrupts this one all the same; the process that renames goes on.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
