"""The values of a sweep.toml's keys: what each may be, and what is said of one that is not."""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

from edgetool.convert.request import Value
from edgetool.errors import EdgetoolError, UsageError
from edgetool.gate.limits import parse_percent
from edgetool.pipeline.files import check_readable
from edgetool.target.quantity import (
    ENERGY_EXPECTED,
    LONG_TIME_EXPECTED,
    SIZE_EXPECTED,
    TIME_EXPECTED,
    parse_energy,
    parse_long_time,
    parse_size,
    parse_time,
)
from edgetool.target.schema import Section, did_you_mean

T = TypeVar("T")

MAX_TEXT = 1000  # characters of a parameter's value
MAX_JOB_SECONDS = 30 * 24 * 3600
ACCURACY_EXPECTED = 'an accuracy such as 0.9 or "90%"'
BUILDER_EXPECTED = 'a builder such as "module:function"'
LOSS_EXPECTED = 'percentage points such as "2%"'


def value_of(section: Section, name: str, parse: Callable[[object], T]) -> T | None:
    """What parse makes of the key's value; None when it is absent, or refused with a UsageError, which is noted."""
    section.taken.add(name)
    if not section.has(name):
        return None
    try:
        return parse(section.table[name])
    except UsageError as error:
        section.note(name, error.what, error.fix)
        return None


def list_of(section: Section, name: str, parse: Callable[[object], T], example: str) -> tuple[T, ...] | None:
    """A list of distinct values, not empty; None when it is absent or wrong. A wrong item is noted by its place."""
    section.taken.add(name)
    if not section.has(name):
        return None
    items = section.table[name]
    if not isinstance(items, list) or not items:
        section.note(name, "is an empty list" if items == [] else f"must be a list, not {_shown(items)}", example)
        return None
    before, found, shown = len(section.problems), list[T](), list[str]()
    for i, item in enumerate(items):
        place = f"{name}[{i}]"
        try:
            parsed = parse(item)
        except UsageError as error:
            section.note(place, error.what, error.fix)
            continue
        if parsed in found:
            # 1, 1.0 and true are equal: tables and fronts would take their variants for one.
            same = shown[found.index(parsed)]
            as_what = f": it equals {same}" if same != _shown(item) else ""
            section.note(place, f"{_shown(item)} is listed twice{as_what}", "remove one of them")
        found.append(parsed)
        shown.append(_shown(item))
    return tuple(found) if len(section.problems) == before else None


def word(known: Collection[str]) -> Callable[[object], str]:
    """One of the known words."""

    def parse(value: object) -> str:
        if isinstance(value, str) and value in known:
            return value
        guess = did_you_mean(value, known) if isinstance(value, str) else None
        raise UsageError(f"{_shown(value)} is not one of {', '.join(known)}", fix=guess)

    return parse


def whole(low: int, high: int) -> Callable[[object], int]:
    """An integer from low to high."""

    def parse(value: object) -> int:
        if type(value) is int and low <= value <= high:
            return value
        raise UsageError(f"{_shown(value)} is not an integer from {low} to {high}")

    return parse


def between(low: float, high: float) -> Callable[[object], float]:
    """A number from low to high."""

    def parse(value: object) -> float:
        number = _number(value)
        if number is None or not low <= number <= high:  # nor is NaN
            raise UsageError(f"{_shown(value)} is not a number from {low:g} to {high:g}")
        return number

    return parse


def pattern(value: object) -> str:
    """A name or pattern: a line of printable text."""
    text = _text(value, "a string")
    if len(text) > MAX_TEXT or not text.isprintable():
        raise UsageError(f"{_shown(value)} is not a single line of at most {MAX_TEXT} printable characters")
    return text


def is_name(text: str) -> bool:
    """Whether Python takes it for a parameter."""
    return text.isidentifier() and not keyword.iskeyword(text)


def module_and_function(value: object) -> tuple[str, str]:
    """Both of "module:function"."""
    module, colon, function = _text(value, BUILDER_EXPECTED).partition(":")
    if not colon or not is_name(module) or not is_name(function):
        raise UsageError(
            f"{_shown(value)} is not {BUILDER_EXPECTED}", fix="module.py must be in the folder of the sweep.toml"
        )
    return module, function


def level(value: object) -> float:
    """A share of the channels: from 0 to below 1."""
    number = _number(value)
    if number is None or not 0 <= number < 1:
        raise UsageError(
            f"{_shown(value)} is not a level: a number in the range 0 to less than 1",
            fix="0.25 removes a quarter of the channels",
        )
    return number + 0.0  # of -0.0 it makes 0.0


def parameter(value: object) -> Value:
    """A value that the builder is called with: a finite number, a text or a boolean."""
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise UsageError(f"is a string of more than {MAX_TEXT} characters")
    if isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise UsageError(f"{_shown(value)} is not a finite number, a string or a boolean")


def numbers(value: object) -> tuple[float, ...]:
    """A finite number, or a list of them."""
    found = [_number(item) for item in (value if isinstance(value, list) else [value])]
    finite = [number for number in found if number is not None and math.isfinite(number)]
    if not found or len(finite) < len(found):
        raise UsageError(
            f"{_shown(value)} is not a number or a list of numbers", fix="use one number, or one per channel"
        )
    return tuple(finite)


def size_bytes(value: object) -> int:
    """A size in bytes: "64KiB" or a number of bytes."""
    if type(value) is int and value >= 0:
        return value
    return parse_size(_text(value, SIZE_EXPECTED))


def latency_ms(value: object) -> float:
    """A time above 0, in milliseconds."""
    return _above_zero(parse_time(_text(value, TIME_EXPECTED)), value)


def energy_uj(value: object) -> float:
    """An energy above 0, in microjoules."""
    return _above_zero(parse_energy(_text(value, ENERGY_EXPECTED)), value)


def accuracy(value: object) -> float:
    """A share from 0 to 1: 0.9 or "90%"."""
    number = parse_percent(value) / 100 if isinstance(value, str) else _number(value)
    if number is None or not 0 <= number <= 1:
        raise UsageError(f"{_shown(value)} is not {ACCURACY_EXPECTED}")
    return number


def accuracy_loss(value: object) -> float:
    """Percentage points: "2%"."""
    return parse_percent(_text(value, LOSS_EXPECTED))


def job_seconds(value: object) -> float:
    """How long a job may take: "1h", or a number of seconds."""
    number = parse_long_time(value) if isinstance(value, str) else _number(value)
    if number is None or not 0 < number <= MAX_JOB_SECONDS:
        raise UsageError(f"{_shown(value)} is not a number of seconds or {LONG_TIME_EXPECTED}, up to 30 days")
    return number


def path_in(folder: Path, *, suffix: str = "") -> Callable[[object], Path]:
    """A path of a file or directory that can be read, relative to the sweep.toml's folder."""

    def parse(value: object) -> Path:
        path = folder / _text(value, "a path", quote=True)
        try:
            check_readable(path)
        except EdgetoolError as error:
            fix = "paths are relative to the sweep.toml's folder"
            raise UsageError(f"{_shown(value)} {error.what}", fix=fix) from None
        if suffix and (path.is_dir() or path.suffix.lower() != suffix):
            raise UsageError(f"{_shown(value)} is not an {suffix} file")
        return path

    return parse


def _number(value: object) -> float | None:
    """A TOML integer or float; of an integer too large for a float, infinity."""
    if type(value) is float:
        return value
    if type(value) is not int:
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _text(value: object, expected: str, *, quote: bool = False) -> str:
    if isinstance(value, str) and value.strip():
        return value
    raise UsageError(f"{_shown(value)} is not {expected}{', in quotes' if quote else ''}")


def _above_zero(number: float, value: object) -> float:
    if number <= 0:
        raise UsageError(f"{_shown(value)} is too small", fix="use more than 0")
    return number


def _shown(value: Any) -> str:
    """The value for a message, as TOML has it where that differs, and short."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
