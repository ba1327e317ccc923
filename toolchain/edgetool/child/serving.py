"""The child's side: limit, confine and silence this process, do the work, and answer.

The child writes JSON lines to the pipe that was its stdout: {"progress": text}, {"error": {...}}, {"no room": text} or
{"result": {...}}. Everything that libraries print, at C level too, goes to a log file in the work directory.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from edgetool import errors
from edgetool.child.confinement import confine, die_with_parent, limit
from edgetool.child.folder import disk_full_reason

Progress = Callable[[str], None]
LOG_NAME = "child.log"
REQUEST_NAME = "request.json"
LOG_TAIL_LINES, LOG_TAIL_BYTES = 12, 65536
# The key of a result for the restrictions that the system does not support; absent if there are none.
UNCONFINED = "unconfined"


@dataclass(frozen=True, slots=True)
class ChildTask:
    """The request to this process, and the channel for its answer."""

    request: dict[str, Any]
    limits: dict[str, Any]
    workdir: Path
    channel: IO[str]
    unconfined: tuple[str, ...]


_task: ChildTask | None = None


def is_child() -> bool:
    """Return whether this process is a child: then its parent kills it and all it starts as one process group."""
    return _task is not None


def prepare(workdir: Path) -> None:
    """Make this process a child and read its request. Call it before anything else."""
    global _task
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    log = os.open(workdir / LOG_NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    envelope = json.loads((workdir / REQUEST_NAME).read_text(encoding="utf-8"))
    die_with_parent(envelope["parent"])
    unconfined = () if envelope["trusted"] else confine(workdir)
    _task = ChildTask(envelope["request"], envelope["limits"], workdir, channel, unconfined)


def serve(work: Callable[[dict[str, Any], Path, Progress], dict[str, Any]]) -> None:
    """Do the work in this process, which `prepare` has made a child, and end it.

    `work(request, workdir, progress)` returns a JSON-able result. Call it under `if __name__ == "__main__"`.
    """
    assert _task is not None  # edgetool.child.__main__ has prepared it
    limit(**_task.limits)  # after the module is loaded: a library that runs out of memory while loading only exits
    try:
        result = work(_task.request, _task.workdir, lambda text: _answer(progress=text))
        _answer(result={**result, UNCONFINED: _task.unconfined} if _task.unconfined else result)
    except Exception as error:
        _answer(**_error_message(error))
    os._exit(0)  # libraries' exit handlers can hang or crash; the answer has already been sent


def log_tail(workdir: Path) -> tuple[str, ...]:
    """Return the last lines that a child's libraries printed."""
    text = b""
    with suppress(OSError), (workdir / LOG_NAME).open("rb") as stream:  # it may have been killed before it had a log
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
        text = stream.read(LOG_TAIL_BYTES)
    lines = text.decode("utf-8", "replace").splitlines()
    return tuple(line.rstrip() for line in lines if line.strip())[-LOG_TAIL_LINES:]


def _answer(**message: Any) -> None:
    assert _task is not None
    _task.channel.write(json.dumps(message) + "\n")
    _task.channel.flush()


def _error_message(error: Exception) -> dict[str, Any]:
    """Return the message to the parent about an error."""
    if not isinstance(error, errors.OutputError) and (why := disk_full_reason(error)) is not None:
        return {"no room": why}
    if isinstance(error, errors.EdgetoolError):
        return {
            "error": {
                "type": type(error).__name__,
                "what": error.what,
                "where": error.where,
                "fix": error.fix,
                "details": list(error.details),
            }
        }
    if isinstance(error, MemoryError):
        return {"error": {"what": "the memory limit was reached"}}
    with suppress(OSError):  # the disk may be full
        traceback.print_exception(error)
    return {"error": {"what": f"{type(error).__name__}: {_first_line(error)}"}}


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else "no message"
