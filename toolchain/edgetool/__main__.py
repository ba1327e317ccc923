"""The program: `edgetool`, or `python -m edgetool`."""

from __future__ import annotations

import os
import signal
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    """Run edgetool; a Ctrl-C while it is still being imported ends it without a traceback."""

    def leave(signum: int, frame: FrameType | None) -> None:
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, leave)
    from edgetool.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
