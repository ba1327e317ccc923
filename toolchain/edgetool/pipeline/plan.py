"""The memory plan of a .tflite, and the planned file."""

from __future__ import annotations

from pathlib import Path

from edgetool.errors import UsageError
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.output import write_file
from edgetool.pipeline.planning import (
    PLAN_FOR_NO_BUILD,
    PlanRequest,
    Watch,
    plan_findings,
    planned_source,
    search_findings,
)
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import file_name, open_tflite, read_custom_operators
from edgetool.report.document import Report
from edgetool.target.types import Target


def plan_model(
    path: Path,
    target: Target | None,
    *,
    request: PlanRequest | None = None,
    watch: Watch | None = None,
    output: Path | None = None,
    replan: bool = False,
    custom_operators: Path | None = None,
    force: bool = False,
) -> Report:
    """Plan the model; write it with its plan to `output` when that is given.

    A plan in the file is honoured, and refused when it is unsafe; with `replan` it is ignored. custom_operators:
    the user's description of custom operators. watch: the limits of the search, by default those of the request. Raises
    UsageError where the request cannot apply.
    """
    request = request or PlanRequest()
    custom = read_custom_operators(custom_operators)
    source = open_tflite(path)
    request.check_applies(source.model, replan=replan)
    if output is not None and request.constants_in_ram:
        raise UsageError(
            "stock TFLM reads constants in place: no plan in a file can move them to RAM",
            fix="omit --output or --constants-in-ram",
        )
    watch = watch or Watch(request.time_limit, seed=request.seed)
    analysis = analyse(
        source,
        target,
        with_estimate=False,
        custom=custom,
        wanted="anew" if replan else "best",
        options=request.options(watch),
    )
    findings = (
        *plan_findings(source.model, analysis.plan, target),
        *search_findings(analysis.plan, watch, "see --time-limit"),
    )
    if output is not None:
        inputs = (path,) if custom_operators is None else (path, custom_operators)
        if target is None and analysis.plan.planner == "edgetool":
            findings += (PLAN_FOR_NO_BUILD,)
        write_file(output, planned_source(source, analysis.plan, target).blob, force=force, inputs=inputs)
    options: dict[str, object] = {
        "command": "plan",
        "replan": replan,
        **request.told(),
        "custom_operators": file_name(custom_operators),
    }
    return report(source, analysis, options=options, findings=findings)
