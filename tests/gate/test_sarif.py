from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from hypothesis import given
from hypothesis import strategies as st

from edgetool.gate import sarif
from edgetool.gate.messages import REQUIREMENTS, by_severity
from edgetool.report.document import Report
from tests.gate.judged import FAILS, PASSES, TOO_LARGE, hostile_reports, judged, without_target


def run(*reports: Report) -> Any:
    (only,) = json.loads(sarif.text(reports))["runs"]
    return only


def test_a_result_is_what_code_scanning_shows() -> None:
    made = run(FAILS)
    arena = made["results"][0]
    assert (arena["ruleId"], arena["level"]) == ("arena", "error")
    assert arena["message"]["text"].startswith("On nucleo-l4r5zi: the arena needs 99,600 B, 34,064 B more")
    assert "suggestion: halve the channels" in arena["message"]["text"]
    assert arena["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "models/vww_96_int8.tflite", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 1},
    }
    assert arena["properties"] == {
        "target": "nucleo-l4r5zi", "value": 99_600, "limit": 65_536, "over": 34_064, "unit": "B",
    }  # fmt: skip
    assert [result["level"] for result in made["results"]] == ["error", "error", "warning", "note", "note"]
    driver = made["tool"]["driver"]
    assert driver["rules"][arena["ruleIndex"]]["id"] == "arena"
    assert all(driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] for result in made["results"])
    assert driver["rules"][arena["ruleIndex"]]["help"]["text"] == REQUIREMENTS["arena"]


def test_an_alert_stays_the_same_one_while_its_model_grows() -> None:
    def prints(*reports: Report) -> list[str]:
        return [result["partialFingerprints"]["primaryLocationLineHash"] for result in run(*reports)["results"]]

    before, after = judged(TOO_LARGE), judged(replace(TOO_LARGE, value=100_000, message="another number"))
    assert prints(before) == prints(after)
    others = judged(TOO_LARGE, target="b"), judged(TOO_LARGE, path="c"), judged(TOO_LARGE, TOO_LARGE, path="d")
    assert len(set(prints(before, *others))) == len(prints(before, *others)) == 9


def test_paths_are_relative_uris_or_whole_ones() -> None:
    def uri(path: str) -> dict[str, str]:
        location: dict[str, str] = run(judged(TOO_LARGE, path=path))["results"][0]["locations"][0]["physicalLocation"][
            "artifactLocation"
        ]
        return location

    assert uri("a b/c:d%.tflite") == {"uri": "a%20b/c%3Ad%25.tflite", "uriBaseId": "%SRCROOT%"}
    assert uri("/tmp/m.tflite") == {"uri": "file:///tmp/m.tflite"}
    assert uri("\udcff.tflite")["uri"] == "%FF.tflite"


def test_a_model_that_passes_has_no_errors() -> None:
    assert {result["level"] for result in run(PASSES)["results"]} == {"note"}
    assert run()["results"] == []
    assert run(without_target())["results"][0]["properties"] == {"target": "no target"}


@given(st.lists(hostile_reports(), max_size=3))
def test_hostile_names_stay_within_their_strings(reports: list[Report]) -> None:
    made = run(*reports)
    items = by_severity(reports)
    assert len(made["results"]) == len(items)
    for result, (report, item) in zip(made["results"], items, strict=True):
        assert report.check is not None
        assert result["level"] == item.level
        assert "](" not in result["message"]["text"]
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert uri.isascii()
        assert unquote(uri.removeprefix("file://")) == report.check.path
    prints = {result["partialFingerprints"]["primaryLocationLineHash"] for result in made["results"]}
    assert len(prints) == len(items)
