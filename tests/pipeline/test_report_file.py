"""Reports are read from files that may be anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.pipeline import report_file
from edgetool.pipeline.report_file import chosen, read_reports, reports_in
from tests.pipeline.reports import whole_report, write_reports


def test_one_and_several(tmp_path: Path) -> None:
    one, two = whole_report("one"), whole_report("two", target=None)
    (only,) = read_reports(write_reports(tmp_path / "one.json", one))
    assert only == one
    for target in (None, "another"):  # the only one, whatever its target
        assert chosen([one], target, where="x") == one
    path = write_reports(tmp_path / "two.json", one, two)
    assert read_reports(path) == (one, two)
    assert chosen([one, two], "one", where="x") == one
    for target in (None, "no target"):
        with pytest.raises(UsageError, match=r"on one, vww_96_int8\.tflite on no target") as caught:
            chosen(read_reports(path), target, where=str(path))
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
