"""Reading inputs and writing sets of outputs: all files of a set appear, or none does.

A set is staged beside its place, on the disk, and then renamed. One run at a time writes into a directory: it holds a
lock that the system takes back when its last holder ends, however it ends. `write_depfile` tells a build system, as a
rule of make, which files were read to make which.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from edgetool.errors import InvalidModelError, OutputError, UsageError
from edgetool.pipeline import swap
from edgetool.pipeline.swap import NEW, PREFIX, commit, keep_aside, left_behind, resume, settle, sync

try:
    import fcntl
except ImportError:  # a system without it
    fcntl = None  # type: ignore[assignment]

WAIT_SECONDS = 60.0
PAUSE_SECONDS = 0.02
# What file systems answer that know no locks, or none of directories: NFS, FUSE, network shares.
NO_LOCKS = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


@contextlib.contextmanager
def held(directory: Path) -> Iterator[int | None]:
    """Hold the directory until the block ends, so that no other run of edgetool writes there meanwhile.

    The directory itself is locked, so no file is left behind. Yields the descriptor, by which a child keeps the lock
    when this process is killed; None where the system or the file system knows no such locks. Raises OSError where the
    directory cannot be opened, OutputError where another holds it for longer than WAIT_SECONDS.
    """
    if fcntl is None:
        yield None
        return
    latest = time.monotonic() + WAIT_SECONDS
    while True:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            locks = _lock(descriptor, directory, latest)
            if _is_still(descriptor, directory):
                yield descriptor if locks else None
                return
        finally:
            os.close(descriptor)


def _lock(descriptor: int, directory: Path, latest: float) -> bool:
    """Wait for the lock; False where the file system has none."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > latest:
                raise OutputError(
                    f"another process has been writing to this directory for {WAIT_SECONDS:g} s",
                    where=str(directory),
                    fix="terminate it, or choose another directory",
                ) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            return False
        time.sleep(PAUSE_SECONDS)


def _is_still(descriptor: int, directory: Path) -> bool:
    """Whether the path leads to what is locked: it may have been replaced while we waited."""
    try:
        return os.path.samestat(os.fstat(descriptor), directory.stat())
    except FileNotFoundError:
        return False


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
    import tempfile  # imported on use, as subprocess is: most commands write no files

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
    import subprocess

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
    import tempfile

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
