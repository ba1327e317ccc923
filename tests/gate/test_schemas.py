"""The forms against the schemas of those who read them, which `make schemas` takes out of their packages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.gate import junit, sarif
from edgetool.report.document import Report
from tests.conftest import examples
from tests.gate.judged import FAILS, PASSES, hostile_reports, without_target

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / ".venv" / "schemas"
REPORTS = [(), (PASSES,), (FAILS, PASSES, without_target())]
# Files of ours and of the examples, and the schema that check-jsonschema has for each.
WORKFLOWS = sorted([*ROOT.glob(".github/workflows/*.yml"), *ROOT.glob("examples/**/*.yml")])
FILES = {ROOT / "action.yml": "github-actions"} | dict.fromkeys(WORKFLOWS, "github-workflows")


def schema(name: str) -> Path:
    path = SCHEMAS / name
    if not path.is_file():
        pytest.skip(f"needs {name}: make schemas")
    return path


@pytest.fixture(scope="module")
def junit_schema() -> Any:
    xmlschema = pytest.importorskip("xmlschema")
    return xmlschema.XMLSchema(str(schema("junit-10.xsd")))


@pytest.fixture(scope="module")
def sarif_schema() -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    content = json.loads(schema("sarif-2.1.0.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(content, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


@pytest.mark.parametrize("reports", REPORTS, ids=len)
def test_junit_is_as_pytest_has_it(junit_schema: Any, reports: tuple[Report, ...]) -> None:
    junit_schema.validate(junit.text(reports))


@given(reports=st.lists(hostile_reports(), max_size=2))
@examples(30)
def test_junit_of_hostile_names(junit_schema: Any, reports: list[Report]) -> None:
    junit_schema.validate(junit.text(reports))


def test_the_schema_of_junit_rejects_invalid_files(junit_schema: Any) -> None:
    assert not junit_schema.is_valid(junit.text((FAILS,)).replace('tests="5"', ""))


@pytest.mark.parametrize("reports", REPORTS, ids=len)
def test_sarif_is_as_its_schema_has_it(sarif_schema: Any, reports: tuple[Report, ...]) -> None:
    sarif_schema.validate(json.loads(sarif.text(reports)))


@given(reports=st.lists(hostile_reports(), max_size=2))
@examples(30)
def test_sarif_of_hostile_names(sarif_schema: Any, reports: list[Report]) -> None:
    sarif_schema.validate(json.loads(sarif.text(reports)))


def test_the_schema_of_sarif_rejects_invalid_files(sarif_schema: Any) -> None:
    assert not sarif_schema.is_valid(json.loads(sarif.text((FAILS,)).replace('"ruleId"', '"rule"')))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_of_github_are_as_its_schemas_have_them(path: Path) -> None:
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{FILES[path]}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_hook_is_as_pre_commit_has_it() -> None:
    clientlib = pytest.importorskip("pre_commit.clientlib")
    (hook,) = clientlib.load_manifest(str(ROOT / ".pre-commit-hooks.yaml"))
    assert (hook["id"], hook["entry"], hook["pass_filenames"]) == ("edgetool-check", "edgetool check", True)
