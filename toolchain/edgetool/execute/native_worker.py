"""The child's side of running generated C: compile it with sanitizers, and run it on the samples."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from edgetool import child, errors

# The compilers that are looked for, in this order.
COMPILERS = ("cc", "gcc", "clang")
PROGRAM, SAMPLES, RESULTS, SOURCES = "program", "samples.bin", "results.bin", "sources"
STRICT = "-std=c99 -O1 -g -Wall -Wextra -Wpedantic -Werror".split()
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer".split()
# Shadow memory cannot be limited by the system; leaks cannot be found without ptrace, and generated code has no heap.
SANITIZER_OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0:hard_rss_limit_mb=4096", "UBSAN_OPTIONS": "print_stacktrace=0"}
MAX_LINES = 6


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
    """Compile the C files in SOURCES and run the program on SAMPLES; it writes RESULTS.

    The result has the compiler's name.
    """
    compiler = find_compiler()
    progress("compiling the generated code")
    sources = sorted(str(path) for path in (workdir / SOURCES).glob("*.c"))
    command = [compiler, *STRICT, *SANITIZERS, *sources, "-o", str(workdir / PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, cwd=workdir)
    if done.returncode != 0:
        raise errors.ConversionError(
            f"{Path(compiler).name} cannot compile the generated code with sanitizers",
            fix="install a compiler with its sanitizer libraries; if it reports an error in the code, please report it",
            details=_first_lines(done.stderr),
        )
    progress("running the generated code")
    for fill in request["fills"]:
        arguments = [str(workdir / name) for name in (PROGRAM, SAMPLES, f"{RESULTS}.{fill}")]
        done = subprocess.run(
            [*arguments, str(fill)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd=workdir,
            env={**os.environ, **SANITIZER_OPTIONS},
        )
        if done.returncode != 0:
            raise errors.ConversionError(
                f"the generated code failed with exit status {done.returncode}",
                fix="please report this and attach the model",
                details=_first_lines(done.stderr),
            )
    return {"compiler": Path(compiler).name}


def _first_lines(text: str) -> tuple[str, ...]:
    lines = [line.strip() for line in text.splitlines() if line.strip(" =\n")]
    return tuple(lines[:MAX_LINES])


if __name__ == "__main__":
    child.serve(work)
