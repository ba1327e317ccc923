"""NAME.h. To renew the golden files after a wanted change: EDGETOOL_UPDATE_GOLDEN=1 pytest tests/codegen

What NAME.h says of a state; nothing where there is none.

The C files on cores with no C library at all: Cortex-M0+, RISC-V of 32 and 64 bits, Xtensa.
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
from edgetool.codegen.spec import HeaderSpec, HeaderTarget, IoSpec, TensorSpec
from edgetool.memory.lifetimes import RecurrentState
from edgetool.model.types import DType
from tests.codegen.c_compilers import C_STANDARDS, FLAGS, MATRIX, compile_in
from tests.codegen.golden_files import check_golden
from tests.codegen.header_specs import ALL, BLOB, HOSTILE, KWS, SEQUENCE, SHARED


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


@pytest.mark.parametrize(("compiler", "standard"), MATRIX)
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
