"""Test whether the tests cover each check of the .tflite reader: remove the checks one at a time, and run the reader's
tests.

    python -m benchmarks.checks [--only TEXT...] [--list] [--tests PATH...]

benchmarks.check_removals finds the checks: an `if` that ends in a refusal, each alternative in its condition, a call of
a checking function, an entry in a table of rules, a limit, an index in the schema. Prints every check whose removal no
test detects, and finally their number. The exit status is 1 if one of them is not in EQUIVALENT, or if a test detects
the removal of an entry there.

The tests run in a forked process, on a copy of the package with one module changed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.check_removals import Removal, removals

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "toolchain" / "edgetool"
# The fast tests that detect most removals come first: the run ends at the first test that fails.
TESTS = (
    "tests/attacks",
    "tests/model/test_checks.py",
    "tests/model/test_reader.py",
    "tests/model/test_rules.py",
    "tests/model/test_flexbuffer.py",
    "tests/model/test_flatbuffer.py",
)
# The tests that run first for a module's checks, by the beginning of their names; all others run only if these pass.
LIKELY = {
    "flexbuffer": ("tests/model/test_flexbuffer.py",),
    "checks": ("tests/model/test_checks.py",),
    "rules": ("tests/model/test_rules.py",),
    "schema": ("tests/model/test_checks.py",),
}
CPU_SECONDS = 60
MEMORY_BYTES = 4 * 2**30

# Checks whose removal has no effect for any file, with the reason.
EQUIVALENT = {
    "rules._input without if tensor is None": "for the type checker: the counts demand these inputs before",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """held: whether a test failed without the check. how: "failed", "died", "endless", or "passed"."""

    held: bool
    how: str
    seconds: float


def warm_up() -> None:
    """Import the modules that the tests need and that do not depend on edgetool, once for all forks."""
    for name in ("flatbuffers", "hypothesis", "numpy", "pytest"):
        importlib.import_module(name)


def judge(removal: Removal, copy: Path, tests: Sequence[str]) -> Verdict:
    """Run the tests on the package in `copy` without the check, and restore the module afterwards."""
    module = copy / "edgetool" / removal.path
    sound = module.read_text()
    module.write_text(removal.source())
    try:
        return run(copy, tests)
    finally:
        module.write_text(sound)


def run(copy: Path, tests: Sequence[str]) -> Verdict:
    """Run the tests on the package in `copy`, in a child."""
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        _run_tests(copy, tests)
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # processes that the tests have started and not ended
    code = os.waitstatus_to_exitcode(status)
    how = {0: "passed", 1: "failed", 2: "failed", 3: "died", -signal.SIGXCPU: "endless"}.get(code, "died")
    return Verdict(code != 0, how, time.monotonic() - start)


def _run_tests(copy: Path, tests: Sequence[str]) -> None:
    """Run pytest in the child to the first failure, and do not return."""
    code = 3
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        sys.path[:0] = [str(copy)]
        os.environ["PYTHONPATH"] = str(copy)
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.dont_write_bytecode = True
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        import pytest

        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--noconftest", *tests]))
    finally:
        os._exit(code)


def expand(patterns: Sequence[str]) -> list[str]:
    """Return the test files and directories that match the patterns, in their order, each once."""
    return list(dict.fromkeys(str(path) for pattern in patterns for path in sorted(ROOT.glob(pattern))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="only checks with one of these in their names")
    parser.add_argument("--list", action="store_true", help="name the checks and stop")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="tests to run, patterns below the repository")
    options = parser.parse_args()
    chosen = [removal for removal in removals(PACKAGE) if any(text in removal.name for text in options.only)]
    if options.list:
        print(*(removal.name for removal in chosen), sep="\n")
        return 0
    warm_up()
    os.chdir(ROOT)
    tests = expand(options.tests)
    with tempfile.TemporaryDirectory(prefix="edgetool-checks-") as directory:
        copy = Path(directory)
        shutil.copytree(PACKAGE, copy / "edgetool", ignore=shutil.ignore_patterns("__pycache__"))
        sound = run(copy, tests)
        if sound.held:
            print(f"the tests fail before any check is taken away: {sound.how}")
            return 2
        survivors = [removal.name for removal in chosen if not _judge_and_report(removal, copy, tests).held]
    known = [name for name in survivors if name in EQUIVALENT]
    stale = [] if any(options.only) else sorted(EQUIVALENT.keys() - set(survivors))
    print(f"{len(chosen)} checks, {len(chosen) - len(survivors)} held by a test, {len(known)} without effect")
    for name in stale:
        print(f"not among the survivors any more: {name}")
    return int(len(survivors) > len(known) or bool(stale))


def likely(removal: Removal) -> list[str]:
    """Return the tests to run first; none if all are run at once."""
    stem = Path(removal.path).stem
    return next((expand(patterns) for start, patterns in LIKELY.items() if stem.startswith(start)), [])


def _judge_and_report(removal: Removal, copy: Path, tests: Sequence[str]) -> Verdict:
    """Return the verdict, and print it unless it is the usual one."""
    first = [path for path in likely(removal) if path in tests]
    verdict = judge(removal, copy, first or tests)
    if first and not verdict.held:
        verdict = judge(removal, copy, tests)
    if not verdict.held or verdict.how != "failed":
        reason = EQUIVALENT.get(removal.name, "NO TEST FAILS") if not verdict.held else verdict.how
        print(f"{removal.name}: {reason} ({verdict.seconds:.1f} s)", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
