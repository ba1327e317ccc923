"""NAME.h. To renew the golden files after a wanted change: EDGETOOL_UPDATE_GOLDEN=1 pytest tests/codegen

What NAME.h says of a state; nothing where there is none.

The C files on cores with no C library at all: Cortex-M0+, RISC-V of 32 and 64 bits, Xtensa.

NAME_buffers.c, and what NAME.h says of shared buffers.

The table of offsets in NAME.h: what it says, that it costs nothing unless used, and that any compiler takes it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool import errors
from edgetool.codegen import c_names
from edgetool.codegen.header import buffers_source, header, limit_macros, model_data
from edgetool.codegen.spec import BuffersSpec, HeaderSpec, HeaderTarget, IoSpec, TensorSpec
from edgetool.memory.lifetimes import RecurrentState
from edgetool.model.types import DType
from tests.codegen.c_compilers import C_STANDARDS, FLAGS, MATRIX, compile_in, over_compilers
from tests.codegen.golden_files import check_golden
from tests.codegen.header_specs import ALL, BLOB, HOSTILE, HOSTILE_SHARED, KWS, SEQUENCE, SHARED


def write(directory: Path, *specs: HeaderSpec) -> list[str]:
    """Write the headers; returns their file names."""
    files = [f"{c_names.model_identifier(spec.name)}.h" for spec in specs]
    for file, spec in zip(files, specs, strict=True):
        (directory / file).write_text(header(spec), encoding="ascii", newline="")
    return files


def includes(files: list[str]) -> str:
    return "".join(f'#include "{file}"\n' for file in files)


@pytest.mark.parametrize("name", ALL)
def test_golden(name: str) -> None:
    check_golden(f"{name}.h", header(ALL[name]))


@pytest.mark.parametrize("name", ALL)
def test_the_text_is_plain(name: str) -> None:
    text = header(ALL[name])
    assert text == header(ALL[name])
    assert set(text) <= {*map(chr, range(32, 127)), "\n"}
    assert text.endswith("\n")
    assert not re.search(r"[ \t]\n", text)
    assert "??" not in text
    for comment in re.findall(r"/\*(.*?)\*/", text, re.DOTALL):
        assert not re.search(r'/\*|//|[\\?"]', comment)


@over_compilers(MATRIX)
def test_compiles_without_a_warning_even_twice(tmp_path: Path, compiler: str, standard: str) -> None:
    files = write(tmp_path, *ALL.values())
    (tmp_path / "unit.c").write_text(includes(files + files))
    result = compile_in(tmp_path, compiler, standard, "-fsyntax-only", "unit.c")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(("compiler", "standard"), [("gcc", "c99"), ("g++", "c++11"), ("g++", "c++20")])
def test_two_units_link(tmp_path: Path, compiler: str, standard: str) -> None:
    files = write(tmp_path, *ALL.values())
    use = "int {0}(void);\nint {0}(void) {{ return kws_input_0_quantize(1.5f) + (int)kws_output_0_dequantize(3); }}\n"
    (tmp_path / "a.c").write_text(includes(files) + use.format("first"))
    (tmp_path / "b.c").write_text(
        includes(files) + use.format("second") + "int first(void);\nint main(void) { return first() - second(); }\n"
    )
    result = compile_in(tmp_path, compiler, standard, "a.c", "b.c", "-o", "program")
    assert (result.returncode, result.stderr) == (0, "")
    assert subprocess.run([tmp_path / "program"], check=False, timeout=60).returncode == 0


def values_of(spec: HeaderSpec) -> dict[str, str]:
    """The macros, as the text defines them."""
    return dict(re.findall(r"^#define (\w+) (.+)$", header(spec), re.MULTILINE))


def test_macros_of_a_known_arena() -> None:
    macros = values_of(KWS)
    assert macros["KWS_ARENA_BYTES"] == "23456"
    assert macros["KWS_ARENA_ALIGNMENT"] == "16"
    assert macros["KWS_ARENA_IS_LOWER_BOUND"] == "0"
    assert macros["KWS_SRAM_LIMIT_BYTES"] == "KWS_TARGET_SRAM_BYTES"
    assert macros["KWS_TARGET_SRAM_BYTES"] == "524288"
    assert macros["KWS_MODEL_SHA256"] == f'"{KWS.model_sha256}"'
    assert macros["KWS_TENSOR_dense_OFFSET"] == "8496"
    assert macros["KWS_TENSOR_dense_BYTES"] == "12"
    assert macros["KWS_TENSOR_dense_INDEX"] == "6"
    assert macros["KWS_INPUT_0_SHAPE"] == "{1, 49, 10, 1}"
    assert macros["KWS_INPUT_0_BYTES"] == "490"
    assert macros["KWS_INPUT_0_DTYPE"] == "kTfLiteInt8"
    assert macros["KWS_OUTPUT_0_ZERO_POINT"] == "(-128)"
    assert "/* tensor 6, operators 2 to 3: dense */" in header(KWS)
    assert "!!!" not in header(KWS)


def test_unknown_sizes_are_stated_prominently() -> None:
    text, macros = header(SEQUENCE), values_of(SEQUENCE)
    prefix = c_names.model_macro(SEQUENCE.name)
    assert "!!! UNCALIBRATED" in text
    assert "!!! THE EXACT ARENA SIZE IS UNKNOWN" in text
    assert macros[f"{prefix}_ARENA_LOWER_BOUND_BYTES"] == "4112"
    assert macros[f"{prefix}_ARENA_IS_LOWER_BOUND"] == macros[f"{prefix}_UNCALIBRATED"] == "1"
    assert f"{prefix}_ARENA_BYTES" not in macros
    assert f"{prefix}_SRAM_LIMIT_BYTES" not in macros
    assert macros[f"{prefix}_TENSOR_1_BYTES"] == macros[f"{prefix}_TENSOR_1_2_BYTES"] == "64"
    assert f"{prefix}_TENSOR_1_OFFSET" not in macros
    assert macros[f"{prefix}_INPUT_2_RANK"] == "0"
    assert f"{prefix}_INPUT_2_SHAPE" not in macros


def test_an_arena_that_is_only_a_bound_is_not_offered() -> None:
    macros = values_of(replace(KWS, arena_is_lower_bound=True))
    assert "KWS_ARENA_BYTES" not in macros
    assert macros["KWS_ARENA_LOWER_BOUND_BYTES"] == "23456"


LIMITS = [
    (KWS, "SRAM", 23456, "arena"),
    (KWS, "FLASH", 265, "model"),
    (SEQUENCE, "SRAM", 4112, "arena"),
    (SEQUENCE, "FLASH", 265, "model"),
]


# In C99 the name of a type says what does not fit; later the message has both numbers.
COMPILED_BELOW = [
    ("gcc", "c99"),
    ("gcc", "c11"),
    ("gcc", "c2x"),
    ("g++", "c++11"),
    ("g++", "c++20"),
    ("arm-none-eabi-gcc", "c17"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "memory", "needed", "what"), LIMITS)
@pytest.mark.parametrize(("compiler", "standard"), COMPILED_BELOW)
def test_stops_compiling_below_the_limit(
    tmp_path: Path, spec: HeaderSpec, memory: str, needed: int, what: str, compiler: str, standard: str
) -> None:
    (file,) = write(tmp_path, spec)
    (tmp_path / "unit.c").write_text(includes([file]))
    name = c_names.model_identifier(spec.name)

    def limited_to(size: str) -> subprocess.CompletedProcess[str]:
        limit = f"-D{c_names.model_macro(spec.name)}_{memory}_LIMIT_BYTES={size}"
        return compile_in(tmp_path, compiler, standard, limit, "-fsyntax-only", "unit.c")

    assert limited_to(str(needed)).stderr == ""
    assert limited_to("512ul * 1024ul").stderr == ""
    for size in (str(needed - 1), f"(unsigned char){needed % 256 - 1}", "0"):
        refused = limited_to(size)
        assert refused.returncode != 0
        if standard == "c99":
            assert f"{name}_{what}_exceeds_{memory}_LIMIT_BYTES" in refused.stderr
        else:
            macro = c_names.model_macro(spec.name)
            least = "at least " if what == "arena" and spec is SEQUENCE else ""
            text = f"{name}_{what} needs {least}{needed} bytes, but {macro}_{memory}_LIMIT_BYTES is {size}"
            assert text in refused.stderr.replace('" "', "")


SMALL = [
    (replace(KWS.target, sram_bytes=200), "SRAM", "arena"),
    (replace(KWS.target, flash_bytes=200), "FLASH", "model"),
]


@pytest.mark.parametrize(("target", "memory", "what"), SMALL)
def test_the_memory_of_the_target_is_the_limit(tmp_path: Path, target: HeaderTarget, memory: str, what: str) -> None:
    (file,) = write(tmp_path, replace(KWS, target=target))
    (tmp_path / "unit.c").write_text(includes([file]))
    refused = compile_in(tmp_path, "gcc", "c99", "-fsyntax-only", "unit.c")
    assert refused.returncode != 0
    assert f"kws_{what}_exceeds_{memory}_LIMIT_BYTES" in refused.stderr
    reported = compile_in(tmp_path, "gcc", "c11", "-fsyntax-only", "unit.c").stderr
    needed = KWS.arena_bytes if what == "arena" else KWS.model_bytes
    assert f"kws_{what} needs {needed} bytes, but KWS_{memory}_LIMIT_BYTES is 200" in reported.replace('" "', "")
    widened = compile_in(tmp_path, "gcc", "c99", f"-DKWS_{memory}_LIMIT_BYTES=65536", "-fsyntax-only", "unit.c")
    assert widened.stderr == ""


def test_every_tensor_has_macros_of_its_own() -> None:
    text = header(HOSTILE)
    defined = re.findall(r"^#define (\w+)", text, re.MULTILINE)
    once = [name for name in defined if not name.endswith("_REQUIRE")]  # that one has a form for each language
    assert len(once) == len(set(once))
    offsets = re.findall(r"^#define \w+_TENSOR_\w+_OFFSET (\d+)$", text, re.MULTILINE)
    assert list(map(int, offsets)) == [tensor.offset for tensor in HOSTILE.tensors]


any_text = st.text(st.characters(codec=None), max_size=40)


@given(
    st.lists(any_text | st.sampled_from(["t_a_b_6e2ab01c", "a/b", "x", "1_2"]), max_size=12),
    any_text,
    st.lists(any_text, max_size=3),
)
def test_no_name_escapes_from_its_comment(names: list[str], model: str, notes: list[str]) -> None:
    spec = replace(
        HOSTILE,
        name=model,
        notes=tuple(notes),
        tensors=tuple(TensorSpec(i, i % 2, name, i, i, 0, 1) for i, name in enumerate(names)),
        inputs=tuple(IoSpec(i, name, (1,), DType.INT8) for i, name in enumerate(names)),
    )
    text = header(spec)
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    macro, name = c_names.model_macro(model), c_names.model_identifier(model)
    before, fixed, after = code.partition(limit_macros(macro))  # no name of the model is in these lines
    assert fixed
    for line in filter(None, (before + after).splitlines()):
        assert re.fullmatch(
            rf"#(?:ifndef|define|ifdef) (?:{macro}_\w+|EDGETOOL_HEADER_{macro}|EDGETOOL_TENSOR_TYPE)"
            rf'(?: [\w."(){{}}:; ,/*<+>-]+)?'
            rf"|#(?:endif|include <stdint.h>) ?|typedef \w+ {name}_\w+(?:\[.*\])?;"
            rf"|{macro}_REQUIRE\(\({macro}_\w+\) >= {macro}_\w+, {name}_\w+,"
            rf'|    "{name}_\w+ needs (?:at least )?" {macro}_TEXT\({macro}_\w+\)'
            rf'|    " bytes, but {macro}_\w+ is " {macro}_TEXT\({macro}_\w+\)\);'
            rf"|static inline \w+ {name}_\w+\(.*\)|[{{}} ].*|\}}"
            rf"|typedef struct \{{|\}} edgetool_tensor;|static inline const edgetool_tensor \*{name}_tensors\(void\)",
            line,
        ), line
    defined = re.findall(r"^#define (\w+)", before + after, re.MULTILINE)
    assert len(defined) == len(set(defined))
    counted = bool(names)  # the count of the table is one more
    assert len([key for key in defined if key.startswith(f"{macro}_TENSOR_")]) == 3 * len(names) + counted


def test_inconsistent_specifications_are_rejected() -> None:
    with pytest.raises(ValueError, match="lower bound"):
        replace(KWS, arena_bytes=None)
    with pytest.raises(ValueError, match="SHA-256"):
        replace(KWS, model_sha256="0" * 63 + '"')
    with pytest.raises(ValueError, match="twice"):
        replace(KWS, tensors=KWS.tensors + KWS.tensors[:1])
    with pytest.raises(ValueError, match="offset is -1"):
        replace(KWS.tensors[0], offset=-1)
    with pytest.raises(ValueError, match="sram_bytes"):
        HeaderTarget("t", "c", "k", sram_bytes=-1)
    with pytest.raises(ValueError, match="zero point"):
        IoSpec(0, "x", (1,), DType.INT8, 0.5)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e39, 1e-46])
def test_an_invalid_scale_is_an_error_in_the_model(scale: float) -> None:
    with pytest.raises(errors.InvalidModelError, match="scale"):
        IoSpec(0, "x", (1,), DType.INT8, scale, 0)


@pytest.mark.parametrize(("dtype", "zero_point"), [(DType.INT8, 128), (DType.UINT8, -1), (DType.INT32, 2**31)])
def test_a_zero_point_outside_its_type_is_an_error_in_the_model(dtype: DType, zero_point: int) -> None:
    with pytest.raises(errors.InvalidModelError, match="zero point"):
        IoSpec(0, "x", (1,), dtype, 0.5, zero_point)


def test_inputs_and_outputs_can_be_found_by_their_name_in_the_model() -> None:
    named = [replace(KWS.inputs[0], argument=argument) for argument in ("mfcc", "a name with spaces", "twice", "twice")]
    text = header(replace(KWS, inputs=tuple(named)))
    assert "#define KWS_INPUT_mfcc_INDEX 0\n" in text
    assert re.search(r"#define KWS_INPUT_n_a_name_with_\w+_INDEX 1\n", text)
    assert "twice_INDEX" not in text
    assert "Input 0: mfcc (" in text


STREAM = replace(KWS, name="stream", state=RecurrentState((("gru/state_0", 16), ("lstm/cell_state", 32))))


def test_a_model_without_state_has_no_section_on_state() -> None:
    assert "STATE" not in header(KWS)
    assert header(replace(KWS, state=RecurrentState(()))) == header(KWS)


def test_the_state_and_its_reset_are_described() -> None:
    text = header(STREAM)
    assert "#define STREAM_STATE_TENSORS 2\n" in text
    assert "#define STREAM_STATE_BYTES 48\n" in text
    plain = " ".join(text.replace("*", " ").split())
    assert "gru/state_0 (16 bytes), lstm/cell_state (32 bytes)".replace("/", "") in plain.replace("/", "")
    assert "stream_runner::reset()" in plain


def test_many_states_are_not_all_named() -> None:
    many = RecurrentState(tuple((f"layer_{i}", 4) for i in range(40)), resources=2)
    text = " ".join(header(replace(STREAM, state=many)).replace("*", " ").split())
    assert "layer_5 (4 bytes)" in text
    assert "layer_6" not in text
    assert "34 more" in text
    assert "2 resource variables" in text
    assert "#define STREAM_STATE_BYTES 160" in text


@pytest.mark.parametrize(("compiler", "standard"), [MATRIX[0], MATRIX[-1]])
def test_it_compiles(tmp_path: Path, compiler: str, standard: str) -> None:
    (tmp_path / "stream.h").write_text(header(STREAM), encoding="ascii")
    (tmp_path / "unit.c").write_text('#include "stream.h"\ntypedef char whole[STREAM_STATE_BYTES == 48 ? 1 : -1];\n')
    result = compile_in(tmp_path, compiler, standard, "-fsyntax-only", "unit.c")
    assert (result.returncode, result.stderr) == (0, "")


CORES = {
    "cortex-m0plus": ("arm-none-eabi-", "-mcpu=cortex-m0plus", "-mthumb"),
    "rv32imc": ("riscv64-unknown-elf-", "-march=rv32imc", "-mabi=ilp32", "-mcmodel=medany"),
    "rv64gc": ("riscv64-unknown-elf-", "-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany"),
    "xtensa": ("xtensa-lx106-elf-",),
}
# What libgcc has for cores without floating point, division or wide multiplication.
LIBGCC = r"__(?:aeabi_\w+|(?:add|sub|mul|div|lt|le|gt|ge|eq|ne)sf[23]|fix(?:uns)?sfsi|float(?:un)?sisf|gnu_thumb1_\w+)"

USE = """\
int32_t use(float value);
int32_t use(float value)
{
    const edgetool_tensor *const last = &kws_tensors()[KWS_TENSOR_COUNT - 1];
    return kws_input_0_quantize(value) + (int32_t)last->offset + kws_model[0] + (int32_t)shared_tensors[0].bytes;
}
"""


@pytest.mark.parametrize("standard", C_STANDARDS)
@pytest.mark.parametrize("core", CORES)
def test_only_the_compiler_is_needed(tmp_path: Path, core: str, standard: str) -> None:
    prefix, *options = CORES[core]
    if shutil.which(f"{prefix}gcc") is None:
        pytest.skip(f"{prefix}gcc is not installed")
    unit = ""
    for spec in ALL.values():
        name = c_names.model_identifier(spec.name)
        (tmp_path / f"{name}.h").write_text(header(spec))
        unit += f'#include "{name}.h"\n'
    source, declaration = model_data("kws", BLOB)
    (tmp_path / "kws_model.c").write_text(source)
    (tmp_path / "kws_model.h").write_text(declaration)
    (tmp_path / "shared_buffers.c").write_text(buffers_source(SHARED))
    (tmp_path / "unit.c").write_text(f'{unit}#include "kws_model.c"\n#include "shared_buffers.c"\n{USE}')
    command = [f"{prefix}gcc", *options, f"-std={standard}", *FLAGS, "-ffreestanding", "-O2", "-c", "unit.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    missing = subprocess.run([f"{prefix}nm", "-u", "unit.o"], cwd=tmp_path, capture_output=True, text=True, check=True)
    symbols = set(missing.stdout.split()) - {"U"}
    assert {symbol for symbol in symbols if not re.fullmatch(LIBGCC, symbol)} == set()


EMPTY = replace(SHARED, name="none", tensors=(), inputs=(), outputs=(), buffers=BuffersSpec((), 0, 0))


def write_with_buffers(directory: Path, spec: HeaderSpec) -> str:
    base = c_names.model_identifier(spec.name)
    (directory / f"{base}.h").write_text(header(spec), encoding="ascii", newline="")
    (directory / f"{base}_buffers.c").write_text(buffers_source(spec), encoding="ascii", newline="")
    return base


def test_golden_buffers() -> None:
    check_golden("shared_buffers.c", buffers_source(SHARED))


@over_compilers(MATRIX)
def test_compiles_without_a_warning(tmp_path: Path, compiler: str, standard: str) -> None:
    bases = [write_with_buffers(tmp_path, spec) for spec in (SHARED, HOSTILE_SHARED, EMPTY)]
    (tmp_path / "unit.c").write_text("".join(f'#include "{base}_buffers.c"\n' for base in bases))
    result = compile_in(tmp_path, compiler, standard, "-c", "unit.c", "-o", "unit.o")
    assert (result.returncode, result.stderr) == (0, "")


MAIN = """\
#include "shared.h"
#include "shared.h"

int main(void)
{
    uint32_t i;
    for (i = 0; i < SHARED_TENSOR_COUNT; ++i) {
        if (((uintptr_t)shared_tensors[i].data & 15u) != 0u) return 2;
        if (shared_tensors[i].data != (shared_tensors[i].buffer == 0u ? shared_buffer_0 : shared_buffer_1)) return 3;
    }
    if (sizeof shared_buffer_0 + sizeof shared_buffer_1 != SHARED_BUFFERS_BYTES) return 4;
    if (shared_tensors[2].index != SHARED_TENSOR_dense_INDEX) return 5;
    if (shared_tensors[2].bytes != SHARED_TENSOR_dense_BYTES) return 6;
    return &SHARED_INPUT_0_DATA[0] == &SHARED_TENSOR_dense_DATA[0] && SHARED_OUTPUT_0_BUFFER == 0 ? 0 : 7;
}
"""


@pytest.mark.parametrize("arrays", [("gcc", "c99"), ("gcc", "c2x"), ("g++", "c++11"), ("g++", "c++20")])
@pytest.mark.parametrize("user", [("gcc", "c99"), ("g++", "c++17")])
def test_the_table_contains_the_place_of_every_tensor(
    tmp_path: Path, arrays: tuple[str, str], user: tuple[str, str]
) -> None:
    write_with_buffers(tmp_path, SHARED)
    (tmp_path / "main.c").write_text(MAIN)
    assert compile_in(tmp_path, *arrays, "-c", "shared_buffers.c", "-o", "arrays.o").stderr == ""
    assert compile_in(tmp_path, *user, "-c", "main.c", "-o", "main.o").stderr == ""
    subprocess.run(["gcc", "arrays.o", "main.o", "-o", "program"], cwd=tmp_path, check=True, timeout=60)
    assert subprocess.run([tmp_path / "program"], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize(("compiler", "standard"), [("arm-none-eabi-gcc", "c99"), ("arm-none-eabi-gcc", "c17")])
def test_each_buffer_goes_to_a_section_and_alignment_of_its_own(tmp_path: Path, compiler: str, standard: str) -> None:
    write_with_buffers(tmp_path, SHARED)
    options = (
        '-DSHARED_BUFFER_0_SECTION=__attribute__((section(".axi")))',
        '-DSHARED_BUFFER_1_SECTION=__attribute__((section(".dtcm")))',
        "-DSHARED_BUFFER_1_ALIGNMENT=64",
    )
    result = compile_in(tmp_path, compiler, standard, *options, "-c", "shared_buffers.c", "-o", "arrays.o")
    assert result.stderr == ""
    shown = subprocess.run(
        ["arm-none-eabi-objdump", "-h", "arrays.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert re.search(rf"\.axi\s+{8000:08x} .* 2\*\*4\n", shown), shown
    assert re.search(rf"\.dtcm\s+{496:08x} .* 2\*\*6\n", shown), shown


def test_a_section_in_cpp(tmp_path: Path) -> None:
    write_with_buffers(tmp_path, SHARED)
    section = '-DSHARED_BUFFER_0_SECTION=__attribute__((section(".axi")))'
    assert compile_in(tmp_path, "g++", "c++11", section, "-c", "shared_buffers.c", "-o", "arrays.o").stderr == ""


@pytest.mark.parametrize(
    ("limit", "least", "reported"),
    [
        ("SHARED_BUFFER_0_LIMIT_BYTES", 8000, "shared_buffer_0_exceeds_LIMIT_BYTES"),
        ("SHARED_BUFFER_1_LIMIT_BYTES", 496, "shared_buffer_1_exceeds_LIMIT_BYTES"),
        ("SHARED_SRAM_LIMIT_BYTES", 8496, "shared_buffers_exceeds_SRAM_LIMIT_BYTES"),
    ],
)
def test_stops_compiling_below_each_limit(tmp_path: Path, limit: str, least: int, reported: str) -> None:
    write_with_buffers(tmp_path, SHARED)
    (tmp_path / "unit.c").write_text('#include "shared.h"\n')
    assert compile_in(tmp_path, "gcc", "c99", f"-D{limit}={least}", "-fsyntax-only", "unit.c").stderr == ""
    refused = compile_in(tmp_path, "gcc", "c99", f"-D{limit}={least - 1}", "-fsyntax-only", "unit.c")
    assert refused.returncode != 0
    assert reported in refused.stderr
    refused = compile_in(tmp_path, "gcc", "c11", f"-D{limit}={least - 1}", "-fsyntax-only", "unit.c")
    assert refused.returncode != 0
    assert f"needs {least} bytes, but {limit} is {least - 1}" in refused.stderr.replace('" "', "")


def test_the_header_has_no_arena_and_no_offsets() -> None:
    text = header(SHARED)
    assert "TensorFlow" not in text
    assert not re.search(r"_ARENA_|_OFFSET|arena", text)
    assert "#define SHARED_BUFFERS_BYTES 8496\n" in text
    assert "/* buffer 1: tensors 0, 6 */" in text


def test_inconsistent_buffers_are_rejected() -> None:
    with pytest.raises(ValueError, match="is not in any buffer"):
        replace(KWS, buffers=BuffersSpec((16,), 0, 0))
    with pytest.raises(ValueError, match="too small for it"):
        replace(SHARED, buffers=BuffersSpec((8000, 480), 0, 0))
    with pytest.raises(ValueError, match="too small for it"):
        replace(SHARED, buffers=None)
    with pytest.raises(ValueError, match="24 is not a valid buffer size"):
        BuffersSpec((24,), 0, 0)
    with pytest.raises(ValueError, match="an arena"):
        buffers_source(KWS)
    with pytest.raises(errors.UnsupportedModelError, match="2,147,483,648 bytes"):
        BuffersSpec((2**31,), 0, 0)


# The whole of NASNetMobile has fewer.
BIG = replace(
    KWS,
    name="big",
    tensors=tuple(TensorSpec(i, 0, f"block_{i}/Relu;block_{i}/BiasAdd", 16 * i, 16, i, i + 1) for i in range(600)),
)
TABLE_SPECS = (KWS, SEQUENCE, HOSTILE, BIG)
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


def write_and_include(directory: Path, *specs: HeaderSpec) -> str:
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
        for spec in TABLE_SPECS
    )
    unit = f"{write_and_include(tmp_path, *TABLE_SPECS)}{PRINT}\nint main(void)\n{{\n{calls}    return 0;\n}}\n"
    (tmp_path / "unit.c").write_text(unit)
    built = compile_in(tmp_path, compiler, standard, "unit.c", "-o", "program")
    assert (built.returncode, built.stderr) == (0, "")
    run = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.splitlines() == [row for spec in TABLE_SPECS for row in rows(spec)]


@over_compilers(MATRIX)
def test_an_unused_table_takes_no_memory_and_causes_no_warning(tmp_path: Path, compiler: str, standard: str) -> None:
    (tmp_path / "unit.c").write_text(write_and_include(tmp_path, *TABLE_SPECS) + "extern int x;\nint x = 1;\n")
    strict = ("-Wunused", "-Wunused-const-variable=2", "-Wunused-function", "-O0")
    result = compile_in(tmp_path, compiler, standard, *strict, "-c", "unit.c", "-o", "unit.o")
    assert (result.returncode, result.stderr) == (0, "")
    tool = "arm-none-eabi-size" if compiler.startswith("arm") else "size"
    sizes = subprocess.run([tool, "unit.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    text, data, bss = map(int, sizes.splitlines()[1].split()[:3])
    assert (text, data, bss) == (0, 4, 0)


def test_the_sizes_are_constants_of_the_preprocessor(tmp_path: Path) -> None:
    conditions = "KWS_ACTIVATIONS_BYTES != 8512 || KWS_POSITION_COUNT != 4 || KWS_TENSOR_COUNT != 4"
    (tmp_path / "unit.c").write_text(f"{write_and_include(tmp_path, KWS)}#if {conditions}\n#error\n#endif\n")
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
