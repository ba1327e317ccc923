"""What the target's memories allow, and which operators press on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgetool.estimate.types import Bound, Estimate, OperatorEstimate
from edgetool.memory.planner import MemoryPlan
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


def constraints_of(
    model: Model, plan: MemoryPlan, estimate: Estimate, target: Target, *, model_bytes: int
) -> Constraints:
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
