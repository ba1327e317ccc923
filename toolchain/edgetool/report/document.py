"""The document as types. Field names are the JSON's own: other programs build on them.

The estimate's part of the document. Field names are the JSON's own: other programs build on them.

The gate's part of the document. Field names are the JSON's own: other programs build on them.

What single layers lose when quantized, as types. Field names are the JSON's own.

The document's section `verify`: what was run, what was judged, and what it showed.

What the document says of an arena that several models share, beside their reports.
"""

from __future__ import annotations

import builtins
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


@dataclass(frozen=True, slots=True)
class JudgementInfo:
    """One thing that was judged.

    rule: its stable name ("arena", "flash", "max-arena", "max-latency", "active-budget", "operators",
    "arena-known", "accuracy", "growth", "lock", or the rule of a finding). passed is null where it cannot be judged:
    message says why. level: "error" rejects, "warning" and "note" do not. value, limit and over are in `unit` ("B",
    "ms", "%"), null where there are none. causes: the operators and tensors that set the value, the largest first.
    advice: what would lower it.
    """

    rule: str
    passed: bool | None
    level: str
    message: str
    value: float | int | None = None
    limit: float | int | None = None
    over: float | int | None = None
    unit: str | None = None
    causes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeInfo:
    """A figure that differs from the lock file's, and by what: each cause reads "+4,096 B: operator 7 CONV_2D scratch".

    figure: its name in the lock ("arena_bytes", "model_bytes", "latency_ms", ...). allowed: whether it is a figure that
    may not grow and grew by no more than the allowance, or did not grow.
    """

    figure: str
    unit: str
    before: float | int | None
    after: float | int | None
    allowed: bool
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LockInfo:
    """The comparison with the lock file.

    state: "equal", "changed", "missing", "not-in-lock", "other-target" or "updated".
    inputs: what else differs from when the lock was written, a sentence each ("the model file changed", ...).
    """

    state: str
    inputs: tuple[str, ...] = ()
    changes: tuple[ChangeInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class GateInfo:
    """The judgement. path: the model as the user named it, relative to the current directory where it lies below it.

    violations: "violates_64kib" and the like for each tracked budget, whether it is violated, null where that is not
    known.
    """

    passed: bool
    path: str
    judgements: tuple[JudgementInfo, ...]
    violations: dict[str, bool | None]
    lock: LockInfo | None = None


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often values fell into bins of one width; low and high are the outer edges, in real numbers."""

    low: float
    high: float
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayerLoss:
    """One layer's output, quantized, against the same operator in float on the same inputs.

    name and layer_class are the Keras layer's, "" where it is not known; operator is what it became, the worst of
    several. sqnr_db: of the worst quarter of its channels; null where nothing is lost. rmse_over_scale: the error in
    quantization steps; rounding alone is about 0.29. minimum, maximum: of the float values. widest_channel reaches
    widest_over_median times as far as the median channel does. histogram: of the float values, over what the 256 steps
    reach. kept_float_sqnr_db: that of the model's worst output with the layers of kept_float in float; null where that
    was not tried.
    """

    name: str
    layer_class: str
    operator: str
    sqnr_db: float | None
    rmse_over_scale: float
    scale: float
    minimum: float
    maximum: float
    channels: int
    widest_channel: int
    widest_over_median: float
    histogram: Histogram
    kept_float: tuple[str, ...] = ()
    kept_float_sqnr_db: float | None = None


@dataclass(frozen=True, slots=True)
class VerifiedFile:
    """One of the two files that were run, as bytes; one that edgetool derived has the name of its source."""

    name: str
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class SampleInfo:
    """The samples of the run, in the order in which they were invoked: random ones, then those of the file."""

    random: int
    seed: int
    from_file: int


@dataclass(frozen=True, slots=True)
class DifferenceInfo:
    """The first element that differs. Null stands for a value that JSON has not (NaN, infinity)."""

    sample: int
    output: str
    element: tuple[int, ...]
    original: int | float | None
    planned: int | float | None


@dataclass(frozen=True, slots=True)
class CheckInfo:
    """A check: passed is null where it could not be made; the message says why, or what was seen."""

    check: str
    passed: bool | None
    message: str
    difference: DifferenceInfo | None = None


@dataclass(frozen=True, slots=True)
class HostArena:
    """The planned file's arena on the machine that ran it, not on the device: predicted, and as TFLM told it.

    Null is what is not known. predicted_bytes is the smallest arena, the others what AllocateTensors takes of it.
    """

    abi: str
    is_lower_bound: bool
    predicted_bytes: int
    predicted_used_bytes: int
    predicted_head_bytes: int
    predicted_tail_bytes: int
    used_bytes: int | None
    head_bytes: int | None
    tail_bytes: int | None


@dataclass(frozen=True, slots=True)
class OutputDistance:
    """How far one output of another runtime is from TFLM's: unit is lsb for integers, absolute for floats.

    max_difference is null where a difference is no number.
    """

    output: str
    unit: str
    max_difference: float | None
    differing: int
    elements: int


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """The original on another runtime, which is not judged. not_run says why it did not run there."""

    runtime: str
    not_run: str | None
    outputs: tuple[OutputDistance, ...] = ()


@dataclass(frozen=True, slots=True)
class VerifyInfo:
    """The original against the planned file on TFLM. planner: whose plan was run: file, edgetool or runtime."""

    passed: bool
    original: VerifiedFile
    planned: VerifiedFile
    planner: str
    samples: SampleInfo
    checks: tuple[CheckInfo, ...]
    arena: HostArena
    runtimes: tuple[RuntimeInfo, ...]


SCHEMA = "edgetool/1"


@dataclass(frozen=True, slots=True)
class Provenance:
    """What made the document. options holds what the user asked for, without paths of the machine."""

    tool: str
    versions: dict[str, str]
    options: dict[str, object]
    trust_model_code: bool


@dataclass(frozen=True, slots=True)
class OutputInfo:
    """The written .tflite."""

    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The input file, and counts of the .tflite that is planned."""

    name: str
    sha256: str
    bytes: int
    operators: int
    tensors: int
    parameters: int
    output: OutputInfo | None = None


@dataclass(frozen=True, slots=True)
class OutputQuality:
    """One output of the quantized model against the float original. sqnr_db is null where both are equal."""

    name: str
    sqnr_db: float | None
    cosine: float | None
    top1_agreement: float | None


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The share of right answers on the evaluation data."""

    float: builtins.float
    quantized: builtins.float


@dataclass(frozen=True, slots=True)
class QuantizationInfo:
    """How the model was quantized and what it cost; layers, the worst first, where they were measured."""

    scheme: str
    calibrated: bool
    samples: int
    outputs: tuple[OutputQuality, ...] = ()
    accuracy: Accuracy | None = None
    layers: tuple[LayerLoss, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetInfo:
    """The device that the figures are for."""

    name: str
    core: str
    board: str | None
    runtime: str
    kernels: str


@dataclass(frozen=True, slots=True)
class BreakdownEntry:
    """One part of the arena: part is "tail", "head" or "transient", where says what it holds.

    The tail's entries sum to tail_bytes, padding included. The head's are the buffers alive where most are, and what
    lies between them; they sum to head_bytes. A transient entry is the arena that a moment of AllocateTensors or
    Invoke takes, of which the largest is arena.bytes. requested_bytes is without padding, for all `count` allocations.
    """

    part: str
    where: str
    operator: int | None
    bytes: int
    subgraph: int | None = None
    label: str | None = None
    count: int = 1
    requested_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ArenaInfo:
    """The arena. Null is what is not known; bytes is what the user declares."""

    bytes: int | None
    used_bytes: int | None
    head_bytes: int | None
    tail_bytes: int | None
    layout_bytes: int
    lower_bound_bytes: int
    optimal: bool
    proof: str
    stock_bytes: int | None
    is_lower_bound: bool
    breakdown: tuple[BreakdownEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """A tensor or scratch buffer of the head: its offset, and the positions in `order` between which it is alive.

    index is that of the tensor, of a scratch buffer that of the operator that asks for it.
    """

    subgraph: int
    index: int
    name: str
    offset: int
    bytes: int
    first_op: int
    last_op: int


@dataclass(frozen=True, slots=True)
class PeakInfo:
    """The first moment at which most of the head is alive: the buffers' sizes sum to `bytes`, each rounded up to 16.

    position is one of `order`; -1 is before the first operator, where operator and label are null.
    """

    position: int
    subgraph: int | None
    operator: int | None
    label: str | None
    bytes: int


@dataclass(frozen=True, slots=True)
class SharedBuffer:
    """A whole buffer and the tensors that share it, by (subgraph, index)."""

    bytes: int
    tensors: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SharingInfo:
    """Tensors in shared whole buffers. baseline_bytes: each has its own; cut_short: the search ended early."""

    baseline_bytes: int
    optimized_bytes: int
    lower_bound_bytes: int
    proof: str
    cut_short: bool
    buffers: tuple[SharedBuffer, ...]


@dataclass(frozen=True, slots=True)
class PlanInfo:
    """The order of the main graph's operators and where tensors lie.

    order[p] is the index in the input file of the operator that runs at position p. No fewer than `moved` operators
    must be moved to turn the file's order into this one. live_bytes are the most that is alive at once in this order,
    live_lower_bound_bytes what no order can beat (null where none was searched), and order_proof says how it is known
    that this order needs least. The largest offset + bytes of tensors and scratch, rounded up to 16, is the height of
    the head. peak is null for an empty head.
    """

    order: tuple[int, ...]
    tensors: tuple[PlannedTensor, ...]
    scratch: tuple[PlannedTensor, ...] = ()
    moved: int = 0
    live_bytes: int | None = None
    live_lower_bound_bytes: int | None = None
    order_proof: str = "none"
    sharing: SharingInfo | None = None
    constants_in_ram: bool = False
    peak: PeakInfo | None = None


@dataclass(frozen=True, slots=True)
class BudgetInfo:
    """A budget to track and whether it is violated: whether what it is of ("arena", "ram" or "flash") is larger.

    budget is as the user wrote it ("64KiB"), name what the violation is reported as ("violates_64kib"). violated is
    null where the arena is known from below alone and may be larger.
    """

    budget: str
    bytes: int
    violated: bool | None
    of: str = "arena"
    name: str = ""


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """The target's memory, and whether the model fits it. Null is what is not known."""

    region: str | None
    sram_bytes: int | None
    flash_bytes: int | None
    arena_fits: bool | None
    model_fits: bool | None
    budgets: tuple[BudgetInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class FindingInfo:
    """A finding."""

    rule: str
    level: str
    message: str
    where: str | None


@dataclass(frozen=True, slots=True)
class Report:
    """The whole document. Sections that a command does not compute are null."""

    provenance: Provenance
    model: ModelInfo
    quantization: QuantizationInfo | None = None
    target: TargetInfo | None = None
    arena: ArenaInfo | None = None
    plan: PlanInfo | None = None
    memory: MemoryInfo | None = None
    estimate: EstimateInfo | None = None
    verify: VerifyInfo | None = None
    check: GateInfo | None = None
    findings: tuple[FindingInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedModelInfo:
    """One of the models: its own head, and what it adds to the tail (the first one TFLM's allocators, too)."""

    name: str
    head_bytes: int | None
    tail_bytes: int | None


@dataclass(frozen=True, slots=True)
class SharedArenaInfo:
    """The arena of all models, initialised in `order`. Null is what is not known; bytes is what the user declares.

    fits: whether it fits the target's region; separate_bytes: the sum of the arenas that the models need each alone.
    best_order needs best_order_bytes, and no order that was tried less: all orders of up to five models.
    """

    name: str
    bytes: int | None
    used_bytes: int | None
    head_bytes: int | None
    tail_bytes: int | None
    is_lower_bound: bool
    fits: bool | None
    separate_bytes: int | None
    order: tuple[str, ...]
    best_order: tuple[str, ...] | None
    best_order_bytes: int | None
    models: tuple[SharedModelInfo, ...]
    findings: tuple[FindingInfo, ...] = ()
