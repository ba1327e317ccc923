"""What quantization cost is taken from the report of the very file that is checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.errors import UsageError
from edgetool.gate.limits import Limits
from edgetool.pipeline.report_file import quantizations
from edgetool.pipeline.source import open_tflite
from edgetool.report.document import Accuracy, OutputInfo, QuantizationInfo, Report
from edgetool.report.json import documents, to_json
from tests.model.builders import chain_model, conv_model
from tests.pipeline.checks import check, failed, write


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def converted(path: Path, accuracy: Accuracy | None, *, sha256: str | None = None) -> Report:
    """The report that convert would have written of it."""
    made = check(path).reports[0]
    source = open_tflite(path)
    output = OutputInfo(sha256 or source.sha256, len(source.blob))
    told = QuantizationInfo("int8", True, 10, accuracy=accuracy)
    return replace(made, model=replace(made.model, output=output), quantization=told, check=None)


def save(path: str, *reports: Report) -> Path:
    Path(path).write_text(to_json(documents(reports)), encoding="utf-8")
    return Path(path)


def test_the_accuracy_comes_from_the_report_beside_the_model(folder: Path) -> None:
    path, limits = write(conv_model()), Limits(max_accuracy_loss=1.0)
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
    path, limits = write(conv_model()), Limits(max_accuracy_loss=1.0)
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
