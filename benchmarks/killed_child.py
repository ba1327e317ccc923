"""Kill the child of `edgetool convert` at random times: `python -m benchmarks.killed_child [--kills N] [--seed N]`.

Each time, the output directory, which contained old files, and the directory for temporary files are checked: the files
must be either all old or all new, and no temporary file may remain. The exit status is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "keyword_spotting" / "keyword_spotting.h5"
Files = dict[str, str]


def main() -> int:
    """Measure an undisturbed conversion, then kill repeatedly, and print the number of each result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    found: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as name:
        out, temporary = Path(name) / "out", Path(name) / "temporary"
        out.mkdir()
        temporary.mkdir()
        started = time.monotonic()
        _, code = converted(out, temporary, None)
        assert code == 0, "the example does not convert"
        seconds = time.monotonic() - started
        new = contents(out)
        for _ in range(asked.kills):
            old = {file: f"{chance.random()}" for file in new}
            for file, text in old.items():
                (out / file).write_text(text, encoding="utf-8")
            killed, code = converted(out, temporary, chance.uniform(0, seconds))
            found[verdict(contents(out), hashes(old), new, code, killed=killed)] += 1
            found["left temporary files"] += bool(list(temporary.iterdir()))
    for what, count in sorted(found.items()):
        print(f"{count:4}  {what}")
    return int(bool(found["A MIXTURE"] or found["left temporary files"] or found["A LIE"]))


def converted(out: Path, temporary: Path, kill_after: float | None) -> tuple[bool, int]:
    """Return whether the child was killed before it finished, and the exit code of the command."""
    process = subprocess.Popen(
        [sys.executable, "-m", "edgetool", "convert", str(EXAMPLE), "-t", "cortex-m4", "-o", str(out), "--force"],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    killed = False
    if kill_after is not None:
        until = time.monotonic() + kill_after
        pid = 0
        while process.poll() is None and (not pid or time.monotonic() < until):
            pid = pid or child_of(process)
            time.sleep(0.005)
        if pid and child_of(process) == pid:
            os.kill(pid, signal.SIGKILL)
            killed = True
    return killed, process.wait()


def child_of(process: subprocess.Popen[bytes]) -> int:
    """Return the id of the converting process; 0 if there is none yet or any more."""
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()
    except OSError:
        return 0
    return int(children[0]) if children else 0


def contents(folder: Path) -> Files:
    """Return the hash of each file."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def hashes(texts: Files) -> Files:
    """Return the same for texts."""
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}


def verdict(there: Files, old: Files, new: Files, code: int, *, killed: bool) -> str:
    """Return the state of the files, and whether the exit code matches it."""
    if there not in (old, new):
        return "A MIXTURE"
    if (code == 0) != (there == new):
        return "A LIE"
    return f"{'old' if there == old else 'new'} files, {'killed' if killed else 'done before'}, exit code {code}"


if __name__ == "__main__":
    sys.exit(main())
