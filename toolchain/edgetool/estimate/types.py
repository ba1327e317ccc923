"""The values of an estimate, and validation of the numbers that callers pass."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Literal

from edgetool.errors import UsageError
from edgetool.figure import Figure
from edgetool.target.types import Precision, TimingStatus

# No time, power, speed or size of a device is outside of this range, and no quotient of two of them overflows.
SMALLEST, LARGEST = 1e-12, 1e18
MAX_SHOWN = 40


def positive(value: object, name: str) -> float:
    """Return the value as a float above 0. Raises UsageError naming the argument for anything else, also NaN and
    infinity.
    """
    number = _number(value, name, "above 0")
    if not SMALLEST <= number <= LARGEST:
        raise _invalid_number(value, name, "above 0")
    return number


def not_negative(value: object, name: str) -> float:
    """Return the value as a float of 0 or more. Raises UsageError naming the argument for anything else."""
    number = _number(value, name, "0 or greater")
    if not 0 <= number <= LARGEST:
        raise _invalid_number(value, name, "0 or greater")
    return number


def integer(value: object, name: str, minimum: int = 0) -> int:
    """Return the value as an integer of at least `minimum`. Raises UsageError naming the argument for anything else."""
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is None or not minimum <= number <= LARGEST:
        raise UsageError(f"must be an integer of {minimum} or more, not {_shown(value)}", where=name)
    return number


def _number(value: object, name: str, expected: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _invalid_number(value, name, expected)
    try:
        number = float(value)
    except OverflowError:
        raise _invalid_number(value, name, expected) from None
    if not isfinite(number):
        raise _invalid_number(value, name, expected)
    return number


def _invalid_number(value: object, name: str, expected: str) -> UsageError:
    return UsageError(f"must be a realistic number, {expected}, not {_shown(value)}", where=name)


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) > LARGEST:
        return "a number of that magnitude"  # printing it may take long, and Python refuses the longest
    text = repr(value) if isinstance(value, str) else f"{value}"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


Bound = Literal["compute", "memory"]
# The basis of an operator's time: counted instructions, or its bytes alone.
Basis = Literal["instructions", "bytes"]

# A timing's status; "bandwidth only" and "none" are for devices without an estimate of time.
Validation = TimingStatus | Literal["bandwidth only", "none"]


@dataclass(frozen=True, slots=True)
class OperatorEstimate:
    """One operator's share of an inference: all of its `runs`, if it is in a loop.

    parameter_bytes are constants, activation_bytes other tensors, each counted once per run; footprint_bytes is the
    memory that it needs at once. stall_cycles are those of the cycles that wait for constants. instructions is None for
    an operator whose kernel has no rule or table: its cycles are then those of moving its bytes, and basis says so.
    precision is that of its arithmetic. gives_up: its kernel returns an error that TFLM ignores, and does not write the
    output.
    """

    index: int
    subgraph: int
    operator: str
    precision: Precision
    macs: int
    parameter_bytes: int
    activation_bytes: int
    footprint_bytes: int
    runs: int
    instructions: int | None
    cycles: int
    stall_cycles: int
    ms: Figure
    bound: Bound
    basis: Basis
    gives_up: bool = False

    @property
    def memory_bytes(self) -> int:
        """All bytes that it moves."""
        return self.parameter_bytes + self.activation_bytes


@dataclass(frozen=True, slots=True)
class Estimate:
    """One inference on a target.

    latency_ms and cycles are None on a device for which only a bandwidth is known. configured_bandwidth_gbps is the
    bandwidth of its memories for this model's mix of constants and activations. not_modelled: operators whose time is
    that of moving their bytes.
    """

    latency_ms: Figure | None
    cycles: int | None
    instructions: int
    macs: int
    parameter_bytes: int
    activation_bytes: int
    configured_bandwidth_gbps: float
    bound: Bound
    validation: Validation
    basis: str
    operators: tuple[OperatorEstimate, ...]
    not_modelled: tuple[str, ...] = ()

    @property
    def bytes_moved(self) -> int:
        """Constants and activations."""
        return self.parameter_bytes + self.activation_bytes
