"""What a profile firmware printed, and which models it ran.

What a profile firmware printed, out of everything else that came over the same line.

A serial log holds other text before, between and inside of the lines, colours, lost and doubled characters. Each line
of a profile has a number and a CRC (codegen/tflm/profile.py): whatever is not whole is no line, and a profile that
lacks one is no profile.

Models that a device ran: each profile of a log with the .tflite that it is of, and how long an inference took.
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetool.codegen.c_names import model_macro
from edgetool.codegen.tflm.profile import CYCLE_COUNTERS, LOG_VERSION, word
from edgetool.errors import CalibrationError, UsageError
from edgetool.finding import Finding
from edgetool.pipeline.output import read_file
from edgetool.pipeline.source import Source, open_tflite, own_path, sha256_of
from edgetool.target.quantity import format_clock
from edgetool.target.types import Target

MAX_LOG_BYTES = 64 * 2**20
MAX_EVENTS = 65536
MOST_TOLD = 20  # of the profiles that do not count

_MARK = "edgetool-profile "
_LINE = re.compile(r"edgetool-profile (\d{1,6}) ([a-z]{1,16})((?: [a-z_0-9]{1,16}=[!-~]{1,64}){0,8}) \*([0-9a-f]{4})")
_ESCAPES = re.compile(r"\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]|\x1b[@-Z\\-_]|\x00")
_BREAKS = re.compile(r"\r+\n?")  # in one step for each run: a log may be nothing but these
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}

# The lines of a profile in their order, each with its keys; "event" as often as there are operators.
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
    """An operator that ran, in ticks: the mean of all runs and the fastest. depth: how many operators enclose it."""

    name: str
    depth: int
    mean_ticks: int
    min_ticks: int


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """What a device said of one model. line: where in the log it begins, from 1.

    model: the C name of its files. core, kernels and runtime: what the firmware was made for. source: what counted the
    ticks; ticks_hz and clock_hz are None where the firmware does not know them. events: of one inference, in the order
    in which they began; varies: another run had others; dropped: how many there was no room for. overflows: how often
    the counter ran over. arena_declared_bytes is None where the firmware does not know it; shared: several models'.
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
    """The last whole profile of each model, and what else there is to say of the log."""

    profiles: tuple[DeviceProfile, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a profile; at is the log's line, from 1."""

    at: int
    number: int
    kind: str
    values: Mapping[str, str]


class _BrokenError(Exception):
    """A profile that cannot be used, and why."""


def read_profile_log(path: Path) -> ProfileLog:
    """The profiles in a log.

    Raises UsageError for a file that cannot be read or is larger than any log, and CalibrationError for one without
    a whole profile; it says what is missing.
    """
    if path.is_file() and path.stat().st_size > MAX_LOG_BYTES:
        raise UsageError(
            f"is too large for a profile log (limit: {MAX_LOG_BYTES // 2**20} MiB)",
            where=str(path),
            fix="specify the output of the profile firmware",
        )
    return profiles_in(read_file(path, what="a log"), where=str(path))


def profiles_in(content: bytes, *, where: str) -> ProfileLog:
    """The profiles in the bytes of a log; CalibrationError as read_profile_log."""
    found: dict[str, DeviceProfile] = {}
    notes, broken = [], []
    for lines in _groups(_lines(content)):
        try:
            profile = _profile(lines)
        except _BrokenError as error:
            broken.append((lines[0].at, str(error)))
            continue
        if profile.sha256 in found:
            earlier = found.pop(profile.sha256).line
            notes.append(
                f"{profile.model} occurs more than once: line {profile.line} is used, line {earlier} is ignored"
            )
        found[profile.sha256] = profile
    told = [f"line {at}: {why}" for at, why in broken]
    if found:
        return ProfileLog(tuple(found.values()), (*_last(notes), *_last(told)))
    if told:
        raise CalibrationError(f"contains no complete profile; {told[-1]}", where=where, fix=_AGAIN)
    damaged = _MARK.encode() in content
    raise CalibrationError(
        "contains profile lines, but all are corrupted" if damaged else 'contains no line "edgetool-profile ..."',
        where=where,
        fix=_AGAIN
        if damaged
        else "specify the output of NAME_profile.cc; 'edgetool emit --profile' generates that firmware",
    )


def _last(notes: Sequence[str]) -> Sequence[str]:
    """The last of very many, and how many more there are."""
    left = len(notes) - MOST_TOLD
    return [f"{left:,} more notes like the following", *notes[left:]] if left > 0 else notes


def _lines(content: bytes) -> Iterator[_Line]:
    """Every whole line of a profile, wherever it stands."""
    wide = _UTF16.get(content[:2])  # as PowerShell writes what it redirects; noise may begin so, too
    encoding = wide if wide is not None and _MARK.encode(wide) in content else "latin-1"
    text = _BREAKS.sub("\n", _ESCAPES.sub("", content.decode(encoding, "replace")))
    at, counted = 1, 0
    start = text.find(_MARK)
    while start >= 0:
        found = _LINE.match(text, start)
        if found is not None and _crc(found[0][: -len(" *0000")]) == int(found[4], 16):
            at, counted = at + text.count("\n", counted, start), start
            values = dict(pair.split("=", 1) for pair in found[3].split())
            yield _Line(at, int(found[1]), found[2], values)
        start = text.find(_MARK, start + len(_MARK))


def _crc(text: str) -> int:
    return crc_hqx(text.encode("ascii"), 0xFFFF)


def _groups(lines: Iterator[_Line]) -> Iterator[list[_Line]]:
    """The lines of each profile: from number 0 to the next 0. A line that came twice in a row counts once."""
    group: list[_Line] = []
    for line in lines:
        if group and replace(line, at=group[-1].at) == group[-1]:
            continue
        if group and (line.number == 0 or group[-1].kind in ("end", "failed")):
            yield group
            group = []
        if len(group) <= MAX_EVENTS + len(_KEYS):  # what is longer lacks its end then
            group.append(line)
    if group:
        yield group


def _profile(lines: Sequence[_Line]) -> DeviceProfile:
    for expected, line in enumerate(lines):
        if line.number != expected:
            raise _BrokenError(f"line {expected} of the profile is missing or corrupted")
    kinds = [line.kind for line in lines]
    begin = lines[0]
    if begin.kind == "begin" and begin.values.get("version") != str(LOG_VERSION):
        raise _BrokenError(f"this version of edgetool does not support log version {begin.values.get('version')}")
    if kinds[-1] == "failed":
        step, status = (lines[-1].values.get(key, "?") for key in ("step", "status"))
        raise _BrokenError(f"on the device, {step} failed with status {status} (see the line below it for the cause)")
    events = lines[4 : 4 + kinds.count("event")]
    if kinds[-1] != "end":
        raise _BrokenError(f"the profile is cut off after line {len(lines) - 1}")
    wanted = [kind for kind in _KEYS for _ in range(kinds.count("event") if kind == "event" else 1)]
    if kinds != wanted or len(events) > MAX_EVENTS:
        raise _BrokenError("its lines do not form a profile")
    for line in lines:
        if set(line.values) != _KEYS[line.kind]:
            raise _BrokenError(f"line {line.number} of the profile has unexpected keys")
    profile = _values({line.kind: line for line in lines if line.kind != "event"}, events)
    _check(profile)
    return profile


def _values(by_kind: Mapping[str, _Line], events: Sequence[_Line]) -> DeviceProfile:
    begin, build, time = by_kind["begin"].values, by_kind["build"].values, by_kind["time"]
    total, counts, arena = by_kind["total"], by_kind["events"], by_kind["arena"]
    sha256 = by_kind["model"].values["sha256"]
    if re.fullmatch(r"[0-9a-f]{64}", sha256) is None:
        raise _BrokenError("its model has no SHA-256")
    if _number(by_kind["end"], "lines") != len(events) + len(_KEYS) - 1 or _number(counts, "kept") != len(events):
        raise _BrokenError("its line count is wrong")
    if any(_number(event, "index") != index for index, event in enumerate(events)):
        raise _BrokenError("its operators are out of order")
    return DeviceProfile(
        line=by_kind["begin"].at,
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
        raise _BrokenError(f"{key} in line {line.number} of the profile is not a number")
    value = int(text)
    if value >= 2**64:
        raise _BrokenError(f"{key} in line {line.number} of the profile does not fit in 64 bits")
    return value


def _check(profile: DeviceProfile) -> None:
    """Refuse figures that contradict each other: operators that take longer than what encloses them."""
    if profile.runs < 1 or not profile.min_ticks <= profile.mean_ticks <= profile.max_ticks:
        raise _BrokenError("its total is inconsistent")
    if profile.varies:
        return
    # Of each open operator, what is left for those inside: means are rounded down, so theirs cannot exceed its own.
    left = [profile.mean_ticks]
    for index, event in enumerate(profile.events):
        if event.depth >= len(left) or event.min_ticks > event.mean_ticks:
            raise _BrokenError(f"the times of operator {index} contradict each other or those of the previous operator")
        del left[event.depth + 1 :]
        left[-1] -= event.mean_ticks
        if left[-1] < 0:
            raise _BrokenError(f"operator {index} and those before it take longer than the enclosing operator")
        left.append(event.mean_ticks)


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
        findings += [Finding("log", note, where=log.name) for note in read.notes]
        for profile in read.profiles:
            earlier = found.pop(profile.sha256, None)
            if earlier is not None:
                text = f"{profile.model} also occurs in {earlier.log.name}; that profile is ignored"
                findings.append(Finding("log", text, where=log.name))
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
    return target.with_overrides(clock_hz=clock), (Finding("clock-of-log", text, where=run.log.name),)


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
