"""Count the instructions of generated native code on emulated cores, and fit the tables of the estimates to them.

    python -m benchmarks.native instructions count [--only CORE...] [--kernels KERNEL...]    measured/instructions.csv
    python -m benchmarks.native instructions fit [--only CORE...]           targets/cores/instructions/CORE.native.csv
    python -m benchmarks.native instructions quality [--kernels KERNEL...]  how well the loop counts explain the counts
    python -m benchmarks.native instructions all                            all of these
    python -m benchmarks.native instructions heldout FILE... [--networks 30]   models that no table is fitted to

QEMU runs programs of many models on the machines of edgetool/execute/cores.py with -icount, so that a timer advances by
the same time with each instruction (count.c). The models have one operator each, from layers.py and the generators of
benchmarks/instructions/cases and benchmarks/kernels/cases, and random networks. Their inputs are random codes as
networks have them. Code for the Cortex-M0+ is that for Armv6-M, and runs on a Cortex-M3.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from random import Random
from statistics import median

import numpy as np
from benchmarks.instructions.cases import cases, rooms
from benchmarks.instructions.fit import Coefficients, Point, fit, predicted, write_table
from benchmarks.kernels.cases import Case, generators
from benchmarks.kernels.random_network import random_network
from benchmarks.native.cores import MAX_ARENA, MAX_CONSTANTS, build, compilers_note, emulate, kernels_note
from benchmarks.native.layers import LAYERS, expansion, layer, summed_convolution, with_fine_output
from tests.codegen.native import host

from edgetool.codegen.native.emit import kernel_files
from edgetool.codegen.native.loops.registry import code_of, program_loops
from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.plan import place_buffers
from edgetool.codegen.native.program import Step
from edgetool.codegen.native.recompute import fusable_pairs, with_pairs
from edgetool.errors import EdgetoolError
from edgetool.estimate.latency import CALL
from edgetool.execute.cores import MACHINES
from edgetool.execute.quantize import random_inputs
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.operators.loops import DEVIATIONS
from edgetool.target.load import load_core

FOLDER = Path(__file__).parent
MEASURED = FOLDER / "measured" / "instructions.csv"
COUNT = FOLDER / "count.c"
CORES = tuple(MACHINES)
LEVEL = "-O2"
SAMPLES = 2
GROUP, GROUP_BYTES = 120, 1 << 20
LOOP_TURNS = 50_000  # of a loop of two instructions, which the clock is measured with
TICKS = 4  # bytes
# The time that QEMU's clock takes for an instruction is 2^shift ns; timers wrap after 20 and 160 million instructions.
# What the definition of count.c replaces, by the file of the runtime, and how count.c is compiled.
COUNTED = {
    "edgetool_run": (b"#define edgetool_run counted_run\n", b""),
    "edgetool_rows": (b"#define edgetool_fire counted_fire\n", b'#define COUNTED_ROWS\n#include "edgetool_rows.h"\n'),
}
SHIFTS, LARGE_SHIFTS = {True: 5, False: 7}, {True: 2, False: 4}
# How many models of a room, of each operator and type, and random networks are counted.
ROOM_CASES = {"convolution": 40, "dense": 40, "depthwise": 24, "recurrent": 16, "transpose_conv": 24}
OTHER_CASES, DRAWN_CASES, NETWORKS = 10, 8, 80
# Operators that only move or compare, of which one model each is enough.
FEW_CASES = frozenset(["ASSIGN_VARIABLE", "READ_VARIABLE", "CALL_ONCE"])
KEYS = ("case", "step", "kernel")
SEEDS = "inputs: normally distributed codes of seed 0"
LEAN, LEAN_EVERY, LEAN_ROOMS = "lean/", 2, ("convolution", "depthwise")
# Layers whose rows stay apart, as far as they add up rows or compute two pixels at once.
ROWS, ROWS_LAYERS = "rows/", {"mean": 40, "pooling": 200, "convolution": 200}
# Layers with the kernels for all shapes, which few models need.
PLAIN, PLAIN_LAYERS = "plain/", ("convolution", "depthwise")
# Layers with kernels without Helium on cores that have it, which layers with rare scales and sizes need.
SCALAR, SCALAR_LAYERS = "scalar/", ("binary", "mean", "pooling", "softmax")
# Layers whose sums are scaled with two roundings, with the kernels that they and rows have.
DOUBLE, DOUBLE_LAYERS = "double", ("binary", "convolution", "dense", "depthwise")
# Pairs of layers that are one step.
FUSED, FUSED_CASES = "fused/", {"expansion": (expansion, 140), "sums": (summed_convolution, 70)}
Key = tuple[str, str]  # kernel, path
Extensions = tuple[bool, bool]  # Helium, DSP


@dataclass(frozen=True, slots=True)
class Counted:
    """The executed instructions of a step of a case, on average over its samples, by core."""

    case: str
    step: int
    kernel: str
    instructions: Mapping[str, int]


def models() -> Iterator[tuple[str, Model]]:
    """Yield the models to count by name, some of them with lean kernels, or with sums of rows."""
    for kind, (_, number) in LAYERS.items():
        yield from ((f"layer/{kind}/{i}", layer(kind, i)) for i in range(number))
        yield from ((f"{LEAN}layer/{kind}/{i}", layer(kind, i)) for i in range(0, number, LEAN_EVERY))
    for kind, number in ROWS_LAYERS.items():
        yield from ((f"{ROWS}layer/{kind}/{i}", layer(kind, i)) for i in range(number))
    for kind in PLAIN_LAYERS:
        yield from ((f"{PLAIN}layer/{kind}/{i}", layer(kind, i)) for i in range(0, LAYERS[kind][1], LEAN_EVERY))
    for kind in SCALAR_LAYERS:
        yield from ((f"{SCALAR}layer/{kind}/{i}", layer(kind, i)) for i in range(0, LAYERS[kind][1], LEAN_EVERY))
    for kind in DOUBLE_LAYERS:
        for i in range(0, LAYERS[kind][1], LEAN_EVERY):
            fine = with_fine_output(layer(kind, i))
            yield from ((f"{prefix}{DOUBLE}/{kind}/{i}", fine) for prefix in ("", LEAN, PLAIN))
    for kind, (make, number) in FUSED_CASES.items():
        yield from ((f"{FUSED}{kind}/{i}", make(Random(f"layer/{kind}/{i}"))) for i in range(number))
    for room in rooms():
        found = cases(room)
        # Native code has no float32 arithmetic; of other types than int8, a few cases are enough.
        names = sorted(found, key=lambda name: Random(f"{room}/{name}").random())
        int8 = [name for name in names if "int8" in name or ("int" not in name and "float" not in name)]
        others = [name for name in names if name not in int8 and "float" not in name]
        limit = ROOM_CASES.get(room, OTHER_CASES)
        yield from ((f"{room}/{name}", found[name]()) for name in (*int8[:limit], *others[: limit // 3]))
        if room in LEAN_ROOMS:
            yield from ((f"{LEAN}{room}/{name}", found[name]()) for name in int8[:limit:LEAN_EVERY])
    for operator, kind in generators():
        for number in range(1 if operator in FEW_CASES else DRAWN_CASES):
            yield f"{operator}/{kind}/{number}", Case(operator, kind, number).model()
    for number in range(NETWORKS):
        yield f"network/{number}", random_network(Random(f"network/instructions/{number}"))


def inputs_of(model: Model) -> list[host.Array]:
    """Return samples as networks have them: codes that are normally distributed around the zero point."""
    generator = np.random.default_rng(0)
    arrays = []
    for index, drawn in zip(model.main.inputs, random_inputs(model, SAMPLES, 0), strict=True):
        tensor = model.main.tensors[index]
        quantized = tensor.quantization is not None and tensor.quantization.scales
        if tensor.dtype in DEVIATIONS and quantized:
            limits = np.iinfo(drawn.dtype)
            codes = generator.normal(0, DEVIATIONS[tensor.dtype], drawn.shape)
            drawn = np.clip(np.rint(codes), limits.min, limits.max).astype(drawn.dtype)
        arrays.append(drawn)
    return arrays


def trial_of(
    model: Model | bytes,
    *,
    vector: bool,
    dsp: bool = True,
    lean: bool = False,
    plain: bool = False,
    row_wise: bool = False,
    fused: bool = False,
) -> host.Trial | None:
    """Return a model with its samples; None if native code does not support it, or if it is too large.

    fused: whether pairs of operators are one step.
    """
    try:
        blob = write_model(model) if isinstance(model, Model) else model
        options = {"row_wise": row_wise or fused, "vector": vector, "dsp": dsp, "lean": lean, "plain": plain}
        trial = host.prepare(blob, inputs=inputs_of(read_model(blob)), **options)
        if fused:
            unfused = lower(read_model(blob), row_wise=True, lean=True, plain=True)
            program = with_pairs(trial.program, fusable_pairs(unfused))
            trial = replace(trial, program=program, memory=place_buffers(program))
    except EdgetoolError:
        return None
    constants = sum(len(tensor.data or b"") for tensor in trial.program.graph.tensors)
    fits = trial.memory.arena_bytes <= MAX_ARENA and constants <= 2 * MAX_CONSTANTS
    return trial if fits and trial.program.steps else None


def trials(
    named: Iterable[tuple[str, Model | bytes]], kernels: Sequence[str], *, vector: bool, dsp: bool
) -> dict[str, host.Trial]:
    """Return the models that native code supports by name; with `kernels`, those that have one of these."""
    found = {}
    for name, model in named:
        row_wise, scalar = name.startswith(ROWS), name.startswith(SCALAR)
        if scalar and not vector:
            continue
        kinds = {"lean": name.startswith(LEAN), "plain": name.startswith(PLAIN), "fused": name.startswith(FUSED)}
        trial = trial_of(model, vector=vector and not scalar, dsp=dsp, row_wise=row_wise, **kinds)
        if trial is not None and row_wise and not any(map(_needs_rows, trial.program.steps)):
            continue
        if trial is not None and (not kernels or set(kernels) & set(trial.program.kernels)):
            found[name] = trial
    return found


def _needs_rows(step: Step) -> bool:
    """Return whether only rows that stay apart have such a step."""
    return step.accumulates or dict(step.op.values).get("pixels") == 2


_MODEL = """
static void run_{name}(void)
{{
    {name}_context context;
    if ({name}_init(&context, memory, {macro}_ARENA_BYTES) != {name}_ok) {{
        bare_exit(BARE_INIT);
    }}
    memset(counted_ticks, 0, {steps} * sizeof counted_ticks[0]);
    for (uint32_t i = 0; i < {count}; i++) {{
{reads}        {name}_invoke(&context);
    }}
    bare_write(counted_ticks, {steps} * sizeof counted_ticks[0]);
}}
"""


def source_of(group: Sequence[host.Trial]) -> str:
    """Return the text of a program that writes the ticks of a loop, and of each step of each model."""
    arena = max(trial.arena_bytes for trial in group)
    parts = [
        '#include "bare.h"\n#include <string.h>\n',
        "extern uint32_t counted_ticks[];\nuint32_t count_ticks_of_loop(uint32_t turns);\n",
        f"__attribute__((aligned(16))) static uint8_t memory[{arena + 16}];\n",
    ]
    for number, trial in enumerate(group):
        name, graph = f"m{number}", trial.program.graph
        parts.append(f'#include "{name}.c"\n#include "{name}_weights.c"\n')
        reads = "".join(
            f"        bare_read({name}_input_{i}(&context), {graph.tensors[index].size_bytes});\n"
            for i, index in enumerate(graph.inputs)
        )
        steps = len(trial.program.steps)
        parts.append(_MODEL.format(name=name, macro=name.upper(), count=trial.count, steps=steps, reads=reads))
    calls = "".join(f"    run_m{number}();\n" for number in range(len(group)))
    parts.append(
        "\nint bare_main(void)\n{\n    bare_open();\n"
        f"    const uint32_t ticks = count_ticks_of_loop({LOOP_TURNS});\n    bare_write(&ticks, sizeof ticks);\n"
        f"{calls}    return BARE_OK;\n}}\n"
    )
    return "".join(parts)


def counts(core: str, group: Mapping[str, host.Trial], shifts: Mapping[bool, int] = SHIFTS) -> dict[str, list[int]]:
    """Return the instructions of each step of some models by name: those of one program, without models that fail.

    All of them plan rows, or none does.
    """
    trials = list(group.values())
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "samples").write_bytes(b"".join(trial.samples for trial in trials))
        runtime = trials[0].runtime
        run = kernel_files(trials[0].program, runtime)[f"{runtime}.c"]
        counted, mode = COUNTED[runtime]
        others = {f"{runtime}.c": counted + run, "count.c": mode + COUNT.read_bytes()}
        program = build(core, "run", LEVEL, source_of(trials), trials, place, others, "-O0")
        code = emulate(core, program, "-icount", f"shift={shifts[MACHINES[core].is_arm]}")
        data = (place / "results").read_bytes() if code == 0 else b""
    if code != 0 and len(group) > 1:
        names = list(group)
        halves = (names[: len(names) // 2], names[len(names) // 2 :])
        parts = [counts(core, {name: group[name] for name in half}, shifts) for half in halves]
        return parts[0] | parts[1]
    if code != 0:
        print(f"{core}: {next(iter(group))} ends with exit code {code}", flush=True)
        return {}
    ticks = [int.from_bytes(data[at : at + TICKS], "little") for at in range(0, len(data), TICKS)]
    rate, at, found = ticks[0] / (2 * LOOP_TURNS), 1, {}
    for name, trial in group.items():
        end = at + len(trial.program.steps)
        found[name] = [round(item / rate / trial.count) for item in ticks[at:end]]
        at = end
    return found


def count_all(
    core: str, subjects: Mapping[str, host.Trial], shifts: Mapping[bool, int] = SHIFTS
) -> dict[tuple[str, int, str], int]:
    """Return the instructions of each step by case, position and kernel."""
    found = {}
    for group in _groups(subjects):
        for name, numbers in counts(core, {name: subjects[name] for name in group}, shifts).items():
            for position, (step, number) in enumerate(zip(subjects[name].program.steps, numbers, strict=True)):
                found[name, position, step.kernel] = number
    return found


def _groups(subjects: Mapping[str, host.Trial]) -> Iterator[list[str]]:
    """Yield names of models that fit one program together."""
    group: list[str] = []
    size = 0
    for name, trial in subjects.items():
        constants = sum(len(tensor.data or b"") for tensor in trial.program.graph.tensors)
        if group and (len(group) == GROUP or size + constants > GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(name)
        size += constants
    if group:
        yield group


def points(core: str, rows: Iterable[Counted], subjects: Mapping[str, host.Trial]) -> dict[Key, list[Point]]:
    """Return the counted steps by kernel and path."""
    code = code_of(load_core(core))
    loops = {name: program_loops(trial.program, trial.memory, code) for name, trial in subjects.items()}
    found: dict[Key, list[Point]] = defaultdict(list)
    for row in rows:
        number = row.instructions.get(core)
        steps = loops.get(row.case)
        if number is None or steps is None:
            continue
        step = steps[row.step]
        if step.counts is not None and step.kernel == row.kernel and number > 0:
            turns = {CALL: 1, **{name: times for name, times in step.counts.loops.items() if times}}
            found[step.kernel, step.counts.path].append(Point(row.case, turns, number))
    return found


def read(path: Path = MEASURED) -> list[Counted]:
    """Return the rows of the CSV."""
    with path.open(newline="", encoding="ascii") as file:
        found = []
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            numbers = {core: int(cell) for core in CORES if (cell := row.get(core))}
            found.append(Counted(row["case"], int(row["step"]), row["kernel"], numbers))
        return found


def write(path: Path, found: Mapping[tuple[str, int, str], Mapping[str, int]]) -> None:
    """Write the CSV, with what it depends on."""
    lines = [
        "Executed instructions of the steps of generated native code on emulated cores, written by instructions.py.",
        f"{compilers_note()} at {LEVEL}; the mean of {SAMPLES} samples; {SEEDS}",
        kernels_note(),
        *(f"{core}: {MACHINES[core].name}, {' '.join(MACHINES[core].flags)}" for core in CORES),
    ]
    with path.open("w", newline="", encoding="ascii") as file:
        file.writelines(f"# {line}\n" for line in lines)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*KEYS, *CORES])
        for key, numbers in sorted(found.items()):
            writer.writerow([*key, *(numbers.get(core, "") for core in CORES)])


def extensions_of(core: str) -> Extensions:
    """Return whether a core has Helium, and whether it has the DSP extension."""
    profile = load_core(core)
    return profile.mve, profile.dsp


def for_cores(
    cores: Sequence[str], named: Sequence[tuple[str, Model | bytes]], kernels: Sequence[str]
) -> dict[Extensions, dict[str, host.Trial]]:
    """Return the models by the extensions of cores."""
    return {
        (vector, dsp): trials(named, kernels, vector=vector, dsp=dsp) for vector, dsp in set(map(extensions_of, cores))
    }


def count(
    cores: Sequence[str], kernels: Sequence[str], subjects: Mapping[Extensions, Mapping[str, host.Trial]]
) -> None:
    """Count models, and replace the rows of these cores and kernels."""
    found: dict[tuple[str, int, str], dict[str, int]] = defaultdict(dict)
    if MEASURED.exists() and (kernels or set(cores) != set(CORES)):
        for row in read():
            stays = bool(kernels) and row.kernel not in kernels
            kept = {core: number for core, number in row.instructions.items() if stays or core not in cores}
            if kept:
                found[row.case, row.step, row.kernel] = kept
    for core in cores:
        for key, number in count_all(core, subjects[extensions_of(core)]).items():
            if not kernels or key[2] in kernels:
                found[key][core] = number
        write(MEASURED, found)
        print(f"{core}: counted {len(subjects[extensions_of(core)])} models", flush=True)


def tables(
    cores: Sequence[str], kernels: Sequence[str], subjects: Mapping[Extensions, Mapping[str, host.Trial]]
) -> Iterator[tuple[str, dict[Key, list[Point]]]]:
    """Yield the counted steps of each core."""
    rows = [row for row in read() if not kernels or row.kernel in kernels]
    for core in cores:
        yield core, points(core, rows, subjects[extensions_of(core)])


def fit_all(cores: Sequence[str], subjects: Mapping[Extensions, Mapping[str, host.Trial]]) -> None:
    """Write the table of each core."""
    for core, counted in tables(cores, (), subjects):
        table: Coefficients = {key: fit(items) for key, items in counted.items()}
        write_table(core, "native", table)


def quality(
    cores: Sequence[str], kernels: Sequence[str], subjects: Mapping[Extensions, Mapping[str, host.Trial]]
) -> None:
    """Print how far the fitted counts are from the counts, by kernel and path."""
    for core, counted in tables(cores, kernels, subjects):
        for key, items in sorted(counted.items()):
            table = fit(items)
            errors = sorted(
                (abs(predicted(item.loops, table) / item.instructions - 1), item.case, item.instructions)
                for item in items
            )
            middle, worst = median(error for error, *_ in errors), errors[-1]
            print(
                f"{core:13} {key[0]:30} {key[1]:22} {len(items):4} median {middle:7.2%} p90"
                f" {errors[int(0.9 * (len(errors) - 1))][0]:7.2%} largest {worst[0]:7.2%} {worst[1]} {worst[2]}"
            )


def heldout(cores: Sequence[str], files: Sequence[Path], networks: int) -> None:
    """Print the errors of the written tables for models that they are not fitted to, of steps over 1 % of a model."""
    from edgetool.estimate.native import step_instructions
    from edgetool.target.tables import load_instructions

    named: list[tuple[str, Model | bytes]] = [(path.stem, path.read_bytes()) for path in files]
    drawn = ((f"network/{i}", random_network(Random(f"network/heldout/{i}"))) for i in range(networks))
    named += list(islice(drawn, networks))
    subjects = for_cores(cores, named, ())
    for core in cores:
        trials_of_core = subjects[extensions_of(core)]
        counted = count_all(core, trials_of_core, LARGE_SHIFTS)
        table, code = load_instructions(core, "native"), code_of(load_core(core))
        errors: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for name, trial in trials_of_core.items():
            if (name, 0, trial.program.steps[0].kernel) not in counted:
                continue
            steps = program_loops(trial.program, trial.memory, code)
            numbers = [counted[name, i, step.kernel] for i, step in enumerate(steps)]
            guesses = [step_instructions(step.kernel, step.counts, table) for step in steps]
            total = sum(numbers)
            whole = sum(guess or 0 for guess in guesses) / total - 1
            if name in {path.stem for path in files}:
                print(f"{core:13} {name:28} counted {total:12,} error {whole:+.2%}")
            errors["whole models"].append((abs(whole), name))
            for i, (step, number, guess) in enumerate(zip(steps, numbers, guesses, strict=True)):
                if number > 0.01 * total:
                    errors[step.kernel].append((abs((guess or 0) / number - 1), f"{name}#{i}"))
        every = [item for kernel, items in errors.items() if kernel != "whole models" for item in items]
        for kernel, items in [*sorted(errors.items()), ("all steps", every)]:
            ordered = sorted(items)
            print(
                f"{core:13} {kernel:30} n {len(items):4} median {median(e for e, _ in items):7.2%}"
                f" p90 {ordered[int(0.9 * (len(ordered) - 1))][0]:7.2%} max {ordered[-1][0]:7.2%} {ordered[-1][1]}"
            )


def main() -> int:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.native instructions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=["count", "fit", "quality", "heldout", "all"])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--only", nargs="*", choices=CORES, default=list(CORES), metavar="CORE")
    parser.add_argument("--kernels", nargs="*", default=[], metavar="KERNEL")
    parser.add_argument("--networks", type=int, default=30)
    options = parser.parse_args()
    if options.verb == "heldout":
        heldout(options.only, options.files, options.networks)
        return 0
    subjects = for_cores(options.only, list(models()), options.kernels)
    if options.verb in ("count", "all"):
        count(options.only, options.kernels, subjects)
    if options.verb in ("fit", "all"):
        # The tables have all kernels, whichever were counted.
        fit_all(options.only, for_cores(options.only, list(models()), []) if options.kernels else subjects)
    if options.verb in ("quality", "all"):
        quality(options.only, options.kernels, subjects)
    return 0
