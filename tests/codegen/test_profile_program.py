"""NAME_profile.cc. To renew the golden files: EDGETOOL_UPDATE_GOLDEN=1 pytest tests/codegen"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.codegen import c_names
from edgetool.codegen.profile import counter_of, word
from edgetool.codegen.spec import ProgramSpec
from edgetool.codegen.tflm.profile import PORT, profile_source
from edgetool.errors import CalibrationError
from edgetool.pipeline.device_log import read_profile_log
from edgetool.target.load import list_targets, load_target
from tests.codegen.c_compilers import CPP_STANDARDS, FLAGS, TFLM_API
from tests.codegen.emitted import compile_cpp, write
from tests.codegen.golden_files import check_golden
from tests.codegen.program_specs import ALL_PROGRAMS, KWS_PROGRAM

CORES = ("cortex-m0plus", "cortex-m4", "cortex-m7", "riscv32", "xtensa-lx7", "rxv2")
# A counter of the user's own, as the banner describes it.
TICKS = "unsigned int own_ticks();\n"
JOINT_ARENA = "#define JOINT_ARENA_BYTES 4096\n"


def on_core(spec: ProgramSpec, core: str) -> ProgramSpec:
    return replace(spec, header=replace(spec.header, target=replace(spec.header.target, core=core)))


def write_profiles(directory: Path, *specs: ProgramSpec) -> list[str]:
    """Write these programs with their profiles, and own_ticks.h; the names of the profiles."""
    names = write(directory, *specs)
    for name, spec in zip(names, specs, strict=True):
        (directory / f"{name}_profile.cc").write_text(profile_source(spec), encoding="ascii", newline="")
    (directory / "own_ticks.h").write_text(TICKS)
    joint = directory / "joint_arena.h"
    if joint.exists():
        joint.write_text(joint.read_text().replace("#endif\n", JOINT_ARENA + "#endif\n"))
    return [f"{name}_profile.cc" for name in names]


def own_counter(spec: ProgramSpec) -> list[str]:
    macro = c_names.model_macro(spec.header.name)
    return ["-include", "own_ticks.h", f"-D{macro}_PROFILE_TICKS()=own_ticks()", f"-D{macro}_PROFILE_TICKS_HZ=1000000"]


@pytest.mark.parametrize("name", ["kws", "sequence"])
def test_golden(name: str) -> None:
    check_golden(f"{name}_profile.cc", profile_source(ALL_PROGRAMS[name]))


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", ALL_PROGRAMS)
def test_the_text_is_plain(name: str, core: str) -> None:
    spec = ALL_PROGRAMS[name] if name == "hostile" else on_core(ALL_PROGRAMS[name], core)
    text = profile_source(spec)
    assert text == profile_source(spec)
    assert set(text) <= {*map(chr, range(32, 127)), "\n"}
    assert text.endswith("\n")
    assert not re.search(r"[ \t]\n|\?\?|@[A-Z]", text)
    for comment in re.findall(r"/\*(.*?)\*/", text, re.DOTALL):
        assert not re.search(r'/\*|//|[\\?"]', comment)


def test_every_packaged_microcontroller_core_has_its_own_counter() -> None:
    without = {load_target(name).core.name for name in list_targets()}
    assert {core for core in without if counter_of(core, PORT) is PORT} == {"aarch64", "x86-64", "rxv2"}


@pytest.mark.parametrize(
    "standard", [CPP_STANDARDS[0], *(pytest.param(each, marks=pytest.mark.slow) for each in CPP_STANDARDS[1:])]
)
@pytest.mark.parametrize("name", ALL_PROGRAMS)
def test_compiles_without_a_warning(tmp_path: Path, name: str, standard: str) -> None:
    spec = ALL_PROGRAMS[name]
    (file,) = write_profiles(tmp_path, spec)
    done = compile_cpp(tmp_path, file, *own_counter(spec), standard=standard)
    assert (done.returncode, done.stderr) == (0, "")
    for core in ("cortex-m0plus", "cortex-m7", "rxv2"):
        write_profiles(tmp_path, on_core(spec, core))
        options = ("-fno-exceptions", "-fno-rtti", f"-D{c_names.model_macro(spec.header.name)}_PROFILE_NO_MAIN")
        done = compile_cpp(tmp_path, file, *options, compiler="arm-none-eabi-g++", standard=standard)
        assert (done.returncode, done.stderr) == (0, "")


def test_compiles_for_risc_v(tmp_path: Path) -> None:
    compiler = shutil.which("riscv64-unknown-elf-g++")
    if compiler is None:
        pytest.skip("riscv64-unknown-elf-g++ is not installed")
    (file,) = write_profiles(tmp_path, on_core(KWS_PROGRAM, "riscv32"))
    (tmp_path / "new").write_text("#include <stddef.h>\ninline void *operator new(size_t, void *at) { return at; }\n")
    options = "-march=rv32imc -mabi=ilp32 -std=c++17 -ffreestanding -DKWS_PROFILE_NO_MAIN -c".split()
    probe = [compiler, *options, f"-isystem{TFLM_API}", f"-isystem{tmp_path}"]
    done = subprocess.run([*probe, *FLAGS, file], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-DTF_LITE_STRIP_ERROR_STRINGS"], "TFLM does not call a profiler"),
        (["-DKWS_PROFILE_TICKS()=1"], "KWS_PROFILE_TICKS_HZ"),
        (["-DKWS_PROFILE_RUNS=0"], "at least 1"),
        (["-UKWS_PROFILE_TICKS"], "generated for cortex-m7"),
    ],
)
def test_what_cannot_be_timed_does_not_compile(tmp_path: Path, options: list[str], words: str) -> None:
    (file,) = write_profiles(tmp_path, KWS_PROGRAM)
    own = [] if "TICKS" in options[0] else own_counter(KWS_PROGRAM)
    done = compile_cpp(tmp_path, file, *own, *options)
    assert done.returncode != 0
    assert words in done.stderr


def test_many_events_take_a_bounded_memory() -> None:
    for events, kept in ((None, 128), (0, 1), (5, 5), (10**6, 1024)):
        assert f"_PROFILE_EVENTS {kept}\n" in profile_source(replace(KWS_PROGRAM, events=events))


def test_words_of_the_log_are_one_word() -> None:
    assert word("a b\n*/é") == "a_b_*/__"
    assert word("") == "-"
    assert len(word("x" * 300)) == 48


# A device whose model runs the operators that a script tells, and whose clock the script moves.
DEVICE = """\
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kws_runner.h"
#include "tensorflow/lite/micro/micro_log.h"
#include "tensorflow/lite/micro/micro_profiler_interface.h"
#include "tensorflow/lite/micro/system_setup.h"

static unsigned int clock_now = 0xFFFFFF00u; /* it will wrap */
static int inferences = 0;
static tflite::MicroProfilerInterface *profiler = nullptr;
static kws_input_0_type input[KWS_INPUT_0_ELEMENTS], first[KWS_INPUT_0_ELEMENTS];

unsigned int own_ticks() { return clock_now; }
void MicroPrintf(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\\r\\n");
}
namespace tflite {
void InitializeTarget() { printf("boot\\r\\n"); }
}  // namespace tflite

static void spend(unsigned int ticks) { clock_now += ticks * SPEED; }

const char *kws_status_text(kws_status) { return "because the test says so"; }
kws_status kws_runner::init(tflite::MicroProfilerInterface *given)
{
    profiler = given;
    return INIT;
}
kws_input_0_type *kws_runner::input_0() { return input; }
size_t kws_runner::arena_used_bytes() { return 23001; }
kws_status kws_runner::invoke()
{
    if (inferences == 0) {
        memcpy(first, input, sizeof input);
        if (input[0] == input[1] && input[1] == input[2]) { return kws_error_io; }
    }
    if (memcmp(first, input, sizeof input) != 0) { return kws_error_io; }
    memset(input, 0, sizeof input); /* as where other tensors lie in its place */
    const unsigned int late = inferences++ == 1 ? 50 : 0;
    const uint32_t outer = profiler->BeginEvent("WHILE");
    for (int turn = 0; turn < TURNS; ++turn) {
        const uint32_t inner = profiler->BeginEvent("odd name*\\n");
        spend(100 + late);
        profiler->EndEvent(inner);
    }
    spend(7);
    profiler->EndEvent(outer);
    spend(3);
    const uint32_t last = profiler->BeginEvent("SOFTMAX");
    spend(1000);
    profiler->EndEvent(last);
    return INVOKE;
}
"""


def ran(directory: Path, *options: str, speed: int = 1, turns: str = "2") -> tuple[Path, int]:
    """The log of the device, and what the program returned."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    (file,) = write_profiles(directory, KWS_PROGRAM)
    (directory / "device.cc").write_text(DEVICE)
    values = {"SPEED": str(speed), "TURNS": turns, "INIT": "kws_ok", "INVOKE": "kws_ok"}
    given = [option for option in options if option.partition("=")[0] in values]
    defines = [f"-D{key}={value}" for key, value in values.items() if not any(o.startswith(key) for o in given)]
    command = ["g++", "-std=c++11", "-fsanitize=undefined,address", f"-I{TFLM_API}", *own_counter(KWS_PROGRAM)]
    chosen = [f"-D{option}" for option in options]
    subprocess.run(
        [*command, *defines, *chosen, file, "device.cc", "-o", "device"], cwd=directory, check=True, timeout=120
    )
    done = subprocess.run([directory / "device"], capture_output=True, timeout=60, check=False)
    assert done.stderr == b""
    (directory / "serial.txt").write_bytes(done.stdout)
    return directory / "serial.txt", done.returncode


def names(events: Sequence[object]) -> list[str]:
    return [str(getattr(event, "name", "")) for event in events]


def test_the_log_lists_the_operators_that_ran(tmp_path: Path) -> None:
    log, status = ran(tmp_path, "KWS_PROFILE_RUNS=4")
    (profile,) = read_profile_log(log).profiles
    assert status == 0
    assert (profile.model, profile.sha256) == ("kws", KWS_PROGRAM.header.model_sha256)
    assert (profile.core, profile.kernels, profile.runtime) == ("cortex-m7", "cmsis-nn", "tflm-2026-08")
    assert (profile.source, profile.ticks_hz, profile.clock_hz, profile.runs) == ("own", 10**6, 480_000_000, 4)
    # The first of the four runs was 50 ticks late in each turn: 12.5 in the mean, rounded down.
    assert names(profile.events) == ["WHILE", "odd_name*_", "odd_name*_", "SOFTMAX"]
    assert [(item.depth, item.mean_ticks, item.min_ticks) for item in profile.events] == [
        (0, 232, 207),
        (1, 112, 100),
        (1, 112, 100),
        (0, 1000, 1000),
    ]
    assert (profile.mean_ticks, profile.min_ticks, profile.max_ticks) == (1235, 1210, 1310)
    assert (profile.arena_used_bytes, profile.arena_declared_bytes, profile.arena_shared) == (23001, 23456, False)
    assert (profile.dropped, profile.varies) == (0, False)


def test_more_operators_than_there_is_room_for_are_counted(tmp_path: Path) -> None:
    log, _ = ran(tmp_path, turns="6")
    (profile,) = read_profile_log(log).profiles
    assert names(profile.events) == ["WHILE", *["odd_name*_"] * 4]
    assert profile.dropped == 3
    assert profile.events[0].min_ticks == 607
    assert profile.min_ticks == 1610


def test_inferences_that_differ_are_reported(tmp_path: Path) -> None:
    log, _ = ran(tmp_path, turns="(inferences > 4 ? 1 : 2)")
    (profile,) = read_profile_log(log).profiles
    assert profile.varies


def test_long_inferences_do_not_overflow(tmp_path: Path) -> None:
    log, _ = ran(tmp_path, speed=4_000_000)
    (profile,) = read_profile_log(log).profiles
    assert profile.min_ticks == 1210 * 4_000_000 > 2**32


def test_a_counter_that_stands_still_is_reported(tmp_path: Path) -> None:
    log, status = ran(tmp_path, speed=0)
    (profile,) = read_profile_log(log).profiles
    assert (status, profile.max_ticks) == (0, 0)
    assert b"does not run on this device" in log.read_bytes()


@pytest.mark.parametrize(
    ("option", "words"),
    [("INIT=kws_error_arena", "init failed with status 4"), ("INVOKE=kws_error_invoke", "invoke failed with status 7")],
)
def test_a_failure_on_the_device_is_reported(tmp_path: Path, option: str, words: str) -> None:
    log, status = ran(tmp_path, option)
    assert status != 0
    assert b"because the test says so" in log.read_bytes()
    with pytest.raises(CalibrationError, match=words):
        read_profile_log(log)
