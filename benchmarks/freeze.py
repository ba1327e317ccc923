"""Run two versions of edgetool side by side, and compare their complete output byte for byte.

    python -m benchmarks.freeze BASE [--conversions] [--only PATTERN] [--data ../shared/data] [--differences 20]

BASE is the directory of a git worktree with the earlier version; the later one is the tree that this file is in. Both
are built as a wheel would be, and run with the packages of this Python. Each case is a command line in a new directory
with copies of its inputs. Its results are compared: exit code, stdout, stderr, and every file with its bytes.

Without --conversions, the cases run every command on stored .tflite files, layout instances, targets and the store of
the example sweep, and with wrong arguments and damaged files. With it, Keras models are converted and a sweep is run
instead.

Not compared: what EXEMPT and UNCOMPARED name, the durations in DURATIONS, and a plan whose search ended at its time
limit, which is reported as skipped. The exit status is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
# Patterns of cases of which only the exit code counts, and why.
EXEMPT = {"malformed/*": "messages about malformed structured files may change; path, reason and suggestion stay"}
# Files that are not compared: pictures, which a plotting library writes, and databases with durations.
UNCOMPARED = (".svg", ".png", ".sqlite")
DURATIONS = (re.compile(rb"\d+ (?:s|min|h)(?=; saved)"), re.compile(rb'"seconds": [0-9.e-]+'))
CUT_SHORT = (b"search-cut-short", b"ended at its time limit")
MAX_BYTES = 3_000_000  # of a stored model: larger ones take too long
BOARDS = ("nucleo-l4r5zi", "rpi-pico", "nucleo-h743zi2", "esp32-s3", "cortex-m55", "arduino-nano33ble")
FORMATS = ("json", "sarif", "junit", "github", "markdown", "text")
COMMANDS = (
    *("convert", "inspect", "plan", "estimate", "fit", "check", "calibrate", "emit", "verify", "compare", "layout"),
    *("sweep", "sweep run", "sweep show", "sweep pareto", "sweep best", "targets", "targets list", "targets show"),
    *("targets validate", "init"),
)
# Reads requests from stdin, runs each as `python -m edgetool` does, and answers with the exit code. The program stays
# the same process, so that its modules are imported once.
WORKER = """
import json, os, runpy, sys, traceback
requests, replies = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
for line in requests:
    request = json.loads(line)
    os.chdir(request["cwd"])
    for number, name in ((1, request["stdout"]), (2, request["stderr"])):
        made = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
        os.dup2(made, number)
        os.close(made)
    sys.argv = ["edgetool", *request["arguments"]]
    try:
        runpy.run_module("edgetool", run_name="__main__", alter_sys=False)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
        code = -1
    sys.stdout.flush()
    sys.stderr.flush()
    print(code, file=replies, flush=True)
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A command line and its inputs by name: a file or directory to copy, or bytes."""

    name: str
    arguments: tuple[str, ...]
    inputs: Mapping[str, Path | bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """The exit code, and stdout, stderr and every file by name, normalised."""

    code: int
    files: Mapping[str, bytes]


class Side:
    """One version, built in its own directory and run by its own process."""

    def __init__(self, tree: Path, home: Path) -> None:
        self._home = home
        home.mkdir(parents=True)
        built = home / "built"
        command = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", str(home)]
        command += ["build", "--build-base", str(home / "base"), "--build-lib", str(built)]
        subprocess.run(command, cwd=tree, check=True, capture_output=True)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-u", "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(built), "COLUMNS": "100"},
            cwd=home,
        )

    def start(self, number: int, case: Case) -> None:
        """Start a case; `result` waits for it."""
        cwd = self._home / f"{number:05}"
        cwd.mkdir()
        for name, source in case.inputs.items():
            target = cwd / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(source, bytes):
                target.write_bytes(source)
            elif source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copyfile(source, target)
        request = {"cwd": str(cwd), "arguments": case.arguments, "stdout": "../stdout", "stderr": "../stderr"}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def result(self, number: int, case: Case) -> Result:
        """Return the result of the case, and remove its directory."""
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._home}: the process ended in case {case.name}")
        cwd = self._home / f"{number:05}"
        files = {
            path.relative_to(cwd).as_posix(): self._normalised(path.read_bytes(), number)
            for path in sorted(cwd.rglob("*"))
            if path.is_file() and path.suffix not in UNCOMPARED and path.relative_to(cwd).as_posix() not in case.inputs
        }
        files |= {
            f"<{name}>": self._normalised((self._home / name).read_bytes(), number) for name in ("stdout", "stderr")
        }
        shutil.rmtree(cwd)
        return Result(int(answer), files)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _normalised(self, content: bytes, number: int) -> bytes:
        content = content.replace(str(self._home / f"{number:05}").encode(), b"CASE")
        content = content.replace(str(self._home).encode(), b"HOME")
        for pattern in DURATIONS:
            content = pattern.sub(b"DURATION", content)
        return content


def stored_models(data: Path) -> list[Path]:
    """Return the examples' .tflite files, then those of the data that are not too large."""
    found = sorted(EXAMPLES.glob("*/*.tflite"))
    return found + [path for path in sorted(data.rglob("*.tflite")) if path.stat().st_size <= MAX_BYTES]


def stored_cases(data: Path) -> Iterator[Case]:
    """Yield every command on stored files: each model with the main commands, and with one of the others in turn."""
    models = stored_models(data)
    for number, path in enumerate(models):
        board, other = BOARDS[number % len(BOARDS)], BOARDS[(number + 1) % len(BOARDS)]
        inputs: dict[str, Path | bytes] = {"m.tflite": path}
        name = f"{path.parent.name}/{path.stem}"
        yield Case(f"inspect/{name}", ("inspect", "m.tflite", "--json"), inputs)
        yield Case(f"plan/{name}", ("plan", "m.tflite", "-t", board, "--json", "--replan", "-o", "p.tflite"), inputs)
        yield Case(
            f"emit/{name}", ("emit", "m.tflite", "-t", board, "--project", "cmake", "--profile", "-o", "e"), inputs
        )
        budgets = ("--max-latency", "20ms", "--max-arena", "64KiB", "--memory-budget", "32KiB")
        checked = ("check", "m.tflite", "-t", board, *budgets, "--format", FORMATS[number % len(FORMATS)])
        following = models[(number + 1) % len(models)]
        turns = (
            Case(f"check/{name}", checked, inputs),
            Case(f"estimate/{name}", ("estimate", "m.tflite", "-t", board, "--csv", "tables", "-v"), inputs),
            Case(f"fit/{name}", ("fit", "m.tflite"), inputs),
            Case(f"plan-text/{name}", ("plan", "m.tflite", "-t", board, "-t", other), inputs),
            Case(f"explain/{name}", ("plan", "m.tflite", "-t", board, "--explain", "-v"), inputs),
            Case(f"inspect-text/{name}", ("inspect", "m.tflite", "--tensors"), inputs),
            Case(f"update/{name}", ("check", "m.tflite", "-t", board, "-t", other, "--update"), inputs),
            Case(
                f"compare/{name}",
                ("compare", "m.tflite", "n.tflite", "-t", board, *(("--json",) if number % 2 else ())),
                {**inputs, "n.tflite": following},
            ),
            Case(
                f"estimates/{name}", ("estimate", "m.tflite", "-t", board, "-t", other, "-t", "raspberry-pi-4"), inputs
            ),
            Case(f"buffers/{name}", ("emit", "m.tflite", "--project", "header", "--arena-style", "buffers"), inputs),
            Case(f"fit-json/{name}", ("fit", "m.tflite", "--json", "--core", "cortex-m4"), inputs),
            Case(f"estimate-json/{name}", ("estimate", "m.tflite", "-t", board, "--json"), inputs),
        )
        yield turns[number % len(turns)]
        yield turns[(number + 5) % len(turns)]
    yield from other_cases(data)


def other_cases(data: Path) -> Iterator[Case]:
    """Yield layouts, targets, the example sweep, help texts, usage errors and damaged files."""
    for path in sorted([*(EXAMPLES / "layout").glob("*.*"), *(data / "layout").rglob("*.csv")])[:12]:
        name = f"i{path.suffix}"
        yield Case(f"layout/{path.stem}", ("layout", name, "-o", f"o{path.suffix}"), {name: path})
        yield Case(f"layout-json/{path.stem}", ("layout", name, "--json"), {name: path})
    yield Case("targets/list", ("targets", "list"))
    yield Case("targets/json", ("targets", "list", "--json"))
    for path in sorted((ROOT / "targets/boards").glob("*.toml")):
        yield Case(f"targets/{path.stem}", ("targets", "show", path.stem, *(("--json",) if len(path.stem) % 2 else ())))
    store: dict[str, Path | bytes] = {"s.sqlite": ROOT / "docs/sweep-example.sqlite"}
    for more in (("show",), ("show", "--csv"), ("show", "--json"), ("pareto",), ("pareto", "--json"), ("show", "-v")):
        yield Case(f"sweep/{'-'.join(more)}", ("sweep", more[0], "s.sqlite", *more[1:]), store)
    yield Case("sweep/best", ("sweep", "best", "s.sqlite", "--target", "rpi-pico", "-o", "out"), store)
    yield Case("help/edgetool", ("--help",))
    for command in COMMANDS:
        yield Case(f"help/{command}", (*command.split(), "--help"))
    keyword = (EXAMPLES / "keyword_spotting/keyword_spotting.tflite").read_bytes()
    model: dict[str, Path | bytes] = {"m.tflite": keyword}
    yield Case("init/new", ("init", "-t", "rpi-pico"), model)
    yield Case("init/dry", ("init", "-t", "rpi-pico", "--dry-run"), model)
    wrong = ["plan", "plan m.tflite -t nope", "plan m.tflite --sram 5", "nope", "check", "emit m.tflite m.tflite"]
    for number, line in enumerate([*wrong, "plan x.tflite", "plan m.tflite -o no/where.tflite", "convert m.tflite"]):
        yield Case(f"usage/{number}", tuple(line.split()), model)
    for length in range(0, len(keyword), len(keyword) // 40):
        damaged: dict[str, Path | bytes] = {"m.tflite": keyword[:length]}
        yield Case(f"damaged/{length}", ("inspect", "m.tflite", "--json"), damaged)
    texts = {
        "profile": ("targets", "validate", "m.toml"),
        "settings": ("plan", "m.tflite", "-t", "rpi-pico"),
        "lock": ("check", "m.tflite", "-t", "rpi-pico"),
        "report": ("compare", "m.json", "m.json"),
        "sweep": ("sweep", "run", "m.toml"),
        "graph": ("layout", "m.json"),
    }
    names = {"settings": "edgetool.toml", "lock": "edgetool.lock", "report": "m.json", "graph": "m.json"}
    for kind, arguments in texts.items():
        for number, text in enumerate((b"", b"\xff", b"[1", b"{}", b'a = 1\nname = "x"\n', b"[" * 5000)):
            yield Case(f"malformed/{kind}-{number}", arguments, {**model, names.get(kind, "m.toml"): text})


def conversion_cases() -> Iterator[Case]:
    """Yield the examples in every precision and form, and the example sweep without fine-tuning."""
    for path in sorted([*EXAMPLES.glob("*/*.h5"), *EXAMPLES.glob("*/*.keras")]):
        inputs: dict[str, Path | bytes] = {path.name: path, "c.npz": path.parent / "calibration.npz"}
        for number, more in enumerate(
            (
                ("--json",),
                ("--quantize", "int16x8"),
                ("--quantize", "float32"),
                ("--io", "float32"),
                ("--debug-quantization",),
            )
        ):
            command = ("convert", path.name, "-t", BOARDS[number], "--calibration", "c.npz", "-o", "out", *more)
            if "float32" not in more or "--io" in more:
                yield Case(f"convert/{path.stem}-{number}", command, inputs)
    spec = (
        'model = "m.h5"\ncalibration = "c.npz"\nevaluate = "e.npz"\nprecisions = ["int8"]\ntargets = ["rpi-pico"]\n'
        "[pruning]\nlevels = [0, 0.5]\n"
    )
    home = EXAMPLES / "keyword_spotting"
    files: dict[str, Path | bytes] = {"m.h5": home / "keyword_spotting.h5", "sweep.toml": spec.encode()}
    files |= {"c.npz": home / "calibration.npz", "e.npz": home / "evaluation.npz"}
    yield Case("sweep/run", ("sweep", "run", "sweep.toml"), files)
    verified: dict[str, Path | bytes] = {"m.tflite": EXAMPLES / "person_detection/person_detection.tflite"}
    yield Case("verify/person_detection", ("verify", "m.tflite", "--json"), verified)


def exemption(case: Case) -> str | None:
    """Return why only the exit code of a case is compared, if so."""
    return next((why for pattern, why in EXEMPT.items() if fnmatch.fnmatch(case.name, pattern)), None)


def differing(case: Case, base: Result, head: Result) -> list[str]:
    """Return the names of the differing results."""
    names = ["exit code"] if base.code != head.code else []
    if exemption(case) is None:
        names += [n for n in sorted(base.files.keys() | head.files.keys()) if base.files.get(n) != head.files.get(n)]
    return names


def shown(name: str, base: Result, head: Result) -> list[str]:
    """Return the first lines of a difference."""
    if name == "exit code":
        return [f"    {base.code} and {head.code}"]
    sides = [result.files.get(name) for result in (base, head)]
    if None in sides:
        return [f"    only in {'HEAD' if sides[0] is None else 'BASE'}"]
    before, after = ((side or b"").decode(errors="backslashreplace").splitlines() for side in sides)
    lines = list(difflib.unified_diff(before, after, "BASE", "HEAD", lineterm="", n=0))[2:]
    return [f"    {line[:200]}" for line in lines[:8]]


def run(base: Side, head: Side, cases: Sequence[Case], most_shown: int) -> int:
    """Run and compare all cases, and return the number of cases that differ."""
    count = skipped = 0
    for number, case in enumerate(cases):
        for side in (base, head):
            side.start(number, case)
        results = [side.result(number, case) for side in (base, head)]
        names = differing(case, *results)
        if not names:
            continue
        if any(mark in content for result in results for content in result.files.values() for mark in CUT_SHORT):
            skipped += 1
            continue
        count += 1
        if count <= most_shown:
            print(f"{case.name}: edgetool {' '.join(case.arguments)}")
            for name in names[:4]:
                print("\n".join([f"  {name}", *shown(name, *results)]), flush=True)
    exempt = sum(exemption(case) is not None for case in cases)
    print(
        f"{len(cases)} cases: {count} differ; of {exempt} only the exit code is compared; "
        f"{skipped} skipped because a search ended at its time limit"
    )
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("base", type=Path, help="directory of a git worktree with the earlier version")
    parser.add_argument("--conversions", action="store_true", help="convert Keras models, in place of stored files")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="only the cases whose name matches")
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data", help="more models and instances")
    parser.add_argument("--differences", type=int, default=20, metavar="N", help="how many to show")
    options = parser.parse_args(arguments)
    if not (options.base / "setup.py").is_file():
        parser.error(f"{options.base} is not a worktree of this project")
    every = conversion_cases() if options.conversions else stored_cases(options.data)
    cases = [case for case in every if fnmatch.fnmatch(case.name, options.only)]
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="freeze-") as folder:
        sides = [Side(tree.resolve(), Path(folder) / name) for tree, name in ((options.base, "a"), (ROOT, "b"))]
        try:
            count = run(sides[0], sides[1], cases, options.differences)
        finally:
            for side in sides:
                side.close()
    print(f"{time.monotonic() - started:.0f} s")
    return int(count > 0)


if __name__ == "__main__":
    raise SystemExit(main())
