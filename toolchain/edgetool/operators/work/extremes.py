"""CMSIS-NN's MAXIMUM and MINIMUM of int8, which broadcast on their own (arm_maximum_s8.c, arm_minimum_s8.c)."""

from __future__ import annotations

from math import prod

from edgetool.operators.work.broadcast import Shape, extended
from edgetool.target.platform import Platform

LANES = 16
RANK = 4


def loops(first: Shape, second: Shape, result: Shape, platform: Platform) -> dict[str, int]:
    """Rows of equal elements or of one element against a row; a row is as long as the shapes allow.

    Operands of the same shape are one row; otherwise the longest trailing part decides that is the same in both, or a
    single element in one.
    """
    one, other = extended(first, RANK), extended(second, RANK)
    sizes = extended(result, RANK)
    turns = {"batch": 0, "height": 0, "width": 0}
    if one == other:
        return {**turns, **_rows("pair", 1, prod(one), platform)}
    if 1 in (prod(one), prod(other)):
        return {**turns, **_rows("scalar", 1, max(prod(one), prod(other)), platform)}
    rows = 1
    for depth, name in enumerate(turns, start=1):
        rows *= sizes[depth - 1]
        turns[name] = rows
        ours, theirs = one[depth:], other[depth:]
        if ours == theirs:
            return {**turns, **_rows("pair", rows, prod(ours), platform)}
        if 1 in (prod(ours), prod(theirs)):
            break
    return {**turns, **_rows("scalar", rows, max(prod(ours), prod(theirs)), platform)}


def _rows(kind: str, count: int, length: int, platform: Platform) -> dict[str, int]:
    turns = -(-length // LANES) if platform.mve else length
    return {f"{kind} row": count, f"{kind} element": count * turns}
