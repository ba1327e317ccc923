"""Writes models of the zoo into a folder, with what int8 allows: python -m benchmarks.zoo.build FOLDER [NAME...].

A process of its own, so that whoever tries the conversion has no TensorFlow loaded, as a user has none.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

ROUNDED = "rounded.json"


def build_all(folder: Path, names: list[str]) -> None:
    """One folder per model below `folder`."""
    from benchmarks.zoo.catalog import BY_NAME
    from benchmarks.zoo.files import write
    from benchmarks.zoo.rounding import rounded_sqnr

    for name in names or BY_NAME:
        rounded = rounded_sqnr(write(BY_NAME[name], folder / name))
        (folder / name / ROUNDED).write_text(json.dumps(rounded), encoding="utf-8")
        print(f"built {name}", flush=True)


if __name__ == "__main__":
    os.environ.update(KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    warnings.simplefilter("ignore")
    build_all(Path(sys.argv[1]), sys.argv[2:])
