"""The C files of a .tflite."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.custom_operators import file_name, read_custom_operators
from edgetool.pipeline.files import check_writable, write_files
from edgetool.pipeline.firmware import firmware_files, firmware_names, output_name
from edgetool.pipeline.planned import NO_PLAN, plan_findings
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import open_tflite
from edgetool.report.document import Report
from edgetool.target.types import Target


@dataclass(frozen=True, slots=True)
class Emitted:
    """What `emit` made."""

    report: Report
    files: tuple[Path, ...]


def emit_files(
    path: Path,
    target: Target | None,
    *,
    output: Path | None = None,
    name: str | None = None,
    custom_operators: Path | None = None,
    force: bool = False,
) -> Emitted:
    """Write header and model data of a .tflite into `output`, by default the directory NAME-firmware.

    custom_operators: the user's description of custom operators.
    """
    name = output_name(path, name)
    directory = output or Path(f"{name}-firmware")
    custom = read_custom_operators(custom_operators)
    inputs = (path,) if custom_operators is None else (path, custom_operators)
    source = open_tflite(path)
    check_writable(directory, firmware_names(name), force=force, inputs=inputs)
    analysis = analyse(source, target, custom=custom, wanted="as in file")
    made = firmware_files(name, source, analysis.plan, target)
    files = write_files(directory, made, force=force, inputs=inputs)
    findings = plan_findings(source.model, analysis.plan, target) if analysis.plan.offsets else (NO_PLAN,)
    options: dict[str, object] = {"command": "emit", "name": name, "custom_operators": file_name(custom_operators)}
    return Emitted(report(source, analysis, options=options, findings=findings), files)
