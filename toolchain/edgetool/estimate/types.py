"""The words of an estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgetool.figure import Figure

Bound = Literal["compute", "memory"]


@dataclass(frozen=True, slots=True)
class OperatorEstimate:
    """One operator's share; cycles and time follow the band of the whole."""

    index: int
    subgraph: int
    operator: str
    macs: int
    parameter_bytes: int
    activation_bytes: int
    memory_bytes: int
    cycles: int
    ms: Figure
    bound: Bound


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of one inference on a target. validation says how far the figures may be trusted."""

    latency_ms: Figure
    cycles: int
    macs: int
    parameter_bytes: int
    activation_bytes: int
    bytes_moved: int
    configured_bandwidth_gbps: float
    bound: Bound
    validation: str
    operators: tuple[OperatorEstimate, ...]
