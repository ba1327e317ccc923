"""What the tests of edgetool.child run as a child: one behaviour per request."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgetool import child
from edgetool.errors import CalibrationError


def work(request: dict[str, Any], workdir: Path, progress: child.Progress) -> dict[str, Any]:
    progress("starting")
    print("chatter on stdout")
    os.write(1, b"chatter at C level\n")
    os.write(2, b"last words\n")
    match request["do"]:
        case "answer":
            return {"echo": request["value"], "pid": os.getpid()}
        case "refuse":
            raise CalibrationError("is NaN", where="sample 3", fix="remove it", details=("one", "two"))
        case "raise":
            raise RuntimeError("first line\nsecond line")
        case "fail":
            raise OSError(request["errno"], os.strerror(request["errno"]))
        case "crash":
            ctypes.string_at(0)
        case "exit":
            os._exit(7)
        case "allocate":
            return {"bytes": len(bytearray(request["bytes"]))}
        case "leave a process":
            left = os.fork()
            if left == 0:
                time.sleep(request["seconds"])
                os._exit(0)
            return {"left": left}
        case "ask another":
            folder = workdir / "another"
            folder.mkdir()
            return child.run(
                "tests.child_work", request["inner"], workdir=folder, limits=child.ProcessLimits(), doing="testing"
            )
        case "start another and sleep":
            other = subprocess.Popen(["sleep", "300"])
            Path(request["note"]).write_text(str(other.pid))
            time.sleep(300)
        case "read environment":
            return {"environment": dict(os.environ)}
        case "read limits":
            import resource

            return {"limits": {name: resource.getrlimit(getattr(resource, name)) for name in request["names"]}}
        case "try":
            return {"refused": _refused(ATTEMPTS[request["what"]], Path(request["outside"]))}
        case "babble":
            progress(request["text"])
            return {"echo": "said"}
        case "fill":
            with (workdir / "full").open("wb") as stream:
                stream.write(bytes(request["bytes"]))
        case "sleep":
            (workdir / "pid").write_text(str(os.getpid()))
            time.sleep(request["seconds"])
    return {}


def _refused(attempt: Callable[[Path], object], outside: Path) -> str:
    """What the system says to it; "" where it let it be done."""
    try:
        attempt(outside)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return ""


# What a file may make a library try; outside is a file that is not the child's.
ATTEMPTS: dict[str, Callable[[Path], object]] = {
    "internet": lambda outside: socket.socket(socket.AF_INET).close(),
    "internet 6": lambda outside: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).close(),
    "a local service": lambda outside: socket.socket(socket.AF_UNIX).close(),
    "writing": lambda outside: outside.write_text("mine now"),
    "appending": lambda outside: outside.open("a").close(),
    "truncating": lambda outside: os.truncate(outside, 0),
    "removing": lambda outside: outside.unlink(),
    "renaming": lambda outside: outside.rename(outside.with_name("other")),
    "taking": lambda outside: outside.rename(Path(os.environ["TMPDIR"]) / "taken"),
    "linking": lambda outside: os.link(outside, outside.with_name("link")),
    "making": lambda outside: outside.with_name("new").touch(),
    "making a folder": lambda outside: outside.with_name("folder").mkdir(),
    "making a pipe": lambda outside: os.mkfifo(Path(os.environ["TMPDIR"]) / "pipe"),
    "through a program": lambda outside: _program("rm", str(outside)),
    "through a link": lambda outside: _through_link(outside),
}


def _program(*words: str) -> None:
    if subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise PermissionError(errno.EACCES, "it failed")


def _through_link(outside: Path) -> None:
    link = Path(os.environ["TMPDIR"]) / "link"
    link.symlink_to(outside)
    link.write_text("mine now")


if __name__ == "__main__":
    sys.exit(child.serve(work))
