from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.gate import markdown
from edgetool.gate.messages import usage_matrix
from edgetool.gate.text import NAME_LENGTH, visible
from edgetool.report.document import LockInfo, Report
from tests.gate.judged import FAILS, FITS, LOCK, PASSES, TOO_LARGE, hostile, hostile_reports, judged, without_target


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_a_row_for_each_model_and_target() -> None:
    header, rule, failing, passing, without = rows(markdown.text((FAILS, PASSES, without_target())))
    assert header == ["Model", "Target", "Verdict", "Arena", "Change", "Model in flash", "Latency", "Budgets"]
    assert set(rule) == {"---"}
    assert failing == [
        "<code>models/vww_96_int8.tflite</code>",
        "nucleo-l4r5zi",
        "**FAILED**: arena, max-latency",
        "97.3 KiB of 64 KiB (152 %)",
        "+4,096 B (+4.29 %)",
        "325 KiB of 2 MiB (15.9 %)",
        "300 ms (270 to 335)",
        "64KiB arena: **violated**",
    ]
    assert passing[2:5] == ["passed", "97.3 KiB of 640 KiB (15.2 %)", "-"]
    assert without[1:] == ["-", "passed", "-", "-", "325 KiB of 2 MiB (15.9 %)", "-", "-"]


def test_several_models_and_targets_get_a_matrix_of_the_memory_used() -> None:
    reports = [
        judged(item, path=path, target=target)
        for path, item in (("a", FITS), ("b", TOO_LARGE))
        for target in ("one", "two")
    ]
    assert [[unescape(cell) for cell in row] for row in rows(markdown.text(reports))[-4:]] == [
        ["Arena (share of SRAM) / model (share of flash)", "one", "two"],
        ["---", "---:", "---:"],
        ["<code>a</code>", "15 % / -", "15 % / -"],
        ["<code>b</code>", "152 % / - **FAIL**", "152 % / - **FAIL**"],
    ]
    assert "Arena of SRAM" not in markdown.text(reports[:2])


@pytest.mark.parametrize(
    ("lock", "shown"),
    [
        (LockInfo("equal"), "none"),
        (LockInfo("missing"), "no lock"),
        (LockInfo("other-target"), "not in the lock file for this target"),
        (LockInfo("changed", (), LOCK.changes[1:]), "none"),
    ],
)
def test_the_lock_without_a_change_of_the_arena(lock: LockInfo, shown: str) -> None:
    assert rows(markdown.text((judged(FITS, lock=lock),)))[2][4] == shown


def test_failures_come_with_causes_and_the_differences_are_folded() -> None:
    text = markdown.text((FAILS,))
    assert text.startswith("### edgetool check: 1 of 1 failed\n\n| Model |")
    assert "- error **arena**: the arena needs 99,600 B, 34,064 B more than the 65,536 B of sram\n" in text
    assert "  - cause: 4,096 B: operator 7 CONV_2D scratch\n" in text
    assert "  - suggestion: halve the channels of operator 2\n" in text
    folded = text.split("<details>")[-1]
    assert folded.startswith("\n<summary>Lock: figures differ</summary>\n\n- changed since the lock file was written: ")
    assert "written: the model file changed\n" in folded
    assert "- <code>arena_bytes</code>: 95,504 B to 99,600 B, +4,096 B (+4.29 %), **beyond the allowance**\n" in folded
    assert "- <code>latency_ms</code>: unknown to 300 ms\n" in folded


def rendered(text: str) -> str:
    """What a reader sees: entities as characters, without the invisible breaks."""
    return unescape(text).replace("\u200b", "")


@given(hostile)
def test_text_renders_as_itself_and_is_no_markup(name: str) -> None:
    made = markdown.escaped(name)
    assert rendered(made) == visible(name)
    assert made.isascii()
    bare = re.sub(r"&#[0-9]+;", "", made)
    assert not set(bare) & set("\\`*{}[]<>|~$^&#\n")
    shown = unescape(made)
    assert not re.search(r"[@#!%]\w|://|www\.|gh-", shown, re.IGNORECASE)


@pytest.mark.slow
@given(st.lists(hostile_reports(), max_size=3))
def test_hostile_names_stay_within_their_cell_and_line(reports: list[Report]) -> None:
    text = markdown.text(reports)
    assert text.isascii()
    shown = rows(text)
    models, targets = matrix_size(reports)
    assert {len(row) for row in shown[: 2 + len(reports)]} == {8}
    assert [len(row) for row in shown[2 + len(reports) :]] == [1 + targets] * (2 + models if models else 0)
    for line in text.splitlines():
        assert re.match(r"(\||#{3,4} |- |  - |</?details>$|<summary>|$)", line), line
    tags = set(re.findall(r"<[^>]*>", text))
    assert tags <= {"<code>", "</code>", "<details>", "</details>", "<summary>", "</summary>", "<br>"}
    assert text.count("<details>") == text.count("</details>")


def matrix_size(reports: Sequence[Report]) -> tuple[int, int]:
    """Models and targets of the matrix of memory used; zeros if there is none."""
    matrix = usage_matrix(reports)
    models, targets = len(matrix.models), len(matrix.targets)
    return (models, targets) if min(models, targets) > 1 else (0, 0)


class Rendered(HTMLParser):
    """The tags of a page, and what its cells show."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag in ("th", "td"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data


@given(st.lists(hostile_reports(), max_size=2))
def test_the_renderer_of_github_finds_no_markup_in_names(reports: list[Report]) -> None:
    cmarkgfm = pytest.importorskip("cmarkgfm")
    page = Rendered()
    page.feed(cmarkgfm.github_flavored_markdown_to_html(markdown.text(reports), 1 << 17))  # as it is with HTML
    ours = "h3 h4 table thead tbody tr th td p ul li strong code details summary br"
    assert page.tags <= set(ours.split())
    models, targets = matrix_size(reports)
    assert len(page.cells) == 8 * (1 + len(reports)) + (1 + models) * (1 + targets) * bool(models)
    for number, report in enumerate(reports, 1):
        assert report.check is not None
        shown = page.cells[8 * number].replace("\u200b", "")
        assert shown.split() == visible(report.check.path, NAME_LENGTH).split()


def test_a_failing_model_with_a_hostile_name() -> None:
    made = rows(markdown.text((judged(TOO_LARGE, path="a|b`<img src=x>@team https://x.example [c](d)"),)))[2]
    assert made[0] == (
        "<code>a&#124;b&#96;&#60;img src=x&#62;@&#8203;team https:&#8203;//x.example &#91;c&#93;(d)</code>"
    )
