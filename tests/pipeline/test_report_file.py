"""Reports are read from files that may be anything.

What quantization cost is taken from the report of the very file that is checked.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.gate.limits import ModelLimits
from edgetool.pipeline import report_file
from edgetool.pipeline.report_file import quantizations, read_reports, reports_in, select_report
from edgetool.pipeline.source import open_tflite
from edgetool.report.document import Accuracy, OutputInfo, QuantizationInfo, Report
from edgetool.report.json import documents, to_json
from tests.model.builders import chain_model, conv_model
from tests.pipeline.checks import check, failed, write
from tests.pipeline.reports import whole_report, write_reports


def test_one_and_several(tmp_path: Path) -> None:
    one, two = whole_report("one"), whole_report("two", target=None)
    (only,) = read_reports(write_reports(tmp_path / "one.json", one))
    assert only == one
    for target in (None, "another"):  # the only one, whatever its target
        assert select_report([one], target, where="x") == one
    path = write_reports(tmp_path / "two.json", one, two)
    assert read_reports(path) == (one, two)
    assert select_report([one, two], "one", where="x") == one
    for target in (None, "no target"):
        with pytest.raises(UsageError, match=r"on one, vww_96_int8\.tflite on no target") as caught:
            select_report(read_reports(path), target, where=str(path))
        assert caught.value.where == str(path)


def test_every_error_names_the_file_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_reports(tmp_path / "report.json", whole_report())
    odd = {"utf16": "{}".encode("utf-16"), "text": b"hello", "list": b"[]", "cut": path.read_bytes()[:-9], "empty": b""}
    for name, content in odd.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError) as caught:
            read_reports(tmp_path / name)
        assert caught.value.where == str(tmp_path / name)
        assert caught.value.fix
    for missing in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match="a report"):
            read_reports(missing)
    monkeypatch.setattr(report_file, "MAX_REPORT_BYTES", 100)
    with pytest.raises(UsageError, match="too large"):
        read_reports(path)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_words(blob: bytes) -> None:
    with pytest.raises(UsageError):
        reports_in(blob, where="x.json")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def converted(path: Path, accuracy: Accuracy | None, *, sha256: str | None = None) -> Report:
    """The report that convert would have written of it."""
    made = check(path).reports[0]
    source = open_tflite(path)
    output = OutputInfo(sha256 or source.sha256, len(source.blob))
    reported = QuantizationInfo("int8", True, 10, accuracy=accuracy)
    return replace(made, model=replace(made.model, output=output), quantization=reported, check=None)


def save(path: str, *reports: Report) -> Path:
    Path(path).write_text(to_json(documents(reports)), encoding="utf-8")
    return Path(path)


def test_the_accuracy_comes_from_the_report_beside_the_model(folder: Path) -> None:
    path, limits = write(conv_model()), ModelLimits(max_accuracy_loss=1.0)
    assert failed(check(path, limits=limits)) == ["accuracy"]
    made = converted(path, Accuracy(0.9, 0.895))
    save("m.json", made)
    checked = check(path, limits=limits)
    assert checked.passed
    assert checked.reports[0].quantization == made.quantization
    assert failed(check(path, limits=replace(limits, max_accuracy_loss=0.4))) == ["accuracy"]
    write(chain_model(2))  # the report is of the old file now
    assert failed(check(path, limits=limits)) == ["accuracy"]
    Path("m.json").write_text("{", encoding="ascii")  # may be anybody's
    assert failed(check(path, limits=limits)) == ["accuracy"]


def test_a_report_that_is_given_must_be_one_of_the_models(folder: Path) -> None:
    path, limits = write(conv_model()), ModelLimits(max_accuracy_loss=1.0)
    right = save("right.json", converted(path, Accuracy(0.9, 0.9)))
    assert check(path, limits=limits, reports=(right,)).passed
    wrong = save("wrong.json", converted(path, Accuracy(0.9, 0.9), sha256="0" * 64))
    plain = save("plain.json", check(path).reports[0])
    foreign = Path("foreign.json")
    foreign.write_text('{"schema": "else"}', encoding="ascii")
    cut = Path("cut.json")
    cut.write_bytes(right.read_bytes()[:-200])
    for report, said in (
        (wrong, "for a file other than the given models"),
        (plain, "not a report of a conversion"),
        (foreign, "schema"),
        (cut, "JSON"),
        (Path("none.json"), "cannot be read"),
    ):
        with pytest.raises(UsageError, match=said) as raised:
            check(path, limits=limits, reports=(report,))
        assert str(report) in str(raised.value)


def test_reports_are_matched_to_models_by_hash(folder: Path) -> None:
    paths = [write(conv_model(), "a.tflite"), write(chain_model(2), "b.tflite")]
    given = save("b report.json", converted(paths[1], Accuracy(0.5, 0.4)))
    first, second = quantizations(paths, [open_tflite(path) for path in paths], [given])
    assert first is None
    assert second is not None
    assert second.accuracy == Accuracy(0.5, 0.4)
