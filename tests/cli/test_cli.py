"""The program as a user meets it: exit codes, stdout and stderr; of each kind, one in a process of its own."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from edgetool import __version__
from edgetool.cli.main import COMMANDS
from edgetool.cli.targets import target_view
from edgetool.model.writer import write_model
from edgetool.target.load import list_targets, load_target
from tests.cli.program import edgetool, process
from tests.model.builders import conv_model_bytes, unary_model

EXTRAS = ("convert", "cp-sat", "fast", "onnx", "sweep", "torch", "verify")


def test_help_names_every_command_and_every_command_has_help() -> None:
    shown = edgetool("--help").stdout
    for name in COMMANDS:
        assert f"  {name} " in shown
        result = edgetool(name, "--help")
        assert result.returncode == 0
        assert f"Usage: edgetool {name} " in result.stdout


def test_version() -> None:
    assert process("--version").stdout.strip() == f"edgetool, version {__version__}"


@pytest.mark.parametrize("arguments", [("--version", "-v"), ("-v", "--version")])
def test_the_verbose_version_lists_python_and_every_extra(arguments: tuple[str, ...]) -> None:
    first, python, *packages = edgetool(*arguments).stdout.splitlines()
    assert first == f"edgetool, version {__version__}"
    assert python.split()[:3] == ["Python", platform.python_implementation(), platform.python_version()]
    labels = [line.split()[0] for line in packages if line[2] != " "]
    assert (labels[0], sorted(labels[1:])) == ("base", sorted(EXTRAS))
    assert f"numpy {importlib.metadata.version('numpy')}" in "\n".join(packages)
    assert not any("edgetool " in line for line in packages)
    assert all(len(line) <= 80 for line in packages)


def test_inspect_shows_and_prints_json(tflite: Path) -> None:
    shown = process("inspect", tflite, "--tensors")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "CONV_2D" in shown.stdout
    document = json.loads(edgetool("inspect", tflite, "--json").stdout)
    assert document["schema"] == "edgetool/1"
    assert document["subgraphs"][0]["operators"][0]["operator"] == "CONV_2D"
    assert document["subgraphs"][0]["operators"][0]["options"]["padding"] in ("SAME", "VALID")


def test_estimate_of_several_targets_is_one_document(tflite: Path) -> None:
    result = edgetool("estimate", tflite, "--target", "cortex-m4", "--target", "cortex-m7", "--json")
    reports = json.loads(result.stdout)["reports"]
    assert [report["target"]["name"] for report in reports] == ["cortex-m4", "cortex-m7"]
    for report in reports:
        latency = report["estimate"]["latency_ms"]
        assert latency["low"] < latency["value"] < latency["high"]
        assert report["estimate"]["validation"] == "extrapolated"


def test_the_document_states_what_determined_its_figures(tflite: Path) -> None:
    arguments = ("--target", "cortex-m4", "--clock", "100MHz", "--sram", "64KiB")
    options = json.loads(edgetool("estimate", tflite, *arguments, "--json").stdout)["provenance"]["options"]
    assert (options["target"], options["clock_hz"], options["sram_bytes"]) == ("cortex-m4", 100_000_000, 65536)


def test_emit_writes_c_files_together(tflite: Path, tmp_path: Path) -> None:
    result = edgetool("emit", tflite, "--target", "cortex-m7", "-o", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "main.cc",
        "my_model.h",
        "my_model_model.c",
        "my_model_model.h",
        "my_model_ops.h",
        "my_model_runner.cc",
        "my_model_runner.h",
    ]


def test_a_tflite_converts_to_all_files_reproducibly(tflite: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        result = process("convert", tflite, "--target", "cortex-m7", "-o", tmp_path / name)
        assert result.returncode == 0, result.stderr
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert first == second
    ends = (".tflite", ".json", ".h", "_model.c", "_model.h", "_ops.h", "_runner.h", "_runner.cc")
    assert set(first) == {"main.cc", *(f"my_model{end}" for end in ends)}
    assert str(tmp_path) not in first["my_model.json"].decode()


def test_strict_fails_a_model_that_does_not_fit(tflite: Path, tmp_path: Path) -> None:
    limits = ("--target", "cortex-m0plus", "--sram", "64", "--flash", "1MiB")
    relaxed = edgetool("convert", tflite, *limits, "-o", tmp_path / "relaxed")
    assert (relaxed.returncode, "too large" in relaxed.stdout) == (0, True)
    strict = process("convert", tflite, *limits, "-o", tmp_path / "strict", "--strict")
    assert strict.returncode == 1
    assert "too large" in strict.stdout
    assert not (tmp_path / "strict").exists()  # a build must not go on with it


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", 3),
        (b"hello, this is a text file\n", 3),
        (b"\x89HDF\r\n\x1a\n" + bytes(64), 3),
        (b"\x00" * 4096, 3),
        (conv_model_bytes()[:200], 3),
    ],
    ids=["empty", "text", "hdf5", "zeros", "truncated"],
)
@pytest.mark.parametrize("name", ["inspect", "plan", "emit"])
def test_a_bad_model_is_one_clear_line(tmp_path: Path, content: bytes, code: int, name: str) -> None:
    path = tmp_path / "bad.tflite"
    path.write_bytes(content)
    result = edgetool(name, path, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr.startswith(f"edgetool: error: {path}")
    assert len(result.stderr.splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["bad.tflite"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "none.tflite"),
        ("plan", "."),
        ("plan",),
        ("nonsense",),
        ("estimate", "none.tflite"),
        ("convert", "none.h5", "--target", "cortex-m7"),
        ("plan", "none.tflite", "--target", "cortex-m99"),
        ("plan", "none.tflite", "--target", "cortex-m7", "--sram", "lots"),
        ("plan", "none.tflite", "--sram", "1MiB"),
        ("targets", "show", "none.toml"),
    ],
)
def test_wrong_usage_is_exit_code_2(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = edgetool(*arguments, cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_output_that_cannot_be_written(tflite: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    result = process("emit", tflite, "-o", tmp_path / "file" / "out")
    assert (result.returncode, result.stdout) == (2, "")
    assert "not a directory" in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_an_output_error(tflite: Path) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "edgetool", "plan", str(tflite)], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert result.returncode == 2
    assert "No space left" in result.stderr


def test_a_deleted_current_directory_is_not_an_internal_error(tflite: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"rmdir {gone} && exec {sys.executable} -m edgetool emit '{tflite}'"
    result = subprocess.run(["sh", "-c", script], cwd=gone, capture_output=True, text=True)
    assert result.returncode == 2, result.stderr


def test_names_come_from_the_given_path_not_from_the_target_of_a_link(tflite: Path, tmp_path: Path) -> None:
    (tmp_path / "ds-cnn v1.tflite").symlink_to(tflite)
    (tmp_path / "日本.tflite").symlink_to(tflite)
    assert edgetool("emit", "ds-cnn v1.tflite", "-q", cwd=tmp_path).returncode == 0
    assert (tmp_path / "ds_cnn_v1-firmware" / "ds_cnn_v1.h").is_file()
    assert edgetool("emit", "日本.tflite", "-q", cwd=tmp_path).returncode == 0
    assert len(list(tmp_path.glob("model_????????-firmware"))) == 1


def test_strict_fails_a_model_that_the_runtime_cannot_run(tmp_path: Path) -> None:
    model = tmp_path / "gelu.tflite"
    model.write_bytes(write_model(unary_model("GELU")))
    result = edgetool("convert", model, "-t", "cortex-m7", "-o", tmp_path / "out", "--strict")
    assert (result.returncode, "does not support GELU" in result.stdout) == (1, True)


def test_a_closed_pipe_is_not_an_error(tflite: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "edgetool", "inspect", str(tflite), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


@pytest.mark.parametrize("name", ["inspect", "estimate"])
def test_a_report_never_replaces_the_model(tflite: Path, tmp_path: Path, name: str) -> None:
    model = tmp_path / "m.tflite"
    model.write_bytes(tflite.read_bytes())
    target = ("-t", "cortex-m4") if name == "estimate" else ()
    result = edgetool(name, model, *target, "-o", model, "--force")
    assert (result.returncode, "would overwrite the input" in result.stderr) == (2, True)
    assert model.read_bytes() == tflite.read_bytes()


@pytest.mark.parametrize("limit", ["nan", "inf", "0", "1e11"])
def test_invalid_time_limits_are_rejected(tmp_path: Path, limit: str) -> None:
    (tmp_path / "m.h5").write_bytes(b"x")
    result = edgetool("convert", "m.h5", "-t", "cortex-m7", "--time-limit", limit, cwd=tmp_path)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_settings_are_read_and_the_command_line_wins(tflite: Path, tmp_path: Path) -> None:
    (tmp_path / "edgetool.toml").write_text('target = "cortex-m4"\n[plan]\nsram = "64KiB"\n')
    document = json.loads(edgetool("plan", tflite, "--json", cwd=tmp_path).stdout)
    assert (document["target"]["core"], document["memory"]["sram_bytes"]) == ("cortex-m4", 65536)
    document = json.loads(edgetool("plan", tflite, "--json", "--target", "cortex-m33", cwd=tmp_path).stdout)
    assert document["target"]["core"] == "cortex-m33"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("tarqet = 'cortex-m7'", "tarqet"),
        ("[plan]\nsrma = '1MiB'", "plan.srma"),
        ("[plan]\nsram = 'lots'", "plan.sram"),
        ("[convert]\nsamples = 'many'", "convert.samples"),
        ("[emit]\ntarget = ['cortex-m4']", "emit.target"),
        ("sram = ['1MiB']", "sram"),
        ("plan = 3", "plan"),
        ("target =", "is not valid TOML"),
        ("plan = " + "[" * 3000, "nested too deeply"),
        ("sram = 0x" + "f" * 4000, "thousands of digits"),
        ("sram = {}", "sram"),
        ("sram = 1979-05-27", "sram"),
        (f"[convert]\nmean = 1{'0' * 400}", "convert.mean"),
        ("force = true", "cannot be set in a file"),
        ("[convert]\ntrust-model-code = true", "cannot be set in a file"),
    ],
)
def test_wrong_settings_name_file_and_key(tflite: Path, tmp_path: Path, text: str, named: str) -> None:
    (tmp_path / "edgetool.toml").write_text(text)
    result = edgetool("plan", tflite, cwd=tmp_path)
    assert result.returncode == 2
    assert "edgetool.toml" in result.stderr
    assert named in result.stderr


def test_one_target_in_the_settings_works_for_commands_that_accept_several(tflite: Path, tmp_path: Path) -> None:
    (tmp_path / "edgetool.toml").write_text('target = "cortex-m4"\n')
    document = json.loads(edgetool("estimate", tflite, "--json", cwd=tmp_path).stdout)
    assert document["target"]["core"] == "cortex-m4"
    (tmp_path / "edgetool.toml").write_text('[estimate]\ntarget = ["cortex-m4", "cortex-m7"]\n')
    assert len(json.loads(edgetool("estimate", tflite, "--json", cwd=tmp_path).stdout)["reports"]) == 2
    (tmp_path / "edgetool.toml").write_text('target = ["cortex-m4", "cortex-m7"]\n')
    assert len(json.loads(edgetool("estimate", tflite, "--json", cwd=tmp_path).stdout)["reports"]) == 2
    assert len(json.loads(edgetool("plan", tflite, "--json", cwd=tmp_path).stdout)["reports"]) == 2
    document = json.loads(edgetool("emit", tflite, "--json", cwd=tmp_path).stdout)  # takes one target
    assert document["target"] is None


def on_a_terminal(*arguments: str | Path, **environment: str) -> str:
    """What the command prints, stdout and stderr, to a terminal."""
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "edgetool", *map(str, arguments)]
    clean = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env={**clean, "TERM": "xterm", **environment})
    os.close(theirs)
    printed = b""
    with contextlib.suppress(OSError):  # Linux reports the closed end so
        while piece := os.read(ours, 65536):
            printed += piece
    os.close(ours)
    process.wait()
    return printed.decode()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_colour_on_a_terminal_unless_told_otherwise(tflite: Path) -> None:
    for arguments in (("plan", tflite), ("plan", "none.tflite")):
        assert "\x1b[" in on_a_terminal(*arguments)
        assert "\x1b[" not in on_a_terminal(*arguments, NO_COLOR="1")
    assert "\x1b" not in edgetool("plan", tflite).stdout


def test_targets_list_and_show() -> None:
    listed = json.loads(edgetool("targets", "list", "--json").stdout)["targets"]
    names = {target["name"] for target in listed}
    assert {"cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m85"} <= names
    assert len([target for target in listed if target["board"]]) >= 10
    assert json.loads(edgetool("targets", "show", "rpi-pico", "--json").stdout)["target"]["sram_bytes"] == 262144


@pytest.mark.parametrize("name", list_targets())
def test_every_profile_can_be_shown_with_its_sources(name: str) -> None:
    lines = target_view(load_target(name))
    assert any("checked" in line or "NOT CHECKED" in line for line in lines)
    assert all(len(line) <= 90 for line in lines)


def test_options_that_cannot_apply_are_not_ignored(tflite: Path, tmp_path: Path) -> None:
    (tmp_path / "samples.npy").write_bytes(b"")
    result = edgetool(
        "convert", tflite, "-t", "cortex-m7", "--calibration", "samples.npy", "--io", "uint8", cwd=tmp_path
    )
    assert result.returncode == 2
    assert "--calibration" in result.stderr
    assert "--io" in result.stderr
