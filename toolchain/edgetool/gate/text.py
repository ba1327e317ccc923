"""Text in messages: names from files as visible characters, and sizes and times with their units."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from edgetool.figure import in_text

if TYPE_CHECKING:
    from collections.abc import Iterable

MESSAGE_LENGTH = 2000
NAME_LENGTH = 200

# Categories of characters that are invisible or affect the display of other text: controls, formats (bidi), surrogates,
# private and unassigned characters, line and paragraph separators, spaces other than U+0020.
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}


def visible(text: str, limit: int = MESSAGE_LENGTH) -> str:
    r"""Return the text as one line of visible characters.

    Other characters are escaped, as in \x1b or \u202e, and the middle of a longer text is omitted.
    """
    safe = "".join(c if c == " " or unicodedata.category(c) not in _INVISIBLE else _escaped(c) for c in text)
    if len(safe) <= limit:
        return safe
    keep = limit - 3
    return f"{safe[: keep // 2]}...{safe[-(keep - keep // 2) :]}"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def exact(value: float | int, unit: str | None) -> str:
    """Return a value with its unit: 1,234 B; 59.4 ms; 3.1 %."""
    number = f"{value:,}" if isinstance(value, int) else in_text(value)
    return f"{number} {unit}" if unit else number


def short_size(size: float | int) -> str:
    """Return a size in the unit that reads best, to three digits: 18.2 KiB; 0 B."""
    for scale, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if abs(size) >= scale:
            return f"{in_text(size / scale)} {unit}"
    return f"{size:,} B"


def room(name: str, size_bytes: int, reserve_bytes: int) -> str:
    """Return how much of a memory is available after the reserve, in words."""
    if not reserve_bytes:
        return f"{name} has {size_bytes:,} B"
    available = max(0, size_bytes - reserve_bytes)
    return f"{name} has {available:,} B available ({size_bytes:,} B minus {reserve_bytes:,} B reserved)"


def percent(part: float | int, whole: float | int) -> str:
    """Return a share to three digits: 2.9 %; an empty text if the whole is 0."""
    return f"{in_text(100 * part / whole)} %" if whole else ""


def sentence(parts: Iterable[str]) -> str:
    """Join the parts that are not empty with semicolons."""
    return "; ".join(part for part in parts if part)


def duration(ms: float) -> str:
    """Return a time in the unit that reads best, to three digits: 1.2 s, 24 ms, 350 us."""
    value, unit = _scaled(ms)
    return exact(value, unit)


def as_given(ms: float) -> str:
    """Return a time that the user specified, with all its digits: 334.9 ms."""
    value, unit = _scaled(ms)
    return f"{value:.9g} {unit}"


def _scaled(ms: float) -> tuple[float, str]:
    for factor, unit in ((1e-3, "s"), (1.0, "ms")):
        if ms * factor >= 1:
            return ms * factor, unit
    return ms * 1e3, "us"
