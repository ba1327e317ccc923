"""The estimate's part of the document. Field names are the JSON's own: other programs build on them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Band:
    """A value with its band."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """One operator's share of the estimate: all its runs, where it lies in a loop.

    basis is "instructions" or, where its kernel has no rule, "bytes": then its time is that of moving them.
    """

    index: int
    operator: str
    macs: int
    parameter_bytes: int
    activation_bytes: int
    memory_bytes: int
    footprint_bytes: int
    instructions: int | None
    cycles: int
    stall_cycles: int
    ms: Band
    bound: str
    basis: str
    runs: int = 1
    subgraph: int = 0


@dataclass(frozen=True, slots=True)
class VerdictInfo:
    """What limits the inference, in a word and a sentence, and what would help. The word is "memory-bound", "balanced",
    "compute-bound or inefficient access", or "unknown" where too little of the time is known."""

    verdict: str
    text: str
    advice: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MeasuredInfo:
    """A real run beside the estimate. ratio is measured over estimated, null where nothing is estimated.

    bandwidth_utilization is null, and the verdict "unknown", for a run on another machine than the target.
    """

    latency_ms: float
    source: str
    bandwidth_gbps: float
    bandwidth_utilization: float | None
    gmacs_per_s: float
    verdict: VerdictInfo
    ratio: float | None
    within_band: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class TrafficInfo:
    """What one inference moves between the core and a memory: "constants" or "activations".

    region is null where the target names no memory; configured_gbps is what it can deliver, or the core's bus can take.
    """

    holds: str
    region: str | None
    bytes: int
    configured_gbps: float


@dataclass(frozen=True, slots=True)
class FactorInfo:
    """Another runtime's time on this core, as a factor on this estimate, from published rows."""

    runtime: str
    factor: float
    low: float
    high: float
    rows: int
    basis: str


@dataclass(frozen=True, slots=True)
class EstimateInfo:
    """What one inference costs. Null is what this estimate does not model, or a device does not say."""

    latency_ms: Band | None
    energy_uj: Band | None
    cycles: int | None
    instructions: int
    macs: int
    parameter_bytes: int
    activation_bytes: int
    bytes_moved: int
    bandwidth_gbps: float | None
    configured_bandwidth_gbps: float
    bandwidth_utilization: float | None
    gmacs_per_s: float | None
    stream_utilization: float | None
    bound: str
    validation: str
    basis: str
    verdict: VerdictInfo
    energy_basis: str | None = None
    interval_ms: float | None = None
    measured: MeasuredInfo | None = None
    traffic: tuple[TrafficInfo, ...] = ()
    factors: tuple[FactorInfo, ...] = ()
    not_modelled: tuple[str, ...] = ()
    precision_tradeoffs: dict[str, object] = field(default_factory=dict)
    constraints: dict[str, object] = field(default_factory=dict)
    operators: tuple[OperatorInfo, ...] = ()
