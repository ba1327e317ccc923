"""Compare edgetool with the bare TFLiteConverter in converting a Keras file to int8, as whole processes.

    python benchmarks/conversion.py [MODEL.h5...] [--rounds 5] [--samples 100]

Without a model, the models in ../shared are converted, or the example if that directory does not exist.

Both start a new Python process, import their packages, load the model, calibrate on the same samples and write the
.tflite. They take turns, so that other work on the machine slows both. edgetool may take 10 % + 0.3 s longer than the
bare converter; otherwise, the exit status is 1. If Keras alone cannot load a file, the bare converter receives a copy
that it can load.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ALLOWED_RATIO = 1.10
ALLOWED_SECONDS = 0.3
ROOT = Path(__file__).resolve().parents[1]
ROW = "{:<24} {:>9} {:>11} {:>8} {:>11}"

BARE = """
import sys
import numpy as np
import tensorflow as tf
import keras
model = keras.models.load_model(sys.argv[1], compile=False)
samples = np.load(sys.argv[2])
converter = tf.lite.TFLiteConverter.from_keras_model(model)
converter.optimizations = [tf.lite.Optimize.DEFAULT]
converter.representative_dataset = lambda: ([samples[i : i + 1]] for i in range(len(samples)))
converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
converter.inference_input_type = converter.inference_output_type = tf.int8
open(sys.argv[3], "wb").write(converter.convert())
"""

OURS = """
import sys, tempfile
from pathlib import Path
from edgetool.convert.convert import convert_model
from edgetool.convert.request import ConvertRequest
path, data, out = map(Path, sys.argv[1:])
with tempfile.TemporaryDirectory() as folder:
    conversion = convert_model(ConvertRequest(path, calibration=data, compare=False), workdir=Path(folder))
    out.write_bytes(conversion.tflite)
"""

# Prepares a file that Keras can load, and samples in the model's input shape.
PREPARE = """
import sys, json, shutil
import h5py, keras
import numpy as np
from edgetool.convert.legacy import modernise
from edgetool.convert.source import read_source
from pathlib import Path
source = read_source(Path(sys.argv[1]))
shutil.copyfile(source.path, sys.argv[2])
if source.kind == "h5":
    config, _ = modernise(source.config, legacy=source.legacy)
    with h5py.File(sys.argv[2], "r+") as file:
        file.attrs["model_config"] = json.dumps(config)
shape = keras.models.load_model(sys.argv[2], compile=False).input_shape[1:]
np.save(sys.argv[3], np.random.default_rng(0).uniform(-1, 1, (int(sys.argv[4]), *shape)).astype("float32"))
"""


def default_models() -> list[Path]:
    real = sorted((ROOT.parent / "shared/data/models/mlperf").glob("*.h5"))
    return real or [ROOT / "examples/keyword_spotting/keyword_spotting.h5"]


def seconds(script: str, *arguments: Path) -> float:
    """Return the wall time of a whole process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", script, *map(str, arguments)], check=True, capture_output=True)
    return time.perf_counter() - start


def compare(path: Path, rounds: int, samples: int) -> tuple[float, float, float]:
    """Return the median seconds of the bare converter and of edgetool, and the median of their ratios by round."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy, data = folder / f"copy{path.suffix}", folder / "samples.npy"
        arguments = [str(path), str(copy), str(data), str(samples)]
        subprocess.run([sys.executable, "-c", PREPARE, *arguments], check=True, capture_output=True)
        times = []
        for number in range(rounds + 1):
            bare = seconds(BARE, copy, data, folder / "bare.tflite")
            ours = seconds(OURS, path, data, folder / "ours.tflite")
            if number:  # the first round warms the file cache
                times.append((bare, ours))
    bares, own = np.array(times).T
    return statistics.median(bares), statistics.median(own), statistics.median(own / bares)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=100)
    options = parser.parse_args()
    print(ROW.format("model", "bare s", "edgetool s", "ratio", "allowed s"))
    failed = False
    for path in options.models or default_models():
        bare, ours, ratio = compare(path, options.rounds, options.samples)
        allowed = bare * ALLOWED_RATIO + ALLOWED_SECONDS
        failed |= ours > allowed
        print(ROW.format(path.name, f"{bare:.2f}", f"{ours:.2f}", f"{ratio:.3f}", f"{allowed:.2f}"), flush=True)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
