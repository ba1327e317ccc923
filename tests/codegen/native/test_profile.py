"""NAME_profile.c: the program that times the operators of native code. On this machine, a counter of the test's own
advances by a fixed number of ticks each time it is read; on emulated cores, the program reads the core's counter.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgetool.codegen.native.files import native_files
from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.plan import place_buffers
from edgetool.errors import UnsupportedModelError
from edgetool.execute.cores import MACHINES
from edgetool.model.types import Model
from edgetool.pipeline.calibrate import calibrate_target
from edgetool.pipeline.device_log import DeviceProfile, read_profile_log
from edgetool.pipeline.firmware import FirmwareRequest
from edgetool.pipeline.native_emit import emit_native
from edgetool.pipeline.targets import resolve_named
from tests.codegen.c_compilers import MATRIX as COMPILER_MATRIX
from tests.codegen.c_compilers import compile_in, over_compilers
from tests.codegen.golden_files import check_golden
from tests.codegen.native.models import MODELS, layer, spec_of, texts
from tests.codegen.native.row_plans import row_texts
from tests.codegen.native.test_row_output import unet
from tests.memory.account_net import Net

KWS = Path(__file__).resolve().parents[3] / "examples" / "keyword_spotting" / "keyword_spotting.tflite"
TIMED = [name for name in MODELS if name != "nothing"]
HZ = 480_000_000
SMALL = 0.01  # the share of an inference below which an operator is small
READ = 10  # ticks of each read of the counter
TICKS = "#include <stdint.h>\nuint32_t own_ticks(void);\n"
COUNTER = f"""\
#include "own_ticks.h"

static uint32_t now = 0xFFFFFF00u; /* it will wrap */

uint32_t own_ticks(void)
{{
    return now += SPEED * {READ}u;
}}
"""
PRINT = "void print_text(const char *line);\n"
BARE_MAIN = """\
#include <string.h>

#include "bare.h"
#include "own_ticks.h"
#include "print.h"

int net_profile(void);

void print_text(const char *line)
{
    bare_write(line, strlen(line));
    bare_write("\\n", 1);
}

#ifdef __arm__
#define SYSTICK ((volatile uint32_t *)0xE000E010u)

/* SysTick as a counter of 24 bits, which does not wrap in a short run. */
uint32_t own_ticks(void)
{
    if ((SYSTICK[0] & 1u) == 0) {
        SYSTICK[1] = 0xFFFFFFu;
        SYSTICK[2] = 0;
        SYSTICK[0] = 5;
    }
    return (0x1000000u - SYSTICK[2]) & 0xFFFFFFu;
}
#endif

int bare_main(void)
{
    bare_open();
    return net_profile();
}
"""


def steps_and_views() -> Model:
    """Return a view, an operator of three steps, a padding that the convolution includes, and two of one step."""
    net = Net(seed=3)
    x = net.arena(1, 4, 4, 6)
    same = net.op("RESHAPE", [x, net.constant([1, 4, 4, 6])], 1, 4, 4, 6)
    parts = [net.arena(1, 4, 4, 2) for _ in range(3)]
    net.give("SPLIT", [net.constant([3]), same], parts, num_splits=3)
    padded = net.op("PAD", [parts[0], net.constant([0, 0, 1, 1, 1, 1, 0, 0], 4, 2)], 1, 6, 6, 2)
    weights = net.filter(4, 3, 3, 2, like=padded)
    convolved = net.op("CONV_2D", [padded, weights], 1, 4, 4, 4, padding="VALID", stride_w=1, stride_h=1)
    codes = net.op("SOFTMAX", [convolved], 1, 4, 4, 4, scale=1 / 256, zero_point=-128, beta=1.0)
    return net.model([x], [codes, *parts[1:]])


def write(folder: Path, model: Model, core: str, *, clock_hz: int | None = HZ) -> list[str]:
    """Write the model's files for a core, with a counter of the test's own; return the names of the C files."""
    program = lower(model)
    memory = place_buffers(program)
    spec = spec_of("net", model, memory.arena_bytes)
    spec = replace(spec, target=replace(spec.target, core=core))
    files = native_files(spec, program, memory, profile=True, clock_hz=clock_hz)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "own_ticks.h").write_text(TICKS)
    return sorted(name for name in files if name.endswith(".c"))


def own_counter(name: str) -> list[str]:
    macro = f"{name.upper()}_PROFILE_TICKS"
    return ["-include", "own_ticks.h", f"-D{macro}()=own_ticks()", f"-D{macro}_HZ=1000000"]


def ran(folder: Path, model: Model, *options: str, own: bool = True, speed: int = 1) -> DeviceProfile:
    """Run the program on this machine; return its log."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    sources = write(folder, model, "some-core")
    return run_program(folder, sources, *options, own=own, speed=speed)


def run_program(folder: Path, sources: Sequence[str], *options: str, own: bool = True, speed: int = 1) -> DeviceProfile:
    """Run the program in these files on this machine; return its log."""
    (folder / "counter.c").write_text(COUNTER)
    counter = [*own_counter("net"), f"-DSPEED={speed}u", "counter.c"] if own else []
    arguments = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", *options, *sources, *counter]
    done = compile_in(folder, "gcc", "c99", *arguments, "-o", "net")
    assert (done.returncode, done.stderr) == (0, "")
    ended = subprocess.run(
        [folder / "net"],
        capture_output=True,
        check=False,
        timeout=60,
        env={"ASAN_OPTIONS": "detect_leaks=0"},
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    (folder / "serial.txt").write_bytes(b"boot\r\n" + ended.stdout)
    (profile,) = read_profile_log(folder / "serial.txt").profiles
    return profile


def test_text_is_that_of_the_golden_file() -> None:
    check_golden("native_layer_profile.c", texts("layer", profile=True)["layer_profile.c"])


def test_only_the_linkage_of_the_program_differs_from_the_code_without_a_profile() -> None:
    plain, profiled = texts("layer"), texts("layer", profile=True)
    differing = {name for name in plain if plain[name] != profiled[name]}
    assert differing == {"layer.c", "layer_weights.h", "CMakeLists.txt"}
    table = "const edgetool_program layer_tables"
    assert profiled["layer.c"] == plain["layer.c"].replace(f"static {table}", table)
    assert profiled["layer_weights.h"].replace(f"extern {table};\n", "") == plain["layer_weights.h"]


@over_compilers(COMPILER_MATRIX)
def test_compiles_without_warnings(tmp_path: Path, compiler: str, standard: str) -> None:
    arm = compiler.startswith("arm")
    for name in TIMED:
        for core in ("cortex-m0plus" if arm else "some-core", "cortex-m7"):
            folder = tmp_path / f"{name}-{core}"
            folder.mkdir()
            target = replace(spec_of(name, MODELS[name]()).target, core=core)
            files = texts(name, spec=replace(spec_of(name, MODELS[name](), 64), target=target), profile=True)
            for file, text in {**files, "own_ticks.h": TICKS}.items():
                (folder / file).write_text(text, encoding="ascii")
            own = own_counter(name) if core == "cortex-m7" and not arm else []
            options = [f"-D{name.upper()}_PROFILE_NO_MAIN"] if arm else own
            sources = (f"{name}.c", f"{name}_profile.c", f"{name}_weights.c")
            done = compile_in(folder, compiler, standard, *options, "-fsyntax-only", *sources)
            assert (done.returncode, done.stderr) == (0, ""), core


@pytest.mark.parametrize(
    ("core", "options", "words"),
    [
        ("cortex-m7", [], "generated for cortex-m7"),
        ("cortex-m0plus", [], "generated for cortex-m0plus"),
        ("riscv32", [], "generated for riscv32"),
        ("some-core", ["-DNET_PROFILE_TICKS()=1"], "NET_PROFILE_TICKS_HZ"),
        ("some-core", ["-DNET_PROFILE_RUNS=0"], "at least 1"),
    ],
)
def test_what_cannot_be_timed_does_not_compile(tmp_path: Path, core: str, options: list[str], words: str) -> None:
    write(tmp_path, layer(), core)
    done = compile_in(tmp_path, "gcc", "c99", *options, "-fsyntax-only", "net_profile.c")
    assert done.returncode != 0
    assert words in done.stderr


def test_a_model_without_steps_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="nothing that could be timed"):
        texts("nothing", profile=True)


def test_the_log_has_the_time_of_each_operators_steps(tmp_path: Path) -> None:
    profile = ran(tmp_path, steps_and_views(), "-DNET_PROFILE_RUNS=4")
    spec = spec_of("net", layer())
    assert (profile.model, profile.sha256) == ("net", spec.model_sha256)
    assert (profile.core, profile.kernels, profile.runtime) == ("some-core", "native", "native")
    assert (profile.source, profile.ticks_hz, profile.clock_hz, profile.runs) == ("own", 10**6, HZ, 4)
    steps = {"RESHAPE": 0, "SPLIT": 3, "PAD": 0, "CONV_2D": 1, "SOFTMAX": 1}
    assert [(item.name, item.depth, item.mean_ticks, item.min_ticks) for item in profile.events] == [
        (name, 0, READ * count, READ * count) for name, count in steps.items()
    ]
    # Each step reads the counter before and after it runs.
    total = READ * (2 * sum(steps.values()) + 1)
    assert (profile.min_ticks, profile.mean_ticks, profile.max_ticks) == (total, total, total)
    program = lower(steps_and_views())
    arena = place_buffers(program).arena_bytes
    assert (profile.arena_used_bytes, profile.arena_declared_bytes, profile.arena_shared) == (arena, arena, False)
    assert (profile.dropped, profile.varies, profile.overflows) == (0, False, 0)


def test_operators_are_in_the_order_of_the_file(tmp_path: Path) -> None:
    program = lower(steps_and_views())
    swapped = replace(program, steps=program.steps[::-1])
    text = native_files(spec_of("net", steps_and_views()), swapped, place_buffers(program), profile=True)
    lines = text["net_profile.c"].decode().split("step_operators")[1].split("};")[0].splitlines()
    assert [int(line.strip(" ,")) for line in lines[1:]] == [4, 3, 1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize(("fed", "taken"), [((), ()), ((0,), (0,))], ids=["whole", "handed"])
def test_the_log_adds_up_the_time_of_rows(tmp_path: Path, fed: tuple[int, ...], taken: tuple[int, ...]) -> None:
    model = unet(classes=False)
    files = row_texts("net", model, fed, taken, profile=True, core="some-core")
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="ascii")
    (tmp_path / "own_ticks.h").write_text(TICKS)
    sources = sorted(name for name in files if name.endswith(".c") and name not in ("main.c", "run.c"))
    profile = run_program(tmp_path, sources, "-DNET_PROFILE_RUNS=3")
    program = lower(model, row_wise=True)
    firings = dict.fromkeys((operator.index for operator in model.main.operators), 0)
    for step in program.steps:
        firings[step.operator] += -(-step.rows // step.band) * step.batches
    assert [(item.mean_ticks, item.min_ticks) for item in profile.events] == [
        (READ * count, READ * count) for count in firings.values()
    ]
    assert sum(firings.values()) > 4 * len(program.steps)
    total = READ * (2 * sum(firings.values()) + 1)
    assert (profile.min_ticks, profile.mean_ticks, profile.max_ticks) == (total, total, total)


def test_long_inferences_do_not_overflow(tmp_path: Path) -> None:
    profile = ran(tmp_path, steps_and_views(), speed=200_000_000)
    assert profile.min_ticks == 200_000_000 * READ * 11 > 2**32


def test_a_counter_that_stands_still_is_reported(tmp_path: Path) -> None:
    assert ran(tmp_path, layer(), speed=0).max_ticks == 0
    assert b"does not run on this device" in (tmp_path / "serial.txt").read_bytes()


def test_the_clock_of_the_c_library_is_used_if_the_core_is_unknown(tmp_path: Path) -> None:
    profile = ran(tmp_path, steps_and_views(), "-DNET_PROFILE_RUNS=200", own=False)
    assert (profile.source, profile.clock_hz) == ("clock", HZ)
    assert profile.ticks_hz


@pytest.mark.slow
def test_the_project_builds_the_program_on_request(tmp_path: Path) -> None:
    if shutil.which("cmake") is None or shutil.which("cc") is None:
        pytest.skip("cmake or a C compiler is not installed")
    spec = spec_of("layer", layer(), 64)
    files = texts("layer", spec=replace(spec, target=replace(spec.target, core="some-core")), profile=True)
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="ascii")
    program = tmp_path / "build" / "layer_profile"
    for command, exists in (
        (["cmake", "-B", "build", "."], False),
        (["cmake", "--build", "build"], False),
        (["cmake", "--build", "build", "--target", "layer_profile"], True),
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        assert program.exists() == exists
    (tmp_path / "log").write_bytes(subprocess.run([program], capture_output=True, check=True, timeout=60).stdout)
    (profile,) = read_profile_log(tmp_path / "log").profiles
    assert [item.name for item in profile.events] == ["FULLY_CONNECTED"]


@pytest.mark.parametrize(
    ("core", "counter"),
    [
        ("cortex-m7", "dwt"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (("cortex-m0plus", "systick"), ("cortex-m7", "own"), ("riscv32", "mcycle"))
        ),
    ],
)
def test_the_program_runs_on_an_emulated_core(tmp_path: Path, core: str, counter: str) -> None:
    sources = write(tmp_path, steps_and_views(), core)
    profile = on_core(tmp_path, core, sources, *(own_counter("net") if counter == "own" else ()))
    assert (profile.core, profile.source) == (core, counter)
    assert [item.name for item in profile.events] == "RESHAPE SPLIT PAD CONV_2D SOFTMAX".split()
    ticks = {item.name: item.mean_ticks for item in profile.events}
    assert ticks["RESHAPE"] == ticks["PAD"] == 0
    if counter == "dwt":  # QEMU has none
        assert profile.max_ticks == 0
    else:
        assert ticks["CONV_2D"] > ticks["SPLIT"] > 0
        assert sum(ticks.values()) < profile.mean_ticks < 1.5 * sum(ticks.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"scratch_budget": 0, "row_input": True, "row_output": True}],
    ids=["tensors", "rows"],
)
def test_an_emulated_core_is_calibrated_to_one_cycle_per_instruction(tmp_path: Path, options: dict[str, Any]) -> None:
    """QEMU's mcycle counts instructions: the estimate of each operator is compared with their number."""
    native = {"runtime": "native", **options}
    target = resolve_named("esp32-c3", **native)
    emitted = emit_native(KWS, target, output=tmp_path / "net", name="net", request=FirmwareRequest(profile=True))
    sources = sorted(path.name for path in emitted.files if path.suffix == ".c" and path.name != "main.c")
    on_core(tmp_path / "net", "riscv32", sources)
    logs, output = [tmp_path / "net" / "results"], tmp_path / "own.toml"
    report = calibrate_target("esp32-c3", [], output=output, overrides=native, logs=logs, models=[KWS])
    assert [item.rule for item in report.findings] == []
    assert report.calibration.after.cpi == pytest.approx(1, abs=0.02)
    (model,) = report.calibration.models
    # For rows, what calls the kernels takes longer, which small operators notice.
    counted = [item for item in model.operators if item.measured_ms > SMALL * model.measured_ms]
    assert len(counted) > len(model.operators) / 2
    assert [item.operator for item in counted if not 0.9 < (item.ratio or 0) < 1.1] == []


def on_core(folder: Path, core: str, sources: Sequence[str], *options: str) -> DeviceProfile:
    """Run the program of the model net on QEMU's machine with the core, which takes 1 ns per instruction."""
    machine = MACHINES[core]
    if machine.missing_tools:
        pytest.skip(f"{machine.missing_tools[0]} is not installed")
    (folder / "print.h").write_text(PRINT)
    (folder / "core.c").write_text(BARE_MAIN)
    (folder / "own_ticks.h").write_text(TICKS)
    (folder / "machine.ld").write_text(machine.script)
    (folder / "samples").touch()
    given = ["-std=c99", "-O2", "-include", "print.h", "-DNET_PROFILE_PRINT(line)=print_text(line)"]
    files = [*(str(path) for path in machine.start), "core.c", *sources]
    link = machine.link(folder / "machine.ld", files, folder / "program", *given, "-DNET_PROFILE_NO_MAIN", *options)
    done = subprocess.run(link, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    emulator, *arguments = machine.emulate(folder / "program")
    command = [emulator, "-icount", "shift=0", *arguments]
    ended = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, b"")
    (profile,) = read_profile_log(folder / "results").profiles
    return profile
