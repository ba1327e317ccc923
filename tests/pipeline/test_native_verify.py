"""Generated C against TFLM: equal outputs pass, and a wrong one is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetool.errors import MissingExtraError
from edgetool.execute import native as execute_native
from edgetool.execute.cores import MACHINES
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.native_verify import verify_native
from edgetool.target.load import load_target
from tests.model.builders import conv_model, residual_model

TARGET = load_target("cortex-m7")


def put(folder: Path, model: Model) -> Path:
    path = folder / "net.tflite"
    path.write_bytes(write_model(model))
    return path


@pytest.mark.slow
def test_verify_compares_the_code_with_tflm(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    path = put(tmp_path, residual_model())
    report = verify_native(path, TARGET, samples=4)
    assert report.verify is not None
    assert report.verify.passed
    assert report.verify.native
    runs, equal, cores = report.verify.checks
    assert [check.check for check in (runs, equal, cores)] == ["native-runs", "outputs-equal", "native-on-cores"]
    assert runs.passed
    assert equal.passed
    assert cores.passed is (None if MACHINES["cortex-m7"].missing_tools else True)
    assert report.verify.samples.random == 4


@pytest.mark.slow
def test_verify_finds_a_wrong_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tflite_micro")
    path = put(tmp_path, conv_model())
    compiled = execute_native.run_native

    def wrong(files: dict[str, bytes], *rest: object, **options: object) -> object:
        (weights,) = [name for name in files if name.endswith("_weights.c")]
        text = files[weights].decode()
        start = text.index("{\n") + 2
        number = text[start:].split(",")[0].strip()
        changed = text[:start] + text[start:].replace(number, f"{int(number.rstrip('U')) ^ 0x00400040}U", 1)
        return compiled({**files, weights: changed.encode()}, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("edgetool.pipeline.native_verify.run_native", wrong)
    report = verify_native(path, TARGET, samples=4)
    assert report.verify is not None
    assert not report.verify.passed
    assert [check.passed for check in report.verify.checks][:2] == [True, False]
    assert report.verify.checks[1].difference is not None


def test_verify_without_a_compiler_is_a_named_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tflite_micro")
    path = put(tmp_path, conv_model())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtraError, match="needs a C compiler"):
        verify_native(path, samples=1)
