"""Measure the stack of models' generated C on emulated cores, and compare the outputs with those of TFLM.

    python -m benchmarks.native painted [--cores CORE...] [--models FILE...] [--networks 200] [--into CSV]

Inputs and the outputs of TFLM's wheel are linked in. The memory below the stack is painted before each invoke. Random
networks run with the driver "run", real models also with "bands":

- run: built as stack.py measures frames, so that the painted stack and its bound belong to the same code.
- bands: bands.c of the tests, which calls kernels with bands of random heights and rows at any address. Accesses of
  misaligned words are faults (UNALIGN_TRP of SCB->CCR), so that the compiler must not make any (-mno-unaligned-access).

QEMU has no machine with Armv6-M and enough memory: programs for the Cortex-M0+ run on its Cortex-M3, which executes
Armv6-M, with the trap. RISC-V has no trap; QEMU executes its misaligned accesses.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path

from benchmarks.native.stack import COMPILERS, version
from tests.codegen.boards import BOARDS, EXAMPLE
from tests.codegen.native.host import (
    BANDS,
    Build,
    Driver,
    Trial,
    bands_declarations,
    bands_table,
    compile_kernel,
    model_files,
    prepare,
    run_references,
)
from tests.codegen.native.test_networks import networks

from edgetool.codegen.native.emit import kernel_files
from edgetool.codegen.native.stack import stack_bounds
from edgetool.errors import UnsupportedModelError

MEASURED = Path(__file__).parent / "measured" / "painted.csv"
BOARD = Path(__file__).parent / "board"
LEVELS = ("-O2", "-Os")
BATCH = 25
FIRST_NETWORK = 50_000
SECONDS = 900
# A core that QEMU lacks: the one that stands for it.
STAND_INS = {"cortex-m0plus": "cortex-m3"}


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one model. stack_bytes: painted; bound_bytes: of stack_bounds; both are 0 for bands."""

    core: str
    compiler: str
    flags: str
    model: str
    driver: str
    result: str
    stack_bytes: int
    bound_bytes: int


@dataclass(frozen=True, slots=True)
class Subject:
    """A model with its samples and TFLM's outputs."""

    name: str
    trial: Trial
    expected: bytes


def missing_tools(core: str) -> list[str]:
    """Return the programs that a core needs and that are not installed."""
    emulator = "qemu-system-riscv32" if core == "riscv32" else "qemu-system-arm"
    return [tool for tool in (COMPILERS[core][0], emulator) if shutil.which(tool) is None]


def subjects(trials: Mapping[str, Trial]) -> list[Subject]:
    """Return the models with TFLM's outputs."""
    with tempfile.TemporaryDirectory() as folder:
        results = run_references(list(trials.values()), Path(folder))
    for name, result in zip(trials, results, strict=True):
        if isinstance(result, str):
            raise RuntimeError(f"TFLM does not run {name}: {result}")
    return [
        Subject(name, trial, result)
        for (name, trial), result in zip(trials.items(), results, strict=True)
        if isinstance(result, bytes)
    ]


def random_trials(count: int, samples: int = 1, first: int = FIRST_NETWORK) -> dict[str, Trial]:
    """Return random networks that the native runtime supports; their samples include the extremes."""
    trials: dict[str, Trial] = {}
    for name, model in networks(first):
        if len(trials) == count:
            return trials
        try:
            trials[name] = prepare(model, samples, len(trials), row_wise=len(trials) % 2 == 1)
        except UnsupportedModelError:
            continue
    raise AssertionError


def build(folder: Path, core: str, driver: Driver, level: str, batch: Sequence[Subject]) -> Path:
    """Return the program of a batch of models for a core."""
    kernels: dict[str, bytes] = {}
    for number, subject in enumerate(batch):
        for name, data in model_files(f"m{number}", subject.trial).items():
            (folder / name).write_bytes(data)
        kernels |= kernel_files(subject.trial.program)
    if driver == "bands":
        del kernels["edgetool_run.c"]
        kernels[BANDS.name] = BANDS.read_bytes()
    for name, data in kernels.items():
        if name.endswith(".h"):
            (folder / name).write_bytes(data)
    made = Build(driver, sanitize=False, level=level, flags=flags(core, driver), compiler=COMPILERS[core][0])
    objects = [str(compile_kernel(name, kernels, made)) for name in kernels if name.endswith(".c")]
    (folder / "main.c").write_text(_main(batch, driver))
    for number, subject in enumerate(batch):
        (folder / f"inputs_{number}.bin").write_bytes(subject.trial.samples)
        (folder / f"outputs_{number}.bin").write_bytes(subject.expected)
    sources = sorted(path.name for path in folder.glob("*.c"))
    compiler = [COMPILERS[core][0], *flags(core, driver), level, "-std=gnu99", f"-I{EXAMPLE}", f"-I{BOARD}"]
    freestanding = ["-ffreestanding", "-fno-tree-loop-distribute-patterns"]
    _run([*compiler, *freestanding, "-c", str(BOARD / "check.c")], folder)
    command = [*compiler, *_linker(folder, core), "check.o", *objects, *sources, "-o", "program.elf"]
    _run(command, folder)
    return folder / "program.elf"


def flags(core: str, driver: Driver) -> tuple[str, ...]:
    """Return the flags of kernels and models."""
    extra = ("-mno-unaligned-access",) if driver == "bands" and core != "riscv32" else ()
    return (*COMPILERS[core][1:], *extra)


def _linker(folder: Path, core: str) -> list[str]:
    if core == "riscv32":
        return ["-nostartfiles", f"-T{BOARD / 'riscv.ld'}", str(BOARD / "riscv.c")]
    script = folder / "board.ld"
    script.write_text(BOARDS[STAND_INS.get(core, core)].script)
    return [f"-L{EXAMPLE}", f"-T{script}", "-nostartfiles", "-Wl,--gc-sections", str(EXAMPLE / "startup.c")]


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)[:400]}: {done.stderr[:3000]}")


def emulate(core: str, program: Path) -> tuple[int, str]:
    """Return the exit code of a program on a core, and what it printed."""
    if core == "riscv32":
        machine = ["qemu-system-riscv32", "-M", "virt", "-bios", "none", "-serial", "stdio"]
    else:
        board = BOARDS[STAND_INS.get(core, core)]
        machine = ["qemu-system-arm", "-M", board.machine, "-serial", "none"]
        machine += ["-semihosting-config", "enable=on,target=native"]
    done = subprocess.run(
        [*machine, "-display", "none", "-monitor", "none", "-kernel", str(program)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    return done.returncode, done.stdout + done.stderr


_MODEL = """
INCLUDE_BYTES({name}_samples, "inputs_{number}.bin")
INCLUDE_BYTES({name}_expected, "outputs_{number}.bin")
static {name}_context {name}_here;

static int {name}_start(void)
{{
{prologue}    return {name}_init(&{name}_here, arena, {macro}_ARENA_BYTES) == {name}_ok;
}}

static void {name}_set(const uint8_t *sample)
{{
    (void)sample;
{reads}}}

static int {name}_equal(const uint8_t *expected)
{{
    (void)expected;
    return 1{compares};
}}
"""
_PROLOGUE = """#include <string.h>

#include "check.h"
#include "edgetool_native.h"

#define INCLUDE_BYTES(name, file) \\
    extern const uint8_t name[]; \\
    __asm__(".section .rodata." #name ",\\"a\\"\\n.balign 8\\n" #name ":\\n" \\
            ".incbin \\"" file "\\"\\n.byte 0\\n.previous\\n");
"""
_ENTRY = """    {{"{label}", {name}_start, {name}_call, {name}_set, {name}_equal, {name}_samples, {name}_expected,
     {input_bytes}, {output_bytes}, {samples}}},
"""
_END = """
int main(void)
{{
    return check_models(models, {count}, {trap});
}}
"""


def _main(batch: Sequence[Subject], driver: Driver) -> str:
    """Return the text of main.c."""
    arena = max((subject.trial.memory.arena_bytes for subject in batch), default=0)
    parts = [_PROLOGUE, f"static uint64_t arena[{arena // 8 + 1}];\n"]
    if driver == "bands":
        parts.append(bands_declarations())
    for number, subject in enumerate(batch):
        parts.append(_model(number, subject, driver))
    parts.append("\nstatic const check_model models[] = {\n")
    for number, subject in enumerate(batch):
        trial = subject.trial
        parts.append(
            _ENTRY.format(
                label=subject.name.replace(" ", "_"),
                name=f"m{number}",
                input_bytes=len(trial.samples) // trial.count,
                output_bytes=trial.output_bytes,
                samples=trial.count,
            )
        )
    parts.append("};\n")
    return "".join([*parts, _END.format(count=len(batch), trap=int(driver == "bands"))])


def _model(number: int, subject: Subject, driver: Driver) -> str:
    name, graph, trial = f"m{number}", subject.trial.program.graph, subject.trial
    parts = [f'#include "{name}.h"\n']
    prologue = ""
    if driver == "bands":
        parts.append(bands_table(name, trial.program, trial.memory))
        prologue = f"    bands = {name}_bands;\n"
    reads, compares, at = "", "", 0
    for position, index in enumerate(graph.inputs):
        size = graph.tensors[index].size_bytes
        reads += f"    memcpy({name}_input_{position}(&{name}_here), sample + {at}, {size});\n"
        at += size
    at = 0
    for position, index in enumerate(graph.outputs):
        size = graph.tensors[index].size_bytes
        compares += f"\n           && memcmp({name}_output_{position}(&{name}_here), expected + {at}, {size}) == 0"
        at += size
    text = _MODEL.format(
        name=name, macro=name.upper(), number=number, prologue=prologue, reads=reads, compares=compares
    )
    call = f"\nstatic void {name}_call(void)\n{{\n    {name}_invoke(&{name}_here);\n}}\n"
    return "".join([*parts, text, call])


def check(core: str, driver: Driver, level: str, batch: Sequence[Subject]) -> list[Row]:
    """Build and run a batch; return a row for each model."""
    with tempfile.TemporaryDirectory() as folder:
        status, printed = emulate(core, build(Path(folder), core, driver, level, batch))
    lines = {words[0]: words[1:] for line in printed.splitlines() if len(words := line.split()) == 3}
    rows = []
    for subject in batch:
        result, stack = lines.get(subject.name.replace(" ", "_"), (f"status {status}", "0"))
        bounds = [item.stack_bytes for item in stack_bounds(subject.trial.program, core) if item.level == level]
        measured = driver == "run"
        rows.append(
            Row(
                core,
                version(COMPILERS[core][0]),
                " ".join((*flags(core, driver), level)),
                subject.name,
                driver,
                result,
                int(stack) if measured else 0,
                bounds[0] if measured else 0,
            )
        )
    return rows


def batches(real: Sequence[Subject], random: Sequence[Subject]) -> Iterator[list[Subject]]:
    """Yield each real model alone, and random ones together."""
    for subject in real:
        yield [subject]
    for start in range(0, len(random), BATCH):
        yield list(random[start : start + BATCH])


def read(path: Path = MEASURED) -> list[Row]:
    """Return the rows of the table."""
    with path.open(newline="", encoding="ascii") as file:
        return [
            Row(**{**row, "stack_bytes": int(row["stack_bytes"]), "bound_bytes": int(row["bound_bytes"])})  # type: ignore[arg-type]
            for row in csv.DictReader(file)
        ]


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write the table."""
    path.parent.mkdir(exist_ok=True)
    names = [field.name for field in fields(Row)]
    with path.open("w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([[getattr(row, name) for name in names] for row in rows])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cores", nargs="*", default=list(COMPILERS), metavar="CORE")
    parser.add_argument("--models", nargs="*", default=[], type=Path, metavar="FILE")
    parser.add_argument("--networks", type=int, default=200)
    parser.add_argument("--into", type=Path, metavar="CSV")
    options = parser.parse_args()
    real = subjects({path.stem: prepare(path.read_bytes(), 1, 7) for path in options.models})
    random = subjects(random_trials(options.networks))
    rows = []
    for core in options.cores:
        if missing := missing_tools(core):
            print(f"{core}: skipped, {', '.join(missing)} missing")
            continue
        jobs: list[tuple[str, Driver, str, list[Subject]]] = [
            (core, "run", level, batch) for level in LEVELS for batch in batches(real, random)
        ]
        jobs += [(core, "bands", LEVELS[0], [subject]) for subject in real]
        with ThreadPoolExecutor(2) as pool:
            of_core = [row for result in pool.map(lambda job: check(*job), jobs) for row in result]
        rows += of_core
        wrong = [row for row in of_core if row.result != "equal"]
        slack = [row.bound_bytes - row.stack_bytes for row in of_core if row.driver == "run"]
        bound = max(row.bound_bytes for row in of_core)
        print(
            f"{core}: {len(of_core) - len(wrong)} equal, {len(wrong)} not; bound at most {bound}, "
            f"{min(slack)} to {max(slack)} above the painted stack",
            flush=True,
        )
        for row in wrong:
            print(f"    {row.model} {row.driver}: {row.result}")
        if options.into is not None:
            kept = [row for row in read(options.into) if row.core != core] if options.into.exists() else []
            order = list(COMPILERS)
            write(options.into, sorted([*kept, *of_core], key=lambda row: order.index(row.core)))
    return int(any(row.result != "equal" for row in rows))
