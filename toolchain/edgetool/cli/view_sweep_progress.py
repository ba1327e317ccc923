"""The line that shows how far a sweep is, and its summary at the end."""

from __future__ import annotations

from edgetool.cli.text import printable, width
from edgetool.sweep.executor import Advance

MINUTE, HOUR, DAY = 60, 3600, 86400
CLOCK_COLUMNS = 10  # what output.ProgressLine writes before it


def progress_text(advance: Advance) -> str:
    """12/36 jobs, 1 failed, about 3 min left: convert level 0.25 int8; of the jobs that run those that fit one line."""
    room = max(width() - CLOCK_COLUMNS, 1)
    count = f"{advance.done}/{advance.total}"
    failed = [f"{advance.failed} failed"] if advance.failed else []
    is_timed = advance.seconds_left is not None and advance.done < advance.total
    left = [time_text(advance.seconds_left or 0.0)] if is_timed else []
    long = ", ".join([f"{count} jobs", *failed, *(f"about {text} left" for text in left)])
    short = ", ".join([count, *failed, *left])
    running = [printable(name, 400) for name in advance.running]
    some = [
        f"{', '.join(running[:shown])}{f', +{len(running) - shown}' if shown < len(running) else ''}"
        for shown in range(len(running), 0, -1)
    ]
    choices = [*(f"{long}: {names}" for names in some), *(f"{short}: {names}" for names in some[-1:]), long, short]
    return next((text for text in choices if len(text) <= room), short[:room])


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
