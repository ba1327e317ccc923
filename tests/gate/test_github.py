"""Annotations, read back as the runner of GitHub Actions reads them (ActionCommand.cs of actions/runner)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.gate import github
from edgetool.gate.messages import by_severity
from edgetool.report.document import JudgementInfo, Report
from tests.gate.judged import FAILS, PASSES, TOO_LARGE, hostile_reports, judged


@dataclass
class Command:
    name: str
    properties: dict[str, str]
    data: str


def unescaped(text: str, codes: str) -> str:
    return re.sub(f"%(?:{codes})", lambda match: chr(int(match[0][1:], 16)), text)


def commands(output: str) -> list[Command]:
    """Every command that the runner would find: "::name a=b::data" at a line's start, "##[name]" anywhere in it."""
    found = []
    for line in output.splitlines():
        assert not re.search(r"##(vso)?\[", line), line
        match = re.match(r"\s*::(.*?)::(.*)", line)
        if match is None:
            continue
        name, _, given = match[1].partition(" ")
        pairs = [pair.split("=", 1) for pair in given.split(",") if pair]
        properties = {key: unescaped(value, "0D|0A|3A|2C|25") for key, value in pairs}
        found.append(Command(name, properties, unescaped(match[2], "0D|0A|25")))
    return found


def test_failures_are_annotations_on_the_file() -> None:
    output = github.text((FAILS,))
    arena, latency, accuracy, figures = commands(output)
    assert arena.name == "error"
    assert arena.properties == {
        "file": "models/vww_96_int8.tflite",
        "title": "edgetool arena: models/vww_96_int8.tflite on nucleo-l4r5zi",
    }
    assert arena.data.splitlines() == [
        "the arena needs 99,600 B, 34,064 B more than the 65,536 B of sram",
        "cause: 55,296 B: operator 2 CONV_2D output conv/Relu",
        "cause: 4,096 B: operator 7 CONV_2D scratch",
        "suggestion: halve the channels of operator 2",
    ]
    assert [item.name for item in (latency, accuracy, figures)] == ["error", "warning", "notice"]
    assert figures.properties["title"] == "edgetool FAILED: models/vww_96_int8.tflite on nucleo-l4r5zi"
    assert figures.data == (
        "arena 99,600 B of 65,536 B (152 %); flash 333,288 B of 2,097,152 B (15.9 %); max-latency 300 ms of 250 ms "
        "(120 %); active-budget 99,600 B of 65,536 B (152 %); violates_64kib"
    )
    assert output.splitlines()[-3:] == [
        "note: models/vww_96_int8.tflite on nucleo-l4r5zi: over a budget that is tracked",
        "note: models/vww_96_int8.tflite on nucleo-l4r5zi: not checked: clock",
        "edgetool check: 1 of 1 failed",
    ]


def test_a_model_that_passes_has_its_figures_in_a_notice() -> None:
    assert github.text((PASSES,)).splitlines() == [
        "::notice file=models/vww_96_int8.tflite,title=edgetool passed%3A models/vww_96_int8.tflite on nucleo-l4r5zi::"
        "arena 99,600 B of 655,360 B (15.2 %25); flash 333,288 B of 2,097,152 B (15.9 %25); violates_64kib",
        "note: models/vww_96_int8.tflite on nucleo-l4r5zi: not checked: clock",
        "edgetool check: passed",
    ]


def test_a_name_with_commas_and_colons_is_whole() -> None:
    path = "a,b::c=100%/x:1.tflite"
    (command, *_) = commands(github.text((judged(TOO_LARGE, path=path),)))
    assert command.properties["file"] == path
    assert command.name == "error"


def test_a_file_whose_name_does_not_show_is_named_in_the_title_alone() -> None:
    (command, *_) = commands(github.text((judged(TOO_LARGE, path="a\n::add-mask::b"),)))
    assert command.properties == {"title": "edgetool arena: a\\n::add-mask::b on nucleo-l4r5zi"}


def test_older_commands_within_a_line_are_no_commands() -> None:
    hostile = JudgementInfo(
        "arena", False, "error", "tensor ##[add-mask]x ##vso[task.setvariable]y", causes=("##[error]",)
    )
    commands(github.text((judged(hostile, path="##[add-mask]z"),)))


@pytest.mark.slow
@given(st.lists(hostile_reports(), max_size=3))
def test_no_name_makes_a_command(reports: list[Report]) -> None:
    output = github.text(reports)
    found = commands(output)
    items = by_severity(reports)
    loud = [(report, item.level) for report, item in items if item.level != "note"]
    loud += [(report, "notice") for report in reports]
    assert [item.name for item in found] == [level for _, level in loud]
    assert len(output.splitlines()) == len(items) + len(reports) + 1
    for item, (report, _) in zip(found, loud, strict=True):
        assert report.check is not None
        assert item.properties.keys() <= {"file", "title"}
        assert item.properties.get("file", report.check.path) == report.check.path
