"""A number with its error band and what the band rests on."""

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
