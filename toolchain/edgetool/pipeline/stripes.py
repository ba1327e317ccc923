"""Models in stripes for TFLM, as requested by --max-extra-macs and --shrink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgetool.errors import FailedCheckError, UsageError
from edgetool.figure import Figure, in_text
from edgetool.finding import Finding
from edgetool.memory.planner import Plan, PlanRequest, plan_memory
from edgetool.memory.problem import Effort
from edgetool.memory.striping import NO_ROOM, StripedPlan, StripePlanner, counted_bytes
from edgetool.model.edit import in_order, renumbered, without_metadata
from edgetool.model.metadata import (
    METADATA_NAME,
    RECORD_METADATA_NAME,
    StripedRegion,
    changes_of,
    keeps_own_plan,
    with_changes,
)
from edgetool.model.rules import counted
from edgetool.model.types import Model
from edgetool.model.views import views_of
from edgetool.model.writer import write_model
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import operator_costs
from edgetool.passes.pixel_order import in_pixel_order
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.planning import PossiblyStriped
from edgetool.pipeline.source import Source
from edgetool.report.document import Band, ShrinkInfo, ShrinkStep
from edgetool.target.places import apart
from edgetool.target.platform import platform_of
from edgetool.target.types import MemoryRegion, Target

PLAN_NODES = 100_000  # search nodes for the plan without stripes, which leave time for those with stripes
# The extra multiply-accumulates without --max-extra-macs at most, in percent of the model's.
MOST_PERCENT = 50.0
# Two arenas have that much more than a single one at most, so far (docs/memories.md: 176 bytes).
SEPARATE_BYTES = 256


def in_stripes(
    source: Source,
    target: Target | None,
    request: PlanRequest,
    effort: Effort,
    custom: Mapping[str, OperatorEntry] | None = None,
    place: str | None = None,
) -> PossiblyStriped:
    """Return the model with the stripes that make its arena smallest, or with --shrink, that make it fit the target.

    If `place` names different memories for head and tail, stripes make the head smallest, as far as the tail has room.

    Raises:
        UsageError: No target is known, or with --shrink, not its memory; or the model cannot be changed.
        TargetError: The target has no such memory.
        FailedCheckError: The arena does not fit the target, whatever the stripes.
    """
    memories = None if target is None else apart(place, target)
    whole = Unstriped.of(source, target, request, effort, custom, memories)
    if request.shrink:
        return _shrunk(whole, effort)
    best = whole.planner(request.max_extra_macs or 0.0).smallest(effort)
    if best is None:
        text = whole.tail_problem or (
            f"no stripes with at most {request.max_extra_macs:g} % extra work lower the {whole.part} below "
            f"{whole.size(whole.plan):,} bytes"
        )
        return PossiblyStriped(source, None, (Finding("stripes", text, where=whole.target.name),))
    text = (
        f"{whole.cost(best)} lower the {whole.part} from {whole.size(whole.plan):,} to {whole.size(best.plan):,} "
        f"bytes; {len(best.model.main.operators)} operators run"
    )
    if best.regions:
        text += ", and the file needs its memory plan"
    return PossiblyStriped(
        whole.striped(best), whole.plan_of(best), (Finding("stripes", text, where=whole.target.name),)
    )


def arena_bytes(plan: Plan) -> int:
    """Return the size of the arena of a plan for a known build."""
    assert plan.account is not None
    return plan.account.bytes


@dataclass(frozen=True, slots=True)
class Unstriped:
    """A model without a plan in its file, and its best plan without stripes.

    ordered: the model in the order of this plan, in which the stripes of a region follow each other. base: its plan.
    memories: those of head and tail if they are different.
    """

    source: Source
    target: Target
    request: PlanRequest
    effort: Effort
    custom: Mapping[str, OperatorEntry] | None
    model: Model
    plan: Plan
    ordered: Model
    base: Plan
    memories: tuple[MemoryRegion, MemoryRegion] | None = None

    @classmethod
    def of(
        cls,
        source: Source,
        target: Target | None,
        request: PlanRequest,
        effort: Effort,
        custom: Mapping[str, OperatorEntry] | None,
        memories: tuple[MemoryRegion, MemoryRegion] | None = None,
    ) -> Unstriped:
        """Plan a model without stripes. Raises UsageError without a target, or if the model has stripes."""
        if target is None:
            raise UsageError(
                "--max-extra-macs, --shrink and --front plan for the kernels of a target",
                fix="specify one with --target",
            )
        model = without_metadata(without_metadata(source.model, METADATA_NAME), RECORD_METADATA_NAME)
        if views_of(model) or keeps_own_plan(source.model):
            raise UsageError(
                "the model relies on the memory plan in its file, so that no other stripes can be chosen",
                where=source.name,
                fix="use the model before it was planned, or omit --max-extra-macs, --shrink and --front",
            )
        platform, options = platform_of(target), replace(request, file_plan="replace", shrink=False)
        limited = replace(effort, node_limit=PLAN_NODES)
        plan = plan_memory(model, platform, options, limited, custom=custom)
        ordered = renumbered(in_order(model, plan.order))
        base = plan_memory(ordered, platform, replace(options, order="original"), limited, custom=custom)
        return cls(source, target, options, limited, custom, model, plan, ordered, base, memories)

    @property
    def part(self) -> str:
        """What stripes make smaller."""
        return "arena" if self.memories is None else "head"

    @property
    def capacity_bytes(self) -> int | None:
        """The bytes that exist for it; None if they are unknown."""
        return self.target.sram_bytes if self.memories is None else self.memories[0].size_bytes

    @property
    def _tail_room(self) -> int | None:
        return None if self.memories is None else self.memories[1].size_bytes - SEPARATE_BYTES

    def size(self, plan: Plan) -> int:
        """Return the bytes that stripes make fewer; more than any head if there is no room for the tail."""
        assert plan.account is not None
        return counted_bytes(plan.account, self._tail_room)

    @property
    def tail_problem(self) -> str | None:
        """What prevents stripes, which make the tail larger, if it has no room without them."""
        if self.memories is None or self.size(self.plan) < NO_ROOM:
            return None
        assert self.plan.account is not None
        tail = self.memories[1]
        return (
            f"the tail takes {self.plan.account.tail_bytes:,} of {tail.size_bytes:,} bytes in {tail.name}, and stripes "
            "would make it larger"
        )

    def planner(self, percent: float) -> StripePlanner:
        """Return the planner of stripes with at most this percentage of extra multiply-accumulates."""
        platform = platform_of(self.target)
        return StripePlanner(
            self.ordered,
            self.base,
            platform,
            self.request,
            max_extra_macs=percent / 100,
            tail_room=self._tail_room,
            custom=self.custom,
        )

    def without_overlap(self) -> Plan:
        """Return the best plan without overlap, for which another order may be better."""
        if not self.plan.overlapping:
            return self.plan
        options = replace(self.request, overlap=False)
        return plan_memory(self.model, platform_of(self.target), options, self.effort, custom=self.custom)

    def striped(self, best: StripedPlan) -> Source:
        """Return the model in stripes as a file that says so."""
        changes = replace(
            changes_of(self.source.model),
            regions=tuple(StripedRegion(item.first, item.last, item.stripes) for item in best.regions),
            macs=sum(cost.macs for cost in operator_costs(self.model)),
            extra_macs=best.striped.extra_macs,
        )
        model = with_changes(best.model, changes)
        return Source(self.source.name, write_model(model), model)

    def plan_of(self, best: StripedPlan) -> Plan:
        """Return the plan with stripes, with the arena of TFLM's own planner for the model without them."""
        return replace(best.plan, stock=self.plan.stock)

    def cost(self, best: StripedPlan) -> str:
        """Return a phrase that names the stripes and their extra work, and the convolutions in pixel order."""
        regions = ", ".join(f"{region.first} to {region.last} in {region.stripes}" for region in best.regions)
        macs = sum(cost.macs for cost in operator_costs(self.model, self.custom))
        # Stripes leave out rows that a later stride does not read.
        percent = max(0.0, 100 * best.striped.extra_macs / macs) if macs else 0.0
        ordered = len(in_pixel_order(best.model.main)) - len(in_pixel_order(self.model.main))
        parts = []
        if regions:
            parts.append(f"the operators {regions} stripes with {percent:.1f} % extra multiply-accumulates")
        if ordered:
            parts.append(f"1x1 convolutions in pixel order ({counted(ordered, 'operator')} with slower kernels)")
        return " and ".join(parts)

    def latency(self, source: Source, plan: Plan) -> Figure | None:
        """Return the estimated time of an inference; None if it is not known on the target."""
        estimate = analyse(source, self.target, plan=plan, custom=self.custom).estimate
        return None if estimate is None else estimate.latency_ms


def _shrunk(whole: Unstriped, effort: Effort) -> PossiblyStriped:
    """Return the model with what the target's memory requires: order and layout, then overlap, then stripes."""
    target, capacity = whole.target, whole.capacity_bytes
    if capacity is None:
        raise UsageError(
            "--shrink makes the arena fit the memory of a target, and none is known",
            fix="specify a board with --target, or a size with --sram",
        )
    if whole.tail_problem is not None:
        raise FailedCheckError(
            whole.tail_problem,
            where=f"{whole.source.name} on {target.name}",
            fix="choose a larger memory for the tail with --place",
        )
    without = whole.without_overlap()
    alone, size = whole.size(without), whole.size(whole.plan)
    steps = [ShrinkStep("layout", arena_bytes(without)), ShrinkStep("overlap", arena_bytes(whole.plan))]
    takes = f"the {whole.part} takes {size:,} of {capacity:,} bytes"
    if size <= capacity:
        if alone <= capacity:
            steps, text = steps[:1], f"no stripes are needed, and no overlap: order and layout suffice; {takes}"
        else:
            step = "overlap makes the model fit, which costs no time"
            text = f"no stripes are needed: {step}; {takes}, {alone:,} without it"
        return PossiblyStriped(
            whole.source,
            None,
            (Finding("shrunk", f"--shrink: {text}", where=target.name),),
            ShrinkInfo(steps[-1].step, tuple(steps)),
        )
    percent = MOST_PERCENT if whole.request.max_extra_macs is None else whole.request.max_extra_macs
    best = whole.planner(percent).leanest(effort, capacity)
    smallest = size if best is None else whole.size(best.plan)
    if best is None or smallest > capacity:
        limit = " within the time limit" if effort.stops_rows() else ""
        cost = (
            f"no stripes with at most {percent:g} % extra work lower it" if best is None else f"with {whole.cost(best)}"
        )
        raise FailedCheckError(
            f"the smallest {whole.part} found{limit} takes {smallest:,} bytes ({cost}), and {capacity:,} exist: "
            f"{smallest - capacity:,} bytes are missing",
            where=f"{whole.source.name} on {target.name}",
            fix="choose a target with more memory, or --runtime native",
        )
    striped, plan = whole.striped(best), whole.plan_of(best)
    before, after = whole.latency(whole.source, whole.plan), whole.latency(striped, plan)
    text = (
        f"--shrink: {whole.cost(best)} make the model fit: the {whole.part} takes {smallest:,} of {capacity:,} bytes, "
        f"{size:,} without them; {len(best.model.main.operators)} operators run"
    )
    if before is not None and after is not None:
        text += f", and an inference takes about {in_text(after.value)} ms instead of {in_text(before.value)} ms"
    info = ShrinkInfo(
        best.step,
        (*steps, ShrinkStep(best.step, best.arena_bytes)),
        latency_before_ms=band(before),
        latency_after_ms=band(after),
    )
    return PossiblyStriped(striped, plan, (Finding("shrunk", text, where=target.name),), info)


def band(figure: Figure | None) -> Band | None:
    """Return a figure as in reports."""
    return None if figure is None else Band(figure.value, figure.low, figure.high)
