"""Figures that a caller gives: refused by name where no device could have them."""

from __future__ import annotations

from math import isfinite
from numbers import Integral, Real

from edgetool.errors import UsageError

# No time, power, speed or size of a device lies outside; within, no quotient of two of them overflows.
SMALLEST, LARGEST = 1e-12, 1e18
MAX_SHOWN = 40


def positive(value: object, name: str) -> float:
    """The value as a float above 0. Raises UsageError naming the argument for anything else, NaN and infinity too."""
    number = _number(value, name, "above 0")
    if not SMALLEST <= number <= LARGEST:
        raise _refusal(value, name, "above 0")
    return number


def not_negative(value: object, name: str) -> float:
    """The value as a float of 0 or more. Raises UsageError naming the argument for anything else."""
    number = _number(value, name, "0 or greater")
    if not 0 <= number <= LARGEST:
        raise _refusal(value, name, "0 or greater")
    return number


def whole(value: object, name: str, least: int = 0) -> int:
    """The value as a whole number of at least `least`. Raises UsageError naming the argument for anything else."""
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is None or not least <= number <= LARGEST:
        raise UsageError(f"must be an integer of {least} or more, not {_shown(value)}", where=name)
    return number


def _number(value: object, name: str, wanted: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _refusal(value, name, wanted)
    try:
        number = float(value)
    except OverflowError:
        raise _refusal(value, name, wanted) from None
    if not isfinite(number):
        raise _refusal(value, name, wanted)
    return number


def _refusal(value: object, name: str, wanted: str) -> UsageError:
    return UsageError(f"must be a realistic number, {wanted}, not {_shown(value)}", where=name)


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) > LARGEST:
        return "a number of that magnitude"  # printing it may take long, and Python refuses the longest
    text = repr(value) if isinstance(value, str) else f"{value}"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
