"""The judgement as SARIF 2.1.0.

GitHub's code scanning needs a file, a line and a fingerprint for each result; the fingerprint does not depend on the
figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from edgetool.gate.messages import by_severity, device, gate_of, message_lines, requirement
from edgetool.gate.text import sentence, visible
from edgetool.report.document import JudgementInfo, Report
from edgetool.report.json import to_json

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"  # the repository, in code scanning


def text(reports: Sequence[Report]) -> str:
    """Return the log as JSON text: one run with a result for each message of any model."""
    items = by_severity(reports)
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
    numbers = {name: value for name, value in figures.items() if value is not None}
    return {
        "ruleId": visible(item.rule),
        "ruleIndex": rules.index(visible(item.rule)),
        "level": item.level,
        "message": {
            "text": _unlinked(sentence((f"On {_target(report)}: {message_lines(item)[0]}", *message_lines(item)[1:])))
        },
        "locations": [
            {"physicalLocation": {"artifactLocation": _artifact(gate_of(report).path), "region": {"startLine": 1}}}
        ],
        "partialFingerprints": {"primaryLocationLineHash": fingerprint},
        "properties": {"target": _target(report), **numbers},
    }


def _rule(rule: str) -> dict[str, Any]:
    described = {"text": requirement(rule)}
    return {"id": rule, "shortDescription": described, "fullDescription": described, "help": described}


def _target(report: Report) -> str:
    return visible(device(report)) or "no target"


def _artifact(path: str) -> dict[str, str]:
    """Return a relative path below the root, or the URI of an absolute path."""
    uri = quote(path.encode("utf-8", "surrogateescape"))
    return {"uri": f"file://{uri}"} if path.startswith("/") else {"uri": uri, "uriBaseId": ROOT}


def _fingerprint(parts: tuple[str, ...]) -> str:
    """Return a hash of what is judged, without the figures: an alert keeps its identity while its model grows."""
    return sha256(ascii(parts).encode("ascii")).hexdigest()[:16] + ":1"


def _unlinked(message: str) -> str:
    """Break the links that a SARIF message can contain: [text](target)."""
    return message.replace("](", "] (")
