"""Comments and macros of a C header."""

from __future__ import annotations


def comment(lines: list[str]) -> str:
    """A comment of these lines, which must be harmless (c_names.comment_text)."""
    return "/*\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"


def defines(*macros: tuple[str, int | str]) -> str:
    """One #define for each macro and its value."""
    return "".join(f"#define {name} {value}\n" for name, value in macros)
