"""The C, C++, assembler and CMake files of this package, and how their placeholders are filled.

A template is a file as edgetool would write it for a model called my_model, so that compilers and formatters can read
it. These parts of it are replaced:

- `my_model` or `MY_MODEL`, wherever it is a whole part of a name between underscores: by a name, a number or words.
- A line `// MY_ROWS`: by whole lines.
- The lines between `#if MY_STATE` and `#endif`: they are kept if the value is true; otherwise those after `#else` are.
  If the value is a sequence, they are repeated for each item, whose values apply in addition.

Other lines that start with `//` are for readers of the template, and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

from edgetool.errors import InternalError

TemplateValue: TypeAlias = "str | int | Sequence[Mapping[str, TemplateValue]]"

# In assembler, a local label starts with .L.
_PLACEHOLDER = re.compile(r"(?:(?<![A-Za-z0-9])|(?<=\.L))(?:my_[a-z0-9]+|MY_[A-Z0-9]+)(?![A-Za-z0-9])")
_BLOCK = re.compile(r"#if (MY_[A-Z0-9]+)")
_LINES = re.compile(r" *// (MY_[A-Z0-9]+)")
_COMMENT = re.compile(r" *//")


def fill(file: str, /, **values: TemplateValue) -> str:
    """Return the text of a template with its placeholders filled.

    Args:
        file: The path of the template in this package.
        values: A value for each placeholder. Values are inserted as they are, and may look like placeholders.

    Raises:
        InternalError: A placeholder has no value, or a value has no placeholder.
    """
    lines = _read(file)
    unused = _names(values) - set(_PLACEHOLDER.findall("\n".join(lines)))
    if unused:
        raise InternalError(f"has no placeholder {min(unused)}", where=f"template {file}")
    return "".join(_filled(file, lines, values))


@cache
def read_file(file: str) -> str:
    """Return the text of a file of this package, by its path in the package."""
    return Path(__file__).parent.joinpath(file).read_text(encoding="ascii")


@cache
def _read(file: str) -> list[str]:
    return read_file(file).splitlines()


def _names(values: Mapping[str, TemplateValue]) -> set[str]:
    """Return the names of all values, including those in sequences."""
    items = [item for value in values.values() if not isinstance(value, str | int) for item in value]
    return {*values}.union(*map(_names, items))


def _filled(file: str, lines: Sequence[str], values: Mapping[str, TemplateValue]) -> Iterator[str]:
    def value_of(name: str) -> TemplateValue:
        if name not in values:
            raise InternalError(f"the placeholder {name} has no value", where=f"template {file}")
        return values[name]

    start = 0
    while start < len(lines):
        line = lines[start]
        start += 1
        if block := _BLOCK.fullmatch(line):
            middle, end = _ends(file, lines, start)
            value = value_of(block[1])
            if isinstance(value, str | int):
                yield from _filled(file, lines[start:middle] if value else lines[middle + 1 : end], values)
            else:
                for item in value:
                    yield from _filled(file, lines[start:middle], {**values, **item})
            start = end + 1
        elif inserted := _LINES.fullmatch(line):
            yield str(value_of(inserted[1]))
        elif not _COMMENT.match(line):
            yield _PLACEHOLDER.sub(lambda match: str(value_of(match[0])), line) + "\n"


def _ends(file: str, lines: Sequence[str], start: int) -> tuple[int, int]:
    """Return the positions of the #else, or else of the #endif, and of the #endif of the block that starts here."""
    depth, middle = 0, None
    for position in range(start, len(lines)):
        if lines[position].startswith("#if"):
            depth += 1
        elif lines[position] == "#else" and depth == 0:
            middle = position
        elif lines[position].startswith("#endif"):
            if depth == 0:
                return position if middle is None else middle, position
            depth -= 1
    raise InternalError(f"{lines[start - 1]} has no #endif", where=f"template {file}")
