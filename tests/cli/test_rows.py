"""Plans of rows as a user sees them: the bound, the picture as text and as SVG, and options that do not apply."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import click
import pytest

from edgetool.cli.rows_view import rows_facts, rows_picture
from edgetool.model.writer import write_model
from edgetool.report.document import RowSegment, RowsInfo, RowTensorInfo, StreamInfo
from edgetool.report.json import parse_reports
from tests.codegen.native.stream_models import tcn
from tests.codegen.native.test_recompute import expansion
from tests.in_process import captured
from tests.model.builders import residual_model

ROWS = ("--target", "cortex-m4", "--runtime", "native", "--scratch-budget", "0")
INFO = RowsInfo(
    1100,
    1000,
    40,
    120,
    ("image",),
    (RowSegment((0, 1, 2), 0, 19), RowSegment((3,), 20, 39)),
    (
        RowTensorInfo("image", 0, 8, 32, 8, (8,) * 10 + (4,) * 10 + (0,) * 20),
        RowTensorInfo("a;b", 1, 8, 64, 2, (0,) * 10 + (2,) * 10 + (0,) * 20),
        RowTensorInfo("out", 2, 1, 4, 1, (0,) * 20 + (1,) * 20),
        RowTensorInfo("never", 3, 1, 4, 0, (0,) * 40),
    ),
)


@pytest.fixture(scope="module")
def tflite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "net.tflite"
    path.write_bytes(write_model(residual_model()))
    return path


def test_the_bound_and_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert rows_facts(INFO) == [
        "  Rows        1,100 B; no row-wise schedule without recomputation takes less than 1,000 B (10.0 %)",
        "  Row input   the application hands over row by row: image",
        "  Schedule    40 steps in 2 segments; its tables take 120 B of flash",
    ]
    assert rows_facts(replace(INFO, weights_per_row_bytes=2048))[-2:] == [
        "  Schedule    40 steps in 2 segments; its tables take 120 B of flash; operators that take turns read",
        "              up to 2,048 B of constants per row",
    ]
    exact = RowsInfo(1000, 1000, 1, 8, segments=(RowSegment((0,), 0, 0),))
    assert rows_facts(exact) == [
        "  Rows        1,000 B; no row-wise schedule without recomputation takes less",
        "  Schedule    1 steps in 1 segment; its tables take 8 B of flash",
    ]
    assert rows_facts(RowsInfo(1000, None, 1, 8))[0] == "  Rows        1,000 B"
    again = RowsInfo(900, 1000, 1, 8, extra_macs=31, extra_macs_percent=3.1)
    assert rows_facts(again)[:2] == [
        "  Rows        900 B at 3.1 % extra multiply-accumulates; no row-wise schedule without recomputation",
        "              takes less than 1,000 B",
    ]


def test_what_a_step_of_a_stream_computes() -> None:
    def words(touched: int) -> str:
        info = replace(INFO, stream=StreamInfo(2, 49, 25, 5250, touched, 100_000, 1480))
        return " ".join(" ".join(rows_facts(info)).split())

    expected = "Stream 2 of 49 rows are new in each inference; 5,250 multiply-accumulates are 5.2 % of a window's, and "
    assert f"{expected}as many as new rows touch; rings take 1,480 B" in words(5250)
    assert f"{expected}5.0 % more than new rows touch" in words(5000)


STREAM = ("-t", "cortex-m4", "--runtime", "native", "--incremental", "2")


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams") / "tcn.tflite"
    path.write_bytes(write_model(tcn(dilations=(1, 4))))
    return path


def test_the_document_describes_the_stream(stream: Path) -> None:
    document = json.loads(captured("plan", stream, *STREAM, "--json").stdout)
    found = document["rows"]["stream"]
    assert (found["hop_rows"], found["window_rows"], found["window_hops"]) == (2, 40, 20)
    assert found["step_macs"] <= 1.1 * found["touched_macs"] < 0.1 * found["window_macs"]
    assert 0 < found["ring_bytes"] < document["arena"]["bytes"]


def test_streams_that_are_refused(stream: Path) -> None:
    refused = captured("plan", stream, "-t", "cortex-m4", "--incremental", "2")
    assert (refused.returncode, "--incremental applies to native code" in refused.stderr) == (2, True)
    refused = captured("plan", stream, *STREAM[:-1], "40")
    assert (refused.returncode, "40 is no hop within a window of 40 rows" in refused.stderr) == (3, True)


@pytest.mark.slow
def test_commands_that_plan_support_streams(stream: Path, tmp_path: Path) -> None:
    found = json.loads(captured("plan", stream, *STREAM, "--json").stdout)["rows"]["stream"]
    estimate = json.loads(captured("estimate", stream, *STREAM, "--json").stdout)["estimate"]
    assert estimate["macs"] == found["step_macs"]
    assert captured("emit", stream, *STREAM, "-o", tmp_path / "out").returncode == 0
    assert "#define TCN_HOP_ROWS 2" in (tmp_path / "out" / "tcn.h").read_text()
    assert captured("convert", stream, *STREAM, "-o", tmp_path / "made").returncode == 0
    assert "#define TCN_HOP_ROWS 2" in (tmp_path / "made" / "tcn.h").read_text()
    assert captured("compare", stream, stream, *STREAM).returncode == 0
    assert captured("check", stream, *STREAM).returncode == 0
    fit = captured("fit", stream, *STREAM[2:], "--board", "nucleo-f4", "--json")
    assert json.loads(fit.stdout)["provenance"]["options"]["incremental"] == 2


def test_the_picture_has_a_line_for_each_tensor_in_the_order_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = [click.unstyle(line) for line in rows_picture(INFO, 40)]
    assert lines == [
        "  most rows    of  step 0 to 39                              tensor",
        "                   |-------------------|-------------------  segments",
        "     8 of 8  32 B  @@@@@@@@@@++++++++++                      image",
        "     2 of 8  64 B            ----------                      a",
        "     1 of 1   4 B                      @@@@@@@@@@@@@@@@@@@@  out",
        "",
        "  rows in memory: . : - = + * # % @ from few to all rows of a tensor; | starts a",
        "  segment of operators",
        "  operators that run row by row together: 0-2; 1 runs alone",
    ]
    assert "  ... and 2 more (-v shows all)" in rows_picture(INFO, 1)


@pytest.fixture(scope="module")
def text(tflite: Path) -> str:
    return captured("plan", tflite, *ROWS, "--json").stdout


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_the_picture_fits_the_terminal(text: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    rows = parse_reports(text)[0].rows
    assert rows is not None
    lines = [click.unstyle(line) for line in rows_picture(rows, 40)]
    assert max(map(len, lines)) <= columns
    assert len(lines) > len(rows.tensors)


def test_the_section_of_the_document_describes_the_plan(text: str) -> None:
    document = json.loads(text)
    rows = document["rows"]
    assert rows["memory_bytes"] == document["arena"]["bytes"]
    assert 0 < rows["lower_bound_bytes"] <= rows["memory_bytes"]
    assert rows["lower_bound_bytes"] == document["arena"]["lower_bound_bytes"]
    assert rows["row_inputs"] == []
    assert rows["segments"][0]["first_step"] == 0
    for before, after in pairwise(rows["segments"]):
        assert before["last_step"] + 1 == after["first_step"]
    assert rows["segments"][-1]["last_step"] == rows["steps"] - 1
    for tensor in rows["tensors"]:
        assert max(tensor["live"]) == tensor["most_rows"] <= tensor["rows"]
    (chosen,) = [item for item in document["kernel_choices"] if item["chosen"]]
    assert (chosen["rows"], chosen["row_input"], chosen["row_output"]) == (True, False, False)


def test_rows_that_are_handed_over_are_named(tflite: Path) -> None:
    document = json.loads(captured("plan", tflite, *ROWS, "--row-input", "--json").stdout)
    assert document["rows"]["row_inputs"] == ["image"]
    assert all(item["rows"] and item["row_input"] for item in document["kernel_choices"])


@pytest.mark.parametrize("options", [(), ("--row-input",)], ids=["whole input", "row input"])
def test_rows_that_are_taken_are_named(tflite: Path, options: tuple[str, ...]) -> None:
    done = captured("plan", tflite, *ROWS, "--row-output", *options, "--json")
    document = json.loads(done.stdout)
    assert (document["rows"]["row_outputs"], len(document["rows"]["row_inputs"])) == (["tensor_17"], len(options))
    assert all(item["rows"] and item["row_output"] for item in document["kernel_choices"])


@pytest.fixture(scope="module")
def expansions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "expansions.tflite"
    path.write_bytes(write_model(expansion((6, 6), 4, 16)))
    return path


def test_what_is_computed_again_is_in_the_document(expansions: Path) -> None:
    given = ("plan", expansions, *ROWS, "--row-input", "--max-extra-macs")
    rows = [json.loads(captured(*given, percent, "--json").stdout)["rows"] for percent in ("0", "400")]
    assert [item["extra_macs"] > 0 for item in rows] == [False, True]
    assert rows[1]["memory_bytes"] < rows[0]["memory_bytes"]
    assert 0 < rows[1]["extra_macs_percent"] <= 400
    assert "M extra multiply-accumulates" in " ".join(captured(*given, "400").stdout.split())
    refused = captured("estimate", expansions, "-t", "cortex-m4", "--max-extra-macs", "5")
    assert (refused.returncode, "--max-extra-macs applies to native code" in " ".join(refused.stderr.split())) == (
        2,
        True,
    )


def test_emit_shrinks_native_code_only(expansions: Path, tmp_path: Path) -> None:
    refused = captured("emit", expansions, "-t", "nucleo-l4r5zi", "--shrink", "-o", tmp_path / "out")
    assert (refused.returncode, "run 'edgetool plan --shrink" in " ".join(refused.stderr.split())) == (2, True)


def test_shrinking_states_what_it_costs_or_how_much_is_needed(expansions: Path, tmp_path: Path) -> None:
    native = ("-t", "cortex-m4", "--runtime", "native", "--row-input", "--shrink")
    done = captured("emit", expansions, *native, "--sram", "20KiB", "-o", tmp_path / "out", "--json")
    document = json.loads(done.stdout)
    assert "shrunk" in [item["rule"] for item in document["findings"]]
    assert document["provenance"]["options"]["shrink"] is True
    refused = captured("plan", expansions, *native, "--sram", "64B")
    assert refused.returncode == 1
    assert "the smallest arena takes" in " ".join(refused.stderr.split())


def test_weights_per_row_are_limited(tflite: Path) -> None:
    sweeps = []
    for options in ((), ("--max-weights-per-row", "1B")):
        rows = json.loads(captured("plan", tflite, *ROWS, "--row-input", *options, "--json").stdout)["rows"]
        sweeps.append(rows["weights_per_row_bytes"])
    assert sweeps[0] > sweeps[1] == 0
    refused = captured("plan", tflite, "-t", "cortex-m4", "--max-weights-per-row", "8KiB")
    assert (refused.returncode, "--max-weights-per-row applies to native code" in refused.stderr) == (2, True)


def test_plans_of_tensors_have_no_rows(tflite: Path) -> None:
    document = json.loads(captured("plan", tflite, "-t", "cortex-m4", "--json").stdout)
    assert document["rows"] is None


def test_the_picture_is_written(tflite: Path, tmp_path: Path) -> None:
    picture = tmp_path / "rows.svg"
    done = captured("plan", tflite, *ROWS, "--rows-svg", picture)
    assert (done.returncode, done.stderr) == (0, f"wrote {picture}\n")
    assert picture.read_bytes().startswith(b"<svg")
    assert "  Rows  " in done.stdout
    assert "most rows" in done.stdout
    done = captured("plan", tflite, *ROWS, "--rows-svg", picture)
    assert (done.returncode, done.stdout) != (0, "")
    assert "--force" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-t", "cortex-m4", "--rows-svg", "x.svg"), "draws plans of native code"),
        ((*ROWS, "--rows-svg", "x.png"), "must be an .svg file"),
        ((*ROWS, "-t", "rpi-pico", "--rows-svg", "x.svg"), "for one target, but 2 were specified"),
        (("-t", "cortex-m4", "--runtime", "native", "--rows-svg", "x.svg"), "this plan has whole tensors"),
    ],
)
def test_pictures_that_cannot_be_drawn(
    tflite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = captured("plan", tflite, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())
