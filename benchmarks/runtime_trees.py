"""Add a version of a library to the tables by which `--runtime-tree` recognizes the user's checkout.

    python -m benchmarks.runtime_trees tflm tflm-2026-08 TFLM [--after tflm-2026-03]
    python -m benchmarks.runtime_trees cmsis_nn 2026-05-06-4ab83cc3cc98 CMSIS-NN
    python -m benchmarks.runtime_trees esp_nn 1.2.3-d45b843 ESP-NN

The last argument is a checkout of the version, which you provide, in the layout of the library's repository. Only
hashes of its files enter the table (targets/runtimes/files/): those in the folders below that our rules cite. The
version becomes the last column, or the one after --after; if the table has it already, its column is replaced.

A version of TFLM has the name of its profile in targets/runtimes/. That of a kernel library is its date or its number,
and the first digits of its commit.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from edgetool.target.fingerprints import (
    CMSIS_NN,
    ESP_NN,
    ESP_TFLITE_MICRO,
    KERNEL_LIBRARIES,
    TFLM,
    Fingerprints,
    Library,
    fingerprint,
    format_fingerprints,
    parse_fingerprints,
)

TABLES = Path(__file__).parents[1] / "targets" / "runtimes" / "files"
LIBRARIES = {library.table.removesuffix(".csv"): library for library in (TFLM, *KERNEL_LIBRARIES)}
# What our rules cite, and what these files call. `*` does not match `/`.
CITED = {
    TFLM: (
        "signal/micro/kernels/*",
        "signal/src/*",
        "signal/src/kiss_fft_wrappers/*",
        "tensorflow/compiler/mlir/lite/core/c/*",
        "tensorflow/compiler/mlir/lite/core/api/*",
        "tensorflow/lite/c/*",
        "tensorflow/lite/core/api/*",
        "tensorflow/lite/core/c/*",
        "tensorflow/lite/kernels/*",
        "tensorflow/lite/kernels/internal/*",
        "tensorflow/lite/kernels/internal/reference/*",
        "tensorflow/lite/kernels/internal/reference/integer_ops/*",
        "tensorflow/lite/micro/*",
        "tensorflow/lite/micro/arena_allocator/*",
        "tensorflow/lite/micro/kernels/*",
        "tensorflow/lite/micro/kernels/cmsis_nn/*",
        "tensorflow/lite/micro/memory_planner/*",
        "tensorflow/lite/micro/tflite_bridge/*",
    ),
    CMSIS_NN: ("Include/*", "Source/*/*"),
    ESP_NN: ("include/*", "src/*/*"),
    ESP_TFLITE_MICRO: ("tensorflow/lite/micro/kernels/esp_nn/*",),
}
SOURCES = re.compile(r".*\.(cc|c|h|S)")
# Tests and tools, the options of models of tests, and what every platform implements for itself.
UNCITED = re.compile(
    r"(.*_test.*|test_.*|mock_.*|fake_.*|.*_generated_data|kernel_runner|hexdump|system_setup|debug_log|micro_log"
    r"|micro_time|micro_profiler.*|compatibility|flatbuffer_utils|recording_micro_interpreter|testing.*)\.\w+"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("version")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--after", metavar="VERSION", help="the version before it in the table")
    arguments = parser.parse_args()
    library = LIBRARIES[arguments.library]
    table = TABLES / library.table
    known = Fingerprints(library, (), {})
    if table.exists():
        known = parse_fingerprints(library, table.read_text(encoding="utf-8"), where=str(table))
    contents = {
        path: fingerprint((arguments.checkout / path).read_bytes()) for path in cited_files(library, arguments.checkout)
    }
    if not any(path.startswith(f"{library.core}/") for path in contents):
        parser.error(f"{arguments.checkout} has no files in {library.core}/")
    known = with_version(known, arguments.version, contents, after=arguments.after)
    text = format_fingerprints(known)
    parse_fingerprints(library, text, where=str(table))
    table.write_text(text, encoding="utf-8")
    print(f"{table.name}: {len(contents)} files of {arguments.version}; {len(text):,} bytes")


def cited_files(library: Library, checkout: Path) -> Iterator[str]:
    """Yield the paths of the checkout's cited files."""
    for pattern in CITED[library]:
        for path in sorted(checkout.glob(pattern)):
            if path.is_file() and SOURCES.fullmatch(path.name) and not UNCITED.fullmatch(path.name):
                yield path.relative_to(checkout).as_posix()


def with_version(known: Fingerprints, version: str, contents: dict[str, str], *, after: str | None) -> Fingerprints:
    """Return the table with the files of a version, by path. Files that no version has any more are left out.

    A file that the library has moved keeps the path under which the table has its contents.
    """
    paths = {
        (Path(path).name, cell): path for path, cells in known.files.items() if path not in contents for cell in cells
    }
    contents = {paths.get((Path(path).name, cell), path): cell for path, cell in contents.items()}
    columns = {
        other: {path: cells[index] for path, cells in known.files.items()} for index, other in enumerate(known.versions)
    }
    order = [*known.versions] if version in columns else [*known.versions, version]
    if after is not None:
        order.remove(version)
        order.insert(order.index(after) + 1, version)
    columns[version] = contents
    files = {
        path: cells
        for path in sorted({*known.files, *contents})
        if any(cells := tuple(columns[other].get(path) for other in order))
    }
    return Fingerprints(known.library, tuple(order), files)


if __name__ == "__main__":
    main()
