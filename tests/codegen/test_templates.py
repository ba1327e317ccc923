"""The templates: a compiler or CMake parses each as it is, and no placeholder is left unfilled."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from edgetool.codegen import templates
from edgetool.codegen.cmake.project import cmake_lists
from edgetool.codegen.header import buffers_source, header, incbin_source, model_data
from edgetool.codegen.memories import KERNEL_FILES, linker_script, model_section
from edgetool.codegen.spec import PlacedCode, SharedArenaSpec
from edgetool.codegen.templates import TemplateValue, fill
from edgetool.codegen.tflm.arena import arena_header, arena_source
from edgetool.codegen.tflm.profile import profile_source
from edgetool.codegen.tflm.runner import main_source, ops_header, runner_header, runner_source
from edgetool.errors import InternalError
from edgetool.execute.cores import BARE
from edgetool.model.types import DType
from tests.codegen.c_compilers import TFLM_API
from tests.codegen.header_specs import ALL, BLOB, PLACED
from tests.codegen.native import models as native_models
from tests.codegen.native.row_plans import row_texts, stream_texts
from tests.codegen.native.stream_models import spotter
from tests.codegen.program_specs import ALL_PROGRAMS, EVERY_TYPE_PROGRAM, STATE_PROGRAM

PACKAGE = Path(templates.__file__).parent
KERNELS = "native/c/"  # copied as they are
SOURCES = sorted(
    path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.*") if path.suffix not in (".py", ".pyc", ".csv")
)
TEMPLATES = [file for file in SOURCES if not file.startswith(KERNELS)]
COMPILERS = {".c": ("gcc", "-std=gnu17"), ".h": ("gcc", "-xc", "-std=gnu17"), ".cc": ("g++", "-std=c++17")}
CPP_HEADERS = ("tflm/ops.h", "tflm/runner.h", "tflm/arena.h")

# The values of placeholders that are operands or types; the others are parts of names, or flags.
OPERANDS = {
    **dict.fromkeys(("MY_BYTES", "MY_SIZE", "MY_ALIGNMENT", "MY_LIMIT"), "16"),
    **dict.fromkeys(("MY_BOUND", "MY_COUNT", "MY_TENSORS", "MY_UNCALIBRATED", "MY_RUNS", "MY_EVENTS"), "1"),
    **dict.fromkeys(("MY_OPERATORCOUNT", "MY_STEPCOUNT", "MY_PLACE"), "1"),
    **dict.fromkeys(("MY_CLOCK", "MY_LOGVERSION", "MY_WORDLENGTH", "my_position", "MY_LOW", "MY_HIGH"), "1"),
    **dict.fromkeys(("MY_MODEL_MY_IO_SCALE", "MY_MODEL_MY_IO_ZERO_POINT"), "1"),
    **dict.fromkeys(("MY_MODEL_INPUT_my_position_MY_UNITS", "MY_MODEL_OUTPUT_my_position_MY_UNITS"), "1"),
    **dict.fromkeys(("MY_OFFSET", "MY_STATEOFFSET", "MY_STATEVALUE", "MY_STATEBYTES", "MY_ROWS"), "4"),
    **dict.fromkeys(("MY_INPUTCOUNT", "MY_OUTPUTCOUNT"), "1"),
    **dict.fromkeys(("MY_FIRINGS", "MY_FEDPOSITIONS", "MY_TAKENPOSITIONS", "MY_TENSOR", "MY_ROWBYTES"), "4"),
    **dict.fromkeys(("MY_ELEMENTS", "MY_HANDEDCOUNT", "MY_TAKENUMBER", "MY_AMOUNT"), "4"),
    **dict.fromkeys(("MY_FEDCOUNT", "MY_TAKENCOUNT", "MY_FEEDNUMBER", "MY_WORDS"), "1"),
    **dict.fromkeys(("MY_RINGOFFSET", "MY_KEPTBYTES", "MY_HOPBYTES"), "4"),
    **dict.fromkeys(("MY_WINDOWROWS", "MY_HOPROWS", "MY_WINDOWHOPS"), "4"),
    "my_model_tables": "(*(const edgetool_row_tables *)NULL)",
    **dict.fromkeys(("MY_LINEBYTES", "MY_MOSTBYTES"), "32"),
    "MY_UNIT": "uint32_t",
    "my_array": "NULL",
    "my_base": "((uint8_t *)(void *)context)",
    "my_fire": "edgetool_fire",
    "my_cell": "edgetool_cell",
    "MY_MODEL_IN_MY_WORD_BYTES": "16",
    "my_sum": "1",
    "my_initial": '""',
    "MY_MODEL_BUFFER_my_number_BYTES": "MY_SIZE",
    "my_calls": "true",
    "my_mismatch": "false",
    "my_type": "int8_t",
}
# For C++ for TFLM: elements without a C type have no real values either.
UNTYPED = {"MY_TYPED": "0", "MY_REAL": "0", "my_type": "void"}
# The value of all flags, and values that differ.
VARIANTS: tuple[tuple[str, dict[str, str]], ...] = (("1", {}), ("0", {}), ("1", {"MY_REAL": "0"}), ("1", UNTYPED))

BY_ROWS = ("ROWWISE", "INCREMENTAL", "HANDED", "ROWINPUT", "ROWOUTPUT", "FEDS", "FED", "TAKES", "TAKEN", "RINGS")
NATIVE_VARIANTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("1", {"MY_PLACED": "0", "MY_TRANSFERS": "0", "MY_CACHED": "0"}),
    ("0", {}),
    ("1", {**{f"MY_{name}": "0" for name in BY_ROWS}, "my_model_tables": "(*(const edgetool_program *)NULL)"}),
    (
        "1",
        {"my_fire": "edgetool_fire_several", "my_cell": "edgetool_cell_several", "MY_TRANSFERS": "0", "MY_CACHED": "0"},
    ),
)

# What surrounds each template in a generated file, as far as it uses that.
QUANTIZERS = """
int8_t my_model_input_my_position_quantize(float value);
float my_model_output_my_position_dequantize(int8_t value);
"""
NATIVE = (
    f"{QUANTIZERS}#define MY_MODEL_ARENA_BYTES 64\n#define MY_MODEL_ARENA_ALIGNMENT 4\n"
    "#define MY_MODEL_INVALIDATE(address, bytes) ((void)(address), (void)(bytes))\n"
)
COMMON = "#include <stddef.h>\n#include <stdint.h>\n"
BEFORE = {
    "c/limit_check.h": '#include "limit_macros.h"\n',
    "c/buffers.c": '#include "header.h"\n#include "buffers.h"\n',
    "c/tensor_table.h": "#define MY_MODEL_TENSOR_COUNT 1\n",
    "c/quantize.h": '#include "to_quantized.h"\n',
    **dict.fromkeys((f"native/model/{name}" for name in ("model.h", "model.c", "main.c", "run.c")), NATIVE),
    "tflm/runner.h": QUANTIZERS,
    "tflm/runner.cc": f"{QUANTIZERS}static uint8_t my_model_arena[64], my_model_head[64], my_model_tail[64];\n"
    "static uint8_t my_model_model_copy[16];\n",
    "tflm/main.cc": QUANTIZERS,
    "tflm/profile.cc": f"{QUANTIZERS}void my_fill(void *input, size_t bytes);\n"
    "#define MY_MODEL_PROFILE_TICKS() 1\n#define MY_MODEL_PROFILE_TICKS_HZ 1\n",
    "native/model/profile.c": f"{NATIVE}void my_fill(void *input, size_t bytes);\n"
    "#define MY_MODEL_PROFILE_TICKS() 1\n#define MY_MODEL_PROFILE_TICKS_HZ 1\n"
    '#include "edgetool_rows.h"\n#undef my_model_tables\n'
    "#if MY_ROWWISE\nextern const edgetool_row_tables my_model_tables;\n"
    "#else\nextern const edgetool_program my_model_tables;\n#endif\n",
    "tflm/arena.cc": "static uint8_t my_arena_arena[64], my_arena_head[64], my_arena_tail[64];\n",
    "tflm/arena_array.cc": '#include "limit_macros.h"\n#define MY_MODEL_ARENA_BYTES 64\n'
    "#define MY_MODEL_MY_ARRAY_BYTES 64\n"
    "#define MY_MODEL_ARENA_LOWER_BOUND_BYTES 64\n#define MY_MODEL_ARENA_ALIGNMENT 16\n",
    "counters/dwt.c": "#define __arm__\n",
    "counters/systick.c": "#define __arm__\n",
    "counters/mcycle.c": "#define __riscv\n",
    "counters/ccount.c": "#define __XTENSA__\n",
}
# The generated files that templates include.
FILES = {
    "my_model.h": "c/header.h",
    "my_model_model.h": "c/model.h",
    "my_model_ops.h": "tflm/ops.h",
    "my_model_runner.h": "tflm/runner.h",
    "my_arena_arena.h": "tflm/arena.h",
}
NATIVE_FILES = {
    "my_model.h": "native/model/model.h",
    "edgetool_native.h": "native/c/edgetool_native.h",
    "edgetool_rows.h": "native/c/edgetool_rows.h",
    "edgetool_transfer.h": "native/c/edgetool_transfer.h",
}
EMPTY_FILES = ("my_kernel.h", "my_model_weights.h", "my_header")


def flags_of_templates() -> set[str]:
    return {
        flag for file in TEMPLATES for flag in re.findall(r"^#if (MY_\w+)$", (PACKAGE / file).read_text(), re.MULTILINE)
    }


def includes(directory: Path, file: str) -> list[str]:
    for name, source in (NATIVE_FILES if file.startswith("native/") else FILES).items():
        shutil.copy(PACKAGE / source, directory / name)
    for name in EMPTY_FILES:
        (directory / name).touch()
    return [f"-I{directory}", f"-I{PACKAGE / 'c'}", f"-I{BARE}", f"-isystem{TFLM_API}"]


def test_every_template_has_a_compiler() -> None:
    assert len(TEMPLATES) > 20
    assert {Path(file).suffix for file in SOURCES} == {*COMPILERS, ".S", ".cmake", ".ld"}
    assert set(BEFORE) | set(FILES.values()) <= set(TEMPLATES)


def variants_of(file: str) -> tuple[tuple[str, dict[str, str]], ...]:
    """The values of all flags, and those that differ, with which a template is compiled."""
    if file.startswith("native/model/"):
        return NATIVE_VARIANTS if file != "native/model/profile.c" else NATIVE_VARIANTS[:2]
    return VARIANTS if file.startswith("tflm/") else VARIANTS[:2]


@pytest.mark.parametrize(
    ("file", "flag", "differing"),
    [
        pytest.param(file, flag, differing, id=f"{file}-{number}", marks=pytest.mark.slow if number else ())
        for file in SOURCES
        if Path(file).suffix in COMPILERS
        for number, (flag, differing) in enumerate(variants_of(file))
    ],
)
def test_a_compiler_parses_the_template(tmp_path: Path, file: str, flag: str, differing: dict[str, str]) -> None:
    command = COMPILERS[".cc" if file in CPP_HEADERS else Path(file).suffix]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    unit = tmp_path / ("unit.cc" if command[0] == "g++" else "unit.c")
    unit.write_text(f'{COMMON}{BEFORE.get(file, "")}#include "{PACKAGE / file}"\n', encoding="utf-8")
    standard = next(option for option in command if option.startswith("-std"))
    defined = {**OPERANDS, **dict.fromkeys(flags_of_templates() - set(OPERANDS), flag), **differing}
    options = [*(f"-D{name}={value}" for name, value in defined.items()), *includes(tmp_path, file)]
    done = subprocess.run(
        [command[0], standard, "-fsyntax-only", "-Wall", "-Wextra", "-Wno-unused", *options, unit],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_assembler_reads_the_template(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    (tmp_path / "my_model.tflite").write_bytes(bytes(16))
    source = "c/model.S"
    command = ["gcc", "-DMY_BYTES=16", "-c", str(PACKAGE / source), "-o", "model.o", *includes(tmp_path, source)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    if "requires ELF" in done.stderr:
        pytest.skip("gcc does not produce ELF objects")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("file", [file for file in TEMPLATES if file.endswith(".cmake")])
def test_cmake_parses_the_template(tmp_path: Path, file: str) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    text = (PACKAGE / file).read_text(encoding="ascii")
    (tmp_path / "parsed.cmake").write_text(f"function(never_called)\n{text}endfunction()\n", encoding="ascii")
    done = subprocess.run(
        ["cmake", "-P", "parsed.cmake"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_line_is_used_by_some_generated_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is never used could have a placeholder without a value, which nothing would notice."""
    marks: dict[str, set[str]] = {}

    def marked(file: str) -> list[str]:
        """Return the lines of a template, each with its number at its end."""
        lines = (PACKAGE / file).read_text(encoding="ascii").splitlines()
        numbers = [n for n, line in enumerate(lines) if line and not re.match(r" *//|#(if|else|endif)", line)]
        marks[file] = {f"{file}:{n}" for n in numbers}
        return [f"{line}<{file}:{n}>" if n in numbers else line for n, line in enumerate(lines)]

    monkeypatch.setattr(templates, "_read", cache(marked))
    used = {mark for text in generated() for mark in re.findall(r"<([\w./]+:\d+)>", text)}
    assert sorted(marks) == TEMPLATES
    assert sorted(set().union(*marks.values()) - used) == []


def generated() -> Iterator[str]:
    """Every kind of file for every model of the tests."""
    for name in ("kws", "string"):
        yield from (*model_data(name, BLOB), incbin_source(name))
    for head in ALL.values():
        yield header(head)
        if head.places:
            yield linker_script(head.name, head.tool_version, head.places)
            for is_copied in (False, True):
                code = PlacedCode("itcm", 65536, 0, KERNEL_FILES, is_copied)
                yield linker_script(head.name, head.tool_version, head.places, code)
            yield model_data(head.name, BLOB, model_section(head.places))[0]
        if head.buffers is not None:
            yield buffers_source(head)
    for spec in (*ALL_PROGRAMS.values(), EVERY_TYPE_PROGRAM):
        yield from (ops_header(spec), runner_header(spec), runner_source(spec), main_source([spec]))
        yield cmake_lists(spec, data="incbin", profile=True)
        for core in ("cortex-m0plus", "cortex-m7", "riscv32", "xtensa-lx7", "rxv2"):
            target = replace(spec.header.target, core=core)
            yield profile_source(replace(spec, header=replace(spec.header, target=target)))
    for bound in (False, True):
        arena = SharedArenaSpec("joint", "0.1.0", (STATE_PROGRAM,), 4096, bound, 4000, 96)
        yield arena_source(replace(arena, places=PLACED.places[:2]))
        yield from (arena_header(arena), arena_source(arena), cmake_lists(arena))
    for name in native_models.MODELS:
        yield from native_models.texts(name).values()
        yield from native_models.placed_texts(name).values()
        yield from row_texts(name, native_models.MODELS[name]()).values()
        if name != "nothing":
            yield from native_models.texts(name, profile=True).values()
    for line_bytes in (0, 32):
        yield from native_models.placed_texts("layer", line_bytes).values()
    for fed, taken in (((), ()), ((0,), ()), ((), (0,)), ((0,), (0,))):
        yield from row_texts("layer", native_models.layer(), fed, taken, profile=True).values()
        yield from row_texts("layer", native_models.layer(), fed, taken, parts=3).values()
    yield from stream_texts("spotter", spotter(), 2, profile=True).values()
    yield from stream_texts("spotter", spotter(), 2, parts=2).values()
    dense = native_models.spec_of("layer", native_models.layer())
    real = replace(dense.inputs[0], dtype=DType.FLOAT32, scale=None, zero_point=None)
    other = replace(dense, uncalibrated=True, inputs=(real,), target=replace(dense.target, core="rxv2"))
    yield from native_models.texts("layer", spec=other, profile=True).values()


def filled(monkeypatch: pytest.MonkeyPatch, text: str, **values: TemplateValue) -> str:
    monkeypatch.setattr(templates, "_read", lambda file: text.splitlines())
    return fill("example.c", **values)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("my_model_runner MY_MODEL_BYTES", {"my_model": "kws", "MY_MODEL": "KWS"}, "kws_runner KWS_BYTES\n"),
        ("EDGETOOL_MY_MODEL my_model.h", {"my_model": "kws", "MY_MODEL": "KWS"}, "EDGETOOL_KWS kws.h\n"),
        (".Lmy_model_end", {"my_model": "kws"}, ".Lkws_end\n"),
        ("dummy_model enemy_x my-board", {}, "dummy_model enemy_x my-board\n"),
        ("my_label", {"my_label": "my_model MY_ROWS"}, "my_model MY_ROWS\n"),
        ("a\n  // for readers\nb  // kept", {}, "a\nb  // kept\n"),
        ("{\n    // MY_ROWS\n}", {"MY_ROWS": "1,\n2,\n"}, "{\n1,\n2,\n}\n"),
        ("{\n// MY_ROWS\n}", {"MY_ROWS": ""}, "{\n}\n"),
        ("#if MY_A\na\n#else\nb\n#endif\nc", {"MY_A": True}, "a\nc\n"),
        ("#if MY_A\na\n#else\nb\n#endif\nc", {"MY_A": False}, "b\nc\n"),
        ("#if MY_A\na MY_A\n#endif", {"MY_A": 2}, "a 2\n"),
        ("#if MY_A\n#ifdef X\na\n#else\nb\n#endif\n#endif", {"MY_A": 1}, "#ifdef X\na\n#else\nb\n#endif\n"),
        ("#if MY_A\n#if MY_B\na\n#else\nb\n#endif\n#else\nc\n#endif", {"MY_A": 1, "MY_B": 0}, "b\n"),
        ("#if MY_A\nmy_n my_x\n#endif", {"MY_A": [{"my_n": 1}, {"my_n": 2}], "my_x": 3}, "1 3\n2 3\n"),
        ("#if MY_A\na\n#endif\nb", {"MY_A": []}, "b\n"),
    ],
)
def test_placeholders_are_filled(
    monkeypatch: pytest.MonkeyPatch, text: str, values: dict[str, TemplateValue], expected: str
) -> None:
    assert filled(monkeypatch, text, **values) == expected


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        ("my_model", {}, "the placeholder my_model has no value"),
        ("// MY_ROWS", {}, "the placeholder MY_ROWS has no value"),
        ("#if MY_STATE\n#endif", {}, "the placeholder MY_STATE has no value"),
        ("#if MY_A\nmy_n\n#endif", {"MY_A": [{}]}, "the placeholder my_n has no value"),
        ("my_model", {"my_model": "kws", "MY_MODEL": "KWS"}, "has no placeholder MY_MODEL"),
        ("#if MY_A\nmy_n\n#endif", {"MY_A": [{"my_n": 1, "my_m": 2}]}, "has no placeholder my_m"),
        ("#if MY_A\n#if MY_A\n#endif", {"MY_A": 1}, "#if MY_A has no #endif"),
    ],
)
def test_placeholders_and_values_that_do_not_match_are_an_error(
    monkeypatch: pytest.MonkeyPatch, text: str, values: dict[str, TemplateValue], message: str
) -> None:
    with pytest.raises(InternalError, match=re.escape(f"template example.c: {message}")):
        filled(monkeypatch, text, **values)
