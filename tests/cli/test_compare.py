"""edgetool compare as a user meets it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click
import pytest

from edgetool.cli.compare import LABELS, compare_view
from edgetool.model.writer import write_model
from edgetool.pipeline.compare import FIGURES, compare_models
from edgetool.report.document import Band
from tests.cli.estimates import estimate, operator
from tests.cli.program import edgetool
from tests.model.builders import chain_model, residual_model
from tests.pipeline.reports import arena, whole_report, write_reports

BOARD = ("--target", "nucleo-l4r5zi")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("pair")
    for name, model in (("chain", chain_model(3)), ("residual", residual_model())):
        (folder / f"{name}.tflite").write_bytes(write_model(model))
    return folder / "chain.tflite", folder / "residual.tflite"


def test_two_models_on_one_screen(pair: tuple[Path, Path]) -> None:
    shown = edgetool("compare", *pair, *BOARD, COLUMNS="80", NO_COLOR="")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert all(len(line) <= 80 and line.isascii() for line in lines), shown.stdout
    for label in ("arena", "  head", "  tail", "layout", "flash (model)", "MACs", "latency", "  band", "energy"):
        assert any(line.startswith(f"  {label} ") for line in lines), label
    assert "SOFTMAX" in shown.stdout
    assert "  new" in shown.stdout
    assert "Not available for either: busy, accuracy" in shown.stdout


def test_the_document(pair: tuple[Path, Path], tmp_path: Path) -> None:
    result = edgetool("compare", *pair, *BOARD, "--json")
    document = json.loads(result.stdout)
    assert (result.returncode, result.stderr, document["schema"]) == (0, "", "edgetool/1")
    compared = document["compare"]
    assert (compared["a"]["name"], compared["b"]["name"]) == ("chain.tflite", "residual.tflite")
    assert [item["figure"] for item in compared["figures"]] == [name for name, _, _ in FIGURES]
    for item in compared["figures"]:
        assert {"figure", "unit", "a", "b", "change", "change_percent"} <= item.keys()
    assert edgetool("compare", *pair, *BOARD, "-o", tmp_path / "c.json", "-q").stdout == ""
    assert json.loads((tmp_path / "c.json").read_text()) == document
    again = edgetool("compare", tmp_path / "c.json", pair[1], *BOARD)
    assert (again.returncode, "'edgetool compare'" in again.stderr) == (2, True)


@pytest.mark.slow
def test_reports_that_the_commands_wrote(pair: tuple[Path, Path], tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(edgetool("plan", pair[0], *BOARD, "--json").stdout)
    both = tmp_path / "both.json"
    edgetool("estimate", pair[0], *BOARD, "-t", "rpi-pico", "-o", both)
    unclear = edgetool("compare", plan, both)
    assert (unclear.returncode, unclear.stdout) == (2, "")
    assert "on nucleo-l4r5zi, chain.tflite on rpi-pico" in unclear.stderr
    clear = edgetool("compare", plan, both, *BOARD, COLUMNS="80")
    assert (clear.returncode, clear.stderr) == (0, "")
    assert "as reported by 'edgetool plan'" in clear.stdout
    other = edgetool("compare", plan, both, "-t", "rpi-pico", COLUMNS="80")
    assert "warning: the target is nucleo-l4r5zi in A, rpi-pico in B" in other.stdout
    assert any(line.split() == ["nucleo-l4r5zi", "rpi-pico"] for line in other.stdout.splitlines())
    (tmp_path / "check.json").write_text(edgetool("check", *pair, *BOARD, "--json", cwd=tmp_path).stdout)
    checked = edgetool("compare", tmp_path / "check.json", pair[1], *BOARD)
    assert (checked.returncode, "2 for target nucleo-l4r5zi" in checked.stderr) == (2, True)
    (tmp_path / "check.json").write_text(edgetool("check", pair[0], *BOARD, "--json", cwd=tmp_path).stdout)
    assert "as reported by 'edgetool check'" in edgetool("compare", tmp_path / "check.json", pair[1], *BOARD).stdout
    converted = edgetool("convert", pair[1], *BOARD, "-o", tmp_path / "out", "-q")
    assert converted.returncode == 0, converted.stderr
    last = edgetool("compare", tmp_path / "out" / "residual.json", pair[1], *BOARD)
    assert (last.returncode, last.stderr) == (0, "")


def test_the_target_of_the_settings_is_for_models(pair: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "edgetool.toml").write_text('target = "rpi-pico"\nclock = "100MHz"\n')
    report = write_reports(tmp_path / "report.json", whole_report())
    shown = edgetool("compare", report, report, cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    models = json.loads(edgetool("compare", *pair, "--json", cwd=tmp_path).stdout)
    assert models["provenance"]["options"]["clock_hz"] == 100_000_000
    given = edgetool("compare", report, report, "-t", "rpi-pico", cwd=tmp_path)
    assert (given.returncode, "cannot be applied to reports" in given.stderr) == (2, True)
    assert edgetool("compare", report, report, "--sram", "1MiB", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b'{"schema": "edgetool/9"}', b'{"schema": "edgetool/1", "model": NaN}', b"\xff\xfe", b"[" * 50_000],
    ids=["truncated", "a list", "another schema", "NaN", "UTF-16", "nested"],
)
def test_a_bad_report_is_one_clear_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    result = edgetool("compare", path, path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"edgetool: error: {path}")
    assert len(result.stderr.splitlines()) == 1


def view(tmp_path: Path, a: object, b: object, *, everything: bool = False) -> list[str]:
    """The lines for two reports, without colours."""
    paths = [write_reports(tmp_path / name, found) for name, found in (("a.json", a), ("b.json", b))]  # type: ignore[arg-type]
    lines = compare_view(compare_models(*paths), everything=everything)
    return [click.unstyle(line) for line in lines]


def row(lines: list[str], label: str) -> str:
    (found,) = [line for line in lines if line.startswith(f"  {label}  ")]
    return " ".join(found.split())


def test_every_figure_has_a_label() -> None:
    assert list(LABELS) == [name for name, _, _ in FIGURES]


def test_changes_are_shown_in_their_units(tmp_path: Path) -> None:
    a = whole_report()
    b = arena(whole_report(), bytes=124_500, stock_bytes=124_500)
    assert b.quantization is not None
    assert b.quantization.accuracy is not None
    b = replace(b, quantization=replace(b.quantization, accuracy=replace(b.quantization.accuracy, quantized=0.95)))
    b = replace(b, estimate=estimate(latency_ms=Band(600.0, 500.0, 700.0), macs=0))
    lines = view(tmp_path, a, b)
    assert all(len(line) <= 80 for line in lines)
    assert row(lines, "arena") == "arena 99,600 B 124,500 B +24,900 B +25.0 %"
    assert row(lines, "accuracy") == "accuracy 96.0 % 95.0 % -1.00 points -1.0 %"
    assert row(lines, "latency") == "latency 300 ms 600 ms +300 ms +100.0 %"
    assert row(lines, "MACs") == "MACs 7,489,664 0 -7,489,664 -100.0 %"
    assert row(lines, "layout") == "layout 60,000 B 60,000 B ="
    bands = [" ".join(line.split()) for line in lines if line.startswith("    band")]
    assert bands == ["band 270 to 335 ms 500 to 700 ms certain", "band 10 to 17 mJ 10 to 17 mJ"]
    assert row(view(tmp_path, b, a), "MACs") == "MACs 0 7,489,664 +7,489,664 new"


def test_changes_with_overlapping_bands_are_not_certain(tmp_path: Path) -> None:
    lines = view(tmp_path, whole_report(), whole_report(estimate=estimate(latency_ms=Band(310.0, 280.0, 340.0))))
    assert any(line.startswith("    band") and line.rstrip().endswith("uncertain") for line in lines)


def test_a_change_below_the_displayed_digits_is_shown_as_about_0(tmp_path: Path) -> None:
    b = whole_report(estimate=estimate(latency_ms=Band(300.0001, 270.0, 335.0), bandwidth_utilization=0.009931))
    lines = view(tmp_path, whole_report(), b)
    assert row(lines, "latency") == "latency 300 ms 300 ms about 0 <0.1 %"
    assert row(lines, "  share used") == "share used 0.99 % 0.99 % about 0 <0.1 %"


def test_the_smallest_times_fit_the_screen(tmp_path: Path) -> None:
    a = whole_report(estimate=estimate(latency_ms=Band(9e-4, 5e-4, 2e-3), energy_uj=Band(0.9, 0.5, 1.5)))
    b = whole_report(estimate=estimate(latency_ms=Band(999.0, 990.0, 1100.0), energy_uj=Band(0.1, 0.05, 0.2)))
    lines = view(tmp_path, a, b)
    assert [line for line in lines if len(line) > 80] == []
    assert any(" ".join(line.split()).startswith("band 0.00050 to 0.0020 ms 990 to 1,100 ms certain") for line in lines)


def test_an_arena_that_is_a_lower_bound_is_marked(tmp_path: Path) -> None:
    lines = view(tmp_path, whole_report(), arena(whole_report(), is_lower_bound=True, bytes=90_000))
    assert row(lines, "arena") == "arena 99,600 B >= 90,000 B -9,600 B -9.6 %"
    assert any(">=: a lower bound only" in line for line in lines)


def test_missing_values_are_shown_as_a_dash(tmp_path: Path) -> None:
    lines = view(tmp_path, whole_report(), whole_report(estimate=None, quantization=None))
    assert row(lines, "latency") == "latency 300 ms - -"
    assert row(lines, "accuracy") == "accuracy 96.0 % - -"
    assert not any("operator" in line and "time" in line for line in lines)


def test_the_operators_that_changed_most_come_first(tmp_path: Path) -> None:
    before = tuple(operator(index, 10.0) for index in range(12))
    after = tuple(operator(index, 10.0 + index) for index in range(12))
    a, b = (whole_report(estimate=estimate(operators=items)) for items in (before, after))
    lines = view(tmp_path, a, b)
    start = next(number for number, line in enumerate(lines) if "operator " in line and "time A" in line)
    assert lines[start + 1].split() == ["11", "11", "CONV_2D", "10", "ms", "21", "ms", "+11", "ms", "+110.0", "%"]
    assert "... and 3 more" in lines[-1]
    assert "more" not in view(tmp_path, a, b, everything=True)[-1]
    assert view(tmp_path, a, a)[-1] == "  No operator differs in time."


def test_hostile_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    a = whole_report()
    assert a.target is not None
    b = replace(a, model=replace(a.model, name="\x1b[31m" + "x" * 500), target=replace(a.target, name="\x07" * 99))
    b = replace(b, estimate=estimate(operators=(operator(0, 1.0, operator="\r\n" * 60),)))
    lines = view(tmp_path, a, b, everything=True)
    assert all(line.isprintable() and line.isascii() and len(line) <= 80 for line in lines)


def test_native_code_is_named_and_has_its_constants_in_flash(pair: tuple[Path, Path], tmp_path: Path) -> None:
    native = (*BOARD, "--runtime", "native")
    shown = edgetool("compare", *pair, *native, COLUMNS="80", NO_COLOR="")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.count("     nucleo-l4r5zi, native code; the arena that edgetool plans\n") == 2
    assert "TFLM" not in shown.stdout
    plan = tmp_path / "plan.json"
    plan.write_text(edgetool("plan", pair[0], *native, "--json").stdout)
    planned = json.loads(plan.read_text())
    both = edgetool("compare", plan, pair[0], *BOARD, COLUMNS="80", NO_COLOR="")
    assert (both.returncode, both.stderr) == (0, "")
    assert "     nucleo-l4r5zi, native code; as reported by 'edgetool plan'\n" in both.stdout
    assert "warning: the runtime is native in A, tflm-" in both.stdout
    assert "kernels are" not in both.stdout
    sizes = row(both.stdout.splitlines(), "flash (model)").split()
    constants, file = planned["flash"]["model_bytes"], pair[0].stat().st_size
    assert sizes[2:6] == [f"{constants:,}", "B", f"{file:,}", "B"]
