"""Measure the flash of firmware.

    python -m benchmarks.flash registrations MODEL... --tflm CHECKOUT --library LIBRARY --library-flags TEXT
        [--third-party FOLDER] [--into CSV]
    python -m benchmarks.flash sets --core CORE --libraries FOLDER --tflm CHECKOUT --flags TEXT [--third-party FOLDER]
    python -m benchmarks.flash linked --core CORE --libraries FOLDER --tflm CHECKOUT --count N [--third-party FOLDER]
        [--into CSV] [MODEL...]
    python -m benchmarks.flash versions --libraries FOLDER --flags TEXT [MODEL...]

registrations: models with and without type-specific kernels of CMSIS-NN, on a Cortex-M7.
sets: which code each registration keeps, written to targets/runtimes/code.
linked: programs with N random sets of registrations, and those of models, linked and compared with these tables.
versions: the size with other versions of TFLM, of libraries for a Cortex-M7 named RUNTIME-KERNELS.a, compiled alike.

CHECKOUT is TFLM at the commit of the default runtime, and LIBRARY the libtensorflow-microlite.a that is built there:

    make -f tensorflow/lite/micro/tools/make/Makefile TARGET=cortex_m_generic TARGET_ARCH=cortex-m7+fp \\
        BUILD_TYPE=release_with_logs OPTIMIZED_KERNEL_DIR=cmsis_nn microlite

without debug_log.o, because log.cc is the log. --libraries contains reference-O2.a, reference-Os.a, cmsis-nn-O2.a and
cmsis-nn-Os.a, by the kernels and their optimization. --third-party contains flatbuffers, gemmlowp and ruy; by default,
it is the folder to which the Makefile downloads them. Requires the GNU toolchain for Arm; registrations also
qemu-system-arm and TFLM's Python package.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.flash import linked, measure, versions
from benchmarks.flash.program import C_LIBRARIES, PREFIX, Sources, firmware, output
from benchmarks.flash.sets import code_rows, merged, registrations_of, with_symbols

from edgetool.target.code_sizes import CodeBuild, CodeSizes, format_code_sizes, load_code_sizes
from edgetool.target.load import DEFAULT_RUNTIME, load_runtime
from edgetool.target.types import CLibrary, Kernels, Optimization, Runtime

CODE = Path(__file__).parents[2] / "targets" / "runtimes" / "code"
KERNELS: tuple[Kernels, ...] = ("reference", "cmsis-nn")
OPTIMIZATIONS: tuple[Optimization, ...] = ("O2", "Os")
LIBRARIES: tuple[CLibrary, ...] = tuple(C_LIBRARIES)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    registrations = commands.add_parser("registrations")
    registrations.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    registrations.add_argument("--library", required=True, type=Path)
    registrations.add_argument("--library-flags", required=True, metavar="TEXT", help="how it was compiled")
    registrations.add_argument("--into", default=measure.MEASURED, type=Path, metavar="CSV")
    sets = commands.add_parser("sets")
    sets.add_argument("--flags", required=True, metavar="TEXT", help="how the libraries were compiled")
    against = commands.add_parser("linked")
    against.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    against.add_argument("--count", required=True, type=int, metavar="N", help="random sets for each build")
    against.add_argument("--into", default=linked.MEASURED, type=Path, metavar="CSV")
    others = commands.add_parser("versions")
    others.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    others.add_argument("--flags", required=True, metavar="TEXT", help="how the libraries were compiled")
    for command in (sets, against):
        command.add_argument("--core", required=True)
    for command in (sets, against, others):
        command.add_argument("--libraries", required=True, type=Path, metavar="FOLDER")
    for command in (registrations, sets, against):
        command.add_argument("--tflm", required=True, type=Path, metavar="CHECKOUT")
        command.add_argument("--third-party", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    if options.command == "versions":
        return _versions(options)
    downloads = options.third_party or options.tflm / "tensorflow/lite/micro/tools/make/downloads"
    sources = Sources(options.tflm.resolve(), downloads.resolve())
    runtime = load_runtime(DEFAULT_RUNTIME)
    if options.command == "registrations":
        return _registrations(options, sources, runtime)
    return _sets(options, sources, runtime) if options.command == "sets" else _linked(options, sources)


def _registrations(options: argparse.Namespace, sources: Sources, runtime: Runtime) -> int:
    if (commit := output(["git", "-C", str(sources.tflm), "rev-parse", "HEAD"])) != runtime.tflm_commit:
        raise SystemExit(f"--tflm is at {commit}, but {runtime.name} is {runtime.tflm_commit}")
    rows = []
    for path in options.models:
        for row in measure.measure(path, sources, options.library.resolve()):
            print(f"{row.model:28} {row.registrations:8} {row.flash_bytes:8} bytes, outputs {row.outputs}", flush=True)
            rows.append(row)
    measure.write(options.into, measure.conditions(commit, runtime.cmsis_nn_commit, options.library_flags), rows)
    return int(any(row.outputs != "equal" for row in rows))


def _sets(options: argparse.Namespace, sources: Sources, runtime: Runtime) -> int:
    known = registrations_of(runtime)
    columns = []
    for kernels in KERNELS:
        with tempfile.TemporaryDirectory() as name:
            build = firmware(linked.BASE, options.core, kernels, sources, Path(name))
            for optimization in OPTIMIZATIONS:
                library = (options.libraries / f"{kernels}-{optimization}.a").resolve()
                known = with_symbols(build, library, known)
                for c_library in LIBRARIES:
                    rows = code_rows(build, library, c_library, known)
                    columns.append((str(CodeBuild(kernels, optimization, c_library)), rows))
    conditions = {
        "tflm": runtime.tflm_commit,
        "cmsis-nn": runtime.cmsis_nn_commit,
        "core": options.core,
        "compiler": f"arm-none-eabi-gcc {output([f'{PREFIX}gcc', '-dumpfullversion'])}",
        "cpu": " ".join(build.cpu),
        "libraries": options.flags,
    }
    sizes = CodeSizes(tuple(known), tuple(name for name, _ in columns), tuple(merged(columns)), conditions)
    registrations, table = format_code_sizes(sizes)
    (CODE / f"{runtime.name}.csv").write_text(registrations, encoding="ascii")
    (CODE / f"{runtime.name}.{options.core}.csv").write_text(table, encoding="ascii")
    return 0


def _versions(options: argparse.Namespace) -> int:
    sizes = load_code_sizes(DEFAULT_RUNTIME, versions.CORE)
    assert sizes is not None
    rows = [row for kernels in KERNELS for row in versions.factors(options.libraries, kernels, sizes, options.models)]
    versions.write(CODE / "versions.csv", f"{versions.CORE}; {options.flags}", rows)
    return 0


def _linked(options: argparse.Namespace, sources: Sources) -> int:
    sizes = load_code_sizes(DEFAULT_RUNTIME, options.core)
    assert sizes is not None
    rows = linked.measure(sizes, options.core, sources, options.libraries, options.count, options.models)
    linked.write(options.into, sizes, rows)
    worst = max(rows, key=lambda row: abs(row.error))
    counted = max(rows, key=lambda row: abs(row.library_error))
    print(f"{len(rows)} programs, largest error {100 * worst.error:.2f} % ({worst}),")
    print(f"counted in the library {100 * counted.library_error:.2f} % ({counted})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
