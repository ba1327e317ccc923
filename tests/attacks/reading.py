"""Reads files one after another and tells what each cost: the process that test_attacks measures.

Lines on the standard input are paths; each is answered with a line of JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from edgetool.errors import EdgetoolError
from edgetool.model.reader import read_model
from tests.attacks.base import sound

UNIT_BYTES = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


def peak_bytes() -> int:
    """The most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT_BYTES


def answer(path: Path) -> dict[str, object]:
    blob = path.read_bytes()
    start = time.process_time()
    error: BaseException | None = None
    try:
        read_model(blob, name=path.name)
    except Exception as caught:  # whatever it is, the test judges it
        error = caught
    return {
        "cpu_seconds": time.process_time() - start,
        "peak_bytes": peak_bytes(),
        "error": type(error).__name__ if error else None,
        "exit_code": error.exit_code if isinstance(error, EdgetoolError) else None,
        "message": str(error) if error else "",
        "where": error.where if isinstance(error, EdgetoolError) else None,
    }


def main() -> None:
    read_model(sound())  # what is loaded once for every file
    print(json.dumps({"peak_bytes": peak_bytes()}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(Path(line.rstrip("\n")))), flush=True)


if __name__ == "__main__":
    main()
