"""The document as types. Field names are the JSON's own: other programs build on them."""

from __future__ import annotations

import builtins
from dataclasses import dataclass

from edgetool.report.check import GateInfo
from edgetool.report.estimate import EstimateInfo
from edgetool.report.layer_loss import LayerLoss
from edgetool.report.verification import VerifyInfo

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
