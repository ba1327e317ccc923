"""A user's own profile from times that were measured on the board."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgetool import __version__
from edgetool.errors import TargetError, UsageError
from edgetool.estimate.calibrate import Calibration, Measurement, calibrate
from edgetool.estimate.latency import estimate_model
from edgetool.estimate.memory_speed import speeds_of
from edgetool.finding import Finding
from edgetool.model.loops import subgraph_runs
from edgetool.pipeline.device_findings import on_device_too
from edgetool.pipeline.device_runs import DeviceRun, at_clock_of, check_run, device_runs, run_ms
from edgetool.pipeline.files import check_writable, write_file
from edgetool.pipeline.profile_text import profile_text
from edgetool.pipeline.reporting import device_options, finding_infos
from edgetool.pipeline.source import Source, open_tflite
from edgetool.pipeline.targets import is_path, resolve_named
from edgetool.report.calibration import CalibratedTiming, CalibrationInfo, CalibrationReport, MeasuredModel
from edgetool.report.document import Provenance, TargetInfo
from edgetool.target.load import load_target
from edgetool.target.quantity import format_clock
from edgetool.target.schema import MAX_TEXT, Problem, Section
from edgetool.target.types import Source as Document
from edgetool.target.types import Target


def calibrate_target(
    target_name: str,
    measurements: Sequence[tuple[Path, float]],
    *,
    output: Path,
    name: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    force: bool = False,
    logs: Sequence[Path] = (),
    models: Sequence[Path] = (),
) -> CalibrationReport:
    """Fit the target's timing to models and their measured milliseconds; write the profile to `output`.

    name: what the profile is called, the stem of its file when not given. overrides: as resolve_named takes them; they
    become part of the profile. logs: what profile firmware printed, further measurements of the models in it; models:
    where their files are (device_runs). Raises CalibrationError for measurements that no such device makes,
    TargetError for a target that cannot be calibrated, OutputError for a file that is in the way, and what the logs do.
    """
    target = resolve_named(target_name, **(overrides or {}))
    assert target is not None  # it was named
    _check_target(target)
    called = _profile_name(name, output)
    paths = tuple(path for path, _ in measurements)
    read = (*paths, *logs, *models)
    inputs = (*read, Path(target_name)) if is_path(target_name) else read
    check_writable(output.parent, (output.name,), force=force, inputs=inputs)
    runs, log_findings = device_runs(logs, models)
    clock_given = (overrides or {}).get("clock") is not None
    target, clock_findings = at_clock_of(runs, target, clock_given=clock_given)
    for run in runs:
        check_run(run, target)
    sources = _different(paths, [open_tflite(path) for path in paths], runs)
    times = (*(ms for _, ms in measurements), *(run_ms(run, run.profile.mean_ticks, target) for run in runs))
    given = tuple(Measurement(s.name, s.model, ms) for s, ms in zip(sources, times, strict=True))
    found = calibrate(target, given)
    own = _calibrated(target, found, called)
    packaged = resolve_named(target_name)
    if packaged is not None and packaged.clock_hz != own.clock_hz:  # at another clock nobody measured it
        own = replace(own, power=None, sources=_not_covering(own.sources, "power"))
    after = _timing_info(own)
    assert after is not None  # it was found
    base = load_target(target_name) if target.board is not None and not is_path(target_name) else None
    comments = [
        f"Written by edgetool {__version__}: calibrated for {target.name} at {format_clock(target.clock_hz)}, "
        f"{target.kernels} kernels.",
        *(f"Measured: {item.name} {item.ms:g} ms" for item in given),
    ]
    write_file(output, profile_text(own, base=base, comments=comments).encode("utf-8"), force=force, inputs=inputs)
    region = target.flash_region
    measured = [_model_info(source, item, target, own) for source, item in zip(sources, given, strict=True)]
    on_device = [on_device_too(model, run, own) for model, run in zip(measured[len(paths) :], runs, strict=True)]
    said = [finding for source in sources for finding in _branching(source)]
    said += [finding for _, findings in on_device for finding in findings]
    return CalibrationReport(
        provenance=Provenance(
            tool=f"edgetool {__version__}",
            versions={"python": platform.python_version()},
            options={
                "command": "calibrate",
                "name": called,
                "logs": [log.name for log in logs],
                **device_options(target),
            },
            trust_model_code=False,
        ),
        target=TargetInfo(target.name, target.core.name, target.board, target.runtime.name, target.kernels),
        calibration=CalibrationInfo(
            profile=called,
            extends=None if base is None else base.name,
            kernels=target.kernels,
            clock_hz=target.clock_hz,
            cpi_limits=target.core.cpi_limits,
            region=None if region is None else region.name,
            before=_timing_info(target),
            after=after,
            models=(*measured[: len(paths)], *(model for model, _ in on_device)),
        ),
        findings=finding_infos((*log_findings, *clock_findings, *said, *found.findings)),
    )


def _timing_info(target: Target) -> CalibratedTiming | None:
    timing = target.timing
    if timing is None:
        return None
    return CalibratedTiming(
        cpi=timing.cpi,
        stall_cycles_per_byte=_stall(target),
        band=(timing.low, timing.high),
        operator_band=(timing.operator_low, timing.operator_high),
        status=timing.status,
        basis=timing.basis,
    )


def _stall(target: Target) -> float | None:
    """The cycles that a byte of constants waits; None where the profile says nothing of it."""
    region = target.flash_region
    if region is None or (region.stall_cycles_per_byte is None and region.bytes_per_cycle is None):
        return None
    return speeds_of(target).constant_stall


def _model_info(source: Source, given: Measurement, before: Target, after: Target) -> MeasuredModel:
    was, now = (estimate_model(source.model, target).latency_ms for target in (before, after))
    assert now is not None  # a timing was found
    before_ms = None if was is None else was.value
    return MeasuredModel(source.name, source.sha256, given.ms, before_ms, now.value, now.value / given.ms - 1)


def _branching(source: Source) -> tuple[Finding, ...]:
    """That a model's work depends on its data, so that its time says little of what an instruction takes."""
    codes = {operator.code for graph in source.model.subgraphs for operator in graph.operators}
    if "IF" not in codes and None not in subgraph_runs(source.model):
        return ()
    text = "its control flow depends on the data: each loop and branch is counted once; calibrate with another model"
    return (Finding("work-depends-on-data", "warning", text, source.name),)


def _check_target(target: Target) -> None:
    """Refuse what has no cycles per instruction, or no memories to write down."""
    if target.bandwidth_gbps is not None:
        raise TargetError(
            "is described only by its memory bandwidth: there are no cycles per instruction to fit",
            where=target.name,
            fix="name a board or a core with instruction tables",
        )
    if target.arena_region is None or target.flash_region is None:
        raise TargetError(
            "has no memory regions, which a profile requires",
            where=target.name,
            fix="name a board, or specify --sram and --flash",
        )


def _profile_name(name: str | None, output: Path) -> str:
    """The name that was given, else the file's with what no name may hold replaced."""
    if name is None:
        return re.sub(r"[^a-z0-9.+_-]+", "-", output.stem.lower())[:64].strip("-._+") or "my-board"
    problems: list[Problem] = []
    Section({"name": name}, problems).name("name")
    if problems:
        raise UsageError(problems[0].what, where="--name", fix=problems[0].fix)
    return name


def _different(paths: Sequence[Path], opened: Sequence[Source], runs: Sequence[DeviceRun]) -> tuple[Source, ...]:
    """The models of both, the logs' last. Raises UsageError for one that is given twice."""
    named = [*zip(paths, opened, strict=True), *((run.path, run.source) for run in runs)]
    seen: dict[str, Path] = {}
    for path, source in named:
        if source.sha256 in seen:
            raise UsageError(
                f"is the same model as {seen[source.sha256]}", where=str(path), fix="specify each model once"
            )
        seen[source.sha256] = path
    return tuple(source for _, source in named)


def _calibrated(target: Target, found: Calibration, name: str) -> Target:
    """The target as the profile is to describe it."""
    others = tuple(timing for timing in target.timings if timing.kernels != target.kernels)
    region = target.flash_region
    timing = replace(found.timing, basis=_line(found.timing.basis))
    own = replace(target, name=name, timings=(timing, *others))
    if target.board is None:  # its sources speak of the core, which has them itself
        own = replace(own, board=name, sources=())
    if region is None or found.stall_cycles_per_byte in (None, region.stall_cycles_per_byte):
        return own
    figure = f"{region.name}.stall_cycles_per_byte"
    stalled = replace(region, stall_cycles_per_byte=found.stall_cycles_per_byte)
    return replace(
        own,
        regions=tuple(stalled if item.name == region.name else item for item in own.regions),
        sources=(*_not_covering(own.sources, figure), Document((figure,), timing.basis, verified=True)),
    )


def _not_covering(sources: Sequence[Document], figure: str) -> tuple[Document, ...]:
    """The sources without what they say of the figure."""
    others = (replace(item, covers=tuple(word for word in item.covers if word != figure)) for item in sources)
    return tuple(item for item in others if item.covers)


def _line(text: str) -> str:
    """The text as a profile can hold it: file names may be long, and hold anything."""
    printable = "".join(character if character.isprintable() else "?" for character in text)
    return printable if len(printable) <= MAX_TEXT else f"{printable[: MAX_TEXT - 3]}..."
