"""Generated C in a child process: its outputs, and each way in which it can fail."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from edgetool import child, errors
from edgetool.codegen.native.files import native_files, run_source
from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.plan import place_buffers
from edgetool.execute import native_worker
from edgetool.execute.cores import MACHINES
from edgetool.execute.native import LIMITS, CoreRun, NativeRun, run_native
from edgetool.execute.quantize import random_inputs
from edgetool.execute.run import run_model
from edgetool.model.types import DType, Tensor
from edgetool.model.writer import write_model
from tests.codegen.native.models import delays, layer, nothing, spec_of

QUICK = ("cortex-m0plus",)
OUTPUT = Tensor(0, "output", (4,), DType.INT8, None, None, False)
# A program that copies four bytes of each sample; {work} is done before.
PROGRAM = """
#include <stdlib.h>
#include <string.h>

#include "bare.h"

int bare_main(void)
{{
    uint32_t start[2];
    bare_open();
    bare_read(start, sizeof start);
    for (uint32_t i = 0; i < start[0]; i++) {{
        char data[4];
        bare_read(data, 4);
        {work}
        bare_write(data, 4);
    }}
    return BARE_OK;
}}
"""


def _run(work: str, tmp_path: Path, limits: child.ProcessLimits = LIMITS) -> np.ndarray:
    inputs = [np.arange(12, dtype=np.int8).reshape(3, 4)]
    files = {"run.c": PROGRAM.format(work=work).encode()}
    (output,) = run_native(files, inputs, [OUTPUT], workdir=tmp_path, limits=limits).outputs
    assert list(tmp_path.iterdir()) == []
    return output


@pytest.mark.parametrize("build", [layer, *(pytest.param(each, marks=pytest.mark.slow) for each in (delays, nothing))])
def test_the_outputs_are_those_of_tflm(build: object, tmp_path: Path) -> None:
    assert callable(build)
    model = build()
    program = lower(model)
    spec = spec_of("a model", model)
    files = {**native_files(spec, program, place_buffers(program)), "run.c": run_source(spec, program)}
    inputs = random_inputs(model, 5, 0)
    tensors = [model.main.tensors[index] for index in model.main.outputs]
    outputs = run_native(files, inputs, tensors, workdir=tmp_path).outputs
    if tensors:
        pytest.importorskip("tflite_micro")
        for output, expected in zip(outputs, run_model(write_model(model), inputs, engine="tflm"), strict=True):
            assert output.dtype == expected.dtype
            np.testing.assert_array_equal(output, expected)


def test_all_samples_are_run_in_order(tmp_path: Path) -> None:
    output = _run("", tmp_path)
    np.testing.assert_array_equal(output, np.arange(12).reshape(3, 4))
    assert output.dtype == np.int8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "report"),
    [
        ("volatile size_t size = 4; char *two = malloc(2); memcpy(two, data, size);", "heap-buffer-overflow"),
        ("volatile int large = 2147483647; large += (int)start[0];", "signed integer overflow"),
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
        ("bare_write(data, 1); return BARE_OK;", "the generated code wrote 1 bytes of 12"),
        ("data[0] = (char)start[1];", "depend on what the arena contained before"),
    ],
)
def test_a_failure_is_an_error(work: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(errors.ConversionError, match=what):
        _run(work, tmp_path)


@pytest.mark.slow
def test_an_endless_loop_is_stopped(tmp_path: Path) -> None:
    limits = child.ProcessLimits(memory_bytes=None, seconds=8.0)
    with pytest.raises(errors.ConversionError, match="running the generated code took more than 8 s and was stopped"):
        _run("for (;;) { data[0]++; data[0] ^= (char)i; }", tmp_path, limits)


def test_a_machine_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(errors.MissingExtraError, match="none of cc, gcc, clang is on the PATH"):
        _run("", tmp_path)


def _runs_on_cores(work: str, tmp_path: Path, cores: list[str], core_samples: int = 9) -> NativeRun:
    inputs = [np.arange(12, dtype=np.int8).reshape(3, 4)]
    files = {"run.c": PROGRAM.format(work=work).encode()}
    return run_native(files, inputs, [OUTPUT], cores=cores, core_samples=core_samples, workdir=tmp_path)


@pytest.mark.parametrize(
    "core", [pytest.param(core, marks=() if core in QUICK else pytest.mark.slow) for core in MACHINES]
)
def test_code_also_runs_on_an_emulated_core(core: str, tmp_path: Path) -> None:
    if missing := MACHINES[core].missing_tools:
        pytest.skip(f"{missing[0]} is not installed")
    machine = MACHINES[core].name
    run = _runs_on_cores("", tmp_path, [core])
    assert (run.cores, run.core_samples) == ((CoreRun(core, machine, True, ""),), 3)
    run = _runs_on_cores("data[0] += sizeof(void *) == 4;", tmp_path, [core], core_samples=2)
    assert run.cores == (CoreRun(core, machine, False, "other outputs than on this machine"),)
    assert run.core_samples == 2


@pytest.mark.slow
@pytest.mark.skipif(bool(MACHINES["cortex-m4"].missing_tools), reason="a cross compiler or QEMU is not installed")
@pytest.mark.parametrize(
    ("work", "equal", "why"),
    [
        ("if (sizeof(void *) == 4) { ((void (*)(void))(uintptr_t)0xF0000000)(); }", False, "fault"),
        ("static char large[5 << 20]; large[i]++;", None, "it does not fit on QEMU's mps2-an386"),
        ("if (sizeof(void *) == 4) { return BARE_INVOKE; }", False, "it ends with exit status 5"),
        ("if (sizeof(void *) == 4) { bare_exit(1); }", None, "qemu-system-arm failed: exit status 1"),
        ("\n#ifdef __arm__\nnonsense;\n#endif\n", False, "arm-none-eabi-gcc failed: "),
        ('\n#ifdef __arm__\n#include "missing.h"\n#endif\n', None, "arm-none-eabi-gcc failed: "),
    ],
)
def test_a_core_on_which_code_fails(work: str, equal: bool | None, why: str, tmp_path: Path) -> None:
    (run,) = _runs_on_cores(work, tmp_path, ["cortex-m4"]).cores
    assert run.equal is equal
    assert run.why.startswith(why)


def test_a_core_without_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(f'#!/bin/sh\nPATH={os.environ["PATH"]} exec {native_worker.find_compiler()} "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "work").mkdir()
    (run,) = _runs_on_cores("", tmp_path / "work", ["riscv32"]).cores
    assert run == CoreRun("riscv32", "virt", None, "riscv64-unknown-elf-gcc and qemu-system-riscv32 not installed")
