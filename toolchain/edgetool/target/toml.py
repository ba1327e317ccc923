"""Strict reading of the user's TOML files: profiles, settings, sweeps and custom operators.

Every problem is noted with its key, and reading continues, so that one pass finds all problems.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgetool.errors import Problem, UsageError, did_you_mean

MAX_FILE_BYTES = 2**20
MAX_DEPTH = 32  # of nested tables and lists; functions that read or print them may be recursive
MAX_INTEGER_BITS = 4096  # TOML's have 64 bits; Python reads longer ones in hex, and cannot print those of 4,300 digits

# The tokens of a TOML text: possible parts of a key, dots between them, spaces, and everything else.
_TOKEN = (
    r"""(?P<part>"{3}(?:[^\\]|\\.)*?(?:"{3,5}|\Z)|'{3}.*?(?:'{3,5}|\Z)|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
    r"""|(?P<dot>\.)|(?P<space>[ \t]+)|\#[^\n]*|[^A-Za-z0-9_"'.\# \t-]+|."""
)


def toml_text(blob: bytes, *, where: str, fix: str, error: type[UsageError]) -> str:
    """Return the text of a file. Raises `error`, with this location and advice, if it is too large or not UTF-8."""
    if len(blob) > MAX_FILE_BYTES:
        raise error(f"is larger than {MAX_FILE_BYTES:,} bytes", where=where, fix=fix)
    try:
        return blob.decode("utf-8-sig")  # some editors write a byte order mark
    except UnicodeDecodeError:
        raise error("is not a UTF-8 text file", where=where, fix=fix) from None


def toml_table(text: str, *, where: str, fix: str, error: type[UsageError]) -> dict[str, Any]:
    """Return the table that a text contains. Raises `error`; a syntax error states line and column."""
    if len(text) > MAX_FILE_BYTES:
        raise error(f"is larger than {MAX_FILE_BYTES:,} bytes", where=where, fix=fix)
    if _max_key_dots(text) > MAX_DEPTH:
        raise error("is not valid TOML: nested too deeply", where=where, fix=fix)
    import tomllib  # imported on use: a plan without a target reads no TOML

    try:
        table = tomllib.loads(text)
    except ValueError as reason:  # also if an integer has thousands of digits
        raise error(f"is not valid TOML: {str(reason).splitlines()[0][:200]}", where=where, fix=fix) from None
    except RecursionError:
        raise error("is not valid TOML: nested too deeply", where=where, fix=fix) from None
    problem = _limit_problem(table)
    if problem is not None:
        raise error(f"is not valid TOML: {problem}", where=where, fix=fix)
    return table


def _max_key_dots(text: str) -> int:
    """Return the maximum number of dots in a key: Python's reader needs time and memory that grow with its square."""
    max_dots = dots = 0
    for token in re.finditer(_TOKEN, text, re.DOTALL):
        kind = token.lastgroup
        if kind == "dot":
            dots += 1
            max_dots = max(max_dots, dots)
        elif kind is None:
            dots = 0
    return max_dots


def _limit_problem(table: dict[str, Any]) -> str | None:
    """Return why the table exceeds limits that no genuine file exceeds; None if it does not."""
    pending: list[tuple[Any, int]] = [(table, 1)]
    while pending:
        value, depth = pending.pop()
        if depth > MAX_DEPTH:
            return "nested too deeply"
        if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
            return "it contains an integer with thousands of digits"
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        pending += [(item, depth + 1) for item in children]
    return None


MAX_TEXT = 400  # characters of a text value; profiles are shown in reports
MAX_TABLES = 1000  # of one [[name]]
MAX_UNKNOWN = 20  # unknown keys of a table that are reported one by one
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.+_-]{0,62}[a-z0-9+])?")
_KINDS = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    dict: "a table",
    list: "a list",
}


@dataclass(slots=True)
class Section:
    """A table that is being read. Each read marks a key as taken; finish() reports the keys that were not read.

    Reading an invalid value notes a problem and returns a harmless stand-in, so that one pass finds all problems; the
    caller must not use the values if `problems` is not empty.
    """

    table: Mapping[str, Any]
    problems: list[Problem]
    path: str = ""
    taken: set[str] = field(default_factory=set)

    def key(self, name: str) -> str:
        """Return the key as it is in the user's file."""
        shown = name if name and name.isprintable() and len(name) <= 80 else repr(name[:80])
        return f"{self.path}.{shown}" if self.path else shown

    def note(self, name: str, what: str, fix: str | None = None) -> None:
        """Note a problem at a key of this table."""
        self.problems.append(Problem(self.key(name), what, fix))

    def has(self, name: str) -> bool:
        """Return whether the file sets the key."""
        return name in self.table

    def text(self, name: str, *, required: bool = True) -> str:
        """Return one line of printable text; "" if it is absent and not required."""
        value = self._value(name, str, required)
        if value is None:
            return ""
        if not value.strip() or len(value) > MAX_TEXT or not value.isprintable():
            self.note(name, f"must be one line of 1 to {MAX_TEXT} printable characters")
        return str(value)

    def name(self, name: str, *, required: bool = True) -> str:
        """Return a name: lower-case letters, digits, and -_.+ between them."""
        value = self.text(name, required=required)
        if value and not _NAME.fullmatch(value):
            self.note(
                name, f"{value[:80]!r} is not a valid name", "use lower-case letters, digits and hyphens, at most 64"
            )
        return value

    def choice(self, name: str, known: Collection[str], *, required: bool = True) -> str | None:
        """Return one of the known words; None if it is absent or invalid."""
        value: str | None = self._value(name, str, required)
        if value is None or value in known:
            return value
        self.note(name, f"{value[:80]!r} is not one of {', '.join(known)}", did_you_mean(value, known))
        return None

    def boolean(self, name: str, *, default: bool | None = None) -> bool:
        """Return true or false; the key is required unless it has a default."""
        value = self._value(name, bool, default is None)
        return bool(default) if value is None else bool(value)

    def integer(self, name: str, low: int, high: int) -> int:
        """Return a required integer from low to high."""
        value = self._value(name, int, True)
        if value is None:
            return low
        if not low <= value <= high:
            self.note(name, f"{_format_number(value)} is outside the range {low} to {high}")
            return low
        return int(value)

    def required_number(self, name: str, low: float, high: float) -> float:
        """Return a required finite number from low to high."""
        value = self._value(name, float, True)
        if value is None:
            return low
        if not low <= value <= high:  # NaN is outside, and an integer may be too large for a float
            self.note(name, f"{_format_number(value)} is outside the range {low:g} to {high:g}")
            return low
        return float(value)

    def number(self, name: str, low: float, high: float) -> float | None:
        """Return a finite number from low to high; None if it is absent."""
        return self.required_number(name, low, high) if self.has(name) else None

    def pair(self, name: str, low: float, high: float) -> tuple[float, float]:
        """Return a required list of two finite numbers from low to high, the smaller one first."""
        value = self._value(name, list, True)
        if value is None:
            return low, high
        if len(value) != 2 or not all(type(item) in (int, float) and low <= item <= high for item in value):
            self.note(name, f"must be two numbers from {low:g} to {high:g}")
            return low, high
        if value[0] > value[1]:
            self.note(name, f"{value[0]:g} is greater than {value[1]:g}: put the smaller number first")
        return float(value[0]), float(value[1])

    def quantity(
        self,
        name: str,
        parse: Callable[[str], int],
        show: Callable[[int], str],
        low: int,
        high: int,
        *,
        required: bool = True,
    ) -> int | None:
        """Return text with a unit, or an integer in the base unit, from low to high; None if absent or invalid."""
        if not self.has(name) and not required:
            return None
        self.taken.add(name)
        value = self.table.get(name)
        if value is None:
            self.note(name, "is missing")
            return None
        if isinstance(value, str):
            try:
                number = parse(value)
            except UsageError as error:
                self.note(name, error.what, error.fix)
                return None
        elif type(value) is int:
            number = value
        else:
            self.note(name, f'must be a string with a unit, such as "{show(high)}"')
            return None
        if not low <= number <= high:
            shown = repr(value) if isinstance(value, str) else _format_number(number)
            self.note(
                name, f"{shown} is outside the range {show(low)} to {show(high)}", "specify the unit with the number"
            )
            return None
        return number

    def address(self, name: str) -> int | None:
        """Return an optional 32-bit address."""
        return self.integer(name, 0, 2**32 - 1) if self.has(name) else None

    def strings(self, name: str) -> tuple[str, ...]:
        """Return a required, non-empty list of strings."""
        value = self._value(name, list, True)
        if value is None:
            return ()
        if not value or not all(isinstance(item, str) for item in value):
            self.note(name, "must be a non-empty list of strings")
            return ()
        return tuple(value)

    def names(self, name: str, *, required: bool = True) -> tuple[tuple[str, str], ...]:
        """Return a table of identifiers by name, as pairs in the file's order."""
        value = self._value(name, dict, required)
        if value is None:
            return ()
        pairs = []
        for key, item in value.items():
            if isinstance(item, str) and item.isidentifier():
                pairs.append((key, item))
            else:
                self.note(f"{name}.{key}", "must be the name of a method")
        return tuple(pairs)

    def entries(self, name: str, *, required: bool = True) -> tuple[tuple[str, str], ...]:
        """Return a table of strings by name, which may be empty, as pairs in the file's order."""
        value = self._value(name, dict, required)
        if value is None:
            return ()
        pairs = []
        for key, item in value.items():
            if isinstance(item, str):
                pairs.append((key, item))
            else:
                self.note(f"{name}.{key}", f"must be a string, not {_KINDS.get(type(item), 'a date')}")
        return tuple(pairs)

    def section(self, name: str) -> Section:
        """Return a required table."""
        value = self._value(name, dict, True)
        return Section({} if value is None else value, [] if value is None else self.problems, self.key(name))

    def optional(self, name: str) -> Section | None:
        """Return a table; None if it is absent or not a table."""
        value = self._value(name, dict, False)
        return None if value is None else Section(value, self.problems, self.key(name))

    def sections(self, name: str) -> tuple[Section, ...]:
        """Return an optional array of tables ([[name]])."""
        value = self._value(name, list, False)
        if value is None:
            return ()
        if not all(isinstance(item, dict) for item in value):
            self.note(name, f"must be written as [[{name}]] tables")
            return ()
        if len(value) > MAX_TABLES:
            self.note(name, f"has {len(value):,} tables; at most {MAX_TABLES:,} are allowed")
            return ()
        return tuple(Section(item, self.problems, f"{self.key(name)}[{i}]") for i, item in enumerate(value))

    def items(self, name: str, maximum: int) -> Section:
        """Return an optional list of at most `maximum` values as a section with a key for each, as in "scratch[0]"."""
        value = self._value(name, list, False) or []
        if len(value) > maximum:
            self.note(name, f"has {len(value)} values; at most {maximum} are allowed")
            value = []
        return Section({f"{name}[{i}]": item for i, item in enumerate(value)}, self.problems, self.path)

    def finish(self) -> None:
        """Note each unknown key; if there are too many, only the first ones and the number of the rest."""
        unknown = [name for name in self.table if name not in self.taken]
        for name in unknown[:MAX_UNKNOWN]:
            self.note(name, "unknown key", did_you_mean(name, self.taken))
        if unknown[MAX_UNKNOWN:]:
            self.note(unknown[MAX_UNKNOWN], f"unknown key, and {len(unknown) - MAX_UNKNOWN - 1:,} more")

    def _value(self, name: str, kind: type, required: bool) -> Any:
        self.taken.add(name)
        value = self.table.get(name)
        if value is None:
            if required:
                self.note(name, "is missing")
            return None
        # bool is an int in Python but not in TOML; an integer is accepted as a number.
        if type(value) is kind or (kind is float and type(value) is int):
            return value
        self.note(name, f"must be {_KINDS[kind]}, not {_KINDS.get(type(value), 'a date')}")
        return None


def _format_number(value: float) -> str:
    """Return the number for a message, which stays readable for an integer of a hundred digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value) if abs(value) < 10**18 else "a huge number"
