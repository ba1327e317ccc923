"""A variant: one model out of many, on one target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgetool.convert.request import Quantize, Value


@dataclass(frozen=True, slots=True)
class Precision:
    """What a sweep calls a way to quantize, and the conversion's options for it."""

    name: str
    quantize: Quantize
    dense_per_tensor: bool = False


PRECISIONS: Mapping[str, Precision] = {
    item.name: item
    for item in (
        Precision("float32", "float32"),
        Precision("float16", "float16"),
        Precision("int16x8", "int16x8"),
        Precision("int8", "int8"),
        Precision("int8-dense-per-tensor", "int8", dense_per_tensor=True),
    )
}


@dataclass(frozen=True, slots=True)
class Variant:
    """parameters: what the user's builder was called with, by name, in the sweep's order; empty for a model file.

    level: the share of channels removed, 0 to below 1. precision: a name of PRECISIONS. target: the label of one of the
    sweep's targets.
    """

    parameters: tuple[tuple[str, Value], ...]
    level: float
    precision: str
    target: str
