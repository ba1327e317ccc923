"""What the target's memories allow, and which operators press on them.

What to do about the limit of an inference: sentences for the engineer who has to make it fit, and faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from edgetool.estimate.memory_speed import COMPUTE_BOUND_BELOW, Bandwidth, Verdict, rates
from edgetool.estimate.precision import PrecisionRow, PrecisionTradeoffs
from edgetool.estimate.retyped import PrecisionName
from edgetool.estimate.types import Bound, Estimate, OperatorEstimate
from edgetool.memory.planner import Plan
from edgetool.model.types import Model
from edgetool.operators.call import arena_bytes
from edgetool.target.types import MemoryRegion, Target

CacheUse = Literal["fits", "streams"]


@dataclass(frozen=True, slots=True)
class Limit:
    """A need against its region. bytes is None for an arena that is not known; limit_bytes without a region."""

    region: str | None
    bytes: int | None
    limit_bytes: int | None

    @property
    def share(self) -> float | None:
        """The part of the region that is needed, above 1 where it does not fit."""
        if self.bytes is None or not self.limit_bytes:
            return None
        return self.bytes / self.limit_bytes

    @property
    def margin_bytes(self) -> int | None:
        """What is left of the region; negative where that much is missing."""
        if self.bytes is None or self.limit_bytes is None:
            return None
        return self.limit_bytes - self.bytes

    @property
    def fits(self) -> bool | None:
        """Whether the region holds it; None where that is not known."""
        margin = self.margin_bytes
        return None if margin is None else margin >= 0


@dataclass(frozen=True, slots=True)
class OperatorShare:
    """An operator and how much of something it takes; share is by the whole model's time."""

    subgraph: int
    index: int
    operator: str
    ms: float
    share: float
    bound: Bound


@dataclass(frozen=True, slots=True)
class CacheSensitivity:
    """Operators against the data cache. cached names what lies behind it: "constants", "activations" or both.

    working_set_bytes is the largest of what one operator touches of that in a run, and largest the operator. streaming
    are those that touch more than the cache holds; their share is by time.
    """

    cache_bytes: int
    cached: tuple[str, ...]
    working_set_bytes: int
    largest: OperatorShare
    use: CacheUse
    streaming: tuple[OperatorShare, ...]

    @property
    def streaming_share(self) -> float:
        """The part of the time in operators that the cache does not hold."""
        return sum(item.share for item in self.streaming)


@dataclass(frozen=True, slots=True)
class ActivationPeak:
    """The operator whose inputs and outputs are the most bytes: no layout needs less, whatever the order."""

    subgraph: int
    index: int
    operator: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Constraints:
    """What limits the model on the target. None: there is no operator, and for the cache no cache in the profile."""

    arena: Limit
    flash: Limit
    cache: CacheSensitivity | None
    bottleneck: OperatorShare | None
    activations: ActivationPeak | None


def constraints_of(model: Model, plan: Plan, estimate: Estimate, target: Target, *, model_bytes: int) -> Constraints:
    """The constraints of a planned model on a target. model_bytes is the size of its file."""
    known = plan.account is not None and not plan.account.is_lower_bound
    arena = plan.account.bytes if plan.account is not None and known else None
    return Constraints(
        arena=_limit(target.arena_region, arena),
        flash=_limit(target.flash_region, model_bytes),
        cache=cache_sensitivity(estimate, target),
        bottleneck=bottleneck(estimate),
        activations=_activation_peak(model),
    )


def bottleneck(estimate: Estimate) -> OperatorShare | None:
    """The operator with the most time, the first of equals; None without operators."""
    shares = _shares(estimate)
    return max(shares, key=lambda item: item.ms, default=None)


def cache_sensitivity(estimate: Estimate, target: Target) -> CacheSensitivity | None:
    """How operators fare with the data caches of the regions of constants and arena; None where there is none.

    Caches of one size in front of both are taken to be one, the core's own.
    """
    constants, arena = _cache(target.flash_region), _cache(target.arena_region)
    cache_bytes = max(constants, arena)
    if not cache_bytes or not estimate.operators:
        return None
    # Of caches of two sizes, one belongs to a memory: the larger is looked at.
    with_constants, with_activations = constants == cache_bytes, arena == cache_bytes
    sets = [
        (item.parameter_bytes * with_constants + item.activation_bytes * with_activations) // max(item.runs, 1)
        for item in estimate.operators
    ]
    shares = _shares(estimate)
    largest = max(range(len(sets)), key=sets.__getitem__)
    streaming = tuple(share for share, size in zip(shares, sets, strict=True) if size > cache_bytes)
    named = (("constants", with_constants), ("activations", with_activations))
    return CacheSensitivity(
        cache_bytes=cache_bytes,
        cached=tuple(name for name, cached in named if cached),
        working_set_bytes=sets[largest],
        largest=shares[largest],
        use="streams" if streaming else "fits",
        streaming=streaming,
    )


def _limit(region: MemoryRegion | None, size_bytes: int | None) -> Limit:
    if region is None:
        return Limit(None, size_bytes, None)
    return Limit(region.name, size_bytes, region.size_bytes)


def _cache(region: MemoryRegion | None) -> int:
    return 0 if region is None else region.cache_bytes


def _shares(estimate: Estimate) -> list[OperatorShare]:
    total = sum(item.ms.value for item in estimate.operators)
    return [_share(item, total) for item in estimate.operators]


def _share(item: OperatorEstimate, total_ms: float) -> OperatorShare:
    share = item.ms.value / total_ms if total_ms else 0.0
    return OperatorShare(item.subgraph, item.index, item.operator, item.ms.value, share, item.bound)


def _activation_peak(model: Model) -> ActivationPeak | None:
    peaks = [
        ActivationPeak(
            graph.index,
            operator.index,
            operator.label,
            sum(
                arena_bytes(graph.tensors[index])
                for index in {i for i in (*operator.inputs, *operator.outputs) if i >= 0}
                if not graph.tensors[index].is_constant
            ),
        )
        for graph in model.subgraphs
        for operator in graph.operators
    ]
    return max(peaks, key=lambda peak: peak.bytes, default=None)


# Waiting for constants is worth a word from this share of the cycles.
STALLS_FROM = 0.1
# And the verdict speaks of it from this share.
WAITING_FROM = 0.5
# An operator is worth naming from this share of the time.
NAMED_FROM = 0.05

TEXTS: dict[Verdict, str] = {
    "memory-bound": "memory-bound: most of the time is spent moving data",
    "balanced": "balanced: arithmetic and memory both contribute",
    "compute-bound or inefficient access": "compute-bound or inefficient access: most of the bandwidth is unused",
}


@dataclass(frozen=True, slots=True)
class Situation:
    """What advice goes by. bandwidth is None where no time is known, the others where they are not."""

    estimate: Estimate
    target: Target
    bandwidth: Bandwidth | None
    arena_bytes: int | None = None
    precision: PrecisionName | None = None
    tradeoffs: PrecisionTradeoffs | None = None

    @property
    def too_large(self) -> bool:
        """Whether the arena or the model does not fit its memory."""
        return self.tradeoffs is not None and self.tradeoffs.as_is.fits is False

    @property
    def smaller(self) -> PrecisionRow | None:
        """The highest precision that fits in place of one that does not; one that may, where none is sure to."""
        if self.tradeoffs is None or not self.too_large:
            return None
        rows = [row for row in self.tradeoffs.rows if row.stock_tflm and row.precision != self.precision]
        certain = (row for row in rows if row.fits)
        return next(certain, next((row for row in rows if row.fits is None and row.arena_bytes is not None), None))

    @property
    def waiting(self) -> float:
        """The share of the estimated time in which the core waits for memory."""
        cycles = self.estimate.cycles
        return sum(item.stall_cycles for item in self.estimate.operators) / cycles if cycles else 0.0

    @property
    def stalls(self) -> bool:
        """Whether that is a good part of it."""
        return self.waiting > STALLS_FROM

    @property
    def waits(self) -> bool:
        """Whether faster memory would help."""
        return self.stalls or (self.bandwidth is not None and self.bandwidth.verdict == "memory-bound")

    @property
    def on_chip(self) -> MemoryRegion | None:
        """The largest RAM on the chip."""
        regions = (region for region in self.target.regions if region.kind == "sram")
        return max(regions, key=lambda region: region.size_bytes, default=None)

    @property
    def free_bytes(self) -> int:
        """What is left of the arena's region, if it is on the chip; 0 where that is not known."""
        region = self.target.arena_region
        if region is None or region.kind != "sram" or self.arena_bytes is None:
            return 0
        return max(0, region.size_bytes - self.arena_bytes)


def verdict_text(bandwidth: Bandwidth, waiting: float = 0.0) -> str:
    """The verdict with its figures, as a sentence without a full stop. waiting: the share of the time for memory.

    Bytes that a kernel reads several times count once in the bandwidth: that little of it is used is then no sign that
    memory could deliver more.
    """
    share, text = bandwidth.utilization, TEXTS[bandwidth.verdict]
    if waiting > WAITING_FROM and share < COMPUTE_BOUND_BELOW:
        text = (
            f"inefficient access: {100 * waiting:.0f} % of the time is spent waiting for data that is read repeatedly"
        )
    achieved, configured = rates(bandwidth.achieved_gbps, bandwidth.configured_gbps)
    return f"{text} ({achieved.partition(' ')[0]} of {configured}, {100 * share:.{0 if share >= 0.1 else 1}f} %)"


def advice(situation: Situation) -> tuple[str, ...]:
    """What would help, what helps most first: only what this model on this target shows a reason for."""
    return tuple(text for rule in RULES if (text := rule(situation)) is not None)


def _too_large(situation: Situation) -> str | None:
    tradeoffs, target = situation.tradeoffs, situation.target
    if tradeoffs is None or not situation.too_large:
        return None
    own, missing = tradeoffs.as_is, list[str]()
    arena, least = (own.live_bytes, "at least ") if own.arena_bytes is None else (own.arena_bytes, "")
    region, flash = target.arena_region, target.flash_region
    arena_misses = region is not None and arena > region.size_bytes
    if region is not None and arena_misses:
        missing.append(f"the arena needs {least}{arena:,} bytes, but {region.name} has only {region.size_bytes:,}")
    if flash is not None and own.model_bytes > flash.size_bytes:
        missing.append(f"the model needs {own.model_bytes:,} bytes, but {flash.name} has only {flash.size_bytes:,}")
    ways = []
    if (smaller := situation.smaller) is not None:
        ways.append(f"convert to {smaller.precision}, which {'fits' if smaller.fits else 'may fit'}")
    if arena_misses and len(missing) == 1:
        outside = [item for item in target.regions if item.kind == "external-ram" and item != region]
        roomy = next((item for item in outside if item.size_bytes >= arena), None)
        ways += [] if roomy is None else [f"place the arena in {roomy.name} (--arena-region {roomy.name})"]
    ways.append("use fewer channels, or a smaller input" if arena_misses else "use fewer channels or layers")
    return f"make it fit: {'; '.join(missing)}; {', '.join(ways[:-1])}{', or ' if ways[1:] else ''}{ways[-1]}"


def _measure(situation: Situation) -> str | None:
    if situation.bandwidth is not None:
        return None
    return (
        "measure a run on the device and pass its time with --measured-ms: memory traffic alone does not "
        "determine the time"
    )


def _arena(situation: Situation) -> str | None:
    region, on_chip = situation.target.arena_region, situation.on_chip
    if region is None or region.kind != "external-ram" or on_chip is None:
        return None
    if situation.arena_bytes is not None and situation.arena_bytes <= on_chip.size_bytes:
        return f"place the arena in {on_chip.name}: its {situation.arena_bytes:,} bytes fit there"
    room = f"{on_chip.name} ({on_chip.size_bytes:,} bytes)"
    return f"use a smaller input or fewer channels, so that the arena fits in {room}"


def _kernels(situation: Situation) -> str | None:
    target = situation.target
    if target.kernels == target.core.default_kernels or target.core.default_kernels != "cmsis-nn":
        return None
    return "build TFLM with CMSIS-NN (OPTIMIZED_KERNEL_DIR=cmsis_nn): the reference kernels use no SIMD"


def _narrower(situation: Situation) -> str | None:
    if situation.smaller is not None:
        return None  # told already: it does not fit otherwise
    if situation.precision in ("float32", "float16"):
        simd = situation.target.core.dsp or situation.target.core.mve
        gain = f"a quarter of the memory traffic of float32{', and kernels that use SIMD' if simd else ''}"
        return f"convert to int8, if the accuracy remains acceptable: {gain}"
    if situation.precision == "int16x8":
        return "convert to int8, if the accuracy remains acceptable: activations take half the memory"
    return None


def _constants(situation: Situation) -> str | None:
    source = situation.target.flash_region
    if source is None or not situation.waits:
        return None
    per_run = {(item.subgraph, item.index): _constant_bytes(item) for item in situation.estimate.operators}
    everything, free = sum(per_run.values()), situation.free_bytes
    if 0 < everything <= free:
        region = situation.target.arena_region
        where = region.name if region is not None else "RAM"
        return (
            f"copy the weights from {source.name} to {where} at startup ({everything:,} bytes; {free:,} bytes are free)"
        )
    fitting = [item for item in situation.estimate.operators if 0 < _constant_bytes(item) <= free]
    if not fitting:
        return f"copy the hottest weights from {source.name} to SRAM or TCM, if the chip has other free RAM"
    best = max(fitting, key=lambda item: (item.stall_cycles, item.parameter_bytes))
    total_ms = sum(item.ms.value for item in situation.estimate.operators)
    if best.ms.value < NAMED_FROM * total_ms:
        return None
    size = _constant_bytes(best)
    return (
        f"copy the weights of {best.operator} {best.index} ({size:,} bytes) from {source.name} to RAM: "
        f"{free:,} bytes are free there"
    )


def _cache_advice(situation: Situation) -> str | None:
    source = situation.target.flash_region
    if source is None or source.cache_bytes or not source.wait_states or not situation.waits:
        return None
    return f"enable caching and prefetching for {source.name}, if the chip supports them: the profile assumes neither"


def _slowest(situation: Situation) -> str | None:
    found = bottleneck(situation.estimate)
    if found is None or not found.ms:
        return None
    if found.share < NAMED_FROM:
        return "no single operator dominates: use fewer channels throughout, or a smaller input"
    if situation.estimate.latency_ms is None:
        moved = f"which accounts for {100 * found.share:.0f} % of the memory traffic"
        return f"start with {found.operator} {found.index}, {moved}: use fewer channels or a smaller input"
    what = (
        "use fewer channels, because it moves a lot of data"
        if found.bound == "memory"
        else "use fewer channels or a smaller input"
    )
    separable = any(item.operator == "DEPTHWISE_CONV_2D" for item in situation.estimate.operators)
    more = ", or depthwise-separable convolutions" if found.operator == "CONV_2D" and not separable else ""
    return f"start with {found.operator} {found.index} ({100 * found.share:.0f} % of the time): {what}{more}"


def _constant_bytes(item: OperatorEstimate) -> int:
    """The bytes of its constants, which all its runs share."""
    return item.parameter_bytes // max(item.runs, 1)


RULES: tuple[Callable[[Situation], str | None], ...] = (
    _too_large,
    _measure,
    _arena,
    _kernels,
    _narrower,
    _constants,
    _cache_advice,
    _slowest,
)
