"""The constraints of a model on a target's memories, and advice to the engineer who has to make it fit or run faster.

The advice is a list of sentences, each from one rule, that apply to this model on this target.
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
    """A requirement compared with its region. bytes is None for an unknown arena, limit_bytes without a region."""

    region: str | None
    bytes: int | None
    limit_bytes: int | None

    @property
    def share(self) -> float | None:
        """The share of the region that is needed, above 1 if it does not fit."""
        if self.bytes is None or not self.limit_bytes:
            return None
        return self.bytes / self.limit_bytes

    @property
    def margin_bytes(self) -> int | None:
        """The remaining bytes of the region; negative if it is too small."""
        if self.bytes is None or self.limit_bytes is None:
            return None
        return self.limit_bytes - self.bytes

    @property
    def fits(self) -> bool | None:
        """Whether the region is large enough; None if that is not known."""
        margin = self.margin_bytes
        return None if margin is None else margin >= 0


@dataclass(frozen=True, slots=True)
class OperatorShare:
    """An operator's share of the whole model's time."""

    subgraph: int
    index: int
    operator: str
    ms: float
    share: float
    bound: Bound


@dataclass(frozen=True, slots=True)
class CacheSensitivity:
    """The operators compared with the data cache. cached names the contents behind it: "constants", "activations" or
    both.

    working_set_bytes is the maximum of these that one operator accesses in a run, and largest that operator. streaming
    are those that access more than the cache size; their share is by time.
    """

    cache_bytes: int
    cached: tuple[str, ...]
    working_set_bytes: int
    largest: OperatorShare
    use: CacheUse
    streaming: tuple[OperatorShare, ...]

    @property
    def streaming_share(self) -> float:
        """The share of the time in operators whose data exceed the cache."""
        return sum(item.share for item in self.streaming)


@dataclass(frozen=True, slots=True)
class ActivationPeak:
    """The operator with the largest sum of inputs and outputs: a lower bound on every layout in any order."""

    subgraph: int
    index: int
    operator: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Constraints:
    """The limits of the model on the target. None: there is no operator and, for cache, no cache in the profile."""

    arena: Limit
    flash: Limit
    cache: CacheSensitivity | None
    bottleneck: OperatorShare | None
    activations: ActivationPeak | None


def constraints_of(model: Model, plan: Plan, estimate: Estimate, target: Target, *, model_bytes: int) -> Constraints:
    """Return the constraints of a planned model on a target. model_bytes is the size of its file."""
    is_exact = plan.account is not None and not plan.account.is_lower_bound
    arena = plan.account.bytes if plan.account is not None and is_exact else None
    return Constraints(
        arena=_limit(target.arena_region, arena),
        flash=_limit(target.flash_region, model_bytes),
        cache=cache_sensitivity(estimate, target),
        bottleneck=bottleneck(estimate),
        activations=_activation_peak(model),
    )


def bottleneck(estimate: Estimate) -> OperatorShare | None:
    """Return the operator that takes the most time; the first in case of a tie. None without operators."""
    shares = _shares(estimate)
    return max(shares, key=lambda item: item.ms, default=None)


def cache_sensitivity(estimate: Estimate, target: Target) -> CacheSensitivity | None:
    """Compare the operators with the data caches of the regions of constants and arena; None if there is no cache.

    Caches of the same size for both are assumed to be the core's single cache.
    """
    constants, arena = _cache(target.flash_region), _cache(target.arena_region)
    cache_bytes = max(constants, arena)
    if not cache_bytes or not estimate.operators:
        return None
    # If the sizes differ, one cache belongs to a memory: the larger one counts.
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


# The share of the cycles above which waiting for constants is mentioned.
MIN_STALL_SHARE = 0.1
# The share of the time above which the verdict mentions waiting.
MIN_VERDICT_STALL_SHARE = 0.5
# The minimum share of the time of an operator that is named.
MIN_NAMED_SHARE = 0.05

TEXTS: dict[Verdict, str] = {
    "memory-bound": "memory-bound: most of the time is spent moving data",
    "balanced": "balanced: arithmetic and memory both contribute",
    "compute-bound or inefficient access": "compute-bound or inefficient access: most of the bandwidth is unused",
}


@dataclass(frozen=True, slots=True)
class AdviceContext:
    """The input of the advice. bandwidth is None if no time is known; the others are None if they are not known."""

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
    def fitting_precision(self) -> PrecisionRow | None:
        """The highest precision that fits, if the current one does not; one that may fit if none is certain to."""
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
        """Whether the core waits for memory for a considerable share of the time."""
        return self.waiting > MIN_STALL_SHARE

    @property
    def faster_memory_helps(self) -> bool:
        """Whether faster memory would help."""
        return self.stalls or (self.bandwidth is not None and self.bandwidth.verdict == "memory-bound")

    @property
    def on_chip(self) -> MemoryRegion | None:
        """The largest RAM on the chip."""
        regions = (region for region in self.target.regions if region.kind == "sram")
        return max(regions, key=lambda region: region.size_bytes, default=None)

    @property
    def free_bytes(self) -> int:
        """The free bytes of the arena's region, if it is on the chip; 0 if that is not known."""
        region = self.target.arena_region
        if region is None or region.kind != "sram" or self.arena_bytes is None:
            return 0
        return max(0, region.size_bytes - self.arena_bytes)


def verdict_text(bandwidth: Bandwidth, waiting: float = 0.0) -> str:
    """Return the verdict with its figures, as a sentence without a full stop. waiting: the share of time spent waiting.

    Bytes that a kernel reads several times count once in the bandwidth, so that a low utilization does not mean that
    the memory could deliver more.
    """
    share, text = bandwidth.utilization, TEXTS[bandwidth.verdict]
    if waiting > MIN_VERDICT_STALL_SHARE and share < COMPUTE_BOUND_BELOW:
        text = (
            f"inefficient access: {100 * waiting:.0f} % of the time is spent waiting for data that is read repeatedly"
        )
    achieved, configured = rates(bandwidth.achieved_gbps, bandwidth.configured_gbps)
    return f"{text} ({achieved.partition(' ')[0]} of {configured}, {100 * share:.{0 if share >= 0.1 else 1}f} %)"


def advice(context: AdviceContext) -> tuple[str, ...]:
    """Return the measures that would help, the most effective first, if this model on this target gives a reason for
    them.
    """
    return tuple(text for rule in ADVICE_RULES if (text := rule(context)) is not None)


def _too_large(context: AdviceContext) -> str | None:
    tradeoffs, target = context.tradeoffs, context.target
    if tradeoffs is None or not context.too_large:
        return None
    current, missing = tradeoffs.as_is, list[str]()
    arena, qualifier = (current.live_bytes, "at least ") if current.arena_bytes is None else (current.arena_bytes, "")
    region, flash = target.arena_region, target.flash_region
    arena_misses = region is not None and arena > region.size_bytes
    if region is not None and arena_misses:
        missing.append(f"the arena needs {qualifier}{arena:,} bytes, but {region.name} has only {region.size_bytes:,}")
    if flash is not None and current.model_bytes > flash.size_bytes:
        missing.append(f"the model needs {current.model_bytes:,} bytes, but {flash.name} has only {flash.size_bytes:,}")
    ways = []
    if (fitting := context.fitting_precision) is not None:
        ways.append(f"convert to {fitting.precision}, which {'fits' if fitting.fits else 'may fit'}")
    if arena_misses and len(missing) == 1:
        outside = [item for item in target.regions if item.kind == "external-ram" and item != region]
        roomy = next((item for item in outside if item.size_bytes >= arena), None)
        ways += [] if roomy is None else [f"place the arena in {roomy.name} (--arena-region {roomy.name})"]
    ways.append("use fewer channels, or a smaller input" if arena_misses else "use fewer channels or layers")
    return f"make it fit: {'; '.join(missing)}; {', '.join(ways[:-1])}{', or ' if ways[1:] else ''}{ways[-1]}"


def _measure(context: AdviceContext) -> str | None:
    if context.bandwidth is not None:
        return None
    return (
        "measure a run on the device and pass its time with --measured-ms: memory traffic alone does not "
        "determine the time"
    )


def _arena(context: AdviceContext) -> str | None:
    region, on_chip = context.target.arena_region, context.on_chip
    if region is None or region.kind != "external-ram" or on_chip is None:
        return None
    if context.arena_bytes is not None and context.arena_bytes <= on_chip.size_bytes:
        return f"place the arena in {on_chip.name}: its {context.arena_bytes:,} bytes fit there"
    room = f"{on_chip.name} ({on_chip.size_bytes:,} bytes)"
    return f"use a smaller input or fewer channels, so that the arena fits in {room}"


def _kernels(context: AdviceContext) -> str | None:
    target, best = context.target, context.target.core.default_kernels
    if target.runtime.is_native or target.kernels == best or best != "cmsis-nn":
        return None
    return "build TFLM with CMSIS-NN (OPTIMIZED_KERNEL_DIR=cmsis_nn): the reference kernels use no SIMD"


def _narrower(context: AdviceContext) -> str | None:
    if context.fitting_precision is not None:
        return None  # _too_large recommends it
    if context.precision in ("float32", "float16"):
        simd = context.target.core.dsp or context.target.core.mve
        gain = f"a quarter of the memory traffic of float32{', and kernels that use SIMD' if simd else ''}"
        return f"convert to int8, if the accuracy remains acceptable: {gain}"
    if context.precision == "int16x8":
        return "convert to int8, if the accuracy remains acceptable: activations take half the memory"
    return None


def _constants(context: AdviceContext) -> str | None:
    source = context.target.flash_region
    if source is None or not context.faster_memory_helps:
        return None
    per_run = {(item.subgraph, item.index): _constant_bytes(item) for item in context.estimate.operators}
    everything, free = sum(per_run.values()), context.free_bytes
    if 0 < everything <= free:
        region = context.target.arena_region
        where = region.name if region is not None else "RAM"
        return (
            f"copy the weights from {source.name} to {where} at startup ({everything:,} bytes; {free:,} bytes are free)"
        )
    fitting = [item for item in context.estimate.operators if 0 < _constant_bytes(item) <= free]
    if not fitting:
        return f"copy the hottest weights from {source.name} to SRAM or TCM, if the chip has other free RAM"
    best = max(fitting, key=lambda item: (item.stall_cycles, item.parameter_bytes))
    total_ms = sum(item.ms.value for item in context.estimate.operators)
    if best.ms.value < MIN_NAMED_SHARE * total_ms:
        return None
    size = _constant_bytes(best)
    return (
        f"copy the weights of {best.operator} {best.index} ({size:,} bytes) from {source.name} to RAM: "
        f"{free:,} bytes are free there"
    )


def _cache_advice(context: AdviceContext) -> str | None:
    source = context.target.flash_region
    if source is None or source.cache_bytes or not source.wait_states or not context.faster_memory_helps:
        return None
    return f"enable caching and prefetching for {source.name}, if the chip supports them: the profile assumes neither"


def _slowest(context: AdviceContext) -> str | None:
    slowest = bottleneck(context.estimate)
    if slowest is None or not slowest.ms:
        return None
    if slowest.share < MIN_NAMED_SHARE:
        return "no single operator dominates: use fewer channels throughout, or a smaller input"
    if context.estimate.latency_ms is None:
        moved = f"which accounts for {100 * slowest.share:.0f} % of the memory traffic"
        return f"start with {slowest.operator} {slowest.index}, {moved}: use fewer channels or a smaller input"
    what = (
        "use fewer channels, because it moves a lot of data"
        if slowest.bound == "memory"
        else "use fewer channels or a smaller input"
    )
    separable = any(item.operator == "DEPTHWISE_CONV_2D" for item in context.estimate.operators)
    more = ", or depthwise-separable convolutions" if slowest.operator == "CONV_2D" and not separable else ""
    return f"start with {slowest.operator} {slowest.index} ({100 * slowest.share:.0f} % of the time): {what}{more}"


def _constant_bytes(item: OperatorEstimate) -> int:
    """Return the bytes of its constants, which all of its runs share."""
    return item.parameter_bytes // max(item.runs, 1)


ADVICE_RULES: tuple[Callable[[AdviceContext], str | None], ...] = (
    _too_large,
    _measure,
    _arena,
    _kernels,
    _narrower,
    _constants,
    _cache_advice,
    _slowest,
)
