"""Whether a value from a store is what its type says: JSON gives any type anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def require_types(made: object) -> None:
    """Raise TypeError unless every field of a dataclass, and of those within it, is of its type."""
    hints = get_type_hints(type(made))
    for item in fields(made):  # type: ignore[arg-type]  # a dataclass, as the caller says
        value = getattr(made, item.name)
        if not _fits(value, hints[item.name]):
            raise TypeError(f"{item.name} is {type(value).__name__}, not {item.type}")


def _fits(value: object, kind: Any) -> bool:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, item) for item in arguments)
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        kinds = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        return len(kinds) == len(value) and all(map(_fits, value, kinds))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    if is_dataclass(kind):
        if not isinstance(value, kind):  # type: ignore[arg-type]  # as just seen
            return False
        require_types(value)
        return True
    accepted = (int, float) if kind is float else kind
    return isinstance(value, accepted) and (kind is bool or not isinstance(value, bool))
