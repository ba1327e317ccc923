"""The child's side of running generated C: on this machine with sanitizers, and on emulated cores."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

from edgetool import child, errors
from edgetool.execute.cores import BARE, FAULT, MACHINES, QEMU_FAILED, Machine

# The compilers that are looked for, in this order.
COMPILERS = ("cc", "gcc", "clang")
# The files of a program in its directory: host.c and bare.c open them.
SAMPLES, RESULTS = "samples", "results"
SOURCES = "sources"
STRICT = "-std=c99 -O1 -g -Wall -Wextra -Wpedantic -Werror".split()
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer".split()
# Shadow memory cannot be limited by the system; leaks cannot be found without ptrace, and generated code has no heap.
SANITIZER_OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0:hard_rss_limit_mb=4096", "UBSAN_OPTIONS": "print_stacktrace=0"}
MAX_LINES = 6
START = struct.Struct("<II")  # in front of the samples: their number, and the fill of the arena
CORE_FILL = 0xA5
# What a compiler prints about the code; its other errors are those of an incomplete installation.
CODE_ERROR = re.compile(r"\.[ch]:\d+:\d+: error: |undefined reference to ")


def find_compiler() -> str:
    """Return the path of the host's C compiler.

    Raises:
        MissingExtraError: There is none.
    """
    for name in COMPILERS:
        if path := shutil.which(name):
            return path
    raise errors.MissingExtraError(
        f"running generated C needs a C compiler, and none of {', '.join(COMPILERS)} is on the PATH",
        fix="install gcc or clang",
    )


def work(request: dict[str, Any], workdir: Path, progress: child.Progress) -> dict[str, Any]:
    """Compile the C files in SOURCES, and run the program on SAMPLES, here and on cores.

    It writes RESULTS.N for fill N.

    The request has the number of samples, the fills, the names of the cores, and how many samples those run. The result
    has for each core whether it wrote the same, null if it did not run, and the reason.
    """
    sources = sorted(str(path) for path in (workdir / SOURCES).glob("*.c"))
    samples, fills, part = request["samples"], request["fills"], request["core_samples"]
    _run_here(sources, samples, fills, workdir, progress)
    results = (workdir / f"{RESULTS}.{fills[0]}").read_bytes()
    expected = results[: len(results) // max(1, samples) * part]
    cores = {}
    for core in request["cores"]:
        progress(f"running the generated code on an emulated {core}")
        cores[core] = _on_core(MACHINES[core], sources, part, expected, workdir / core)
    return {"cores": cores}


def _run_here(sources: list[str], samples: int, fills: list[int], workdir: Path, progress: child.Progress) -> None:
    compiler = find_compiler()
    progress("compiling the generated code")
    command = [compiler, *STRICT, *SANITIZERS, f"-I{BARE}", str(BARE / "host.c"), *sources, "-o", "program"]
    done = _run(command, workdir)
    if done.returncode != 0:
        raise errors.ConversionError(
            f"{Path(compiler).name} cannot compile the generated code with sanitizers",
            fix="install a compiler with its sanitizer libraries; if it reports an error in the code, please report it",
            details=_first_lines(done.stderr),
        )
    progress("running the generated code")
    for fill in fills:
        _write_start(workdir / SAMPLES, samples, fill)
        done = _run(["./program"], workdir)
        if done.returncode != 0:
            raise errors.ConversionError(
                f"the generated code failed with exit status {done.returncode}",
                fix="please report this and attach the model",
                details=_first_lines(done.stderr),
            )
        (workdir / RESULTS).rename(workdir / f"{RESULTS}.{fill}")


def _on_core(
    machine: Machine, sources: list[str], samples: int, expected: bytes, folder: Path
) -> tuple[bool | None, str]:
    """Return whether the program writes the expected results on a core; None and the reason if it cannot run there."""
    if machine.missing_tools:
        return None, f"{' and '.join(machine.missing_tools)} not installed"
    folder.mkdir()
    shutil.copy(folder.parent / SAMPLES, folder / SAMPLES)
    _write_start(folder / SAMPLES, samples, CORE_FILL)
    (folder / "machine.ld").write_text(machine.script, encoding="ascii")
    program, start = folder / "program.elf", [str(path) for path in machine.start]
    done = _run(machine.link(folder / "machine.ld", [*start, *sources], program, "-std=c99", "-O2"), folder)
    if done.returncode != 0:
        if "will not fit in region" in done.stderr:
            return None, f"it does not fit on QEMU's {machine.name}"
        return False if CODE_ERROR.search(done.stderr) else None, _failure(machine.compiler, done)
    done = _run(machine.emulate(program), folder)
    if done.returncode == QEMU_FAILED or done.returncode < 0:
        return None, _failure(machine.emulator, done)
    if done.returncode != 0:
        fault = done.returncode - FAULT
        return False, f"fault {fault}" if fault >= 0 else f"it ends with exit status {done.returncode}"
    equal = (folder / RESULTS).read_bytes() == expected
    return equal, "" if equal else "other outputs than on this machine"


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd=folder,
        env={**os.environ, **SANITIZER_OPTIONS},
    )


def _write_start(path: Path, samples: int, fill: int) -> None:
    """Write the start of the samples: their number, and what the arena contains before."""
    with path.open("r+b") as file:
        file.write(START.pack(samples, fill))


def _failure(tool: str, done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stderr.splitlines() if "error" in line] or _first_lines(done.stderr)
    return f"{tool} failed: {lines[0] if lines else f'exit status {done.returncode}'}"


def _first_lines(text: str) -> tuple[str, ...]:
    lines = [line.strip() for line in text.splitlines() if line.strip(" =\n")]
    return tuple(lines[:MAX_LINES])


if __name__ == "__main__":
    child.serve(work)
