"""The flash of native code is that of the objects that a compiler makes of it."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest
from benchmarks.native import code as whole
from benchmarks.native.sizes import compiled, linked_bytes, measure
from benchmarks.native.stack import COMPILERS, KERNELS

from edgetool.codegen.native import emit, row_tables
from edgetool.codegen.native.code_size import LIBRARY, ROWS, RUN, NativeCode, handing_parts, offset_part, tensors_code
from edgetool.codegen.native.files import native_files
from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.plan import place_buffers
from edgetool.codegen.native.program import struct_bytes
from tests.codegen.native.models import delays, layer, nothing, spec_of, texts

CORE = "cortex-m0plus"  # has the most helpers
PADDING = 64  # between the sections of a small program
KERNEL_NAMES = sorted(path.stem for path in KERNELS.glob("*.c"))


def _code(core: str = "cortex-m7") -> NativeCode:
    program = lower(layer())
    return tensors_code(program, place_buffers(program), core)[0]


def test_every_part_was_measured_for_every_core_and_level() -> None:
    """The table is written by python -m benchmarks.native.sizes."""
    rows = list(csv.DictReader((KERNELS.parent / "sizes.csv").read_text(encoding="ascii").splitlines()))
    parts: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        parts.setdefault((row["core"], row["level"]), set()).add(row["part"])
    assert parts.keys() == {(core, level) for core in COMPILERS for level in ("-O2", "-Os", LIBRARY)}
    measured = {name for (_, level), names in parts.items() if level != LIBRARY for name in names}
    assert {part for part in measured if part.startswith("edgetool_")} == set(KERNEL_NAMES)
    for (_, level), names in parts.items():
        assert level == LIBRARY or names == measured
    for row in rows:
        assert set(row["needs"].split()) <= parts[row["core"], LIBRARY]


def test_the_parts_of_handing_over_are_those_of_two_and_one_for_each_further() -> None:
    assert handing_parts(0, 1, is_stream=False) == {"rows 0 1": 1}
    assert handing_parts(5, 3, is_stream=True) == {"stream 2 2": 1, "row input": 3, "row output": 1}


def test_offsets_have_the_part_of_their_class() -> None:
    assert [offset_part("input", offset) for offset in (0, 1, 31, 32)] == ["input 0", *["input 31"] * 2, "input 255"]
    assert offset_part("output", -1) == "output -1"


def test_the_tables_of_a_plan_count_each_row_once() -> None:
    program = lower(layer())
    memory = place_buffers(program)
    text = emit.program_tables("net", program, memory, emit.arrays_of("net", program))
    lengths = {name: text.partition(f"net_{name}[")[2].partition("]")[0] for name in emit.TABLE_BYTES}
    expected = sum(int(length) * emit.TABLE_BYTES[name] for name, length in lengths.items())
    assert emit.program_table_bytes(program, memory) == expected + emit.PROGRAM_BYTES
    assert emit.descriptor_bytes(program) == sum(struct_bytes(step.op.struct) for step in program.steps) > 0


def test_a_model_without_steps_has_no_tables() -> None:
    program = lower(nothing())
    assert emit.program_table_bytes(program, place_buffers(program)) == 0
    (code, _) = tensors_code(program, place_buffers(program), CORE)
    assert 0 < code.code_bytes < _code(CORE).code_bytes


def test_libraries_count_once_and_unknown_cores_have_no_size() -> None:
    code = _code(CORE)
    assert len(code.library) == len(set(code.library)) > 0
    assert code.total_bytes == code.code_bytes + code.library_bytes
    program = lower(layer())
    assert tensors_code(program, place_buffers(program), "cortex-m85") == ()


def test_the_header_states_the_flash_of_the_code() -> None:
    model = layer()
    text = texts("layer", spec=spec_of("layer", model, 64))["layer.h"]
    code = _code()
    assert f"{code.code_bytes} bytes" in text
    assert f"{code.compiler} {code.level}, cortex-m7" in text


def _skip_without_compiler(core: str) -> None:
    if shutil.which(COMPILERS[core][0]) is None:
        pytest.skip(f"{COMPILERS[core][0]} is not installed")


@pytest.mark.parametrize("core", [CORE, "riscv32"])
def test_structs_have_the_sizes_that_the_compiler_gives_them(core: str) -> None:
    _skip_without_compiler(core)
    structs = {
        "edgetool_shape": emit.TABLE_BYTES["shapes"],
        "edgetool_pattern": emit.TABLE_BYTES["patterns"],
        "edgetool_input": emit.TABLE_BYTES["inputs"],
        "edgetool_step": emit.TABLE_BYTES["steps"],
        "edgetool_program": emit.PROGRAM_BYTES,
        "edgetool_row_tables": row_tables.TABLES,
        "edgetool_row_step": row_tables.STEP,
    }
    kernels = [name for name in KERNEL_NAMES if name not in (RUN, f"{RUN}_several", ROWS, f"{ROWS}_several")]
    structs |= {f"{name}_op": struct_bytes(f"{name}_op") for name in kernels}
    assert len(structs) > 70
    lines = [f'#include "{name}.h"' for name in (*kernels, "edgetool_rows")]
    lines += [f'_Static_assert(sizeof({name}) == {size}, "{name}");' for name, size in structs.items()]
    measure("net", {"net.c": "\n".join(lines).encode()}, core, "-O2")


@pytest.mark.slow
@pytest.mark.parametrize("core", [CORE, "cortex-m7", "riscv32"])
def test_whole_programs_take_what_is_counted(core: str) -> None:
    _skip_without_compiler(core)
    for model in (layer(), delays()):
        program = lower(model)
        memory = place_buffers(program)
        files = native_files(spec_of("net", model), program, memory)
        for code in tensors_code(program, memory, core):
            measured = measure("net", files, core, code.level)
            assert abs(measured.code_bytes - code.code_bytes) <= code.error_bytes
            assert measured.writable_bytes == 0


@pytest.mark.slow
@pytest.mark.parametrize("core", [CORE, "cortex-m3"])  # for RISC-V, the linker also shortens calls
def test_a_linker_adds_the_counted_members_of_libraries(core: str, tmp_path: Path) -> None:
    _skip_without_compiler(core)
    program = lower(layer())
    memory = place_buffers(program)
    files = native_files(spec_of("net", layer()), program, memory)
    code = tensors_code(program, memory, core)[0]
    objects = compiled(files, tmp_path, core, code.level)
    sizes = measure("net", files, core, code.level)
    added = linked_bytes(objects, tmp_path, core) - sizes.code_bytes - sizes.constants_bytes
    assert 0 <= added - code.library_bytes <= PADDING


def test_measured_programs_are_within_the_error() -> None:
    """The table is written by python -m benchmarks.native code."""
    rows = whole.read()
    assert {row.core for row in rows} == set(COMPILERS)
    assert {row.plan for row in rows} == set(whole.PLANS)
    for row in rows:
        assert abs(row.error_bytes) <= row.band_bytes, row
