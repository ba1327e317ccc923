"""What jobs gave, as a store keeps it, back as types.

Keys that this version does not know are passed over; a field with a default may be absent. Anything else that is not as
the types say is refused with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, get_type_hints

from edgetool.errors import UsageError
from edgetool.report.document import Accuracy, Band, Histogram, LayerLoss, OutputInfo, OutputQuality, QuantizationInfo
from edgetool.sweep.metrics import Cost, Quality

# From a JSON value to a field's; raises _RefusedError.
Reader = Callable[[Any], Any]


class _RefusedError(Exception):
    """What is wrong with a value, and the fields that lead to it."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path: tuple[str, ...] = ()


def read_cost(value: Mapping[str, Any], where: str) -> Cost:
    """The Cost of an analysis. Raises UsageError naming `where`."""
    cost: Cost = _read(value, "cost", _record(Cost), where)
    return cost


def read_quality(value: Mapping[str, Any], where: str) -> Quality:
    """The Quality of a conversion. Raises UsageError."""
    quality: Quality = _read(value, "quality", _record(Quality), where)
    return quality


def read_quantization(value: Mapping[str, Any], where: str) -> QuantizationInfo:
    """The report's part of a conversion. Raises UsageError."""
    info: QuantizationInfo = _read(value, "quantization", _record(QuantizationInfo), where)
    return info


def read_notes(value: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """What is to be said of a job. Raises UsageError."""
    notes: tuple[str, ...] = _read(value, "notes", _texts, where) if "notes" in value else ()
    return notes


def read_left_alone(value: Mapping[str, Any], where: str) -> tuple[tuple[str, str], ...]:
    """The layers that were not pruned, each with the reason. Raises UsageError."""
    layers: tuple[tuple[str, str], ...] = _read(value, "left_alone", _pairs, where) if "left_alone" in value else ()
    return layers


def read_versions(value: Mapping[str, Any], where: str) -> dict[str, str]:
    """The versions of the packages that did a job. Raises UsageError."""
    versions: dict[str, str] = _read(value, "versions", _versions, where) if "versions" in value else {}
    return versions


def read_original(value: Mapping[str, Any], where: str) -> OutputInfo | None:
    """Hash and bytes of the file that was converted, None where nothing is said. Raises UsageError."""
    told: OutputInfo | None = _read(value, "original", _record(OutputInfo), where) if "original" in value else None
    return told


def _read(value: Mapping[str, Any], key: str, reader: Reader, where: str) -> Any:
    try:
        if key not in value:
            raise _RefusedError("is missing")
        return reader(value[key])
    except _RefusedError as refused:
        raise UsageError(
            f"{'.'.join((key, *refused.path))} {refused.what}",
            where=where,
            fix="run the sweep again with a new store (--store)",
        ) from None


@cache
def _record(kind: type) -> Reader:
    """What reads a dataclass."""
    hints = get_type_hints(kind)
    known = [
        (item.name, SCALARS.get(hints[item.name], _NONE), READERS.get(hints[item.name]) or _no(hints[item.name]), item)
        for item in fields(kind)
    ]

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise _unlike(value, "an object")
        found = {}
        for name, types, reader, item in known:
            given = value.get(name, MISSING)
            # A store has tens of thousands of these: what is as it should be is not looked at twice.
            found[name] = given if type(given) in types else _field(given, item, reader)
        return kind(**found)

    return read


def _field(given: Any, item: Field[Any], reader: Reader) -> Any:
    """A field that is no scalar of its type: another value, its default, or refused."""
    try:
        if given is not MISSING:
            return reader(given)
        if item.default is not MISSING:
            return item.default
        raise _RefusedError("is missing")
    except _RefusedError as refused:
        refused.path = (item.name, *refused.path)
        raise


def _no(hint: Any) -> Reader:
    """For a value that is none of a scalar type's."""

    def refuse(value: Any) -> Any:
        raise _unlike(value, CALLED[hint])

    return refuse


def _or_null(reader: Reader) -> Reader:
    return lambda value: None if value is None else reader(value)


def _list(reader: Reader) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not list:
            raise _unlike(value, "a list")
        return tuple(map(reader, value))

    return read


def _band(value: Any) -> Band:
    band: Band = _record(Band)(value)
    if not band.low <= band.value <= band.high:
        raise _unlike(value, "a value within its band")
    return band


def _pair(value: Any) -> tuple[str, str]:
    if type(value) is not list or len(value) != 2:
        raise _unlike(value, "a list of two items")
    return _text(value[0]), _text(value[1])


def _versions(value: Any) -> dict[str, str]:
    if type(value) is not dict:
        raise _unlike(value, "an object")
    return {key: _text(item) for key, item in value.items()}


def _unlike(value: Any, expected: str) -> _RefusedError:
    text = repr(value)
    return _RefusedError(f"is {text if len(text) <= 40 else f'{text[:37]}...'}, not {expected}")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _unlike(value, CALLED[str])
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise _unlike(value, CALLED[int])
    return value


_texts = _list(_text)
_pairs = _list(_pair)

# Every type that a field of the records above has: what a JSON value of it may be, or what reads it.
_NONE: frozenset[type] = frozenset()
SCALARS: Mapping[Any, frozenset[type]] = {
    int: frozenset([int]),
    int | None: frozenset([int, type(None)]),
    float: frozenset([int, float]),
    float | None: frozenset([int, float, type(None)]),
    str: frozenset([str]),
    str | None: frozenset([str, type(None)]),
    bool: frozenset([bool]),
}
CALLED: Mapping[Any, str] = {
    int: "an integer",
    int | None: "an integer or null",
    float: "a number",
    float | None: "a number or null",
    str: "a string",
    str | None: "a string or null",
    bool: "true or false",
}
READERS: Mapping[Any, Reader] = {
    tuple[str, ...]: _texts,
    Band | None: _or_null(_band),
    Accuracy | None: _or_null(lambda value: _record(Accuracy)(value)),
    tuple[OutputQuality, ...]: _list(lambda value: _record(OutputQuality)(value)),
    tuple[LayerLoss, ...]: _list(lambda value: _record(LayerLoss)(value)),
    Histogram: lambda value: _record(Histogram)(value),
    tuple[int, ...]: _list(_whole),
}
