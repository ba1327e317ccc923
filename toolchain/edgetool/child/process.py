"""The parent's side of a child process: run a module with limits, so that no native crash reaches the user.

Unless the code is trusted, the child gets only those of the user's environment variables that Python needs.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import site
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from edgetool import errors
from edgetool.child.folder import disk_full_error, is_full, report_disk_full
from edgetool.child.serving import LOG_NAME, REQUEST_NAME, Progress, is_child, log_tail

# Paths of programs, libraries and Python packages, and the user's language and time zone.
KEPT_VARIABLES = frozenset(
    """
    PATH LANG LANGUAGE TZ VIRTUAL_ENV CONDA_PREFIX LD_LIBRARY_PATH LD_PRELOAD DYLD_LIBRARY_PATH
    DYLD_FALLBACK_LIBRARY_PATH PYTHONPATH PYTHONHOME PYTHONPLATLIBDIR PYTHONUTF8 PYTHONHASHSEED PYTHONNOUSERSITE
    PYTHONUSERBASE PYTHONFAULTHANDLER SYSTEMROOT WINDIR PATHEXT COMSPEC TF_USE_LEGACY_KERAS OMP_NUM_THREADS
    """.split()
)
KEPT_PREFIX = "LC_"
# Variables for the user's home and settings: in a child, they name its own folder.
HOMES = ("HOME", "USERPROFILE", "APPDATA")
# No log messages, no GPU, and the Keras backend that the converter needs.
QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "CUDA_VISIBLE_DEVICES": "-1",
    "KERAS_BACKEND": "tensorflow",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONIOENCODING": "utf-8",
}


def environment(inherited: Mapping[str, str], workdir: Path, *, trusted: bool) -> dict[str, str]:
    """Return a child's environment variables.

    Temporary files go to the work directory. So do files that the child would store in the user's home directory, whose
    path only trusted code receives.
    """
    temporary = {**QUIET, "TMPDIR": str(workdir)}
    if trusted:
        return {**inherited, **temporary}
    kept = {name: value for name, value in inherited.items() if name in KEPT_VARIABLES or name.startswith(KEPT_PREFIX)}
    if "PYTHONPATH" in kept:
        kept["PYTHONPATH"] = os.pathsep.join(named_folders(kept["PYTHONPATH"]))
    # Python would look for the user's own packages in the home directory.
    return {"PYTHONUSERBASE": site.getuserbase(), **kept, **temporary, **dict.fromkeys(HOMES, str(workdir))}


def named_folders(python_path: str) -> list[str]:
    """Return the entries of a PYTHONPATH except those that mean the working directory, whichever it is: "" and ".".

    A stranger's folder may contain a package with the name of a library.
    """
    return [entry for entry in python_path.split(os.pathsep) if entry and os.path.normpath(entry) != os.curdir]


OnStart = Callable[[Callable[[], None]], None]
GRACE_SECONDS = 2.0
MAX_SECONDS = 10_000_000
# A longer line is not a message of the child.
MAX_MESSAGE_BYTES = 2**28


class ChildDiedError(errors.ConversionError):
    """The child ended without an answer, by a native crash or a signal."""


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """The limits of a child: bytes of data memory (None: no limit), seconds of wall time, bytes in each file.

    Each of its processes may use the CPU time that all processors have in those seconds.
    """

    memory_bytes: int | None = 12 * 2**30
    seconds: float = 1800.0
    file_bytes: int = 16 * 2**30

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= MAX_SECONDS:  # also rejects NaN
            raise errors.UsageError(
                f"the time limit {self.seconds} s is out of range", fix=f"use 1 to {MAX_SECONDS:,} seconds"
            )

    @property
    def cpu_seconds(self) -> int:
        """The limit of CPU time, in case the parent is stopped and cannot end the child in time."""
        return math.ceil(self.seconds) * (os.cpu_count() or 1)


def run(
    module: str,
    request: Mapping[str, Any],
    *,
    workdir: Path,
    limits: ProcessLimits,
    doing: str,
    advice: str | None = None,
    progress: Progress | None = None,
    on_start: OnStart | None = None,
    trusted: bool = False,
) -> dict[str, Any]:
    """Run `module` as a child on `request` and return its result.

    doing: names the work in messages. advice: what to try if the child crashes. on_start: is called with a function
    that kills the child from any thread.
    trusted: the child only runs code of the user or of edgetool, and has the user's environment, files and network. Any
    other child can write only in `workdir`, has no network, and gets only the environment that Python needs; UNCONFINED
    in the result lists the restrictions that the system does not support.

    Raises the EdgetoolError that the child reports, OutputError if the disk is full, and ConversionError if the child
    crashes, exceeds a limit, or ends without a result. The child and its children have ended when this returns or
    raises.
    """
    envelope = {
        "request": dict(request),
        "limits": {
            "memory_bytes": limits.memory_bytes,
            "cpu_seconds": limits.cpu_seconds,
            "file_bytes": limits.file_bytes,
        },
        "trusted": trusted,
        "parent": os.getpid(),
    }
    with report_disk_full(workdir):
        (workdir / REQUEST_NAME).write_text(json.dumps(envelope), encoding="utf-8")
        (workdir / LOG_NAME).touch(mode=0o600)  # a child that cannot create it could not report that
    own_group = not is_child()
    process = start(module, workdir, trusted=trusted, own_group=own_group)
    expired, ending = threading.Event(), threading.RLock()

    def expire() -> None:
        expired.set()
        stop()

    def stop() -> None:
        with ending:
            if process.returncode is None:  # afterwards its process id may be reused
                _kill(process, group=own_group)

    timer = threading.Timer(limits.seconds, expire)
    timer.daemon = True
    last_step = ""
    outcome: dict[str, Any] = {}
    assert process.stdout is not None
    try:
        timer.start()
        if on_start is not None:
            on_start(stop)
        for message in _messages(process.stdout):
            if "progress" in message:
                last_step = str(message["progress"])
                if progress is not None:
                    progress(last_step)
            else:
                outcome = message
                break  # processes that it started may keep the pipe open
        _await_end(process)
    finally:
        timer.cancel()
        with ending, contextlib.suppress(subprocess.TimeoutExpired):
            _kill(process, group=own_group)
            process.wait(GRACE_SECONDS)
        process.stdout.close()
    if "result" in outcome:
        result: dict[str, Any] = outcome["result"]
        return result
    if "no room" in outcome:
        raise disk_full_error(workdir, str(outcome["no room"]))
    log = log_tail(workdir)
    error: errors.EdgetoolError
    step = f" while {last_step}" if last_step else ""
    if "error" in outcome:
        error = _parent_error(outcome["error"], advice, log)
    elif expired.is_set():
        what = f"{doing} took more than {limits.seconds:g} s and was stopped{step}"
        error = errors.ConversionError(what, fix=advice, details=log)
    else:
        what = f"the process {doing} crashed with {_cause(process.returncode)}{step}"
        error = ChildDiedError(what, fix=advice, details=log)
    if isinstance(error, errors.ConversionError) and is_full(workdir):
        raise disk_full_error(workdir, "no space is left on the disk") from error
    raise error


def start(module: str, workdir: Path, *, trusted: bool, own_group: bool) -> subprocess.Popen[bytes]:
    """Start `module` as a child that answers on its stdout; own_group: as the leader of a new process group."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "edgetool.child", module, str(workdir)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(os.environ, workdir, trusted=trusted),
        start_new_session=own_group,
    )


def _messages(stream: IO[bytes]) -> Any:
    while line := stream.readline(MAX_MESSAGE_BYTES):
        with contextlib.suppress(ValueError, RecursionError):  # not a message of the child
            message = json.loads(line)
            if isinstance(message, dict):
                yield message


def _await_end(process: subprocess.Popen[bytes]) -> None:
    """Wait until the child ends, if possible without reaping it: its id is still needed to kill its group."""
    if hasattr(os, "waitid"):  # macOS has it since Python 3.13
        with contextlib.suppress(ChildProcessError):  # it has been killed and reaped
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()


def _kill(process: subprocess.Popen[bytes], *, group: bool) -> None:
    """Kill the child and, with its group, all processes that it started."""
    with contextlib.suppress(OSError):  # it has ended
        if group and os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _cause(returncode: int) -> str:
    """Return, for example, "SIGSEGV" or "exit status 3"."""
    if returncode < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-returncode).name
    return f"exit status {returncode}"


def _parent_error(error: Mapping[str, Any], advice: str | None, log: tuple[str, ...]) -> errors.EdgetoolError:
    """Return the child's error as the same class; any other exception becomes a ConversionError with the log."""
    kind = getattr(errors, str(error.get("type")), None)
    if isinstance(kind, type) and issubclass(kind, errors.EdgetoolError):
        rebuilt: errors.EdgetoolError = kind(
            str(error["what"]),
            where=error.get("where"),
            fix=error.get("fix"),
            details=tuple(error.get("details", ())),
        )
        return rebuilt
    return errors.ConversionError(str(error.get("what")), fix=advice, details=log)
