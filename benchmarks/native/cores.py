"""Run generated native code on emulated cores, without an operating system: its outputs and its stack.

    python -m benchmarks.native cores --models FILE... [--only CORE...] [--networks 300] [--cases 3] [--into CSV]

QEMU runs programs of several models on the machines of edgetool/execute/cores.py. Each model runs on all its samples in
four programs: with each driver, at -O2 and at -Os. The outputs are compared with those of TFLM's reference kernels.

- run: edgetool_run, compiled as stack.py measures frames and linked with the compiler's C library. The memory below the
  caller of NAME_invoke is painted before each call. What is not painted afterwards is compared with the bound.
- bands: bands.c of the tests, which calls kernels with bands of random heights, and with rows copied to all four
  alignments. On Arm cores, an access at an address that is not a multiple of its size is a fault.

No machine of QEMU has an Armv6-M core and enough memory. Code for the Cortex-M0+ runs on the Cortex-M3, which executes
Armv6-M, with the fault in both drivers. On RISC-V, QEMU has no such fault.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields
from itertools import count, islice
from pathlib import Path
from random import Random

from benchmarks.kernels.cases import Case, generators
from benchmarks.kernels.random_network import random_network
from benchmarks.native.stack import COMPILERS, KERNELS, version
from tests.codegen.native import host

from edgetool.codegen.native.emit import kernel_files
from edgetool.codegen.native.stack import stack_bounds
from edgetool.errors import EdgetoolError
from edgetool.execute.cores import BARE, FAULT, MACHINES

MEASURED = Path(__file__).parent / "measured" / "cores.csv"
PAINT, HEAP = (Path(__file__).parent / name for name in ("paint.h", "heap.c"))
GROUP = 20
SECONDS = 900
MAX_ARENA = 256 * 1024
MAX_CONSTANTS = 256 * 1024
EQUAL = "equal"
VARIANTS: tuple[tuple[host.Driver, str], ...] = (("run", "-O2"), ("run", "-Os"), ("bands", "-O2"), ("bands", "-Os"))
NOTES = (
    "Generated native code on emulated cores, written by cores.py.",
    "result: equal if all outputs of four programs are those of TFLM's reference kernels: run and bands, -O2 and -Os.",
    "stack and bound: the bytes of stack that run takes at -O2 and at -Os, as painted, and at most as of stack_bounds.",
    "cortex-m0plus: the code for Armv6-M, on a Cortex-M3. riscv32: without faults of unaligned accesses.",
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A model with its samples and TFLM's outputs."""

    name: str
    trial: host.Trial
    expected: bytes

    @property
    def sha256(self) -> str:
        """The start of the hash of the model's file."""
        return hashlib.sha256(self.trial.blob).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one model did in one program. result: EQUAL, or what is wrong. stack_bytes: as painted."""

    result: str
    stack_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """What one model did on one core: see NOTES. result: EQUAL, or the first failure."""

    model: str
    sha256: str
    core: str
    result: str
    stack_o2: int
    bound_o2: int
    stack_os: int
    bound_os: int

    @property
    def stacks(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The painted stack and its bound, at -O2 and at -Os."""
        return (self.stack_o2, self.bound_o2), (self.stack_os, self.bound_os)


def trial_of(name: str) -> host.Trial | None:
    """Return a random network or operator by its name; None if it is not supported, or too large for the machines."""
    operator, kind, *rest = name.split("/")
    number = int(rest[0] if rest else kind)
    model = Case(operator, kind, number).model() if rest else random_network(Random(f"network/random/{kind}"))
    try:
        trial = host.prepare(model, 2, number, row_wise=number % 2 == 1)
    except EdgetoolError:
        return None
    constants = sum(len(tensor.data or b"") for tensor in trial.program.graph.tensors)
    return trial if trial.memory.arena_bytes <= MAX_ARENA and constants <= MAX_CONSTANTS else None


def drawn(networks: int, cases: int) -> dict[str, host.Trial]:
    """Return random networks, and random models of each operator and type that the native runtime supports."""
    found = _first(networks, (f"network/{number}" for number in count(1)))
    for operator, kind in generators():
        found |= _first(cases, (f"{operator}/{kind}/{number}" for number in range(cases * 4)))
    return found


def _first(limit: int, names: Iterable[str]) -> dict[str, host.Trial]:
    trials = ((name, trial) for name in names if (trial := trial_of(name)) is not None)
    return dict(islice(trials, limit))


def subjects_of(trials: Mapping[str, host.Trial]) -> list[Subject]:
    """Return the models with TFLM's outputs, without those that TFLM fails to run."""
    with tempfile.TemporaryDirectory() as folder:
        results = host.run_references(list(trials.values()), Path(folder))
    return [
        Subject(name, trial, result)
        for (name, trial), result in zip(trials.items(), results, strict=True)
        if isinstance(result, bytes)
    ]


_MODEL = """
static void run_{name}(void)
{{
    {name}_context context;
    /* volatile: the compiler does not know the function, and cannot inline it. */
    {name}_result (*volatile invoke)({name}_context *) = {name}_invoke;
    uint32_t stack = 0;
    {prologue}
    uint8_t *arena = memory + {macro}_ARENA_ALIGNMENT;
    memset(arena, 0xA5, {macro}_ARENA_BYTES);
    if ({name}_init(&context, arena, {macro}_ARENA_BYTES) != {name}_ok) {{
        bare_exit(BARE_INIT);
    }}
    for (uint32_t i = 0; i < {count}; i++) {{
{reads}        paint();
        if (invoke(&context) != {name}_ok) {{
            bare_exit(BARE_INVOKE);
        }}
        const uint32_t taken = painted_bytes();
        stack = taken > stack ? taken : stack;
{writes}    }}
    bare_write(&stack, sizeof stack);
}}
"""


def models_source(trials: Sequence[host.Trial], driver: host.Driver) -> str:
    """Return the text of a program that includes models and runs them, each from an arena that is just aligned."""
    arena = max(trial.memory.arena_bytes for trial in trials)
    parts = ['#include "bare.h"\n#include "paint.h"\n#include <string.h>\n']
    parts.append(f"__attribute__((aligned(16))) static uint8_t memory[{arena + 16}];\n")
    if driver == "bands":
        parts.append(f'#include "{host.BANDS}"\n')
    for number, trial in enumerate(trials):
        name, graph = f"m{number}", trial.program.graph
        parts.append(f'#include "{name}.c"\n#include "{name}_weights.c"\n')
        if driver == "bands":
            parts.append(host.bands_table(name, trial.program, trial.memory))
        reads, writes = (
            "".join(
                f"        bare_{call}({name}_{kind}_{i}(&context), {graph.tensors[index].size_bytes});\n"
                for i, index in enumerate(indices)
            )
            for kind, call, indices in (("input", "read", graph.inputs), ("output", "write", graph.outputs))
        )
        prologue = f"bands = {name}_bands;" if driver == "bands" else ""
        parts.append(
            _MODEL.format(
                name=name, macro=name.upper(), count=trial.count, prologue=prologue, reads=reads, writes=writes
            )
        )
    calls = "".join(f"    run_m{number}();\n" for number in range(len(trials)))
    parts.append(f"\nint bare_main(void)\n{{\n    bare_open();\n{calls}    return BARE_OK;\n}}\n")
    return "".join(parts)


def build(
    core: str,
    driver: host.Driver,
    level: str,
    source: str,
    trials: Sequence[host.Trial],
    place: Path,
    others: Mapping[str, bytes] | None = None,
    models_level: str | None = None,
) -> Path:
    """Return the path of a program of a source that includes the generated files of models, if any.

    others: files by name, instead of those of the models or in addition. models_level: the optimization of what is not
    a kernel, by default the same.
    """
    machine = MACHINES[core]
    used = (*machine.start, BARE / "bare.h", PAINT, HEAP)
    files = {path.name: path.read_bytes() for path in used}
    for number, trial in enumerate(trials):
        files |= kernel_files(trial.program, trial.runtime)
        for name, data in host.model_files(f"m{number}", trial).items():
            (place / name).write_bytes(data)
    if driver == "bands":
        files.pop("edgetool_run.c", None)
    files |= others or {}
    for name, data in files.items():
        if name.endswith(".h"):
            (place / name).write_bytes(data)
    (place / "models.c").write_text(source)
    (place / "machine.ld").write_text(machine.script)
    aligned = ("-mno-unaligned-access",) if driver == "bands" and machine.is_arm else ()
    flags = (*machine.flags, *aligned)
    made = host.Build(driver, sanitize=False, level=level, flags=flags, compiler=machine.compiler)
    objects = [str(host.compile_kernel(name, files, made)) for name in files if name.endswith(".c")]
    options = ("-std=c99", "-g1", "-I.", models_level or level, *aligned)
    command = machine.link(place / "machine.ld", ["models.c", *objects], place / "program.elf", *options)
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    return place / "program.elf"


def emulate(core: str, program: Path, *options: str) -> int:
    """Run a program in its folder, with more options of QEMU, and return its exit code."""
    done = subprocess.run(
        [*MACHINES[core].emulate(program), *options],
        cwd=program.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    return done.returncode


_ODD = """
#include "bare.h"

int bare_main(void)
{
    static uint8_t bytes[8];
    uint8_t *volatile odd = bytes + 1;
    return *(volatile uint32_t *)(void *)odd == 0 ? BARE_OK : 1;
}
"""


def exit_code_of_odd_access(core: str, driver: host.Driver) -> int:
    """Return the exit code of a program that reads a word at an odd address: 0 unless that is a fault."""
    with tempfile.TemporaryDirectory() as folder:
        return emulate(core, build(core, driver, "-O2", _ODD, [], Path(folder)))


def run(core: str, driver: host.Driver, level: str, subjects: Sequence[Subject]) -> list[Outcome]:
    """Return what each model does in one program. A program that fails is split until it has only one model."""
    trials = [subject.trial for subject in subjects]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "samples").write_bytes(b"".join(trial.samples for trial in trials))
        program = build(core, driver, level, models_source(trials, driver), trials, place)
        try:
            code = emulate(core, program)
            failure = "" if code == 0 else f"fault {code - FAULT}" if code >= FAULT else f"exit {code}"
        except subprocess.TimeoutExpired:
            failure = "timeout"
        results = (place / "results").read_bytes() if (place / "results").exists() else b""
    if failure and len(subjects) > 1:
        middle = len(subjects) // 2
        return [item for part in (subjects[:middle], subjects[middle:]) for item in run(core, driver, level, part)]
    if failure:
        return [Outcome(failure)]
    outcomes, at = [], 0
    for subject in subjects:
        end = at + len(subject.expected)
        stack = int.from_bytes(results[end : end + 4], "little")
        outcomes.append(Outcome(EQUAL if results[at:end] == subject.expected else "different", stack))
        at = end + 4
    return outcomes


def measure(core: str, subjects: Sequence[Subject]) -> list[Row]:
    """Run models in all variants on a core, two programs at once."""
    jobs = [
        (core, driver, level, subjects[at : at + GROUP])
        for driver, level in VARIANTS
        for at in range(0, len(subjects), GROUP)
    ]
    with ThreadPoolExecutor(2) as pool:
        outcomes = [item for part in pool.map(lambda job: run(*job), jobs) for item in part]
    return [_row(core, subject, outcomes[number :: len(subjects)]) for number, subject in enumerate(subjects)]


def _row(core: str, subject: Subject, outcomes: Sequence[Outcome]) -> Row:
    failures = [
        f"{outcome.result} ({driver} {level})"
        for outcome, (driver, level) in zip(outcomes, VARIANTS, strict=True)
        if outcome.result != EQUAL
    ]
    fast, small = (outcome.stack_bytes for outcome in outcomes[:2])
    bounds = {item.level: item.stack_bytes for item in stack_bounds(subject.trial.program, core)}
    result = failures[0] if failures else EQUAL
    return Row(subject.name, subject.sha256, core, result, fast, bounds["-O2"], small, bounds["-Os"])


def main() -> int:
    """Measure, print a summary of each core, and write the CSV."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.native cores")
    parser.add_argument("--models", nargs="*", default=[], type=Path, metavar="FILE")
    parser.add_argument("--only", nargs="*", choices=list(COMPILERS), default=list(COMPILERS), metavar="CORE")
    parser.add_argument("--networks", type=int, default=300)
    parser.add_argument("--cases", type=int, default=3, help="models of each operator and type")
    parser.add_argument("--into", type=Path, default=MEASURED, metavar="CSV")
    options = parser.parse_args()
    trials = {path.stem: host.prepare(path.read_bytes(), 1) for path in options.models}
    trials |= drawn(options.networks, options.cases)
    subjects = subjects_of(trials)
    print(f"{len(subjects)} models, and {len(trials) - len(subjects)} that TFLM does not run", flush=True)
    heading, wrong = notes(), False
    for core in options.only:
        rows = measure(core, subjects)
        for row in rows:
            if row.result != EQUAL:
                print(core, row.model, row.result)
        counts = Counter(row.result for row in rows)
        results = ", ".join(f"{number} {result}" for result, number in counts.most_common())
        slack = [bound - stack for row in rows for stack, bound in row.stacks if row.result == EQUAL]
        print(
            f"{core}: {results}; bounds {min(slack, default=0)} to {max(slack, default=0)} above the painted stack",
            flush=True,
        )
        if notes() != heading:
            parser.exit(2, "the kernels have changed since the start\n")
        write(options.into, core, rows)
        wrong = wrong or list(counts) != [EQUAL]
    return int(wrong)


def kernels_note() -> str:
    """Return the state of the kernels that were measured."""
    texts = [path.name.encode() + path.read_bytes() for path in sorted(KERNELS.iterdir())]
    return f"SHA-256 of the kernels' C files: {hashlib.sha256(b''.join(texts)).hexdigest()[:16]}"


def compilers_note() -> str:
    """Return the compilers that built them."""
    return ", ".join(map(version, sorted({compiler for compiler, *_ in COMPILERS.values()})))


def notes() -> list[str]:
    """Return the lines in front of the table, with what it depends on."""
    lines = (*NOTES, f"{compilers_note()}; {kernels_note()}")
    return [f"# {line}\n" for line in lines]


def write(path: Path, core: str, rows: Sequence[Row]) -> None:
    """Write the rows of a core. Those of other cores are kept if they have the same notes."""
    kept = []
    if path.exists() and path.read_text(encoding="ascii").startswith("".join(notes())):
        kept = [row for row in read(path) if row.core != core]
    order = list(COMPILERS)
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="ascii") as file:
        file.writelines(notes())
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Row)])
        writer.writerows(astuple(row) for row in sorted([*kept, *rows], key=lambda row: order.index(row.core)))


def read(path: Path = MEASURED) -> list[Row]:
    """Return the rows of the CSV."""
    with path.open(newline="", encoding="ascii") as file:
        _, *lines = csv.reader(line for line in file if not line.startswith("#"))
    return [Row(model, sha256, core, result, *map(int, numbers)) for model, sha256, core, result, *numbers in lines]
