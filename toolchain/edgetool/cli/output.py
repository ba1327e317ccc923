"""Plain text for terminals, and where it goes: results on stdout, progress and notices on stderr.

Tables, sizes and names that come from files are formatted here.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

import click

from edgetool.figure import significant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType


MAX_WIDTH = 100
LABEL_COLUMNS = 12
MIN_TEXT_COLUMNS = 20


SIZE_UNITS = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
TIME_UNITS = ((1e3, "s"), (1.0, "ms"), (1e-3, "us"))
ENERGY_UNITS = ((1e6, "J"), (1e3, "mJ"), (1.0, "uJ"))
RATE_UNITS = ((1.0, "GB/s"), (1e-3, "MB/s"), (1e-6, "kB/s"), (1e-9, "B/s"))
MAC_RATE_UNITS = ((1.0, "GMAC/s"), (1e-3, "MMAC/s"), (1e-6, "kMAC/s"), (1e-9, "MAC/s"))
COUNT_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
LARGEST_SHOWN = 10_000  # in a smaller unit that several values share
LARGEST_SHOWN_WITH_TINY = 100_000
TINY = 0.01


def color() -> bool | None:
    """Return click.echo's colour argument: True, False, or None for colour on a terminal only.

    NO_COLOR turns colour off, FORCE_COLOR turns it on even in a pipe, and TERM=dumb turns it off, in this order; as in
    Python's own command-line tools, an empty variable counts as unset.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return False if is_dumb() else None


def is_dumb() -> bool:
    """Return whether the terminal declares that it understands no control sequences."""
    return os.environ.get("TERM") == "dumb"


def width() -> int:
    """Return the columns of the terminal; 80 if the output is not a terminal."""
    return min(shutil.get_terminal_size((80, 24)).columns, MAX_WIDTH)


def printable(text: str, limit: int = 60) -> str:
    """Return text from a file, safe on a terminal: control and non-ASCII characters escaped, the middle cut."""
    safe = "".join(c if " " <= c <= "~" else c.encode("unicode_escape", "backslashreplace").decode() for c in text)
    for command in ("::", "##"):  # these make CI runners interpret a line as a command
        safe = safe.replace(command, f"{command[0]}\\x{ord(command[1]):02x}")
    if len(safe) <= limit:
        return safe
    keep = limit - 3
    return f"{safe[: keep // 2]}...{safe[-(keep - keep // 2) :]}"


def grouped(number: int | float | None, unit: str = "") -> str:
    """Return "1,234 B"; "unknown" for None."""
    if number is None:
        return "unknown"
    return f"{number:,}{' ' + unit if unit else ''}"


def size_with_unit(size_bytes: int | None) -> str:
    """Return "12,345 B (12.1 KiB)"."""
    if size_bytes is None:
        return "unknown"
    if size_bytes < 1024:
        return f"{size_bytes:,} B"
    scaled, unit = (size_bytes / 2**20, "MiB") if size_bytes >= 2**20 else (size_bytes / 2**10, "KiB")
    return f"{size_bytes:,} B ({scaled:,.1f} {unit})"


def size_and_limit(size_bytes: int, limit_bytes: int | None) -> tuple[str, str]:
    """Return a size and its limit in one unit beside the bytes: 333,288 B (325 KiB), 2,097,152 B (2,048 KiB)."""
    if limit_bytes is None:
        return size_with_unit(size_bytes), ""
    shown = sizes([size_bytes, limit_bytes])
    size, limit = (
        f"{number:,} B" if text.endswith(" B") else f"{number:,} B ({text})"
        for number, text in zip((size_bytes, limit_bytes), shown, strict=True)
    )
    return size, limit


def short_size(size_bytes: int | None) -> str:
    """Return "12.1 KiB"."""
    if size_bytes is None:
        return "unknown"
    for scale, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size_bytes >= scale:
            return f"{significant(size_bytes / scale)} {unit}"
    return f"{size_bytes} B"


def sizes(sizes_bytes: Sequence[int | None], *, unit: bool = True) -> list[str]:
    """Return sizes to three digits in one unit for a column: 2,744 KiB and 694 KiB; "-" for None."""
    return _in_one_unit(sizes_bytes, SIZE_UNITS, 3, unit=unit)


def size_of_limit(needed_bytes: int, limit_bytes: int) -> str:
    """Return a size and its limit in one unit: 325 of 2,048 KiB."""
    needed, limit = sizes([needed_bytes, limit_bytes])
    return f"{needed.partition(' ')[0]} of {limit}"


def durations(times_ms: Sequence[float | None], digits: int = 2, *, unit: bool = True) -> list[str]:
    """Return times in one unit: 1,500 ms and 41 ms; "-" for None."""
    return _in_one_unit(times_ms, TIME_UNITS, digits, unit=unit)


def energies(energies_uj: Sequence[float | None], digits: int = 2, *, unit: bool = True) -> list[str]:
    """Return energies in one unit; "-" for None."""
    return _in_one_unit(energies_uj, ENERGY_UNITS, digits, unit=unit)


def common_unit(values: Sequence[float | None], units: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """Return the (factor, name) of the unit in which all values read best; units are given from largest to smallest.

    It is the largest unit in which the largest value is at least 1, or a smaller one while another value would be below
    1 and the largest stays readable.
    """
    positive = [abs(value) for value in values if value]
    largest, smallest = max(positive, default=0.0), min(positive, default=0.0)
    place = next((i for i, (factor, _) in enumerate(units) if float(f"{largest / factor:.3g}") >= 1), len(units) - 1)
    while place + 1 < len(units) and smallest < units[place][0]:
        allowed = LARGEST_SHOWN_WITH_TINY if smallest < TINY * units[place][0] else LARGEST_SHOWN
        if largest / units[place + 1][0] >= allowed:
            break
        place += 1
    return units[place]


def in_common_unit(
    values: Sequence[float | None], units: Sequence[tuple[float, str]], digits: int = 2
) -> Callable[[float], str]:
    """Return a formatter for these values, and others beside them, in their common unit."""
    unit = common_unit(values, units)
    return lambda value: _in_unit([value], unit, digits, unit=True)[0]


def mac_rate(gmacs_per_s: float) -> str:
    """Return a rate to three digits in the unit that reads best: 1.44 GMAC/s, 84.9 kMAC/s."""
    return in_common_unit([gmacs_per_s], MAC_RATE_UNITS, 3)(gmacs_per_s)


def _in_one_unit(
    values: Sequence[float | None], units: Sequence[tuple[float, str]], digits: int, *, unit: bool
) -> list[str]:
    return _in_unit(values, common_unit(values, units), digits, unit=unit)


def _in_unit(values: Sequence[float | None], in_unit: tuple[float, str], digits: int, *, unit: bool) -> list[str]:
    factor, name = in_unit
    suffix = f" {name}" if unit and name else ""
    return ["-" if value is None else f"{_scaled(value / factor, name, digits)}{suffix}" for value in values]


def _scaled(value: float, unit: str, digits: int) -> str:
    if unit in ("B", ""):
        return f"{value:,.0f}"
    return "0" if value == 0 else significant(value, digits)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> list[str]:
    """Return the lines of a table; `align` has one of < and > per column."""
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
    """Return the text in lines that fill the terminal."""
    lines = textwrap.wrap(
        text,
        max(width(), len(indent) + MIN_TEXT_COLUMNS),
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    return lines or [first or indent]


def fact(label: str, value: str, *, style: dict[str, Any] | None = None, bold: str = "") -> list[str]:
    """Return the line "  Label   value", wrapped below the value.

    style: click's, for the value alone. bold: the words with which the value begins and that matter most.
    """
    start = LABEL_COLUMNS + 2
    lines = wrapped(value, " " * start, f"  {label:<{LABEL_COLUMNS}}")
    if style is not None:
        return [line[:start] + click.style(line[start:], **style) for line in lines]
    if bold and lines[0][start:].startswith(bold):
        lines[0] = lines[0][:start] + click.style(bold, bold=True) + lines[0][start + len(bold) :]
    return lines


def duration(ms: float, digits: int = 2) -> str:
    """Return a time to the given digits in the unit that reads best: 2.1 s, 24 ms, 350 us, under 1 us."""
    for factor, unit in ((1e-3, "s"), (1.0, "ms"), (1e3, "us")):
        if float(f"{ms * factor:.3g}") >= 1:  # 999.7 us is shown as 1.0 ms
            return f"{significant(ms * factor, digits)} {unit}"
    return "under 1 us"


def energy(microjoules: float) -> str:
    """Return an energy to two digits in the unit that reads best: 1.2 J, 24 mJ, 350 uJ, under 1 uJ."""
    for factor, unit in ((1e-6, "J"), (1e-3, "mJ"), (1.0, "uJ")):
        if float(f"{microjoules * factor:.3g}") >= 1:
            return f"{significant(microjoules * factor, 2)} {unit}"
    return "under 1 uJ"


def print_lines(lines: Sequence[str]) -> None:
    """Print the lines of a view, coloured according to color(); nothing for no lines."""
    if not lines:
        return
    click.echo("\n".join(lines), color=color())


def deliver(
    text: str, output: Path | None, *, force: bool = False, quiet: bool = True, inputs: tuple[Path, ...] = ()
) -> None:
    """Print the text, or write it to a file, which must not be one of the inputs, and report that on stderr."""
    if output is None:
        click.echo(text, nl=False)
        return
    from edgetool.pipeline.output import write_file

    write_file(output, text.encode("utf-8"), force=force, inputs=inputs)
    if not quiet:
        notice(f"wrote {printable(str(output), 400)}")


def notice(text: str) -> None:
    """Print a line to stderr that is not part of the result."""
    click.echo(text, err=True, color=color())


class ProgressLine:
    """One line on stderr that shows the current step and its seconds.

    Nothing is shown if stderr is not a terminal, or one that cannot rewrite a line (TERM=dumb).
    """

    def __init__(self, *, quiet: bool) -> None:
        self._shown = sys.stderr.isatty() and not quiet and not is_dumb()
        self._started = time.monotonic()

    def __call__(self, step: str) -> None:
        """Show the step in place of the last one."""
        if self._shown:
            seconds = time.monotonic() - self._started
            sys.stderr.write(f"\r\x1b[2K{seconds:5.1f} s  {printable(step, 400)}")
            sys.stderr.flush()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def percent(share: float) -> str:
    """Return a share in percent to at most two significant digits: 5.4 %, 31 %, 0.1 %."""
    percent = 100 * share
    if 0 < percent < 0.1:
        return "<0.1 %"
    return f"{percent:.1f} %" if percent < 9.95 else f"{percent:.0f} %"
