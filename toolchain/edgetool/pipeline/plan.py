"""The memory plan of a .tflite, and the planned file."""

from __future__ import annotations

from pathlib import Path

from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.custom_operators import file_name, read_custom_operators
from edgetool.pipeline.files import write_file
from edgetool.pipeline.planned import PLAN_FOR_NO_BUILD, plan_findings, planned_source
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import open_tflite
from edgetool.report.document import Report
from edgetool.target.types import Target


def plan_model(
    path: Path,
    target: Target | None,
    *,
    output: Path | None = None,
    replan: bool = False,
    custom_operators: Path | None = None,
    force: bool = False,
) -> Report:
    """Plan the model; write it with its plan to `output` when that is given.

    A plan in the file is honoured, and refused when it is unsafe; with `replan` it is ignored. custom_operators:
    the user's description of custom operators.
    """
    custom = read_custom_operators(custom_operators)
    source = open_tflite(path)
    analysis = analyse(source, target, with_estimate=False, custom=custom, wanted="anew" if replan else "best")
    findings = plan_findings(source.model, analysis.plan, target)
    if output is not None:
        inputs = (path,) if custom_operators is None else (path, custom_operators)
        if target is None and analysis.plan.planner == "edgetool":
            findings += (PLAN_FOR_NO_BUILD,)
        write_file(output, planned_source(source, analysis.plan, target).blob, force=force, inputs=inputs)
    options: dict[str, object] = {"command": "plan", "replan": replan, "custom_operators": file_name(custom_operators)}
    return report(source, analysis, options=options, findings=findings)
