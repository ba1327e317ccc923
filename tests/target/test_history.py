"""Earlier versions of TFLM are the newest profile, less the changes that came later."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

import pytest

from edgetool.errors import TargetError
from edgetool.target.history import earlier_profile, later_changes, load_changes, parse_changes
from edgetool.target.load import DEFAULT_RUNTIME, list_runtimes, load_core, load_runtime
from edgetool.target.platform import make_platform
from edgetool.target.tables import profile_document

CODE = Path(__file__).parents[2] / "toolchain" / "edgetool"
SNAPSHOTS = [name for name in list_runtimes() if load_runtime(name).newest]
CHANGE = """
[[change]]
name = "wider"
library = "tflm"
commit = "abc"
date = "2025-05-05"
effect = "A is wider, and B was added"
operators = ["B"]
fixed = ["old-fault"]
introduced = ["new-fault"]

[change.before.structs]
A = "i8"

[change.before.op_data.cmsis-nn]
C = "absent"
"""
NEWEST = {
    "name": "newest",
    "faults": ["new-fault"],
    "linked_by": ["somebody"],
    "resolver": {"A": "AddA", "B": "AddB"},
    "structs": {"A": "i32", "Z": "A*2"},
    "op_data": {"reference": {"A": "A", "B": ""}, "cmsis-nn": {"C": "i32"}},
    "limit": [{"operator": "B"}, {"operator": "A"}],
    "tflm": {"date": "2026-01-01"},
    "cmsis_nn": {"date": "2026-01-01"},
}


def snapshot(date: str) -> dict[str, object]:
    return {"name": "old", "newest": "newest", "tflm": {"date": date}, "cmsis_nn": {"date": "2026-01-01"}}


def test_a_profile_from_before_a_change_has_what_it_replaced() -> None:
    old = snapshot("2025-05-04")
    (change,) = later_changes(old, parse_changes(CHANGE))
    assert earlier_profile(old, NEWEST, [change]) == {
        "name": "old",
        "faults": ["old-fault"],
        "resolver": {"A": "AddA"},
        "structs": {"A": "i8", "Z": "A*2"},
        "op_data": {"reference": {"A": "A"}, "cmsis-nn": {}},
        "limit": [{"operator": "A"}],
        "registration": [],
        "rank_limit": [],
        "tflm": {"date": "2025-05-04"},
        "cmsis_nn": {"date": "2026-01-01"},
    }
    assert list(earlier_profile(old, NEWEST, [change])["structs"]) == ["A", "Z"]  # Z is made of A
    assert NEWEST["structs"] == {"A": "i32", "Z": "A*2"}


def test_a_snapshot_of_the_day_of_a_change_has_it() -> None:
    assert later_changes(snapshot("2025-05-05"), parse_changes(CHANGE)) == ()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (CHANGE + CHANGE, "change.wider: is listed twice"),
        (CHANGE.replace('"tflm"', '"gcc"'), "is not one of tflm, cmsis_nn"),
        (CHANGE.replace("effect", "affect"), "effect: is missing"),
    ],
)
def test_a_wrong_change_is_reported_with_its_key(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        parse_changes(text)


def test_every_snapshot_describes_the_cores_of_the_newest() -> None:
    assert len(SNAPSHOTS) >= 9
    newest = load_runtime(DEFAULT_RUNTIME)
    for name in SNAPSHOTS:
        runtime = load_runtime(name)
        assert runtime.name == name
        assert runtime.tflm_date <= f"{name.removeprefix('esp-').removeprefix('tflm-')}-31"
        assert len(runtime.tflm_commit) == len(runtime.cmsis_nn_commit) == 40
        assert set(runtime.operators) <= set(newest.operators)
        core = load_core("cortex-m7")
        assert (
            make_platform(runtime, core.abi, "cmsis-nn").structs.keys()
            == make_platform(newest, core.abi, "cmsis-nn").structs.keys()
        )
    assert newest.missing == ()


def test_the_versions_differ_as_their_dates_say() -> None:
    by_age = sorted((load_runtime(name) for name in SNAPSHOTS), key=lambda runtime: runtime.tflm_date)
    for older, newer in pairwise(by_age):
        assert set(newer.missing) <= set(older.missing), newer.name


def test_rules_and_changes_name_each_other() -> None:
    asked = set()
    for path in (CODE / "operators").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "has":
                asked |= {item.value for item in node.args if isinstance(item, ast.Constant)}
    changes = {change.name: change for change in load_changes()}
    assert asked <= changes.keys()
    silent = {
        name
        for name, change in changes.items()
        if not (change.operators or change.registrations or change.fixed or change.introduced or change.before)
    }
    assert silent <= asked


def test_a_snapshot_is_only_commits_and_dates() -> None:
    for name in SNAPSHOTS:
        assert profile_document("runtimes", name).keys() <= {
            *("name", "description", "newest", "tflm", "cmsis_nn", "esp_nn", "linked_by", "source")
        }


def test_an_unknown_runtime_is_answered_with_the_nearest() -> None:
    with pytest.raises(TargetError) as error:
        load_runtime("tflm-2025-6")
    assert error.value.fix is not None
    assert "did you mean 'tflm-2025-06'?" in error.value.fix
