"""Measure how far LiteRT and TensorFlow Lite Micro differ on the same model and the same random inputs.

    python benchmarks/runtimes.py MODEL.tflite... [--samples 100] [--seed 1] [--kernels reference|default]

Differences of integer outputs are in steps of the output's own scale, those of float outputs in its unit.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from edgetool import errors
from edgetool.execute.quantize import random_inputs
from edgetool.execute.run import RunEngine, run_model
from edgetool.model.reader import read_model

KERNELS: dict[str, RunEngine] = {"reference": "litert-reference", "default": "litert"}
ROW = "{:<32} {:<10} {:<8} {:>12} {:>12} {:>10}"


def rows(path: Path, samples: int, seed: int, engine: RunEngine) -> list[tuple[str, ...]]:
    """Return one row per output of the model."""
    blob = path.read_bytes()
    model = read_model(blob, name=path.name)
    inputs = random_inputs(model, samples, seed)
    found = []
    for lite, micro in zip(run_model(blob, inputs, engine=engine), run_model(blob, inputs, engine="tflm"), strict=True):
        apart = np.abs(lite.astype(np.float64) - micro.astype(np.float64))
        output = model.main.tensors[model.main.outputs[len(found)]]
        shape = "x".join(map(str, output.shape))
        found.append(
            (
                path.name if not found else "",
                shape,
                str(lite.dtype),
                f"{apart.max():.4g}",
                f"{apart.mean():.4g}",
                f"{np.mean(apart == 0):.1%}",
            )
        )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kernels", choices=KERNELS, default="reference", help="LiteRT's kernels")
    options = parser.parse_args()
    print(f"LiteRT ({options.kernels} kernels) against TFLM, {options.samples} random inputs")
    print(ROW.format("model", "output", "dtype", "largest", "mean", "equal"))
    failed = False
    for path in options.models:
        try:
            for row in rows(path, options.samples, options.seed, KERNELS[options.kernels]):
                print(ROW.format(*row))
        except (errors.EdgetoolError, OSError) as error:
            failed = True
            print(f"{path.name:<32} {error}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
