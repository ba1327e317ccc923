"""A model as it is delivered: planned for a target, in the order and with the plan that the firmware gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgetool.errors import UnsupportedModelError
from edgetool.finding import Finding
from edgetool.memory.plan_options import PlanOptions, Wanted
from edgetool.memory.planner import as_written
from edgetool.model.edit import renumbered
from edgetool.operators.types import OperatorEntry
from edgetool.pipeline.analysis import Analysis, analyse
from edgetool.pipeline.planned import planned_source
from edgetool.pipeline.source import Source
from edgetool.target.platform import platform_of
from edgetool.target.types import Target


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """The analysis of the planned file, that file, and why no plan of ours is in it where there is none."""

    analysis: Analysis
    source: Source
    unwritten: tuple[Finding, ...] = ()


def planned_for(
    source: Source,
    target: Target,
    *,
    made_anew: bool = True,
    custom: Mapping[str, OperatorEntry] | None = None,
    wanted: Wanted = "best",
    options: PlanOptions | None = None,
) -> PlannedModel:
    """Plan a model for the target as `convert` does.

    made_anew: nobody has seen the model before, so operators and tensors are numbered as in the planned file, not as in
    the source. Without options the search ends after so many nodes, whatever the time: the same model, the same plan.
    Raises UnsupportedModelError and InvalidModelError as `analyse` does.
    """
    first = analyse(source, target, custom=custom, wanted=wanted, options=options)
    try:
        planned = planned_source(source, first.plan, target)
    except UnsupportedModelError as error:
        finding = Finding("plan-not-written", "warning", f"no plan was written to the file: {error}")
        made = PlannedModel(analyse(source, target, custom=custom, wanted="as in file"), source, (finding,))
    else:
        made = PlannedModel(analyse(planned, target, custom=custom, plan=first.plan), planned)
    if made_anew and made.analysis.plan.moved:
        return _renumbered(made, target, custom)
    return made


def _renumbered(made: PlannedModel, target: Target, custom: Mapping[str, OperatorEntry] | None) -> PlannedModel:
    """The same of the file as it was written: nobody sees the converter's own, so its numbers would tell nothing."""
    written = Source(made.source.name, made.source.blob, renumbered(made.source.model))
    plan = as_written(made.analysis.plan, written.model, platform_of(target), custom=custom)
    return PlannedModel(analyse(written, target, custom=custom, plan=plan), written, made.unwritten)
