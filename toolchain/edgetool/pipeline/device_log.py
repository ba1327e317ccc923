"""Read the log of profile firmware: find its profiles, and the .tflite of the model that each one measured.

A serial log also contains other text before, between and inside the lines of a profile, colour codes, and lost or
repeated characters. Each line of a profile has a number and a CRC (codegen/profile.py): a line whose CRC is wrong
is ignored, and a profile that lacks a line is rejected.
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetool.codegen.c_names import model_macro
from edgetool.codegen.profile import CYCLE_COUNTERS, LOG_VERSION, word
from edgetool.errors import CalibrationError, UsageError
from edgetool.finding import Finding
from edgetool.pipeline.output import read_file
from edgetool.pipeline.source import Source, absolute_path, open_tflite, sha256_of
from edgetool.pipeline.targets import NATIVE
from edgetool.target.quantity import format_clock
from edgetool.target.types import Target

MAX_LOG_BYTES = 64 * 2**20
MAX_EVENTS = 65536
MAX_NOTES = 20  # of each kind; only the last ones are reported

_MARK = "edgetool-profile "
_LINE = re.compile(r"edgetool-profile (\d{1,6}) ([a-z]{1,16})((?: [a-z_0-9]{1,16}=[!-~]{1,64}){0,8}) \*([0-9a-f]{4})")
_ESCAPES = re.compile(r"\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]|\x1b[@-Z\\-_]|\x00")
_BREAKS = re.compile(r"\r+\n?")  # matches a whole run at once, because a log may contain nothing else
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}

# The lines of a profile in order, with the keys of each; there is one "event" line for each operator.
_KEYS = {
    "begin": {"version", "model", "tool"},
    "model": {"sha256"},
    "build": {"core", "kernels", "runtime"},
    "time": {"source", "ticks_hz", "clock_hz", "runs"},
    "event": {"index", "depth", "mean", "min", "name"},
    "total": {"mean", "min", "max"},
    "events": {"kept", "dropped", "varies", "overflows"},
    "arena": {"used", "declared", "shared"},
    "end": {"lines"},
}
_AGAIN = "run the firmware again and save its complete output"


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """An operator that ran.

    mean_ticks and min_ticks are over all runs; depth is the number of operators that enclose it.
    """

    name: str
    depth: int
    mean_ticks: int
    min_ticks: int


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """The profile of one model, as a device printed it.

    Attributes:
        line: The line of the log at which the profile begins, from 1.
        model: The C name of the model's files.
        sha256: The hash of the .tflite.
        core: The core that the firmware was built for; also `kernels` and `runtime`.
        source: The counter of the ticks.
        ticks_hz: The rate of the counter; None if the firmware does not know it.
        clock_hz: The clock of the core; None if the firmware does not know it.
        runs: The number of inferences.
        events: The operators of one inference, in the order in which they began.
        mean_ticks: The mean over all inferences; also `min_ticks` and `max_ticks`.
        dropped: The number of operators that did not fit in the profile.
        varies: Whether another inference ran different operators.
        overflows: How many times the counter overflowed.
        arena_used_bytes: The bytes of the arena that TFLM used; those of the whole arena for native code.
        arena_declared_bytes: The size of the arena; None if the firmware does not know it.
        arena_shared: Whether several models share the arena.
    """

    line: int
    model: str
    sha256: str
    core: str
    kernels: str
    runtime: str
    source: str
    ticks_hz: int | None
    clock_hz: int | None
    runs: int
    events: tuple[DeviceEvent, ...]
    mean_ticks: int
    min_ticks: int
    max_ticks: int
    dropped: int
    varies: bool
    overflows: int
    arena_used_bytes: int
    arena_declared_bytes: int | None
    arena_shared: bool


@dataclass(frozen=True, slots=True)
class ProfileLog:
    """The last complete profile of each model in a log, and notes on the log."""

    profiles: tuple[DeviceProfile, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a profile; log_line is its line in the log, from 1."""

    log_line: int
    number: int
    kind: str
    values: Mapping[str, str]


class _InvalidProfileError(Exception):
    """A profile cannot be used; the message says why."""


def read_profile_log(path: Path) -> ProfileLog:
    """Read the profiles in a log.

    Raises:
        UsageError: The file cannot be read or is larger than MAX_LOG_BYTES.
        CalibrationError: The log contains no complete profile; the message says what is missing.
    """
    if path.is_file() and path.stat().st_size > MAX_LOG_BYTES:
        raise UsageError(
            f"is too large for a profile log (limit: {MAX_LOG_BYTES // 2**20} MiB)",
            where=str(path),
            fix="specify the output of the profile firmware",
        )
    return parse_profile_log(read_file(path, what="a log"), where=str(path))


def parse_profile_log(content: bytes, *, where: str) -> ProfileLog:
    """Parse the profiles in the bytes of a log. Raises CalibrationError as read_profile_log does."""
    by_sha256: dict[str, DeviceProfile] = {}
    notes, invalid = [], []
    for lines in _groups(_lines(content)):
        try:
            profile = _profile(lines)
        except _InvalidProfileError as error:
            invalid.append(f"line {lines[0].log_line}: {error}")
            continue
        if profile.sha256 in by_sha256:
            earlier = by_sha256.pop(profile.sha256).line
            notes.append(
                f"{profile.model} occurs more than once: line {profile.line} is used, line {earlier} is ignored"
            )
        by_sha256[profile.sha256] = profile
    if by_sha256:
        return ProfileLog(tuple(by_sha256.values()), (*_last(notes), *_last(invalid)))
    if invalid:
        raise CalibrationError(f"contains no complete profile; {invalid[-1]}", where=where, fix=_AGAIN)
    damaged = _MARK.encode() in content
    raise CalibrationError(
        "contains profile lines, but all are corrupted" if damaged else 'contains no line "edgetool-profile ..."',
        where=where,
        fix=_AGAIN
        if damaged
        else "specify the output of NAME_profile.cc; 'edgetool emit --profile' generates that firmware",
    )


def _last(notes: Sequence[str]) -> Sequence[str]:
    """Return at most MAX_NOTES notes: the last ones, after a line with the number of omitted notes."""
    omitted = len(notes) - MAX_NOTES
    return [f"{omitted:,} more notes like the following", *notes[omitted:]] if omitted > 0 else notes


def _lines(content: bytes) -> Iterator[_Line]:
    """Yield each intact line of a profile, even if other text precedes or follows it."""
    utf_16 = _UTF16.get(content[:2])  # PowerShell redirects output in it; noise may begin with these bytes, too
    encoding = utf_16 if utf_16 is not None and _MARK.encode(utf_16) in content else "latin-1"
    text = _BREAKS.sub("\n", _ESCAPES.sub("", content.decode(encoding, "replace")))
    log_line, counted_to = 1, 0
    start = text.find(_MARK)
    while start >= 0:
        match = _LINE.match(text, start)
        if match is not None and _crc(match[0][: -len(" *0000")]) == int(match[4], 16):
            log_line, counted_to = log_line + text.count("\n", counted_to, start), start
            values = dict(pair.split("=", 1) for pair in match[3].split())
            yield _Line(log_line, int(match[1]), match[2], values)
        start = text.find(_MARK, start + len(_MARK))


def _crc(text: str) -> int:
    return crc_hqx(text.encode("ascii"), 0xFFFF)


def _groups(lines: Iterator[_Line]) -> Iterator[list[_Line]]:
    """Yield the lines of each profile, from number 0 to the next 0; a line that is repeated at once counts once."""
    group: list[_Line] = []
    for line in lines:
        if group and replace(line, log_line=group[-1].log_line) == group[-1]:
            continue
        if group and (line.number == 0 or group[-1].kind in ("end", "failed")):
            yield group
            group = []
        if len(group) <= MAX_EVENTS + len(_KEYS):  # a longer profile is cut off and thus invalid
            group.append(line)
    if group:
        yield group


def _profile(lines: Sequence[_Line]) -> DeviceProfile:
    for expected, line in enumerate(lines):
        if line.number != expected:
            raise _InvalidProfileError(f"line {expected} of the profile is missing or corrupted")
    kinds = [line.kind for line in lines]
    begin = lines[0]
    if begin.kind == "begin" and begin.values.get("version") != str(LOG_VERSION):
        raise _InvalidProfileError(
            f"this version of edgetool does not support log version {begin.values.get('version')}"
        )
    if kinds[-1] == "failed":
        step, status = (lines[-1].values.get(key, "?") for key in ("step", "status"))
        raise _InvalidProfileError(
            f"on the device, {step} failed with status {status} (see the line below it for the cause)"
        )
    events = lines[4 : 4 + kinds.count("event")]
    if kinds[-1] != "end":
        raise _InvalidProfileError(f"the profile is cut off after line {len(lines) - 1}")
    expected_kinds = [kind for kind in _KEYS for _ in range(kinds.count("event") if kind == "event" else 1)]
    if kinds != expected_kinds or len(events) > MAX_EVENTS:
        raise _InvalidProfileError("its lines do not form a profile")
    for line in lines:
        if set(line.values) != _KEYS[line.kind]:
            raise _InvalidProfileError(f"line {line.number} of the profile has unexpected keys")
    profile = _from_lines({line.kind: line for line in lines if line.kind != "event"}, events)
    _check(profile)
    return profile


def _from_lines(by_kind: Mapping[str, _Line], events: Sequence[_Line]) -> DeviceProfile:
    begin, build, time = by_kind["begin"].values, by_kind["build"].values, by_kind["time"]
    total, counts, arena = by_kind["total"], by_kind["events"], by_kind["arena"]
    sha256 = by_kind["model"].values["sha256"]
    if re.fullmatch(r"[0-9a-f]{64}", sha256) is None:
        raise _InvalidProfileError("its model has no SHA-256")
    if _number(by_kind["end"], "lines") != len(events) + len(_KEYS) - 1 or _number(counts, "kept") != len(events):
        raise _InvalidProfileError("its line count is wrong")
    if any(_number(event, "index") != index for index, event in enumerate(events)):
        raise _InvalidProfileError("its operators are out of order")
    return DeviceProfile(
        line=by_kind["begin"].log_line,
        model=begin["model"],
        sha256=sha256,
        core=build["core"],
        kernels=build["kernels"],
        runtime=build["runtime"],
        source=time.values["source"],
        ticks_hz=_number(time, "ticks_hz") or None,
        clock_hz=_number(time, "clock_hz") or None,
        runs=_number(time, "runs"),
        events=tuple(
            DeviceEvent(event.values["name"], *(_number(event, key) for key in ("depth", "mean", "min")))
            for event in events
        ),
        mean_ticks=_number(total, "mean"),
        min_ticks=_number(total, "min"),
        max_ticks=_number(total, "max"),
        dropped=_number(counts, "dropped"),
        varies=bool(_number(counts, "varies")),
        overflows=_number(counts, "overflows"),
        arena_used_bytes=_number(arena, "used"),
        arena_declared_bytes=_number(arena, "declared") or None,
        arena_shared=bool(_number(arena, "shared")),
    )


def _number(line: _Line, key: str) -> int:
    text = line.values[key]
    if not (text.isascii() and text.isdigit()) or len(text) > 20:
        raise _InvalidProfileError(f"{key} in line {line.number} of the profile is not a number")
    value = int(text)
    if value >= 2**64:
        raise _InvalidProfileError(f"{key} in line {line.number} of the profile does not fit in 64 bits")
    return value


def _check(profile: DeviceProfile) -> None:
    """Reject times that contradict each other, such as operators that take longer than the enclosing operator."""
    if profile.runs < 1 or not profile.min_ticks <= profile.mean_ticks <= profile.max_ticks:
        raise _InvalidProfileError("its total is inconsistent")
    if profile.varies:
        return
    # The ticks of each open operator that remain for the operators in it. Means are rounded down, so the sum of the
    # means inside cannot exceed the mean of the enclosing operator.
    remaining = [profile.mean_ticks]
    for index, event in enumerate(profile.events):
        if event.depth >= len(remaining) or event.min_ticks > event.mean_ticks:
            raise _InvalidProfileError(
                f"the times of operator {index} contradict each other or those of the previous operator"
            )
        del remaining[event.depth + 1 :]
        remaining[-1] -= event.mean_ticks
        if remaining[-1] < 0:
            raise _InvalidProfileError(f"operator {index} and those before it take longer than the enclosing operator")
        remaining.append(event.mean_ticks)


# The core, kernels and runtime in the log of firmware that was built for no particular target.
UNSPECIFIED = "unspecified"


@dataclass(frozen=True, slots=True)
class DeviceRun:
    """A model that ran on the device: its profile, the log with the profile, and the model's file."""

    profile: DeviceProfile
    log: Path
    path: Path
    source: Source


def device_runs(logs: Sequence[Path], models: Sequence[Path]) -> tuple[tuple[DeviceRun, ...], tuple[Finding, ...]]:
    """Return the last profile of each model in the logs together with its model, and notes on the logs.

    The .tflite of a profile is the one with its SHA-256, either among `models` or next to the log under the name in the
    profile.

    Raises:
        UsageError: A profile has no model, or a model has no profile.
        CalibrationError: A log contains no complete profile.
    """
    opened = [(path, open_tflite(path)) for path in models]
    by_sha256: dict[str, DeviceRun] = {}
    findings = []
    for log in logs:
        profile_log = read_profile_log(log)
        findings += [Finding("log", note, where=log.name) for note in profile_log.notes]
        for profile in profile_log.profiles:
            earlier = by_sha256.pop(profile.sha256, None)
            if earlier is not None:
                text = f"{profile.model} also occurs in {earlier.log.name}; that profile is ignored"
                findings.append(Finding("log", text, where=log.name))
            path, source = _model_of(profile, log, opened)
            by_sha256[profile.sha256] = DeviceRun(profile, log, path, source)
    for path, source in opened:
        if source.sha256 not in by_sha256:
            raise UsageError(
                f"is not in the log: no profile there has its SHA-256, {source.sha256}",
                where=str(path),
                fix="specify the .tflite that the firmware was built from, or omit it",
            )
    return tuple(by_sha256.values()), tuple(findings)


def _model_of(profile: DeviceProfile, log: Path, opened: Sequence[tuple[Path, Source]]) -> tuple[Path, Source]:
    for path, source in opened:
        if source.sha256 == profile.sha256:
            return path, source
    file, folder = f"{word(profile.model)}.tflite", f"{word(profile.model)}-firmware"
    log_folder = absolute_path(log).parent
    candidates = [place / part for place in (log_folder, Path()) for part in (Path(file), Path(folder, file))]
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
    """Return the target at the clock that the logs state, unless the user specified a clock.

    Also returns a finding if that clock differs from the target's. Raises UsageError if the logs state several clocks.
    """
    clocks = {run.profile.clock_hz: run for run in runs if run.profile.clock_hz is not None}
    if clock_given or not clocks:
        return target, ()
    if len(clocks) > 1:
        listed = " and ".join(format_clock(clock) for clock in sorted(clocks))
        raise UsageError(
            f"the logs were recorded at different clocks: {listed}",
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
    return target.with_overrides(clock_hz=clock), (Finding("clock-of-log", text, where=run.log.name),)


def run_ms(run: DeviceRun, ticks: float, target: Target) -> float:
    """Convert ticks to milliseconds.

    Cycles of the core are converted with the target's clock, other ticks with the rate of the counter in the log.
    Raises CalibrationError if the log does not state that rate.
    """
    profile = run.profile
    counts_cycles = profile.source in CYCLE_COUNTERS and profile.ticks_hz in (None, profile.clock_hz)
    rate = target.clock_hz if counts_cycles else profile.ticks_hz
    if rate is None:
        raise CalibrationError(
            f"the rate of the counter ({profile.source}) is unknown",
            where=_place(run),
            fix=f"build the firmware with -D{model_macro(profile.model)}_PROFILE_TICKS_HZ=...",
        )
    return ticks / rate * 1e3


def check_run(run: DeviceRun, target: Target) -> None:
    """Check that a profile contains usable times and is for the build of the target.

    Raises:
        CalibrationError: The counter did not advance, or overflowed.
        UsageError: The firmware was built for another runtime, another core or other kernels.
    """
    profile = run.profile
    counter_fix = (
        f"build with {model_macro(profile.model)}_PROFILE_TICKS() and _PROFILE_TICKS_HZ to use another counter"
    )
    if profile.max_ticks == 0:
        raise CalibrationError(
            f"the counter ({profile.source}) did not advance: the device does not have it, or is an emulator",
            where=_place(run),
            fix=counter_fix,
        )
    if profile.overflows:
        raise CalibrationError(
            f"the counter ({profile.source}) overflowed {profile.overflows} times: an operator takes too long for it",
            where=_place(run),
            fix=counter_fix,
        )
    native = profile.runtime == NATIVE
    if native != target.runtime.is_native:
        raise UsageError(
            f"the firmware runs {'native code' if native else 'TFLM'}, and times of one do not apply to the other",
            where=_place(run),
            fix="add --runtime native" if native else "omit --runtime native",
        )
    if native and profile.core == UNSPECIFIED:
        raise UsageError(
            "the firmware was generated without a target, which determines the kernels of native code",
            where=_place(run),
            fix=f"generate it with 'edgetool emit --runtime native --profile --target {target.name}'",
        )
    if profile.core not in (UNSPECIFIED, word(target.core.name)):
        raise UsageError(
            f"the firmware was built for {profile.core}, but {target.name} has a {target.core.name}",
            where=_place(run),
            fix="specify the target that the firmware was built for",
        )
    if profile.kernels not in (UNSPECIFIED, word(target.timed_kernels)):
        raise UsageError(
            f"the firmware was built for {profile.kernels} kernels, but {target.name} uses {target.kernels}",
            where=_place(run),
            fix=f"add --kernels {profile.kernels}, or build the firmware with the target's kernels",
        )


def _place(run: DeviceRun) -> str:
    return f"{run.log}: line {run.profile.line}"
