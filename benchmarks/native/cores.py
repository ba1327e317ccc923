"""Compare generated native code with TFLM on emulated cores, without an operating system.

    python -m benchmarks.native cores [--only CORE...] [--networks 300] [--cases 5] [--into CSV]

QEMU runs programs of several models, built with the start-up code in bare/. Each model runs on all its samples twice:
compiled with -O2 in an arena, and with -Os in bands of random heights, with rows copied to all four alignments. In the
second run, accesses at addresses that are not multiples of their size are faults on every Cortex-M (those of RISC-V are
not trapped by QEMU). The outputs are compared with those of TFLM's reference kernels on this machine.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random

from benchmarks.kernels.cases import Case, generators
from benchmarks.kernels.random_network import random_network
from tests.codegen.native import host

import edgetool
from edgetool.codegen.native.emit import kernel_files
from edgetool.errors import EdgetoolError
from edgetool.model.types import Model

MEASURED = Path(__file__).parent / "measured" / "cores.csv"
BARE = Path(__file__).parent / "bare"
GROUP = 20
SECONDS = 300
MAX_ARENA = 256 * 1024
MAX_CONSTANTS = 256 * 1024
EQUAL = "equal"
FAULT = 64  # BARE_FAULT


@dataclass(frozen=True, slots=True)
class Core:
    """A core, how to compile for it, and the machine that QEMU emulates.

    flags: those of the compiler. vectors, code and data: the start and the size of the memories of the machine.
    """

    name: str
    compiler: str
    flags: tuple[str, ...]
    emulator: tuple[str, ...]
    vectors: tuple[int, int]
    code: tuple[int, int]
    data: tuple[int, int]

    @property
    def is_arm(self) -> bool:
        """Whether the core is a Cortex-M."""
        return self.compiler.startswith("arm")

    @property
    def missing(self) -> str | None:
        """The name of a program that is not installed, if any."""
        return next((name for name in (self.compiler, self.emulator[0]) if shutil.which(name) is None), None)


def _cortex(name: str, machine: str, *flags: str, data: int = 0x20000000, bulk: int | None = None) -> Core:
    start = 0x10000000 if machine in ("mps2-an505", "mps3-an547") else 0
    code = (start + 0x1000, 4 * 2**20 - 0x1000) if bulk is None else (bulk, 8 * 2**20)
    return Core(
        name,
        "arm-none-eabi-gcc",
        (f"-mcpu={name}", "-mthumb", *flags),
        ("qemu-system-arm", "-machine", machine),
        (start, 0x1000),
        code,
        (data, 4 * 2**20) if bulk is None else (bulk + 8 * 2**20, 8 * 2**20),
    )


HARD = "-mfloat-abi=hard"
CORES = {
    core.name.removeprefix("cortex-"): core
    for core in (
        # The emulated Cortex-M0 has 16 KB of memory: code for Armv6-M runs on the Cortex-M3 as well.
        _cortex("cortex-m0plus", "mps2-an385"),
        _cortex("cortex-m3", "mps2-an385"),
        _cortex("cortex-m4", "mps2-an386", HARD, "-mfpu=fpv4-sp-d16"),
        _cortex("cortex-m7", "mps2-an500", HARD, "-mfpu=fpv5-d16"),
        _cortex("cortex-m33", "mps2-an505", HARD, "-mfpu=fpv5-sp-d16", data=0x38000000),
        _cortex("cortex-m55", "mps3-an547", HARD, bulk=0x70000000),
        Core(
            "riscv32",
            "riscv64-unknown-elf-gcc",
            ("-march=rv32imc", "-mabi=ilp32", "--specs=picolibc.specs"),
            ("qemu-system-riscv32", "-machine", "virt", "-bios", "none"),
            (0x80000000, 0x1000),
            (0x80001000, 16 * 2**20),
            (0x82000000, 16 * 2**20),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Variant:
    """How kernels are compiled and called. trap: whether accesses that are not aligned are faults."""

    driver: host.Driver
    level: str
    trap: bool


VARIANTS = (Variant("run", "-O2", False), Variant("bands", "-Os", True))


@dataclass(frozen=True, slots=True)
class Kernels:
    """The object files of all kernels, of the driver and of the start-up code, for one core and variant."""

    core: Core
    variant: Variant
    folder: Path

    @property
    def flags(self) -> list[str]:
        """The flags of the compiler."""
        aligned = ["-mno-unaligned-access", "-DBARE_TRAP"] if self.variant.trap and self.core.is_arm else []
        return [*self.core.flags, "-std=c99", "-ffreestanding", "-fno-tree-loop-distribute-patterns", *aligned]

    def build(self, trials: Iterable[host.Trial]) -> None:
        """Compile what the programs of these models share."""
        files: dict[str, bytes] = {}
        for trial in trials:
            files |= kernel_files(trial.program)
        if files and self.variant.driver == "bands":
            del files["edgetool_run.c"]
            files["bands.c"] = host.BANDS.read_bytes()
        start = "arm" if self.core.is_arm else "riscv"
        files |= {name: (BARE / name).read_bytes() for name in ("bare.h", "bare.c", f"{start}.c")}
        for name, data in files.items():
            (self.folder / name).write_bytes(data)
        (self.folder / "machine.ld").write_text(linker_script(self.core))
        sources = [name for name in files if name.endswith(".c")]
        _run([self.core.compiler, *self.flags, self.variant.level, "-c", *sources], self.folder)

    def link(self, source: str, trials: Sequence[host.Trial], place: Path) -> Path:
        """Return the path of a program of a source that includes the generated files of models, if any."""
        for number, trial in enumerate(trials):
            for name, data in host.model_files(f"m{number}", trial).items():
                (place / name).write_bytes(data)
        (place / "models.c").write_text(source)
        objects = sorted(map(str, self.folder.glob("*.o")))
        command = [self.core.compiler, *self.flags, "-O0", f"-I{self.folder}", "-nostdlib", "-static", "models.c"]
        script = ["-Wl,--no-warn-rwx-segments", "-T", str(self.folder / "machine.ld")]
        _run([*command, *objects, "-lgcc", *script, "-o", "program.elf"], place)
        return place / "program.elf"


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])


def linker_script(core: Core) -> str:
    """Return bare.ld behind the memories of a machine."""
    regions = {"VECTORS": core.vectors, "CODE": core.code, "DATA": core.data}
    lines = [f"  {name} (rwx) : ORIGIN = {start:#x}, LENGTH = {size:#x}\n" for name, (start, size) in regions.items()]
    entry = "bare_reset" if core.is_arm else "bare_enter"
    return f"ENTRY({entry})\nMEMORY\n{{\n{''.join(lines)}}}\n" + (BARE / "bare.ld").read_text()


_MODEL = """
static void run_{name}(void)
{{
    {name}_context context;
    {prologue}
    uint8_t *arena = memory + {macro}_ARENA_ALIGNMENT;
    memset(arena, 0xA5, {macro}_ARENA_BYTES);
    if ({name}_init(&context, arena, {macro}_ARENA_BYTES) != {name}_ok) {{
        bare_exit(BARE_INIT);
    }}
    for (uint32_t i = 0; i < {count}; i++) {{
{reads}        if ({name}_invoke(&context) != {name}_ok) {{
            bare_exit(BARE_INVOKE);
        }}
{writes}    }}
}}
"""


def models_source(trials: Sequence[host.Trial], driver: host.Driver) -> str:
    """Return the text of a program that includes models and runs them, each from an arena that is just aligned."""
    arena = max(trial.memory.arena_bytes for trial in trials)
    parts = ['#include "bare.h"\n#include <string.h>\n']
    parts.append(f"__attribute__((aligned(16))) static uint8_t memory[{arena + 16}];\n")
    if driver == "bands":
        parts.append(host.bands_declarations())
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


def emulate(core: Core, program: Path) -> int:
    """Run a program in its folder, and return its exit code."""
    options = "-nographic -monitor none -serial none -semihosting-config enable=on,target=native -kernel".split()
    done = subprocess.run(
        [*core.emulator, *options, str(program)],
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


def exit_code_of_odd_access(core: Core, variant: Variant) -> int:
    """Return the exit code of a program that reads a word at an odd address: 0 unless that is a fault."""
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as place:
        kernels = Kernels(core, variant, Path(name))
        kernels.build([])
        return emulate(core, kernels.link(_ODD, [], Path(place)))


def run(kernels: Kernels, trials: Sequence[host.Trial], references: Sequence[bytes | str]) -> list[str]:
    """Return how each model compares: EQUAL, or what differs. A program that fails is split until it is one model."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "samples").write_bytes(b"".join(trial.samples for trial in trials))
        try:
            source = models_source(trials, kernels.variant.driver)
            code = emulate(kernels.core, kernels.link(source, trials, place))
            failure = "" if code == 0 else f"fault {code - FAULT}" if code >= FAULT else f"exit {code}"
        except subprocess.TimeoutExpired:
            failure = "timeout"
        results = (place / "results").read_bytes() if (place / "results").exists() else b""
    sizes = [trial.output_bytes * trial.count for trial in trials]
    if not failure and len(results) != sum(sizes):
        failure = f"{len(results)} bytes of {sum(sizes)}"
    if failure and len(trials) > 1:
        middle = len(trials) // 2
        return [
            item
            for part in (slice(0, middle), slice(middle, None))
            for item in run(kernels, trials[part], references[part])
        ]
    if failure:
        return [failure]
    outcomes, at = [], 0
    for size, expected in zip(sizes, references, strict=True):
        outcomes.append(EQUAL if results[at : at + size] == expected else "different")
        at += size
    return outcomes


def compare(core: Core, trials: Sequence[host.Trial], references: Sequence[bytes | str]) -> list[str]:
    """Return how each model compares in all variants: EQUAL, or the first difference."""
    outcomes = [EQUAL] * len(trials)
    for variant in VARIANTS:
        with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
            kernels = Kernels(core, variant, Path(name))
            kernels.build(trials)
            starts = range(0, len(trials), GROUP)
            parts = pool.map(
                lambda at: run(kernels, trials[at : at + GROUP], references[at : at + GROUP]),  # noqa: B023
                starts,
            )
            results = [item for part in parts for item in part]
        for number, result in enumerate(results):
            if result != EQUAL and outcomes[number] == EQUAL:
                outcomes[number] = f"{result} ({variant.driver} {variant.level})"
    return outcomes


def drawn(networks: int, cases: int) -> dict[str, host.Trial]:
    """Return random networks and cases of each operator and type that the native runtime supports, by their seeds."""
    found: dict[str, host.Trial] = {}
    numbers = count(1)
    while len(found) < networks:
        number = next(numbers)
        if (trial := _trial(random_network(Random(f"network/random/{number}")), number)) is not None:
            found[f"network/{number}"] = trial
    for operator, kind in generators():
        supported = 0
        for number in range(cases * 4):
            case = Case(operator, kind, number)
            if supported < cases and (trial := _trial(case.model(), number)) is not None:
                found[case.seed] = trial
                supported += 1
    return found


def _trial(model: Model, seed: int) -> host.Trial | None:
    """Return a model with its samples; None if it is not supported, or too large for the machines."""
    try:
        trial = host.prepare(model, 2, seed)
    except EdgetoolError:
        return None
    constants = sum(len(tensor.data or b"") for tensor in trial.program.graph.tensors)
    return trial if trial.memory.arena_bytes <= MAX_ARENA and constants <= MAX_CONSTANTS else None


NOTES = (
    "Outputs of generated native code on emulated cores, compared with those of TFLM's reference kernels: cores.py",
    "cortex-m0plus: the code for Armv6-M, on a Cortex-M3. riscv32: rv32imc, without traps of unaligned accesses",
)


def main() -> int:
    """Measure, print the outcomes, and write the CSV."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.native cores")
    parser.add_argument("--only", nargs="*", choices=list(CORES), default=list(CORES))
    parser.add_argument("--networks", type=int, default=300)
    parser.add_argument("--cases", type=int, default=5, help="models of each operator and type")
    parser.add_argument("--into", type=Path, default=MEASURED, metavar="CSV")
    options = parser.parse_args()
    trials = drawn(options.networks, options.cases)
    with tempfile.TemporaryDirectory() as name:
        references = host.run_references(list(trials.values()), Path(name))
    # What crashes TFLM has no outputs to compare with.
    known = {key: text for key, text in zip(trials, references, strict=True) if isinstance(text, bytes)}
    print(f"{len(known)} models, and {len(trials) - len(known)} that TFLM does not run")
    selected = [trials[key] for key in known]
    rows: dict[str, dict[str, str]] = {
        key: {"model": key, "sha256": hashlib.sha256(trials[key].blob).hexdigest()[:16]} for key in known
    }
    for core in options.only:
        outcomes = compare(CORES[core], selected, list(known.values()))
        for key, outcome in zip(known, outcomes, strict=True):
            rows[key][core] = outcome
            if outcome != EQUAL:
                print(core, key, outcome)
        counts = Counter(outcome.partition(" (")[0] for outcome in outcomes)
        print(f"{core:<10}", ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()), flush=True)
    write(options.into, rows, options.only)
    return 0 if all(row[core] == EQUAL for row in rows.values() for core in options.only) else 1


def write(path: Path, rows: Mapping[str, Mapping[str, str]], cores: Sequence[str]) -> None:
    """Write the outcomes behind the notes; models and cores that were not run keep theirs if the model is the same."""
    old = {row["model"]: row for row in read(path)} if path.exists() else {}
    merged = {
        key: {**(old[key] if old.get(key, {}).get("sha256") == row["sha256"] else {}), **row}
        for key, row in rows.items()
    }
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {note}\n" for note in (*NOTES, f"SHA-256 of the kernels' C files: {kernels_digest()}"))
        writer = csv.DictWriter(file, ["model", "sha256", *CORES], restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(merged.values())


def kernels_digest() -> str:
    """Return the start of the hash of all C files of the kernels."""
    folder = Path(edgetool.__file__).parent / "codegen" / "native" / "c"
    texts = [path.name.encode() + path.read_bytes() for path in sorted(folder.iterdir())]
    return hashlib.sha256(b"".join(texts)).hexdigest()[:16]


def read(path: Path = MEASURED) -> list[dict[str, str]]:
    """Return the rows of the CSV."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))
