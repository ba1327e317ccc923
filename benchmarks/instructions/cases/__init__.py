"""The models whose operators were counted. All are made here, from seeds; a room lists them by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

from edgetool.model.types import Model

Cases = dict[str, Callable[[], Model]]


def rooms() -> tuple[str, ...]:
    """The rooms that have cases, one module each."""
    return tuple(sorted(module.name for module in iter_modules(__path__)))


def cases(room: str) -> Cases:
    """The cases of a room by name."""
    table: Cases = import_module(f"{__name__}.{room}").CASES
    return table
