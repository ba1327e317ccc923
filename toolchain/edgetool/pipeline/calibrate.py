"""Calibrate a target: fit its timing to times that were measured on the board, and write it as a profile.

The profile is a TOML file that either extends a packaged board or describes the target completely. It can have a timing
of TFLM's kernels and one of native code, each fitted to its own measurements. Logs of a device also state the arena and
the time of each operator; the report compares both with edgetool's own figures.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from edgetool import __version__
from edgetool.codegen.c_names import model_macro
from edgetool.codegen.profile import word
from edgetool.errors import InternalError, Problem, TargetError, UsageError
from edgetool.estimate.calibrate import Calibration, Measurement, calibrate
from edgetool.estimate.latency import CountedOperator, estimate_model
from edgetool.estimate.memory_speed import speeds_of
from edgetool.estimate.native import require_estimated
from edgetool.figure import in_text
from edgetool.finding import Finding
from edgetool.memory.planner import PlanRequest, plan_memory
from edgetool.model.loops import subgraph_runs
from edgetool.pipeline.device_log import UNSPECIFIED, DeviceRun, at_clock_of, check_run, device_runs, run_ms
from edgetool.pipeline.output import check_writable, write_file
from edgetool.pipeline.reporting import device_options, finding_infos
from edgetool.pipeline.source import Source, open_tflite
from edgetool.pipeline.targets import NATIVE, is_path, resolve_named
from edgetool.report.calibration import (
    CalibratedTiming,
    CalibrationInfo,
    CalibrationReport,
    DeviceInfo,
    MeasuredModel,
    MeasuredOperator,
)
from edgetool.report.document import Provenance, TargetInfo
from edgetool.target.load import DEFAULT_RUNTIME, dependent_on, load_core, load_target, parse_target
from edgetool.target.platform import platform_of
from edgetool.target.quantity import format_clock, format_size
from edgetool.target.toml import MAX_TEXT, Section
from edgetool.target.types import FigureSource, MemoryRegion, Target, Timing

Table = dict[str, Any]
COMMENT_COLUMNS = 118


def profile_text(target: Target, *, base: Target | None, comments: Sequence[str] = ()) -> str:
    """Return the TOML text of a profile that loads as the target.

    Args:
        target: The target to write.
        base: The packaged board that the profile extends: only differences from it are written. None to write all keys.
        comments: Lines of comment at the beginning of the file.

    Raises:
        InternalError: The text does not load back as the target.
    """
    table = _all_keys(target) if base is None else {"name": target.name, "extends": base.name, **_changes(target, base)}
    lines = [f"# {_printable(comment)[:COMMENT_COLUMNS]}" for comment in comments]
    text = "\n".join([*lines, *_lines(table), ""])
    _check(text, target)
    return text


def _check(text: str, target: Target) -> None:
    """Raise InternalError unless the text loads as the target.

    Sources may differ, because those of the board and those of the core are kept apart.
    """
    loaded = parse_target(text, where=target.name)
    if replace(loaded, sources=()) != replace(target, sources=()):
        raise InternalError("the written profile does not load back as intended", where=target.name)


def _all_keys(target: Target) -> Table:
    """Return all keys of a complete profile."""
    line_bytes = target.core.data_cache_line_bytes
    table: Table = {
        "name": target.name,
        "board": target.board,
        "vendor": target.vendor,
        "mcu": target.mcu,
        "core": target.core.name,
        "fpu": target.core.fpu,
        "data_cache_line": line_bytes if line_bytes != load_core(target.core.name).data_cache_line_bytes else None,
        "clock": format_clock(target.clock_hz),
        "clock_source": target.clock_source,
        "kernels": target.kernels if target.usual_kernels is None else None,
        "usual_kernels": target.usual_kernels,
        "esp_nn": target.esp_nn_variant,
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
    """Return the keys that differ from the base; a region states only its name and its differences, if possible."""
    target_keys, base_keys = _all_keys(target), _all_keys(base)
    changed = {
        key: value
        for key, value in target_keys.items()
        if value != base_keys.get(key) and key not in ("name", "region", "source", "usual_kernels")
    }
    if target.kernels != base.kernels:
        changed["kernels"] = target.kernels
    regions = [_region(region) for region in target.regions]
    same_regions = [region.name for region in target.regions] == [region.name for region in base.regions]
    if same_regions and "core" not in changed:
        pairs = zip(target.regions, base.regions, strict=True)
        regions = [_amendment(region, other) for region, other in pairs if region != other]
    not_inherited = dependent_on([*changed, *([] if same_regions and "core" not in changed else ["region"])])
    changed |= {key: target_keys[key] for key in target_keys if key in not_inherited and key != "usual_kernels"}
    base_documents = {source.document for source in base.sources}
    sources = [_source(source) for source in target.sources if source.document not in base_documents]
    return {**changed, **({"region": regions} if regions else {}), **({"source": sources} if sources else {})}


def _amendment(region: MemoryRegion, other: MemoryRegion) -> Table:
    """Return the name of a region and the keys that differ from the other region."""
    others = _region(other)
    return {"name": region.name} | {key: value for key, value in _region(region).items() if value != others.get(key)}


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
        "write_stall_cycles_per_byte": region.write_stall_cycles_per_byte,
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
        "types": list(timing.types) or None,
        "stall_cycles_per_byte": timing.stall_cycles_per_byte,
    }
    return {key: value for key, value in table.items() if value is not None}


def _power(target: Target) -> Table | None:
    power = target.power
    if power is None:
        return None
    return {"active_mw": power.active_mw, "range_mw": [power.low_mw, power.high_mw], "basis": power.basis}


def _source(source: FigureSource) -> Table:
    note = {"note": source.note} if source.note else {}
    return {"covers": list(source.covers), "document": source.document, "verified": source.verified, **note}


def _lines(table: Mapping[str, Any]) -> list[str]:
    """Return the TOML lines of a table: its plain keys, then each subtable after an empty line."""
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
    """Return a number, a boolean, a text or a list of them in TOML; JSON spells all values of a profile the same."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


# The slowest inference divided by the fastest: above this, something else ran at the same time.
MAX_STEADY_RATIO = 1.1
# The overrides that only native code has, and those that choose it.
NATIVE_OVERRIDES = (
    *("runtime", "kernels", "scratch_budget"),
    *("row_input", "row_output", "max_extra_macs", "max_weights_per_row", "incremental"),
)


@dataclass(frozen=True, slots=True)
class NativeWork:
    """A model as native code: what its operators execute, and its arena."""

    counted: tuple[CountedOperator, ...]
    arena_bytes: int


def _native_work(source: Source, target: Target) -> NativeWork | None:
    """Return the native code that edgetool generates for the target; None if its runtime is TFLM."""
    if not target.runtime.is_native:
        return None
    from edgetool.pipeline.native import counted_operators, native_model  # with the generator of the code

    planned = native_model(source, target).planned
    return NativeWork(counted_operators(planned, target) or (), planned.memory.arena_bytes)


def with_device_info(
    model: MeasuredModel, run: DeviceRun, target: Target, work: NativeWork | None = None
) -> tuple[MeasuredModel, tuple[Finding, ...]]:
    """Add the figures from the device's log to a measured model, and report what makes them doubtful.

    target: the target after calibration. work: the model as native code; None for TFLM.
    """
    info = _device_info(run, target, work)
    return replace(model, device=info, operators=_operators(run, target, work)), _findings(run, info, target)


def _device_info(run: DeviceRun, target: Target, work: NativeWork | None) -> DeviceInfo:
    """Return the figures from the device's log, with edgetool's own account of the arena for comparison.

    The account is None if it is only a lower bound, or if several models share the arena.
    """
    profile = run.profile
    expected = _account(run.source, target) if work is None else work.arena_bytes
    return DeviceInfo(
        log=run.log.name,
        counter=profile.source,
        runs=profile.runs,
        min_ms=run_ms(run, profile.min_ticks, target),
        max_ms=run_ms(run, profile.max_ticks, target),
        arena_used_bytes=profile.arena_used_bytes,
        account_used_bytes=None if profile.arena_shared else expected,
    )


def _account(source: Source, target: Target) -> int | None:
    """Return the bytes that TFLM uses of the arena; None if only a lower bound is known."""
    account = plan_memory(source.model, platform_of(target), PlanRequest(file_plan="only")).account
    return None if account is None or account.is_lower_bound else account.used_bytes


def _findings(run: DeviceRun, info: DeviceInfo, target: Target) -> tuple[Finding, ...]:
    """Report what makes a run doubtful: an unexpected arena size, another TFLM, varying times, other operators."""
    profile, findings = run.profile, []
    expected = info.account_used_bytes
    if expected is not None and expected != info.arena_used_bytes and target.runtime.is_native:
        text = (
            f"the firmware has an arena of {info.arena_used_bytes:,} bytes, but native code for this target has "
            f"{expected:,}: it was generated with other options (such as --scratch-budget) or by another version of "
            "edgetool, and its times do not apply to this code"
        )
        findings.append(Finding("arena-differs", text, where=run.source.name))
    elif expected is not None and expected != info.arena_used_bytes:
        text = (
            f"the device uses {info.arena_used_bytes:,} bytes of the arena, but {target.core.name} with "
            f"{target.kernels} kernels of {target.runtime.name} uses {expected:,}: the firmware links different "
            "kernels or a different TFLM version, and its times do not apply to this target"
        )
        findings.append(Finding("arena-differs", text, where=run.source.name))
    if profile.runtime not in (UNSPECIFIED, "-", word(target.runtime.name)):
        text = f"the firmware was built for {profile.runtime}, but the target uses {target.runtime.name}"
        findings.append(Finding("runtime-differs", text, where=run.source.name))
    if profile.max_ticks > MAX_STEADY_RATIO * profile.min_ticks:
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


def _operators(run: DeviceRun, target: Target, work: NativeWork | None) -> tuple[MeasuredOperator, ...]:
    """Return the measured and estimated time of each operator of the main subgraph.

    Returns nothing if the log contains other operators. An operator that encloses others, such as WHILE, has no
    estimate to compare with.
    """
    if not _comparable(run):
        return ()
    estimate = estimate_model(run.source.model, target, counted=None if work is None else work.counted)
    estimates = {item.index: item for item in estimate.operators if item.subgraph == 0}
    events = run.profile.events
    encloses_others = [following.depth > event.depth for event, following in pairwise(events)] + [False]
    main = [(event, encloses) for event, encloses in zip(events, encloses_others, strict=True) if event.depth == 0]
    operators = []
    for operator, (event, encloses) in zip(run.source.model.main.operators, main, strict=True):
        measured = run_ms(run, event.mean_ticks, target)
        ms = None if encloses else estimates[operator.index].ms.value
        ratio = None if not ms else measured / ms
        operators.append(MeasuredOperator(operator.index, operator.label, measured, ms, ratio))
    return tuple(operators)


def _comparable(run: DeviceRun) -> bool:
    """Return whether the operators that ran are exactly those of the main subgraph."""
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
    """Fit the target's timing to the measured latencies of models, and write the profile to `output`.

    If the runtime is native code, its timing is added to the profile, whose runtime remains.

    Args:
        target_name: The target to calibrate.
        measurements: The path of each .tflite and its measured latency in milliseconds.
        output: The profile to write.
        name: The name of the profile; by default, the stem of its file.
        overrides: Keyword arguments of resolve_named; they become part of the profile.
        force: Whether to replace an existing file.
        logs: The output of profile firmware, which contains further measurements.
        models: The .tflite files of the models in the logs (see device_runs).

    Raises:
        CalibrationError: No device of this kind could produce the measurements, or a log contains no complete profile.
        TargetError: The target cannot be calibrated.
        OutputError: The profile cannot be written.
        UsageError: A model or a log does not match the others or the target.
    """
    target = resolve_named(target_name, **(overrides or {}))
    assert target is not None  # because it has a name
    _check_target(target)
    if target.runtime.is_native:
        require_estimated(target)
    profile_name = _profile_name(name, output)
    paths = tuple(path for path, _ in measurements)
    files = (*paths, *logs, *models)
    inputs = (*files, Path(target_name)) if is_path(target_name) else files
    check_writable(output.parent, (output.name,), force=force, inputs=inputs)
    runs, log_findings = device_runs(logs, models)
    clock_given = (overrides or {}).get("clock") is not None
    target, clock_findings = at_clock_of(runs, target, clock_given=clock_given)
    for run in runs:
        check_run(run, target)
    sources = _distinct_sources(paths, [open_tflite(path) for path in paths], runs)
    works = [_native_work(source, target) for source in sources]
    times = (*(ms for _, ms in measurements), *(run_ms(run, run.profile.mean_ticks, target) for run in runs))
    all_measurements = tuple(
        Measurement(source.name, source.model, ms, None if work is None else work.counted)
        for source, ms, work in zip(sources, times, works, strict=True)
    )
    calibration = calibrate(target, all_measurements)
    calibrated = _calibrated(_without_native(target, target_name, overrides), calibration, profile_name)
    packaged = resolve_named(target_name)
    if packaged is not None and packaged.clock_hz != calibrated.clock_hz:  # its power was not measured at this clock
        calibrated = replace(calibrated, power=None, sources=_not_covering(calibrated.sources, "power"))
    used = _as_native(calibrated, target) if target.runtime.is_native else calibrated
    after = _timing_info(used)
    assert after is not None  # because the calibration has a timing
    base = load_target(target_name) if target.board is not None and not is_path(target_name) else None
    comments = [
        f"Written by edgetool {__version__}: calibrated for {target.name} at {format_clock(target.clock_hz)}, "
        f"{target.timed_kernels} kernels.",
        *(f"Measured: {item.name} {item.ms:g} ms" for item in all_measurements),
    ]
    text = profile_text(calibrated, base=base, comments=comments)
    write_file(output, text.encode("utf-8"), force=force, inputs=inputs)
    region = target.flash_region
    measured = [_model_info(source, item, target, used) for source, item in zip(sources, all_measurements, strict=True)]
    on_device = [
        with_device_info(model, run, used, work)
        for model, run, work in zip(measured[len(paths) :], runs, works[len(paths) :], strict=True)
    ]
    model_findings = [finding for source in sources for finding in _control_flow_findings(source)]
    model_findings += [finding for _, findings in on_device for finding in findings]
    return CalibrationReport(
        provenance=Provenance(
            tool=f"edgetool {__version__}",
            versions={"python": platform.python_version()},
            options={
                "command": "calibrate",
                "name": profile_name,
                "logs": [log.name for log in logs],
                **device_options(target),
            },
            trust_model_code=False,
        ),
        target=TargetInfo(target.name, target.core.name, target.board, target.runtime.name, target.kernels),
        calibration=CalibrationInfo(
            profile=profile_name,
            extends=None if base is None else base.name,
            kernels=target.timed_kernels,
            clock_hz=target.clock_hz,
            cpi_limits=target.core.cpi_limits,
            region=None if region is None else region.name,
            before=_timing_info(target),
            after=after,
            models=(*measured[: len(paths)], *(model for model, _ in on_device)),
        ),
        findings=finding_infos((*log_findings, *clock_findings, *model_findings, *calibration.findings)),
    )


def _without_native(target: Target, name: str, overrides: Mapping[str, Any] | None) -> Target:
    """Return the target with the runtime and the kernels of its profile instead of native code."""
    if not target.runtime.is_native:
        return target
    plain = resolve_named(name, **{**(overrides or {}), **dict.fromkeys(NATIVE_OVERRIDES)})
    assert plain is not None  # because it has a name
    return plain.with_overrides(clock_hz=None if plain.clock_hz == target.clock_hz else target.clock_hz)


def _as_native(target: Target, other: Target) -> Target:
    """Return the target as native code that is planned like that of the other."""
    return target.with_overrides(
        runtime=NATIVE,
        scratch_budget_bytes=other.scratch_budget_bytes,
        row_input=other.row_input,
        row_output=other.row_output,
        max_extra_macs=other.max_extra_macs,
        max_weights_per_row_bytes=other.max_weights_per_row_bytes,
        incremental=other.incremental,
    )


def _timing_info(target: Target) -> CalibratedTiming | None:
    timing = target.timing
    if timing is None:
        return None
    return CalibratedTiming(
        cpi=timing.cpi,
        stall_cycles_per_byte=_stall_cycles_per_byte(target),
        band=(timing.low, timing.high),
        operator_band=(timing.operator_low, timing.operator_high),
        status=timing.status,
        basis=timing.basis,
    )


def _stall_cycles_per_byte(target: Target) -> float | None:
    """Return the stall cycles for each byte of constants; None if the profile does not state them."""
    timing, region = target.timing, target.flash_region
    if timing is not None and timing.stall_cycles_per_byte is not None:
        return timing.stall_cycles_per_byte
    if region is None or (region.stall_cycles_per_byte is None and region.bytes_per_cycle is None):
        return None
    return speeds_of(target).constant_stall


def _model_info(source: Source, measurement: Measurement, before: Target, after: Target) -> MeasuredModel:
    old, new = (
        estimate_model(source.model, target, counted=measurement.counted).latency_ms for target in (before, after)
    )
    assert new is not None  # because the calibrated target has a timing
    old_ms = None if old is None else old.value
    error = new.value / measurement.ms - 1
    return MeasuredModel(source.name, source.sha256, measurement.ms, old_ms, new.value, error)


def _control_flow_findings(source: Source) -> tuple[Finding, ...]:
    """Report a model whose control flow depends on its data: its time hardly determines the cycles per instruction."""
    codes = {operator.code for graph in source.model.subgraphs for operator in graph.operators}
    if "IF" not in codes and None not in subgraph_runs(source.model):
        return ()
    text = "its control flow depends on the data: each loop and branch is counted once; calibrate with another model"
    return (Finding("work-depends-on-data", text, where=source.name),)


def _check_target(target: Target) -> None:
    """Raise TargetError if the target has no cycles per instruction to fit, or no memory regions to write."""
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
    """Return the given name, or the stem of the file with invalid characters replaced."""
    if name is None:
        return re.sub(r"[^a-z0-9.+_-]+", "-", output.stem.lower())[:64].strip("-._+") or "my-board"
    problems: list[Problem] = []
    Section({"name": name}, problems).name("name")
    if problems:
        raise UsageError(problems[0].what, where="--name", fix=problems[0].fix)
    return name


def _distinct_sources(paths: Sequence[Path], opened: Sequence[Source], runs: Sequence[DeviceRun]) -> tuple[Source, ...]:
    """Return the given models, then those of the logs. Raises UsageError if a model occurs twice."""
    named = [*zip(paths, opened, strict=True), *((run.path, run.source) for run in runs)]
    seen: dict[str, Path] = {}
    for path, source in named:
        if source.sha256 in seen:
            raise UsageError(
                f"is the same model as {seen[source.sha256]}", where=str(path), fix="specify each model once"
            )
        seen[source.sha256] = path
    return tuple(source for _, source in named)


def _calibrated(target: Target, calibration: Calibration, name: str) -> Target:
    """Return the target with the calibrated timing, as the new profile describes it."""
    region = target.flash_region
    timing = replace(calibration.timing, basis=_profile_line(calibration.timing.basis))
    others = tuple(other for other in target.timings if other.kernels != timing.kernels)
    calibrated = replace(target, name=name, timings=(timing, *others))
    if target.board is None:  # its sources are those of the core, whose profile contains them
        calibrated = replace(calibrated, board=name, sources=())
    # The region keeps its own stall, because that was measured with other kernels.
    if timing.stall_cycles_per_byte is not None:
        return calibrated
    if region is None or calibration.stall_cycles_per_byte in (None, region.stall_cycles_per_byte):
        return calibrated
    figure = f"{region.name}.stall_cycles_per_byte"
    stalled = replace(region, stall_cycles_per_byte=calibration.stall_cycles_per_byte)
    return replace(
        calibrated,
        regions=tuple(stalled if item.name == region.name else item for item in calibrated.regions),
        sources=(*_not_covering(calibrated.sources, figure), FigureSource((figure,), timing.basis, verified=True)),
    )


def _not_covering(sources: Sequence[FigureSource], figure: str) -> tuple[FigureSource, ...]:
    """Return the sources without their claim to cover the figure; a source that covers nothing else is dropped."""
    reduced = (replace(item, covers=tuple(name for name in item.covers if name != figure)) for item in sources)
    return tuple(item for item in reduced if item.covers)


def _profile_line(text: str) -> str:
    """Return a text that a profile can hold: file names in it may be long and contain unprintable characters."""
    printable = "".join(character if character.isprintable() else "?" for character in text)
    return printable if len(printable) <= MAX_TEXT else f"{printable[: MAX_TEXT - 3]}..."
