"""The memory plan of a .tflite, and the planned file."""

from __future__ import annotations

from pathlib import Path

from edgetool.errors import UnsupportedModelError
from edgetool.finding import Finding
from edgetool.memory.offline_plan import METADATA_NAME, decode_plan, encode_plan, keeps_own_plan
from edgetool.memory.planner import MemoryPlan
from edgetool.model.edit import with_metadata
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.files import write_file
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import open_tflite
from edgetool.report.document import Report
from edgetool.target.types import Target


def plan_model(path: Path, target: Target | None, *, output: Path | None = None, force: bool = False) -> Report:
    """Plan the model; write it with its plan to `output` when that is given."""
    source = open_tflite(path)
    analysis = analyse(source, target, with_estimate=False)
    findings = own_plan_findings(source.model, written=output is not None)
    if output is not None:
        write_file(output, planned_file(source.model, analysis.plan), force=force, inputs=(path,))
    return report(source, analysis, options={"command": "plan"}, findings=findings)


def planned_file(model: Model, plan: MemoryPlan) -> bytes:
    """The model's file with the layout as its offline plan, read back and compared before it leaves.

    Raises UnsupportedModelError when the file holds fields that the writer does not know.
    """
    planned = with_metadata(model, METADATA_NAME, encode_plan(model, plan.problem, plan.layout))
    blob = write_model(planned)
    if read_model(blob) != planned:
        raise UnsupportedModelError(
            "the model does not read back equal after writing",
            fix="please report this with the model",
        )
    return blob


def own_plan_findings(model: Model, *, written: bool) -> tuple[Finding, ...]:
    """A note on what becomes of a plan that the file has."""
    if decode_plan(model) is None:
        return ()
    where = f"metadata {METADATA_NAME}"
    if keeps_own_plan(model):
        return (Finding("plan-kept", "note", "the file's own plan is kept: its compiled operators rely on it", where),)
    message = "the file has a memory plan of its own; this plan "
    message += "replaces it in the written file" if written else "is made afresh and does not use it"
    return (Finding("plan-replaced", "note", message, where),)
