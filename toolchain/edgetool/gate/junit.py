"""The judgement as JUnit XML, as defined by pytest's junit-10.xsd.

It has a suite for each model and target, and a case for each judgement. It contains no times, so that the same models
result in the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

from edgetool.gate.messages import finding_messages, gate_of, is_annotated, message_lines, subject
from edgetool.gate.text import visible
from edgetool.report.document import JudgementInfo, Report


def text(reports: Sequence[Report]) -> str:
    """Return the XML document in ASCII."""
    root = ElementTree.Element("testsuites", name="edgetool check")
    root.extend([_suite(report) for report in reports])
    for total in ("tests", "failures", "errors"):
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in root)))
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="us-ascii", xml_declaration=False).decode("ascii")
    body = body.replace("##", "#&#35;")  # CI runners take it for the beginning of a command anywhere in a line
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _suite(report: Report) -> ElementTree.Element:
    gate = gate_of(report)
    suite = ElementTree.Element("testsuite", name=subject(report))
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in _figures(report).items():
        ElementTree.SubElement(properties, "property", name=name, value=visible(value))
    seen: Counter[str] = Counter()
    for item in gate.judgements:
        seen[item.rule] += 1
        name = item.rule if seen[item.rule] == 1 else f"{item.rule} {seen[item.rule]}"
        case = ElementTree.SubElement(suite, "testcase", classname=subject(report), name=visible(name))
        _outcome(case, item)
    findings = [f"{item.level}: {visible(item.message)}" for item in finding_messages(report) if is_annotated(item)]
    if findings:
        ElementTree.SubElement(suite, "system-out").text = "\n".join(findings)
    suite.set("tests", str(len(gate.judgements)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", "0")
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    return suite


def _outcome(case: ElementTree.Element, item: JudgementInfo) -> None:
    """Add a failure for a judgement that rejects the model; a case with a warning or a note passes and prints it."""
    if item.passed is None:
        ElementTree.SubElement(case, "skipped", type=visible(item.rule), message=visible(item.message))
    elif not item.passed and item.level == "error":
        failure = ElementTree.SubElement(case, "failure", type=visible(item.rule), message=visible(item.message))
        failure.text = "\n".join(message_lines(item))
    else:
        ElementTree.SubElement(case, "system-out").text = "\n".join(message_lines(item))


def _figures(report: Report) -> dict[str, str]:
    """Return the file, the target and the judged figures, by the names of the properties."""
    gate = gate_of(report)
    figures = {"model": gate.path, "sha256": report.model.sha256, "tool": report.provenance.tool}
    if report.target is not None:
        figures |= {"target": report.target.name, "runtime": report.target.runtime, "kernels": report.target.kernels}
    if report.arena is not None and report.arena.bytes is not None:
        figures["arena_bytes"] = str(report.arena.bytes)
    figures["model_bytes"] = str(report.model.bytes)
    if report.estimate is not None and report.estimate.latency_ms is not None:
        figures["latency_ms"] = f"{report.estimate.latency_ms.value:.6g}"
    figures |= {
        name: "unknown" if violated is None else str(violated).lower() for name, violated in gate.violations.items()
    }
    return figures
