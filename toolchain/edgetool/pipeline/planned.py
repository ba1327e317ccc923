"""The planned file: a model with a memory plan in it, and what is to be said of plans in files."""

from __future__ import annotations

from edgetool import __version__
from edgetool.errors import UnsupportedModelError
from edgetool.finding import Finding
from edgetool.memory.layout.cp_sat import available as cp_sat_available
from edgetool.memory.planner import MemoryPlan
from edgetool.model.edit import in_order, renumbered, with_metadata, without_metadata
from edgetool.model.metadata import (
    METADATA_NAME,
    PlanRecord,
    decode_record,
    encode_plan,
    encode_record,
    has_plan,
    keeps_own_plan,
)
from edgetool.model.metadata import RECORD_METADATA_NAME as RECORD_NAME
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.effort import Watch
from edgetool.pipeline.source import Source
from edgetool.target.types import Target

WHERE = f"metadata {METADATA_NAME}"
REPLAN = "'edgetool plan --replan -o NEW.tflite'"
NO_PLAN = Finding(
    "no-plan", "note", "the file has no memory plan: TFLM places the tensors itself, and the header has no offsets"
)
PLAN_FOR_NO_BUILD = Finding(
    "plan-for-no-build",
    "warning",
    "the written plan leaves no room for scratch buffers, which depend on the core and its kernels: the arena may be "
    "larger with the plan than without; specify a target with --target",
    WHERE,
)


def planned_source(source: Source, plan: MemoryPlan, target: Target | None) -> Source:
    """The source with the plan in its file: as it is where the plan is the file's own. Operators keep their indices.

    Where TFLM's own planner is to decide, a plan in the file is taken out. Raises UnsupportedModelError when the file
    holds fields that the writer does not know.
    """
    if plan.planner == "file" or (plan.offsets is None and not has_plan(source.model) and not plan.moved):
        return source
    model = in_order(source.model, plan.order)
    if plan.offsets is None:
        planned = without_metadata(without_metadata(model, METADATA_NAME), RECORD_NAME)
    else:
        planned = with_metadata(model, METADATA_NAME, encode_plan(model, plan.offsets))
        if target is not None:
            planned = with_metadata(planned, RECORD_NAME, encode_record(_record(plan, target)))
        else:
            planned = without_metadata(planned, RECORD_NAME)
    return Source(source.name, _written(planned), planned)


def _written(model: Model) -> bytes:
    """The file of the model, read back and compared before it leaves."""
    blob = write_model(model)
    if read_model(blob) != renumbered(model):
        raise UnsupportedModelError(
            "the written model differs from the original when read back",
            fix="report this and attach the model",
        )
    return blob


def _record(plan: MemoryPlan, target: Target) -> PlanRecord:
    exact = plan.account is not None and not plan.account.is_lower_bound
    return PlanRecord(
        tool=f"edgetool {__version__}",
        core=target.core.name,
        kernels=target.kernels,
        runtime=target.runtime.name,
        arena_bytes=plan.account.bytes if plan.account is not None and exact else None,
    )


def plan_findings(model: Model, plan: MemoryPlan, target: Target | None) -> tuple[Finding, ...]:
    """Notes on the plan that the input file has, and on the one that was chosen."""
    findings = []
    if keeps_own_plan(model):
        findings.append(
            Finding("plan-kept", "note", "the file's own plan is kept: its compiled operators rely on it", WHERE)
        )
    elif plan.planner == "file":
        findings += _file_plan_findings(model, plan, target)
    elif has_plan(model):
        findings.append(Finding("plan-replaced", "note", "the file's own memory plan is not used", WHERE))
    if plan.constants_in_ram:
        text = (
            "the layout also contains constants, each only for as long as an operator uses it; firmware that loads "
            "them into RAM can follow it, but stock TFLM reads them in place"
        )
        findings.append(Finding("constants-in-ram", "note", text))
    if plan.planner == "runtime" and plan.stock is not None and plan.account is plan.stock:
        text = "edgetool found no plan better than TFLM's own planner, which is used instead"
        findings.append(Finding("plan-not-needed", "note", text))
    return tuple(findings)


def search_findings(plan: MemoryPlan, watch: Watch, remedy: str) -> tuple[Finding, ...]:
    """What a search that was cut short left open, and the remedy: the option that gives it more time."""
    if plan.planner == "file" or (plan.layout.optimal and plan.order_proof != "none"):
        return ()
    if not (watch.interrupted or watch.timed_out):
        return ()
    ended = "was interrupted by Ctrl-C" if watch.interrupted else "ended at its time limit"
    text = f"the search for order and layout {ended}: there may be a better plan; {remedy}"
    if not plan.layout.optimal and not cp_sat_available():
        text += ", or add a final search stage with pip install 'edgetool[cp-sat]'"
    return (Finding("search-cut-short", "note", text),)


def _file_plan_findings(model: Model, plan: MemoryPlan, target: Target | None) -> list[Finding]:
    text = f"the memory plan in the file is used; {REPLAN} creates a new one"
    findings = [Finding("plan-in-file", "note", text, WHERE)]
    record = decode_record(model)
    if record is not None and target is not None:
        made_for = (record.core, record.kernels, record.runtime)
        if made_for != (target.core.name, target.kernels, target.runtime.name):
            text = (
                f"the plan in the file was created for {record.core} with {record.kernels} kernels ({record.runtime}); "
                f"the arena size is nevertheless valid for this target, but {REPLAN} may find a smaller one"
            )
            findings.append(Finding("plan-for-other-build", "warning", text, WHERE))
    stock, account = plan.stock, plan.account
    if stock is not None and account is not None and account.bytes > stock.bytes:
        text = (
            f"the plan in the file needs an arena of {account.bytes:,} bytes, but TFLM's own planner "
            f"needs only {stock.bytes:,}: use {REPLAN}"
        )
        findings.append(Finding("plan-worse-than-stock", "warning", text, WHERE))
    return findings
