"""The program: `edgetool`, or `python -m edgetool`."""

from __future__ import annotations

import gc
import os
import signal
from types import FrameType

INTERRUPTED = 130
# Allocations between garbage collections: imports create many objects, but no garbage.
GC_THRESHOLD = 50_000


def main() -> None:
    """Run edgetool; a Ctrl-C while it is still being imported ends it without a traceback."""

    def leave(signum: int, frame: FrameType | None) -> None:
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, leave)
    gc.set_threshold(GC_THRESHOLD)
    from edgetool.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
