"""The JSON document `edgetool/1` as types, for all commands that report on a model.

The names of the fields are those of the document, which other programs rely on: fields may be added, but names do not
change. A value that is not known or does not apply is null.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Band:
    """A value with its error band."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """One operator's share of the estimate; in a loop, that of all its runs.

    basis is "instructions" or, if the kernel is not modelled, "bytes": then the time is that of moving them. copy_of:
    the first of the operators that compute the stripes of one, null for others.
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
    copy_of: int | None = None


@dataclass(frozen=True, slots=True)
class VerdictInfo:
    """What limits the speed of the inference, as a keyword and a sentence, and advice.

    verdict is "memory-bound", "balanced", "compute-bound or inefficient access", or "unknown" if too little of the time
    is known.
    """

    verdict: str
    text: str
    advice: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MeasuredInfo:
    """A measured run compared with the estimate. ratio is measured / estimated; null if there is no estimate.

    If the run was on a machine other than the target, bandwidth_utilization is null and the verdict "unknown".
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
    """The bytes that one inference moves between the core and a memory, which holds "constants" or "activations".

    region is null if the target does not name the memory. configured_gbps is the bandwidth of the memory, or that of
    the core's bus if it is lower.
    """

    holds: str
    region: str | None
    bytes: int
    configured_gbps: float


@dataclass(frozen=True, slots=True)
class FactorInfo:
    """The time of another runtime on this core, as a factor by which this estimate is multiplied.

    It is derived from `rows` published measurements.
    """

    runtime: str
    factor: float
    low: float
    high: float
    rows: int
    basis: str


@dataclass(frozen=True, slots=True)
class EstimateInfo:
    """The cost of one inference. Figures that the estimate does not model or the profile does not state are null."""

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
    """One judgement.

    rule: its stable name ("arena", "flash", "max-arena", "max-latency", "max-extra-macs", "active-budget", "operators",
    "arena-known", "accuracy", "growth", "lock", or the rule of a finding). passed is null if it cannot be judged, for
    the reason in message. level: "error" rejects the model, "warning" and "note" do not. value, limit and over are in
    `unit` ("B", "ms", "%"); null if there are none. causes: the operators and tensors that determine the value, the
    largest first. advice: how to lower it.
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
    """A figure that differs from the lock file's, with causes such as "+4,096 B: operator 7 CONV_2D scratch".

    figure: its name in the lock file ("arena_bytes", "model_bytes", "latency_ms", ...). allowed: false if the figure
    may not grow and grew by more than the allowance.
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
    inputs: what else has changed since the lock file was written, a sentence each ("the model file changed", ...).
    """

    state: str
    inputs: tuple[str, ...] = ()
    changes: tuple[ChangeInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class DriftInfo:
    """What another runtime changes for the model.

    before and after are the runtimes' names. inputs: what differs, a sentence each. changes: the figures that differ,
    as in LockInfo. introduced and fixed: the findings about operators, types and kernels that only `after`, or only
    `before`, has.
    """

    before: str
    after: str
    inputs: tuple[str, ...]
    changes: tuple[ChangeInfo, ...]
    introduced: tuple[FindingInfo, ...] = ()
    fixed: tuple[FindingInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class GateInfo:
    """The judgement. path: the model as the user named it, relative to the current directory if it is below it.

    violations: for the name of each budget ("violates_64kib"), whether it is violated; null if that is not known.
    lock: null for the second of two runtimes, which is compared with the first: drift, null otherwise.
    """

    passed: bool
    path: str
    judgements: tuple[JudgementInfo, ...]
    violations: dict[str, bool | None]
    lock: LockInfo | None = None
    drift: DriftInfo | None = None


@dataclass(frozen=True, slots=True)
class Histogram:
    """The number of values in bins of equal width; low and high are the outer edges, in real numbers."""

    low: float
    high: float
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayerLoss:
    """A layer's quantized output compared with the same operator in float on the same inputs.

    name and layer_class are those of the Keras layer, "" if it is not known; operator is the operator that it was
    converted to, the worst if there are several. sqnr_db: the SQNR of the worst quarter of the channels; null if
    nothing is lost. rmse_over_scale: the error in quantization steps; rounding alone results in about 0.29. minimum,
    maximum: the range of the float values. The range of widest_channel is widest_over_median times that of the median
    channel. histogram: the distribution of the float values over the range of the 256 steps. kept_float_sqnr_db: the
    SQNR of the model's worst output with the layers in kept_float in float; null if that was not tried.
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
    """One of the two files that were run; a file that edgetool derived has the name of its source."""

    name: str
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class SampleInfo:
    """The number of samples, in the order in which they ran: random ones, then those from the file."""

    random: int
    seed: int
    from_file: int


@dataclass(frozen=True, slots=True)
class DifferenceInfo:
    """The first element that differs. A value that JSON does not have (NaN, infinity) is null."""

    sample: int
    output: str
    element: tuple[int, ...]
    original: int | float | None
    planned: int | float | None


@dataclass(frozen=True, slots=True)
class CheckInfo:
    """A check of the run: passed is null if it could not be made; message states the reason or the result."""

    check: str
    passed: bool | None
    message: str
    difference: DifferenceInfo | None = None


@dataclass(frozen=True, slots=True)
class HostArena:
    """The planned file's arena on the machine that ran it, not on the device: predicted, and reported by TFLM.

    predicted_bytes is the smallest arena; the others are the bytes of it that AllocateTensors uses.
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
    """The distance between an output of another runtime and TFLM's; unit is "lsb" for integers, "absolute" for floats.

    max_difference is null if a difference is not a number.
    """

    output: str
    unit: str
    max_difference: float | None
    differing: int
    elements: int


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """The original model on another runtime, which is not judged. not_run: why it did not run there."""

    runtime: str
    not_run: str | None
    outputs: tuple[OutputDistance, ...] = ()


@dataclass(frozen=True, slots=True)
class VerifyInfo:
    """The original compared with the planned file on TFLM. planner: the plan is from the file, edgetool or runtime.

    kernels_run: the kernel sets that ran. kernels_untested: those of the target that did not. native: the model on
    TFLM was compared with its generated C, which this machine's compiler built with sanitizers.
    """

    passed: bool
    original: VerifiedFile
    planned: VerifiedFile
    planner: str
    samples: SampleInfo
    checks: tuple[CheckInfo, ...]
    arena: HostArena
    runtimes: tuple[RuntimeInfo, ...]
    kernels_run: tuple[str, ...] = ("reference",)
    kernels_untested: tuple[str, ...] = ()
    native: bool = False


SCHEMA = "edgetool/1"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The program that wrote the document. options: the options of the user, without paths of the machine."""

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
    """The input file, and counts in the .tflite file that is planned."""

    name: str
    sha256: str
    bytes: int
    operators: int
    tensors: int
    parameters: int
    output: OutputInfo | None = None


@dataclass(frozen=True, slots=True)
class OutputQuality:
    """One output of the quantized model compared with the float original. sqnr_db is null if both are equal."""

    name: str
    sqnr_db: float | None
    cosine: float | None
    top1_agreement: float | None


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The share of correct answers on the evaluation data, 0 to 1."""

    float: builtins.float
    quantized: builtins.float


@dataclass(frozen=True, slots=True)
class QuantizationInfo:
    """How the model was quantized, and the loss; layers, the worst first, if they were measured."""

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
    """One part of the arena: part is "tail", "head" or "transient", and where names its contents.

    The entries of the tail sum to tail_bytes, including padding. Those of the head are the live buffers at its peak and
    the gaps between them; they sum to head_bytes. A transient entry is the arena that a moment of AllocateTensors or
    Invoke needs, the largest of which is arena.bytes. requested_bytes is without padding, for all `count` allocations.
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
    """The arena. bytes is the size to declare."""

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
    """A tensor or scratch buffer in the head: its offset, and its first and last position in `order`.

    index is that of the tensor or, for a scratch buffer, of the operator that requests it.
    """

    subgraph: int
    index: int
    name: str
    offset: int
    bytes: int
    first_op: int
    last_op: int


@dataclass(frozen=True, slots=True)
class OverlapInfo:
    """An operator's output that shares bytes with one of its inputs, which nothing reads afterwards.

    input and output are indices of tensors of the main graph; bytes is how many they share. model_input: whether the
    input is one of the model's, which Invoke then overwrites.
    """

    input: int
    output: int
    bytes: int
    model_input: bool = False


@dataclass(frozen=True, slots=True)
class PeakInfo:
    """The first moment at which the head's live bytes reach their maximum.

    Live bytes are the sizes of the buffers, each rounded up to 16. position is an index into `order`; -1 is before the
    first operator, where operator and label are null.
    """

    position: int
    subgraph: int | None
    operator: int | None
    label: str | None
    bytes: int


@dataclass(frozen=True, slots=True)
class SharedBuffer:
    """A memory block and the tensors that share it, by (subgraph, index)."""

    bytes: int
    tensors: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SharingInfo:
    """Tensors that share whole blocks. baseline_bytes: without sharing. cut_short: the search ended early."""

    baseline_bytes: int
    optimized_bytes: int
    lower_bound_bytes: int
    proof: str
    cut_short: bool
    buffers: tuple[SharedBuffer, ...]


@dataclass(frozen=True, slots=True)
class RegionInfo:
    """Operators that run in stripes: their positions in the model without stripes, the first and the last inclusive."""

    first: int
    last: int
    stripes: int


@dataclass(frozen=True, slots=True)
class StripesInfo:
    """The regions of a model in stripes, and the multiply-accumulates that are computed again, in percent, too."""

    regions: tuple[RegionInfo, ...]
    extra_macs: int
    extra_macs_percent: float


@dataclass(frozen=True, slots=True)
class PlanInfo:
    """The order of the main graph's operators, and the offsets of the tensors.

    order[p] is the index in the input file of the operator that runs at position p. moved: the minimum number of
    operators to move to get from the file's order to this one. live_bytes: the maximum live bytes in this order.
    live_lower_bound_bytes: a lower bound for every order; null if none was searched. order_proof: how it is known that
    no order needs less. The peak of the head is the largest offset + bytes of tensors and scratch, rounded up to 16.
    peak is null for an empty head. overlaps: in live_bytes, bytes that two tensors share count once. stripes: null if
    the model is not in stripes.
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
    overlaps: tuple[OverlapInfo, ...] = ()
    stripes: StripesInfo | None = None


@dataclass(frozen=True, slots=True)
class BudgetInfo:
    """A tracked budget, and whether the memory that it applies to (`of`: "arena", "ram" or "flash") exceeds it.

    budget is as the user wrote it ("64KiB"), and name that of the violation ("violates_64kib"). violated is null if the
    arena is a lower bound that does not exceed the budget.
    """

    budget: str
    bytes: int
    violated: bool | None
    of: str = "arena"
    name: str = ""


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """The target's memory, and whether the model fits it."""

    region: str | None
    sram_bytes: int | None
    flash_bytes: int | None
    arena_fits: bool | None
    model_fits: bool | None
    budgets: tuple[BudgetInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacedInfo:
    """A part of the model in the memory that was chosen for it.

    part is "head", "tail", "model", "model copy" if TFLM reads a copy in RAM, or "code" (of the user's own library);
    head and tail are separate arenas, and bytes is the size to declare. Native code has an "arena" with a part in each
    of one or more memories, and "constants". fits: whether the memory has room for all parts
    in it; null if a size is a lower bound.
    """

    part: str
    memory: str
    bytes: int
    memory_bytes: int
    fits: bool | None


@dataclass(frozen=True, slots=True)
class PlacementInfo:
    """The memories of head, tail and model, and the time of an inference there.

    model is null if no flash is known; latency_ms, if the profile does not state the speeds of all these memories.
    """

    head: str
    tail: str
    model: str | None
    fits: bool | None
    latency_ms: Band | None


@dataclass(frozen=True, slots=True)
class BufferPlaceInfo:
    """A buffer of native code at an offset in a memory. tensor: its index in the main graph, -1 for scratch."""

    name: str
    tensor: int
    memory: str
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ArenaPlacementInfo:
    """The buffers of native code in several memories.

    waiting_cycles: how long the core waits in an inference for the bytes of buffers; null if the profile does not state
    the speeds of the memories. waiting_lower_bound_cycles: no placement waits less; null likewise. optimal: whether it
    is proven that no placement waits less (proof); with `minimized`, the memory of which buffers take the fewest bytes,
    no placement that takes as few. minimized_bytes: these bytes, for which minimized_lower_bound holds. copied: the
    operators whose constants are copied from flash to a buffer in each inference, because they read them several
    times; copied_bytes: these constants. copies_begin: if the firmware makes the copies while others run, the operator
    before which each of them begins.
    """

    waiting_cycles: float | None
    waiting_lower_bound_cycles: float | None
    optimal: bool
    proof: str
    minimized: str | None
    minimized_bytes: int | None
    minimized_lower_bound: int | None
    buffers: tuple[BufferPlaceInfo, ...]
    copied: tuple[int, ...] = ()
    copied_bytes: int = 0
    copies_begin: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FindingInfo:
    """A finding; rule is a name of the catalogue in edgetool.finding."""

    rule: str
    level: str
    message: str
    where: str | None


@dataclass(frozen=True, slots=True)
class LinkedRuntime:
    """The runtime of the firmware, if it is not the target's TFLM: its name, and the TFLM version whose outputs it has.

    name: "native", or "tree:" and the name of a folder with the user's TFLM. differs: in what it differs from that
    version, a clause each.
    """

    name: str
    nearest: str
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorCodeInfo:
    """The bytes of code that a firmware has only because of an operator: without it, they would not be linked."""

    operator: str
    bytes: int


@dataclass(frozen=True, slots=True)
class FlashInfo:
    """What a firmware takes in flash for a model: the model, and the code that it links, null if it is not known.

    model_bytes: the .tflite, or the constants of native code. code_bytes: TFLM with the registered kernels, or native
    code, and the runner, start-up code and C library; code_basis: with which build, core and compiler. code_is_exact:
    whether it was counted in the user's own library. uncounted: the operators whose kernels are not counted, so that
    code_bytes is a lower bound. operators: what each operator takes alone. log_bytes: what TFLM's own log would add.
    alternatives: the code with other options, such as {"--optimization Os": 61204}, or at other levels of the compiler
    for native code: {"-Os": 9702}.
    """

    model_bytes: int
    code_bytes: Band | None = None
    code_basis: str | None = None
    code_is_exact: bool = False
    uncounted: tuple[str, ...] = ()
    operators: tuple[OperatorCodeInfo, ...] = ()
    log_bytes: int | None = None
    alternatives: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StackInfo:
    """The most stack that one inference of native code needs below its caller, as a compiler builds it."""

    compiler: str
    core: str
    level: str
    bytes: int


@dataclass(frozen=True, slots=True)
class KernelChoiceInfo:
    """Native code with the tuned kernels that an arena has room for, and lean kernels of the other operators.

    arena_bytes: the arena. scratch_bytes: the most scratch of a kernel. instructions: of one inference, null if they
    are unknown. chosen: whether the report describes it. rows: whether rows are planned instead of tensors. row_input,
    row_output: whether the application hands inputs over row by row, and takes outputs so. extra_macs: the
    multiply-accumulates that are computed again.
    """

    arena_bytes: int
    scratch_bytes: int
    instructions: int | None
    chosen: bool
    rows: bool = False
    row_input: bool = False
    row_output: bool = False
    extra_macs: int = 0


@dataclass(frozen=True, slots=True)
class RowTensorInfo:
    """A tensor as rows of row_bytes, of which at most most_rows are in memory at once.

    index: that of the tensor in the main graph. live: the most rows in memory in each of some equal parts of the
    schedule.
    """

    name: str
    index: int
    rows: int
    row_bytes: int
    most_rows: int
    live: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RowSegment:
    """Operators that run row by row together, or one that runs alone, from first_step to last_step of the schedule.

    Rows that the application hands over or takes are steps, too; they are in no list of operators.
    """

    operators: tuple[int, ...]
    first_step: int
    last_step: int


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What an inference computes if the rows that no new row of the input changes are kept in rings.

    hop_rows: the new rows of the input in each inference. window_rows: those of a whole window. window_hops: how many
    inferences fill the first window. step_macs: the multiply-accumulates of an inference; touched_macs: of rows that
    depend on new rows of the input; window_macs: of a whole window. ring_bytes: the memory of the rings.
    """

    hop_rows: int
    window_rows: int
    window_hops: int
    step_macs: int
    touched_macs: int
    window_macs: int
    ring_bytes: int


@dataclass(frozen=True, slots=True)
class RowsInfo:
    """A plan of rows: no schedule of rows without recomputation takes less than lower_bound_bytes; null if unknown.

    steps: the length of the schedule. table_bytes: the schedule and the offsets in flash. row_inputs, row_outputs: the
    names of the inputs that the application hands over row by row, and of the outputs that it takes so. extra_macs: the
    multiply-accumulates that are computed again to take less memory; extra_macs_percent: the same in percent of the
    model's. weights_per_row_bytes: the most constants that operators that run row by row together read for each row.
    stream: null if an inference computes whole windows.
    """

    memory_bytes: int
    lower_bound_bytes: int | None
    steps: int
    table_bytes: int
    row_inputs: tuple[str, ...] = ()
    segments: tuple[RowSegment, ...] = ()
    tensors: tuple[RowTensorInfo, ...] = ()
    row_outputs: tuple[str, ...] = ()
    extra_macs: int = 0
    extra_macs_percent: float = 0.0
    weights_per_row_bytes: int = 0
    stream: StreamInfo | None = None


@dataclass(frozen=True, slots=True)
class ShrinkStep:
    """The arena after a step of --shrink: "layout" (with order), "overlap", "stripes", or "pixel-order" if 1x1
    convolutions run pixel by pixel and nothing runs in stripes.
    """

    step: str
    arena_bytes: int


@dataclass(frozen=True, slots=True)
class ShrinkInfo:
    """What --shrink did to make the model fit: the steps in their order, of which the last one was enough (`step`).

    latency_before_ms, latency_after_ms: the estimated time of an inference without and with stripes; null if it is not
    known, or if there are none.
    """

    step: str
    steps: tuple[ShrinkStep, ...]
    latency_before_ms: Band | None = None
    latency_after_ms: Band | None = None


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A plan on the front of arena against latency. step: as in ShrinkStep.

    regions, extra_macs, extra_macs_percent: as in StripesInfo; none without stripes. model_bytes: the planned file.
    latency_ms: null if it is not known. verified: whether the planned file computes the outputs of the model on TFLM;
    null if it did not run.
    """

    arena_bytes: int
    step: str
    regions: tuple[RegionInfo, ...]
    extra_macs: int
    extra_macs_percent: float
    operators: int
    model_bytes: int
    latency_ms: Band | None = None
    verified: bool | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The document of one model on one target. Sections that a command does not compute are null."""

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
    runtime: LinkedRuntime | None = None
    flash: FlashInfo | None = None
    stack: tuple[StackInfo, ...] = ()
    kernel_choices: tuple[KernelChoiceInfo, ...] = ()
    rows: RowsInfo | None = None
    places: tuple[PlacedInfo, ...] = ()
    placements: tuple[PlacementInfo, ...] = ()
    shrink: ShrinkInfo | None = None
    front: tuple[FrontPoint, ...] = ()
    arena_placement: ArenaPlacementInfo | None = None

    @property
    def is_native(self) -> bool:
        """Whether the firmware runs generated code instead of TFLM."""
        return self.runtime is not None and self.runtime.name == "native"

    @property
    def model_bytes_in_flash(self) -> int:
        """What the model takes in flash: its file, or the constants of native code."""
        return self.model.bytes if self.flash is None else self.flash.model_bytes

    @property
    def exact_code_bytes(self) -> int:
        """The code that must fit in flash with the model: that which was counted in the user's own library."""
        flash = self.flash
        exact = flash is not None and flash.code_is_exact and flash.code_bytes is not None
        return round(flash.code_bytes.value) if exact and flash is not None and flash.code_bytes is not None else 0


@dataclass(frozen=True, slots=True)
class SharedModelInfo:
    """One of the models: its head, and its part of the tail (for the first one, including TFLM's allocators)."""

    name: str
    head_bytes: int | None
    tail_bytes: int | None


@dataclass(frozen=True, slots=True)
class SharedArenaInfo:
    """The arena that several models share, which are initialised in `order`. bytes is the size to declare.

    fits: whether it fits in the target's region. separate_bytes: the sum of the arenas of the models without sharing.
    best_order needs best_order_bytes, the minimum over the orders that were tried; up to five models, all orders are
    tried. places and placements: as for Report, if head and tail are arenas of their own; bytes is then still that of
    a single arena.
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
    places: tuple[PlacedInfo, ...] = ()
    placements: tuple[PlacementInfo, ...] = ()
