"""The same judgement, driven by coverage: atheris (libFuzzer) keeps what reaches new code and goes on from there.

    pip install atheris            # has wheels for Linux and CPython 3.11 to 3.13
    python -m benchmarks.fuzz.coverage_guided [--runs 100000] [--corpus build/fuzz-corpus]

Half of the changes are ours to the tables of a file, the others libFuzzer's to its bytes. A breach ends the run with
its traceback, and its file is kept beside the corpus. The exit status is then not 0.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[2]

with atheris.instrument_imports(include=["edgetool"]):
    from benchmarks.fuzz.inputs import inputs
    from benchmarks.fuzz.judge import judge, way_of
    from tests.model.structural_mutants import restructured

    from edgetool.errors import ModelError
    from edgetool.model.flatbuffer import read_root

LONGEST_BYTES = 65_536
SLOWEST_SECONDS = 5  # of the clock, with the instrumentation, which makes everything several times as slow
MAX_MEGABYTES = 1_024


def mutated(data: bytes, longest: int, seed: int) -> bytes:
    """Another file: its tables changed where it has any, else its bytes."""
    generator = random.Random(seed)
    if generator.random() < 0.5:
        try:
            changed = restructured(read_root(data, "Model", "input")[0], generator)
        except (ModelError, KeyError):  # no file whose tables could be changed
            changed = b""
        if 0 < len(changed) <= longest:
            return changed
    return bytes(atheris.Mutate(data, longest))


def one(data: bytes) -> None:
    """What libFuzzer calls; the way follows from the bytes, so that a file alone repeats it."""
    judge(data, way_of(len(data) + sum(data[:64])))


def main() -> None:
    """Fill the corpus with the sound files that are small, and hand over to libFuzzer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--corpus", type=Path, default=ROOT / "build" / "fuzz-corpus")
    given = parser.parse_args()
    given.corpus.mkdir(parents=True, exist_ok=True)
    for seed in inputs().seeds:
        if len(seed.blob) <= LONGEST_BYTES // 4:
            (given.corpus / f"{seed.name.replace('/', '-')}.seed").write_bytes(seed.blob)
    arguments = [
        sys.argv[0],
        f"-runs={given.runs}",
        f"-max_len={LONGEST_BYTES}",
        f"-timeout={SLOWEST_SECONDS}",
        f"-rss_limit_mb={MAX_MEGABYTES}",
        f"-artifact_prefix={given.corpus}/breach-",
        str(given.corpus),
    ]
    atheris.Setup(arguments, one, custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
