"""The parent's side: runs a module of ours in a child process with limits, so that no native crash reaches the user.

The environment of a child: of the user's only what Python needs, unless the code that runs is trusted.
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
from edgetool.child.folder import is_full, no_room, room_in
from edgetool.child.serving import LOG_NAME, REQUEST_NAME, Progress, is_child, log_tail

# What says where programs, libraries and Python's packages are, and in which language and time zone the user lives.
KEPT = frozenset(
    """
    PATH LANG LANGUAGE TZ VIRTUAL_ENV CONDA_PREFIX LD_LIBRARY_PATH LD_PRELOAD DYLD_LIBRARY_PATH
    DYLD_FALLBACK_LIBRARY_PATH PYTHONPATH PYTHONHOME PYTHONPLATLIBDIR PYTHONUTF8 PYTHONHASHSEED PYTHONNOUSERSITE
    PYTHONUSERBASE PYTHONFAULTHANDLER SYSTEMROOT WINDIR PATHEXT COMSPEC TF_USE_LEGACY_KERAS OMP_NUM_THREADS
    """.split()
)
KEPT_PREFIX = "LC_"
# Where a system has the user's home and settings: for a child, in its own folder.
HOMES = ("HOME", "USERPROFILE", "APPDATA")
# Quiet, without a GPU, and with the one backend that converts.
QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "CUDA_VISIBLE_DEVICES": "-1",
    "KERAS_BACKEND": "tensorflow",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONIOENCODING": "utf-8",
}


def environment(given: Mapping[str, str], workdir: Path, *, trusted: bool) -> dict[str, str]:
    """What a child gets of the variables given; temporary files go where they are removed, and so does what it would
    keep in the user's home, which only trusted code is told of."""
    temporary = {**QUIET, "TMPDIR": str(workdir)}
    if trusted:
        return {**given, **temporary}
    kept = {name: value for name, value in given.items() if name in KEPT or name.startswith(KEPT_PREFIX)}
    # Python looks for the user's own packages in the home that it is not told of.
    return {"PYTHONUSERBASE": site.getuserbase(), **kept, **temporary, **dict.fromkeys(HOMES, str(workdir))}


OnStart = Callable[[Callable[[], None]], None]
GRACE_SECONDS = 2.0
MOST_SECONDS = 10_000_000
# Of a message; a longer one is none of ours.
LONGEST_BYTES = 2**28


class ChildDiedError(errors.ConversionError):
    """The child ended without an answer: a native crash, or a signal."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child may use: bytes of data memory (None: no limit), seconds of wall time, bytes in each file.

    Of the processors' time each of its processes may use what they have in those seconds, all together.
    """

    memory_bytes: int | None = 12 * 2**30
    seconds: float = 1800.0
    file_bytes: int = 16 * 2**30

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= MOST_SECONDS:  # NaN is not, either
            raise errors.UsageError(
                f"the time limit {self.seconds} s is out of range", fix=f"use 1 to {MOST_SECONDS:,} seconds"
            )

    @property
    def cpu_seconds(self) -> int:
        """For the case that nobody ends the child in time: the one who started it may be stopped."""
        return math.ceil(self.seconds) * (os.cpu_count() or 1)


def run(
    module: str,
    request: Mapping[str, Any],
    *,
    workdir: Path,
    limits: Limits,
    doing: str,
    advice: str | None = None,
    progress: Progress | None = None,
    on_start: OnStart | None = None,
    trusted: bool = False,
) -> dict[str, Any]:
    """The result of `module` run as a child on `request`; `doing` names the work in messages, `advice` what
    to try when the child dies. `on_start` is handed a function that kills the child, from any thread.

    trusted: the code that runs is the user's own or ours alone, and has the user's environment, files and network. Any
    other child writes in `workdir` alone, has no network, and of the environment what Python needs; the result tells
    under UNCONFINED what of this the system has no means for.

    Raises the child's own EdgetoolError where it reports one, OutputError when there is no room to write, and
    ConversionError when it dies, exceeds a limit, or ends without a result. The child and its children are gone when
    this returns or raises.
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
    with room_in(workdir):
        (workdir / REQUEST_NAME).write_text(json.dumps(envelope), encoding="utf-8")
        (workdir / LOG_NAME).touch(mode=0o600)  # a child that cannot have one cannot say so
    own_group = not is_child()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "edgetool.child", module, str(workdir)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(os.environ, workdir, trusted=trusted),
        start_new_session=own_group,
    )
    expired, ending = threading.Event(), threading.RLock()

    def expire() -> None:
        expired.set()
        stop()

    def stop() -> None:
        with ending:
            if process.returncode is None:  # afterwards its number may be another process's
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
                break  # whatever it has left running may hold the pipe open for ever
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
        raise no_room(workdir, str(outcome["no room"]))
    log = log_tail(workdir)
    error: errors.EdgetoolError
    step = f" while {last_step}" if last_step else ""
    if "error" in outcome:
        error = _rebuilt(outcome["error"], advice, log)
    elif expired.is_set():
        what = f"{doing} took more than {limits.seconds:g} s and was stopped{step}"
        error = errors.ConversionError(what, fix=advice, details=log)
    else:
        what = f"the process {doing} crashed with {_cause(process.returncode)}{step}"
        error = ChildDiedError(what, fix=advice, details=log)
    if isinstance(error, errors.ConversionError) and is_full(workdir):
        raise no_room(workdir, "no space is left on the disk") from error
    raise error


def _messages(stream: IO[bytes]) -> Any:
    while line := stream.readline(LONGEST_BYTES):
        with contextlib.suppress(ValueError, RecursionError):  # what is no message of ours
            message = json.loads(line)
            if isinstance(message, dict):
                yield message


def _await_end(process: subprocess.Popen[bytes]) -> None:
    """Wait for the child's end, and leave it its number, by which its group is ended next."""
    if hasattr(os, "waitid"):  # macOS has it since Python 3.13
        with contextlib.suppress(ChildProcessError):  # killed by its number, and so waited for already
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()


def _kill(process: subprocess.Popen[bytes], *, group: bool) -> None:
    """End the child, and with its group whatever it started."""
    with contextlib.suppress(OSError):  # it has ended
        if group and os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _cause(returncode: int) -> str:
    """ "SIGSEGV", or "exit status 3"."""
    if returncode < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-returncode).name
    return f"exit status {returncode}"


def _rebuilt(error: Mapping[str, Any], advice: str | None, log: tuple[str, ...]) -> errors.EdgetoolError:
    """The child's error as the same class here; a foreign exception becomes a ConversionError with the log."""
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
