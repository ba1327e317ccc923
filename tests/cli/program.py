"""The program as a user starts it, and its command line without a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.in_process import captured


def edgetool(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """`edgetool ARGUMENTS` in this process: starting Python takes longer than most commands."""
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(cwd or "."):
        for name, value in environment.items():
            patch.setenv(name, value)
        return captured(*arguments)


def process(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """`edgetool ARGUMENTS` in a process of its own, as a user starts it."""
    return subprocess.run(
        [sys.executable, "-m", "edgetool", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=dict(os.environ, **environment),
        timeout=120,
    )
