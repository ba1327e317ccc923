"""What a user sees first: saving, memory map, verdict, colours and units, as text of 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import click
import pytest

from edgetool.cli.layout import layout_view
from edgetool.cli.output import (
    TIME_UNITS,
    ProgressLine,
    color,
    durations,
    in_common_unit,
    mac_rate,
    size_of_limit,
    sizes,
)
from edgetool.cli.plan import plan_view
from edgetool.cli.verdict import closing, verdict_of
from edgetool.cli.view import finding_lines, quantization_facts, without_shared
from edgetool.estimate.memory_speed import rates
from edgetool.gate import github, junit, sarif
from edgetool.gate.messages import NOT_ANNOTATED
from edgetool.model.lint import model_findings
from edgetool.pipeline.layout import layout_instance
from edgetool.pipeline.plan import plan_model
from edgetool.pipeline.targets import resolve_named
from edgetool.report.document import FindingInfo, OutputQuality, QuantizationInfo, Report
from tests.cli.program import edgetool
from tests.gate.judged import PASSES
from tests.model.builders import branches_model

PERSON = Path(__file__).resolve().parents[2] / "examples" / "person_detection" / "person_detection.tflite"


@pytest.fixture(scope="module")
def planned() -> Callable[[str], Report]:
    reports: dict[str, Report] = {}

    def of(target: str) -> Report:
        if target not in reports:
            reports[target] = plan_model(PERSON, resolve_named(target))
        return reports[target]

    return of


def plain(lines: list[str]) -> list[str]:
    return [click.unstyle(line) for line in lines]


def test_the_saving_has_its_own_row_and_used_is_explained(planned: Callable[[str], Report]) -> None:
    report = planned("nucleo-l4r5zi")
    assert report.arena is not None
    arena = replace(report.arena, bytes=36_512, used_bytes=36_500, stock_bytes=151_200, head_bytes=27_696)
    lines = plain(plan_view(replace(report, arena=replace(arena, tail_bytes=8_804)), everything=False))
    assert "  Saved       114,688 B (76 %) against TFLM's own planner" in lines
    assert "              head 27,696 B + tail 8,804 B = 36,500 B used, rounded up to 16 B" in lines


@pytest.mark.parametrize("target", ["nucleo-l4r5zi", "cortex-m3", "rpi-pico"])
def test_the_map_reaches_the_height_of_the_head_and_marks_the_peak(
    target: str, planned: Callable[[str], Report]
) -> None:
    report = planned(target)
    assert report.arena is not None
    assert report.plan is not None
    lines = plain(plan_view(report, everything=True))
    start = next(place for place, line in enumerate(lines) if line.split()[:2] == ["offset", "end"])
    rows = lines[start + 1 : lines.index("", start)]
    assert len(rows) == len(report.plan.tensors) + len(report.plan.scratch)
    ends = [int(row.lstrip("* ").split()[1].replace(",", "")) for row in rows]
    assert max(ends) == report.arena.head_bytes
    assert sum("scratch" in row for row in rows) == len(report.plan.scratch)
    alive = [int(row.lstrip("* ").split()[2].replace(",", "")) for row in rows if row.startswith("*")]
    peak = report.plan.peak
    assert peak is not None
    assert sum(-(-size // 16) * 16 for size in alive) == peak.bytes == report.plan.live_bytes
    assert f"* live at operator {peak.operator} {peak.label}, the peak: {peak.bytes:,} B" in " ".join(lines)
    assert all(len(line) <= 80 for line in lines)


def test_a_model_that_does_not_fit_ends_with_the_verdict_and_is_no_error(tmp_path: Path) -> None:
    result = edgetool("plan", PERSON, "-t", "nucleo-f103rb", "-o", tmp_path / "planned.tflite")
    assert result.returncode == 0
    assert result.stdout.splitlines()[-1].strip() == "Does not fit: arena 35.7 of 20.0 KiB in sram"
    assert "error:" not in result.stdout + result.stderr
    assert "problem: nucleo-f103rb: the arena needs" in result.stdout


def test_a_model_that_does_not_run_says_why_last(planned: Callable[[str], Report]) -> None:
    missing = FindingInfo("operator-not-in-runtime", "error", "tflm has no GELU (1x): AllocateTensors will fail", None)
    report = replace(planned("nucleo-l4r5zi"), findings=(missing,))
    assert closing(verdict_of(report), []) != []
    assert click.unstyle(closing(verdict_of(report), [])[-1]) == "  Does not run: tflm has no GELU (1x)"
    assert "  Runs        no: tflm has no GELU (1x)" in plain(plan_view(report, everything=False))


def test_a_favourable_verdict_is_repeated_only_after_a_long_output(planned: Callable[[str], Report]) -> None:
    verdict = verdict_of(planned("nucleo-l4r5zi"))
    assert not verdict.negative
    assert closing(verdict, ["line"] * 24) == []
    assert click.unstyle(closing(verdict, ["line"] * 25)[-1]).startswith("  Fits: arena ")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": ""}, None),
    ],
)
def test_colour_follows_the_environment(
    environment: dict[str, str], expected: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert color() is expected


def test_a_dumb_terminal_gets_no_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with ProgressLine(quiet=False) as progress:
        progress("converting")
    assert capsys.readouterr().err == ""


def test_quality_on_synthetic_samples_is_qualified() -> None:
    quantized = QuantizationInfo("int8", False, 100, (OutputQuality("out", 40.0, 0.9999, 1.0),))
    words = " ".join(" ".join(plain(quantization_facts(quantized))).split())
    assert "same top-1 class in 100.0 %, on the same synthetic samples: says nothing about real data" in words
    assert "says nothing" not in " ".join(quantization_facts(replace(quantized, calibrated=True)))


def test_the_note_on_the_profile_is_one_line_shown_with_v() -> None:
    text = "5 values not checked against public documentation: flash.cache, sram.wait_states"
    note = FindingInfo("unverified-profile", "note", text, "nucleo-l4r5zi")
    assert finding_lines([note]) == []
    assert plain(finding_lines([note], everything=True)) == [
        "",
        "  note: nucleo-l4r5zi: 5 values not checked against public documentation",
    ]


def test_a_quantized_dimension_that_tflm_ignores_is_a_note_without_annotation() -> None:
    model = branches_model()
    graph = model.main
    place, tensor = next((i, t) for i, t in enumerate(graph.tensors) if t.quantization is not None)
    assert tensor.quantization is not None
    levels = {}
    for scales in ((0.5,), (0.5, 0.25)):
        odd = replace(tensor.quantization, axis=9, scales=scales, zero_points=(0,) * len(scales))
        tensors = (*graph.tensors[:place], replace(tensor, quantization=odd), *graph.tensors[place + 1 :])
        changed = replace(model, subgraphs=(replace(graph, tensors=tensors), *model.subgraphs[1:]))
        levels[len(scales)] = [f.level for f in model_findings(changed) if f.rule == "quantized-dimension"]
    assert levels == {1: ["note"], 2: ["warning"]}
    assert "quantized-dimension" in NOT_ANNOTATED


def test_values_beside_each_other_share_a_unit() -> None:
    assert sizes([694 * 1024, 2_810_184, None]) == ["694 KiB", "2,744 KiB", "-"]
    assert size_of_limit(333_288, 2**21) == "325 of 2,048 KiB"
    assert durations([1500, 20]) == ["1,500 ms", "20 ms"]
    assert rates(0.00221, 0.297) == ["2.21 MB/s", "297 MB/s"]
    assert rates(8.49e-5) == ["84.9 kB/s"]


def test_a_common_unit_formats_values_beside_it_without_exponents() -> None:
    shown = in_common_unit([1500.0, 20.0], TIME_UNITS)
    assert [shown(value) for value in (1500.0, 20.0, 1480.0)] == ["1,500 ms", "20 ms", "1,480 ms"]
    assert [mac_rate(rate) for rate in (1.44, 0.2, 8.49e-5)] == ["1.44 GMAC/s", "200 MMAC/s", "84.9 kMAC/s"]


@pytest.mark.parametrize("write", [github.text, sarif.text, junit.text])
def test_a_note_that_does_not_matter_to_tflm_is_in_no_ci_format(write: Callable[[Sequence[Report]], str]) -> None:
    ignored = FindingInfo("quantized-dimension", "note", "a dimension that TFLM ignores", None)
    mattering = FindingInfo("unread-constants", "note", "a constant that wastes flash", None)
    text = write((replace(PASSES, findings=(ignored, mattering)),))
    assert (ignored.message in text, mattering.message in text) == (False, True)


def test_what_several_targets_have_in_common_is_printed_once(planned: Callable[[str], Report]) -> None:
    common = FindingInfo("unread-constants", "note", "a constant that wastes flash", None)
    own = FindingInfo("plan-for-another-target", "warning", "planned for another target", None)
    error = FindingInfo("operator-not-in-runtime", "error", "tflm has no GELU (1x)", None)
    reports = [replace(planned(name), findings=(common, error)) for name in ("rpi-pico", "cortex-m3")]
    reports[0] = replace(reports[0], findings=(*reports[0].findings, own))
    rest, shared = without_shared(reports)
    assert shared == [common]
    assert [report.findings for report in rest] == [(error, own), (error,)]
    assert without_shared(reports[:1]) == (reports[:1], [])


def test_plan_prints_a_common_note_once() -> None:
    targets = ("-t", "rpi-pico", "-t", "nucleo-l476rg")
    shown = edgetool("plan", PERSON, *targets).stdout
    assert shown.count("note: metadata OfflineMemoryAllocation: the memory plan in the file is") == 1
    shown += edgetool("estimate", PERSON, *targets, "-v").stdout
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_the_last_line_of_a_layout_that_does_not_fit_is_the_verdict() -> None:
    audio = PERSON.parents[1] / "layout" / "audio.csv"
    report = layout_instance(audio)
    assert not plain(layout_view(report, everything=False))[-1].startswith("  Height")  # still on the screen
    layout = replace(report.layout, capacity=1024, fits=False)
    lines = plain(layout_view(replace(report, layout=layout), everything=False))
    assert lines[-1] == "  Does not fit: height 1,120 of 1,024 B"


@pytest.mark.parametrize("command", ["convert", "emit"])
def test_files_of_a_model_that_does_not_fit_end_with_the_verdict(command: str, tmp_path: Path) -> None:
    shown = edgetool(command, PERSON, "-t", "nucleo-f103rb", "-o", tmp_path / "files")
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[-1] == "  Does not fit: arena 35.7 of 20.0 KiB in sram"
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())


def test_a_shared_arena_that_does_not_fit_ends_with_the_verdict(tmp_path: Path) -> None:
    keywords = PERSON.parents[1] / "keyword_spotting" / "keyword_spotting.tflite"
    shown = edgetool("emit", PERSON, keywords, "--shared-arena", "-t", "nucleo-f103rb", "-o", tmp_path / "files")
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[-1].startswith("  Does not fit: the shared arena needs")
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())
