"""Whether real TFLM runs each of many models: one child process per core, which forks for every model.

python -m tests.execute.attempts FOLDER FIRST STEP    # N.tflite -> N.ran, for every STEPth N that TFLM runs
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from edgetool.execute.quantize import random_inputs
from edgetool.execute.worker import Tflm
from edgetool.model.reader import read_model

ARENA_BYTES = 2**20
SECONDS_PER_ATTEMPT = 10
ROOT = Path(__file__).resolve().parents[2]


def which_run(models: Sequence[bytes], folder: Path, *, processes: int = 2) -> list[bool]:
    """For each model whether TFLM prepares it and runs it once; a model that ends the process does not run."""
    for index, model in enumerate(models):
        (folder / f"{index}.tflite").write_bytes(model)
    children = [
        subprocess.Popen([sys.executable, "-m", __name__, str(folder), str(first), str(processes)], cwd=ROOT)
        for first in range(processes)
    ]
    assert [child.wait() for child in children] == [0] * processes
    return [(folder / f"{index}.ran").exists() for index in range(len(models))]


def _attempt(path: Path) -> None:
    """In a fork of this process, since a wrong model may end it."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS_PER_ATTEMPT)
        code = 1
        try:
            with Path(os.devnull).open("wb") as nowhere:
                for standard in (1, 2):
                    os.dup2(nowhere.fileno(), standard)
            model = path.read_bytes()
            inputs = random_inputs(read_model(model), 1, seed=1)
            Tflm(model, arena_bytes=ARENA_BYTES).invoke(tuple(array[0] for array in inputs))
            code = 0
        except (RuntimeError, ValueError):  # what TFLM's bindings raise
            pass
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1] == 0:
        path.with_suffix(".ran").touch()


def main() -> None:
    importlib.import_module("tflite_micro")  # once, for all forks
    folder, first, step = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for index in range(first, len(list(folder.glob("*.tflite"))), step):
        _attempt(folder / f"{index}.tflite")


if __name__ == "__main__":
    main()
