"""Converts every model of the zoo with edgetool and runs it on real TFLM and on LiteRT.

    python -m benchmarks.zoo [NAME...] [--update] [--jobs 2] [--keep FOLDER]

Each goes the way of `edgetool convert`, child process included, and is run with its memory plan. The exit status is 1
where a model that should run does not, loses more than int8 has to, or is refused without naming what the zoo says.
--update writes the table of docs/conversion.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.zoo.build import ROUNDED
from benchmarks.zoo.catalog import BY_NAME, ENTRIES
from benchmarks.zoo.entry import Entry
from benchmarks.zoo.page import PAGE, Row, line, markdown, totals, with_table
from benchmarks.zoo.trial import CONVERTED, try_out

from edgetool.pipeline.plan import plan_model
from edgetool.pipeline.targets import resolve_named

OTHER_TARGET = "cortex-m4"
ROOT = Path(__file__).parents[2]


def tried(entry: Entry, folder: Path) -> Row:
    """One model, converted for the Cortex-M7, with its arena for the Cortex-M4 too."""
    rounded = json.loads((folder / ROUNDED).read_text(encoding="utf-8"))
    trial = try_out(entry, folder, rounded)
    other = None
    if trial.refusal is None:
        arena = plan_model(folder / CONVERTED, resolve_named(OTHER_TARGET)).arena
        other = None if arena is None else arena.bytes
    print(line(Row(trial, other)), flush=True)
    return Row(trial, other)


def good(row: Row) -> bool:
    """Whether the model did what the zoo says."""
    trial = row.trial
    if trial.refusal is not None:
        return trial.entry.refused is not None and trial.entry.refused in trial.refusal
    return trial.entry.refused is None and all(output.good and output.like_litert for output in trial.outputs)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*BY_NAME, []])
    parser.add_argument("--update", action="store_true", help=f"write the table of {PAGE.name}")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave models and firmware there")
    options = parser.parse_args()
    if options.update and options.names:
        parser.error("--update is for the whole zoo")
    entries = [BY_NAME[name] for name in options.names] or list(ENTRIES)
    with tempfile.TemporaryDirectory(prefix="zoo-") as name:
        folder = options.keep or Path(name)
        command = [sys.executable, "-m", "benchmarks.zoo.build", str(folder), *(entry.name for entry in entries)]
        subprocess.run(command, check=True, cwd=ROOT, stdout=sys.stderr, stderr=subprocess.DEVNULL)
        with ThreadPoolExecutor(options.jobs) as pool:
            rows = list(pool.map(lambda entry: tried(entry, folder / entry.name), entries))
    print(totals(rows), end="")
    bad = [row.trial.entry.name for row in rows if not good(row)]
    if bad:
        print(f"not as the zoo says: {', '.join(bad)}")
    if options.update:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), markdown(rows)), encoding="utf-8")
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
