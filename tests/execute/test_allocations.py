"""What TFLM tells of its arena: how the words are read, and that they are the truth on this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgetool import errors
from edgetool.execute.quantize import random_inputs
from edgetool.execute.run import (
    RecordedCategory,
    TflmAllocation,
    measure_tflm,
    parse_allocations,
    run_model,
    run_tflm,
)
from edgetool.model.reader import read_model
from edgetool.model.types import DType
from edgetool.model.writer import write_model
from tests.execute.arenas import smallest_arena
from tests.model.builders import Builder, conv_model_bytes, options

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
