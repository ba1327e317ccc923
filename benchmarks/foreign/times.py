"""Compares the CPU time of a conversion to int8 with that of its importer alone, each as whole processes.

Of PyTorch programs, LiteRT Torch loads and imports the program to a float .tflite. Of ONNX models, the importer is
edgetool's own (load_onnx.py). Both run alternately; what else the machine does only adds to a CPU time, so the smallest
counts.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.foreign.trial import DOORS

TIMES = Path(__file__).with_name("times.csv")
RUNS = 3

IMPORTERS = {
    "pytorch": """
import sys, torch, litert_torch
torch.set_num_threads(1)
program = torch.export.load(sys.argv[1])
litert_torch.convert(program.module(), program.example_inputs[0]).model_content()
""",
    "onnx": """
import sys, tempfile
from pathlib import Path
import tensorflow as tf
from edgetool.convert.load_onnx import import_onnx
from edgetool.convert.onnx_file import read_onnx
path = Path(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    import_onnx(tf, read_onnx(path), path, (), Path(folder), lambda step: None)
""",
}

CONVERSION = """
import sys, tempfile
from pathlib import Path
from edgetool.convert.convert import convert_model
from edgetool.convert.request import ConvertRequest
model, samples = map(Path, sys.argv[1:])
with tempfile.TemporaryDirectory() as folder:
    convert_model(ConvertRequest(model, calibration=samples, compare=False), workdir=Path(folder))
"""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of CPU time (user and system) of the importer and of the conversion."""

    network: str
    door: str
    importer: float
    conversion: float


def measure(name: str, door: str, folder: Path) -> Times:
    """Return the smallest times of RUNS runs."""
    model, samples = (folder / f"{name}{suffix}" for suffix in DOORS[door])
    runs = [(_seconds(IMPORTERS[door], model), _seconds(CONVERSION, model, samples)) for _ in range(RUNS)]
    importer, conversion = (min(seconds) for seconds in zip(*runs, strict=True))
    return Times(name, door, importer, conversion)


def _seconds(script: str, *arguments: Path) -> float:
    before = _spent()
    subprocess.run([sys.executable, "-c", script, *map(str, arguments)], check=True, capture_output=True)
    return round(_spent() - before, 1)


def _spent() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
