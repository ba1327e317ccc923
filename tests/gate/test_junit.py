from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from edgetool.gate import junit
from edgetool.report.document import Report
from tests.gate.judged import FAILS, PASSES, TOO_LARGE, hostile_reports, judged, without_target


def parsed(*reports: Report) -> ElementTree.Element:
    return ElementTree.fromstring(junit.text(reports))


def test_a_case_for_each_judgement() -> None:
    root = parsed(FAILS, PASSES)
    assert root.attrib == {"name": "edgetool check", "tests": "7", "failures": "2", "errors": "0"}
    failing, passing = root
    assert failing.get("name") == "models/vww_96_int8.tflite on nucleo-l4r5zi"
    assert {key: failing.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5", "failures": "2", "errors": "0", "skipped": "1",
    }  # fmt: skip
    outcomes = {case.get("name"): [child.tag for child in case] for case in failing.iter("testcase")}
    assert outcomes == {
        "arena": ["failure"], "flash": ["system-out"], "max-latency": ["failure"], "accuracy": ["skipped"],
        "active-budget": ["system-out"],
    }  # fmt: skip
    assert [child.tag for child in passing] == ["properties", "testcase", "testcase", "system-out"]


def test_a_failure_contains_causes_and_advice() -> None:
    failure = parsed(FAILS).find("testsuite/testcase/failure")
    assert failure is not None
    assert failure.get("type") == "arena"
    assert failure.text is not None
    assert failure.text.splitlines()[0] == failure.get("message")
    assert "cause: 4,096 B: operator 7 CONV_2D scratch" in failure.text.splitlines()
    assert "suggestion: halve the channels of operator 2" in failure.text.splitlines()


def test_figures_are_properties() -> None:
    figures = {item.get("name"): item.get("value") for item in parsed(FAILS).iter("property")}
    assert (figures["arena_bytes"], figures["model_bytes"], figures["latency_ms"]) == ("99600", "333288", "300")
    assert figures["violates_64kib"] == "true"
    names = {item.get("name") for item in parsed(without_target()).iter("property")}
    assert names == {"model", "sha256", "tool", "model_bytes", "violates_64kib"}


def test_cases_of_one_rule_have_names_of_their_own() -> None:
    names = [case.get("name") for case in parsed(judged(TOO_LARGE, TOO_LARGE)).iter("testcase")]
    assert names == ["arena", "arena 2"]


@given(st.lists(hostile_reports(), max_size=3))
def test_hostile_names_stay_within_their_element(reports: list[Report]) -> None:
    text = junit.text(reports)
    assert text.isascii()
    root = ElementTree.fromstring(text)
    assert len(root) == len(reports)
    for suite, report in zip(root, reports, strict=True):
        assert report.check is not None
        cases = suite.findall("testcase")
        assert len(cases) == len(report.check.judgements) == int(suite.attrib["tests"])
        assert sum(case.find("failure") is not None for case in cases) == int(suite.attrib["failures"])
        assert {child.tag for child in suite} <= {"properties", "testcase", "system-out"}
