"""Convert models of the zoo repeatedly, each time in a new process, and compare every byte.

    python -m benchmarks.determinism [--models NAME...] [--repeats 3] [--rnn-repeats 20] [--rnn auto fused unrolled]
                                     [--jobs 1] [--state build/determinism]

Every model is converted --repeats times with the options that the zoo gives it. Models with recurrent layers are
converted --rnn-repeats times for each value of --rnn instead. A conversion is a run of `edgetool convert`, with its own
hash seed and memory addresses. All files that it writes are compared; for a rejected model, the exit code and the
message.

Results are appended to results.jsonl in a folder of the state directory that is named after a hash of the code, so an
interrupted run is continued, and a change of the code starts a new one. Each distinct .tflite is kept there under its
hash. The models stay in the state directory. --repeats 0 or --rnn-repeats 0 leaves out these conversions.

Prints one line per model and value of --rnn; the exit status is 1 if any two conversions differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib.metadata import distributions
from pathlib import Path

from benchmarks.soak import own_options
from benchmarks.zoo.build import ROUNDED
from benchmarks.zoo.catalog import BY_NAME
from benchmarks.zoo.entry import Entry
from benchmarks.zoo.files import calibration

ROOT = Path(__file__).parents[1]
TARGET = "cortex-m7"
# If the time limit ends a search, the report says so; the result then depends on the load of the machine.
LIMIT = ("--plan-time-limit", "120")
FORMS = ("auto", "fused", "unrolled")
RECURRENT = ("LSTM", "GRU", "RNN")
LIBRARIES = frozenset(["tensorflow", "tensorflow-cpu", "keras", "tf-keras", "numpy"])
ROW = "{:<28} {:<9} {:>5} {:>9}  {}"


@dataclass(frozen=True, slots=True)
class Case:
    """A model, and the value of --rnn; "" for the option of the zoo, or the default."""

    model: str
    rnn: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one conversion: its exit code, the SHA-256 of each file by name, and the message of a rejection."""

    code: int
    files: Mapping[str, str] = field(default_factory=dict)
    message: str = ""


def convert(case: Case, models: Path, kept: Path) -> Outcome:
    """Convert in a separate process; the .tflite is kept in the folder `kept`."""
    entry, home = BY_NAME[case.model], models / case.model
    options = [*own_options(entry), *(["--rnn", case.rnn] if case.rnn else [])]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    with tempfile.TemporaryDirectory(prefix="determinism-") as folder:
        output = Path(folder) / "out"
        command = ["convert", entry.file_name, "--calibration", calibration(home).name, "--target", TARGET]
        done = subprocess.run(
            [sys.executable, "-m", "edgetool", *command, "--name", "model", "-o", str(output), *LIMIT, *options],
            cwd=home,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        contents = {path.name: path.read_bytes() for path in sorted(output.glob("*"))}
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        for name, content in contents.items():
            if name.endswith(".tflite"):
                (kept / f"{hashes[name][:16]}.tflite").write_bytes(content)
        message = done.stderr.replace(folder, "FOLDER").strip() if done.returncode else ""
        return Outcome(done.returncode, hashes, message)


def cases(names: Iterable[str], models: Path, forms: Sequence[str], repeats: int, rnn_repeats: int) -> dict[Case, int]:
    """Return how many times each case is converted."""
    requested: dict[Case, int] = {}
    for name in names:
        entry = BY_NAME[name]
        if is_recurrent(entry, models / name) and "rnn" not in entry.options:
            requested |= {Case(name, form): rnn_repeats for form in forms}
        else:
            requested[Case(name)] = repeats
    return {case: count for case, count in requested.items() if count}


def is_recurrent(entry: Entry, folder: Path) -> bool:
    """Return whether the saved model has a layer to which --rnn applies; False for a SavedModel, which has no
    layers."""
    path = folder / entry.file_name
    if path.is_dir():
        return False
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            config = archive.read("config.json").decode()
    else:
        import h5py

        with h5py.File(path) as file:
            config = str(file.attrs["model_config"])
    return any(kind in config for kind in RECURRENT)


def differences(outcomes: Sequence[Outcome]) -> tuple[int, tuple[str, ...]]:
    """Return the number of distinct outcomes, and what differs: names of files, "exit code", "message"."""
    distinct = {json.dumps(asdict(outcome), sort_keys=True) for outcome in outcomes}
    names = sorted({name for outcome in outcomes for name in outcome.files})
    differing = [name for name in names if len({outcome.files.get(name) for outcome in outcomes}) > 1]
    differing += ["exit code"] if len({outcome.code for outcome in outcomes}) > 1 else []
    differing += ["message"] if len({outcome.message for outcome in outcomes}) > 1 else []
    return len(distinct), tuple(differing)


def row(case: Case, outcomes: Sequence[Outcome]) -> str:
    """Return a line of the table."""
    distinct, differing = differences(outcomes)
    result = f"DIFFERENT: {', '.join(differing)}" if differing else "equal" if not outcomes[0].code else "equal refusal"
    return ROW.format(case.model, case.rnn or "-", len(outcomes), distinct, result)


def fingerprint() -> str:
    """Return a hash of the code that converts and of the libraries that it uses."""
    installed = {f"{one.name} {one.version}" for one in distributions() if one.name.replace("_", "-") in LIBRARIES}
    digest = hashlib.sha256(" ".join(sorted(installed)).encode())
    for path in sorted([*ROOT.glob("toolchain/edgetool/**/*.py"), *ROOT.glob("targets/**/*.toml"), Path(__file__)]):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\n" + path.read_bytes())
    return digest.hexdigest()[:12]


def stored(results: Path) -> dict[Case, list[Outcome]]:
    """Return the outcomes in a results file; an incomplete last line is ignored."""
    outcomes: dict[Case, list[Outcome]] = {}
    text = results.read_text(encoding="utf-8") if results.exists() else ""
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            record = json.loads(line)
            outcomes.setdefault(Case(**record["case"]), []).append(Outcome(**record["outcome"]))
    if text and not text.endswith("\n"):
        results.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")
    return outcomes


def build(names: Sequence[str], models: Path) -> None:
    """Write the models that do not exist yet, in a separate process."""
    missing = [name for name in names if not (models / name / ROUNDED).exists()]
    if missing:
        print(f"building {len(missing)} models", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "benchmarks.zoo.build", str(models), *missing]
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run(requested: Mapping[Case, int], models: Path, folder: Path, jobs: int) -> Iterator[tuple[Case, list[Outcome]]]:
    """Return the outcomes of each case, including those of earlier runs; new ones are stored immediately."""
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.jsonl"
    known = stored(results)
    with ThreadPoolExecutor(jobs) as pool, results.open("a", encoding="utf-8") as stream:
        for case, count in requested.items():
            outcomes = known.get(case, [])[:count]
            for outcome in pool.map(lambda _, case=case: convert(case, models, folder), range(count - len(outcomes))):
                stream.write(json.dumps({"case": asdict(case), "outcome": asdict(outcome)}) + "\n")
                stream.flush()
                outcomes.append(outcome)
            yield case, outcomes


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", metavar="NAME", choices=list(BY_NAME), default=list(BY_NAME))
    parser.add_argument("--repeats", type=int, default=3, help="conversions of each other model")
    parser.add_argument("--rnn-repeats", type=int, default=20, help="conversions per model with recurrent layers")
    parser.add_argument("--rnn", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--state", type=Path, default=ROOT / "build/determinism")
    options = parser.parse_args()
    if min(options.repeats, options.rnn_repeats) < 0 or options.jobs < 1:
        parser.error("repeats are 0 or more, jobs 1 or more")
    models = options.state.resolve() / "models"
    build(options.models, models)
    requested = cases(options.models, models, options.rnn, options.repeats, options.rnn_repeats)
    total = differing = 0
    print(ROW.format("model", "--rnn", "runs", "distinct", "result"), flush=True)
    for case, outcomes in run(requested, models, options.state.resolve() / fingerprint(), options.jobs):
        print(row(case, outcomes), flush=True)
        total += len(outcomes)
        differing += bool(differences(outcomes)[1])
    print(f"{total} conversions of {len(requested)} cases: {differing} cases differ")
    return int(differing > 0)


if __name__ == "__main__":
    raise SystemExit(main())
