"""Reports as JSON text, and back: every value is checked against the type of its field, nothing is guessed.

The document as JSON text.

A report from its JSON document: every value is checked against the type of its field, nothing is guessed.

Keys that this version does not know are passed over, so a later edgetool may add some; a field with a default may be
absent, so may what a later edgetool added. Anything else that is not as the types say is refused with its place.
"""

from __future__ import annotations

import json
import types
from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from edgetool.errors import UsageError
from edgetool.report.document import SCHEMA, Band, FindingInfo, Report, SharedArenaInfo


def plain(value: Any) -> Any:
    """Dataclasses and tuples as dicts and lists, in field order; members of enumerations by their names."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def document(report: Report) -> dict[str, Any]:
    """The document of one report."""
    return {"schema": SCHEMA, **plain(report)}


def documents(reports: Sequence[Report], shared_arena: SharedArenaInfo | None = None) -> dict[str, Any]:
    """One document for one report, {"schema", "reports"} for several; with "shared_arena" where they share one."""
    if len(reports) == 1 and shared_arena is None:
        return document(reports[0])
    shared = {} if shared_arena is None else {"shared_arena": plain(shared_arena)}
    return {"schema": SCHEMA, "reports": [document(report) for report in reports], **shared}


def to_json(value: dict[str, Any]) -> str:
    """JSON text, two spaces a level, ASCII, ending in a newline. NaN and infinity raise ValueError.

    "##", with which CI runners begin a command wherever it stands in a line, is spelt as JSON allows.
    """
    return json.dumps(value, indent=2, allow_nan=False).replace("##", r"#\u0023") + "\n"


T = TypeVar("T")

WRITE_ANEW = "use an unmodified document that 'edgetool plan --json' or a similar command wrote"
LEVELS = ("error", "warning", "note")
# The largest number that a document can mean anything by: sizes, counts and times are far below.
MAX_NUMBER = 2**63
MAX_VALUES = 4_000_000  # Python's objects take twenty times the room of an empty list's two characters
# Documents of commands whose answer is about something else than a model on a target: the key that each alone has.
OTHER_COMMANDS = {
    "calibration": "calibrate",
    "compare": "compare",
    "instance": "layout",
    "subgraphs": "inspect",
    "targets": "targets",
}
KINDS: dict[type, tuple[type, ...]] = {bool: (bool,), int: (int,), float: (int, float), str: (str,)}
CALLED = {bool: "true or false", int: "an integer", float: "a number", str: "a string", type(None): "null"}


def parse_reports(text: str) -> tuple[Report, ...]:
    """The reports of a document, in its order: one, or those of its "reports".

    Raises UsageError, without a `where`, for text that is no JSON (NaN and keys given twice are none), and for a
    document that edgetool did not write or that was changed.
    """
    try:
        return read_reports(_json(text))
    except RecursionError:
        raise UsageError("is nested too deeply", fix=WRITE_ANEW) from None


def read_reports(document: object) -> tuple[Report, ...]:
    """The reports of a document as JSON values. Raises UsageError."""
    if not isinstance(document, dict):
        raise UsageError("is not an edgetool document", fix=WRITE_ANEW)
    schema = document.get("schema")
    if schema != SCHEMA:
        what = f"has the schema {_shown(schema)}" if "schema" in document else 'has no "schema"'
        raise UsageError(f"{what}; this version of edgetool reads {_shown(SCHEMA)}", fix=WRITE_ANEW)
    for key, command in OTHER_COMMANDS.items():
        if key in document:
            raise UsageError(f"was written by 'edgetool {command}' and contains no report", fix=WRITE_ANEW)
    if "reports" not in document:
        return (_value(document, Report, ""),)
    found = document["reports"]
    if not isinstance(found, list) or not found:
        raise _wrong("reports", found, "a list of documents")
    return tuple(_value(item, Report, f"reports[{place}]") for place, item in enumerate(found))


def _json(text: str) -> object:
    if sum(map(text.count, ",[{")) > MAX_VALUES:
        raise UsageError(f"has more than {MAX_VALUES:,} values", fix=WRITE_ANEW)
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"line {error.lineno} is not valid JSON: {error.msg} at column {error.colno}", fix=WRITE_ANEW
        ) from None
    except ValueError:  # int() takes so many digits and no more
        raise UsageError("contains a number with thousands of digits", fix=WRITE_ANEW) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise UsageError(f"has the key {_shown(key)} twice in one object", fix=WRITE_ANEW)
        found[key] = value
    return found


def _no_number(name: str) -> NoReturn:
    raise UsageError(f"contains {name}, which is not a valid JSON number", fix=WRITE_ANEW)


def _value(value: object, kind: Any, where: str) -> Any:
    """The value as its type; where is its place in the document."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _alternative(value, [item for item in arguments if item is not type(None)], where)
    if origin is tuple:
        return _tuple(value, arguments, where)
    if origin is dict:
        if not isinstance(value, dict):
            raise _wrong(where, value, "an object")
        return {key: _value(item, arguments[1], f"{where}.{_key(key)}") for key, item in value.items()}
    if kind is object:
        return _anything(value, where)
    if is_dataclass(kind) and isinstance(kind, type):
        return _record(value, kind, where)
    return _scalar(value, kind, where)


def _alternative(value: object, kinds: list[Any], where: str) -> Any:
    """The value as one of several types: the narrowest that takes it (5 is a whole number before a number)."""
    if len(kinds) == 1:
        return _value(value, kinds[0], where)
    for kind in sorted(kinds, key=lambda item: item is float):
        if isinstance(value, KINDS[kind]) and (kind is bool or not isinstance(value, bool)):
            return _scalar(value, kind, where)
    raise _wrong(where, value, " or ".join(CALLED[kind] for kind in kinds))


def _tuple(value: object, kinds: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _wrong(where, value, "a list")
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(value) != len(kinds):
        raise _wrong(where, value, f"a list of {len(kinds)}")
    return tuple(
        _value(item, kind, f"{where}[{place}]") for place, (item, kind) in enumerate(zip(value, kinds, strict=True))
    )


def _record(value: object, kind: type[T], where: str) -> T:
    if not isinstance(value, dict):
        raise _wrong(where, value, "an object")
    hints = _hints(kind)  # type: ignore[arg-type]  # a class is hashable
    found = {}
    for item in fields(kind):  # type: ignore[arg-type]  # asked by the caller: a dataclass
        place = f"{where}.{item.name}" if where else item.name
        if item.name in value:
            found[item.name] = _value(value[item.name], hints[item.name], place)
        elif item.default is MISSING and item.default_factory is MISSING:
            raise UsageError(f"{place} is missing", fix=WRITE_ANEW)
    made = kind(**found)
    _check(made, where)
    return made


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _check(made: object, where: str) -> None:
    """What the types alone do not say: no size below 0, bands around their value, levels that there are."""
    if isinstance(made, Band) and not 0 <= made.low <= made.value <= made.high:
        raise UsageError(f"{where} has a value outside its band", fix=WRITE_ANEW)
    if isinstance(made, FindingInfo) and made.level not in LEVELS:
        raise _wrong(f"{where}.level", made.level, f"one of {', '.join(LEVELS)}")
    for item in fields(made):  # type: ignore[arg-type]  # as above
        if item.name.endswith(("bytes", "macs", "parameters", "operators", "tensors", "instructions", "cycles")):
            size = getattr(made, item.name)
            if isinstance(size, int) and size < 0:
                raise _wrong(f"{where}.{item.name}" if where else item.name, size, "0 or more")


def _scalar(value: object, kind: Any, where: str) -> Any:
    if not isinstance(value, KINDS[kind]) or (isinstance(value, bool) and kind is not bool):
        raise _wrong(where, value, CALLED[kind])
    if isinstance(value, int | float) and not abs(value) <= MAX_NUMBER:  # nor is 1e999, which is infinity
        raise _wrong(where, value, "a realistic number")
    return float(value) if kind is float else value  # type: ignore[arg-type]  # a number, as just seen


def _anything(value: object, where: str) -> object:
    """Any JSON value, its numbers within limits, lists as they are."""
    if isinstance(value, dict):
        return {key: _anything(item, f"{where}.{_key(key)}") for key, item in value.items()}
    if isinstance(value, list):
        return [_anything(item, f"{where}[{place}]") for place, item in enumerate(value)]
    if isinstance(value, int | float):
        return _scalar(value, type(value), where)
    return value


def _wrong(where: str, value: object, expected: str) -> UsageError:
    return UsageError(f"{where} is {_shown(value)}, not {expected}", fix=WRITE_ANEW)


def _key(key: str) -> str:
    return key if len(key) <= 40 else f"{key[:37]}..."


def _shown(value: object) -> str:
    """The value as JSON in a few characters."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else f"a list of {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_NUMBER:
        return "a number with many digits"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
