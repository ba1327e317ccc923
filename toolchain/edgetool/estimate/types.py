"""The words of an estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgetool.figure import Figure
from edgetool.target.types import Precision, TimingStatus

Bound = Literal["compute", "memory"]
# How the time of an operator is known: from counted instructions, or from its bytes alone.
Basis = Literal["instructions", "bytes"]

# A timing's status; "bandwidth only" and "none" are devices of which no time is told.
Validation = TimingStatus | Literal["bandwidth only", "none"]


@dataclass(frozen=True, slots=True)
class OperatorEstimate:
    """One operator's share of an inference: all its `runs`, where it lies in a loop.

    parameter_bytes are constants, activation_bytes other tensors, each counted once a run; footprint_bytes what it
    needs in memory at once. stall_cycles are those of the cycles that wait for constants. instructions is None for an
    operator whose kernel has no rule or table: its cycles are then those of moving its bytes, and basis says so.
    precision is that of its arithmetic. gives_up: its kernel returns an error that TFLM ignores, and leaves the output
    unwritten.
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
        """All bytes it moves."""
        return self.parameter_bytes + self.activation_bytes


@dataclass(frozen=True, slots=True)
class Estimate:
    """One inference on a target.

    latency_ms and cycles are None on a device of which only a bandwidth is known. configured_bandwidth_gbps is what
    its memories can deliver for this model's mix of constants and activations. not_modelled: operators whose time is
    that of their bytes.
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
