"""The data that the package carries: profiles and tables, by folder and name."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


def data() -> Traversable:
    """The folder targets/, wherever it is installed."""
    import importlib.resources  # slow to import, and only packaged names need it

    return importlib.resources.files("edgetool.targets")


def document(kind: str, name: str) -> dict[str, Any]:
    """The parsed text of a packaged profile; the name is one of names(kind)."""
    return tomllib.loads(data().joinpath(kind, f"{name}.toml").read_text(encoding="utf-8"))


@cache
def names(kind: str) -> tuple[str, ...]:
    """The names of the packaged profiles in a folder, in the order of their numbers."""
    files = (entry.name for entry in data().joinpath(kind).iterdir())
    return tuple(sorted((name.removesuffix(".toml") for name in files if name.endswith(".toml")), key=_natural))


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts cortex-m7 before cortex-m33."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
