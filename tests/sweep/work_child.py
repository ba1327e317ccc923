"""What stands for the worker of a job in tests of run_job: one behaviour per request."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path
from typing import Any

from edgetool import child, errors


def work(request: dict[str, Any], workdir: Path, progress: child.Progress) -> dict[str, Any]:
    asked, inputs = request["request"], {role: Path(path) for role, path in request["inputs"].items()}
    (workdir / "blobs").mkdir()
    match asked["do"]:
        case "answer":
            progress("answering")
            for role, path in inputs.items():
                (workdir / "blobs" / f"{role}.txt").write_bytes(path.read_bytes())
            return {"names": {role: path.name for role, path in inputs.items()}, "workdir": str(workdir)}
        case "siblings":
            return {"names": sorted(path.name for path in inputs["builder"].parent.iterdir())}
        case "raise":
            kind = getattr(errors, asked["error"])
            raise kind("does not fit", where=f"{inputs['calibration']} sample 3", fix=f"see {workdir}/more")
        case "crash":
            ctypes.string_at(0)
        case "exit":
            os._exit(7)
        case "sleep":
            progress(f"sleeping in {os.getpid()}")
            time.sleep(60)
    return {}


if __name__ == "__main__":
    sys.exit(child.serve(work))
