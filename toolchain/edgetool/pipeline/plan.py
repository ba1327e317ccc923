"""Plan the memory of a .tflite, and write the file with its plan."""

from __future__ import annotations

from pathlib import Path

from edgetool.errors import UsageError
from edgetool.memory.planner import PlanRequest
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.output import write_file
from edgetool.pipeline.planning import (
    PLAN_FOR_NO_BUILD,
    Deadline,
    check_applies,
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
    deadline: Deadline | None = None,
    output: Path | None = None,
    custom_operators: Path | None = None,
    force: bool = False,
) -> Report:
    """Plan the model, and write it with its plan to `output` if that is given.

    Args:
        path: The .tflite.
        target: The target, if any.
        request: How to plan.
        deadline: The end of the search; by default, at the time limit of the request.
        output: The file to write.
        custom_operators: The user's description of custom operators.
        force: Whether to replace an existing file.

    Raises:
        InvalidModelError: The plan in the file is used, but unsafe.
        UsageError: The request cannot be applied.
    """
    request = request or PlanRequest()
    custom = read_custom_operators(custom_operators)
    source = open_tflite(path)
    check_applies(request, source.model)
    if output is not None and request.constants_in_ram:
        raise UsageError(
            "stock TFLM reads constants in place: no plan in a file can move them to RAM",
            fix="omit --output or --constants-in-ram",
        )
    deadline = deadline or Deadline(request.time_limit)
    effort = deadline.effort(request.seed)
    analysis = analyse(source, target, request, effort, with_estimate=False, custom=custom)
    findings = (
        *plan_findings(source.model, analysis.plan, target),
        *search_findings(analysis.plan, deadline, "see --time-limit"),
    )
    if output is not None:
        inputs = (path,) if custom_operators is None else (path, custom_operators)
        if target is None and analysis.plan.planner == "edgetool":
            findings += (PLAN_FOR_NO_BUILD,)
        write_file(output, planned_source(source, analysis.plan, target).blob, force=force, inputs=inputs)
    options: dict[str, object] = {
        "command": "plan",
        "replan": request.file_plan == "replace",
        **request.as_options(),
        "custom_operators": file_name(custom_operators),
    }
    return report(source, analysis, options=options, findings=findings)
