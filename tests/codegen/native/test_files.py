"""The files of a native program: their text, what compilers say of them, and what they do on this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.codegen import templates
from edgetool.codegen.native.files import MAX_ARENA_BYTES, native_files
from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.plan import NativeMemory, place_buffers
from edgetool.codegen.native.stack import FIRE, FIRE_SEVERAL, INVOKE, INVOKE_ROWS, stack_bounds
from edgetool.codegen.spec import HeaderTarget
from edgetool.errors import UnsupportedModelError
from edgetool.execute.cores import BARE
from edgetool.memory.problem import Layout
from tests.codegen.c_compilers import MATRIX, compile_in
from tests.codegen.golden_files import check_golden
from tests.codegen.header_specs import HOSTILE
from tests.codegen.native.models import MODELS, layer, spec_of, texts

KERNELS = Path(templates.__file__).parent / "native" / "c"
# Each compiler with the oldest and the newest standard.
COMPILERS = [chosen for chosen in MATRIX if chosen[1] in ("c99", "c2x", "c++11", "c++20")]
ARENA = 28  # of the layer, whose kernel copies its input into scratch
# A core whose stack is not measured, so that golden files do not depend on the table.
UNMEASURED = HeaderTarget("some-board", "some-core", "reference", sram_bytes=65536, flash_bytes=1048576)


def write(folder: Path, files: dict[str, str]) -> list[str]:
    """Write the files; return the names of the C files."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="ascii")
    return sorted(name for name in files if name.endswith(".c"))


def check_compiles(folder: Path, chosen: tuple[str, str], *arguments: str) -> None:
    done = compile_in(folder, *chosen, *arguments)
    assert (done.returncode, done.stderr) == (0, ""), chosen


@pytest.mark.parametrize(
    "file", ["layer.h", "layer.c", "layer_weights.h", "layer_weights.c", "main.c", "CMakeLists.txt"]
)
def test_text_is_that_of_the_golden_file(file: str) -> None:
    spec = replace(spec_of("layer", layer(), ARENA), target=UNMEASURED)
    name = file if file.startswith("layer") else f"layer_{file}"
    check_golden(f"native_{name}", texts("layer", spec=spec)[file])


@pytest.mark.parametrize("name", MODELS)
def test_text_ends_with_one_newline_and_has_short_lines(name: str) -> None:
    for file, text in texts(name).items():
        assert text.isascii(), file
        assert re.search(r"[^\n]\n\Z", text), file
        assert max(map(len, text.split("\n"))) <= 130, file
        assert text.startswith(("/* SPDX-License-Identifier: 0BSD */\n", "# SPDX-License-Identifier: 0BSD\n")), file


def test_the_same_model_gives_the_same_text() -> None:
    assert texts("delays") == texts("delays")


@pytest.mark.parametrize("chosen", COMPILERS, ids="-".join)
def test_files_compile_without_warnings(tmp_path: Path, chosen: tuple[str, str]) -> None:
    for name in MODELS:
        folder = tmp_path / name
        folder.mkdir()
        sources = write(folder, texts(name))
        hosted = [file for file in sources if "arm" not in chosen[0] or file != "main.c"]
        check_compiles(folder, chosen, f"-I{BARE}", "-O1", "-fsyntax-only", *hosted)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    spec = spec_of("layer", layer(), ARENA)
    hostile = replace(
        HOSTILE, name="layer", inputs=HOSTILE.inputs[:1], outputs=HOSTILE.inputs[1:2], tensors=(), arena_bytes=ARENA
    )
    for number, changed in enumerate((hostile, replace(spec, name=HOSTILE.name, notes=HOSTILE.notes))):
        folder = tmp_path / str(number)
        folder.mkdir()
        sources = write(folder, texts("layer", spec=changed))
        check_compiles(folder, ("gcc", "c99"), f"-I{BARE}", "-trigraphs", "-fsyntax-only", *sources)
        check_compiles(folder, ("g++", "c++11"), f"-I{BARE}", "-fsyntax-only", *sources)


@pytest.mark.parametrize(
    ("macro", "limit", "message"),
    [
        ("LAYER_SRAM_LIMIT_BYTES", 8, "SRAM"),
        ("LAYER_FLASH_LIMIT_BYTES", 8, "flash"),
        ("LAYER_SRAM_LIMIT_BYTES", ARENA, None),
        ("LAYER_FLASH_LIMIT_BYTES", 4096, None),
    ],
)
def test_the_header_does_not_compile_if_a_limit_is_exceeded(
    tmp_path: Path, macro: str, limit: int, message: str | None
) -> None:
    write(tmp_path, texts("layer"))
    done = compile_in(tmp_path, "gcc", "c99", f"-D{macro}={limit}", "-fsyntax-only", "layer.c")
    assert (done.returncode == 0) == (message is None), done.stderr
    if message is not None:
        assert re.search(rf"error: .*layer.*{message}", done.stderr, re.IGNORECASE), done.stderr


def test_a_target_with_too_little_memory_does_not_compile(tmp_path: Path) -> None:
    target = replace(UNMEASURED, sram_bytes=8)
    write(tmp_path, texts("layer", spec=replace(spec_of("layer", layer(), ARENA), target=target)))
    assert compile_in(tmp_path, "gcc", "c99", "-fsyntax-only", "layer.c").returncode != 0


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_project_builds_and_its_program_prints_the_outputs(tmp_path: Path, name: str) -> None:
    if shutil.which("cmake") is None or shutil.which("cc") is None:
        pytest.skip("cmake or a C compiler is not installed")
    files = texts(name)
    del files["run.c"]
    write(tmp_path, files)
    for command in (["cmake", "-B", "build", "."], ["cmake", "--build", "build"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
    ran = subprocess.run([tmp_path / "build" / f"{name}_main"], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    printed = re.findall(rf"^{name} output (\d)\[(\d+)\] = (.*)$", ran.stdout, re.MULTILINE)
    sizes = {"layer": [2], "delays": [3, 3, 2, 2], "nothing": []}[name]
    assert [(int(i), int(j)) for i, j, _ in printed] == [(i, j) for i, size in enumerate(sizes) for j in range(size)]
    if name == "delays":
        # Zero point -7, scale 1/16: the variable is 0.0 after a reset, and the other one 1, 2, 3.
        assert [value for _, _, value in printed] == "0 0 0 0.5 0.5625 0.625 0 0 2.5 -3".split()


def test_results_of_calls_in_the_wrong_order(tmp_path: Path) -> None:
    sources = [file for file in write(tmp_path, texts("delays")) if file not in ("main.c", "run.c")]
    (tmp_path / "calls.c").write_text(
        """
#include "delays.h"
#include <stdio.h>

int main(void)
{
    static delays_memory memory;
    delays_context context = {NULL};
    printf("%d", delays_invoke(&context) == delays_error_order);
    printf("%d", delays_reset(&context) == delays_error_order);
    printf("%d", delays_input_0(&context) == NULL && delays_output_0(&context) == NULL);
    printf("%d", delays_init(NULL, &memory, sizeof memory) == delays_error_null);
    printf("%d", delays_init(&context, NULL, sizeof memory) == delays_error_null);
    printf("%d", delays_init(&context, memory.bytes + 1, sizeof memory) == delays_error_alignment);
    printf("%d", delays_init(&context, &memory, DELAYS_ARENA_BYTES - 1) == delays_error_memory);
    printf("%d", delays_invoke(&context) == delays_error_order);
    printf("%d", delays_invoke(NULL) == delays_error_null && delays_reset(NULL) == delays_error_null);
    printf("%d", delays_input_0(NULL) == NULL && delays_output_0(NULL) == NULL && delays_output_3(NULL) != NULL);
    printf("%d", delays_init(&context, &memory, sizeof memory) == delays_ok && delays_invoke(&context) == delays_ok);
    return 0;
}
"""
    )
    check_compiles(tmp_path, ("gcc", "c99"), *sources, "calls.c", "-o", "calls")
    ran = subprocess.run([tmp_path / "calls"], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "1" * 11


def test_an_arena_that_no_device_can_address_is_refused() -> None:
    program = lower(layer())
    memory = place_buffers(program)
    layout = Layout(memory.layout.offsets, MAX_ARENA_BYTES + 1, 0, "none")
    huge = NativeMemory(memory.problem, layout, memory.tensors, memory.scratch, memory.fields)
    with pytest.raises(UnsupportedModelError, match="more than a microcontroller can address"):
        native_files(spec_of("layer", layer()), program, huge)


def test_every_kernel_has_a_measured_stack() -> None:
    """The table is written by python -m benchmarks.native.stack."""
    table = (KERNELS.parent / "stack.csv").read_text(encoding="ascii")
    measured = {line.split(",")[3] for line in table.splitlines()[1:]}
    callers = {FIRE, FIRE_SEVERAL, "edgetool_cell", "edgetool_cell_several", "edgetool_turn", INVOKE, INVOKE_ROWS}
    files = {path.stem for path in KERNELS.glob("*.c")} - {"edgetool_rows", "edgetool_rows_several"}
    assert measured == files | callers


def test_the_header_states_the_stack_of_its_core() -> None:
    text = texts("layer", spec=spec_of("layer", layer(), ARENA))["layer.h"]
    bounds = stack_bounds(lower(layer()), "cortex-m7")
    assert len(bounds) == 2
    for bound in bounds:
        assert f"{bound.stack_bytes} bytes   {bound.compiler} {bound.level}, cortex-m7" in text
