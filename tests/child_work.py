"""What the tests of edgetool.child run as a child: one behaviour per request."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
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
                "tests.child_work", request["inner"], workdir=folder, limits=child.Limits(), doing="testing"
            )
        case "start another and sleep":
            other = subprocess.Popen(["sleep", "300"])
            Path(request["note"]).write_text(str(other.pid))
            time.sleep(300)
        case "sleep":
            (workdir / "pid").write_text(str(os.getpid()))
            time.sleep(request["seconds"])
    return {}


if __name__ == "__main__":
    sys.exit(child.serve(work))
