"""The lock file reads back as written, and whatever else is refused by its line or key."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.gate.lock_file import LockContents, LockEntry, Reached, lock_text, parse_lock
from tests.gate.breakdowns import breakdown, breakdowns
from tests.model.builders import residual_model

SIZES = st.none() | st.integers(0, 10**12)
FIGURES = st.fixed_dictionaries(
    {"arena_bytes": SIZES, "model_bytes": SIZES},
    optional={"head_bytes": SIZES, "macs": SIZES, "latency_ms": st.none() | st.floats(0, 1e12, allow_nan=False)},
)


def entries() -> st.SearchStrategy[LockEntry]:
    return st.builds(
        LockEntry,
        sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
        kernels=st.sampled_from(["cmsis-nn", "reference"]),
        versions=st.fixed_dictionaries(
            {
                "edgetool": st.text(max_size=8),
                "converter": st.none() | st.text(max_size=8),
                "runtime": st.text(max_size=8),
                "profile": st.text(max_size=8),
            }
        ),
        figures=FIGURES,
        breakdown=st.none() | breakdowns(),
        reached=st.none()
        | st.builds(
            Reached,
            planner=st.sampled_from(["tflm", "plan", "tensors", "rows"]),
            overlaps=st.integers(0, 99),
            regions=st.lists(st.text(max_size=8), max_size=2).map(tuple),
            extra_macs=st.integers(0, 10**12),
            optimized=st.booleans(),
        ),
    )


@given(st.dictionaries(st.text(max_size=8), st.dictionaries(st.text(max_size=8), entries(), max_size=2), max_size=2))
def test_a_lock_reads_back_equal(lock: LockContents) -> None:
    text = lock_text(lock)
    assert text.isascii()
    assert "\r" not in text
    assert parse_lock(text, where="x") == lock
    assert lock_text(parse_lock(text, where="x")) == text


def whole() -> LockEntry:
    versions = {"edgetool": "1", "converter": None, "runtime": "r", "profile": "p"}
    figures = {"arena_bytes": 1, "latency_ms": 1.5, "macs": 7, "model_bytes": 2}
    return LockEntry("0" * 64, "cmsis-nn", versions, figures, breakdown(residual_model()))


def test_one_figure_and_one_operator_a_line_and_sorted() -> None:
    text = lock_text({"b.tflite": {"t": whole()}, "a.tflite": {"t": whole()}})
    lines = [line.strip() for line in text.splitlines()]
    assert '"arena_bytes": 1,' in lines
    assert sum(line.startswith('"0007 SOFTMAX": {') for line in lines) == 2
    assert text.index('"a.tflite"') < text.index('"b.tflite"')
    assert text.endswith("}\n")


def document() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(lock_text({"m": {"t": whole()}}))
    return made


def altered(*path: str, value: object) -> str:
    changed = document()
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    if value is KeyError:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(changed)


AT = ("entries", "m", "t")


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("", "line 1", "not valid JSON"),
        ("{\n1", "line 2", "not valid JSON"),
        ("[]", "", "no schema"),
        ("{}", "", "no schema"),
        ("null", "", "no schema"),
        ('{"schema": "edgetool/1"}', "schema", "not an edgetool lock file"),
        ('{"schema": 1}', "schema", "not an edgetool lock file"),
        ('{"schema": "edgetool-lock/2", "entries": {}}', "", "this version supports edgetool-lock/1"),
        ('{"schema": "edgetool-lock/1"}', "entries", "is missing"),
        ('{"schema": "edgetool-lock/1", "entries": {}, "entries": {}}', "", '"entries" twice'),
        ('{"schema": "edgetool-lock/1", "entries": NaN}', "", "NaN"),
        ("[" * 100_000, "", "nested too deeply"),
        ("[" + "[]," * 1_000_000, "", "more than 2,000,000 values"),
        ("{" + "".join(f'"{i}": 0, ' for i in range(100_000)) + '"z": 0, "z": 0}', "", '"z" twice'),
        ('{"schema": "edgetool-lock/1", "entries": {"a": ' + "9" * 5000 + "}}", "", "thousands of digits"),
        (altered("more", value=1), "more", "unknown key"),
        (altered(*AT, value=[]), "entries.m.t", "not an object"),
        (altered(*AT, "sha256", value=KeyError), "entries.m.t.sha256", "is missing"),
        (altered(*AT, "sha256", value=7), "entries.m.t.sha256", "not a string"),
        (altered(*AT, "head", value=KeyError), "entries.m.t.head", "is missing"),
        (altered(*AT, "versions", "runtime", value=None), "entries.m.t.versions.runtime", "not a string"),
        (altered(*AT, "figures", "macs", value="1"), "entries.m.t.figures.macs", "not a valid number"),
        (altered(*AT, "figures", "macs", value=True), "entries.m.t.figures.macs", "not a valid number"),
        (altered(*AT, "figures", "macs", value=1e300), "entries.m.t.figures.macs", "not a valid number"),
        (altered(*AT, "figures", "macs", value=-1), "entries.m.t.figures.macs", "not a valid number"),
        (altered(*AT, "figures", "model_bytes", value=1.5), "entries.m.t.figures.model_bytes", "integer number"),
        (
            altered(*AT, "figures", "latency_ms2", value=1),
            "entries.m.t.figures.latency_ms2",
            "not a figure that edgetool knows",
        ),
        (altered(*AT, "figures", "arena_bytes", value=KeyError), "entries.m.t.figures.arena_bytes", "is missing"),
        (altered(*AT, "figures", value={}), "entries.m.t.figures.arena_bytes", "is missing"),
        (altered(*AT, "peak", "bytes", value=-1), "entries.m.t.peak.bytes", "integer number"),
        (altered(*AT, "peak", "bytes", value=1.5), "entries.m.t.peak.bytes", "integer number"),
        (altered(*AT, "peak", "busiest", value="CONV_2D"), "entries.m.t.peak.busiest", "not an operator such as"),
        (altered(*AT, "peak", "busiest", value="\u0663 A"), "entries.m.t.peak.busiest", "not an operator such as"),
        (altered(*AT, "head", "else", value=1), "entries.m.t.head.else", "neither"),
        (altered(*AT, "operators", "x", value={}), "entries.m.t.operators.x", "not an operator such as"),
        (altered(*AT, "operators", "0000 A", value={"heap": 1}), "entries.m.t.operators.0000 A.heap", "unknown key"),
        (altered(*AT, "operators", "00007 SOFTMAX", value={}), "entries.m.t.operators", "twice"),
    ],
)
def test_an_invalid_lock_file_is_reported_with_its_location(text: str, where: str, what: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_lock(text, where="edgetool.lock")
    assert raised.value.where == ("edgetool.lock" if not where else f"edgetool.lock: {where}")
    assert what in raised.value.what
    assert raised.value.fix is not None
    assert len(raised.value.what) < 300


def test_an_unresolved_merge_conflict_is_reported() -> None:
    text = lock_text({}).replace('"entries": {}', '<<<<<<< HEAD\n"entries": {}\n=======\n>>>>>>> other')
    with pytest.raises(UsageError) as raised:
        parse_lock(text, where="edgetool.lock")
    assert "accept either side of the merge" in str(raised.value.fix)


@given(st.integers(0, 10**6), st.binary(max_size=3))
def test_a_damaged_lock_is_read_or_refused(place: int, junk: bytes) -> None:
    text = json.dumps(document())
    place %= len(text)
    damaged = text[:place] + junk.decode("latin-1") + text[place + 1 :]
    with contextlib.suppress(UsageError):
        assert parse_lock(lock_text(parse_lock(damaged, where="x")), where="y") == parse_lock(damaged, where="x")


def test_a_long_key_is_not_reported_in_full() -> None:
    with pytest.raises(UsageError) as raised:
        parse_lock(altered(*AT, "figures", "x" * 10**6, value=True), where="edgetool.lock")
    assert len(str(raised.value)) < 500
