"""Generated C in a child process: its outputs, and each way in which it can fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgetool import child, errors
from edgetool.codegen.native.files import native_files, run_source
from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.plan import place_buffers
from edgetool.execute import native_worker
from edgetool.execute.native import LIMITS, run_native
from edgetool.execute.quantize import random_inputs
from edgetool.execute.run import run_model
from edgetool.model.types import DType, Tensor
from edgetool.model.writer import write_model
from tests.codegen.native.models import delays, layer, nothing, spec_of

OUTPUT = Tensor(0, "output", (4,), DType.INT8, None, None, False)
# A program that copies four bytes of each sample; {work} is done before.
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments)
{{
    FILE *samples = fopen(arguments[1], "rb");
    FILE *results = fopen(arguments[2], "wb");
    char data[4];
    while (fgetc(samples) != EOF && fread(data, 1, 4, samples) == 4) {{
        {work}
        fwrite(data, 1, 4, results);
    }}
    return fclose(results) + (count != 4);
}}
"""


def _run(work: str, tmp_path: Path, limits: child.ProcessLimits = LIMITS) -> np.ndarray:
    inputs = [np.arange(12, dtype=np.int8).reshape(3, 4)]
    files = {"run.c": PROGRAM.format(work=work).encode()}
    (output,) = run_native(files, inputs, [OUTPUT], workdir=tmp_path, limits=limits)
    assert list(tmp_path.iterdir()) == []
    return output


@pytest.mark.parametrize("build", [layer, delays, nothing])
def test_the_outputs_are_those_of_tflm(build: object, tmp_path: Path) -> None:
    assert callable(build)
    model = build()
    program = lower(model)
    spec = spec_of("a model", model)
    files = {**native_files(spec, program, place_buffers(program)), "run.c": run_source(spec, program)}
    inputs = random_inputs(model, 5, 0)
    tensors = [model.main.tensors[index] for index in model.main.outputs]
    outputs = run_native(files, inputs, tensors, workdir=tmp_path)
    if tensors:
        pytest.importorskip("tflite_micro")
        for output, expected in zip(outputs, run_model(write_model(model), inputs, engine="tflm"), strict=True):
            assert output.dtype == expected.dtype
            np.testing.assert_array_equal(output, expected)


def test_all_samples_are_run_in_order(tmp_path: Path) -> None:
    output = _run("", tmp_path)
    np.testing.assert_array_equal(output, np.arange(12).reshape(3, 4))
    assert output.dtype == np.int8


@pytest.mark.parametrize(
    ("work", "report"),
    [
        ("volatile size_t size = 4; char *two = malloc(2); memcpy(two, data, size);", "heap-buffer-overflow"),
        ("volatile int large = 2147483647; large += count;", "signed integer overflow"),
        ("data[0] = (char)(*(volatile int *)(void *)(data + 1));", "misaligned address"),
    ],
)
def test_what_sanitizers_report_is_an_error(work: str, report: str, tmp_path: Path) -> None:
    with pytest.raises(errors.ConversionError, match="the generated code failed with exit status") as raised:
        _run(work, tmp_path)
    assert report in "\n".join(raised.value.details)
    assert len(raised.value.details) <= native_worker.MAX_LINES


@pytest.mark.parametrize(
    ("work", "what"),
    [
        ("exit(3);", "the generated code failed with exit status 3"),
        ("int unused;", "cannot compile the generated code"),
        ("fwrite(data, 1, 1, results); return fclose(results);", "the generated code wrote 1 bytes of 12"),
        ("data[0] = (char)atoi(arguments[3]);", "depend on what the arena contained before"),
    ],
)
def test_a_failure_is_an_error(work: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(errors.ConversionError, match=what):
        _run(work, tmp_path)


@pytest.mark.slow
def test_an_endless_loop_is_stopped(tmp_path: Path) -> None:
    limits = child.ProcessLimits(memory_bytes=None, seconds=8.0)
    with pytest.raises(errors.ConversionError, match="running the generated code took more than 8 s and was stopped"):
        _run("for (;;) { data[0]++; data[0] ^= (char)count; }", tmp_path, limits)


def test_a_machine_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(errors.MissingExtraError, match="none of cc, gcc, clang is on the PATH"):
        _run("", tmp_path)
