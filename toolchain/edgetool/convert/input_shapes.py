"""The shape of each input: the model's own, completed by --input-shape. This module is pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from edgetool.errors import UnsupportedModelError, UsageError

# An input's sizes in the model, without its batch: None for any size.
DeclaredShape: TypeAlias = tuple[int | None, ...]
# Pairs of an input's name, or None for the only one, and its sizes without batch; lists where they come from JSON.
RequestedShapes: TypeAlias = Sequence[tuple[str | None, Sequence[int]]]
OPTION = "--input-shape"
# A .tflite is a flatbuffer with 32-bit offsets, and no microcontroller has a hundredth of this.
LIMIT_ELEMENTS = 2**28


def resolve_shapes(
    names: Sequence[str], declared: Sequence[DeclaredShape], given: RequestedShapes, where: str
) -> tuple[DeclaredShape, ...]:
    """Return the inputs' sizes with the requested ones filled in; None if a size is still unknown.

    where: the model's path. A leading 1 beyond the rank is the batch. Raises UsageError for an unknown or repeated
    name, a missing name if there are several inputs, a different rank, or a size that contradicts the model.
    """
    sizes: dict[str, tuple[int, ...]] = {}
    for requested, values in given:
        name = _input_name(requested, names, where)
        if name in sizes:
            raise UsageError(f"input {name!r} is specified twice", where=OPTION, fix="specify each input once")
        sizes[name] = tuple(values)
    return tuple(
        _merged(name, shape, sizes[name]) if name in sizes else shape
        for name, shape in zip(names, declared, strict=True)
    )


def _input_name(requested: str | None, names: Sequence[str], where: str) -> str:
    if requested is None:
        if len(names) == 1:
            return names[0]
        raise UsageError(
            f"{where} has {len(names)} inputs, so the shape must name one",
            where=OPTION,
            fix=f"use NAME=SIZES with one of {', '.join(names)}",
        )
    if requested not in names:
        raise UsageError(f"{where} has no input {requested!r}", where=OPTION, fix=f"it has {', '.join(names)}")
    return requested


def _merged(name: str, declared: DeclaredShape, sizes: tuple[int, ...]) -> tuple[int, ...]:
    if len(sizes) == len(declared) + 1 and sizes[0] == 1:
        sizes = sizes[1:]
    agree = len(sizes) == len(declared) and all(
        fixed in (None, size) for fixed, size in zip(declared, sizes, strict=True)
    )
    if not agree:
        raise UsageError(
            f"input {name!r} has shape {format_shape(declared)} in the model, not {format_shape(sizes)}",
            where=OPTION,
            fix="omit the batch dimension, and keep the sizes that are fixed in the model",
        )
    if min(sizes, default=1) < 1 or prod(sizes) > LIMIT_ELEMENTS:
        raise UsageError(
            f"input {name!r} cannot have shape {format_shape(sizes)}",
            where=OPTION,
            fix="use sizes that fit on a device",
        )
    return sizes


def require_fixed(name: str, shape: DeclaredShape, where: str) -> tuple[int, ...]:
    """Return the shape if every size is known. Raises UnsupportedModelError at `where` with the option to use."""
    known = tuple(size for size in shape if size is not None)
    if len(known) != len(shape):
        example = ",".join("SIZE" if size is None else str(size) for size in shape)
        raise UnsupportedModelError(
            f"input {name!r} has dimensions that are not fixed: {format_shape(shape)} for each sample",
            where=where,
            fix=f"fix them with {OPTION} {name}={example}",
        )
    if 0 in known:
        raise UnsupportedModelError(
            f"input {name!r} of shape {format_shape(known)} is empty", where=where, fix="remove it from the model"
        )
    return known


def format_shape(shape: Sequence[int | None]) -> str:
    """Return, for example, "(96, 96, 1)" or "(None, 3)"."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
