"""A user's own profile from times that were measured on the board.

The TOML text of a user's own profile: what differs from a packaged board, or all of a target.

What a run on the device says beside its time: its arena, its operators, and how steady it was.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from edgetool import __version__
from edgetool.codegen.c_names import model_macro
from edgetool.codegen.tflm.profile import word
from edgetool.errors import InternalError, Problem, TargetError, UsageError
from edgetool.estimate.calibrate import Calibration, Measurement, calibrate
from edgetool.estimate.latency import estimate_model
from edgetool.estimate.memory_speed import speeds_of
from edgetool.figure import in_text
from edgetool.finding import Finding
from edgetool.memory.planner import PlanRequest, plan_memory
from edgetool.model.loops import subgraph_runs
from edgetool.pipeline.device_log import ANY, DeviceRun, at_clock_of, check_run, device_runs, run_ms
from edgetool.pipeline.output import check_writable, write_file
from edgetool.pipeline.reporting import device_options, finding_infos
from edgetool.pipeline.source import Source, open_tflite
from edgetool.pipeline.targets import is_path, resolve_named
from edgetool.report.calibration import (
    CalibratedTiming,
    CalibrationInfo,
    CalibrationReport,
    DeviceInfo,
    MeasuredModel,
    MeasuredOperator,
)
from edgetool.report.document import Provenance, TargetInfo
from edgetool.target.load import DEFAULT_RUNTIME, dependent_on, load_target, parse_target
from edgetool.target.platform import platform_of
from edgetool.target.quantity import format_clock, format_size
from edgetool.target.toml import MAX_TEXT, Section
from edgetool.target.types import FigureSource, MemoryRegion, Target, Timing

Table = dict[str, Any]
COMMENT_COLUMNS = 118


def profile_text(target: Target, *, base: Target | None, comments: Sequence[str] = ()) -> str:
    """A profile that loads as the target, with comments at its head.

    base: the packaged board that it extends, by which it says only what is different; without one it says everything.
    Raises InternalError when the text does not load as the target again.
    """
    table = _whole(target) if base is None else {"name": target.name, "extends": base.name, **_changes(target, base)}
    lines = [f"# {_printable(comment)[:COMMENT_COLUMNS]}" for comment in comments]
    text = "\n".join([*lines, *_lines(table), ""])
    _check(text, target)
    return text


def _check(text: str, target: Target) -> None:
    """What is written must be read as it was meant; sources, which are told apart by board and core, aside."""
    read = parse_target(text, where=target.name)
    if replace(read, sources=()) != replace(target, sources=()):
        raise InternalError("the written profile does not load back as intended", where=target.name)


def _whole(target: Target) -> Table:
    """Every key of a board's profile."""
    table: Table = {
        "name": target.name,
        "board": target.board,
        "vendor": target.vendor,
        "mcu": target.mcu,
        "core": target.core.name,
        "fpu": target.core.fpu,
        "clock": format_clock(target.clock_hz),
        "clock_source": target.clock_source,
        "kernels": target.kernels if target.usual_kernels is None else None,
        "usual_kernels": target.usual_kernels,
        "runtime": None if target.runtime.name == DEFAULT_RUNTIME else target.runtime.name,
        "arena_region": target.arena_region_name,
        "power": _power(target),
        "bandwidth": None if target.bandwidth_gbps is None else {"gbps": target.bandwidth_gbps},
        "region": [_region(region) for region in target.regions],
        "timing": [_timing(timing) for timing in target.timings],
        "source": [_source(source) for source in target.sources],
    }
    return {key: value for key, value in table.items() if value not in (None, [])}


def _changes(target: Target, base: Target) -> Table:
    """The keys of the profile that do not follow from the base; regions amend those of the base by name."""
    here, there = _whole(target), _whole(base)
    changed = {
        key: value
        for key, value in here.items()
        if value != there.get(key) and key not in ("name", "region", "source", "usual_kernels")
    }
    if target.kernels != base.kernels:
        changed["kernels"] = target.kernels
    regions = [_region(region) for region in target.regions]
    amend = [region.name for region in target.regions] == [region.name for region in base.regions]
    if amend and "core" not in changed:
        pairs = zip(target.regions, base.regions, strict=True)
        regions = [_amendment(region, other) for region, other in pairs if region != other]
    lost = dependent_on([*changed, *([] if amend and "core" not in changed else ["region"])])
    changed |= {key: here[key] for key in here if key in lost and key != "usual_kernels"}
    known = {source.document for source in base.sources}
    sources = [_source(source) for source in target.sources if source.document not in known]
    return {**changed, **({"region": regions} if regions else {}), **({"source": sources} if sources else {})}


def _amendment(region: MemoryRegion, other: MemoryRegion) -> Table:
    """The name of a region, and what is different in it."""
    known = _region(other)
    return {"name": region.name} | {key: value for key, value in _region(region).items() if value != known.get(key)}


def _region(region: MemoryRegion) -> Table:
    table: Table = {
        "name": region.name,
        "kind": region.kind,
        "base": region.base_address,
        "size": format_size(region.size_bytes),
        "wait_states": region.wait_states,
        "access_bytes": region.access_bytes,
        "cache": format_size(region.cache_bytes) if region.cache_bytes else None,
        "cold_cycles": region.cold_cycles,
        "stall_cycles_per_byte": region.stall_cycles_per_byte,
        "note": region.note or None,
    }
    return {key: value for key, value in table.items() if value is not None}


def _timing(timing: Timing) -> Table:
    table: Table = {
        "kernels": timing.kernels,
        "cpi": timing.cpi,
        "band": [timing.low, timing.high],
        "operator_band": [timing.operator_low, timing.operator_high],
        "status": timing.status,
        "basis": timing.basis,
    }
    return table | ({"types": list(timing.types)} if timing.types else {})


def _power(target: Target) -> Table | None:
    power = target.power
    if power is None:
        return None
    return {"active_mw": power.active_mw, "range_mw": [power.low_mw, power.high_mw], "basis": power.basis}


def _source(source: FigureSource) -> Table:
    note = {"note": source.note} if source.note else {}
    return {"covers": list(source.covers), "document": source.document, "verified": source.verified, **note}


def _lines(table: Mapping[str, Any]) -> list[str]:
    """The keys of a table, then its tables and lists of tables, each after an empty line."""
    lines = [f"{key} = {_value(value)}" for key, value in table.items() if not _is_table(value)]
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{key}]", *_lines(value)]
        elif _is_table(value):
            for item in value:
                lines += ["", f"[[{key}]]", *_lines(item)]
    return lines


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(item, Mapping) for item in value))


def _value(value: Any) -> str:
    """A number, a boolean, a text or a list of them; JSON's spelling is TOML's, for what a profile can hold."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


# The slowest inference against the fastest: beyond this something else ran as well.
UNSTEADY = 1.1


def on_device_too(model: MeasuredModel, run: DeviceRun, target: Target) -> tuple[MeasuredModel, tuple[Finding, ...]]:
    """The measured model with what the device said of it, and what makes that doubtful; target: calibrated."""
    info = _device_info(run, target)
    return replace(model, device=info, operators=_operators(run, target)), _findings(run, info, target)


def _device_info(run: DeviceRun, target: Target) -> DeviceInfo:
    """What the device said, with edgetool's account of the arena beside it.

    The account is None where edgetool has a bound only, and of an arena that several models share.
    """
    profile = run.profile
    account = plan_memory(run.source.model, platform_of(target), PlanRequest(file_plan="only")).account
    known = account is not None and not account.is_lower_bound and not profile.arena_shared
    return DeviceInfo(
        log=run.log.name,
        counter=profile.source,
        runs=profile.runs,
        min_ms=run_ms(run, profile.min_ticks, target),
        max_ms=run_ms(run, profile.max_ticks, target),
        arena_used_bytes=profile.arena_used_bytes,
        account_used_bytes=account.used_bytes if account is not None and known else None,
    )


def _findings(run: DeviceRun, info: DeviceInfo, target: Target) -> tuple[Finding, ...]:
    """What makes a run doubtful: another arena than its build has, another TFLM, and times that differ."""
    profile, findings = run.profile, []
    expected = info.account_used_bytes
    if expected is not None and expected != info.arena_used_bytes:
        text = (
            f"the device uses {info.arena_used_bytes:,} bytes of the arena, but {target.core.name} with "
            f"{target.kernels} kernels of {target.runtime.name} uses {expected:,}: the firmware links different "
            "kernels or a different TFLM version, and its times do not apply to this target"
        )
        findings.append(Finding("arena-differs", text, where=run.source.name))
    if profile.runtime not in (ANY, "-", word(target.runtime.name)):
        text = f"the firmware was built for {profile.runtime}, but the target uses {target.runtime.name}"
        findings.append(Finding("runtime-differs", text, where=run.source.name))
    if profile.max_ticks > UNSTEADY * profile.min_ticks:
        text = (
            f"inference times vary from {in_text(info.min_ms, 4)} to {in_text(info.max_ms, 4)} ms, perhaps because of "
            "interrupts or another task; the mean is used"
        )
        findings.append(Finding("runs-differ", text, where=run.source.name))
    if not _comparable(run):
        if profile.varies:
            text = "its inferences ran different operators: only the total is used"
        elif profile.dropped:
            text = (
                f"{profile.dropped} operators did not fit in the profile: build with "
                f"-D{model_macro(profile.model)}_PROFILE_EVENTS={len(profile.events) + profile.dropped}"
            )
        else:
            text = "the operators that ran are not those of the model: only the total is used"
        findings.append(Finding("operators-not-compared", text, where=run.source.name))
    return tuple(findings)


def _operators(run: DeviceRun, target: Target) -> tuple[MeasuredOperator, ...]:
    """Each operator of the main subgraph, measured and estimated by the target; none where the log has others.

    One that encloses others, as WHILE does, has no estimate of its own to compare with.
    """
    if not _comparable(run):
        return ()
    estimates = {item.index: item for item in estimate_model(run.source.model, target).operators if item.subgraph == 0}
    events = run.profile.events
    encloses = [following.depth > event.depth for event, following in pairwise(events)] + [False]
    main = [(event, inner) for event, inner in zip(events, encloses, strict=True) if event.depth == 0]
    operators = []
    for operator, (event, inner) in zip(run.source.model.main.operators, main, strict=True):
        measured = run_ms(run, event.mean_ticks, target)
        estimate = None if inner else estimates[operator.index]
        ms = None if estimate is None else estimate.ms.value
        ratio = None if not ms else measured / ms
        operators.append(MeasuredOperator(operator.index, operator.label, measured, ms, ratio))
    return tuple(operators)


def _comparable(run: DeviceRun) -> bool:
    """Whether the operators that ran are the main subgraph's, one for one."""
    ran = [event.name for event in run.profile.events if event.depth == 0]
    expected = [word(operator.label) for operator in run.source.model.main.operators]
    return not run.profile.varies and not run.profile.dropped and ran == expected


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
    return (Finding("work-depends-on-data", text, where=source.name),)


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
        sources=(*_not_covering(own.sources, figure), FigureSource((figure,), timing.basis, verified=True)),
    )


def _not_covering(sources: Sequence[FigureSource], figure: str) -> tuple[FigureSource, ...]:
    """The sources without what they say of the figure."""
    others = (replace(item, covers=tuple(word for word in item.covers if word != figure)) for item in sources)
    return tuple(item for item in others if item.covers)


def _line(text: str) -> str:
    """The text as a profile can hold it: file names may be long, and hold anything."""
    printable = "".join(character if character.isprintable() else "?" for character in text)
    return printable if len(printable) <= MAX_TEXT else f"{printable[: MAX_TEXT - 3]}..."
