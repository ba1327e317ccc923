"""What an update of the runtime changes, in check and in compare."""

from __future__ import annotations

import json
from pathlib import Path
from struct import pack

import pytest

from edgetool.model.types import DType, Model
from edgetool.model.writer import write_model
from tests.cli.program import edgetool
from tests.memory.account_net import Net
from tests.model.builders import Builder, options

OLD, NEW = "tflm-2025-06", "tflm-2026-08"
RUNTIMES = ("--runtime", OLD, "--runtime", NEW)
BOARD = ("--target", "nucleo-l4r5zi")
SIZE = 8


def mean_model() -> Model:
    """A MEAN over rows and columns: its position and axes are in scratch since January 2026, 16 bytes each."""
    net = Builder()
    source = net.activation((1, SIZE, SIZE, 4))
    axes = net.tensor((2,), DType.INT32, data=pack("<2i", 1, 2))
    result = net.activation((1, 4))
    net.operator("MEAN", [source, axes], [result], options("ReducerOptions", keep_dims=False))
    return net.model([source], [result])


def reverse_model() -> Model:
    """A REVERSE_V2, which TFLM has since July 2025."""
    net = Builder()
    source = net.activation((4, 4))
    axis = net.tensor((1,), DType.INT32, data=pack("<i", 0))
    result = net.activation((4, 4))
    net.operator("REVERSE_V2", [source, axis], [result])
    return net.model([source], [result])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("drift")
    for name, model in (("mean", mean_model()), ("reverse", reverse_model())):
        (folder / f"{name}.tflite").write_bytes(write_model(model))
    return folder / "mean.tflite", folder / "reverse.tflite"


def test_an_update_that_needs_more_fails_and_says_why(models: tuple[Path, Path], tmp_path: Path) -> None:
    lock = ("--lock", tmp_path / "edgetool.lock")
    shown = edgetool("check", models[0], *BOARD, *RUNTIMES, *lock)
    assert shown.returncode == 1
    assert f"nucleo-l4r5zi, {NEW} FAILS" in shown.stdout
    assert "operator 0 MEAN scratch" in shown.stdout
    assert f"the runtime changed from {OLD} (" in " ".join(shown.stdout.split())
    allowed = edgetool("check", models[0], *BOARD, *RUNTIMES, *lock, "--allow-growth", "1KiB", "--json")
    assert allowed.returncode == 0
    first, second = json.loads(allowed.stdout)["reports"]
    assert (first["target"]["runtime"], second["target"]["runtime"]) == (OLD, NEW)
    assert first["check"]["drift"] is None
    drift = second["check"]["drift"]
    assert (drift["before"], drift["after"], second["check"]["lock"]) == (OLD, NEW, None)
    (arena,) = (change for change in drift["changes"] if change["figure"] == "arena_bytes")
    assert arena["after"] > arena["before"]
    assert any("+32 B: operator 0 MEAN scratch" in cause for cause in arena["causes"])


def test_an_update_that_repairs_a_model_says_so(models: tuple[Path, Path], tmp_path: Path) -> None:
    result = edgetool("check", models[1], *BOARD, *RUNTIMES, "--lock", tmp_path / "edgetool.lock", "--json")
    first, second = json.loads(result.stdout)["reports"]
    assert (first["check"]["passed"], second["check"]["passed"]) == (False, True)
    (fixed,) = second["check"]["drift"]["fixed"]
    assert (fixed["rule"], second["check"]["drift"]["introduced"]) == ("operator-not-in-runtime", [])
    assert "REVERSE_V2" in fixed["message"]


def test_the_lock_file_is_that_of_the_first_runtime(models: tuple[Path, Path], tmp_path: Path) -> None:
    lock = tmp_path / "edgetool.lock"
    edgetool("check", models[0], *BOARD, *RUNTIMES, "--lock", lock, "--update", "--allow-growth", "1KiB")
    assert OLD in lock.read_text()
    assert NEW not in lock.read_text()
    again = edgetool("check", models[0], *BOARD, "--runtime", OLD, "--lock", lock, "--locked")
    assert again.returncode == 0
    updated = edgetool("check", models[0], *BOARD, "--lock", lock)
    assert updated.returncode == 1
    assert f"the runtime changed from {OLD}" in " ".join(updated.stdout.split())


@pytest.mark.parametrize("form", ["github", "junit", "markdown", "sarif"])
def test_every_format_tells_the_runtimes_apart(models: tuple[Path, Path], tmp_path: Path, form: str) -> None:
    lock = ("--lock", tmp_path / "edgetool.lock")
    result = edgetool("check", models[0], *BOARD, *RUNTIMES, *lock, "--format", form)
    assert f"nucleo-l4r5zi, {NEW}" in result.stdout


def test_compare_shows_one_model_on_two_runtimes(models: tuple[Path, Path]) -> None:
    shown = edgetool("compare", models[0], *BOARD, *RUNTIMES)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"With {NEW} instead of {OLD}" in shown.stdout
    assert "+32 B: operator 0 MEAN scratch" in shown.stdout
    drift = json.loads(edgetool("compare", models[0], *BOARD, *RUNTIMES, "--json").stdout)["compare"]["drift"]
    assert (drift["before"], drift["after"]) == (OLD, NEW)
    two = json.loads(edgetool("compare", *models, *BOARD, *RUNTIMES, "--json").stdout)["compare"]
    assert (two["drift"], two["a"]["target"]["runtime"], two["b"]["target"]["runtime"]) == (None, OLD, NEW)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--runtime", NEW), "there is nothing to compare with"),
        (("--runtime", NEW, "--runtime", NEW), "there is nothing to compare with"),
        ((*RUNTIMES, "--runtime", "native"), "at most two runtimes"),
        (("--runtime", "tflm-2025-6", "--runtime", NEW), "did you mean 'tflm-2025-06'?"),
    ],
)
def test_what_compare_refuses(models: tuple[Path, Path], options: tuple[str, ...], what: str) -> None:
    result = edgetool("compare", models[0], *BOARD, *options)
    assert result.returncode == 2
    assert what in result.stderr


def test_a_runtime_is_checked_once(models: tuple[Path, Path], tmp_path: Path) -> None:
    twice = ("--runtime", OLD, "--runtime", OLD)
    result = edgetool("check", models[0], *BOARD, *twice, "--lock", tmp_path / "edgetool.lock")
    assert (result.returncode, "is specified twice" in result.stderr) == (2, True)


def test_the_runtimes_are_listed() -> None:
    shown = edgetool("targets", "list", "--runtimes")
    lines = shown.stdout.splitlines()
    assert next(line.split()[0] for line in lines if line.startswith("  tflm-")) == NEW
    assert any(line.startswith("  native: ") for line in lines)
    found = json.loads(edgetool("targets", "list", "--runtimes", "--json").stdout)["runtimes"]
    assert found[0]["name"] == NEW
    assert {"commit", "date"} == found[0]["tflm"].keys() == found[0]["cmsis_nn"].keys()
    mixed = edgetool("targets", "list", "stm32", "--runtimes")
    assert (mixed.returncode, "lists all runtimes" in mixed.stderr) == (2, True)


def wake_word() -> Model:
    """The first layer of a streaming wake word: 5 new rows of 40 features, 32 filters."""
    net = Net(1)
    rows = net.arena(1, 5, 1, 40)
    operands = [rows, net.filter(32, 5, 1, 40, like=rows), net.biases(32, like=rows)]
    features = net.op("CONV_2D", operands, 1, 1, 1, 32, padding="VALID", stride_h=3, stride_w=1)
    return net.model([rows], [features])


def test_the_esp_nn_of_april_2026_breaks_the_arena_of_a_wake_word_on_the_esp32_s3_only(tmp_path: Path) -> None:
    path = tmp_path / "wake_word.tflite"
    path.write_bytes(write_model(wake_word()))
    options = ("--runtime", "esp-tflm-2025-11", "--runtime", "esp-tflm-2026-04", "--lock", tmp_path / "lock", "--json")
    result = edgetool("check", path, "--target", "esp32-s3", *options)
    assert result.returncode == 1
    _, after = json.loads(result.stdout)["reports"]
    assert after["target"]["kernels"] == "esp-nn"
    (arena,) = (change for change in after["check"]["drift"]["changes"] if change["figure"] == "arena_bytes")
    assert arena["after"] - arena["before"] == 15_808 - 7_840  # scratch of the convolution, rounded up to 16 bytes
    assert any("operator 0 CONV_2D scratch" in cause for cause in arena["causes"])
    assert edgetool("check", path, "--target", "esp32", *options).returncode == 0
