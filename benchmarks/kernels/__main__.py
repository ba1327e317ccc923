"""Compare the outputs of TFLM's optimised kernels with those of its reference kernels, on generated models.

    python -m benchmarks.kernels CORE --reference COMMAND --optimised COMMAND [--count 200] [--only OPERATOR...]
        [--into benchmarks/kernels/measured/cmsis_nn.csv]

Each COMMAND starts a program that was built from runner.cc and the user's own TFLM, on an emulator or a board. It
contains the words {batch}, {result} and {first}, for example

    qemu-system-arm -machine mps2-an500 -nographic -monitor none -serial none -kernel runner.elf
        -semihosting-config enable=on,target=native,arg={batch},arg={result},arg={first}

The outcomes are printed by operator and type, and stored in the columns "CORE reference" and CORE of the CSV.
"""

from __future__ import annotations

import argparse
import struct
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

from benchmarks.kernels.batch import run_batch, write_batch
from benchmarks.kernels.cases import Case, generators
from benchmarks.kernels.compare import RIGHT, Comparison, alone, compare, read_measured, write_measured

from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.types import DType, Model, Tensor
from edgetool.model.writer import write_model
from edgetool.operators.call import arena_bytes, integers

MEASURED = Path(__file__).parent / "measured" / "cmsis_nn.csv"


GUARD_BYTES = 1024
# The offset of the first output: inputs and scratch buffers fit below it, so that nothing follows the guard, which ends
# anywhere.
OUTPUT_OFFSET = 40 * 1024


def guarded(model: Model) -> Model:
    """Return the model with a tensor directly behind each output, which is an input and an output of the model.

    An offline plan places it there, so that a kernel that writes beyond its output changes the guard. Models of several
    operators stay as they are.
    """
    if len(model.subgraphs) > 1 or len(model.main.operators) > 1 or set(model.main.outputs) & set(model.main.inputs):
        return model
    main, at, offsets, guards = model.main, OUTPUT_OFFSET, {}, []
    for output in main.outputs:
        offsets[0, output] = at
        at += arena_bytes(main.tensors[output])
        index = len(main.tensors) + len(guards)
        guards.append(Tensor(index, f"guard_{output}", (GUARD_BYTES,), DType.INT8, None, None, False))
        offsets[0, index] = at
        at = -(-(at + GUARD_BYTES) // 16) * 16
    added = tuple(guard.index for guard in guards)
    main = replace(
        main, tensors=(*main.tensors, *guards), inputs=(*main.inputs, *added), outputs=(*main.outputs, *added)
    )
    model = replace(model, subgraphs=(main,))
    return with_metadata(model, METADATA_NAME, encode_plan(model, offsets))


def inputs_of(case: Case, model: Model) -> bytes:
    """Return random inputs: integers over the whole range of their type, normal floats, booleans.

    The inputs of SVDF have the signs of the weights of one filter, so that the state saturates if it can.
    """
    random = Random(f"{case.seed}/inputs")
    parts = []
    for index in model.main.inputs:
        tensor = model.main.tensors[index]
        if case.operator == "SVDF" and tensor.dtype is DType.INT8 and index == model.main.operators[0].inputs[0]:
            parts.append(_aligned_with_weights(model, random))
        elif tensor.dtype is DType.FLOAT32:
            values = [random.gauss(0, 2) for _ in range(tensor.element_count)]
            parts.append(struct.pack(f"<{len(values)}f", *values))
        elif tensor.dtype is DType.BOOL:
            parts.append(bytes(random.randrange(2) for _ in range(tensor.element_count)))
        else:
            parts.append(random.randbytes(tensor.size_bytes))
    return b"".join(parts)


def _aligned_with_weights(model: Model, random: Random) -> bytes:
    """Return an input of SVDF with which a filter of one unit has the largest or the smallest product."""
    source, weights = (model.main.tensors[index] for index in model.main.operators[0].inputs[:2])
    values = integers(weights)
    depth = source.shape[-1]
    rows = [values[first : first + depth] for first in range(0, len(values), depth)]
    row = max(rows, key=lambda row: sum(map(abs, row)))
    sign = random.choice((1, -1))
    codes = [127 if value * sign > 0 else -128 for value in row]
    return struct.pack(f"<{depth}b", *codes) * source.shape[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("core")
    parser.add_argument("--reference", required=True, metavar="COMMAND")
    parser.add_argument("--optimised", required=True, metavar="COMMAND")
    parser.add_argument("--count", type=int, default=200, help="cases per operator and type")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--only", nargs="*", default=(), metavar="OPERATOR")
    parser.add_argument("--into", type=Path, default=MEASURED, metavar="CSV")
    parser.add_argument("--note", action="append", default=[], help="a line at the start of the CSV: commits, flags")
    options = parser.parse_args()
    cases = [
        Case(operator, kind, number)
        for operator, kind in generators()
        if not options.only or operator in options.only
        for number in range(options.first, options.first + options.count)
    ]
    outcomes = _compare_all(cases, options.reference, options.optimised)
    _print(outcomes)
    stored = dict(read_measured(options.into)) if options.into.exists() else {}
    columns = (f"{options.core} reference", options.core)
    cores = dict.fromkeys([*(core for row in stored.values() for core in row), *columns])
    for case, pair in outcomes.items():
        stored[case] = {**stored.get(case, {}), **dict(zip(columns, pair, strict=True))}
    options.into.parent.mkdir(exist_ok=True)
    write_measured(options.into, options.note, stored, cores)
    return 0


Pair = tuple[Comparison, Comparison]


def _compare_all(cases: list[Case], reference: str, optimised: str) -> dict[Case, Pair]:
    """Return the outcomes of the reference kernels, compared with themselves, and of the optimised ones.

    Each model runs as it is, and with guards behind its outputs; of two outcomes, one that is wrong counts.
    """
    plain = [case.model() for case in cases]
    pairs = [
        _compare_models(cases, models, reference, optimised) for models in (plain, [guarded(model) for model in plain])
    ]
    return {case: _worse(*outcomes) for case, *outcomes in zip(cases, *pairs, strict=True)}


def _worse(one: Pair, other: Pair) -> Pair:
    first, second = (a if a.outcome not in RIGHT else b for a, b in zip(one, other, strict=True))
    return first, second


def _compare_models(cases: list[Case], models: list[Model], reference: str, optimised: str) -> list[Pair]:
    with tempfile.TemporaryDirectory() as folder:
        batch = Path(folder) / "batch"
        inputs = [inputs_of(case, model) for case, model in zip(cases, models, strict=True)]
        write_batch(batch, list(zip(map(write_model, models), inputs, strict=True)))
        runs = [
            run_batch(command, batch, len(cases), Path(folder) / name)
            for name, command in (("reference", reference), ("optimised", optimised))
        ]
        return [
            (alone(model, first), compare(model, first, second))
            for model, first, second in zip(models, *runs, strict=True)
        ]


def _print(outcomes: dict[Case, tuple[Comparison, Comparison]]) -> None:
    groups: dict[tuple[str, str], Counter[str]] = {}
    for case, (_, optimised) in outcomes.items():
        groups.setdefault((case.operator, case.type), Counter())[optimised.outcome] += 1
    for (operator, kind), counts in groups.items():
        print(
            f"{operator:<30} {kind:<14} " + ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
        )


if __name__ == "__main__":
    raise SystemExit(main())
