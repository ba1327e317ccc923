"""Convert random models of the zoo with random valid and invalid options, by the real command line.

    python -m benchmarks.soak [--seconds 360] [--seed N] [--jobs 2] [--models 60]

Whatever the options are, `edgetool convert` must end with a file that passes separate checks (`edgetool plan`, a run on
TFLM), or with a documented exit code, a message, and no files. Anything else is a breach: a traceback, no message, exit
code 5, or only some of the files. Prints a summary; the exit status is 1 if there is a breach.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.zoo.catalog import cheap
from benchmarks.zoo.entry import Entry
from benchmarks.zoo.files import calibration

from edgetool.errors import EdgetoolError
from edgetool.execute.quantize import random_inputs
from edgetool.execute.run import run_model
from edgetool.model.reader import read_model

ROOT = Path(__file__).parents[1]
ALLOWED = (0, 1, 2, 3, 4)
TARGETS = ("cortex-m4", "cortex-m7", "cortex-m0plus", "cortex-m55", "nucleo-l4r5zi", "esp32")
RUN_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Case:
    """A model and the command line after `convert`; {out} and {data} are folders of the case."""

    entry: Entry
    options: tuple[str, ...]
    strict: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a case, and its breach of the rules; "" if there is none."""

    case: Case
    code: int
    breach: str
    said: str


def draw(rng: random.Random, entries: Sequence[Entry], folder: Path, data: Path) -> Case:
    """Return a random case; its calibration data are written to the folder `data`."""
    entry = rng.choice(entries)
    options: list[str] = []

    def maybe(chance: float, *words: str) -> None:
        if rng.random() < chance:
            options.extend(words)

    options += ["--target", rng.choice(TARGETS)]
    maybe(0.5, "--quantize", rng.choice(["int8", "int16x8", "float32"]))
    maybe(0.3, "--io", rng.choice(["int8", "int16", "uint8", "float32"]))
    maybe(0.4, "--rnn", rng.choice(["auto", "fused", "unrolled"]))
    maybe(0.2, "--samples", rng.choice(["1", "3", "20", "0"]))
    maybe(0.1, "--seed", str(rng.randrange(1000)))
    maybe(0.15, "--dense-per-tensor")
    maybe(0.25, "--allow-approximation")
    maybe(0.1, "--debug-quantization")
    maybe(0.1, "--keep-float", rng.choice(["dense", "no_such_layer", "conv2d"]))
    maybe(0.1, "--signature", rng.choice(["serving_default", "classify", "features", "none_such"]))
    maybe(0.1, "--input-shape", rng.choice(["16,16,3", "x=4", "0", "10,4", "nonsense"]))
    maybe(0.1, "--kernels", rng.choice(["reference", "cmsis-nn"]))
    maybe(0.1, "--no-offline-plan")
    maybe(0.05, "--replan")
    maybe(0.1, "--strategy", rng.choice(["greedy", "tflm"]))
    maybe(0.1, "--json")
    maybe(0.05, "--time-limit", "1")
    maybe(0.05, "--memory-limit", rng.choice(["200MiB", "2GiB"]))
    maybe(0.1, "--sram", rng.choice(["1KiB", "1MiB"]))
    maybe(0.1, "--mean", rng.choice(["0.5", "0.5,0.4,0.3", "nan"]), "--std", rng.choice(["0.5", "0", "2"]))
    strict = rng.random() < 0.15
    options += ["--strict"] if strict else []
    if rng.random() < 0.7:
        options += ["--calibration", str(_data(rng, calibration(folder / entry.name), data))]
    if rng.random() < 0.1:
        options += ["--evaluate", str(_labelled(rng, calibration(folder / entry.name), data))]
    options += own_options(entry) if rng.random() < 0.8 else []
    return Case(entry, tuple(options), strict)


def own_options(entry: Entry) -> list[str]:
    """Return the options that the zoo specifies for this model."""
    words: list[str] = []
    for name, value in entry.options.items():
        option = "--" + {"input_shapes": "input-shape"}.get(name, name.replace("_", "-"))
        if name == "input_shapes":
            for key, shape in value:
                words += [option, (f"{key}=" if key else "") + ",".join(map(str, shape))]
        else:
            words += [option] if value is True else [option, str(value)]
    return words


def _data(rng: random.Random, good: Path, folder: Path) -> Path:
    """Return the model's samples, or a file that contains none."""
    breaks: dict[str, Callable[[Path], None]] = {
        "short": lambda path: path.write_bytes(good.read_bytes()[: rng.randrange(1, 400)]) and None,
        "text": lambda path: path.write_text("these are no samples\n") and None,
        "empty": lambda path: path.write_bytes(b"") and None,
        "shape": lambda path: np.save(path, np.zeros((5, 3, 1, 2), np.float32)),
        "same": lambda path: np.save(path, np.zeros_like(_first(good))),
        "nan": lambda path: np.save(path, np.full_like(_first(good), np.nan, dtype=np.float32)),
        "huge": lambda path: np.save(path, _first(good).astype(np.float64) * 1e39),
        "none": lambda path: None,
    }
    if rng.random() < 0.7:
        return good
    name = rng.choice(list(breaks))
    path = folder / f"{name}.npy"
    breaks[name](path)
    return path


def _labelled(rng: random.Random, good: Path, folder: Path) -> Path:
    path = folder / "evaluation.npz"
    x = _first(good)
    labels = np.array([rng.randrange(3) for _ in x])
    np.savez(path, **rng.choice([{"x": x, "y": labels}, {"x": x}, {"y": labels}, {"x": x, "y": labels[:-1]}]))
    return path


def _first(good: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    found = np.load(good)
    return found if isinstance(found, np.ndarray) else found[found.files[0]]


def run(case: Case, folder: Path) -> Outcome:
    """Run one case in its folder, and check the result."""
    output = folder / "out"
    model = folder.parent / case.entry.name / case.entry.file_name
    command = [
        sys.executable,
        "-m",
        "edgetool",
        "convert",
        str(model),
        "-o",
        str(output),
        "--name",
        "model",
        *case.options,
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, cwd=folder, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(case, -1, f"it has not ended after {RUN_SECONDS:.0f} s", "")
    said = done.stderr.strip()
    return Outcome(case, done.returncode, breach(case, done.returncode, done.stdout, said, output), said)


def breach(case: Case, code: int, stdout: str, stderr: str, output: Path) -> str:
    """Return how the end of a case breaks the rules; "" if it does not."""
    files = {path.name for path in output.iterdir()} if output.is_dir() else set()
    if code not in ALLOWED:
        return f"exit code {code}: {stderr[-600:]}"
    if "Traceback" in stdout + stderr:
        return f"a traceback: {stderr[-600:]}"
    if code == 1 and not case.strict:
        return "exit code 1 without --strict"
    if code:
        return "no message" if not stderr else f"files are left: {sorted(files)}" if files else ""
    missing = {"model.tflite", "model.json", "model.h"} - files
    return f"missing files: {sorted(missing)}" if missing else _not_sound(output / "model.tflite")


def _not_sound(file: Path) -> str:
    """Return why `edgetool plan` or TFLM rejects the file; "" if neither does."""
    planned = subprocess.run(
        [sys.executable, "-m", "edgetool", "plan", str(file), "--target", "cortex-m7", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if planned.returncode:
        return f"edgetool plan refuses it: {planned.stderr[-300:]}"
    if not json.loads(planned.stdout)["arena"]["bytes"]:
        return "edgetool plan tells no arena"
    blob = file.read_bytes()
    try:
        run_model(blob, random_inputs(read_model(blob), 2, 0), engine="tflm")
    except EdgetoolError as error:
        return f"TFLM does not run it: {error}"
    return ""


def soak(seconds: float, seed: int, jobs: int, entries: Sequence[Entry], folder: Path) -> list[Outcome]:
    """Generate and run cases until the time is up; the models are in `folder`."""
    rng = random.Random(seed)
    end = time.monotonic() + seconds
    number = 0

    def next_case() -> tuple[Case, Path]:
        nonlocal number
        number += 1
        own = folder / f"case-{number}"
        own.mkdir()
        return draw(rng, entries, folder, own), own

    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(jobs) as pool:
        while time.monotonic() < end:
            batch = [next_case() for _ in range(jobs)]  # generated here, so that the same seed gives the same cases
            for outcome in pool.map(lambda pair: run(*pair), batch):
                outcomes.append(outcome)
                mark = "BREACH" if outcome.breach else "ok"
                print(f"{mark:6} {outcome.code} {outcome.case.entry.name} {' '.join(outcome.case.options)}", flush=True)
                if outcome.breach:
                    print(f"       {outcome.breach}", flush=True)
    return outcomes


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return the number of cases by result."""
    codes = Counter(outcome.code for outcome in outcomes)
    breaches = sum(bool(outcome.breach) for outcome in outcomes)
    models = len({outcome.case.entry.name for outcome in outcomes})
    ended = ", ".join(f"{count} with {code}" for code, count in sorted(codes.items()))
    return f"{len(outcomes)} conversions of {models} models: {ended}; {breaches} breaches"


def build(entries: Sequence[Entry], folder: Path) -> None:
    """Write the models into the folder, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.zoo.build", str(folder), *(entry.name for entry in entries)]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=360)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--models", type=int, default=60, help="how many of the zoo, chosen by the seed")
    options = parser.parse_args()
    entries = random.Random(options.seed).sample(cheap(), min(options.models, len(cheap())))
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        build(entries, Path(name))
        outcomes = soak(options.seconds, options.seed, options.jobs, entries, Path(name))
    print(summary(outcomes))
    return int(any(outcome.breach for outcome in outcomes))


if __name__ == "__main__":
    raise SystemExit(main())
