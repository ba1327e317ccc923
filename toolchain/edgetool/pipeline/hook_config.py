"""The hook of `edgetool check` in a .pre-commit-config.yaml: a new file, or an existing one extended."""

from __future__ import annotations

import re
from collections.abc import Sequence

HOOK_ID = "edgetool-check"
QUOTATION = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:''|[^'])*'")  # of YAML, on one line


def hooks_text() -> str:
    """Return a .pre-commit-config.yaml with the hook alone."""
    return f"repos:\n{hook_entry('  ')}"


def with_hook(text: str) -> str | None:
    """Return a .pre-commit-config.yaml with the hook added to the end of `repos`; everything else stays as it is.

    None if the file is not in the plain block form in which its lines show where `repos` ends.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.replace("\r\n", "\n").split("\n")
    content = _content(lines)
    starts = [at for at, line in enumerate(lines) if re.fullmatch(r"repos:[ ]*(#.*)?", line)]
    if content is None or len(starts) != 1 or not content[starts[0]]:
        return None
    first = next((at for at in range(starts[0] + 1, len(lines)) if content[at]), None)
    item = None if first is None else re.match(r"( *)- ", lines[first])
    if first is None or item is None:
        return None
    indent, last = item[1], first
    for at in range(first, len(lines)):
        line = lines[at]
        depth = _depth(line)
        if content[at] and (depth < len(indent) or (depth == len(indent) and not line.startswith(f"{indent}- "))):
            if depth:  # neither in the list nor a key of the file
                return None
            break
        if content[at]:
            last = at
    entry = hook_entry(indent).rstrip("\n").split("\n")
    return newline.join([*lines[: last + 1], *entry, *(lines[last + 1 :] or [""])])


def hook_entry(indent: str) -> str:
    """Return the entry for .pre-commit-config.yaml, indented as an item of `repos`."""
    lines = [
        "# Checks the models in edgetool.toml when a model, the settings or the lock file changes.",
        "- repo: local",
        "  hooks:",
        f"    - id: {HOOK_ID}",
        "      name: edgetool check",
        "      entry: edgetool check",
        "      language: system # uses the edgetool installed in your environment",
        "      files: (\\.tflite|(^|/)edgetool\\.(toml|lock))$",
        "      pass_filenames: false",
        "      require_serial: true",
    ]
    return "".join(f"{indent}{line}\n" for line in lines)


def _content(lines: Sequence[str]) -> list[bool] | None:
    """For each line whether it holds a part of the value; None if a line's indentation does not show its place."""
    content: list[bool] = []
    block: int | None = None  # the column of the key whose block scalar the lines belong to
    for line in lines:
        text, depth = line.strip(" "), _depth(line)
        if block is not None and (not text or depth > block):
            content.append(bool(text))
            continue
        block = None
        if not text or text.startswith("#") or line.rstrip() == "---":
            content.append(False)
            continue
        value = QUOTATION.sub("q", line).split(" #")[0].rstrip()
        if _is_odd(line, value):
            return None
        if re.search(r"[:-] [|>][-+0-9]*$", value):
            start = re.match(r" *(?:- +)*", line)
            block = depth if start is None else start.end()
        content.append(True)
    return content


def _is_odd(line: str, value: str) -> bool:
    """Whether a line holds more than keys, items and scalars: tabs, several documents, values over several lines.

    value: the line without its comment, and with a letter for each quotation.
    """
    if not line.isprintable() or line.startswith(("...", "---", "%", "\ufeff")):
        return True
    return any(mark in value for mark in "\"'") or any(
        value.count(opening) != value.count(closing) for opening, closing in ("[]", "{}", "()")
    )


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
