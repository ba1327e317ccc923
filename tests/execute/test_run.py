"""Running models: what comes back, that both runtimes agree, and how failures are reported.

What TFLM prints about its arena: how it is parsed, and that it is true on this machine.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from edgetool import child, errors
from edgetool.execute.quantize import random_inputs
from edgetool.execute.run import (
    RecordedCategory,
    RunEngine,
    TflmAllocation,
    measure_tflm,
    parse_allocations,
    run_model,
    run_tflm,
)
from edgetool.model.reader import read_model
from edgetool.model.types import DType
from edgetool.model.writer import write_model
from tests.execute import tiny_models
from tests.execute.arenas import smallest_arena
from tests.model.builders import Builder, conv_model_bytes, options

pytest.importorskip("ai_edge_litert")
pytestmark = pytest.mark.usefixtures("forked_children")

ENGINES: tuple[RunEngine, ...] = ("litert-reference", "litert", "tflm")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> RunEngine:
    if request.param == "tflm":
        pytest.importorskip("tflite_micro")
    return request.param


def floats(*rows: float) -> np.ndarray:
    return np.array(rows, np.float32).reshape(len(rows), 1, 1)


def int8(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def test_inputs_and_outputs_are_in_graph_order(engine: RunEngine, tmp_path: Path) -> None:
    a = np.arange(12, dtype=np.float32).reshape(4, 1, 3)
    b = a[::-1] * 7 + 1
    difference, total = run_model(tiny_models.add_and_subtract(), [a, b], engine=engine, workdir=tmp_path)
    np.testing.assert_array_equal(difference, a - b)
    np.testing.assert_array_equal(total, a + b)
    assert difference.dtype == np.float32
    assert list(tmp_path.iterdir()) == []


def test_variables_live_on_from_one_invoke_to_the_next(engine: RunEngine) -> None:
    model = tiny_models.last_three()
    for _ in range(2):  # a second run starts afresh
        (sums,) = run_model(model, [floats(1, 10, 100, 1000, 0)], engine=engine)
        np.testing.assert_array_equal(sums, floats(1, 11, 111, 1110, 1100))


def test_an_arena_grows_as_needed() -> None:
    pytest.importorskip("tflite_micro")
    x = np.ones((1, 1, 10_000_000), np.float32)  # 80 MB of activations, more than the first arena
    (y,) = run_model(tiny_models.wide(10_000_000), [x], engine="tflm")
    assert y.shape == x.shape
    assert (y == 2).all()


def test_a_model_is_not_run_in_an_arena_that_crashes_tflm() -> None:
    """Parameters of 192 channels that find no room in Prepare end in a segmentation fault, not in a refusal."""
    pytest.importorskip("tflite_micro")
    build = Builder()
    first = x = build.activation([1, 1, 1, 192])
    for _ in range(160):
        x = build.depthwise(x, kernel=1)
    blob, inputs = write_model(build.model([first], [x])), [np.ones((1, 1, 1, 1, 192), np.int8)]
    with pytest.raises(child.ChildDiedError, match="SIGSEGV"):
        run_model(blob, inputs, engine="tflm", arena_bytes=256 * 2**10)
    (y,) = run_model(blob, inputs, engine="tflm")
    assert y.shape == inputs[0].shape


def test_a_given_arena_is_not_exceeded() -> None:
    pytest.importorskip("tflite_micro")
    with pytest.raises(errors.UnsupportedModelError, match="TensorFlow Lite Micro cannot prepare") as caught:
        run_model(tiny_models.wide(1000), [np.zeros((1, 1, 1000), np.float32)], engine="tflm", arena_bytes=1024)
    assert "bytes" in " ".join(caught.value.details) or "missing" in " ".join(caught.value.details)


@pytest.mark.slow
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (16, 4), (97, 13), (256, 32)])
def test_fully_connected_differs_by_at_most_one(inputs: int, outputs: int) -> None:
    pytest.importorskip("tflite_micro")
    model = tiny_models.dense(inputs, outputs, seed=inputs)
    x = int8((50, 1, inputs), seed=1)
    (lite,) = run_model(model, [x], engine="litert-reference")
    (micro,) = run_model(model, [x], engine="tflm")
    assert lite.shape == micro.shape == (50, 1, outputs)
    assert lite.dtype == micro.dtype == np.int8
    assert np.abs(lite.astype(int) - micro.astype(int)).max() <= 1
    assert len(np.unique(lite)) > min(outputs, 3)  # the outputs are not all saturated


@pytest.mark.parametrize("name", ["vww_96_int8", "vww_96_float"])
def test_convolutions_are_exact_against_reference_kernels(shared: Path, name: str) -> None:
    pytest.importorskip("tflite_micro")
    model = (shared / f"data/models/mlperf/{name}.tflite").read_bytes()
    x = int8((4, 1, 96, 96, 3), seed=2)
    x = x if name.endswith("int8") else (x / 128).astype(np.float32)
    (lite,) = run_model(model, [x], engine="litert-reference")
    (micro,) = run_model(model, [x], engine="tflm")
    np.testing.assert_array_equal(lite, micro)


def test_nan_goes_through_a_float_model(engine: RunEngine) -> None:
    a = np.array([[[1, np.nan, -2]]], np.float32)
    difference, _ = run_model(tiny_models.add_and_subtract(), [a, np.ones_like(a)], engine=engine)
    np.testing.assert_array_equal(difference, [[[0, np.nan, -3]]])


def test_arrays_need_not_be_contiguous(engine: RunEngine) -> None:
    a = np.arange(24, dtype=np.float32).reshape(4, 1, 6)[:, :, ::2]
    difference, _ = run_model(tiny_models.add_and_subtract(), [a, np.zeros_like(a)], engine=engine)
    np.testing.assert_array_equal(difference, a)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([np.zeros((2, 1, 3), np.float32)], "the model has 2 inputs, but 1 arrays were passed"),
        ([np.zeros((2, 1, 3), np.float32), np.zeros((2, 1, 3), np.int8)], r"input 1: .* int8 \[2, 1, 3\]"),
        ([np.zeros((2, 3), np.float32)] * 2, r"input 0: .*expects float32 \[N, 1, 3\]"),
        ([np.zeros((2, 1, 3), np.float32), np.zeros((1, 1, 3), np.float32)], "1, 2 samples"),
        ([np.zeros((0, 1, 3), np.float32)] * 2, "0 samples"),
    ],
)
def test_inputs_that_do_not_fit(engine: RunEngine, inputs: list[np.ndarray], message: str) -> None:
    with pytest.raises(errors.UsageError, match=message):
        run_model(tiny_models.add_and_subtract(), inputs, engine=engine)


def test_an_operator_that_tflm_lacks_is_named() -> None:
    pytest.importorskip("tflite_micro")
    x = np.zeros((1, 1, 4), np.float32)
    (y,) = run_model(tiny_models.gelu(), [x], engine="litert-reference")
    assert (y == 0).all()
    with pytest.raises(errors.UnsupportedModelError) as caught:
        run_model(tiny_models.gelu(), [x], engine="tflm")
    assert "GELU" in " ".join(caught.value.details)
    assert len(set(caught.value.details)) == len(caught.value.details)


@pytest.mark.slow
@pytest.mark.parametrize("blob", [b"", b"no model at all", b"\x1c\0\0\0TFL3" + b"\0" * 40])
def test_a_file_that_is_not_a_model_is_rejected(engine: RunEngine, blob: bytes, tmp_path: Path) -> None:
    with pytest.raises((errors.ModelError, errors.ConversionError)):
        run_model(blob, [np.zeros((1, 1), np.float32)], engine=engine, workdir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def fake(folder: Path, package: str, code: str) -> None:
    """A package that takes the real one's place in the child."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text(code, encoding="utf-8")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the child's imports look into first."""
    folder = tmp_path / "fake"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
    return folder


ABSENT = "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)"


@pytest.mark.parametrize(
    ("engine", "package"),
    [("litert", "ai_edge_litert"), ("litert-reference", "ai_edge_litert"), ("tflm", "tflite_micro")],
    indirect=["engine"],
)
def test_a_missing_package_is_named_with_its_extra(engine: RunEngine, package: str, path: Path) -> None:
    for name in ("ai_edge_litert", "tflite_runtime", "tflite_micro"):
        fake(path, name, ABSENT)
    with pytest.raises(errors.MissingExtraError, match=package) as caught:
        run_model(tiny_models.gelu(), [np.zeros((1, 1, 4), np.float32)], engine=engine)
    platforms = ", on Linux with an x86-64 processor: tflite-micro has wheels for no other platform"
    assert caught.value.fix == "pip install 'edgetool[verify]'" + (platforms if engine == "tflm" else "")
    assert caught.value.exit_code == 2


def test_tflite_runtime_takes_the_place_of_litert(path: Path) -> None:
    fake(path, "ai_edge_litert", ABSENT)
    fake(path, "tflite_runtime", "")
    (path / "tflite_runtime/interpreter.py").write_text("raise RuntimeError('this one')", encoding="utf-8")
    with pytest.raises(errors.UnsupportedModelError, match="this one"):
        run_model(tiny_models.gelu(), [np.zeros((1, 1, 4), np.float32)], engine="litert")


def test_a_crash_is_a_clear_error(path: Path, tmp_path: Path) -> None:
    fake(path, "tflite_micro", "import os, signal\nos.write(2, b'last words')\nos.kill(os.getpid(), 11)")
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(errors.ConversionError, match=signal.Signals(11).name) as caught:
        run_model(tiny_models.gelu(), [np.zeros((1, 1, 4), np.float32)], engine="tflm", workdir=work)
    assert "TensorFlow Lite Micro" in str(caught.value)
    assert caught.value.details == ("last words",)
    assert caught.value.exit_code == 4
    assert list(work.iterdir()) == []


def test_a_hang_is_ended(path: Path) -> None:
    fake(path, "tflite_micro", "import time\ntime.sleep(60)")
    with pytest.raises(errors.ConversionError, match="more than 1 s"):
        run_model(
            tiny_models.gelu(),
            [np.zeros((1, 1, 4), np.float32)],
            engine="tflm",
            limits=child.ProcessLimits(seconds=1),
        )


def test_progress_counts_the_samples(engine: RunEngine) -> None:
    said: list[str] = []
    x = np.zeros((60, 1, 4), np.float32)
    run_model(tiny_models.wide(4), [x], engine=engine, progress=said.append)
    assert "preparing" in said[0]
    assert said[-1].endswith("of 60")
    assert 10 <= len(said) <= 30


PRINTED = """\
INFO: something else
[RecordingMicroAllocator] Arena allocation total 1504 bytes\r
[RecordingMicroAllocator] Arena allocation head 32 bytes\r
[RecordingMicroAllocator] Arena allocation tail 1472 bytes\r
[RecordingMicroAllocator] 'TfLiteEvalTensor data' used 240 bytes with alignment overhead (requested 236 bytes for 10 \
allocations)\r
[RecordingMicroAllocator] 'NodeAndRegistration struct' used 192 bytes with alignment overhead (requested 192 bytes \
for 3 NodeAndRegistration structs)\r
"""


def test_the_printed_lines_are_read() -> None:
    assert parse_allocations(PRINTED) == TflmAllocation(
        1504,
        32,
        1472,
        (
            RecordedCategory("TfLiteEvalTensor data", 240, 236, 10),
            RecordedCategory("NodeAndRegistration struct", 192, 192, 3),
        ),
    )


def test_the_last_of_several_counts() -> None:
    later = PRINTED.replace("1504", "2000").replace("240", "480")
    found = parse_allocations(PRINTED + later)
    assert (found.total, found.categories[0].used_bytes, len(found.categories)) == (2000, 480, 2)


@pytest.mark.parametrize("text", ["", PRINTED.replace("head", "nonpersistent"), PRINTED.splitlines()[1]])
def test_the_format_of_another_version_is_an_error(text: str) -> None:
    with pytest.raises(errors.MissingExtraError, match="tflite-micro") as caught:
        parse_allocations(text)
    assert "edgetool[verify]" in str(caught.value)


@pytest.fixture
def tflm() -> None:
    pytest.importorskip("tflite_micro")


@pytest.mark.usefixtures("tflm")
def test_a_model_is_measured_whatever_the_arena() -> None:
    found = measure_tflm(conv_model_bytes())
    assert found.head == 192 + 128  # the input (1, 8, 8, 3) and the output (1, 4, 4, 8), int8, alive at once
    assert found.total == found.head + found.tail
    categories = {item.name: item for item in found.categories}
    assert categories["TfLiteEvalTensor data"] == RecordedCategory("TfLiteEvalTensor data", 4 * 24, 4 * 24, 4)
    assert categories["NodeAndRegistration struct"].count == 1
    assert sum(item.used_bytes for item in found.categories) < found.tail
    assert measure_tflm(conv_model_bytes(), arena_bytes=8192) == found


@pytest.mark.usefixtures("tflm")
def test_an_arena_too_small_is_an_error_not_a_figure() -> None:
    with pytest.raises(errors.UnsupportedModelError, match="cannot prepare"):
        measure_tflm(conv_model_bytes(), arena_bytes=1024)


@pytest.mark.usefixtures("tflm")
def test_a_run_returns_its_allocation_and_its_outputs() -> None:
    blob = conv_model_bytes()
    inputs = random_inputs(read_model(blob), 3, seed=1)
    run = run_tflm(blob, inputs)
    assert run.allocation == measure_tflm(blob)
    (expected,) = run_model(blob, inputs, engine="tflm")
    np.testing.assert_array_equal(run.outputs[0], expected)


@pytest.mark.slow
@pytest.mark.usefixtures("tflm")
def test_the_smallest_arena_works_and_less_does_not() -> None:
    blob = conv_model_bytes()
    inputs = random_inputs(read_model(blob), 2, seed=1)
    smallest = smallest_arena(blob, inputs)
    assert smallest % 16 == 0
    assert smallest >= measure_tflm(blob).total
    run_model(blob, inputs, engine="tflm", arena_bytes=smallest)
    with pytest.raises((errors.UnsupportedModelError, errors.ConversionError)):
        run_model(blob, inputs, engine="tflm", arena_bytes=smallest - 16)


def with_variables(*names: tuple[str, str]) -> bytes:
    """Float x (1, 4) -> for each (container, shared name) what that resource variable held before x was put in."""
    build = Builder()
    x = build.tensor([1, 4], DType.FLOAT32)
    outputs = []
    for container, name in names:
        handle = build.tensor([], DType.RESOURCE)
        build.operator("VAR_HANDLE", [], [handle], options("VarHandleOptions", container=container, shared_name=name))
        outputs.append(build.tensor([1, 4], DType.FLOAT32))
        build.operator("READ_VARIABLE", [handle], [outputs[-1]])
        build.operator("ASSIGN_VARIABLE", [handle, x], [])
    return write_model(build.model([x], outputs))


@pytest.mark.usefixtures("tflm")
@pytest.mark.parametrize(
    ("names", "variables"),
    [([("", "a")], 1), ([("", "a"), ("", "a")], 1), ([("", "a"), ("", "b")], 2), ([("p", "a"), ("q", "a")], 2)],
)
def test_resource_variables_are_counted_by_container_and_name(names: list[tuple[str, str]], variables: int) -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 1, 4)
    outputs = run_model(with_variables(*names), [x], engine="tflm")
    np.testing.assert_array_equal(outputs[0][1], x[0])
    if variables == len(names):
        np.testing.assert_array_equal(outputs[-1][:, 0], [np.zeros(4), x[0, 0]])
    else:  # the second handle reads what was put in through the first
        np.testing.assert_array_equal(outputs[-1], x)


def test_the_figures_of_a_known_model(shared: Path, tflm: None) -> None:
    found = measure_tflm((shared / "data/models/tflm/hello_world_int8.tflite").read_bytes())
    assert (found.total, found.head, found.tail) == (1504, 32, 1472)
    persistent = next(item for item in found.categories if item.name == "Persistent buffer data")
    assert (persistent.used_bytes, persistent.requested_bytes, persistent.count) == (264, 232, 5)
