"""Models in stripes for TFLM, as requested by --max-extra-macs and --shrink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgetool.errors import FailedCheckError, UsageError
from edgetool.finding import Finding
from edgetool.memory.planner import Plan, PlanRequest, plan_memory
from edgetool.memory.problem import Effort
from edgetool.memory.striping import StripedPlan, plan_stripes
from edgetool.model.edit import in_order, renumbered, without_metadata
from edgetool.model.metadata import METADATA_NAME, RECORD_METADATA_NAME, keeps_own_plan
from edgetool.model.types import Model
from edgetool.model.views import views_of
from edgetool.model.writer import write_model
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import operator_costs
from edgetool.pipeline.planning import PossiblyStriped
from edgetool.pipeline.source import Source
from edgetool.target.platform import platform_of
from edgetool.target.types import Target

PLAN_NODES = 100_000  # search nodes for the plan without stripes, which leave time for those with stripes
# The budgets that --shrink tries as long as the arena fits, in percent of the model's multiply-accumulates.
BUDGETS = (50.0, 20.0, 10.0, 5.0, 2.0, 1.0)


def in_stripes(
    source: Source,
    target: Target | None,
    request: PlanRequest,
    effort: Effort,
    custom: Mapping[str, OperatorEntry] | None = None,
) -> PossiblyStriped:
    """Return the model with the stripes that make its arena smallest, or with --shrink, that make it fit the target.

    Raises:
        UsageError: No target is known, or with --shrink, not its memory; or the model cannot be changed.
        FailedCheckError: The arena does not fit the target, whatever the stripes.
    """
    if target is None:
        raise UsageError(
            "--max-extra-macs and --shrink plan for the kernels of a target", fix="specify one with --target"
        )
    model = without_metadata(without_metadata(source.model, METADATA_NAME), RECORD_METADATA_NAME)
    if views_of(model) or keeps_own_plan(source.model):
        raise UsageError(
            "the model relies on the memory plan in its file, so that no other stripes can be chosen",
            where=source.name,
            fix="use the model before it was planned, or omit --max-extra-macs and --shrink",
        )
    platform = platform_of(target)
    options = replace(request, file_plan="replace", shrink=False)
    limited = replace(effort, node_limit=PLAN_NODES)
    first = plan_memory(model, platform, options, limited, custom=custom)
    # The stripes of a region follow each other in the order that needs the least memory without them.
    ordered = renumbered(in_order(model, first.order))
    base = plan_memory(ordered, platform, replace(options, order="original"), limited, custom=custom)
    budgets = _budgets(request, target, base)
    best: StripedPlan | None = None
    capacity = target.sram_bytes if request.shrink else None
    for percent in budgets:
        found = plan_stripes(
            ordered, base, platform, options, effort, max_extra_macs=percent / 100, capacity=capacity, custom=custom
        )
        if best is None or (found is not None and found.arena_bytes <= (capacity or 0)):
            best = found
        if best is None or best.arena_bytes > (capacity or 0) or best is not found:
            break  # a smaller budget does not fit
    arena_bytes = _arena_bytes(base) if best is None else best.arena_bytes
    if request.shrink and arena_bytes > (target.sram_bytes or 0):
        limit = " within the time limit" if effort.stops_rows() else ""
        text = (
            f"the smallest arena found{limit} takes {arena_bytes:,} bytes{_cost(model, best)}, and "
            f"{target.sram_bytes:,} exist"
        )
        raise FailedCheckError(
            text, where=f"{source.name} on {target.name}", fix="choose a target with more memory, or --runtime native"
        )
    if request.shrink and best is None:
        # Without overlap, another order may be the best one.
        alone = replace(options, overlap=False)
        plain = plan_memory(model, platform, alone, limited, custom=custom) if first.overlapping else first
        return _unstriped(source, target, first, plain)
    return _described(source, request, target, first, best)


def _budgets(request: PlanRequest, target: Target, base: Plan) -> tuple[float, ...]:
    """Return the budgets to try one after another, in percent, the largest first: none with --shrink if the arena fits
    without stripes.
    """
    if not request.shrink:
        return () if request.max_extra_macs is None else (request.max_extra_macs,)
    if target.sram_bytes is None:
        raise UsageError(
            "--shrink makes the arena fit the memory of a target, and none is known",
            fix="specify a board with --target, or a size with --sram",
        )
    if _arena_bytes(base) <= target.sram_bytes:
        return ()
    most = BUDGETS[0] if request.max_extra_macs is None else request.max_extra_macs
    return (most, *(percent for percent in BUDGETS if percent < most))


def _arena_bytes(plan: Plan) -> int:
    assert plan.account is not None
    return plan.account.bytes


def _unstriped(source: Source, target: Target, first: Plan, plain: Plan) -> PossiblyStriped:
    """Describe the step that makes a model fit without stripes: order and layout, or only overlap."""
    size, alone = _arena_bytes(first), _arena_bytes(plain)
    step = "order and layout suffice"
    if alone > (target.sram_bytes or 0):
        step = f"overlap makes the model fit, which takes {alone:,} bytes without it"
    text = f"no stripes are needed: {step}; the arena takes {size:,} bytes"
    return PossiblyStriped(source, None, (Finding("stripes", text, where=target.name),))


def _described(
    source: Source, request: PlanRequest, target: Target, first: Plan, best: StripedPlan | None
) -> PossiblyStriped:
    size = f"{_arena_bytes(first):,} bytes"
    if best is None:
        text = f"no stripes with at most {request.max_extra_macs:g} % extra work lower the arena below {size}"
        return PossiblyStriped(source, None, (Finding("stripes", text, where=target.name),))
    regions = ", ".join(f"{region.first} to {region.last} in {region.stripes}" for region in best.regions)
    count = len(best.model.main.operators)
    text = (
        f"the operators {regions} stripes{_cost(source.model, best)} lower the arena from {size} to "
        f"{best.arena_bytes:,} bytes; {count} operators run, and the file needs its memory plan"
    )
    striped = Source(source.name, write_model(best.model), best.model)
    return PossiblyStriped(
        striped, replace(best.plan, stock=first.stock), (Finding("stripes", text, where=target.name),)
    )


def _cost(model: Model, best: StripedPlan | None) -> str:
    """Return the extra work of a plan, as the end of a phrase."""
    if best is None:
        return ""
    total = sum(cost.macs for cost in operator_costs(model))
    percent = 100 * best.striped.extra_macs / total if total else 0
    return f" with {percent:.1f} % extra multiply-accumulates"
