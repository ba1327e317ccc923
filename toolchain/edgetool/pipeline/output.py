"""Read input files, and write sets of output files so that either all files of a set appear or none.

A set is first written to a staging directory on the same file system and then renamed. Only one run at a time writes
into a directory: it holds a lock, which the system releases when its last holder ends, even if it is killed.
`write_depfile` writes a make rule from which a build system learns which files were read to produce which others.
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
from edgetool.pipeline.swap import NEW, PREFIX, abandoned_stagings, back_up, commit, resume, settle, sync

try:
    import fcntl
except ImportError:  # for example on Windows
    fcntl = None  # type: ignore[assignment]

WAIT_SECONDS = 60.0
POLL_SECONDS = 0.02
# Errors of file systems without locks, or without locks of directories: NFS, FUSE, network shares.
NO_LOCK_ERRORS = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


@contextlib.contextmanager
def directory_lock(directory: Path) -> Iterator[int | None]:
    """Lock the directory until the block ends, so that no other run of edgetool writes there at the same time.

    The directory itself is locked, so no lock file remains.

    Yields:
        The descriptor of the lock, which a child process can inherit to keep the lock if this process is killed; None
        if the system or the file system does not support locks of directories.

    Raises:
        OSError: The directory cannot be opened.
        OutputError: Another process holds the lock for longer than WAIT_SECONDS.
    """
    if fcntl is None:
        yield None
        return
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            is_locked = _lock(descriptor, directory, deadline)
            if _is_same_directory(descriptor, directory):
                yield descriptor if is_locked else None
                return
        finally:
            os.close(descriptor)


def _lock(descriptor: int, directory: Path, deadline: float) -> bool:
    """Wait for the lock; return False if the file system does not support it."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OutputError(
                    f"another process has been writing to this directory for {WAIT_SECONDS:g} s",
                    where=str(directory),
                    fix="terminate it, or choose another directory",
                ) from None
        except OSError as error:
            if error.errno not in NO_LOCK_ERRORS:
                raise
            return False
        time.sleep(POLL_SECONDS)


def _is_same_directory(descriptor: int, directory: Path) -> bool:
    """Return whether the path still leads to the locked directory, which may have been replaced during the wait."""
    try:
        return os.path.samestat(os.fstat(descriptor), directory.stat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def writing_in(directory: Path) -> Iterator[int | None]:
    """Lock the directory as `directory_lock` does, and first complete or roll back what killed runs left there.

    Without a lock, nothing is touched, because other runs may still be writing. Raises OSError and OutputError.
    """
    with directory_lock(directory) as lock:
        for staging in () if lock is None else abandoned_stagings(directory):
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


def _create_directory(parent: Path, directory: Path, files: Mapping[str, bytes]) -> None:
    """Create the directory with the files in it; its parent is locked. Raises OSError."""
    _move(_stage(parent, files), NEW, directory)


def _replace_files(directory: Path, files: Mapping[str, bytes], lock: int | None) -> None:
    """Write the files into the directory over existing ones; `lock` is its lock. Raises OSError."""
    if len(files) == 1:
        (name,) = files
        _move(_stage(directory, files), f"{NEW}/{name}", directory / name)
        return
    staging = _stage(directory, files, replacing=True)
    with _signals_deferred():
        _commit_in_child(staging, lock)


def _stage(base: Path, files: Mapping[str, bytes], *, replacing: bool = False) -> Path:
    """Create a staging directory: `new` has the files, flushed to disk; if `replacing`, `old` has the current files."""
    import tempfile  # imported on use, like subprocess: most commands write no files

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
            back_up(staging, files)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return staging


def _move(staging: Path, part: str, destination: Path) -> None:
    """Move a file or directory from the staging directory to its destination, and remove the staging directory."""
    try:
        (staging / part).replace(destination)
        sync(destination.parent)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _commit_in_child(staging: Path, lock: int | None) -> None:
    """Commit the staged files in a child process, which no signal to this process or its group reaches.

    If no child process can be started, they are committed in this process.
    """
    if os.name != "posix":
        commit(staging)
        return
    import subprocess

    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", Path(swap.__file__).resolve(), staging.name],
            cwd=staging.parent,
            pass_fds=() if lock is None else (lock,),  # so that the directory stays locked until the child ends
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:  # no more processes, memory or descriptors
        commit(staging)
        return
    with process:
        printed, _ = process.communicate()
    if process.returncode:
        resume(staging)
    elif printed:
        raise OSError(int(printed), os.strerror(int(printed)))


@contextlib.contextmanager
def _signals_deferred() -> Iterator[None]:
    """Block Ctrl-C and termination in this thread until the block ends: renaming takes milliseconds.

    If another thread receives Ctrl-C, Python interrupts this one nevertheless; the process that renames continues.
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


def read_file(path: Path, *, what: str = "the model", max_bytes: int = MAX_INPUT_BYTES) -> bytes:
    """Read a file.

    Args:
        path: The file.
        what: The expected content, for error messages.
        max_bytes: The largest accepted size.

    Raises:
        UsageError: The path cannot be read, or the file has more than max_bytes.
        InvalidModelError: The file has MAX_INPUT_BYTES or more, which no model has.
    """
    if path.is_dir():
        raise UsageError("is a directory, not a file", where=str(path), fix=f"specify the path of {what}")
    _refuse_special(path)
    try:
        with path.open("rb") as stream:
            size_bytes = os.fstat(stream.fileno()).st_size
            if size_bytes >= MAX_INPUT_BYTES:
                raise InvalidModelError(f"is too large for {what}", where=str(path), fix="specify another file")
            if size_bytes > max_bytes:
                raise UsageError(
                    f"is larger than {max_bytes:,} bytes, too large for {what}", where=str(path), fix="specify another"
                )
            content = stream.read(size_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError for a name that no file can have
        raise _unreadable(path, error, what) from error
    if len(content) != size_bytes:  # a file that the kernel generates on reading may be endless
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
    message = f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else "is not a path"
    return UsageError(message, where=str(path), fix=f"specify the path of {what}")


def _refuse_special(path: Path) -> None:
    """Raise UsageError for a pipe or a device, which may block forever or never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UsageError("is a pipe or a device, not a file", where=str(path), fix="specify a regular file")


def write_files(
    directory: Path,
    files: Mapping[str, bytes],
    *,
    force: bool = False,
    inputs: tuple[Path, ...] = (),
    option: str = "--output",
    already_locked: bool = False,
) -> tuple[Path, ...]:
    """Write the files into the directory, which is created if necessary, and return their paths.

    The files are written to a staging directory and then renamed: an error leaves the old files, and a signal or
    SIGKILL at any moment leaves either all old or all new files. Only one run at a time writes into a directory; what a
    killed run left there is completed or rolled back first. A directory that is a link is followed, a file that is a
    link is replaced.

    Args:
        directory: The directory.
        files: The content of each file by name.
        force: Whether to replace existing files.
        inputs: Files that must not be overwritten, even with force.
        option: The option with which the user can choose another directory, for error messages.
        already_locked: Whether the caller already holds the lock of the directory with `writing_in`.

    Raises:
        OutputError: A file exists (without force), would overwrite one of `inputs`, or cannot be written.
    """
    try:
        if not directory.exists():
            parent = _parent_of_new(directory, option)
            parent.mkdir(parents=True, exist_ok=True)
            with writing_in(parent):
                if not directory.exists():
                    _create_directory(parent, directory, files)
                    return tuple(directory / name for name in files)
        with nullcontext() if already_locked else writing_in(directory) as lock:
            for name in files:
                _refuse_collision(directory / name, force=force, inputs=inputs, option=option)
            _replace_files(directory, files, lock)
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
    already_locked: bool = False,
) -> Path:
    """Write one file into an existing directory, and return its path; otherwise as `write_files` does."""
    directory = path.parent
    if not directory.is_dir():
        raise OutputError(
            "the directory does not exist", where=str(directory), fix="create it, or choose another directory"
        )
    return write_files(
        directory, {path.name: content}, force=force, inputs=inputs, option=option, already_locked=already_locked
    )[0]


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
        with contextlib.suppress(FileNotFoundError):  # another run may have mistaken it for that of a killed run
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
    if path.exists() and not path.is_file():  # root can rename a file over a device, which destroys it
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
    """Write a make rule by which the written files depend on those that were read.

    A directory that was read is replaced by all files in it. Raises OutputError if the rule cannot be written, would
    overwrite one of the files, or cannot contain a name.
    """
    if any(_is_same_file(path, file) for file in written):
        raise OutputError(
            "would overwrite a file that was just written", where=str(path), fix="choose another --depfile"
        )
    sources = [item for item in read if item is not None]
    inputs = dict.fromkeys(file for source in sources for file in _dependencies(source))
    text = f"{' '.join(_quoted(file) for file in written)}:"
    text += "".join(f" \\\n  {_quoted(file)}" for file in inputs) + "\n"
    write_file(path, text.encode("utf-8", "surrogateescape"), force=True, inputs=tuple(inputs))


def _is_same_file(path: Path, file: Path) -> bool:
    return path.exists() and path.samefile(file)


def _dependencies(path: Path) -> list[Path]:
    """Return the file; or the directory, whose date changes with each new file, and all files below it."""
    if not path.is_dir():
        return [path]
    return [path, *sorted(item for item in path.rglob("*") if item.is_file())]


def _quoted(path: Path) -> str:
    """Return the absolute path, quoted for make and ninja; make would run what follows ; or != as a command."""
    text = os.path.abspath(path)
    if any(mark in text for mark in ("\n", "\r", "\t", "\\", ";", "|", "!=")):
        raise OutputError(
            "a path with a line break, a tab or one of \\ ; | != cannot be used in a dependency file",
            where=repr(text),
            fix="choose another path",
        )
    return text.replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ")
