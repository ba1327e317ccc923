"""The line that shows how far a sweep is, and its summary at the end."""

from __future__ import annotations

from edgetool.cli.text import printable, width
from edgetool.sweep.progress import Advance

MINUTE, HOUR, DAY = 60, 3600, 86400
CLOCK_COLUMNS = 10  # what output.ProgressLine writes before it


def progress_text(advance: Advance) -> str:
    """12/36 jobs, 1 failed, about 3 min left: converting p25 int8; as much of it as fits one line."""
    parts = [f"{advance.done}/{advance.total} jobs"]
    if advance.failed:
        parts.append(f"{advance.failed} failed")
    if advance.seconds_left is not None and advance.done < advance.total:
        parts.append(f"about {time_text(advance.seconds_left)} left")
    text = ", ".join(parts) + (f": {', '.join(advance.running)}" if advance.running else "")
    return printable(text, 400)[: max(width() - CLOCK_COLUMNS, 1)]


def time_text(seconds: float) -> str:
    """A stretch of time to two parts at most: 45 s, 3 min, 1 h 20 min, 2 d 3 h."""
    whole = max(round(seconds), 1)
    if whole < MINUTE:
        return f"{whole} s"
    minutes = round(whole / MINUTE)
    if minutes < 60:
        return f"{minutes} min"
    if whole < DAY:
        return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    hours = round(whole / HOUR)
    return f"{hours // 24} d" + (f" {hours % 24} h" if hours % 24 else "")
