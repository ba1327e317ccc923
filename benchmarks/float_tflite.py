"""Compares models of the zoo in int8 with the same models converted to a float .tflite first.

python -m benchmarks.float_tflite FOLDER NAME...; `python -m benchmarks.zoo.build FOLDER NAME...` writes the models.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from benchmarks.zoo.catalog import BY_NAME
from benchmarks.zoo.files import calibration

from edgetool.convert.convert import convert_model
from edgetool.convert.request import NORMALISATION, ConvertRequest
from edgetool.errors import EdgetoolError
from edgetool.pipeline.convert import convert_for
from edgetool.pipeline.quality import measure_quality
from edgetool.pipeline.targets import resolve_named

TARGET = "cortex-m7"


def converted(request: ConvertRequest, workdir: Path) -> tuple[list[str], list[float | None]]:
    """The operators of the model in int8, and the SQNR of its outputs against the file."""
    device = resolve_named(TARGET)
    assert device is not None
    made = convert_for(request, device.runtime, name=request.path.name, workdir=workdir, kernels=device.kernels)
    quality, _ = measure_quality(made.conversion, made.model, scheme="int8", workdir=workdir)
    operators = [operator.label for graph in made.model.subgraphs for operator in graph.operators]
    return operators, [output.sqnr_db for output in quality.outputs]


def compared(name: str, folder: Path) -> str:
    """A line on one model: operators and SQNR both ways, and which operators are more or fewer."""
    entry = BY_NAME[name]
    request = ConvertRequest(folder / entry.file_name, calibration=calibration(folder), **entry.options)
    kept = {option: value for option, value in entry.options.items() if option in NORMALISATION}
    with tempfile.TemporaryDirectory() as work:
        directories = [Path(work) / step for step in ("keras", "float", "tflite")]
        for directory in directories:
            directory.mkdir()
        direct, sqnr = converted(request, directories[0])
        file = Path(work) / "model.tflite"
        plain = replace(request, quantize="float32", calibration=None, **dict.fromkeys(NORMALISATION))
        file.write_bytes(convert_model(plain, workdir=directories[1]).tflite)
        again = ConvertRequest(file, quantize="int8", calibration=request.calibration, **kept)
        through, sqnr_through = converted(again, directories[2])
    change = Counter(through)
    change.subtract(direct)
    differences = " ".join(f"{code}{count:+}" for code, count in sorted(change.items()) if count) or "same operators"
    return f"{name}: {len(direct)} {_decibels(sqnr)}; {len(through)} {_decibels(sqnr_through)}; {differences}"


def _decibels(values: list[float | None]) -> str:
    return " ".join("equal" if value is None else f"{value:.1f}" for value in values) + " dB"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.float_tflite", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the models")
    parser.add_argument("names", nargs="+", metavar="NAME")
    arguments = parser.parse_args()
    for name in arguments.names:
        try:
            print(compared(name, arguments.folder / name), flush=True)
        except EdgetoolError as error:
            print(f"{name}: {error}", flush=True)


if __name__ == "__main__":
    main()
