"""The table of offsets in NAME.h: what it says, that it costs nothing unless used, and that any compiler takes it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from edgetool import errors
from edgetool.codegen import c_names
from edgetool.codegen.header import header
from edgetool.codegen.spec import HeaderSpec, TensorSpec
from tests.codegen.c_compilers import MATRIX, compile_in
from tests.codegen.header_specs import HOSTILE, KWS, SEQUENCE, SHARED

# The whole of NASNetMobile has fewer.
BIG = replace(
    KWS,
    name="big",
    tensors=tuple(TensorSpec(i, 0, f"block_{i}/Relu;block_{i}/BiasAdd", 16 * i, 16, i, i + 1) for i in range(600)),
)
ALL = (KWS, SEQUENCE, HOSTILE, BIG)
ROW_LENGTH = 120

PRINT = """\
#include <stdio.h>

static void print(const edgetool_tensor *tensors, unsigned count)
{
    unsigned i;
    for (i = 0; i < count; ++i) {
        printf("%lu %lu %lu %lu %ld %ld\\n", (unsigned long)tensors[i].subgraph, (unsigned long)tensors[i].index,
               (unsigned long)tensors[i].offset, (unsigned long)tensors[i].bytes, (long)tensors[i].first_op,
               (long)tensors[i].last_op);
    }
}
"""


def write(directory: Path, *specs: HeaderSpec) -> str:
    """Write the headers; returns the lines that include them."""
    for spec in specs:
        (directory / f"{c_names.model_identifier(spec.name)}.h").write_text(header(spec), encoding="ascii", newline="")
    return "".join(f'#include "{c_names.model_identifier(spec.name)}.h"\n' for spec in specs)


def rows(spec: HeaderSpec) -> list[str]:
    return [
        f"{t.subgraph} {t.index} {t.offset} {t.size_bytes} {t.first_op} {t.last_op}"
        for t in spec.tensors
        if t.offset is not None
    ]


@pytest.mark.parametrize(("compiler", "standard"), [("gcc", "c99"), ("gcc", "c2x"), ("g++", "c++11"), ("g++", "c++20")])
def test_a_program_can_walk_the_tables_of_several_models(tmp_path: Path, compiler: str, standard: str) -> None:
    calls = "".join(
        f"    print({c_names.model_identifier(spec.name)}_tensors(), {c_names.model_macro(spec.name)}_TENSOR_COUNT);\n"
        for spec in ALL
    )
    unit = f"{write(tmp_path, *ALL)}{PRINT}\nint main(void)\n{{\n{calls}    return 0;\n}}\n"
    (tmp_path / "unit.c").write_text(unit)
    built = compile_in(tmp_path, compiler, standard, "unit.c", "-o", "program")
    assert (built.returncode, built.stderr) == (0, "")
    run = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.splitlines() == [row for spec in ALL for row in rows(spec)]


@pytest.mark.parametrize(("compiler", "standard"), MATRIX)
def test_an_unused_table_takes_no_memory_and_causes_no_warning(tmp_path: Path, compiler: str, standard: str) -> None:
    (tmp_path / "unit.c").write_text(write(tmp_path, *ALL) + "extern int x;\nint x = 1;\n")
    strict = ("-Wunused", "-Wunused-const-variable=2", "-Wunused-function", "-O0")
    result = compile_in(tmp_path, compiler, standard, *strict, "-c", "unit.c", "-o", "unit.o")
    assert (result.returncode, result.stderr) == (0, "")
    tool = "arm-none-eabi-size" if compiler.startswith("arm") else "size"
    sizes = subprocess.run([tool, "unit.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    text, data, bss = map(int, sizes.splitlines()[1].split()[:3])
    assert (text, data, bss) == (0, 4, 0)


def test_the_sizes_are_constants_of_the_preprocessor(tmp_path: Path) -> None:
    conditions = "KWS_ACTIVATIONS_BYTES != 8512 || KWS_POSITION_COUNT != 4 || KWS_TENSOR_COUNT != 4"
    (tmp_path / "unit.c").write_text(f"{write(tmp_path, KWS)}#if {conditions}\n#error\n#endif\n")
    result = compile_in(tmp_path, "gcc", "c99", "-fsyntax-only", "unit.c")
    assert (result.returncode, result.stderr) == (0, "")


def test_no_line_grows_with_the_model() -> None:
    lines = header(BIG).splitlines()
    assert max(map(len, lines)) <= ROW_LENGTH
    assert not any(line.endswith("\\") for line in lines)


def test_an_offset_is_in_the_header_once() -> None:
    text = header(replace(KWS, tensors=tuple(replace(t, offset=7 * 2**20 + 16 * t.index) for t in KWS.tensors)))
    for tensor in KWS.tensors:
        assert len(re.findall(rf"\b{7 * 2**20 + 16 * tensor.index}\b", text)) == 1


def test_tensors_without_an_offset_are_not_in_it() -> None:
    prefix = c_names.model_macro(SEQUENCE.name)
    text = header(SEQUENCE)
    assert f"#define {prefix}_TENSOR_COUNT 1\n" in text
    assert "placed at run time are not included" in re.sub(r"\n \* ", " ", text)
    unplanned = header(replace(KWS, tensors=tuple(replace(t, offset=None) for t in KWS.tensors)))
    assert not re.search(r"_tensors\(|TENSOR_COUNT|ACTIVATIONS|edgetool_tensor", unplanned)
    assert not re.search(r"_tensors\(|ACTIVATIONS|edgetool_tensor", header(SHARED))


def test_a_tensor_that_no_operator_uses_has_no_position() -> None:
    text = header(replace(KWS, tensors=(replace(KWS.tensors[0], first_op=-1, last_op=-1),)))
    assert re.search(r"^        \{0, 0, \w+_OFFSET, 490, -1, -1\},$", text, re.MULTILINE)
    assert "#define KWS_POSITION_COUNT 0\n" in text


def test_offsets_that_no_device_has_are_refused() -> None:
    with pytest.raises(errors.UnsupportedModelError, match="2,147,483,648"):
        header(replace(KWS, tensors=(replace(KWS.tensors[0], offset=2**31 - 16, size_bytes=1),)))
