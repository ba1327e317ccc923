"""JSON and TOML as typed values: msgspec checks and builds them, and every problem is reported with its key.

The type of a document is a dataclass, which ignores unknown keys, or an `Object`, which rejects them. Limits are
annotations of msgspec.Meta, whose description replaces the default wording. Constraints across fields are
checked by the __post_init__ of a type, which raises StructureError.
"""

from __future__ import annotations

import json
import types
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from itertools import chain, islice
from typing import Annotated, Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from edgetool.errors import MAX_PROBLEMS, Problem, did_you_mean

T = TypeVar("T")

MAX_DOCUMENT_PROBLEMS = 1000  # per document, because a hostile one may have millions
MAX_KEY = 80  # characters of a key in a message
MAX_SHOWN = 40  # characters of a value in a message
LARGEST = 2**63  # integers above it are not shown
CONVERSION_ERRORS = (msgspec.ValidationError, UnicodeEncodeError)  # the latter for text with lone surrogates
TYPE_NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    type(None): "null",
}


class Object(msgspec.Struct, forbid_unknown_fields=True):
    """An object of a document whose keys must all be known."""


class TomlTable(Object):
    """An object of a TOML document."""


class StructureError(ValueError):
    """A document that does not match its type, with every problem."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(map(str, problems[:MAX_PROBLEMS])))
        self.problems = problems


def strict_json(text: str, *, max_values: int) -> Any:
    """Return the value of a JSON text. Raises StructureError, also for NaN, infinity and keys that occur twice.

    max_values: limits the number of values, because an empty list takes two characters as text, but twenty times as
    much memory in Python.
    """
    if sum(map(text.count, ",[{")) > max_values:
        raise StructureError(Problem("", f"has more than {max_values:,} values"))
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_not_a_number)
    except StructureError:
        raise
    except json.JSONDecodeError as error:
        place, what = f"line {error.lineno}", f"is not valid JSON at column {error.colno}: {error.msg}"
    except RecursionError:
        place, what = "", "is nested too deeply"
    except ValueError:  # int() limits the number of digits
        place, what = "", "contains a number with thousands of digits"
    raise StructureError(Problem(place, what))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise StructureError(Problem("", f"has the key {shown(twice)} twice in one object"))
    return unique


def _not_a_number(name: str) -> NoReturn:
    raise StructureError(Problem("", f"contains {name}, which is not a valid JSON number"))


def structured(document: object, kind: type[T], key: str = "") -> T:
    """Return a parsed document as a value of its type. Raises StructureError with its problems.

    At most MAX_DOCUMENT_PROBLEMS are reported. key: the location of the document in its file, if it is a part of one.
    """
    try:
        return msgspec.convert(document, kind)
    except CONVERSION_ERRORS:
        raise StructureError(*islice(_problems(document, kind, key), MAX_DOCUMENT_PROBLEMS)) from None


def _problems(value: object, kind: Any, key: str) -> Iterator[Problem]:
    """Yield a problem for each part with the wrong type: msgspec reports only the first, without keys of mappings."""
    try:
        msgspec.convert(value, kind)
    except CONVERSION_ERRORS as error:
        choice = isinstance(value, str) and get_origin(kind) is Literal
        guess = did_you_mean(str(value), get_args(kind)) if choice else None
        problems = [Problem(key, f"is {shown(value)}, not {_expected(kind)}", guess)]
        if isinstance(error.__cause__, StructureError):  # raised by the __post_init__ of a type
            problems = [Problem(joined(key, item.key), item.what, item.fix) for item in error.__cause__.problems]
    else:
        return
    inner = _inner(value, _alternative(value, kind), key)
    first = next(inner, None)
    yield from problems if first is None else chain([first], inner)


def _inner(value: object, kind: Any, key: str) -> Iterator[Problem]:
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(value, dict) and origin in (dict, Mapping):
        for name, item in value.items():
            yield from _problems(item, arguments[1], joined(key, name))
    elif isinstance(value, dict) and _is_record(kind):
        fields = _fields(kind)
        for name, (field_kind, is_required) in fields.items():
            if name in value:
                yield from _problems(value[name], field_kind, joined(key, name))
            elif is_required:
                yield Problem(joined(key, name), "is missing")
        for name in [name for name in value if name not in fields]:
            if issubclass(kind, Object):
                fix = did_you_mean(name, fields) or f"the keys are {', '.join(fields)}"
                yield Problem(joined(key, name), "is an unknown key", fix)
            elif any("\ud800" <= character <= "\udfff" for character in name):
                yield Problem(joined(key, name), "is not Unicode text")
    elif isinstance(value, list) and origin in (list, tuple):
        kinds = arguments[:1] * len(value) if arguments[1:] in ((), (Ellipsis,)) else arguments
        for place, (item, item_kind) in enumerate(zip(value, kinds, strict=False)):
            yield from _problems(item, item_kind, f"{key}[{place}]")


@cache
def _fields(kind: type) -> dict[str, tuple[Any, bool]]:
    """Return the type of each field, and whether it is required."""
    info, hints = msgspec.inspect.type_info(kind), get_type_hints(kind, include_extras=True)
    assert isinstance(info, msgspec.inspect.StructType | msgspec.inspect.DataclassType)
    return {field.encode_name: (hints[field.name], field.required) for field in info.fields}


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, msgspec.Struct))


def _alternative(value: object, kind: Any) -> Any:
    """Return the member of a union that matches the kind of value."""
    if get_origin(kind) is Annotated:
        return _alternative(value, get_args(kind)[0])
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    for member in (_alternative(value, item) for item in get_args(kind)):
        if isinstance(value, dict) and (_is_record(member) or get_origin(member) in (dict, Mapping)):
            return member
        if isinstance(value, list) and get_origin(member) in (list, tuple):
            return member
    return kind


def _expected(kind: Any) -> str:
    """Return the description of a type for messages."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _limited(arguments[0], [item for item in arguments[1:] if isinstance(item, msgspec.Meta)])
    if origin in (Union, types.UnionType):
        members = [member for member in arguments if member is not type(None)]
        return " or ".join(_expected(member) for member in members)
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if origin in (list, tuple):
        fixed = origin is tuple and arguments[1:] != (Ellipsis,)
        return f"a list of {len(arguments)}" if fixed else "a list"
    if isinstance(kind, type) and issubclass(kind, TomlTable):
        return "a table"
    return TYPE_NAMES.get(origin or kind, "an object")


def _limited(kind: Any, limits: list[msgspec.Meta]) -> str:
    words = _expected(kind)
    for limit in limits:
        if limit.description is not None:
            return str(limit.description)
        if limit.ge is not None and limit.le is not None:
            low, high = (str(edge) if isinstance(edge, int) else f"{edge:g}" for edge in (limit.ge, limit.le))
            words = f"{words} from {low} to {high}"
        if limit.max_length is not None:
            words = f"{words} of at most {limit.max_length:,} entries"
    return words


def joined(key: str, name: object) -> str:
    """Return the key of an entry, as a user finds it in the file."""
    text = str(name)
    text = text if text.isprintable() and len(text) <= MAX_KEY else repr(text[:MAX_KEY])
    return f"{key}.{text}" if key and name != "" else key or text


def shown(value: object) -> str:
    """Return a value of a document for a message, in a few characters of ASCII."""
    if isinstance(value, dict | list):
        return "{...}" if isinstance(value, dict) else f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) > LARGEST:
        return "a number with many digits"
    try:
        text = json.dumps(value)
    except TypeError:  # a TOML date
        text = str(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."
