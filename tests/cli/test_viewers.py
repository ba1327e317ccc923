"""`edgetool report --format`: files for Model Explorer and Perfetto, whole or not at all, and where they go."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetool.model.writer import write_model
from edgetool.pipeline.source import open_tflite
from tests import hostile_names
from tests.cli.test_hostile_names import check_terminal, edgetool
from tests.model.builders import residual_model, unary_model
from tests.report.trace_format import read_trace

TARGET = ("-t", "cortex-m4")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("model.tflite")
    path.write_bytes(write_model(residual_model()))
    return path


def test_a_trace_goes_to_stdout_or_a_file(model: Path) -> None:
    printed = edgetool("report", model, *TARGET, "--format", "perfetto")
    assert (printed.code, printed.err) == (0, "")
    assert read_trace(printed.out).slices("inference on cortex-m4")
    written = edgetool("report", model, *TARGET, "--format", "perfetto", "-o", "t.json")
    assert (written.code, written.out, written.err) == (0, "", "wrote t.json\n")
    assert Path("t.json").read_text(encoding="utf-8") == printed.out
    again = edgetool("report", model, *TARGET, "--format", "perfetto", "-o", "t.json")
    assert again.code == 2
    assert "already exists" in again.err


def test_node_data_goes_to_a_folder(model: Path) -> None:
    names = ["arena.json", "macs.json", "time.json"]
    done = edgetool("report", model, *TARGET, "--format", "model-explorer")
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines() == [f"wrote model-explorer/{name}" for name in ("time.json", *names[:2])]
    assert sorted(path.name for path in Path("model-explorer").iterdir()) == names
    before = {path: path.read_bytes() for path in Path("model-explorer").iterdir()}
    assert edgetool("report", model, *TARGET, "--format", "model-explorer").code == 2
    quiet = edgetool("report", model, *TARGET, "--format", "model-explorer", "--force", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    assert {path: path.read_bytes() for path in Path("model-explorer").iterdir()} == before
    assert edgetool("report", model, *TARGET, "--format", "model-explorer", "-o", "other").code == 0
    assert sorted(path.name for path in Path("other").iterdir()) == names


def test_node_data_of_an_earlier_run_does_not_remain_beside_new_data(model: Path) -> None:
    Path("nodes").mkdir()
    for name in ("error.json", "mine.json"):
        Path("nodes", name).write_text("{}")
    words = ("report", model, *TARGET, "--format", "model-explorer", "-o", "nodes")
    refused = edgetool(*words)
    assert (refused.code, "error.json: already exists" in refused.err) == (2, True)
    done = edgetool(*words, "--force")
    assert (done.code, done.err.splitlines()[-1]) == (0, "removed nodes/error.json")
    assert sorted(path.name for path in Path("nodes").iterdir()) == [
        "arena.json",
        "macs.json",
        "mine.json",
        "time.json",
    ]


def test_native_code_has_no_custom_operators(model: Path) -> None:
    Path("custom.toml").write_text("")
    done = edgetool("report", model, "--runtime", "native", "--custom-operators", "custom.toml")
    assert (done.code, "--custom-operators does not apply to native code" in done.err) == (2, True)


@pytest.mark.parametrize("form", ["model-explorer", "perfetto"])
def test_what_cannot_be_written_is_refused(model: Path, form: str) -> None:
    Path("file").write_text("")
    several = edgetool("report", model, *TARGET, "-t", "cortex-m7", "--format", form)
    assert several.code == 2
    assert "shows one target" in several.err
    for output in ("file/below", model):
        assert edgetool("report", model, *TARGET, "--format", form, "-o", output, "--force").code == 2
    assert model.read_bytes() == write_model(residual_model())
    assert sorted(path.name for path in Path().iterdir()) == ["file", "model.tflite"]


def test_models_of_any_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("named").mkdir()
    for path in hostile_names.write_models(Path("named"), write_model(unary_model("RELU")))[::2]:
        trace = edgetool("report", *TARGET, "--format", "perfetto", "--", path)
        check_terminal(trace.out)
        check_terminal(trace.err)
        whole, *_ = read_trace(trace.out).slices("inference")
        assert whole.args["model"] == open_tflite(path).name
    done = edgetool("report", *TARGET, "--format", "model-explorer", "-o", "::error\n::x", "--", path)
    assert done.code == 0
    check_terminal(done.err)


def test_the_format_can_be_a_setting(model: Path) -> None:
    Path("edgetool.toml").write_text('[report]\ntarget = ["cortex-m4"]\nformat = "perfetto"\n')
    assert read_trace(edgetool("report", model).out).slices("inference on cortex-m4")
