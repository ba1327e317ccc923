"""Plain text for terminals: tables, sizes, and names that come from files."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any

import click

MAX_WIDTH = 100
LABEL_COLUMNS = 12
LEAST_TEXT_COLUMNS = 20


def color() -> bool | None:
    """What click.echo takes: colours only on a terminal, and none with NO_COLOR."""
    return False if os.environ.get("NO_COLOR") else None


def width() -> int:
    """Columns to fill; 80 when the output is not a terminal."""
    return min(shutil.get_terminal_size((80, 24)).columns, MAX_WIDTH)


def printable(text: str, limit: int = 60) -> str:
    """Text from a file, safe on a terminal: control and non-ASCII characters escaped, the middle cut."""
    safe = "".join(c if " " <= c <= "~" else c.encode("unicode_escape", "backslashreplace").decode() for c in text)
    for command in ("::", "##"):  # with which a line, or what stands in it, is a command to a CI runner
        safe = safe.replace(command, f"{command[0]}\\x{ord(command[1]):02x}")
    if len(safe) <= limit:
        return safe
    keep = limit - 3
    return f"{safe[: keep // 2]}...{safe[-(keep - keep // 2) :]}"


def grouped(number: int | float | None, unit: str = "") -> str:
    """1,234 B; "unknown" for None."""
    if number is None:
        return "unknown"
    return f"{number:,}{' ' + unit if unit else ''}"


def kib(size_bytes: int | None) -> str:
    """12,345 B (12.1 KiB)."""
    if size_bytes is None:
        return "unknown"
    if size_bytes < 1024:
        return f"{size_bytes:,} B"
    scaled, unit = (size_bytes / 2**20, "MiB") if size_bytes >= 2**20 else (size_bytes / 2**10, "KiB")
    return f"{size_bytes:,} B ({scaled:,.1f} {unit})"


def short_size(size_bytes: int | None) -> str:
    """12.1 KiB."""
    if size_bytes is None:
        return "unknown"
    for scale, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size_bytes >= scale:
            return f"{significant(size_bytes / scale)} {unit}"
    return f"{size_bytes} B"


def significant(value: float, digits: int = 3) -> str:
    """The value to so many significant digits, without an exponent where it stays readable."""
    if value != 0 and (abs(value) >= 1e9 or abs(value) < 1e-4):
        return f"{value:.{digits - 1}e}"
    exponent = int(f"{value:.{digits - 1}e}".rpartition("e")[2])  # of the rounded value: 9.996 is 10.0
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> list[str]:
    """Lines of a table; align has one of < and > per column."""
    cells = [list(header), *(list(row) for row in rows)]
    if any(len(row) != len(align) for row in cells):
        raise ValueError(f"a table of {len(align)} columns with a row of another length")
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = []
    for row in cells:
        parts = [f"{cell:{align[i]}{widths[i]}}" for i, cell in enumerate(row)]
        lines.append("  ".join(parts).rstrip())
    lines[0] = click.style(lines[0], bold=True)
    return lines


def wrapped(text: str, indent: str, first: str | None = None) -> list[str]:
    """The text in lines that fill the terminal."""
    lines = textwrap.wrap(
        text,
        max(width(), len(indent) + LEAST_TEXT_COLUMNS),
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    return lines or [first or indent]


def fact(label: str, value: str, *, style: dict[str, Any] | None = None) -> list[str]:
    """One line "  Label   value", wrapped below the value; style is click's, for the value alone."""
    start = LABEL_COLUMNS + 2
    lines = wrapped(value, " " * start, f"  {label:<{LABEL_COLUMNS}}")
    return lines if style is None else [line[:start] + click.style(line[start:], **style) for line in lines]


def duration(ms: float, digits: int = 2) -> str:
    """A time to so many digits, in the unit that reads best: 2.1 s, 24 ms, 350 us, under 1 us."""
    for factor, unit in ((1e-3, "s"), (1.0, "ms"), (1e3, "us")):
        if float(f"{ms * factor:.3g}") >= 1:  # 999.7 us are 1.0 ms
            return f"{significant(ms * factor, digits)} {unit}"
    return "under 1 us"


def energy(microjoules: float) -> str:
    """An energy to two digits, in the unit that reads best: 1.2 J, 24 mJ, 350 uJ, under 1 uJ."""
    for factor, unit in ((1e-6, "J"), (1e-3, "mJ"), (1.0, "uJ")):
        if float(f"{microjoules * factor:.3g}") >= 1:
            return f"{significant(microjoules * factor, 2)} {unit}"
    return "under 1 uJ"
