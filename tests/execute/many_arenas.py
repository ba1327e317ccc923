"""What real TFLM takes of its arena for many models: one child process per core, which forks for every attempt.

In an arena that is too small TFLM may crash, so each attempt is a process of its own; a fork costs milliseconds, where
a new interpreter of Python would cost a second.

    python -m tests.execute.many_arenas FOLDER FIRST STEP    # N.tflite -> N.txt and N.out, for every STEPth N
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetool.execute.quantize import random_inputs
from edgetool.execute.run import TflmAllocation, parse_allocations
from edgetool.execute.worker import Array, Tflm
from edgetool.model.reader import read_model
from tests.execute.arenas import smallest_that_works

ENOUGH_BYTES = 2**20
INVOKES = 2
SECONDS_PER_ATTEMPT = 10
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Arena:
    """What AllocateTensors took, the smallest arena in which it and Invoke gave the same outputs, and these outputs.

    refusal is what TFLM printed when it could not; everything else is None then.
    """

    allocation: TflmAllocation | None
    smallest: int | None
    outputs: bytes | None
    refusal: str | None = None


def measure_arenas(models: Sequence[bytes], folder: Path, *, processes: int = 2) -> list[Arena]:
    """Every model on TFLM, in an arena of 1 MB and in the smallest one; the files that it needs stay in the folder."""
    for index, model in enumerate(models):
        (folder / f"{index}.tflite").write_bytes(model)
    children = [
        subprocess.Popen([sys.executable, "-m", __name__, str(folder), str(first), str(processes)], cwd=ROOT)
        for first in range(processes)
    ]
    codes = [child.wait() for child in children]
    assert codes == [0] * processes
    return [_read(folder, index) for index in range(len(models))]


def _read(folder: Path, index: int) -> Arena:
    text = (folder / f"{index}.txt").read_text(encoding="utf-8", errors="replace")
    smallest, _, printed = text.partition("\n")
    if not smallest:
        return Arena(None, None, None, printed)
    return Arena(parse_allocations(printed), int(smallest), (folder / f"{index}.out").read_bytes())


def _measure(folder: Path, index: int) -> None:
    """Leave the smallest arena and what TFLM printed in index.txt, and the outputs in index.out."""
    model = (folder / f"{index}.tflite").read_bytes()
    log, output, trial = (folder / f"{index}.{end}" for end in ("log", "out", "trial"))
    inputs = random_inputs(read_model(model), INVOKES, seed=1)
    if not _attempt(model, inputs, ENOUGH_BYTES, log, output):
        (folder / f"{index}.txt").write_bytes(b"\n" + log.read_bytes())
        return
    printed, expected = log.read_bytes(), output.read_bytes()
    used = parse_allocations(printed.decode("utf-8", "replace")).total

    def works(size: int) -> bool:
        return _attempt(model, inputs, size, log, trial) and trial.read_bytes() == expected

    smallest = smallest_that_works(used, works)
    (folder / f"{index}.txt").write_bytes(f"{smallest}\n".encode() + printed)


def _attempt(model: bytes, inputs: Sequence[Array], arena_bytes: int, log: Path, output: Path) -> bool:
    """Whether a fork of this process allocates and invokes; it leaves what TFLM printed and the outputs."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS_PER_ATTEMPT)
        code = 1
        try:
            _run(model, inputs, arena_bytes, log, output)
            code = 0
        except (RuntimeError, ValueError):  # what TFLM's bindings raise; it has printed why
            pass
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def _run(model: bytes, inputs: Sequence[Array], arena_bytes: int, log: Path, output: Path) -> None:
    with log.open("wb") as file:
        for standard in (1, 2):
            os.dup2(file.fileno(), standard)
    runner = Tflm(model, arena_bytes=arena_bytes)
    runner.allocations(log)
    made = [runner.invoke(tuple(array[sample] for array in inputs)) for sample in range(INVOKES)]
    output.write_bytes(b"".join(array.tobytes() for arrays in made for array in arrays))


def main() -> None:
    importlib.import_module("tflite_micro")  # once, for all forks
    folder, first, step = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for index in range(first, len(list(folder.glob("*.tflite"))), step):
        _measure(folder, index)


if __name__ == "__main__":
    main()
