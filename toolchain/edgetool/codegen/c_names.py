"""Names and comments for C, from text that may be hostile: each result depends on its own text alone."""

from __future__ import annotations

import hashlib
import re

from edgetool.codegen.c_headers import is_taken
from edgetool.codegen.c_reserved import is_reserved

MAX_LENGTH = 31  # significant characters of an external name, ISO C99 5.2.4.1
HASH_DIGITS = 8
COMMENT_LENGTH = 120

# Letters, digits and single inner underscores: a double one is reserved in C++, and a trailing one would
# make a double one when a suffix is added.
_PORTABLE = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9])*", re.ASCII)
_NOT_IN_A_SLUG = re.compile(r"[^A-Za-z0-9]+")
_NOT_IN_A_COMMENT = re.compile(r'[^ -~]|[\\?"]')
_COMMENT_MARK = re.compile(r"(?<=/)(?=[*/])|(?<=\*)(?=/)")


def is_portable(name: str) -> bool:
    """Whether the name can be a C and C++ identifier, alone and with a suffix, wherever it is used."""
    return len(name) <= MAX_LENGTH and _PORTABLE.fullmatch(name) is not None and not is_reserved(name)


def identifier(name: str, prefix: str) -> str:
    """A C identifier of at most 31 characters for `name`.

    A portable name passes unchanged; any other becomes prefix, slug and 8 hex digits of its SHA-256, so
    applying it twice changes nothing. ValueError when the prefix leaves no room or is not portable.
    """
    return name if is_portable(name) else _hashed(name, prefix)


def macro_name(name: str, prefix: str) -> str:
    """The same for a macro, in capitals. Names that differ only in case share theirs."""
    macro = identifier(name, prefix).upper()
    return _hashed(name, prefix).upper() if is_reserved(macro) else macro


def model_identifier(name: str) -> str:
    """The identifier on which a model's files and functions build: NAME in NAME.h, NAME_model.c.

    Like identifier, but what would hide a header of the system is no name of a file either.
    """
    return _hashed(name, "model") if is_taken(name) else identifier(name, "model")


def model_macro(name: str) -> str:
    """The prefix of a model's macros: NAME in NAME_ARENA_BYTES."""
    return macro_name(name, "model")


def comment_text(text: str, limit: int = COMMENT_LENGTH) -> str:
    """The text fit for the inside of a comment: printable ASCII that cannot end, open or splice one.

    Other characters, backslashes, question marks and double quotes read as <U+XXXX>; comment marks are
    split by a space. What is longer than `limit` characters is cut and ends in "...".
    """
    spelled = _NOT_IN_A_COMMENT.sub(lambda found: f"<U+{ord(found[0]):04X}>", text[: limit + 1])
    split = _COMMENT_MARK.sub(" ", spelled)
    return split if len(split) <= limit else split[: limit - 3] + "..."


def _hashed(name: str, prefix: str) -> str:
    room = MAX_LENGTH - HASH_DIGITS - len(prefix) - 2
    if room < 0 or _PORTABLE.fullmatch(prefix) is None:
        raise ValueError(f"{prefix!r} cannot be the prefix of an identifier")
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]
    slug = _NOT_IN_A_SLUG.sub("_", name).strip("_")[:room].rstrip("_")
    return "_".join(part for part in (prefix, slug, digest) if part)
