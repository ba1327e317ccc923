"""What `edgetool sweep` prints, from rows made by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgetool.cli.sweep_pareto import pareto_view
from edgetool.cli.sweep_run import progress_text, time_text
from edgetool.cli.view_sweep import numbers_text, savings, sweep_view, variant_text
from edgetool.report.document import Band
from edgetool.sweep.executor import SweepProgress
from edgetool.sweep.front import AXES
from edgetool.sweep.metrics import Metrics, Row
from edgetool.sweep.spec import SweepLimits
from tests.cli.sweeps import cost, marked, quality, record, row, sweep_rows


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def view(rows: Sequence[Row], *, everything: bool = False, all_rows: Sequence[Row] | None = None) -> list[str]:
    return [click.unstyle(line) for line in sweep_view(record(), rows, all_rows=all_rows, everything=everything)]


def text(lines: Sequence[str]) -> str:
    return " ".join(" ".join(lines).split())  # wherever it was wrapped


def table_of(lines: Sequence[str], number: int) -> str:
    """The line of a variant."""
    (found,) = (line for line in lines if line.lstrip("* ").split(" ")[0] == str(number))
    return found


def test_the_heading_shows_the_request_and_the_progress() -> None:
    head = text(view(sweep_rows()))
    assert head.startswith("keyword-spotting (keyword_spotting.h5) Variants 16 variants: 14 done, 1 failed, 1 pending,")
    assert "the arena at most 24KiB; 1 KiB of RAM reserved; latency at most 100 ms" in head


def test_a_table_per_target_with_memories_and_budgets() -> None:
    lines = view(sweep_rows())
    place = lines.index("pico: 64 KiB in sram, 2 MiB flash; 4 of 8 accepted")
    assert lines[place + 1] == "  Budgets violated: 16KiB (arena) by 5, 256KiB (flash) by 0, 24KiB (arena) by 3"
    assert lines[place + 2] == "    of 7"
    assert any(line.startswith("nucleo: ") for line in lines[place:])


def test_the_mark_names_its_axes_even_if_a_target_has_fewer_figures() -> None:
    all_rows = sweep_rows()
    whole = text(view(marked(all_rows)))
    assert "is at least as good in accuracy, latency, arena and model and better in at least one" in whole
    free = SweepLimits()
    rows = [row(1), row(2, target="nucleo", limits=free, metrics=Metrics(quality(), cost(1.0, latency_ms=None)))]
    assert "is at least as good in accuracy, latency (where known), arena and model and" in text(view(marked(rows)))
    rows = [row(1), row(2, target="nucleo", metrics=Metrics(quality(accuracy=None, agreement=None), cost(1.0)))]
    said = text(view(marked(rows)))
    assert "in accuracy (where known), SQNR (where no accuracy is known), latency, arena and model and" in said


def test_a_column_says_how_variants_were_planned_if_that_varies() -> None:
    planned = replace(row(1), variant=replace(row(1).variant, optimize=False, max_extra_macs=2.5))
    assert "not optimized, 2.5 % extra MACs" in table_of(view([planned, row(2)]), 1)
    assert "not optimized, 2.5 % extra MACs" in variant_text(planned.variant)
    assert "planned" not in text(view([row(1), row(2)]))


def test_every_variant_has_its_line_with_mark_and_verdict() -> None:
    rows = sweep_rows()
    lines = view(rows)
    assert {item.number for item in rows} == {
        int(line.lstrip("* ").split()[0]) for line in lines if re.match(r"[* ] +\d+ +\d+ %", line)
    }
    for item in rows:
        assert table_of(lines, item.number).startswith("*" if item.on_front else " ")
    assert table_of(lines, 11).split()[:7] == ["*", "11", "50", "%", "int8", "87.0", "%"]
    assert table_of(lines, 11).endswith("accepted")
    assert table_of(lines, 1).endswith("  SRAM, +2")
    assert table_of(lines, 15).endswith("pending")
    assert "  failed conve" in table_of(lines, 16)


def test_a_failure_is_reported_once_with_all_its_variants() -> None:
    rows = [row(n, status="failed", reason="the converter refused it\nbecause") for n in (2, 3, 4, 7)]
    assert "warning: variants 2-4, 7 failed: the converter refused it because" in text(view([row(1), *rows]))


def test_notes_are_grouped_and_long_lists_are_shown_with_v() -> None:
    rows = [row(n, notes=("layer word is left alone: it makes the output", f"note {n}")) for n in range(1, 10)]
    shown = text(view(rows))
    assert "note: layer word is left alone: it makes the output (variants 1-9)" in shown
    assert "note 9" not in shown
    assert "... and 4 more notes (-v shows all)" in shown
    assert "note: note 9 (variant 9)" in text(view(rows, everything=True))


def test_v_shows_every_reason_in_full_and_every_column() -> None:
    rows = [row(1, metrics=Metrics(quality(), cost(9.0, errors=("the runtime has no GELU",)))), row(2)]
    shown = text(view(rows, everything=True))
    for words in (
        "rejected: variant 1: the runtime has no GELU",
        "rejected: variant 1: the arena requires 180,000 B; sram has 64,512 B available",
        "band ms",
        "SQNR dB",
        "energy",
        "MACs",
    ):
        assert words in shown, words
    assert "Not shown" not in shown


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_it_fits_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for line in view(sweep_rows()):
        assert len(line) <= columns, line
        assert line.isascii()


def test_columns_without_room_are_named_and_the_least_important_are_dropped_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def header(columns: int) -> tuple[str, str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = view(sweep_rows())
        return next(line for line in lines if " verdict" in line), text(lines)

    wide, narrow = header(100), header(70)
    for name in ("arena", "accuracy", "latency"):
        assert name in wide[0]
        assert name in narrow[0]
    assert "SQNR" in wide[0]
    assert "SQNR" not in narrow[0]
    _, left_out = narrow[1].split("Not shown for lack of space: ")
    assert "SQNR dB" in left_out
    assert "(use -v, or 'edgetool sweep show --csv')" in left_out


def test_a_terminal_of_any_width_shows_every_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in (1, 20, 40):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = view(sweep_rows())
        for item in sweep_rows():
            assert table_of(lines, item.number)


def test_uninformative_columns_are_omitted() -> None:
    rows = [row(n, metrics=Metrics(quality(), cost(1.0, energy_uj=None))) for n in (1, 2)]
    lines = view(rows, everything=True)
    assert "energy" not in text(lines)
    assert "pending" in table_of(view([row(1, status="pending")]), 1)


def test_without_labels_the_column_is_agreement() -> None:
    rows = [row(n, metrics=Metrics(quality(None), cost(1.0))) for n in (1, 2)]
    shown = text(view(rows))
    assert "agreement: the fraction of samples with the same prediction as the original float model" in shown
    assert " accuracy " not in shown
    assert "99.0 %" in shown


def test_an_arena_that_is_only_a_lower_bound_says_so() -> None:
    unknown = cost(1.0, arena_bytes=None)
    assert ">=19.5 KiB" in table_of(view([row(1, metrics=Metrics(quality(), unknown))]), 1)


def test_equal_outputs_have_no_ratio() -> None:
    rows = [row(1, metrics=Metrics(quality(sqnr_db=None, equal=True), cost(1.0)))]
    assert "equal" in table_of(view(rows, everything=True), 1)


def test_a_ratio_that_is_not_known_is_not_equal() -> None:
    rows = [row(n, metrics=Metrics(quality(sqnr_db=value), cost(1.0))) for n, value in ((1, None), (2, 30.0))]
    line = table_of(view(rows, everything=True), 1)
    assert "equal" not in line
    assert " - " in line


def test_savings_are_against_the_same_variant_unpruned() -> None:
    rows = sweep_rows()
    found = savings(rows)
    assert found[5] == found[7] == "25/25/25"
    assert not {1, 2, 3, 4, 15, 16} & set(found)
    other = row(20, level=0.5, parameters=(("width", 0.5),))
    assert 20 not in savings([*rows, other])  # no such variant is unpruned


def test_savings_stay_when_only_some_rows_are_shown() -> None:
    rows = sweep_rows()
    some = [item for item in rows if item.variant.level == 0.5]
    lines = view(some, all_rows=rows, everything=True)
    assert "50/50/50" in table_of(lines, 11)
    assert "16 variants: 14 done, 1 failed, 1 pending, 8 accepted; 4 shown" in text(lines)


def test_values_that_all_variants_share_are_shown_once_without_a_column() -> None:
    lines = view([row(1), row(2)])
    assert "  All         int8, not pruned" in lines
    header = next(line for line in lines if line.endswith("verdict"))
    assert "precision" not in header
    assert "pruned" not in header
    assert "Not shown for lack of space: params" not in text(lines)


def test_parameters_have_columns_and_names_from_files_are_escaped() -> None:
    parameters = (("width\x1b[31m", 0.5), ("kind", "a\nb"))
    shown = view([row(1, parameters=parameters, target="\x1b]0;x\x07")], everything=True)
    assert all(line.isprintable() for line in shown)
    assert "\\x1b" in text(shown)
    assert variant_text(row(1, parameters=(("width", 0.5),), level=0.125).variant) == "width 0.5, pruned 12.5 %, int8"


def test_front_is_bold_rejected_dim_failed_red() -> None:
    styled = sweep_view(record(), sweep_rows())
    found = {click.unstyle(line).lstrip("* ").split(" ")[0]: line for line in styled}
    assert found["3"].startswith("\x1b[1m")
    assert found["1"].startswith("\x1b[2m")
    assert found["16"].startswith("\x1b[31m")


def test_no_limits_and_no_memories() -> None:
    bare = Metrics(quality(), cost(1.0, region=None, sram_bytes=None, flash_bytes=None))
    rows = [row(1, metrics=bare, limits=SweepLimits())]
    lines = [click.unstyle(line) for line in sweep_view(record(limits=SweepLimits()), rows)]
    assert "pico: no memory limits; 1 of 1 accepted" in lines
    assert "Accepted if" not in text(lines)
    assert "Budgets" not in text(lines)


def test_a_search_says_so() -> None:
    lines = [click.unstyle(line) for line in sweep_view(record(strategy="search"), sweep_rows())]
    assert "  Searched    for accuracy and latency, without evaluating the whole grid" in lines


def test_an_empty_sweep() -> None:
    assert (
        text(view([])) == "keyword-spotting (keyword_spotting.h5) Variants no variants yet Limits the arena "
        "at most 24KiB; 1 KiB of RAM reserved; latency at most 100 ms"
    )


@given(st.sets(st.integers(1, 60)))
def test_ranges_of_numbers_contain_exactly_the_given_numbers(numbers: set[int]) -> None:
    said: set[int] = set()
    for part in filter(None, numbers_text(numbers).split(", ")):
        first, _, last = part.partition("-")
        said |= set(range(int(first), int(last or first) + 1))
    assert said == numbers


# The front.


def front_view(rows: Sequence[Row], axes: tuple[str, ...] = ("latency_ms", "accuracy")) -> list[str]:
    return [click.unstyle(line) for line in pareto_view(record(), marked(rows, axes), axes)]


def test_the_front_is_sorted_with_what_each_step_costs() -> None:
    rows = [row(n, level=level) for n, level in enumerate((0.0, 0.25, 0.5, 0.75), 1)]
    rows.append(row(5, precision="float32"))
    lines = front_view(rows)
    assert lines[0] == "keyword-spotting: Pareto front for latency and accuracy"
    assert "pico: 4 of 4 accepted variants on the front, 1 rejected" in lines
    start = next(place for place, line in enumerate(lines) if line.split()[:1] == ["no"])
    shown = lines[start + 1 : start + 5]
    assert [int(line.split()[0]) for line in shown] == [4, 3, 2, 1]
    assert shown[0].split()[:5] == ["4", "15", "ms", "82.0", "%"]
    assert "+15 ms, +5.0 points" in shown[1]
    assert shown[1].endswith("pruned 50 %, int8")


@pytest.mark.parametrize("axis", [name for name in AXES if name != "accuracy"])
def test_every_axis_has_words(axis: str) -> None:
    rows = [row(n, level=level) for n, level in enumerate((0.0, 0.5), 1)]
    assert any("points" in line or axis == "sqnr_db" for line in front_view(rows, (axis, "accuracy")))


@pytest.mark.parametrize("columns", [80, 100])
def test_the_front_fits_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    rows = [row(n, level=level, precision="int8-dense-per-tensor") for n, level in enumerate((0.0, 0.25, 0.5), 1)]
    for line in front_view(rows):
        assert len(line) <= columns, line


def test_an_empty_front_says_why() -> None:
    assert "no variant is accepted" in text(front_view([row(1, precision="float32")]))
    unknown = Metrics(quality(), cost(1.0, energy_uj=None))
    shown = text(front_view([row(1, metrics=unknown)], ("energy_uj", "accuracy")))
    assert "none of the accepted variants (1) has a known value for energy" in shown
    assert "no variants yet" in text(front_view([]))


def test_equal_outputs_make_no_step_in_sqnr() -> None:
    equal = Metrics(quality(sqnr_db=None, equal=True), cost(1.0))
    worse = Metrics(quality(sqnr_db=20.0), cost(0.5))
    shown = text(front_view([row(1, metrics=equal), row(2, metrics=worse)], ("latency_ms", "sqnr_db")))
    assert "equal" in shown
    assert "+30 ms, -" in shown
    assert "inf" not in shown


# Progress.


def test_progress_in_words() -> None:
    assert progress_text(SweepProgress(12, 36, 1, ("converting p25 int8",), 170.0)) == (
        "12/36 jobs, 1 failed, about 3 min left: converting p25 int8"
    )
    assert progress_text(SweepProgress(0, 36, 0, ("a", "b"), None)) == "0/36 jobs: a, b"
    assert progress_text(SweepProgress(36, 36, 0, (), 0.0)) == "36/36 jobs"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (100, "12/36 jobs, about 3 min left: convert level 0.25, int8, prune level 0.5"),
        (75, "12/36 jobs, about 3 min left: convert level 0.25, int8, +1"),
        (55, "12/36, 3 min: convert level 0.25, int8, +1"),
        (50, "12/36 jobs, about 3 min left"),
        (30, "12/36, 3 min"),
        (20, "12/36, 3 m"),
    ],
)
def test_a_narrow_line_names_a_job_completely_or_not_at_all(
    columns: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    running = ("convert level 0.25, int8", "prune level 0.5")
    assert progress_text(SweepProgress(12, 36, 0, running, 170.0)) == said


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=300), st.integers(12, 100))
def test_progress_is_one_line(running: str, columns: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        shown = progress_text(SweepProgress(1, 2, 0, (running,), 1e6))
        assert len(shown) <= columns - 10
        assert shown.isprintable()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "1 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (170, "3 min"),
        (3599, "1 h"),
        (4800, "1 h 20 min"),
        (86399, "24 h"),
        (86400 * 2 + 3 * 3600, "2 d 3 h"),
    ],
)
def test_time_left(seconds: float, said: str) -> None:
    assert time_text(seconds) == said
    assert not math.isnan(seconds)


def test_a_band_is_reported_with_v() -> None:
    made = Metrics(quality(), cost(1.0, latency_ms=Band(0.5, 0.4, 0.75)))
    assert "0.40-0.75" in table_of(view([row(1, metrics=made), replace(row(2), number=2)], everything=True), 1)
