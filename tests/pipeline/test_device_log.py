"""What a device printed, among everything else that came over the line."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgetool.errors import CalibrationError, UsageError
from edgetool.pipeline import device_log
from edgetool.pipeline.device_log import DeviceProfile, parse_profile_log, read_profile_log
from tests.pipeline.device_logs import EVENTS, SHA256, log_of, numbered, profile_lines

LINES = profile_lines()
OTHER = "cd" * 32
BEGIN = "begin version=1 model=kws tool=1"
# Nothing of this is a line of a profile, whatever it looks like.
NOISE = st.one_of(
    st.binary(max_size=60).filter(lambda text: b"edgetool-profile" not in text),
    st.sampled_from(
        [
            b"",
            b"[00:00:01.003,000] \x1b[0;32m<inf> wifi: up\x1b[0m",
            b"edgetool-profile",
            b"edgetool-profile 3 event index=0 dep",
            b"edgetool-profile 4 event index=0 depth=0 mean=9 min=1 name=CONV_2D *0000",
            b"edgetool-profile 99999999999999999999 end lines=2 *1234",
            b"\xff\xfe\x00\x80",
            b"edgetool-profile " * 50,
        ]
    ),
).map(lambda text: text.replace(b"\x1b", b"").replace(b"\xff\xfe", b"?"))


def only(content: bytes) -> DeviceProfile:
    (profile,) = parse_profile_log(content, where="log").profiles
    return profile


PLAIN = only(log_of(LINES))


def test_a_profile_says_what_the_device_did() -> None:
    assert (PLAIN.model, PLAIN.sha256, PLAIN.line) == ("kws", SHA256, 1)
    assert (PLAIN.core, PLAIN.kernels, PLAIN.runtime) == ("cortex-m4", "cmsis-nn", "tflm-2026-08")
    assert (PLAIN.source, PLAIN.ticks_hz, PLAIN.clock_hz, PLAIN.runs) == ("dwt", 120_000_000, 120_000_000, 10)
    assert tuple((e.name, e.depth, e.mean_ticks, e.min_ticks) for e in PLAIN.events) == EVENTS
    assert (PLAIN.mean_ticks, PLAIN.min_ticks, PLAIN.max_ticks) == (10_000, 9_900, 10_100)
    assert (PLAIN.arena_used_bytes, PLAIN.arena_declared_bytes, PLAIN.arena_shared) == (5000, 5008, False)
    assert (PLAIN.dropped, PLAIN.varies, PLAIN.overflows) == (0, False, 0)


@example([b"\xfe\xff", *([b""] * len(LINES))], b"\n")
@given(st.lists(NOISE, min_size=len(LINES) + 1, max_size=len(LINES) + 1), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_noise_between_the_lines_changes_nothing(noise: list[bytes], end: bytes) -> None:
    content = noise[0] + end
    for line, text in zip(LINES, noise[1:], strict=True):
        content += line.encode() + end + text + end
    profile = only(content)
    assert profile.line >= 1
    assert _but_place(profile) == _but_place(PLAIN)


@given(st.data())
def test_a_damaged_line_is_never_used(data: st.DataObject) -> None:
    content = bytearray(log_of(LINES))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    try:
        profile = only(bytes(content))
    except CalibrationError:
        return
    assert _but_place(profile) == _but_place(PLAIN)  # between the lines, or a line's end


def _but_place(profile: DeviceProfile) -> list[object]:
    return [getattr(profile, key) for key in DeviceProfile.__dataclass_fields__ if key != "line"]


@pytest.mark.parametrize(
    "content",
    [
        log_of(LINES, end="\n"),
        log_of(LINES, end="\r\r\n"),
        "".join(LINES).encode(),
        b"".join(b"\x1b[0;32mI (123) main: " + line.encode() + b"\x1b[0m\r\n" for line in LINES),
        b"".join(b"\x00" + line.encode() + b" trailing \xff\n" for line in LINES),
        b"".join(line.encode() + b"\n" + line.encode() + b"\n" for line in LINES),
        b"".join(b"edgetool-profile 3 ev" + line.encode() + b"\n" for line in LINES),
        b"\xff\xfe" + log_of(LINES).decode().encode("utf-16-le"),
    ],
    ids=["LF", "CRCRLF", "one line", "coloured", "noise in lines", "each twice", "cut lines", "UTF-16"],
)
def test_terminal_escapes_are_ignored(content: bytes) -> None:
    assert _but_place(only(content)) == _but_place(PLAIN)


def test_the_last_whole_profile_of_each_model_counts() -> None:
    again = profile_lines(total=(20_000, 20_000, 20_000))
    other = profile_lines(model="vww", sha256=OTHER)
    log = parse_profile_log(log_of(LINES, other, again, LINES[:5]), where="log")
    assert [(item.model, item.mean_ticks) for item in log.profiles] == [("vww", 10_000), ("kws", 20_000)]
    first, last = log.notes
    assert "line 25 is used, line 1 is ignored" in first
    assert "line 37: the profile is cut off after line 4" in last
    assert _but_place(only(log_of(LINES[:3], LINES, LINES[5:]))) == _but_place(PLAIN)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "contains no line"),
        (b"Hello from the bootloader\r\n", "contains no line"),
        (b"edgetool-profile 0 begin version=1 mod\n", "corrupted"),
        (log_of(LINES[:-1]), "is cut off after line 10"),
        (log_of([*LINES[:6], *LINES[7:]]), "line 6 of the profile is missing"),
        (log_of([*LINES[:6], LINES[6].replace("mean=2", "mean=3"), *LINES[7:]]), "line 6 of the profile is missing"),
        (log_of(LINES[1:]), "line 0 of the profile is missing"),
        (log_of(profile_lines(version=2)), "version 2"),
        (
            log_of(numbered(["begin version=1 model=kws tool=1", "failed step=init status=5"])),
            "init failed with status 5",
        ),
        (log_of(numbered([BEGIN, "end lines=2"])), "do not form a profile"),
        (log_of(profile_lines(lines=13)), "its line count is wrong"),
        (log_of(profile_lines(kept=5)), "its line count is wrong"),
        (log_of(profile_lines(sha256="AB" * 32)), "no SHA-256"),
        (log_of(profile_lines(used=2**64)), "64 bits"),
        (log_of(profile_lines(hz="much")), "ticks_hz in line 3 of the profile is not a number"),  # type: ignore[arg-type]
        (log_of(profile_lines(runs=0)), "total is inconsistent"),
        (log_of(profile_lines(total=(10_000, 10_001, 10_002))), "total is inconsistent"),
        (log_of(profile_lines(total=(9_000, 9_000, 9_000))), "take longer than the enclosing operator"),
        (
            log_of(profile_lines(events=[("WHILE", 0, 100, 100), ("ADD", 1, 101, 1)])),
            "take longer than the enclosing operator",
        ),
        (log_of(profile_lines(events=[("ADD", 1, 100, 100)])), "the times of operator 0 contradict"),
        (log_of(profile_lines(events=[("ADD", 0, 100, 101)])), "the times of operator 0 contradict"),
    ],
)
def test_an_incomplete_profile_is_rejected(content: bytes, words: str) -> None:
    with pytest.raises(CalibrationError) as caught:
        parse_profile_log(content, where="serial.txt")
    assert words in str(caught.value)
    assert str(caught.value).startswith("serial.txt: ")
    assert caught.value.fix


def test_operators_that_differ_between_runs_are_not_compared() -> None:
    assert only(log_of(profile_lines(varies=1, events=[("ADD", 0, 10, 100)]))).varies


def test_unknown_figures_of_the_firmware_are_none() -> None:
    profile = only(log_of(profile_lines(hz=0, declared=0)))
    assert (profile.ticks_hz, profile.clock_hz, profile.arena_declared_bytes) == (None, None, None)


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "serial.txt"
    path.write_bytes(log_of(LINES))
    assert read_profile_log(path).profiles == (PLAIN,)
    with pytest.raises(UsageError, match="cannot be read"):
        read_profile_log(tmp_path / "none.txt")
    with pytest.raises(UsageError, match="is a directory"):
        read_profile_log(tmp_path)
    monkeypatch.setattr(device_log, "MAX_LOG_BYTES", 100)
    with pytest.raises(UsageError, match="is too large for a profile log"):
        read_profile_log(path)


@pytest.mark.parametrize(
    "content",
    [
        b"edgetool-profile 1 a" + b" a=b" * 500_000 + b"edgetool-profile " * 100_000,
        b"\r" * 2_000_000,
        b"\r\n" * 1_000_000 + b"\x1b[" * 500_000,
        b"\xff\xfe" + "edgetool-profile ".encode("utf-16-le") * 100_000,
    ],
    ids=["marks", "returns", "escapes", "wide"],
)
def test_a_hostile_log_takes_no_time(content: bytes) -> None:
    begun = time.process_time()
    with pytest.raises(CalibrationError):
        parse_profile_log(content, where="log")
    assert time.process_time() - begun < 10


def test_only_the_last_of_thousands_of_profiles_are_used() -> None:
    log = parse_profile_log(log_of(LINES) * 300 + log_of(LINES[:3]) * 300, where="log")
    assert len(log.profiles) == 1
    assert log.notes[0] == "279 more notes like the following"
    assert len(log.notes) == 42


def test_a_profile_without_end_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_log, "MAX_EVENTS", 2)
    endless = profile_lines(events=[("ADD", 0, 1, 1)] * 50)
    with pytest.raises(CalibrationError, match=r"the profile is cut off after line 11"):
        parse_profile_log(log_of(endless), where="log")


@given(st.binary(max_size=200), st.data())
def test_any_bytes_are_a_log_or_refused(noise: bytes, data: st.DataObject) -> None:
    whole = bytearray(log_of(LINES))
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=4)):
        whole[place] = data.draw(st.integers(0, 255))
    for content in (noise, noise + whole, whole + noise):
        with contextlib.suppress(CalibrationError):
            for note in parse_profile_log(bytes(content), where="log").notes:
                assert note.isprintable()
