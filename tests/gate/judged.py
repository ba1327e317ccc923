"""Judged reports as values, for the forms of the judgement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from edgetool.report.document import (
    BudgetInfo,
    ChangeInfo,
    FindingInfo,
    GateInfo,
    JudgementInfo,
    LockInfo,
    MemoryInfo,
    Report,
    TargetInfo,
)
from tests.cli.estimates import report

FITS = JudgementInfo("arena", True, "error", "the arena fits", 99_600, 655_360, None, "B")
TOO_LARGE = JudgementInfo(
    "arena",
    False,
    "error",
    "the arena needs 99,600 B, 34,064 B more than the 65,536 B of sram",
    99_600,
    65_536,
    34_064,
    "B",
    ("55,296 B: operator 2 CONV_2D output conv/Relu", "4,096 B: operator 7 CONV_2D scratch"),
    ("halve the channels of operator 2",),
)
MODEL_FITS = JudgementInfo("flash", True, "error", "the model fits", 333_288, 2**21, None, "B")
TOO_SLOW = JudgementInfo("max-latency", False, "error", "300 ms, over 250 ms", 300.0, 250.0, 50.0, "ms")
UNKNOWN = JudgementInfo("accuracy", None, "error", "the report tells no accuracy")
TRACKED = JudgementInfo("active-budget", False, "note", "over a budget that is tracked", 99_600, 65_536, 34_064, "B")
LOCK = LockInfo(
    "changed",
    ("the model file changed",),
    (
        ChangeInfo("arena_bytes", "B", 95_504, 99_600, False, ("+4,096 B: operator 7 CONV_2D scratch",)),
        ChangeInfo("latency_ms", "ms", None, 300.0, True),
    ),
)


def judged(
    *judgements: JudgementInfo,
    passed: bool | None = None,
    path: str = "models/vww_96_int8.tflite",
    lock: LockInfo | None = None,
    target: str = "nucleo-l4r5zi",
    **changes: Any,
) -> Report:
    """A report that fails when a judgement of level error does."""
    failed = any(item.passed is False and item.level == "error" for item in judgements)
    gate = GateInfo(not failed if passed is None else passed, path, judgements, {"violates_64kib": True}, lock)
    budgets = (BudgetInfo("64KiB", 65_536, True, "arena", "violates_64kib"),)
    memory = MemoryInfo("sram", 655_360, 2**21, True, True, budgets)
    return replace(report(name=target), check=gate, **{"memory": memory, **changes})


PASSES = judged(FITS, MODEL_FITS)
FAILS = judged(TOO_LARGE, MODEL_FITS, TOO_SLOW, UNKNOWN, TRACKED, lock=LOCK)

# Pieces that mean something to one form or another, and characters that no form likes.
PIECES = (
    "\n", "\r", "\r\n", "::", "::error::", "::add-mask::x", "::set-output name=a::b", "##[add-mask]x", "##vso[task]",
    "%0A", "%", ":", ",", "|", "\\|", "`", "```", "<b>", "</details>", "<!--", "-->", "]]>", "&amp;", "&#64;", "@user",
    "@", "#1", "org/repo#2", "https://example.com", "www.example.com", "a@example.com", "[a](b)", "![a](b)", "](", "**",
    "_a_", "~~", "$x$", "\x00", "\x1b[31m", "\x85", "\u2028", "\u202e", "\ufeff", "\ufffe", "\uffff", "\U0001fffe",
    "日本", "é", "'", '"', "/", "..", " ", "- ", "1. ", "gh-1", "{0}", "a" * 400,
)  # fmt: skip
hostile = st.one_of(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), st.text(max_size=20))
numbers = st.one_of(st.none(), st.integers(-(2**40), 2**40), st.floats(-1e9, 1e9))
levels = st.sampled_from(["error", "warning", "note"])
judgements = st.builds(
    JudgementInfo, hostile, st.sampled_from([True, False, None]), levels, hostile, numbers, numbers, numbers,
    st.sampled_from([None, "B", "ms", "%"]), st.lists(hostile, max_size=2).map(tuple),
    st.lists(hostile, max_size=2).map(tuple),
)  # fmt: skip
changes = st.builds(
    ChangeInfo, hostile, st.sampled_from(["B", "ms"]), numbers, numbers, st.booleans(),
    st.lists(hostile, max_size=2).map(tuple),
)  # fmt: skip
locks = st.builds(
    LockInfo,
    st.sampled_from(["equal", "changed", "missing", "not-in-lock", "other-target", "updated"]),
    st.lists(hostile, max_size=2).map(tuple),
    st.lists(changes, max_size=2).map(tuple),
)


@st.composite
def hostile_reports(draw: st.DrawFn) -> Report:
    """A report in which every text is hostile."""
    return judged(
        *draw(st.lists(judgements, max_size=4)),
        path=draw(hostile),
        lock=draw(st.one_of(st.none(), locks)),
        target=draw(hostile),
        findings=tuple(draw(st.lists(st.builds(FindingInfo, hostile, levels, hostile, hostile), max_size=2))),
        memory=MemoryInfo(draw(hostile), 1, 1, True, True, (BudgetInfo(draw(hostile), 1, True, "ram", draw(hostile)),)),
    )


def without_target() -> Report:
    """A report for no device."""
    return replace(PASSES, target=None, estimate=None, memory=None, arena=None)


def on(name: str) -> TargetInfo:
    """A target of that name."""
    return TargetInfo(name, "cortex-m4", None, "tflm-2026-08", "cmsis-nn")
