"""The program: `edgetool`, or `python -m edgetool`."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from pathlib import Path
from types import FrameType

INTERRUPTED = 130
# Allocations between garbage collections: imports and plans create many objects, but hardly any garbage.
GC_THRESHOLD = 500_000


def main() -> None:
    """Run edgetool; a Ctrl-C while it is still being imported ends it without a traceback."""

    def leave(signum: int, frame: FrameType | None) -> None:
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, leave)
    gc.set_threshold(GC_THRESHOLD)
    # What is left at the end needs no search for garbage: the process ends with it.
    atexit.register(gc.freeze)
    # Its threads wait busily, which costs more than the few small products take.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _leave_out_working_directory()
    from edgetool.cli.main import main as run

    run()


def _leave_out_working_directory() -> None:
    """Import no libraries from the working directory, in which others may have put files with their names.

    `python -m` and empty entries of PYTHONPATH add it. It stays if PYTHONPATH names it, or if edgetool is there.
    """
    try:
        here = Path.cwd()
    except OSError:  # it has been removed
        return
    if here not in (Path(entry).absolute() for entry in sys.path):
        return
    from edgetool.child.process import named_folders

    named = [Path(entry).absolute() for entry in named_folders(os.environ.get("PYTHONPATH", ""))]
    if here not in (*named, Path(__file__).resolve().parents[1]):
        sys.path[:] = [entry for entry in sys.path if Path(entry).absolute() != here]


if __name__ == "__main__":
    main()
