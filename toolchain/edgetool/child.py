"""Runs a module of ours in a child process with limits, so that no native crash reaches the user.

The child writes JSON lines on the pipe that was its stdout: {"progress": text}, {"error": {...}} or
{"result": {...}}. Everything that libraries print, at C level too, goes to a log file in the work
directory; its last lines are shown when the child dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from edgetool import errors

Progress = Callable[[str], None]
OnStart = Callable[[Callable[[], None]], None]
LOG_NAME = "child.log"
REQUEST_NAME = "request.json"
LOG_TAIL_LINES = 12
GRACE_SECONDS = 2.0
MOST_SECONDS = 10_000_000


# Whether this process serves: then it and all that it starts are one group, which the one who asked ends.
_is_child = False


class ChildDiedError(errors.ConversionError):
    """The child ended without an answer: a native crash, or a signal."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child may use: bytes of data memory (None: no limit) and seconds of wall time."""

    memory_bytes: int | None = 12 * 2**30
    seconds: float = 1800.0

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= MOST_SECONDS:  # NaN is not, either
            raise errors.UsageError(f"a time limit of {self.seconds} s", fix=f"give 1 to {MOST_SECONDS:,} seconds")


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
) -> dict[str, Any]:
    """The result of `module` run as a child on `request`; `doing` names the work in messages, `advice` what
    to try when the child dies. `on_start` is handed a function that kills the child, from any thread.

    Raises the child's own EdgetoolError where it reports one, and ConversionError when it dies, exceeds
    a limit, or ends without a result. The child and its children are gone when this returns or raises.
    """
    (workdir / REQUEST_NAME).write_text(
        json.dumps(
            {
                "request": dict(request),
                "memory_bytes": limits.memory_bytes,
                "parent": os.getpid(),
            }
        ),
        encoding="utf-8",
    )
    own_group = not _is_child
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(workdir)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(workdir),
        start_new_session=own_group,
    )
    expired, over = threading.Event(), threading.Event()

    def expire() -> None:
        expired.set()
        _kill(process, group=own_group)

    def stop() -> None:
        if not over.is_set():  # afterwards its number may be another process's
            _kill(process, group=own_group)

    timer = threading.Timer(limits.seconds, expire)
    timer.daemon = True
    last_step = ""
    outcome: dict[str, Any] = {}
    try:
        timer.start()
        if on_start is not None:
            on_start(stop)
        assert process.stdout is not None
        for message in _messages(process.stdout):
            if "progress" in message:
                last_step = str(message["progress"])
                if progress is not None:
                    progress(last_step)
            else:
                outcome = message
                break  # whatever it has left running may hold the pipe open for ever
        process.wait()
    finally:
        timer.cancel()
        over.set()
        _kill(process, group=own_group)
    if "result" in outcome:
        result: dict[str, Any] = outcome["result"]
        return result
    log = log_tail(workdir)
    if "error" in outcome:
        raise _rebuilt(outcome["error"], advice, log)
    step = f" while {last_step}" if last_step else ""
    if expired.is_set():
        raise errors.ConversionError(
            f"{doing} took more than {limits.seconds:g} s and was stopped{step}",
            fix=advice,
            details=log,
        )
    raise ChildDiedError(
        f"the process {doing} died of {_cause(process.returncode)}{step}",
        fix=advice,
        details=log,
    )


def log_tail(workdir: Path) -> tuple[str, ...]:
    """The last lines that a child's libraries printed."""
    try:
        text = (workdir / LOG_NAME).read_bytes()[-65536:].decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(line.rstrip() for line in text.splitlines() if line.strip())[-LOG_TAIL_LINES:]


def _messages(stream: IO[bytes]) -> Any:
    for line in stream:
        with contextlib.suppress(ValueError):
            message = json.loads(line)
            if isinstance(message, dict):
                yield message


def _environment(workdir: Path) -> dict[str, str]:
    """The parent's environment, quiet, and with temporary files kept where they will be removed."""
    return dict(
        os.environ,
        TF_CPP_MIN_LOG_LEVEL="2",
        TF_ENABLE_ONEDNN_OPTS="0",
        CUDA_VISIBLE_DEVICES="-1",
        KERAS_BACKEND="tensorflow",
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONIOENCODING="utf-8",
        TMPDIR=str(workdir),
    )


def _kill(process: subprocess.Popen[bytes], *, group: bool) -> None:
    """End the child, and with its group whatever it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError, OSError):
        if group and os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        elif process.poll() is None:
            process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)


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


def serve(work: Callable[[dict[str, Any], Path, Progress], dict[str, Any]]) -> None:
    """The child's side: limit this process, silence its libraries, do the work, answer.

    `work(request, workdir, progress)` returns a JSON-able result. Call it under `if __name__ == "__main__"`.
    """
    global _is_child
    _is_child = True
    workdir = Path(sys.argv[1])
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    log = os.open(workdir / LOG_NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    envelope = json.loads((workdir / REQUEST_NAME).read_text(encoding="utf-8"))
    _die_with_parent(envelope["parent"])
    _limit_memory(envelope["memory_bytes"])

    def answer(**message: Any) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    try:
        answer(result=work(envelope["request"], workdir, lambda text: answer(progress=text)))
    except errors.EdgetoolError as error:
        answer(
            error={
                "type": type(error).__name__,
                "what": error.what,
                "where": error.where,
                "fix": error.fix,
                "details": list(error.details),
            }
        )
    except MemoryError:
        answer(error={"what": "the memory limit was reached"})
    except Exception as error:
        import traceback

        traceback.print_exc()
        answer(error={"what": f"{type(error).__name__}: {_first_line(error)}"})
    channel.flush()
    os._exit(0)  # libraries' exit handlers can hang or crash; the answer is already out


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else "no message"


def _limit_memory(size_bytes: int | None) -> None:
    """Bound the data segment and private mappings: what a file can make a library allocate."""
    if size_bytes is None or os.name != "posix":
        return
    import resource

    with contextlib.suppress(ValueError, OSError):
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = size_bytes if hard == resource.RLIM_INFINITY else min(size_bytes, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _die_with_parent(parent: int) -> None:
    """On Linux ask the kernel to kill this process when its parent goes, however it goes."""
    if sys.platform != "linux":
        return
    import ctypes

    pr_set_pdeathsig = 1  # linux/prctl.h
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:  # it went before the request took effect
        os._exit(1)
