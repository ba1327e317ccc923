"""edgetool fit as a user sees it: 80 columns, plain and on a terminal, JSON and CSV, files and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgetool.cli.fit import fit_view
from edgetool.model.writer import write_model
from edgetool.pipeline.fit import FitRequest, fit_model
from edgetool.report.fit import fit_csv
from tests.hostile_names import custom_operators
from tests.in_process import captured
from tests.model.builders import conv_model_bytes, unary_model


@pytest.fixture
def tflite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "a model.tflite"
    path.write_bytes(conv_model_bytes())
    return path


def test_the_table_has_bars_the_band_and_the_verdict_last(shared: Path, tflite: Path) -> None:
    done = captured("fit", shared / "data/models/mlperf/vww_96_int8.tflite")
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, lines)) <= 80
    assert lines[0] == "vww_96_int8.tflite on 59 boards"
    assert lines[2].split() == ["fits", "arena", "KiB", "SRAM", "flash", "latency", "ms"]
    assert lines[3] == "max78000fthr                  98.4  ####.  77%  ####.  64%  390 (350-540)"
    (miss,) = (line for line in lines if line.startswith("stm32f401 "))
    assert miss == "stm32f401                ##### 103%  ####.  64%  arena: 2.36 KiB too large"
    assert "3 devices are not listed, because only the memory bandwidth is known: desktop," in lines
    assert lines[-1] == "Fits 55 of 59 boards; the smallest is max78000fthr (128 KiB SRAM, 512 KiB flash)"


def test_colour_changes_no_character(tflite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import click

    styled = fit_view(fit_model(tflite))
    assert any("\x1b[" in line for line in styled)
    assert [click.unstyle(line) for line in styled] == captured("fit", tflite).stdout.splitlines()
    for columns in (40, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert max(len(click.unstyle(line)) for line in fit_view(fit_model(tflite))) <= max(columns, 80)


def test_no_board_is_exit_code_1(tflite: Path) -> None:
    done = captured("fit", tflite, "--max-arena", "10B", "--core", "cortex-m4", "--limit", "2")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert "B over the limit" in done.stdout
    assert "18 more boards not shown (--limit)" in lines
    assert lines[-1] == "Fits none of the 20 boards"
    quiet = captured("fit", tflite, "--max-arena", "10B", "--quiet")
    assert (quiet.returncode, quiet.stdout) == (1, "")
    assert "fits none of 59 boards" in quiet.stderr


def test_json_and_csv_have_the_same_boards(tflite: Path) -> None:
    done = captured("fit", tflite, "--core", "cortex-m7", "--fits-only", "--json")
    document = json.loads(done.stdout)
    assert (document["schema"], document["model"]["name"]) == ("edgetool/1", "a model.tflite")
    boards = document["fit"]["boards"]
    assert document["fit"]["fitting"] == len(boards) > 5
    assert {board["target"]["core"] for board in boards} == {"cortex-m7"}
    csv = captured("fit", tflite, "--core", "cortex-m7", "--fits-only", "--csv").stdout
    assert [line.split(",")[0] for line in csv.splitlines()[1:]] == [board["target"]["name"] for board in boards]


def test_output_goes_to_the_file_and_the_table_to_stdout(tflite: Path) -> None:
    done = captured("fit", tflite, "--csv", "-o", "boards.csv", "--board", "pico")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "a model.tflite on 2 boards"
    report = fit_model(tflite, FitRequest(boards=("pico",)))
    assert Path("boards.csv").read_text(encoding="utf-8") == fit_csv(report)
    assert captured("fit", tflite, "-o", "boards.csv").returncode == 2
    assert captured("fit", tflite, "-o", tflite, "--force").returncode == 2
    assert tflite.read_bytes() == conv_model_bytes()


def test_settings_apply_to_fit_as_to_check(tflite: Path) -> None:
    Path("edgetool.toml").write_text('target = "rpi-pico"\nmax-arena = "10B"\n[fit]\ncore = "cortex-m4"\n')
    done = captured("fit", tflite)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "Fits none of the 20 boards")
    Path("edgetool.toml").write_text('target = "rpi-pico"\nmax-arena = "10B"\n')
    assert captured("fit", tflite).returncode == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--core", "m99"), "unknown core 'm99'"),
        (("--vendor", "acme"), "no packaged board matches --vendor 'acme'"),
        (("--limit", "0"), "0 is not in the range"),
        (("--reserve", "many"), "'many'"),
        (("--max-latency", "fast"), "fast"),
        (("--sort", "size"), "'size'"),
        (("--json", "--csv"), "--json and --csv are mutually exclusive"),
    ],
)
def test_wrong_values_are_named(tflite: Path, arguments: tuple[str, ...], message: str) -> None:
    done = captured("fit", tflite, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_missing_and_broken_models(tflite: Path) -> None:
    assert captured("fit").returncode == 2
    assert captured("fit", "none.tflite").returncode == 2
    Path("cut.tflite").write_bytes(conv_model_bytes()[:60])
    assert captured("fit", "cut.tflite").returncode == 3


def test_names_of_operators_are_text(tflite: Path) -> None:
    Path("hostile.tflite").write_bytes(custom_operators())
    for form in ((), ("--csv",), ("--json",)):
        done = captured("fit", "hostile.tflite", *form, "--core", "cortex-m4")
        assert done.returncode == 1
        assert not {"\x1b", "\x9b", "\u202e", "\r"} & set(done.stdout)
        assert not any(line.startswith(("::", "=", "##")) for line in done.stdout.splitlines())
    Path("gelu.tflite").write_bytes(write_model(unary_model("GELU")))
    assert "operator GELU not in TFLM" in captured("fit", "gelu.tflite").stdout


def test_help_has_examples_and_the_exit_code() -> None:
    text = captured("fit", "--help").stdout
    assert text.count("edgetool fit model.tflite") == 3
    assert "Exits with 1 if the model fits no board" in " ".join(text.split())
