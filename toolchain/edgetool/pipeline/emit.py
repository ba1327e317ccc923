"""The C files of a .tflite."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgetool.errors import UsageError
from edgetool.finding import Finding
from edgetool.memory.sharing.plan import SharedLayout, shared_offsets, whole_problem
from edgetool.memory.sharing.types import Algorithm
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.custom_operators import file_name, read_custom_operators
from edgetool.pipeline.effort import watched
from edgetool.pipeline.files import check_writable, write_files
from edgetool.pipeline.firmware import (
    HEADER_ONLY,
    FirmwareRequest,
    SharedBuffers,
    firmware_files,
    firmware_names,
    name_findings,
    output_name,
    own_arena_findings,
)
from edgetool.pipeline.plan_request import DEFAULT_SECONDS
from edgetool.pipeline.planned import NO_PLAN, plan_findings
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import open_tflite
from edgetool.report.document import Report
from edgetool.target.types import Target

ArenaStyle = Literal["offsets", "buffers"]


@dataclass(frozen=True, slots=True)
class Emitted:
    """What `emit` made. shared: the buffers of the arena style "buffers"."""

    report: Report
    files: tuple[Path, ...]
    shared: SharedLayout | None = None
    interrupted: bool = False


def emit_files(
    path: Path,
    target: Target | None,
    *,
    output: Path | None = None,
    name: str | None = None,
    request: FirmwareRequest | None = None,
    arena_style: ArenaStyle = "offsets",
    sharing: Algorithm | None = None,
    custom_operators: Path | None = None,
    force: bool = False,
) -> Emitted:
    """Write the firmware files of a .tflite into `output`, by default the directory NAME-firmware.

    request: which files, by default a plain project, with shared buffers header and data alone. arena_style: "offsets"
    of tensors in an arena, as in the file's memory plan; or whole "buffers" that tensors share, for runtimes without an
    arena, and `sharing` is how they are found, "dynamic-programming" when not given. custom_operators: the user's
    description of custom operators. Raises UsageError for sharing without buffers, and a program for TFLM with them;
    UnsupportedModelError for a program of a model whose operators TFLM lacks.
    """
    if sharing is not None and arena_style != "buffers":
        raise UsageError(f"--sharing {sharing} applies only to shared buffers", fix="add --arena-style buffers")
    with_buffers = arena_style == "buffers"
    request = request or (HEADER_ONLY if with_buffers else FirmwareRequest())
    if with_buffers and request.has_program:
        raise UsageError(
            f"shared buffers are for runtimes without an arena: --project {request.project} generates a TFLM program",
            fix="use --project header",
        )
    named = name_findings(path, name)
    name = output_name(path, name)
    directory = output or Path(f"{name}-firmware")
    custom = read_custom_operators(custom_operators)
    inputs = (path,) if custom_operators is None else (path, custom_operators)
    source = open_tflite(path)
    names = firmware_names(name, request, with_buffers=with_buffers)
    check_writable(directory, _others(directory, names, path), force=force, inputs=inputs)
    analysis = analyse(source, target, custom=custom, wanted="as in file")
    shared, interrupted = None, False
    if with_buffers:
        with watched(DEFAULT_SECONDS) as watch:
            problem = whole_problem(source.model, analysis.plan.timeline)
            shared = SharedBuffers(problem, shared_offsets(problem, sharing or "dynamic-programming", watch.effort))
        interrupted = watch.interrupted
    made = firmware_files(name, source, analysis.plan, target, request=request, shared=shared, custom=custom)
    written = {file: made[file] for file in _others(directory, tuple(made), path)}
    files = write_files(directory, written, force=force, inputs=inputs)
    if shared is not None:
        findings: tuple[Finding, ...] = (_shared_finding(shared.layout),)
    else:
        findings = plan_findings(source.model, analysis.plan, target) if analysis.plan.offsets else (NO_PLAN,)
    if request.has_program:
        findings += own_arena_findings(name, analysis.plan)
    findings += named
    options: dict[str, object] = {
        "command": "emit",
        "name": name,
        **request.told(),
        "arena_style": arena_style,
        "sharing": sharing or "dynamic-programming" if with_buffers else None,
        "custom_operators": file_name(custom_operators),
    }
    return Emitted(
        report(source, analysis, options=options, findings=findings),
        files,
        shared.layout if shared else None,
        interrupted,
    )


def _others(directory: Path, names: tuple[str, ...], model: Path) -> tuple[str, ...]:
    """The files but for the model itself, which the assembler may read where it is."""
    return tuple(name for name in names if not ((directory / name).exists() and (directory / name).samefile(model)))


def _shared_finding(shared: SharedLayout) -> Finding:
    known = "which is optimal" if shared.proof != "none" else f"the lower bound is {shared.lower_bound:,}"
    cut = "; the search was cut short" if shared.cut_short else ""
    text = (
        f"{len(shared.sizes)} shared buffers take {shared.optimized_bytes:,} bytes, {known}{cut}; without "
        f"sharing, the tensors would take {shared.baseline_bytes:,}"
    )
    return Finding("shared-buffers", "note", text)
