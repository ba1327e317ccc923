"""The .tflite of a network, converted once into a folder."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from edgetool.convert.convert import convert_model
from edgetool.convert.request import ConvertRequest

# Synthetic ones: few, since calibrating a large network takes its time and no figure here depends on it.
SAMPLES = 2


def network_file(name: str, folder: Path) -> Path:
    """The int8 file of the network in `folder`, built and converted by edgetool if it is not there."""
    path = folder / f"{name}.tflite"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_converted(name))
    return path


def _converted(name: str) -> bytes:
    with tempfile.TemporaryDirectory() as temporary:
        workdir = Path(temporary)
        model, converting = workdir / f"{name}.keras", workdir / "converting"
        converting.mkdir()
        subprocess.run([sys.executable, "-m", "benchmarks.networks.build", name, str(model)], check=True)
        request = ConvertRequest(model, samples=SAMPLES, compare=False)
        return convert_model(request, workdir=converting).tflite
