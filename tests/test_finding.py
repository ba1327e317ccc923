"""The catalogue of findings: what it guarantees, and that the code and docs/findings.md agree with it.

EDGETOOL_UPDATE_GOLDEN=1 writes the table of docs/findings.md anew.
"""

from __future__ import annotations

import ast
import copy
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.finding import RULES, Finding, Level

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "toolchain" / "edgetool"
PAGE = ROOT / "docs" / "findings.md"
HEADER = "| rule | level | meaning |\n|---|---|---|\n"


def test_the_catalogue_gives_the_level() -> None:
    assert Finding("no-plan", "text").level == "note"
    assert Finding("model-too-large", "text", where="board") == Finding(
        "model-too-large", "text", where="board", level="error"
    )


@pytest.mark.parametrize("level", ["note", "warning"])
def test_a_rule_with_several_levels_leaves_the_choice_to_its_caller(level: Level) -> None:
    finding = Finding("arena-lower-bound", "text", level=level)
    assert finding.level == level
    assert replace(finding, message="other") == Finding("arena-lower-bound", "other", level=level)
    assert copy.copy(finding) == finding


@pytest.mark.parametrize(
    ("rule", "level", "reason"),
    [
        ("no-such-rule", None, "'no-such-rule' is not in the catalogue"),
        ("no-plan", "error", "has the level note, not error"),
        ("arena-lower-bound", None, "has the level note or warning, not None"),
        ("arena-lower-bound", "error", "has the level note or warning, not error"),
    ],
)
def test_a_finding_outside_the_catalogue_is_rejected(rule: str, level: Level | None, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Finding(rule, "text", level=level)


def test_the_catalogue_is_in_order_and_each_meaning_is_a_sentence() -> None:
    assert list(RULES) == sorted(RULES)
    for name, rule in RULES.items():
        assert rule.levels, name
        assert rule.meaning[0].isupper(), name
        assert rule.meaning.endswith("."), name
        assert ". " not in rule.meaning, name


def strings(tree: ast.AST) -> set[str]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def emitted() -> Iterator[tuple[str, str]]:
    """Return the rules that the code creates findings of, each with its module.

    If a module takes a rule from a table, all its strings that name a rule count.
    """
    for path in sorted(SOURCE.rglob("*.py")):
        tree, module = ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(SOURCE))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                rule = node.args[0]
                names = {rule.value} if isinstance(rule, ast.Constant) else strings(tree) & RULES.keys()
                yield from ((str(name), module) for name in names)


def test_the_code_emits_every_rule_of_the_catalogue_and_no_other() -> None:
    found = dict(emitted())
    assert {rule: module for rule, module in found.items() if rule not in RULES} == {}
    assert RULES.keys() - found.keys() == set()


def test_the_page_lists_the_catalogue() -> None:
    rows = (f"| `{name}` | {' or '.join(rule.levels)} | {rule.meaning} |" for name, rule in RULES.items())
    table = "\n".join(rows) + "\n"
    before, header, listed = PAGE.read_text(encoding="utf-8").partition(HEADER)
    assert header, "docs/findings.md has no table of rules"
    if os.environ.get("EDGETOOL_UPDATE_GOLDEN"):
        PAGE.write_text(before + header + table, encoding="utf-8")
        listed = table
    assert listed == table
