"""A value with its error band and basis, and numbers in messages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A value in `unit` with its error band from low to high; basis names the evidence for the band."""

    value: float
    low: float
    high: float
    unit: str
    basis: str

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"a figure of {self.value} outside its band {self.low} to {self.high}")


def significant(value: float, digits: int = 3) -> str:
    """Return a value with this number of significant digits, with an exponent only below 1e-9 and from 1e15."""
    if value != 0 and not 1e-9 <= abs(value) < 1e15:
        return f"{value:.{digits - 1}e}"
    exponent = int(f"{value:.{digits - 1}e}".rpartition("e")[2])  # of the rounded value: 9.996 is 10.0
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def in_text(value: float, digits: int = 3) -> str:
    """Return a value as `significant` does, without trailing zeros: 0.35, 12.3, 1,234."""
    mantissa, separator, exponent = significant(value, digits).partition("e")
    shortened = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return shortened + separator + exponent
