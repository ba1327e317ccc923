"""Text from files as plain visible characters, and figures as words: what every form of the judgement shares."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from edgetool.figure import in_text

if TYPE_CHECKING:
    from collections.abc import Iterable

MESSAGE_LENGTH = 2000
NAME_LENGTH = 200

# Nothing to see, or it moves the text about: controls, formats (bidi), surrogates, private and unassigned characters,
# line and paragraph separators, spaces other than the common one.
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}


def visible(text: str, limit: int = MESSAGE_LENGTH) -> str:
    r"""The text in one line of characters that show; others as \x1b, \u202e; the middle of a long one cut."""
    safe = "".join(c if c == " " or unicodedata.category(c) not in _UNSEEN else _escaped(c) for c in text)
    if len(safe) <= limit:
        return safe
    keep = limit - 3
    return f"{safe[: keep // 2]}...{safe[-(keep - keep // 2) :]}"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def exact(value: float | int, unit: str | None) -> str:
    """1,234 B; 59.4 ms; 3.1 %; as it stands in a message."""
    number = f"{value:,}" if isinstance(value, int) else in_text(value)
    return f"{number} {unit}" if unit else number


def short_size(size: float | int) -> str:
    """18.2 KiB; 0 B."""
    for scale, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if abs(size) >= scale:
            return f"{in_text(size / scale)} {unit}"
    return f"{size:,} B"


def room(name: str, size_bytes: int, reserve_bytes: int) -> str:
    """What a memory offers, in words."""
    if not reserve_bytes:
        return f"{name} has {size_bytes:,} B"
    left = max(0, size_bytes - reserve_bytes)
    return f"{name} has {left:,} B available ({size_bytes:,} B minus {reserve_bytes:,} B reserved)"


def percent(part: float | int, whole: float | int) -> str:
    """2.9 %; nothing for a whole of nothing."""
    return f"{in_text(100 * part / whole)} %" if whole else ""


def sentence(parts: Iterable[str]) -> str:
    """The parts as one text, separated by semicolons."""
    return "; ".join(part for part in parts if part)


def duration(ms: float) -> str:
    """A time in the unit that reads best, to three digits: 1.2 s, 24 ms, 350 us."""
    value, unit = _scaled(ms)
    return exact(value, unit)


def as_given(ms: float) -> str:
    """A time that somebody wrote, with all its digits: 334.9 ms."""
    value, unit = _scaled(ms)
    return f"{value:.9g} {unit}"


def _scaled(ms: float) -> tuple[float, str]:
    for factor, unit in ((1e-3, "s"), (1.0, "ms")):
        if ms * factor >= 1:
            return ms * factor, unit
    return ms * 1e3, "us"
