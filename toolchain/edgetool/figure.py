"""A number with its error band and what the band rests on, and numbers in messages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A value in `unit` that lies between low and high, on the evidence named by `basis`."""

    value: float
    low: float
    high: float
    unit: str
    basis: str

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"a figure of {self.value} outside its band {self.low} to {self.high}")


def in_text(value: float, digits: int = 3) -> str:
    """As in "0.35", "12.3" and "1,234": rounded to this many significant digits, and no exponent above 1e-4."""
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:,.{digits}g}"
