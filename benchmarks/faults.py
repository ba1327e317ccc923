"""Kill `edgetool convert`, or fill its disk, and check whether the old or the new files remain, or a mixture.

    python -m benchmarks.faults [--kills 200] [--keras 20] [--seed 0] [--no-disks]

Every run is the real command line with --force over the files of another model (six of the nine differ). A third of the
kills ends the process, a third its process group, and a third all its descendants, as the end of a container does. Half
of them occur at any time of the run, half within 0.3 s after its first file appears on disk. The directory is checked
as soon as no process writes to it any more; if all descendants were killed, after the next run has written a file
there. Prints a table; the exit status is 1 if there is a mixture, or a temporary file that the next run does not
remove.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from edgetool.pipeline.output import directory_lock, write_file

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
OLD_MODEL = EXAMPLES / "keyword_spotting" / "keyword_spotting.tflite"
NEW_MODEL = EXAMPLES / "person_detection" / "person_detection.tflite"
KERAS_MODEL = EXAMPLES / "keyword_spotting" / "keyword_spotting.h5"
FIRST_FILE_SECONDS = 0.3
FREE_KIB = (0, 4, 8, 32, 64, 128, 256, 320, 384, 448, 512, 576)
QUOTA_BYTES = 2**20
NO_OVERRIDE = (1, 2)  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: without them, permissions also apply to root
Contents = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Case:
    """One model over the files of another: the command, the old files, and the files of an uninterrupted run."""

    command: tuple[str, ...]
    old: Contents
    new: Contents
    seconds: float

    def state(self, directory: Path) -> str:
        """ "old", "new" or "mixture"."""
        found = contents(directory)
        return "old" if found == self.old else "new" if found == self.new else "mixture"


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a run: its exit code, negative for a signal; `state` of Case; its output; whether it left temporary
    files for the next run to remove, and whether that run also had to put files in place."""

    code: int
    state: str
    said: str = ""
    left: bool = False
    unfinished: bool = False


def contents(directory: Path) -> Contents:
    """Return all files of the directory; edgetool writes nothing to its subdirectories."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def fill(directory: Path, files: Contents) -> Path:
    """Create the directory again, with these files."""
    if directory.exists():
        for path in directory.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    directory.mkdir(exist_ok=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return directory


def convert(model: Path) -> tuple[str, ...]:
    """Return the command that writes to the directory `out` in the current one."""
    arguments = ("convert", str(model), "--target", "cortex-m7", "--name", "model", "-o", "out", "--force", "--quiet")
    return (sys.executable, "-m", "edgetool", *arguments)


def case(folder: Path, model: Path = NEW_MODEL) -> Case:
    """Run the command without existing files, for the model and for the previous one."""
    made: list[Contents] = []
    for each in (OLD_MODEL, model):
        began = time.monotonic()
        subprocess.run(convert(each), cwd=folder, check=True)
        made.append(contents(folder / "out"))
        shutil.rmtree(folder / "out")
    old, new = made
    if old.keys() != new.keys() or old == new:
        raise SystemExit("the two sets of files must have the same names, and differ")
    return Case(convert(model), old, new, time.monotonic() - began)


def killed(case: Case, folder: Path, chance: random.Random, whom: str) -> Ended:
    """Run it over the old files, and kill it at a random time; whom: "process", "group" or "everything"."""
    out = fill(folder / "out", case.old)
    mark = Path(tempfile.mkdtemp(prefix="mark-", dir=folder))
    process = subprocess.Popen(
        case.command,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(mark)},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if chance.random() < 0.5:
        _wait(process, chance.uniform(0, case.seconds), lambda: False)
    else:
        _wait(process, 600, lambda: _has_begun(out))
        time.sleep(chance.uniform(0, FIRST_FILE_SECONDS))
    if whom == "process":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):  # all processes have ended
            os.killpg(process.pid, signal.SIGKILL)
    if whom == "everything":
        _kill_all(mark)
    code = process.wait()
    with directory_lock(out):  # the remaining processes have ended
        state, left = case.state(out), any(out.glob(".edgetool-*"))
    write_file(out / "next", b"")
    (out / "next").unlink()
    settled = case.state(out)
    if any(out.glob(".*")):
        raise SystemExit(f"the next run did not remove {sorted(out.glob('.*'))}")
    _kill_all(mark)
    shutil.rmtree(mark)
    return Ended(code, settled if whom == "everything" else state, left=left, unfinished=settled != state)


def child_killed(case: Case, folder: Path, chance: random.Random) -> Ended:
    """Run it over the old files, and kill one of its child processes at a random time."""
    out = fill(folder / "out", case.old)
    process = subprocess.Popen(
        case.command, cwd=folder, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, errors="replace"
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    _wait(process, 600, lambda: bool(children.read_text()))
    time.sleep(chance.uniform(0, case.seconds / 2))
    with contextlib.suppress(OSError):  # it has ended
        for child in map(int, children.read_text().split()):
            os.kill(child, signal.SIGKILL)
    _, said = process.communicate()
    return Ended(process.returncode, case.state(out), said, left=any(out.glob(".*")))


def refused(case: Case, out: Path, before: Callable[[], None] | None = None) -> Ended:
    """Run it over the files in `out` to its end; before: a function that the process calls first."""
    done = subprocess.run(
        case.command, cwd=out.parent, capture_output=True, text=True, errors="replace", preexec_fn=before, check=False
    )
    found = contents(out)
    found.pop("filler", None)
    state = "old" if found == case.old else "new" if found == case.new else "mixture"
    return Ended(done.returncode, state, done.stderr, left=any(out.glob(".*")))


def small_disk(case: Case, folder: Path, free_kib: int) -> Ended | None:
    """Run on a disk of 1 MB with this much free space; return None if this user cannot mount one."""
    out = folder / "small" / "out"
    out.mkdir(parents=True, exist_ok=True)
    options = ("-t", "tmpfs", "-o", f"size={QUOTA_BYTES}", "edgetool-faults", str(out))
    if (
        not shutil.which("mount")
        or subprocess.run(["mount", *options], stderr=subprocess.DEVNULL, check=False).returncode
    ):
        return None
    try:
        fill(out, case.old)
        space = os.statvfs(out)
        (out / "filler").write_bytes(bytes(max(0, space.f_bavail * space.f_frsize - 1024 * free_kib)))
        return refused(case, out)
    finally:
        subprocess.run(["umount", str(out)], check=True)


def small_files(case: Case, folder: Path, size_bytes: int) -> Ended:
    """Run with a limit on the size of files."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    out = fill(folder / "out", case.old)
    return refused(case, out, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard)))


def read_only(case: Case, folder: Path) -> Ended:
    """Run in a directory without write permission."""
    out = fill(folder / "out", case.old)
    out.chmod(0o555)
    try:
        return refused(case, out, without_override)
    finally:
        out.chmod(0o755)


def without_override() -> None:
    """Make permissions apply to the next program of this process, even if it runs as root."""
    import ctypes

    read, drop = 23, 24  # PR_CAPBSET_READ and PR_CAPBSET_DROP of linux/prctl.h
    prctl = ctypes.CDLL(None).prctl
    for capability in NO_OVERRIDE if os.geteuid() == 0 else ():
        if prctl(read, capability, 0, 0, 0) == 1 and prctl(drop, capability, 0, 0, 0):
            raise OSError("the capabilities of root cannot be dropped")


def _wait(process: subprocess.Popen[str] | subprocess.Popen[bytes], seconds: float, until: Callable[[], bool]) -> None:
    latest = time.monotonic() + seconds
    while time.monotonic() < latest and process.poll() is None and not until():
        time.sleep(0.001)


def _has_begun(directory: Path) -> bool:
    """Return whether new files are being written; an empty directory only tests write permission before the work."""
    return any(Path(entry, "new").exists() for entry in os.scandir(directory) if entry.name.startswith(".edgetool-"))


def _kill_all(mark: Path) -> None:
    """Kill every process that uses this directory for its temporary files."""
    found = True
    while found:
        found = False
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                if f"TMPDIR={mark}".encode() in path.read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)
                    found = True


def _rows(kills: int, keras: int, seed: int, *, disks: bool) -> Iterator[tuple[str, list[Ended]]]:
    """Yield each fault with its results."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="edgetool-faults-") as name:
        folder = Path(name)
        quick = case(folder)
        if kills:
            yield from _kill_rows("a .tflite", quick, folder, chance, kills)
        if keras:
            made = case(folder, KERAS_MODEL)
            yield from _kill_rows("a Keras model", made, folder, chance, keras)
            yield (
                "SIGKILL of the child of `convert` of a Keras model",
                [child_killed(made, folder, chance) for _ in range(max(1, keras // 4))],
            )
        if disks:
            yield from _disk_rows(quick, folder)


def _disk_rows(case: Case, folder: Path) -> Iterator[tuple[str, list[Ended]]]:
    on_disks = [small_disk(case, folder, free) for free in FREE_KIB]
    yield f"a disk of 1 MB with {FREE_KIB[0]} to {FREE_KIB[-1]} KiB free", [item for item in on_disks if item]
    report_bytes = len(case.new["model.json"])
    sizes = [int(report_bytes * share) for share in (0.0, 0.1, 0.9, 1.1, 5.0, 100.0)]
    yield f"no file over {sizes[0]:,} to {sizes[-1]:,} bytes", [small_files(case, folder, size) for size in sizes]
    yield "a directory without permission to write", [read_only(case, folder)]


def _kill_rows(
    model: str, case: Case, folder: Path, chance: random.Random, count: int
) -> Iterator[tuple[str, list[Ended]]]:
    for index, whom in enumerate(("process", "group", "everything")):
        ended: list[Ended] = []
        while len(ended) < (count + 2 - index) // 3:
            item = killed(case, folder, chance, whom)
            ended += [item] if item.code < 0 or not _is_right(item) else []  # otherwise, it finished before the kill
        yield f"SIGKILL of `convert` of {model}: {whom}", ended


def _is_right(item: Ended) -> bool:
    """Return whether the set is complete; after an error without a kill, it must be the old one, without temporary
    files."""
    if item.code < 0:
        return item.state in ("old", "new")
    return item.state == ("old" if item.code else "new") and not item.left


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--keras", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-disks", action="store_true", help="only kill")
    arguments = parser.parse_args()
    print("| fault | runs | exit codes | old files | new files | mixture | temporary files left | put in place later |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    wrong = []
    for what, ended in _rows(arguments.kills, arguments.keras, arguments.seed, disks=not arguments.no_disks):
        states = Counter(item.state for item in ended)
        codes = ", ".join(f"{code} ({count})" for code, count in sorted(Counter(item.code for item in ended).items()))
        left, later = sum(item.left for item in ended), sum(item.unfinished for item in ended)
        counts = (states["old"], states["new"], states["mixture"], left, later)
        print(f"| {what} | {len(ended)} | {codes} | {' | '.join(map(str, counts))} |", flush=True)
        wrong += [item for item in ended if not _is_right(item)]
    for item in wrong:
        print(item, file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
