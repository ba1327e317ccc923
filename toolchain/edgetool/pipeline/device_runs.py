"""Models that a device ran: each profile of a log with the .tflite that it is of, and how long an inference took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetool.codegen.c_names import model_macro
from edgetool.codegen.cycle_counters import CYCLE_COUNTERS
from edgetool.codegen.profile_program import word
from edgetool.errors import CalibrationError, UsageError
from edgetool.finding import Finding
from edgetool.pipeline.files import read_file
from edgetool.pipeline.profile_log import DeviceProfile, read_profile_log
from edgetool.pipeline.source import Source, open_tflite, own_path, sha256_of
from edgetool.target.quantity import format_clock
from edgetool.target.types import Target

# Firmware that was made for no target in particular says so.
ANY = "unspecified"


@dataclass(frozen=True, slots=True)
class DeviceRun:
    """A model that ran on the device: its profile, the log that has it, and the model's file."""

    profile: DeviceProfile
    log: Path
    path: Path
    source: Source


def device_runs(logs: Sequence[Path], models: Sequence[Path]) -> tuple[tuple[DeviceRun, ...], tuple[Finding, ...]]:
    """The last profile of each model in the logs, with its model; and notes on the logs.

    A model is known by its SHA-256, among `models` or by the name of the profile. Raises UsageError for a
    profile without a model and a model without a profile, CalibrationError for a log without a whole profile.
    """
    given = [(path, open_tflite(path)) for path in models]
    found: dict[str, DeviceRun] = {}
    findings = []
    for log in logs:
        read = read_profile_log(log)
        findings += [Finding("log", "note", note, log.name) for note in read.notes]
        for profile in read.profiles:
            earlier = found.pop(profile.sha256, None)
            if earlier is not None:
                text = f"{profile.model} also occurs in {earlier.log.name}; that profile is ignored"
                findings.append(Finding("log", "note", text, log.name))
            path, source = _model_of(profile, log, given)
            found[profile.sha256] = DeviceRun(profile, log, path, source)
    for path, source in given:
        if source.sha256 not in found:
            raise UsageError(
                f"is not in the log: no profile there has its SHA-256, {source.sha256}",
                where=str(path),
                fix="specify the .tflite that the firmware was built from, or omit it",
            )
    return tuple(found.values()), tuple(findings)


def _model_of(profile: DeviceProfile, log: Path, given: Sequence[tuple[Path, Source]]) -> tuple[Path, Source]:
    for path, source in given:
        if source.sha256 == profile.sha256:
            return path, source
    file, folder = f"{word(profile.model)}.tflite", f"{word(profile.model)}-firmware"
    beside = own_path(log).parent
    candidates = [place / part for place in (beside, Path()) for part in (Path(file), Path(folder, file))]
    for path in candidates if "/" not in file and "\\" not in file else ():
        if path.is_file() and sha256_of(read_file(path)) == profile.sha256:
            return path, open_tflite(path)
    raise UsageError(
        f"profiles a model with SHA-256 {profile.sha256}, but no matching {file} was found next to "
        f"the log, in the current directory or in {folder}/",
        where=f"{log}: line {profile.line}",
        fix="specify the .tflite that the firmware was built from, as in 'edgetool calibrate MODEL.tflite --log ...'",
    )


def at_clock_of(runs: Sequence[DeviceRun], target: Target, *, clock_given: bool) -> tuple[Target, tuple[Finding, ...]]:
    """The target at the clock that the logs tell, unless the user gave one; and a note where it differs.

    Raises UsageError where the logs tell several.
    """
    clocks = {run.profile.clock_hz: run for run in runs if run.profile.clock_hz is not None}
    if clock_given or not clocks:
        return target, ()
    if len(clocks) > 1:
        told = " and ".join(format_clock(clock) for clock in sorted(clocks))
        raise UsageError(
            f"the logs were recorded at different clocks: {told}",
            where="--log",
            fix="calibrate each clock separately, or specify --clock",
        )
    ((clock, run),) = clocks.items()
    if clock == target.clock_hz:
        return target, ()
    text = (
        f"the firmware ran at {format_clock(clock)} instead of {format_clock(target.clock_hz)}; the new profile uses "
        f"{format_clock(clock)}"
    )
    return target.with_overrides(clock_hz=clock), (Finding("clock-of-log", "note", text, run.log.name),)


def run_ms(run: DeviceRun, ticks: float, target: Target) -> float:
    """Milliseconds of so many ticks.

    Cycles of the core are timed by the target's clock, others by the rate that the log tells. Raises CalibrationError
    where it tells none.
    """
    profile = run.profile
    cycles = profile.source in CYCLE_COUNTERS and profile.ticks_hz in (None, profile.clock_hz)
    rate = target.clock_hz if cycles else profile.ticks_hz
    if rate is None:
        raise CalibrationError(
            f"the rate of the counter ({profile.source}) is unknown",
            where=_place(run),
            fix=f"build the firmware with -D{model_macro(profile.model)}_PROFILE_TICKS_HZ=...",
        )
    return ticks / rate * 1e3


def check_run(run: DeviceRun, target: Target) -> None:
    """Refuse a profile that measured nothing, or another build than the target's.

    Raises CalibrationError and UsageError.
    """
    profile = run.profile
    own_counter = (
        f"build with {model_macro(profile.model)}_PROFILE_TICKS() and _PROFILE_TICKS_HZ to use another counter"
    )
    if profile.max_ticks == 0:
        raise CalibrationError(
            f"the counter ({profile.source}) did not advance: the device does not have it, or is an emulator",
            where=_place(run),
            fix=own_counter,
        )
    if profile.overflows:
        raise CalibrationError(
            f"the counter ({profile.source}) overflowed {profile.overflows} times: an operator takes too long for it",
            where=_place(run),
            fix=own_counter,
        )
    if profile.core not in (ANY, word(target.core.name)):
        raise UsageError(
            f"the firmware was built for {profile.core}, but {target.name} has a {target.core.name}",
            where=_place(run),
            fix="specify the target that the firmware was built for",
        )
    if profile.kernels not in (ANY, word(target.kernels)):
        raise UsageError(
            f"the firmware was built for {profile.kernels} kernels, but {target.name} uses {target.kernels}",
            where=_place(run),
            fix=f"add --kernels {profile.kernels}, or build the firmware with the target's kernels",
        )


def _place(run: DeviceRun) -> str:
    return f"{run.log}: line {run.profile.line}"
