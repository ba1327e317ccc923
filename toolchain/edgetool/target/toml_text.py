"""A TOML text of the user's as a table: profiles, settings, sweeps and custom operators are all read by this."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from edgetool.errors import UsageError

MAX_FILE_BYTES = 2**20
MAX_DEPTH = 32  # of tables and lists within each other; what reads or prints them may be recursive
MAX_INTEGER_BITS = 4096  # TOML's have 64; Python reads longer ones in hex, and cannot print those of 4,300 digits

# A TOML text as tokens: what can be a part of a key, the dots between them, spaces, and everything else.
_TOKEN = re.compile(
    r"""(?P<part>"{3}(?:[^\\]|\\.)*?(?:"{3,5}|\Z)|'{3}.*?(?:'{3,5}|\Z)|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
    r"""|(?P<dot>\.)|(?P<space>[ \t]+)|\#[^\n]*|[^A-Za-z0-9_"'.\# \t-]+|.""",
    re.DOTALL,
)


def toml_text(blob: bytes, *, where: str, fix: str, error: type[UsageError]) -> str:
    """The text of a file. Raises `error`, with this place and advice, for what is too large or no UTF-8."""
    if len(blob) > MAX_FILE_BYTES:
        raise error(f"is larger than {MAX_FILE_BYTES:,} bytes", where=where, fix=fix)
    try:
        return blob.decode("utf-8-sig")  # some editors mark their files
    except UnicodeDecodeError:
        raise error("is not a UTF-8 text file", where=where, fix=fix) from None


def toml_table(text: str, *, where: str, fix: str, error: type[UsageError]) -> dict[str, Any]:
    """The table that a text states. Raises `error`; a syntax error names line and column."""
    if len(text) > MAX_FILE_BYTES:
        raise error(f"is larger than {MAX_FILE_BYTES:,} bytes", where=where, fix=fix)
    if _longest_key(text) > MAX_DEPTH:
        raise error("is not valid TOML: nested too deeply", where=where, fix=fix)
    try:
        table = tomllib.loads(text)
    except ValueError as reason:  # also where an integer has thousands of digits
        raise error(f"is not valid TOML: {str(reason).splitlines()[0][:200]}", where=where, fix=fix) from None
    except RecursionError:
        raise error("is not valid TOML: nested too deeply", where=where, fix=fix) from None
    problem = _beyond_limits(table)
    if problem is not None:
        raise error(f"is not valid TOML: {problem}", where=where, fix=fix)
    return table


def _longest_key(text: str) -> int:
    """The most dots in a key: the time and memory that Python's reader takes for one grow with their square."""
    longest = dots = 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "dot":
            dots += 1
            longest = max(longest, dots)
        elif kind is None:
            dots = 0
    return longest


def _beyond_limits(table: dict[str, Any]) -> str | None:
    """What no honest file has."""
    left: list[tuple[Any, int]] = [(table, 1)]
    while left:
        value, depth = left.pop()
        if depth > MAX_DEPTH:
            return "nested too deeply"
        if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
            return "it contains an integer with thousands of digits"
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        left += [(item, depth + 1) for item in inside]
    return None
