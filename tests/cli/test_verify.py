"""edgetool verify as a user meets it, and its view."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import click
import pytest

from edgetool.cli.verify import verify_view
from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.writer import write_model
from edgetool.report.document import (
    CheckInfo,
    DifferenceInfo,
    HostArena,
    ModelInfo,
    OutputDistance,
    Provenance,
    Report,
    RuntimeInfo,
    SampleInfo,
    TargetInfo,
    VerifiedFile,
    VerifyInfo,
)
from tests.cli import program
from tests.model.builders import add_model, conv_model_bytes


def edgetool(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return program.edgetool(*arguments, cwd=cwd, COLUMNS="100")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good model, and one whose plan lays its two inputs 16 bytes over each other."""
    pytest.importorskip("tflite_micro")
    (tmp_path / "good.tflite").write_bytes(conv_model_bytes())
    model = add_model()
    payload = encode_plan(model, {(0, 0): 0, (0, 1): 16, (0, 2): 48})
    (tmp_path / "bad.tflite").write_bytes(write_model(with_metadata(model, METADATA_NAME, payload)))
    return tmp_path


def test_a_good_model(folder: Path) -> None:
    shown = edgetool("verify", "good.tflite", "--samples", "2", cwd=folder)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "Verified    yes" in shown.stdout
    assert "2 consecutive samples: all outputs are bit-identical" in shown.stdout
    quiet = edgetool("verify", "good.tflite", "--samples", "2", "-q", cwd=folder)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


@pytest.mark.slow
def test_the_document_has_a_section(folder: Path) -> None:
    printed = edgetool("verify", "good.tflite", "--seed", "3", "--target", "cortex-m7", "--json", cwd=folder)
    assert (printed.returncode, printed.stderr) == (0, "")
    document = json.loads(printed.stdout)
    assert document["schema"] == "edgetool/1"
    assert document["target"]["core"] == "cortex-m7"
    assert document["provenance"]["options"]["command"] == "verify"
    section = document["verify"]
    assert section["passed"] is True
    assert section["samples"] == {"random": 8, "seed": 3, "from_file": 0}
    assert [check["passed"] for check in section["checks"]] == [True] * 5
    assert section["arena"]["used_bytes"] == section["arena"]["predicted_used_bytes"]
    assert section["runtimes"][0]["runtime"] == "LiteRT"
    written = edgetool("verify", "good.tflite", "-o", "out.json", "--seed", "3", "-t", "cortex-m7", cwd=folder)
    assert (written.returncode, written.stdout) == (0, "")
    assert json.loads((folder / "out.json").read_text()) == document


def test_a_plan_that_the_checker_refuses(folder: Path) -> None:
    refused = edgetool("verify", "bad.tflite", cwd=folder)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "unsafe" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("how", [(), ("--json",), ("-q",)])
def test_damage_is_exit_code_1_and_says_where(how: tuple[str, ...], folder: Path) -> None:
    forced = edgetool("verify", "bad.tflite", "--run-unsafe-plan", *how, cwd=folder)
    assert forced.returncode == 1
    assert forced.stderr.startswith("edgetool: error: bad.tflite: outputs-equal: random sample 0, output 'output_0', ")
    assert "element [0, " in forced.stderr
    if "--json" in how:
        section = json.loads(forced.stdout)["verify"]
        assert section["passed"] is False
        assert section["checks"][1]["difference"]["output"] == "output_0"
    elif how:
        assert forced.stdout == ""
    else:
        assert "Verified    no" in forced.stdout


def test_a_file_that_is_not_a_model_is_rejected(folder: Path) -> None:
    (folder / "text.tflite").write_text("hello")
    result = edgetool("verify", "text.tflite", cwd=folder)
    assert (result.returncode, result.stdout) == (3, "")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("none.tflite",),
        ("good.tflite", "--original", "none.tflite"),
        ("good.tflite", "--original", "bad.tflite"),
        ("good.tflite", "--inputs", "none.npz"),
        ("good.tflite", "--samples", "0"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], folder: Path) -> None:
    result = edgetool("verify", *arguments, cwd=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr


INFO = VerifyInfo(
    passed=True,
    original=VerifiedFile("m.tflite", "0" * 64, 1000),
    planned=VerifiedFile("m.tflite", "1" * 64, 1100),
    planner="edgetool",
    samples=SampleInfo(8, 0, 0),
    checks=(
        CheckInfo("planned-runs", True, "the planned file runs"),
        CheckInfo("outputs-equal", True, "8 consecutive samples: all outputs are bit-identical"),
        CheckInfo("arena-used", True, "TFLM takes 1,000 bytes of its arena (400 head, 600 tail)"),
        CheckInfo("arena-sufficient", True, "it runs in the predicted arena of 1,024 bytes"),
        CheckInfo("arena-smallest", True, "it does not run in 1,008 bytes"),
    ),
    arena=HostArena("x86-64", False, 1024, 1000, 400, 600, 1000, 400, 600),
    runtimes=(
        RuntimeInfo(
            "LiteRT",
            None,
            (
                OutputDistance("same", "lsb", 0, 0, 80),
                OutputDistance("steps", "lsb", 2, 3, 80),
                OutputDistance("reals", "absolute", 0.00125, 3, 80),
                OutputDistance("broken", "absolute", None, 1, 80),
            ),
        ),
    ),
)


def view(info: VerifyInfo, target: TargetInfo | None = None, **options: object) -> str:
    model = ModelInfo("m.tflite", "0" * 64, 1000, 1, 4, 200)
    lines = verify_view(Report(Provenance("edgetool", {}, options, False), model, target=target, verify=info))
    return " ".join(" ".join(lines).split())  # wherever it was wrapped


def test_the_view_of_a_pass() -> None:
    shown = view(INFO)
    for text in (
        "yes",
        "the file with edgetool's plan",
        "on TFLM for x86-64 with reference kernels",
        "it does not run in 1,008 bytes",
        "same: equal to TFLM's",
        "steps: 3 of 80 elements differ from TFLM's, by at most 2 LSB",
        "reals: 3 of 80 elements differ from TFLM's, by at most 0.00125",
        "broken: 1 of 80 elements differ from TFLM's, by infinity or NaN",
    ):
        assert text in shown
    assert "the planned file runs" not in shown  # it goes without saying


def test_the_view_names_the_target_of_our_plan_alone() -> None:
    target = TargetInfo("nucleo", "cortex-m4", None, "tflm", "cmsis-nn")
    assert "with edgetool's plan for nucleo, on TFLM for x86-64" in view(INFO, target=target)
    assert "nucleo" not in view(replace(INFO, planner="file"), target=target)


def test_the_view_of_a_failure_and_of_what_was_not_checked() -> None:
    wrong = CheckInfo("outputs-equal", False, "random sample 0: wrong", DifferenceInfo(0, "y", (0,), 1, 2))
    failed = view(replace(INFO, passed=False, checks=(INFO.checks[0], wrong)))
    assert "random sample 0: wrong" in failed
    assert click.unstyle(failed).endswith("Not verified: random sample 0: wrong")
    skipped = tuple(CheckInfo(check.check, None, "not checked: a bound") for check in INFO.checks[2:])
    shown = view(replace(INFO, checks=(*INFO.checks[:2], *skipped)))
    assert shown.count("not checked: a bound") == 1
    assert "in part" in shown


def test_the_view_names_another_original_and_escapes_names() -> None:
    other = replace(INFO, original=VerifiedFile("other\x1b.tflite", "0" * 64, 1000))
    assert "the model and other\\x1b.tflite" in view(other, original="other\x1b.tflite")
    failed = replace(INFO, runtimes=(RuntimeInfo("LiteRT", "it said \x1b[31m no"),))
    assert "\x1b[31m no" not in view(failed)
    assert "not compared: it said \\x1b[31m no" in view(failed)


def test_the_path_of_a_written_document_is_one_safe_line(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(conv_model_bytes())
    reported = edgetool("inspect", "model.tflite", "-o", "a\nb.json", cwd=tmp_path)
    assert reported.stderr.splitlines() == ["wrote a\\nb.json"]
