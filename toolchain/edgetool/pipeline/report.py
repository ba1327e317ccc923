"""Describe a .tflite on targets: its memory plan, its estimate, and the loss that its conversion reported."""

from __future__ import annotations

import importlib.resources
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from edgetool.memory.planner import PlanRequest, plan_memory
from edgetool.model.edit import without_metadata
from edgetool.model.metadata import METADATA_NAME
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.planning import Deadline, check_applies, plan_findings, search_findings, with_stripes
from edgetool.pipeline.report_file import quantizations
from edgetool.pipeline.reporting import Described, report
from edgetool.pipeline.source import file_name, open_tflite, read_custom_operators
from edgetool.report.document import ShrinkInfo
from edgetool.report.html import MAX_OPERATORS, ModelView, model_view, rows_view
from edgetool.target.load import load_runtime
from edgetool.target.platform import platform_of
from edgetool.target.types import Target

if TYPE_CHECKING:
    from edgetool.codegen.native.row_plan import NativeRows
    from edgetool.pipeline.native import NativeModel


def view_of(described: Described) -> ModelView:
    """Return what drawings of a model need besides its report.

    Native code is drawn beside the plan that TFLM's own planner makes for the kernels whose outputs it has.
    """
    model, native, plan = described.source.model, described.native, described.analysis.plan
    target, stock, rows = described.analysis.target, plan.stock, None
    if native is not None:
        planned = native.planned.rows
        rows = None if planned is None else rows_view(planned.problem, planned.plan, row_operators(planned))
        if target is not None:
            reference = target.with_overrides(runtime=load_runtime(target.runtime.name).reference)
            plain = without_metadata(model, METADATA_NAME)
            stock = plan_memory(plain, platform_of(reference), PlanRequest(file_plan="only")).account
    return model_view(model, plan, target, stock, rows)


def row_operators(rows: NativeRows) -> list[int]:
    """Return the model's operator of each operator of a plan of rows; -1 for rows that are fed or taken."""
    from edgetool.codegen.native.rows import step_operators  # native code has been imported already

    operators = [-1] * len(rows.problem.operators)
    for number, step in zip(step_operators(rows.problem), rows.program.steps, strict=True):
        operators[number] = step.operator
    return operators


@cache
def bundled_page() -> str:
    """Return the page without data."""
    return importlib.resources.files("edgetool.report").joinpath("page", "page.html").read_text(encoding="utf-8")


def describe(
    path: Path,
    targets: Sequence[Target | None],
    *,
    request: PlanRequest | None = None,
    native: bool = False,
    deadline: Deadline | None = None,
    custom_operators: Path | None = None,
) -> tuple[Described, ...]:
    """Plan and estimate a .tflite on each target, in order; None is no target.

    Args:
        path: The .tflite. The report of its conversion, NAME.json beside it, states the loss of quantization.
        targets: The targets.
        request: How to plan.
        native: Whether to plan native code where there is no target.
        deadline: The end of the search; by default, at the time limit of the request, for each target.
        custom_operators: The user's description of custom operators.

    Raises:
        ModelError: The file is not a model, or native code does not support it.
        UsageError: The request cannot be applied.
    """
    request = request or PlanRequest()
    custom = read_custom_operators(custom_operators)
    source = open_tflite(path)
    (quantization,) = quantizations((path,), (source,), ())
    options: dict[str, object] = {
        "command": "report",
        "replan": request.file_plan == "replace",
        **request.as_options(),
        "custom_operators": file_name(custom_operators),
    }
    described = []
    for target in targets:
        ends = deadline or Deadline(request.time_limit)
        shown = source
        code: NativeModel | None = None
        shrink: ShrinkInfo | None = None
        if native if target is None else target.runtime.is_native:
            from edgetool.pipeline.native import native_model  # imports numpy, which plans for TFLM do not need

            code = native_model(source, target, request, ends)
            analysis, findings = code.analysis, code.findings
        else:
            check_applies(request, source.model)
            effort = ends.effort(request.seed)
            striped = with_stripes(source, target, request, effort, custom)
            shown, shrink = striped.source, striped.shrink
            analysis = analyse(shown, target, request, effort, plan=striped.plan, custom=custom)
            findings = (*striped.findings, *plan_findings(shown.model, analysis.plan, target))
        findings = (*findings, *search_findings(analysis.plan, ends, "see --time-limit"))
        does_not_fit = analysis.fit is not None and analysis.fit.arena_fits is False
        # Planning very many operators as native code, only for a hint, takes minutes.
        if code is None and target is not None and does_not_fit and len(source.model.main.operators) <= MAX_OPERATORS:
            from edgetool.pipeline.native import smaller_findings

            findings += smaller_findings(source, target)
        item = report(shown, analysis, options=options, quantization=quantization, findings=findings)
        item = replace(item, shrink=shrink)
        if code is not None:
            from edgetool.pipeline.native import native_report

            item = native_report(code, item)
        described.append(Described(shown, analysis, item, code))
    return tuple(described)
