"""The flash of native code, as counted, compared with the objects that a cross compiler makes of whole programs.

    python -m benchmarks.native code FILE... [--networks N] [--into CSV]

Random networks (benchmarks/kernels/random_network.py) and files are plans of tensors, and plans of rows whose inputs
and outputs are handed over or not; of a file, the bytes are those of all its plans in turn.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, islice
from pathlib import Path
from random import Random

from benchmarks.kernels.random_network import random_network
from benchmarks.native.sizes import measure
from benchmarks.native.stack import COMPILERS, KERNELS, LEVELS
from tests.codegen.native.models import spec_of
from tests.codegen.native.row_plans import scattered_plan

from edgetool.codegen.native.code_size import NativeCode, rows_code, tensors_code
from edgetool.codegen.native.files import native_files, row_files
from edgetool.codegen.native.lower import NativeProgram, lower
from edgetool.codegen.native.plan import place_buffers
from edgetool.codegen.native.row_tables import row_tables
from edgetool.codegen.native.rows import row_problem, takeable_outputs
from edgetool.errors import EdgetoolError
from edgetool.memory.streaming.problem import RowProblem
from edgetool.model.reader import read_model
from edgetool.model.types import Model

CODE = Path(__file__).parent / "measured" / "code.csv"
PLANS = ("tensors", "rows", "rows, fed", "rows, taken", "rows, fed and taken")
NAME = "net"
TEXTS = ("model", "plan", "core", "level")


@dataclass(frozen=True, slots=True)
class CodeRow:
    """A program: the bytes of its objects without the constants, as counted, with the band; and those of libraries."""

    model: str
    plan: str
    core: str
    level: str
    objects_bytes: int
    counted_bytes: int
    band_bytes: int
    library_bytes: int

    @property
    def error_bytes(self) -> int:
        """How much more is counted."""
        return self.counted_bytes - self.objects_bytes


@dataclass(frozen=True, slots=True)
class Program:
    """The C files of a program without its kernels, and its code as counted for each core and level."""

    model: str
    plan: str
    files: Mapping[str, bytes]
    kernels: tuple[str, ...]
    codes: tuple[NativeCode, ...]


def programs_of(name: str, model: Model) -> Iterator[Program]:
    """Yield the programs of a model that native code supports."""
    try:
        program, by_rows = lower(model), lower(model, row_wise=True)
    except EdgetoolError:
        return
    memory = place_buffers(program)
    codes = [code for core in COMPILERS for code in tensors_code(program, memory, core)]
    files = native_files(spec_of(NAME, model), program, memory, kernels=False)
    yield Program(name, PLANS[0], files, (*program.kernels, "edgetool_run"), tuple(codes))
    graph = by_rows.graph
    inputs = [index for index in graph.inputs if by_rows.places[index].constant is None]
    outputs = list(takeable_outputs(by_rows))
    for plan, fed, taken in zip(PLANS[1:], ([], inputs, [], inputs), ([], [], outputs, outputs), strict=True):
        try:
            yield _row_program(name, plan, by_rows, row_problem(by_rows, fed, taken=taken))
        except EdgetoolError:
            continue


def _row_program(name: str, plan: str, program: NativeProgram, problem: RowProblem) -> Program:
    made = scattered_plan(problem)
    tables = row_tables(NAME, program, problem, made, None)
    codes = [code for core in COMPILERS for code in rows_code(program, tables, core)]
    files = row_files(spec_of(NAME, program.model), program, problem, made, kernels=False)
    return Program(name, plan, files, (*program.kernels, "edgetool_rows"), tuple(codes))


def compare(program: Program) -> Iterator[CodeRow]:
    """Yield the code of a program on each core and level, as counted and in objects."""
    for code in program.codes:
        files = {file: data for file, data in program.files.items() if not file.endswith("_weights.c")}
        own = measure(NAME, files, code.core, code.level).code_bytes
        kernels = sum(kernel_bytes(kernel, code.core, code.level) for kernel in program.kernels)
        yield CodeRow(
            program.model,
            program.plan,
            code.core,
            code.level,
            own + kernels,
            code.code_bytes,
            code.error_bytes,
            code.library_bytes,
        )


@cache
def kernel_bytes(kernel: str, core: str, level: str) -> int:
    """Return the bytes of the object of a kernel."""
    return measure(NAME, {f"{kernel}.c": (KERNELS / f"{kernel}.c").read_bytes()}, core, level).code_bytes


def networks(number: int) -> Iterator[tuple[str, Model]]:
    """Yield random networks that native code supports, with their names."""
    drawn = ((f"network/{seed}", random_network(Random(f"network/random/{seed}"))) for seed in count(1))
    yield from islice(((name, model) for name, model in drawn if any(programs_of(name, model))), number)


def write(rows: Iterable[CodeRow], into: Path) -> None:
    """Write what was measured."""
    with into.open("w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in dataclasses.fields(CodeRow))
        writer.writerows(dataclasses.astuple(row) for row in rows)


def read() -> list[CodeRow]:
    """Return what was measured."""
    with CODE.open(encoding="ascii", newline="") as file:
        return [
            CodeRow(*[row[name] for name in TEXTS], *[int(row[name]) for name in list(row)[len(TEXTS) :]])  # type: ignore[misc]
            for row in csv.DictReader(file)
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the largest error of each plan and core."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.native code")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--networks", type=int, default=30)
    parser.add_argument("--core", action="append", choices=[*COMPILERS])
    parser.add_argument("--level", action="append", choices=LEVELS)
    parser.add_argument("--into", type=Path, metavar="CSV")
    options = parser.parse_args(arguments)
    models = [(path.stem, read_model(path.read_bytes())) for path in options.files] + list(networks(options.networks))
    rows = []
    for name, model in models:
        for program in programs_of(name, model):
            chosen = dataclasses.replace(
                program,
                codes=tuple(
                    code
                    for code in program.codes
                    if code.core in (options.core or COMPILERS) and code.level in (options.level or LEVELS)
                ),
            )
            rows += compare(chosen)
    if options.into is not None:
        write(rows, options.into)
    for plan in PLANS:
        for core in COMPILERS:
            errors = [row.error_bytes for row in rows if (row.plan, row.core) == (plan, core)]
            if errors:
                print(f"{plan:<20} {core:<14} {len(errors):4} programs, error {min(errors)} to {max(errors)} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
