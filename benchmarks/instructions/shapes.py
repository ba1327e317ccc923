"""Shapes for the counted convolutions: named, drawn at random within limits, and what follows from them."""

from __future__ import annotations

from math import exp, log
from random import Random
from typing import Any

from edgetool.model.types import DType

Pair = tuple[int, int]
Image = tuple[int, int, int]

# Of activations and weights.
TYPES = {
    "int8": (DType.INT8, DType.INT8),
    "int16": (DType.INT16, DType.INT8),
    "float32": (DType.FLOAT32, DType.FLOAT32),
    "int4": (DType.INT8, DType.INT4),
}


def drawn(random: Random, highest: int, lowest: int = 1) -> int:
    """A size between both, small ones as likely as large ones."""
    return round(exp(random.uniform(log(lowest - 0.49), log(highest + 0.49))))


def outputs(size: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    """The windows along an axis."""
    return -(-size // stride) if padding == "SAME" else -(-(size - (kernel - 1) * dilation) // stride)


def named(*words: object) -> str:
    """A case's name: sizes of one thing with an x between them."""
    return "-".join("x".join(map(str, word)) if isinstance(word, tuple) else str(word) for word in words)


def options_named(given: dict[str, Any]) -> list[object]:
    """The options of a case as words of its name."""
    return [named(name[:3], value) for name, value in given.items()]
