"""Native code whose arena is in several memories: what is placed where, what it costs, and what the firmware has."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgetool.codegen.native.files import constant_bytes, native_files, row_files, run_macros, run_source
from edgetool.codegen.native.loads import begun_late
from edgetool.codegen.native.plan import place_buffers
from edgetool.convert.request import ConvertRequest
from edgetool.errors import ConversionError, FailedCheckError, TargetError, UsageError
from edgetool.estimate.memory_speed import Traffic, speeds_of
from edgetool.execute.cores import BARE, MACHINES
from edgetool.execute.native import run_native
from edgetool.execute.native_worker import START
from edgetool.gate.limits import ModelLimits
from edgetool.gate.messages import usage
from edgetool.memory.planner import PlanRequest
from edgetool.memory.problem import Buffer
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline import fit
from edgetool.pipeline.check import CheckRequest, check_models
from edgetool.pipeline.convert import convert_file
from edgetool.pipeline.firmware import FirmwareRequest, header_spec
from edgetool.pipeline.native import NativeModel, native_model, plan_native
from edgetool.pipeline.native_emit import emit_native
from edgetool.pipeline.native_places import Move
from edgetool.pipeline.native_verify import verify_native
from edgetool.pipeline.source import open_tflite
from edgetool.report.json import document
from edgetool.target.load import load_core, load_target
from edgetool.target.types import MemoryRegion, Target
from tests.codegen.native.models import nothing
from tests.codegen.native.stream_models import spotter
from tests.model.builders import branches_model, conv_model, depthwise_model, residual_model

BOARD = load_target("nucleo-h743zi2").with_overrides(runtime="native")
FLASH = tuple(region for region in BOARD.regions if region.kind == "flash")
STALL = 1.5


def board(*sizes: int, stall: float | None = STALL) -> Target:
    """Return the board with RAM of these sizes: m0, m1 and so on, of which the last is outside the chip."""
    last = len(sizes) - 1
    regions = tuple(
        MemoryRegion(
            f"m{number}",
            "external-ram" if number == last else "sram",
            size,
            0x2000_0000 + 0x0100_0000 * number,
            stall_cycles_per_byte=stall if number == last else None,
        )
        for number, size in enumerate(sizes)
    )
    return replace(BOARD, regions=(*regions, *FLASH), arena_region_name="m0")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return put(tmp_path, residual_model())


def put(folder: Path, model: Model) -> Path:
    file = folder / "net.tflite"
    file.write_bytes(write_model(model))
    return file


def placed(path: Path, place: str, target: Target) -> NativeModel:
    return native_model(open_tflite(path), target, place=place)


def memories(model: NativeModel) -> dict[str, int]:
    return {part.memory: part.size_bytes for part in model.planned.memory.parts}


def ends_apart(path: Path) -> str:
    """Return places that put an input and an output into memories of their own."""
    main = open_tflite(path).model.main
    names = [main.tensors[indices[0]].name for indices in (main.inputs, main.outputs)]
    return f"{names[0]}=m1,{names[1]}=m2"


def serial(target: Target, stall: float = 24.0) -> Target:
    """Return the board with its constants in a serial flash without a cache, whose bytes the core waits for."""
    flash = MemoryRegion("qspi", "external-flash", 1 << 24, 0x9000_0000, stall_cycles_per_byte=stall)
    regions = tuple(region for region in target.regions if region.kind != "flash")
    return replace(target, regions=(*regions, flash), model_region_name="qspi")


def smallest(target: Target) -> Target:
    """Return the board with the smallest plan, which is one of rows for the models here."""
    return replace(target, scratch_budget_bytes=0)


def whole_arena(path: Path) -> int:
    """Return the bytes of the smallest arena in one memory."""
    return native_model(open_tflite(path), board(1 << 20, 1 << 20)).choices[0].memory.arena_bytes


def test_an_arena_that_fits_is_in_the_usual_memory(path: Path) -> None:
    model = placed(path, "auto", board(1 << 20, 1 << 20))
    assert list(memories(model)) == ["m0"]
    assert model.planned.placed is not None
    assert (model.planned.placed.choice.optimal, model.planned.placed.info.waiting_cycles) == (True, 0.0)


def test_what_moves_the_fewest_bytes_is_outside_the_chip(path: Path) -> None:
    size = whole_arena(path)
    model = placed(path, "auto", board(size - 4, 1 << 20))
    assert list(memories(model)) == ["m0", "m1"]
    info = model.planned.placed
    assert info is not None
    assert info.choice.lower_bound <= info.choice.cost
    moved = [item.bytes for item in info.info.buffers if item.memory == "m1"]
    assert info.info.waiting_cycles is not None
    # Each tensor is written or read at least once.
    assert info.info.waiting_cycles >= STALL * sum(moved) > 0
    estimate, inside = model.analysis.estimate, placed(path, "arena=m0", board(1 << 20, 1 << 20)).analysis.estimate
    assert estimate is not None
    assert inside is not None
    waits = sum(item.stall_cycles for item in estimate.operators) - sum(i.stall_cycles for i in inside.operators)
    assert waits == pytest.approx(info.info.waiting_cycles, abs=len(estimate.operators))


def test_waiting_is_unknown_if_the_profile_lacks_a_speed(path: Path) -> None:
    model = placed(path, "auto", board(whole_arena(path) - 4, 1 << 20, stall=None))
    assert model.planned.placed is not None
    assert model.planned.placed.info.waiting_cycles is None


def test_a_user_chooses_memories_of_tensors(path: Path) -> None:
    model = open_tflite(path).model
    name = model.main.tensors[model.main.inputs[0]].name
    chosen = placed(path, f"{name}=m1", board(1 << 20, 1 << 20)).planned.placed
    assert chosen is not None
    assert [item.memory for item in chosen.info.buffers if item.name == name] == ["m1"]
    assert {item.memory for item in chosen.info.buffers if item.name != name} == {"m0"}


@pytest.mark.slow
def test_the_fewest_bytes_of_a_memory(path: Path) -> None:
    size = whole_arena(path)
    model = placed(path, "minimize=m1", board(size - 4, 1 << 20))
    assert model.planned.placed is not None
    info = model.planned.placed.info
    assert (info.minimized, info.minimized_bytes) == ("m1", info.minimized_lower_bound)
    assert (
        memories(model)["m1"] == info.minimized_bytes <= memories(placed(path, "auto", board(size - 4, 1 << 20)))["m1"]
    )
    assert list(memories(placed(path, "auto,minimize=m0", board(size, 1 << 20)))) == ["m1"]


@pytest.mark.parametrize(
    ("place", "error", "said"),
    [
        ("m0", UsageError, "'m0' is not a placement"),
        ("arena=m0,arena=m1", UsageError, "arena is placed twice"),
        ("arena=m3", TargetError, "there is no region 'm3'"),
        ("arena=flash", TargetError, "arena cannot be in flash, which is flash"),
        ("constants=m0", TargetError, "constants cannot be in m0, which is sram"),
        ("minimize=m0+m1", UsageError, "minimize names several memories"),
        ("arena=m0,minimize=m1", UsageError, "m1 does not hold the arena"),
        ("arena=m0,x=m1", UsageError, "x cannot be in m1, where the arena is not"),
        ("inptu=m1", UsageError, "no buffer of the arena is the tensor 'inptu'"),
        ("head=m0", UsageError, "native code has no head, which is a part on TFLM; use arena=NAME"),
        ("model=flash", TargetError, "model cannot be in flash, which is flash; use constants=NAME for native code"),
        ("dma=m1", UsageError, "constants are not copied to m1, which is outside the chip"),
        ("dma=flash", TargetError, "dma cannot be in flash, which is flash"),
        ("arena=m1,dma=m0", UsageError, "dma cannot be in m0, where the arena is not"),
        ("auto,dma=m0,minimize=m0", UsageError, "dma copies constants, and minimize makes no copies"),
    ],
)
def test_impossible_places_are_refused(path: Path, place: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)):
        placed(path, place, board(1 << 20, 1 << 20))


def test_places_need_a_target_and_a_size_of_each(path: Path) -> None:
    with pytest.raises(UsageError, match="--shrink makes the arena fit one memory"):
        native_model(open_tflite(path), board(1 << 20, 1 << 20), PlanRequest(shrink=True), place="auto")
    with pytest.raises(UsageError, match="names memories of a target"):
        native_model(open_tflite(path), None, place="auto")


def test_rows_are_in_several_memories_where_no_plan_fits_in_one(path: Path) -> None:
    target = smallest(board(1 << 20, 1 << 20))
    size = placed(path, "arena=m0", target).planned.memory.arena_bytes
    model = placed(path, "auto", smallest(board(size - 4, 1 << 20)))
    assert model.planned.rows is not None
    assert model.planned.rows.plan.parts == model.planned.memory.parts
    assert list(memories(model)) == ["m0", "m1"]
    assert memories(model)["m0"] <= size - 4
    found = model.planned.placed
    assert found is not None
    assert found.info.waiting_cycles is not None
    outside = {item.name for item in found.info.buffers if item.memory == "m1"}
    assert outside
    assert found.info.waiting_cycles > 0
    estimate, inside = model.analysis.estimate, placed(path, "arena=m0", target).analysis.estimate
    assert estimate is not None
    assert inside is not None
    waits = sum(item.stall_cycles for item in estimate.operators) - sum(i.stall_cycles for i in inside.operators)
    assert waits == pytest.approx(found.info.waiting_cycles, abs=len(estimate.operators))


def test_a_user_chooses_memories_of_rows(path: Path) -> None:
    target = smallest(board(1 << 20, 1 << 20, 1 << 20))
    model = placed(path, ends_apart(path), target)
    assert model.planned.rows is not None
    assert list(memories(model)) == ["m0", "m1", "m2"]
    lowest = placed(path, "minimize=m0", smallest(board(whole_arena(path), 1 << 20)))
    assert list(memories(lowest)) == ["m1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"row_input": True}, {"row_output": True}, {"row_input": True, "row_output": True}]
)
def test_rows_that_are_handed_over_are_in_several_memories(options: dict[str, bool], tmp_path: Path) -> None:
    path = put(tmp_path, depthwise_model())
    whole = native_model(open_tflite(path), replace(board(1 << 20, 1 << 20), **options))
    size = whole.choices[0].memory.arena_bytes
    target = replace(board(size - 4, size, 1 << 20), **options)
    model = placed(path, "auto", target)
    assert model.planned.rows is not None
    assert len(model.planned.memory.parts) > 1
    report = verify_native(path, target, place="auto", samples=3)
    assert report.verify is not None
    assert [check for check in report.verify.checks if check.passed is False] == []


@pytest.mark.slow
def test_a_stream_is_in_several_memories(tmp_path: Path) -> None:
    path = put(tmp_path, spotter())
    whole = native_model(open_tflite(path), replace(board(1 << 20, 1 << 20), incremental=2))
    target = replace(board(whole.choices[0].memory.arena_bytes - 4, 1 << 20), incremental=2)
    assert len(placed(path, "auto", target).planned.memory.parts) == 2
    report = verify_native(path, target, place="auto", samples=3)
    assert report.verify is not None
    assert [check for check in report.verify.checks if check.passed is False] == []


@pytest.mark.parametrize("cache_bytes", [0, 1 << 10, 1 << 20])
def test_waiting_is_that_of_the_estimate(path: Path, cache_bytes: int) -> None:
    target = board(1 << 20, 1 << 20)
    outside = replace(target.regions[1], cache_bytes=cache_bytes, write_stall_cycles_per_byte=4.0)
    target = replace(target, regions=(target.regions[0], outside, *FLASH))
    speeds = speeds_of(replace(target, arena_region_name="m1"))
    for read, written, constants in ((600, 200, 0), (300, 100, 2_000), (5_000, 9_000, 0)):
        touched = read + written + constants
        (stall,) = {speeds.stall(Traffic(constants, read, written)).arena}
        moves = (Move(0, 1, 0, read, 0, touched), Move(0, 2, 0, 0, written, touched))
        assert sum(move.waiting(outside) or 0.0 for move in moves) == pytest.approx(stall)
    waits = placed(path, "arena=m1", target).planned.placed
    assert waits is not None
    assert (waits.info.waiting_cycles == 0) == (cache_bytes == 1 << 20)


def test_what_does_not_fit_names_the_memories_and_the_bytes(path: Path) -> None:
    with pytest.raises(
        FailedCheckError, match=r"no placement of the buffers fits in m0 with 16 bytes, m1 with 16 bytes"
    ):
        placed(path, "auto", board(16, 16))


def test_reports_judge_each_memory(path: Path) -> None:
    target = board(whole_arena(path) - 4, 1 << 20)
    report = plan_native(path, target, place="auto")
    parts = [(item.part, item.memory, item.fits) for item in report.places]
    assert parts == [("arena", "m0", True), ("arena", "m1", True), ("constants", "flash", True)]
    placement = document(report)["arena_placement"]
    assert {item["memory"] for item in placement["buffers"]} == {"m0", "m1"}
    assert placement["optimal"] == (placement["proof"] != "none")
    checked = check_models([path], [target], CheckRequest(place="auto", limits=ModelLimits(reserve_bytes=8)))
    (judged,) = checked.reports
    assert judged.check is not None
    values = {item.message.split()[0]: item.passed for item in judged.check.judgements if item.rule == "memory"}
    assert values == {"arena": True, "constants": True}
    assert usage(judged).arena is not None


def test_the_header_states_the_bytes_of_each_memory_and_checks_them(path: Path, tmp_path: Path) -> None:
    target = board(whole_arena(path) - 4, 1 << 20)
    emitted = emit_native(path, target, output=tmp_path / "out", place="auto")
    texts = {file.name: file.read_text() for file in emitted.files}
    sizes = {item.memory: item.bytes for item in emitted.report.places if item.part == "arena"}
    for memory, size in sizes.items():
        assert f"#define NET_IN_{memory.upper()}_BYTES {size}" in re.sub(" +", " ", texts["net.h"])
        assert f'section(".bss.edgetool_{memory}")' in texts["net.c"]
        assert f"EDGETOOL_{memory.upper()}" in texts["net_memories.ld"]
    assert "_OFFSET " not in texts["net.h"]
    compiled = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "net.c", "main.c"]
    subprocess.run(compiled, cwd=tmp_path / "out", check=True)
    limit = f"-DNET_M0_LIMIT_BYTES={sizes['m0'] - 1}"
    refused = subprocess.run([*compiled, limit], cwd=tmp_path / "out", capture_output=True, text=True, check=False)
    assert f"NET_M0_LIMIT_BYTES is {sizes['m0'] - 1}" in refused.stderr.replace('" "', "")
    subprocess.run(["g++", "-std=c++11", "-x", "c++", "-fsyntax-only", "net.c"], cwd=tmp_path / "out", check=True)
    with pytest.raises(UsageError, match="--profile times code with one arena"):
        emit_native(path, target, output=tmp_path / "other", place="auto", request=FirmwareRequest(profile=True))


def test_constants_can_be_in_another_flash(path: Path, tmp_path: Path) -> None:
    other = MemoryRegion("qspi", "external-flash", 1 << 24, 0x9000_0000)
    target = board(1 << 20, 1 << 20)
    target = replace(target, regions=(*target.regions, other))
    emitted = emit_native(path, target, output=tmp_path / "out", place="constants=qspi")
    texts = {file.name: file.read_text() for file in emitted.files}
    assert 'section(".rodata.edgetool_qspi")' in texts["net_weights.c"]
    assert "EDGETOOL_QSPI" in texts["net_memories.ld"]
    assert emitted.report.places[-1].memory == "qspi"


def test_convert_places_as_emit_does(path: Path, tmp_path: Path) -> None:
    target = board(whole_arena(path) - 4, 1 << 20)
    converted = convert_file(ConvertRequest(path), target, output=tmp_path / "out", place="auto")
    emitted = emit_native(path, target, output=tmp_path / "emitted", place="auto")
    written = {file.name: file.read_bytes() for file in converted.files}
    assert {file.name: file.read_bytes() for file in emitted.files}.items() <= written.items()
    assert converted.report.places == emitted.report.places
    with pytest.raises(UsageError, match="'dtcm' is not a placement"):
        convert_file(ConvertRequest(path), target, output=tmp_path / "other", place="dtcm")


def test_a_model_without_buffers_has_no_parts(tmp_path: Path) -> None:
    path = put(tmp_path, nothing())
    emitted = emit_native(path, board(1 << 20, 1 << 20), output=tmp_path / "out", place="auto")
    assert [item.part for item in emitted.report.places] == ["constants"]
    command = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "net.c", "main.c"]
    subprocess.run(command, cwd=tmp_path / "out", check=True)


@pytest.mark.parametrize(
    ("build", "by_rows"),
    [
        (conv_model, False),
        pytest.param(residual_model, False, marks=pytest.mark.slow),
        pytest.param(branches_model, False, marks=pytest.mark.slow),
        pytest.param(residual_model, True, marks=pytest.mark.slow),
    ],
)
def test_outputs_are_those_of_tflm(build: object, by_rows: bool, tmp_path: Path) -> None:
    assert callable(build)
    path = put(tmp_path, build())
    # Each part of the arena is an array of its own.
    target, place = board(1 << 20, 1 << 20, 1 << 20), ends_apart(path)
    target = smallest(target) if by_rows else target
    assert (placed(path, place, target).planned.rows is not None) == by_rows
    assert list(memories(placed(path, place, target))) == ["m0", "m1", "m2"]
    report = verify_native(path, target, place=place, samples=3)
    assert report.verify is not None
    failed = [check for check in report.verify.checks if check.passed is False]
    assert failed == []
    assert next(check for check in report.verify.checks if check.check == "outputs-equal").passed


ITCM = MemoryRegion("itcm", "itcm", 1 << 16, 0)
# Start-up code, as that which copies .data.
COPY_CODE = b"""#include <stdint.h>
#include <string.h>
extern uint8_t net_code_start[], net_code_end[];
extern const uint8_t net_code_load[];
int __real_bare_main(void);
int __wrap_bare_main(void);
int __wrap_bare_main(void)
{
    memcpy(net_code_start, net_code_load, (size_t)(net_code_end - net_code_start));
    return __real_bare_main();
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "by_rows", "item"),
    [
        (branches_model, False, ",dma=m0"),
        (branches_model, False, ""),
        (branches_model, False, ",code=itcm"),
        (residual_model, True, ",code=itcm"),
    ],
)
def test_a_linked_program_has_each_part_in_its_memory_and_runs(
    build: object, by_rows: bool, item: str, tmp_path: Path
) -> None:
    assert callable(build)
    machine = MACHINES["cortex-m7"]
    if machine.missing_tools:
        pytest.skip(f"{' and '.join(machine.missing_tools)} not installed")
    path = put(tmp_path, build())
    source, target = open_tflite(path), board(1 << 20, 1 << 20, 1 << 20)
    target = serial(target) if "dma" in item else replace(target, regions=(*target.regions, ITCM))
    model = native_model(source, smallest(target) if by_rows else target, place=ends_apart(path) + item)
    program, memory, arena = model.planned.program, model.planned.memory, model.planned.placed
    assert arena is not None
    rows = model.planned.rows
    assert (rows is not None) == by_rows
    assert program.has_transfers == ("dma" in item)
    places, code = arena.specs(target, constant_bytes(program)), arena.code_spec()
    spec = header_spec("net", source, model.planned.plan, target, uncalibrated=False)
    spec = replace(spec, places=places, placed_code=code)
    files = row_files(spec, program, rows.problem, rows.plan) if rows else native_files(spec, program, memory)
    files["run.c"] = run_source(spec, program)
    plain = files["net.c"]
    if program.has_transfers:
        # The processor's registers are written, and run.c simulates the cache.
        both = (
            b"#define NET_INVALIDATE(to, bytes) (edgetool_invalidate(to, bytes, 32), net_run_invalidate(to, bytes))\n"
        )
        files["net.c"] = b"#include <stddef.h>\nvoid net_run_invalidate(void *, size_t);\n" + both + files["net.c"]
    graph = program.graph
    inputs = [np.full((1, *graph.tensors[index].shape), 37, np.int8) for index in graph.inputs]
    here = {**files, "net.c": run_macros(spec, program) + plain}
    expected = run_native(here, inputs, [graph.tensors[index] for index in graph.outputs]).outputs

    addresses = {part.memory: 0x2020_0000 + 0x8_0000 * number for number, part in enumerate(memory.parts)}
    assert len(addresses) == 3
    memories = [f"MEMORY {{ {name} : ORIGIN = {start:#x}, LENGTH = 512K }}" for name, start in addresses.items()]
    memories += [f'REGION_ALIAS("EDGETOOL_{name.upper()}", {name})' for name in addresses]
    if code is not None:
        memories.append("MEMORY { itcm : ORIGIN = 0x20380000, LENGTH = 64K }")
        memories += ['REGION_ALIAS("EDGETOOL_ITCM", itcm)', 'REGION_ALIAS("EDGETOOL_LOAD", FLASH)']
        files["start.c"] = COPY_CODE
    # The machine's RAM without the memories of the arena.
    script = machine.script.replace("0x400000", "0x200000").replace("INCLUDE", "\n".join([*memories, "INCLUDE"]))
    sections = (BARE / "sections.ld").read_text().replace("SECTIONS\n{", "SECTIONS\n{\nINCLUDE net_memories.ld")
    samples = START.pack(1, 0xA5) + b"".join(array.tobytes() for array in inputs)
    files |= {"machine.ld": script.encode(), "sections.ld": sections.encode(), "samples": samples}
    folder = tmp_path / "out"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    sources = [*map(str, machine.start), *(name for name in files if name.endswith(".c"))]
    # The linker script selects object files by their names.
    compiled = [machine.compiler, *machine.flags, "-std=c99", "-O2", f"-I{BARE}", "-c", *sources]
    subprocess.run(compiled, cwd=folder, check=True)
    options = ["-L.", "-Wl,--nmagic", *(["-Wl,--wrap=bare_main"] if code is not None else [])]
    objects = [f"{Path(name).stem}.o" for name in sources]
    link = machine.link(Path("machine.ld"), objects, Path("program.elf"), *options)
    done = subprocess.run(link, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    subprocess.run(machine.emulate(Path("program.elf")), cwd=folder, check=True, timeout=120)
    assert (folder / "results").read_bytes() == b"".join(array.tobytes() for array in expected)
    nm = [machine.compiler.replace("gcc", "nm"), "program.elf"]
    shown = subprocess.run(nm, cwd=folder, capture_output=True, text=True, check=True).stdout
    symbols = {line.split()[2]: int(line.split()[0], 16) for line in shown.splitlines() if len(line.split()) == 3}
    assert {name: symbols[f"net_in_{name}"] for name in addresses} == addresses
    if code is not None:
        functions = {*program.kernels, "edgetool_fire_several" if by_rows else "edgetool_run_several"}
        assert {name for name in functions if 0x2038_0000 <= symbols[name] < 0x2039_0000} == functions
        assert symbols["net_init"] < 0x2000_0000


def loaded(model: NativeModel) -> list[int]:
    """The operators whose constants are copied to RAM."""
    return [step.operator for step in model.planned.program.steps if step.block is not None]


def constants_buffers(model: NativeModel) -> list[Buffer]:
    """The buffers of copied constants."""
    tensors = {step.block.tensor for step in model.planned.program.steps if step.block is not None}
    return [buffer for buffer in model.planned.memory.problem.buffers if buffer.tensor in tensors]


def test_constants_are_copied_where_it_pays_and_where_ram_is_free(path: Path) -> None:
    roomy = board(1 << 20, 1 << 20)
    assert loaded(placed(path, "auto", roomy)) == []  # the flash is on the chip
    model = placed(path, "auto", serial(roomy))
    assert loaded(model)
    on_chip = {item.memory for item in model.planned.placed.info.buffers} if model.planned.placed else set()
    assert on_chip == {"m0"}
    assert loaded(placed(path, "auto", serial(roomy, stall=0.0))) == []
    assert loaded(placed(path, "arena=m1", serial(roomy))) == []  # outside the chip
    small = min(item.size_bytes for item in constants_buffers(model)) - 4
    assert loaded(placed(path, "auto", serial(board(small, 1 << 20)))) == []
    assert loaded(placed(path, "minimize=m0", serial(roomy))) == []


def test_the_estimate_reads_copied_constants_once_from_flash(path: Path) -> None:
    target = serial(board(1 << 20, 1 << 20))
    plain, copied = native_model(open_tflite(path), target).analysis.estimate, placed(path, "auto", target)
    estimate = copied.analysis.estimate
    assert plain is not None
    assert estimate is not None
    assert (plain.cycles or 0) > (estimate.cycles or 0) > 0
    for number in loaded(copied):
        item = next(item for item in estimate.operators if item.index == number)
        assert item.stall_cycles == 24 * item.parameter_bytes


@pytest.mark.slow
def test_outputs_with_copied_constants_are_those_of_tflm(path: Path) -> None:
    target = serial(board(1 << 20, 1 << 20))
    report = verify_native(path, target, place="auto", samples=3)
    assert report.verify is not None
    assert report.verify.passed
    assert loaded(placed(path, "auto", target))


@pytest.mark.slow
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m7"])
def test_outputs_are_those_of_tflm_whenever_dma_copies(path: Path, core: str) -> None:
    # run.c copies when a copy begins or when it is waited for, and simulates the data cache of a Cortex-M7.
    target = replace(serial(board(1 << 20, 1 << 20)), core=load_core(core))
    report = verify_native(path, target, place="dma=m0", samples=3)
    assert report.verify is not None
    assert [check for check in report.verify.checks if check.passed is False] == []
    assert report.verify.passed


def with_dma(path: Path, target: Target) -> tuple[dict[str, bytes], NativeModel]:
    """Return the files of a program for run_native whose constants are copied with DMA."""
    source, model = open_tflite(path), placed(path, "dma=m0", target)
    program, arena = model.planned.program, model.planned.placed
    assert arena is not None
    assert program.has_transfers
    places = arena.specs(target, constant_bytes(program))
    spec = replace(header_spec("net", source, model.planned.plan, target, uncalibrated=False), places=places)
    files = native_files(spec, program, model.planned.memory) | {"run.c": run_source(spec, program)}
    return {**files, "net.c": run_macros(spec, program) + files["net.c"]}, model


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", [b"NET_INVALIDATE(band->out, op->bytes);", b"NET_INVALIDATE(band->out, ((const edgetool_transfer_op *)"]
)
def test_run_notices_lines_that_stay_in_the_cache(path: Path, line: bytes) -> None:
    files, model = with_dma(path, serial(board(1 << 20, 1 << 20)))
    graph = model.planned.program.graph
    inputs = [np.full((2, *graph.tensors[index].shape), 37, np.int8) for index in graph.inputs]
    outputs = [graph.tensors[index] for index in graph.outputs]
    expected = run_native(files, inputs, outputs).outputs
    assert files["net.c"].count(line) == 1
    files["net.c"] = files["net.c"].replace(line, b"if (0) " + line)
    try:
        found = run_native(files, inputs, outputs).outputs
    except ConversionError:
        return
    assert any((a != b).any() for a, b in zip(expected, found, strict=True))


def test_the_firmware_that_copies_compiles_and_states_the_lines(path: Path, tmp_path: Path) -> None:
    emitted = emit_native(path, serial(board(1 << 20, 1 << 20)), output=tmp_path / "out", place="dma=m0")
    texts = {file.name: file.read_text() for file in emitted.files}
    assert "void net_copy_begin(void *to, const void *from, size_t bytes);" in texts["net.h"]
    assert "#define NET_CACHE_LINE_BYTES 32" in texts["net.h"]
    assert "edgetool_copy.c" not in texts
    placement = emitted.report.arena_placement
    assert placement is not None
    assert len(placement.copies_begin) == len(placement.copied) > 0
    (start,) = (item.memory for item in emitted.report.places if item.part == "arena")
    assert start == "m0"
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "net.c", "main.c"]
    defined = ["-DNET_INVALIDATE(address,bytes)=((void)(address),(void)(bytes))"]
    subprocess.run(["gcc", "-std=c99", *defined, *strict], cwd=tmp_path / "out", check=True)
    subprocess.run(
        ["g++", "-std=c++11", *defined, "-x", "c++", "-fsyntax-only", "net.c"], cwd=tmp_path / "out", check=True
    )
    refused = subprocess.run(["gcc", *strict], cwd=tmp_path / "out", capture_output=True, text=True, check=False)
    assert "define NET_INVALIDATE(address, bytes)" in refused.stderr
    without = replace(serial(board(1 << 20, 1 << 20)), core=load_core("cortex-m4"))
    emitted = emit_native(path, without, output=tmp_path / "m4", place="dma=m0")
    texts = {file.name: file.read_text() for file in emitted.files}
    assert "CACHE_LINE" not in texts["net.h"] + texts["net.c"]
    subprocess.run(["gcc", "-std=c99", *strict], cwd=tmp_path / "m4", check=True)


def test_copies_run_ahead_only_if_nothing_waits_longer(tmp_path: Path) -> None:
    path = put(tmp_path, branches_model())
    roomy = placed(path, "dma=m0", serial(board(1 << 20, 1 << 20)))
    late = place_buffers(begun_late(roomy.planned.program)).arena_bytes
    (ahead,) = memories(roomy).values()
    assert late < ahead
    tight = placed(path, "dma=m0", serial(board(late, 1 << 20)))
    assert loaded(tight) == loaded(roomy)
    assert memories(tight) == {"m0": late}
    begins = [
        [step.begins for step in model.planned.program.steps if step.begins is not None] for model in (tight, roomy)
    ]
    assert all(after >= before for after, before in zip(*begins, strict=True))
    assert begins[0] != begins[1]


def test_code_counts_in_its_memory_and_no_time_is_claimed(path: Path, tmp_path: Path) -> None:
    target = board(1 << 20, 1 << 20)
    target = replace(target, regions=(*target.regions, ITCM))
    plain, moved = (plan_native(path, target, place=place) for place in ("auto", "auto,code=itcm"))
    (code,) = (item for item in moved.places if item not in plain.places)
    assert (code.part, code.memory, code.fits) == ("code copy", "itcm", True)
    assert moved.estimate == plain.estimate
    (note,) = (finding for finding in moved.findings if finding.rule == "code-placed")
    assert f"about {code.bytes:,} bytes of itcm" in note.message
    texts = {
        file.name: file.read_text()
        for file in emit_native(path, target, output=tmp_path / "out", place="code=itcm").files
    }
    assert "*edgetool_*.o(.text .text.*)" in texts["net_memories.ld"]
    assert "} > EDGETOOL_ITCM AT > EDGETOOL_LOAD" in texts["net_memories.ld"]
    in_flash = plan_native(path, target, place="code=flash").places
    assert [(item.part, item.memory) for item in in_flash if item.memory != "m0"] == [
        ("constants", "flash"),
        ("code", "flash"),
    ]
    small = replace(target, regions=(*target.regions[:-1], replace(ITCM, size_bytes=code.bytes - 4)))
    refused = plan_native(path, small, place="code=itcm")
    (error,) = (finding for finding in refused.findings if finding.level == "error")
    assert "4 fewer than code copy" in error.message
    (checked,) = check_models([path], [small], CheckRequest(place="code=itcm")).reports
    assert checked.check is not None
    assert not checked.check.passed


def test_code_beside_the_arena_leaves_it_less_room(path: Path) -> None:
    place = "code=m0"
    exact = {item.part: item.bytes for item in plan_native(path, board(1 << 20, 1 << 20), place=place).places}
    size = exact["arena"] + exact["code copy"]
    assert memories(placed(path, place, board(size, 1 << 20))) == {"m0": exact["arena"]}
    tight = placed(path, place, board(size - 4, 1 << 20))
    assert memories(tight) != {"m0": exact["arena"]}
    assert sum(item.bytes for item in tight.places if item.memory == "m0") <= size - 4


def test_code_of_unknown_size_is_not_counted(path: Path) -> None:
    target = replace(board(1 << 20, 1 << 20), core=load_core("cortex-m85"))
    report = plan_native(path, target, place="code=m0")
    assert {item.part for item in report.places} == {"arena", "constants"}
    assert any("is not counted in m0, because its size is unknown for cortex-m85" in f.message for f in report.findings)


def test_fit_names_the_memories_in_which_native_code_fits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (least,) = native_model(open_tflite(path), BOARD).choices[:1]
    size = least.memory.arena_bytes
    several = replace(board(size - 4, size - 4, 1 << 20), name="several")
    one = replace(several, name="one", regions=(several.regions[0], *FLASH))
    tiny = replace(board(16, 16, 16), name="tiny")
    monkeypatch.setattr(fit, "all_targets", lambda: [several, one, tiny])
    boards = {row.target.name: row for row in fit.fit_model(path, fit.FitRequest(runtime="native")).fit.boards}
    place = boards["several"].place
    assert place == "arena=m0+m1"
    assert "fits in several memories: arena in m0 and m1" in boards["several"].reasons
    assert [boards[name].place for name in ("one", "tiny")] == [None, None]
    # What it names is what check accepts.
    checked = check_models([path], [several], CheckRequest(place=place)).reports[0].check
    assert checked is not None
    assert checked.passed
    reserved = fit.FitRequest(runtime="native", limits=ModelLimits(reserve_bytes=size))
    assert [row.place for row in fit.fit_model(path, reserved).fit.boards] == [None] * 3
