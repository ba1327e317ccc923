"""Run TFLM's kernels with an output that overlaps an input, at exactly the distance that edgetool permits and below it.

    python -m benchmarks.kernels.overlaps CORE --kernels KERNELS [--command COMMAND] [--count 100] [--only OPERATOR...]
        [--into benchmarks/kernels/measured/overlaps.csv]

Each generated model of one operator (benchmarks/kernels/cases) runs with three offline plans: output and input apart,
at the distance, and 16 bytes nearer. At the distance, the outputs must be equal to those of the first plan. Below, they
should differ for many models: for the others, no byte that the kernel still needs is overwritten, or it has the same
value. Tensors that may only share one offset have no distance below.

COMMAND starts a program that was built from runner.cc and the user's own TFLM, as for `python -m benchmarks.kernels`.
Without it, the models run on the `tflite-micro` package of this machine, which has the reference kernels.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from benchmarks.kernels.__main__ import inputs_of
from benchmarks.kernels.batch import run_batch, write_batch
from benchmarks.kernels.cases import Case, generators

from edgetool.memory.account import prepare
from edgetool.memory.overlaps import operator_overlaps
from edgetool.memory.problem import ARENA_ALIGNMENT, aligned
from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.operators.call import arena_bytes
from edgetool.operators.registry import OPERATORS
from edgetool.target.load import load_target
from edgetool.target.platform import Platform, platform_of

MEASURED = Path(__file__).parent / "measured" / "overlaps.csv"
COLUMNS = ("core", "kernels", "operator", "type", "first", "count", "overlaps", "equal", "nearer", "detected")
BATCH_MODELS = 600
ARENA_BYTES = 512 * 1024
# Returns the outputs of each model, None if it does not run.
Runner = Callable[[Sequence[tuple[Model, bytes]]], list[bytes | None]]


@dataclass(frozen=True, slots=True)
class Trial:
    """A case with its first operator's output and input, and its models with both apart, at the distance, and nearer.

    nearer is None if the distance is that of equal offsets, or if nothing overlaps below it.
    """

    case: Case
    apart: Model
    permitted: Model
    nearer: Model | None


@dataclass(frozen=True, slots=True)
class Tally:
    """The results of an operator and type on a core: the columns of the CSV.

    overlaps: the inputs that an output may overlap, in all cases. equal: those whose outputs at the distance are equal.
    nearer: those that were also tried below. detected: those of them whose outputs then differ.
    """

    core: str
    kernels: str
    operator: str
    type: str
    first: int
    count: int
    overlaps: int
    equal: int
    nearer: int
    detected: int


def trials(case: Case, model: Model, platform: Platform) -> Iterator[Trial]:
    """Yield a trial for each input that the output of the only operator may overlap."""
    main = model.main
    if len(model.subgraphs) > 1 or len(main.operators) > 1 or not main.operators[0].outputs:
        return
    if prepare(model, platform).unaccounted:
        return  # Prepare refuses it, or the kernel crashes
    (operator,) = main.operators
    output = operator.outputs[0]
    for item in operator_overlaps(model, platform).get(operator.index, ()):
        source = operator.inputs[item.input]
        sizes = [arena_bytes(main.tensors[i]) for i in (source, output)]
        is_free = source >= 0 and main.tensors[source].data is None and not main.tensors[source].is_variable
        if not is_free or not min(sizes) or operator.inputs.count(source) > 1 or source in main.outputs:
            continue
        # A core may not access elements at other addresses.
        element_bytes = max(main.tensors[i].dtype.bits // 8 for i in (source, output))
        distance = aligned(item.distance or 0, element_bytes)
        shares = -min(sizes) < distance < sizes[1]
        if not shares and item.distance is not None:
            # Wherever the input is, or nowhere: the distance of equal offsets stands for all.
            if distance >= sizes[1]:
                continue
            distance = 0
        below = distance - ARENA_ALIGNMENT
        can_be_nearer = shares and item.distance is not None and below > -sizes[0]
        yield Trial(
            case,
            _placed(model, source, output, aligned(sizes[1])),
            _placed(model, source, output, distance),
            _placed(model, source, output, below) if can_be_nearer else None,
        )


def _placed(model: Model, source: int, output: int, distance: int) -> Model:
    """Return the model with a plan in which offset(source) - offset(output) is the distance; all else is behind."""
    main = model.main
    start = aligned(max(0, -distance))
    offsets = {(0, output): start, (0, source): start + distance}
    end = max(offset + arena_bytes(main.tensors[index]) for (_, index), offset in offsets.items())
    for tensor in main.tensors:
        if tensor.data is None and not tensor.is_variable and (0, tensor.index) not in offsets:
            end = aligned(end)
            offsets[0, tensor.index] = end
            end += arena_bytes(tensor)
    return with_metadata(model, METADATA_NAME, encode_plan(model, offsets))


def on_core(command: str) -> Runner:
    """Return a function that runs models with runner.cc on a core; the outputs must not depend on old contents."""

    def run(models: Sequence[tuple[Model, bytes]]) -> list[bytes | None]:
        with tempfile.TemporaryDirectory() as folder:
            batch = Path(folder) / "batch"
            write_batch(batch, [(write_model(model), inputs) for model, inputs in models])
            runs = run_batch(command, batch, len(models), Path(folder) / "result")
            return [run.outputs[0] if run.status == "ok" and run.stable else None for run in runs]

    return run


def on_this_machine(models: Iterable[tuple[Model, bytes]]) -> list[bytes | None]:
    """Run models on the installed TFLM."""
    from tflite_micro import runtime

    results: list[bytes | None] = []
    for model, inputs in models:
        try:
            interpreter = runtime.Interpreter.from_bytes(write_model(model), arena_size=ARENA_BYTES)
            at = 0
            for number, index in enumerate(model.main.inputs):
                tensor = model.main.tensors[index]
                kind = np.dtype(interpreter.get_input_details(number)["dtype"])
                values = np.frombuffer(inputs, kind, tensor.element_count, at).reshape(tensor.shape)
                interpreter.set_input(values, number)
                at += tensor.size_bytes
            interpreter.invoke()
            outputs = [interpreter.get_output(number).tobytes() for number in range(len(model.main.outputs))]
            results.append(b"".join(outputs))
        except RuntimeError:
            results.append(None)
    return results


def tally_of(core: str, kernels: str, cases: Sequence[Case], platform: Platform, run: Runner) -> Tally:
    """Run the cases of one operator and type."""
    todo = [trial for case in cases for trial in trials(case, case.model(), platform)]
    models = [
        (model, inputs_of(trial.case, trial.apart))
        for trial in todo
        for model in (trial.apart, trial.permitted, trial.nearer)
        if model is not None
    ]
    outputs: list[bytes | None] = []
    for first in range(0, len(models), BATCH_MODELS):
        outputs += run(models[first : first + BATCH_MODELS])
    results = iter(outputs)
    overlaps = equal = nearer = detected = 0
    for trial in todo:
        apart, permitted = next(results), next(results)
        below = None if trial.nearer is None else next(results)
        if apart is None:
            continue  # it does not run, or its outputs depend on the previous contents of the arena
        overlaps += 1
        equal += permitted == apart
        nearer += trial.nearer is not None
        detected += trial.nearer is not None and below != apart
    first_case = cases[0]
    return Tally(
        core,
        kernels,
        first_case.operator,
        first_case.type,
        first_case.number,
        len(cases),
        overlaps,
        equal,
        nearer,
        detected,
    )


def read_tallies(path: Path) -> list[Tally]:
    """Return the rows of the CSV."""
    with path.open(newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return [
            Tally(*(row[name] for name in COLUMNS[:4]), *(int(row[name]) for name in COLUMNS[4:]))  # type: ignore[arg-type]
            for row in rows
        ]


def write_tallies(path: Path, notes: Sequence[str], tallies: Sequence[Tally]) -> None:
    """Write the rows, sorted, behind notes on the builds."""
    with path.open("w", newline="") as file:
        file.writelines(f"# {note}\n" for note in notes)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([getattr(tally, name) for name in COLUMNS] for tally in sorted(tallies, key=_key))


def _key(tally: Tally) -> tuple[str, str, str, str]:
    return tally.core, tally.kernels, tally.operator, tally.type


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("core")
    parser.add_argument("--kernels", required=True, choices=["reference", "cmsis-nn", "esp-nn"])
    parser.add_argument("--command", help="the program on the core, with {batch}, {result} and {first}")
    parser.add_argument("--count", type=int, default=100, help="cases per operator and type")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--only", nargs="*", default=(), metavar="OPERATOR")
    parser.add_argument("--into", type=Path, default=MEASURED, metavar="CSV")
    parser.add_argument("--note", action="append", default=[], help="a line at the start of the CSV: commits, flags")
    options = parser.parse_args()
    target = replace(load_target(options.core), kernels=options.kernels)
    run = on_this_machine if options.command is None else on_core(options.command)
    tallies = []
    for operator, kind in generators():
        if (options.only and operator not in options.only) or operator not in OPERATORS:
            continue
        if options.kernels not in OPERATORS[operator].overlaps:
            continue
        cases = [Case(operator, kind, number) for number in range(options.first, options.first + options.count)]
        core = "host" if options.command is None else options.core
        tally = tally_of(core, options.kernels, cases, platform_of(target), run)
        if not tally.overlaps:
            continue
        tallies.append(tally)
        wrong = "" if tally.equal == tally.overlaps else "  DIFFERENT"
        print(f"{operator:<24} {kind:<12} {tally.equal}/{tally.overlaps} equal, ", end="")
        print(f"{tally.detected}/{tally.nearer} detected{wrong}", flush=True)
    replaced = {_key(tally) for tally in tallies}
    stored = (
        [tally for tally in read_tallies(options.into) if _key(tally) not in replaced] if options.into.exists() else []
    )
    write_tallies(options.into, options.note, [*stored, *tallies])
    return 0 if all(tally.equal == tally.overlaps for tally in tallies) else 1


if __name__ == "__main__":
    raise SystemExit(main())
