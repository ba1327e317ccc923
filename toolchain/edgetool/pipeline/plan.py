"""Plan the memory of a .tflite, and write the file with its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from edgetool.errors import UsageError
from edgetool.finding import Finding
from edgetool.memory.planner import Plan, PlanRequest, plan_memory
from edgetool.operators.entry import OperatorEntry
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.output import check_writable, write_file
from edgetool.pipeline.places import check_places, in_places, with_placed
from edgetool.pipeline.planning import (
    PLAN_FOR_NO_BUILD,
    Deadline,
    PossiblyStriped,
    check_applies,
    plan_findings,
    planned_for,
    planned_source,
    rewritten_for,
    search_findings,
    with_stripes,
)
from edgetool.pipeline.reporting import Described, report
from edgetool.pipeline.source import Source, file_name, open_tflite, read_custom_operators
from edgetool.report.document import FrontPoint, Report
from edgetool.target.platform import platform_of
from edgetool.target.types import Target

FRONT_CUT_SHORT = Finding(
    "search-cut-short", "the search for stripes ended at its time limit: there may be a better front; see --time-limit"
)


@dataclass(frozen=True, slots=True)
class FrontRequest:
    """How to show the front. verify: whether each point runs on TFLM. picture: an .svg file to write."""

    verify: bool = False
    picture: Path | None = None


def plan_model(
    path: Path,
    target: Target | None,
    *,
    request: PlanRequest | None = None,
    deadline: Deadline | None = None,
    output: Path | None = None,
    custom_operators: Path | None = None,
    optimize: bool = False,
    force: bool = False,
    described: list[Described] | None = None,
    place: str | None = None,
    front: FrontRequest | None = None,
) -> Report:
    """Plan the model, and write it with its plan to `output` if that is given.

    Args:
        path: The .tflite.
        target: The target, if any.
        request: How to plan.
        deadline: The end of the search; by default, at the time limit of the request.
        output: The file to write.
        custom_operators: The user's description of custom operators.
        optimize: Whether to clean up the model (passes/cleanup.py), and to rewrite operators whose kernels on the
            target compute wrong outputs.
        force: Whether to replace an existing file.
        described: Where to add the model with its analysis, for drawings. Only the report there has an estimate.
        place: The memories of head, tail and model (target/places.py), or "auto"; by default, head and tail are one
            arena.
        front: How to show the front of arena against latency, if at all. The plan is then the one without stripes.

    Raises:
        InvalidModelError: The plan in the file is used, but unsafe.
        UsageError: The request cannot be applied, or `optimize` or `place` has no target.
        TargetError: The target has no such memory.
    """
    request = request or PlanRequest()
    check_places(place, target, request)
    custom = read_custom_operators(custom_operators)
    source = open_tflite(path)
    rewritten = _optimized(source, target, request, custom) if optimize else _Rewritten(source)
    source = rewritten.source
    check_applies(request, source.model)
    if front is not None:
        _check_front(request, front, output=output, place=place)
        if front.picture is not None:
            name = front.picture.name
            check_writable(front.picture.parent, (name,), force=force, inputs=(path,), option="--front-svg")
    if output is not None and request.constants_in_ram:
        raise UsageError(
            "stock TFLM reads constants in place: no plan in a file can move them to RAM",
            fix="omit --output or --constants-in-ram",
        )
    deadline = deadline or Deadline(request.time_limit)
    effort = deadline.effort(request.seed)
    points: tuple[FrontPoint, ...] = ()
    if front is None:
        striped = with_stripes(source, target, request, effort, custom, place)
    else:
        from edgetool.pipeline.front import front_points, write_picture  # most plans have no front

        plan, points = front_points(source, target, request, effort, custom, verify=front.verify)
        if front.picture is not None and target is not None:
            write_picture(
                front.picture,
                points,
                title=f"{source.name} on {target.name}",
                limit=target.sram_bytes,
                force=force,
                inputs=(path,),
            )
        cut_short = (FRONT_CUT_SHORT,) if effort.stops_rows() else ()
        striped = PossiblyStriped(source, plan, cut_short)
    source = striped.source
    analysis = analyse(source, target, request, effort, plan=striped.plan, with_estimate=False, custom=custom)
    findings = (
        *striped.findings,
        *rewritten.all_findings(analysis.plan),
        *plan_findings(source.model, analysis.plan, target),
        *search_findings(analysis.plan, deadline, "see --time-limit"),
    )
    placed = None
    if target is not None and place is not None:
        planned_file = planned_for(source, target, plan=analysis.plan, custom=custom)
        placed = in_places(planned_file.source, planned_file.analysis, target, place, custom)
        analysis = placed.judged(analyse(source, placed.target, plan=analysis.plan, with_estimate=False, custom=custom))
    elif target is not None and analysis.fit is not None and analysis.fit.arena_fits is False:
        from edgetool.pipeline.native import smaller_findings  # imports numpy, which most plans do not need

        findings += smaller_findings(source, target)
    if output is not None:
        inputs = (path,) if custom_operators is None else (path, custom_operators)
        if target is None and analysis.plan.planner == "edgetool":
            findings += (PLAN_FOR_NO_BUILD,)
        write_file(output, planned_source(source, analysis.plan, target).blob, force=force, inputs=inputs)
    options: dict[str, object] = {
        "command": "plan",
        "replan": request.file_plan == "replace",
        "optimize": optimize,
        **request.as_options(),
        "custom_operators": file_name(custom_operators),
        "place": place,
        "front": front is not None,
    }
    planned = with_placed(report(source, analysis, options=options, findings=findings), placed)
    planned = replace(planned, shrink=striped.shrink, front=points)
    if described is not None:
        full = analyse(source, analysis.target, plan=analysis.plan, custom=custom)
        full = full if placed is None else placed.judged(full)
        full_report = report(source, full, options=options, findings=findings)
        full_report = with_placed(full_report, placed)
        described.append(Described(source, full, replace(full_report, shrink=striped.shrink, front=points)))
    return planned


def _check_front(request: PlanRequest, front: FrontRequest, *, output: Path | None, place: str | None) -> None:
    """Raise UsageError for options that choose a plan, or that describe one that TFLM does not have."""
    options = {
        "--output": output is not None,
        "--shrink": request.shrink,
        "--place": place is not None,
        "--sharing": request.sharing is not None,
        "--constants-in-ram": request.constants_in_ram,
    }
    for name in (name for name, is_set in options.items() if is_set):
        raise UsageError(
            f"--front shows plans with larger and smaller arenas: {name} cannot be applied",
            fix=f"omit --front or {name}",
        )


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """A model after its rewrites, and the findings on them.

    arena_bytes: the arena of the original; None if nothing changed, or if it is unknown.
    """

    source: Source
    findings: tuple[Finding, ...] = ()
    arena_bytes: int | None = None

    def all_findings(self, plan: Plan) -> tuple[Finding, ...]:
        """Return the findings, with the arena before and after the rewrites if both are known."""
        if self.arena_bytes is None or plan.account is None:
            return self.findings
        change = f"from {self.arena_bytes:,} to {plan.account.bytes:,} bytes"
        rule = self.findings[-1].rule
        return (*self.findings, Finding(rule, f"the rewrites change the arena {change}"))


def _optimized(
    source: Source, target: Target | None, request: PlanRequest, custom: Mapping[str, OperatorEntry] | None
) -> _Rewritten:
    """Clean up the model, and rewrite the operators whose kernels on the target compute wrong outputs."""
    if target is None:
        raise UsageError("--optimize rewrites the model for the kernels of a target", fix="specify one with --target")
    rewritten, findings = rewritten_for(source, target, custom)
    if rewritten is source:
        return _Rewritten(source, findings)
    request = replace(request, file_plan="replace")
    before = plan_memory(source.model, platform_of(target), request, custom=custom).account
    return _Rewritten(rewritten, findings, None if before is None else before.bytes)
