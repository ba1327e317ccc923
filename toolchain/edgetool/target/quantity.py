"""Parse and format sizes, clocks, times and energies as people write them: "64KiB", "480 MHz", "12.3ms", "500uJ"."""

from __future__ import annotations

import re
from collections.abc import Mapping

from edgetool.errors import UsageError

# kB, MB and GB are powers of ten (SI), KiB, MiB and GiB powers of two (IEC 80000-13).
SIZE_UNITS: Mapping[str, int] = {
    "B": 1,
    "kB": 10**3,
    "KiB": 2**10,
    "MB": 10**6,
    "MiB": 2**20,
    "GB": 10**9,
    "GiB": 2**30,
}
CLOCK_UNITS: Mapping[str, int] = {"Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9}
# In nanoseconds. Only these spellings: "Ms" would be a megasecond.
TIME_UNITS: Mapping[str, int] = {
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "\u00b5s": 10**3,  # micro sign
    "\u03bcs": 10**3,  # Greek mu, which keyboards give as well
    "ns": 1,
}
LONG_TIME_UNITS: Mapping[str, int] = {**TIME_UNITS, "min": 60 * 10**9, "h": 3600 * 10**9}
# In nanojoules. Only these spellings: "MJ" would be a megajoule.
ENERGY_UNITS: Mapping[str, int] = {
    "J": 10**9,
    "mJ": 10**6,
    "uJ": 10**3,
    "\u00b5J": 10**3,
    "\u03bcJ": 10**3,
    "nJ": 1,
}

SIZE_EXPECTED = "a size such as 65536, 64KiB or 64kB"
CLOCK_EXPECTED = "a clock such as 480MHz or 480000000"
TIME_EXPECTED = "a time with a unit, such as 12.3ms, 350us or 1s"
LONG_TIME_EXPECTED = "a time with a unit, such as 90s, 30min or 1h"
ENERGY_EXPECTED = "an energy with a unit, such as 500uJ or 1.2mJ"

MAX_CHARACTERS = 40  # no genuine quantity is longer, and long digit strings are slow to convert
_QUANTITY = re.compile("([0-9]+)(?:[.]([0-9]+))? ?([A-Za-z\u00b5\u03bc]*)")


def parse_size(text: str) -> int:
    """Return the bytes of "65536", "64KiB", "64 kB", "1.5MiB"; units in any case. Raises UsageError.

    "64K" is rejected, because some read it as 64,000 and others as 65,536.
    """
    number, scale, unit = _split(text, SIZE_EXPECTED)
    if unit.lower() in {"k", "m", "g"}:
        two, ten = f"{unit.upper()}iB", "kB" if unit in "kK" else f"{unit.upper()}B"
        raise UsageError(
            f"{text.strip()!r} is ambiguous: write {two} for {SIZE_UNITS[two]:,} bytes or {ten} for {SIZE_UNITS[ten]:,}"
        )
    return _integer(number * _factor(unit or "B", SIZE_UNITS, text, SIZE_EXPECTED), scale, text, "bytes")


def parse_clock(text: str) -> int:
    """Return the hertz of "480 MHz", "480MHz", "480000000"; units in any case. Raises UsageError; never 0."""
    number, scale, unit = _split(text, CLOCK_EXPECTED)
    hertz = _integer(number * _factor(unit or "Hz", CLOCK_UNITS, text, CLOCK_EXPECTED), scale, text, "hertz")
    if hertz == 0:
        raise UsageError(f"{text.strip()!r} is not {CLOCK_EXPECTED}: it must not be 0")
    return hertz


def parse_time(text: str) -> float:
    """Return the milliseconds of "12.3ms", "1 s", "350us"; a unit is required, in lower case. Raises UsageError."""
    return _in_base_unit(text, TIME_UNITS, "ms", TIME_EXPECTED)


def parse_long_time(text: str) -> float:
    """Return the seconds of "1h", "30 min", "90s", "500ms"; a unit is required, in lower case. Raises UsageError."""
    return _in_base_unit(text, LONG_TIME_UNITS, "s", LONG_TIME_EXPECTED)


def parse_energy(text: str) -> float:
    """Return the microjoules of "500uJ", "1.2 mJ"; a unit is required, spelt as it is defined. Raises UsageError."""
    return _in_base_unit(text, ENERGY_UNITS, "uJ", ENERGY_EXPECTED)


def format_size(size_bytes: int) -> str:
    """Return the exact size in the largest binary unit that divides it: "512 KiB", "65000 B"."""
    for unit in ("GiB", "MiB", "KiB"):
        count, rest = divmod(size_bytes, SIZE_UNITS[unit])
        if count and not rest:
            return f"{count} {unit}"
    return f"{size_bytes} B"


def format_clock(clock_hz: int) -> str:
    """Return the exact clock in the largest unit that keeps at most three decimals: "480 MHz", "1.008 GHz"."""
    for unit in ("GHz", "MHz", "kHz"):
        thousandths, rest = divmod(clock_hz * 1000, CLOCK_UNITS[unit])
        if thousandths >= 1000 and not rest:
            whole, part = divmod(thousandths, 1000)
            decimals = f".{part:03}".rstrip("0") if part else ""
            return f"{whole}{decimals} {unit}"
    return f"{clock_hz} Hz"


def _split(text: str, expected: str) -> tuple[int, int, str]:
    """Return the digits as an integer, the power of ten to divide it by, and the unit, "" if there is none."""
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= MAX_CHARACTERS else None
    if match is None:
        stripped = text.strip()
        shown = stripped if len(stripped) <= MAX_CHARACTERS else stripped[: MAX_CHARACTERS - 3] + "..."
        raise UsageError(f"{shown!r} is not {expected}")
    decimals = match[2] or ""
    return int(match[1] + decimals), 10 ** len(decimals), match[3]


def _in_base_unit(text: str, units: Mapping[str, int], base: str, expected: str) -> float:
    """Return the quantity in its base unit; a unit is required, in this spelling ("mJ", not "MJ")."""
    number, scale, unit = _split(text, expected)
    factor = units.get(unit)
    if factor is None:
        raise UsageError(f"{text.strip()!r} is not {expected}")
    return number * factor / (scale * units[base])


def _factor(unit: str, units: Mapping[str, int], text: str, expected: str) -> int:
    for name, factor in units.items():
        if name.lower() == unit.lower():
            return factor
    raise UsageError(f"{text.strip()!r} is not {expected}")


def _integer(value: int, scale: int, text: str, unit: str) -> int:
    whole, rest = divmod(value, scale)
    if rest:
        raise UsageError(f"{text.strip()!r} is not an integer number of {unit}")
    return whole
