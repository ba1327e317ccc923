"""Operators of two models are paired by the sequence of their labels.

Two models side by side: figures that are those of their reports, and nothing guessed.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import fields, replace
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.cli.compare import compare_view
from edgetool.errors import ModelError, UsageError
from edgetool.model.writer import write_model
from edgetool.pipeline.compare import FIGURES, aligned, compare_models, figure_changes, joined
from edgetool.pipeline.estimate import estimate_file
from edgetool.pipeline.native import plan_native
from edgetool.pipeline.plan import plan_model
from edgetool.pipeline.source import sha256_of
from edgetool.pipeline.targets import resolve_named, resolve_target
from edgetool.report.comparison import CompareReport, FigureChange, comparison_document
from edgetool.report.document import Band, OperatorInfo, OutputInfo, Report
from edgetool.report.json import documents, read_reports, to_json
from tests.cli.estimates import estimate, operator
from tests.conftest import examples
from tests.model.builders import branches_model, chain_model, residual_model
from tests.pipeline.reports import arena, whole_report, write_reports


def operators(labels: str, sizes: list[int] | None = None) -> list[OperatorInfo]:
    return [
        operator(index, 1.0, operator=label, macs=(sizes or [1] * len(labels))[index], parameter_bytes=0)
        for index, label in enumerate(labels)
    ]


def shown(a: list[OperatorInfo], b: list[OperatorInfo]) -> list[str]:
    return [f"{'-' if x is None else x.index}{'-' if y is None else y.index}" for x, y in aligned(a, b)]


def test_equal_sequences_pair_in_place_whatever_they_compute() -> None:
    assert shown(operators("CDC", [1, 2, 3]), operators("CDC", [3, 1, 2])) == ["00", "11", "22"]


def test_an_operator_in_the_middle_is_added_and_one_at_the_end_removed() -> None:
    assert shown(operators("CDCF"), operators("CADC")) == ["00", "-1", "12", "23", "3-"]


def test_equal_work_is_preferred_to_equal_labels_when_pairing() -> None:
    assert shown(operators("CCC", [1, 2, 3]), operators("CCCC", [1, 9, 2, 3])) == ["00", "-1", "12", "23"]
    assert shown(operators("ACCB", [5, 1, 2, 5]), operators("ACB", [6, 2, 6])) == ["00", "1-", "21", "32"]


def test_copies_for_stripes_are_one_operator() -> None:
    stripes = [replace(item, copy_of=item.index % 2) for item in operators("CDCD", [1, 2, 3, 4])]
    first, second = joined([*stripes, replace(operators("F")[0], index=4)])[:2]
    assert (first.macs, second.macs, first.ms.value) == (4, 6, 2.0)
    assert shown(operators("CDF"), joined([*stripes, replace(operators("F")[0], index=4)])) == ["00", "11", "24"]


def test_subgraphs_are_aligned_on_their_own() -> None:
    loop = [operator(0, 1.0, operator="C", subgraph=1)]
    assert shown([*operators("C"), *loop], [*operators("CC"), *loop]) == ["00", "-1", "00"]


def test_long_sequences_do_not_take_for_ever() -> None:
    a, b = operators("CD" * 1500), operators("C" + "DC" * 1500)
    started = time.monotonic()
    pairs = aligned(a, b)
    assert time.monotonic() - started < 5
    assert sum(None not in pair for pair in pairs) == len(a)


LABELS = st.lists(st.sampled_from("CDF"), max_size=8).map("".join)
SIZES = st.lists(st.integers(1, 2), min_size=8, max_size=8)


@given(LABELS, LABELS, SIZES, SIZES)
def test_every_operator_is_listed_once_and_in_order(a: str, b: str, first: list[int], second: list[int]) -> None:
    left, right = operators(a, first), operators(b, second)
    pairs = aligned(left, right)
    assert [x for x, _ in pairs if x is not None] == left
    assert [y for _, y in pairs if y is not None] == right
    assert all(x is None or y is None or x.operator == y.operator for x, y in pairs)
    mirrored = aligned(right, left)
    assert sum(None not in pair for pair in pairs) == sum(None not in pair for pair in mirrored)


BOARD = "nucleo-l4r5zi"
WHOLE = whole_report()


def figure(found: CompareReport | tuple[Report, Report], name: str) -> FigureChange:
    changes = found.compare.figures if isinstance(found, CompareReport) else figure_changes(*found)
    (change,) = [item for item in changes if item.figure == name]
    return change


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models, the branches with a plan in their file, too."""
    path = tmp_path_factory.mktemp("compare")
    (path / "residual.tflite").write_bytes(write_model(residual_model()))
    (path / "chain.tflite").write_bytes(write_model(chain_model(3)))
    (path / "branches.tflite").write_bytes(write_model(branches_model()))
    plan_model(path / "branches.tflite", resolve_target(BOARD), output=path / "planned.tflite")
    return path


def test_models_have_the_figures_of_their_own_reports(folder: Path) -> None:
    paths = folder / "residual.tflite", folder / "chain.tflite"
    found = compare_models(*paths, BOARD)
    reports = [estimate_file(path, [resolve_target(BOARD)])[0] for path in paths]
    for side, made in zip("ab", reports, strict=True):
        assert made.estimate is not None
        assert made.estimate.latency_ms is not None
        figures = {item.figure: getattr(item, side) for item in found.compare.figures}
        assert figures["macs"] == made.estimate.macs
        assert figures["latency_ms"] == made.estimate.latency_ms.value
        assert figures["model_bytes"] == made.model.bytes
        assert figures["accuracy"] is None
    change = figure(found, "macs")
    assert change.change == change.b - change.a  # type: ignore[operator]  # both are known
    assert found.findings == ()
    assert to_json(comparison_document(found)).startswith('{\n  "schema": "edgetool/1"')


def test_a_file_is_judged_as_it_is(folder: Path) -> None:
    """The unplanned file needs what TFLM's own planner makes of it, however well edgetool could plan it."""
    found = compare_models(folder / "branches.tflite", folder / "planned.tflite", BOARD)
    assert (found.compare.a.planner, found.compare.b.planner) == ("runtime", "file")
    planned = plan_model(folder / "branches.tflite", resolve_target(BOARD)).arena
    assert planned is not None
    change = figure(found, "arena_bytes")
    assert (change.a, change.b) == (planned.stock_bytes, planned.bytes)
    assert change.change is not None
    assert change.change < 0
    assert figure(found, "macs").change == 0


def test_a_model_and_a_report(folder: Path, tmp_path: Path) -> None:
    (made,) = estimate_file(folder / "chain.tflite", [resolve_target(BOARD)])
    path = write_reports(tmp_path / "chain.json", made)
    found = compare_models(folder / "chain.tflite", path, BOARD)
    assert (found.compare.a.kind, found.compare.b.kind, found.compare.b.command) == ("model", "report", "estimate")
    assert found.compare.a.sha256 == found.compare.b.sha256
    assert [item.figure for item in found.compare.figures if item.change] == []
    assert found.findings == ()


def test_accuracy_of_a_model_is_in_the_report_beside_it(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "kws.tflite"
    model.write_bytes((folder / "chain.tflite").read_bytes())
    made = whole_report()
    output = OutputInfo(sha256_of(model.read_bytes()), model.stat().st_size)
    write_reports(tmp_path / "kws.json", replace(made, model=replace(made.model, output=output)))
    found = compare_models(folder / "chain.tflite", model, BOARD)
    assert (figure(found, "accuracy").a, figure(found, "accuracy").b) == (None, 0.96)
    model.write_bytes((folder / "residual.tflite").read_bytes())  # the report is of another file now
    assert figure(compare_models(folder / "chain.tflite", model, BOARD), "accuracy").b is None


def test_a_plan_report_has_no_estimate_and_none_is_invented(folder: Path, tmp_path: Path) -> None:
    made = plan_model(folder / "chain.tflite", resolve_target(BOARD))
    found = compare_models(folder / "chain.tflite", write_reports(tmp_path / "plan.json", made), BOARD)
    latency = figure(found, "latency_ms")
    assert latency.a is not None
    assert (latency.b, latency.change, latency.change_percent, latency.certain) == (None, None, None, None)
    assert found.compare.operators is None
    assert found.compare.operator_kinds is None


def test_operators_are_counted_and_aligned(folder: Path) -> None:
    found = compare_models(folder / "chain.tflite", folder / "residual.tflite", BOARD).compare
    assert found.operator_kinds is not None
    assert found.operators is not None
    kinds = {item.operator: (item.a, item.b) for item in found.operator_kinds}
    assert kinds["CONV_2D"] == (3, 2)
    assert kinds["SOFTMAX"] == (0, 1)
    both = [(item.a, item.b) for item in found.operators if item.operator == "CONV_2D"]
    assert len([pair for pair in both if None not in pair]) == 2
    assert {item.b for item in found.operators} - {None} == {f"0:{index}" for index in range(8)}
    new = next(item for item in found.operators if item.operator == "SOFTMAX")
    assert (new.a, new.a_ms, new.a_macs) == (None, None, None)
    assert new.b_ms


def test_percent_of_nothing_is_not_infinite() -> None:
    zero = whole_report(estimate=estimate(macs=0))
    some = whole_report(estimate=estimate(macs=500))
    assert (figure((zero, some), "macs").change, figure((zero, some), "macs").change_percent) == (500, None)
    assert (figure((some, zero), "macs").change, figure((some, zero), "macs").change_percent) == (-500, -100.0)
    assert (figure((zero, zero), "macs").change, figure((zero, zero), "macs").change_percent) == (0, 0.0)


@pytest.mark.parametrize(
    ("a", "b", "certain"),
    [
        (Band(10, 9, 12), Band(11, 10, 13), False),
        (Band(10, 9, 12), Band(13, 12, 14), False),  # they touch
        (Band(10, 9, 11), Band(13, 12, 14), True),
        (Band(13, 12, 14), Band(10, 9, 11), True),
        (Band(10, 9, 11), Band(10, 9, 11), None),  # there is no difference to be sure of
        (Band(10, 9, 11), None, None),
    ],
)
def test_a_difference_within_the_bands_is_not_certain(a: Band, b: Band | None, certain: bool | None) -> None:
    reports = whole_report(estimate=estimate(latency_ms=a)), whole_report(estimate=estimate(latency_ms=b))
    change = figure(reports, "latency_ms")
    assert change.certain is certain
    assert change.a_band == (a.low, a.high)


def test_figures_that_follow_from_the_latency_are_as_uncertain() -> None:
    a = whole_report(estimate=estimate(latency_ms=Band(10, 8, 20), bandwidth_gbps=0.4, stream_utilization=0.5))
    b = whole_report(estimate=estimate(latency_ms=Band(8, 5, 10), bandwidth_gbps=0.5, stream_utilization=0.4))
    bandwidth, stream = figure((a, b), "bandwidth_gbps"), figure((a, b), "stream_utilization")
    assert bandwidth.a_band == pytest.approx((0.2, 0.5))
    assert bandwidth.b_band == pytest.approx((0.4, 0.8))
    assert stream.b_band == pytest.approx((0.25, 0.5))
    assert (bandwidth.certain, stream.certain) == (False, False)


def test_an_arena_that_is_only_a_lower_bound_gives_no_certain_difference() -> None:
    exact = whole_report()
    above = arena(exact, bytes=200_000, is_lower_bound=True)
    below = arena(exact, bytes=50_000, is_lower_bound=True)
    assert figure((exact, above), "arena_bytes").certain is True  # it needs more than that, and A needs less
    assert figure((exact, below), "arena_bytes").certain is False
    assert figure((exact, below), "arena_bytes").b_band == (50_000, None)
    assert figure((exact, below), "layout_bytes").b_band is None
    unknown = arena(exact, bytes=None, is_lower_bound=True)
    assert figure((exact, unknown), "arena_bytes").change is None


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_changes_add_up(a: int, b: int) -> None:
    change = figure((arena(whole_report(), bytes=a), arena(whole_report(), bytes=b)), "arena_bytes")
    assert change.a == a
    assert change.b == b
    assert change.change == b - a
    if a:
        assert change.change_percent is not None
        assert a * (1 + change.change_percent / 100) == pytest.approx(b, abs=1e-3)


def test_the_minimum_of_several_outputs_counts_unless_one_is_unknown() -> None:
    made = whole_report()
    assert made.quantization is not None
    (output,) = made.quantization.outputs
    two = replace(made, quantization=replace(made.quantization, outputs=(output, replace(output, sqnr_db=20.0))))
    equal = replace(made, quantization=replace(made.quantization, outputs=(output, replace(output, sqnr_db=None))))
    assert figure((made, two), "sqnr_db").b == 20.0
    assert figure((made, equal), "sqnr_db").b is None
    assert figure((made, two), "accuracy").b == 0.96
    assert len({name for name, _, _ in FIGURES}) == len(FIGURES)


def test_different_targets_and_builds_are_reported(tmp_path: Path) -> None:
    first, other = whole_report("one"), whole_report("two")
    assert first.target is not None
    path = write_reports(tmp_path / "one.json", first)
    found = compare_models(path, write_reports(tmp_path / "two.json", other))
    assert [(item.rule, item.level) for item in found.findings] == [("targets-differ", "warning")]
    options = {**first.provenance.options, "clock_hz": 60_000_000}
    slower = replace(
        first,
        target=replace(first.target, kernels="reference", runtime="tflm-2027"),
        provenance=replace(first.provenance, options=options, tool="edgetool 9"),
    )
    found = compare_models(path, write_reports(tmp_path / "slower.json", slower))
    assert [item.rule for item in found.findings] == ["builds-differ"] * 3 + ["tools-differ"]
    assert "120 MHz in A, 60 MHz in B" in found.findings[2].message


def test_one_of_several_reports_is_chosen_by_target(tmp_path: Path) -> None:
    several = write_reports(tmp_path / "several.json", whole_report("one"), whole_report("two"))
    single = write_reports(tmp_path / "two.json", whole_report("two"))
    found = compare_models(several, single, "two")
    assert found.compare.a.target == found.compare.b.target
    with pytest.raises(UsageError) as caught:
        compare_models(several, single)
    assert "2 reports (vww_96_int8.tflite on one, vww_96_int8.tflite on two)" in caught.value.what
    assert caught.value.where == str(several)
    assert "--target" in (caught.value.fix or "")
    with pytest.raises(UsageError, match="none for target three"):
        compare_models(several, single, "three")
    twice = write_reports(tmp_path / "twice.json", whole_report("one"), whole_report("one"))
    with pytest.raises(UsageError, match="2 for target one"):
        compare_models(twice, single, "one")
    with pytest.raises(UsageError, match="neither report is for target three; they are for two"):
        compare_models(single, single, "three")


FIELDS = [
    (section, item.name) for section in ("arena", "estimate", "model") for item in fields(getattr(WHOLE, section))
]
VALUES = (
    st.none() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9)
)


@given(st.lists(st.tuples(st.sampled_from(FIELDS), VALUES), max_size=4), st.booleans())
@examples(300)
def test_any_report_is_shown_or_rejected(changes: list[tuple[tuple[str, str], object]], turned: bool) -> None:
    """Figures that are read never bring a figure that JSON or the terminal cannot hold."""
    document = json.loads(to_json(documents([WHOLE])))
    for (section, name), value in changes:
        document[section][name] = value
    try:
        (odd,) = read_reports(document)
    except UsageError:
        return
    with tempfile.TemporaryDirectory() as folder:
        paths = [write_reports(Path(folder) / name, found) for name, found in (("a.json", WHOLE), ("b.json", odd))]
        found = compare_models(*(paths[::-1] if turned else paths))
    assert json.loads(to_json(comparison_document(found)))
    assert all(click.unstyle(line).isascii() for line in compare_view(found, everything=True))


def test_wrong_use(folder: Path, tmp_path: Path) -> None:
    model = folder / "chain.tflite"
    made = write_reports(tmp_path / "report.json", whole_report())
    with pytest.raises(UsageError, match="no target is specified"):
        compare_models(model, model)
    with pytest.raises(UsageError, match="no target is specified"):
        compare_models(made, model)
    with pytest.raises(UsageError, match="cannot be applied to reports"):
        compare_models(made, made, BOARD, overrides={"clock": 1_000_000, "sram": None})
    with pytest.raises(UsageError, match="cannot be read"):
        compare_models(made, tmp_path / "none.json")
    for content, kind in ((b"{}", UsageError), (b"\xff{", ModelError), (b"", ModelError), (b"hello", ModelError)):
        (tmp_path / "odd").write_bytes(content)
        with pytest.raises(kind):
            compare_models(tmp_path / "odd", made, BOARD)
    (tmp_path / "odd.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(UsageError, match="UTF-8"):
        compare_models(tmp_path / "odd.json", made)


def test_native_code_has_its_own_arena_and_flash(folder: Path) -> None:
    compared = compare_models(
        folder / "chain.tflite", folder / "planned.tflite", BOARD, overrides={"runtime": "native"}
    )
    assert compared.compare.a.planner == compared.compare.b.planner == "edgetool"
    assert compared.findings == ()
    target = resolve_named(BOARD, runtime="native")
    for side, name in (("a", "chain.tflite"), ("b", "planned.tflite")):
        described = plan_native(folder / name, target)
        assert described.arena is not None
        assert described.flash is not None
        values = [getattr(figure(compared, item), side) for item in ("arena_bytes", "model_bytes", "tail_bytes")]
        assert values == [described.arena.bytes, described.flash.model_bytes, 0]
        assert described.estimate is not None
        assert described.estimate.latency_ms is not None
        assert getattr(figure(compared, "latency_ms"), side) == described.estimate.latency_ms.value
