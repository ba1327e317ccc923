"""What a run of a sweep did, in a line."""

from __future__ import annotations

from pathlib import Path

from edgetool.cli.text import printable, wrapped
from edgetool.cli.view_sweep_progress import time_text
from edgetool.sweep.run import RunResult


def run_summary(result: RunResult, store: Path) -> list[str]:
    """Jobs computed, found done and failed, the time, and where all is kept."""
    parts = [f"{result.computed} jobs computed", f"{result.reused} reused"]
    if result.failed:
        parts.append(f"{result.failed} failed (--retry-failed tries again)")
    return wrapped(f"{', '.join(parts)}; {time_text(result.seconds)}; saved in {printable(str(store), 400)}", "  ")
