"""Measure the flash of the emitted firmware of models with and without type-specific kernels of CMSIS-NN.

    python -m benchmarks.flash MODEL... --tflm CHECKOUT --library LIBRARY --library-flags TEXT
        [--third-party FOLDER] [--into CSV]

CHECKOUT is TFLM at the commit of the default runtime, and LIBRARY the libtensorflow-microlite.a that is built there:

    make -f tensorflow/lite/micro/tools/make/Makefile TARGET=cortex_m_generic TARGET_ARCH=cortex-m7+fp \\
        BUILD_TYPE=release_with_logs OPTIMIZED_KERNEL_DIR=cmsis_nn microlite

FOLDER contains flatbuffers, gemmlowp and ruy; by default, it is the folder to which the Makefile downloads them.
Requires the GNU toolchain for Arm, qemu-system-arm and TFLM's Python package.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.flash.measure import MEASURED, Tflm, conditions, measure, write

from edgetool.target.load import DEFAULT_RUNTIME, load_runtime


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--tflm", required=True, type=Path, metavar="CHECKOUT")
    parser.add_argument("--library", required=True, type=Path)
    parser.add_argument("--library-flags", required=True, metavar="TEXT", help="how it was compiled, for the table")
    parser.add_argument("--third-party", type=Path, metavar="FOLDER")
    parser.add_argument("--into", default=MEASURED, type=Path, metavar="CSV")
    options = parser.parse_args()
    downloads = options.third_party or options.tflm / "tensorflow/lite/micro/tools/make/downloads"
    tflm = Tflm(options.tflm.resolve(), downloads.resolve(), options.library.resolve())
    runtime = load_runtime(DEFAULT_RUNTIME)
    if (commit := tflm.commit()) != runtime.tflm_commit:
        parser.error(f"--tflm is at {commit}, but {runtime.name} is {runtime.tflm_commit}")
    rows = []
    for path in options.models:
        for row in measure(path, tflm):
            print(f"{row.model:28} {row.registrations:8} {row.flash_bytes:8} bytes, outputs {row.outputs}", flush=True)
            rows.append(row)
    write(options.into, conditions(commit, runtime.cmsis_nn_commit, options.library_flags), rows)
    return int(any(row.outputs != "equal" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
