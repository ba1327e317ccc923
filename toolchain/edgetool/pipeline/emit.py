"""The C files of a .tflite."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgetool.finding import Finding
from edgetool.memory.offline_plan import fixed_offsets
from edgetool.memory.planner import plan_memory
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.files import check_writable, write_files
from edgetool.pipeline.firmware import firmware_files, firmware_names, output_name
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import open_tflite
from edgetool.report.document import Report
from edgetool.target.types import Target

NO_PLAN = Finding(
    "no-plan", "note", "the file has no memory plan: TFLM places the tensors by itself, and the header has no offsets"
)


@dataclass(frozen=True, slots=True)
class Emitted:
    """What `emit` made."""

    report: Report
    files: tuple[Path, ...]


def emit_files(
    path: Path, target: Target | None, *, output: Path | None = None, name: str | None = None, force: bool = False
) -> Emitted:
    """Write header and model data of a .tflite into `output`, by default the directory NAME-firmware."""
    name = output_name(path, name)
    directory = output or Path(f"{name}-firmware")
    source = open_tflite(path)
    check_writable(directory, firmware_names(name), force=force, inputs=(path,))
    analysis = analyse(source, target, plan=plan_memory(source.model, as_in_file=True))
    offsets = fixed_offsets(source.model, analysis.plan.problem)
    made = firmware_files(name, source, analysis.plan, target, offsets=offsets)
    files = write_files(directory, made, force=force, inputs=(path,))
    findings = () if offsets else (NO_PLAN,)
    return Emitted(report(source, analysis, options={"command": "emit", "name": name}, findings=findings), files)
