"""The program as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def edgetool(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edgetool", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=dict(os.environ, **environment),
        timeout=120,
    )
