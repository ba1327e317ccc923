"""Kills writers at every single step on files that they take, and looks at what they leave; run as a program.

A step is what Python tells an audit hook before it does it: opening, making, linking, renaming, listing or removing a
file, or starting a process. A writer is killed before its first step, then another before its second, and so on until
one comes to its end, so each state of the disk that a kill can leave between two steps is seen.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from edgetool.errors import OutputError
from edgetool.pipeline import swap
from edgetool.pipeline.output import directory_lock, write_file, write_files

OLD = {"a.h": b"old a", "c.json": b"old c"}
NEW = {"a.h": b"new a", "b.c": b"new b", "c.json": b"new c"}
MINE = {"mine.txt": b"mine"}
STEPS = ("open", "os.", "shutil.", "subprocess.", "tempfile.")
Contents = dict[str, bytes]


def died(work: Callable[[], None], step: int) -> bool:
    """Do the work in a process of its own that is killed before that step; False when it ends before."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, f"the work failed at step {step}"
        return os.WIFSIGNALED(status)
    left = step

    def count(event: str, _: object) -> None:
        nonlocal left
        if event.startswith(STEPS):
            left -= 1
            if left == 0:
                kill_group()

    os.setsid()
    sys.addaudithook(count)
    try:
        work()
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        os._exit(1)
    os._exit(0)


def kill_group() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)


def filled(directory: Path, contents: Contents) -> Path:
    directory.mkdir(exist_ok=True)
    for name, content in contents.items():
        (directory / name).write_bytes(content)
    return directory


def contents(directory: Path) -> Contents:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def staged(directory: Path) -> Path:
    """A staging directory as write_files hands it over."""
    staging = Path(tempfile.mkdtemp(prefix=swap.PREFIX, dir=directory))
    filled(staging / swap.NEW, NEW)
    swap.back_up(staging, NEW)
    return staging


def whole(directory: Path, *possible: Contents) -> str:
    """Whether the old or the new files are there once the next run has written, and nothing else is."""
    write_file(directory / "next", b"")
    found = contents(directory)
    del found["next"]
    assert found in ({**MINE, **each} for each in possible), found
    assert not list(directory.glob(".*")), sorted(directory.rglob("*"))
    return "new" if found == {**MINE, **NEW} else "old"


def kill_writers(folder: Path) -> list[str]:
    """A writer over old files, killed: the process that it started, if it did, goes on."""
    states = []
    for step in range(1, 999):
        directory = filled(folder / str(step), {**MINE, **OLD})
        ended = not died(lambda directory=directory: write_files(directory, NEW, force=True), step)  # type: ignore[misc]
        with directory_lock(directory):  # whoever has been at work has ended
            found = contents(directory)
            assert found in ({**MINE, **OLD}, {**MINE, **NEW}), found
        states.append(whole(directory, OLD, NEW))
        if ended:
            return states
    raise AssertionError("there is no end")


def kill_waiting(folder: Path) -> list[str]:
    """A writer that is killed, with its group, as soon as the process that renames has started."""

    def write(directory: Path) -> None:
        subprocess.Popen.communicate = lambda *_: kill_group()  # type: ignore[method-assign,assignment]
        write_files(directory, NEW, force=True)

    directory = filled(folder / "out", {**MINE, **OLD})
    assert died(lambda: write(directory), 999)
    return [whole(directory, NEW)]


def kill_new(folder: Path) -> list[str]:
    """A writer of a directory that is not there, killed."""
    states = []
    for step in range(1, 999):
        parent = filled(folder / str(step), MINE)
        ended = not died(lambda parent=parent: write_files(parent / "out", NEW), step)  # type: ignore[misc]
        assert not (parent / "out").exists() or contents(parent / "out") == NEW
        states.append("new" if (parent / "out").exists() else "old")
        write_files(parent / "another", NEW)
        assert not list(parent.glob(".*")), sorted(parent.rglob("*"))
        assert contents(parent) == MINE
        if ended:
            return states
    raise AssertionError("there is no end")


def kill_committers(folder: Path) -> list[str]:
    """Even the process that renames is killed, and then the next run that settles what it left, at every tenth step."""
    states = []
    for step in range(1, 999):
        directory = filled(folder / str(step), {**MINE, **OLD})
        staging = staged(directory)
        ended = not died(lambda staging=staging: swap.commit(staging), step)  # type: ignore[misc]
        if staging.exists():
            died(lambda directory=directory: write_file(directory / "next", b"", force=True), 7 + 10 * (step % 5))  # type: ignore[misc]
            (directory / "next").unlink(missing_ok=True)
        states.append(whole(directory, OLD, NEW))
        if ended:
            return states
    raise AssertionError("there is no end")


def kill_while_taking_back(folder: Path) -> list[str]:
    """A rename fails, and the process is killed at any step on its way back."""
    states = []
    rename = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if self.parent.name == swap.READY and self.name == "c.json":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(self, target)

    def commit(staging: Path) -> None:
        Path.replace = failing  # type: ignore[method-assign]
        try:
            swap.commit(staging)
        except OSError:
            return
        raise AssertionError("it did not fail")

    for step in range(1, 999):
        directory = filled(folder / str(step), {**MINE, **OLD})
        staging = staged(directory)
        ended = not died(lambda staging=staging: commit(staging), step)  # type: ignore[misc]
        states.append(whole(directory, OLD, NEW))
        if ended:
            return states
    raise AssertionError("there is no end")


if __name__ == "__main__":
    for kind in (kill_writers, kill_waiting, kill_new, kill_committers, kill_while_taking_back):
        place = Path(sys.argv[1]) / kind.__name__
        place.mkdir()
        try:
            print(kind.__name__, *kind(place))
        except OutputError as reported:
            sys.exit(f"{kind.__name__}: {reported}")
