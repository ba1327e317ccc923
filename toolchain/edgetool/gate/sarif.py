"""The judgement as SARIF 2.1.0, with what GitHub's code scanning needs: a file, a line and a fingerprint that does not
change with the figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from edgetool.gate.plain import sentence, visible
from edgetool.gate.said import asked, by_gravity, gate_of, told
from edgetool.report.document import JudgementInfo, Report
from edgetool.report.json import to_json

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"  # what code scanning takes for the repository


def text(reports: Sequence[Report]) -> str:
    """The log as JSON text: one run, a result for each thing said of any model."""
    items = by_gravity(reports)
    rules = sorted({visible(item.rule) for _, item in items})
    seen: Counter[tuple[str, ...]] = Counter()
    results = []
    for report, item in items:
        same = (gate_of(report).path, _target(report), item.rule)
        seen[same] += 1
        results.append(_result(report, item, rules, _fingerprint((*same, str(seen[same])))))
    driver: dict[str, Any] = {"name": "edgetool", "rules": [_rule(rule) for rule in rules]}
    if reports:
        driver["version"] = visible(reports[0].provenance.tool.rpartition(" ")[2])
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": "edgetool check/"},
        "originalUriBaseIds": {ROOT: {"description": {"text": "The directory in which edgetool ran."}}},
        "results": results,
    }
    return to_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _result(report: Report, item: JudgementInfo, rules: list[str], fingerprint: str) -> dict[str, Any]:
    figures = {"value": item.value, "limit": item.limit, "over": item.over, "unit": item.unit}
    known = {name: value for name, value in figures.items() if value is not None}
    return {
        "ruleId": visible(item.rule),
        "ruleIndex": rules.index(visible(item.rule)),
        "level": item.level,
        "message": {"text": _unlinked(sentence((f"On {_target(report)}: {told(item)[0]}", *told(item)[1:])))},
        "locations": [
            {"physicalLocation": {"artifactLocation": _artifact(gate_of(report).path), "region": {"startLine": 1}}}
        ],
        "partialFingerprints": {"primaryLocationLineHash": fingerprint},
        "properties": {"target": _target(report), **known},
    }


def _rule(rule: str) -> dict[str, Any]:
    described = {"text": asked(rule)}
    return {"id": rule, "shortDescription": described, "fullDescription": described, "help": described}


def _target(report: Report) -> str:
    return "no target" if report.target is None else visible(report.target.name)


def _artifact(path: str) -> dict[str, str]:
    """A relative path below the root, an absolute one as a URI of its own."""
    uri = quote(path.encode("utf-8", "surrogateescape"))
    return {"uri": f"file://{uri}"} if path.startswith("/") else {"uri": uri, "uriBaseId": ROOT}


def _fingerprint(parts: tuple[str, ...]) -> str:
    """Of what is judged and not of the figures: an alert stays the same one while its model grows."""
    return sha256(ascii(parts).encode("ascii")).hexdigest()[:16] + ":1"


def _unlinked(message: str) -> str:
    """Without the links that a SARIF message can hold: [text](target)."""
    return message.replace("](", "] (")
