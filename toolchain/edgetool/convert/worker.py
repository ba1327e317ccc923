"""The child process that turns a model file into .tflite bytes; started by convert.convert_model."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edgetool import child
from edgetool.convert import files
from edgetool.convert.calibration import read_evaluation, read_samples
from edgetool.convert.config_check import check_config, check_unrolled
from edgetool.convert.float_model import FloatModel
from edgetool.convert.float_run import run_float_model
from edgetool.convert.legacy import modernise
from edgetool.convert.load_keras import import_libraries, load_keras
from edgetool.convert.load_saved_model import load_saved_model
from edgetool.convert.samples import Normalisation, SampleSet, store
from edgetool.convert.source import Source, read_source
from edgetool.convert.synthetic import synthetic_samples
from edgetool.convert.tflite import Options, convert, order_of
from edgetool.errors import EdgetoolError, InvalidModelError

# Reading a configuration takes milliseconds; libhdf5 can loop for ever on a damaged file.
READ_SECONDS = 20


def work(request: dict[str, Any], workdir: Path, progress: child.Progress) -> dict[str, Any]:
    """Convert as the request says; bytes and arrays go to files in workdir, the rest is returned."""
    path, trust = Path(request["path"]), bool(request["trust_model_code"])
    progress(files.READING)
    with time_limit(READ_SECONDS):
        source = read_source(path)
    config, notes = _checked_config(source, trust, integer=request["quantize"] != "float32")
    progress("loading TensorFlow")
    warnings.simplefilter("ignore")  # in the log they would push out what the user needs to see
    os.environ["KERAS_HOME"] = str(workdir)  # the user's keras.json neither changes the result nor is written
    tf, keras = import_libraries()
    progress("loading the model")
    if config is None:
        model = load_saved_model(tf, path, trust_model_code=trust)
    else:
        model = load_keras(keras, source, config, workdir, trust_model_code=trust)
    progress("reading the samples")
    normalisation = Normalisation.of(*(request[name] for name in ("mean", "std", "scale", "offset")))
    samples = _samples(request, model)
    applied = normalisation if request["calibration"] else None
    inputs = len(model.specs)
    arrays = store(samples, model.specs, applied, files.array_files(workdir, files.INPUT, inputs))
    labelled = None
    if request["evaluate"]:
        # Before the long work, so that a mistake in it is told at once.
        evaluation, labels = read_evaluation(Path(request["evaluate"]), model.specs)
        np.save(workdir / files.LABELS, labels, allow_pickle=False)
        stored = files.array_files(workdir, files.EVALUATION_INPUT, inputs)
        labelled = store(evaluation, model.specs, normalisation, stored)
    options = Options(request["quantize"], request["io_type"], bool(request["dense_per_tensor"]))
    content = convert(tf, model, arrays, options, workdir, progress)
    order = order_of(content, model)
    (workdir / files.TFLITE).write_bytes(content)
    outputs = len(model.output_names)
    if request["compare"]:
        run_float_model(tf, model, arrays, files.array_files(workdir, files.OUTPUT, outputs), progress)
    if labelled is not None:
        stored = files.array_files(workdir, files.EVALUATION_OUTPUT, outputs)
        run_float_model(tf, model, labelled, stored, progress)
    return {
        "samples": samples.count,
        "inputs": order.inputs,
        "outputs": order.outputs,
        "versions": {
            "python": platform.python_version(),
            "tensorflow": str(tf.__version__),
            "keras": str(keras.__version__),
        },
        "notes": [*notes, *samples.notes],
    }


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Let the kernel end this process when the block takes longer: no Python code runs inside a C loop."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)
    yield
    if hasattr(signal, "alarm"):
        signal.alarm(0)


def _checked_config(source: Source, trust: bool, *, integer: bool) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """The configuration that Keras is to load, checked, and notes; None for a SavedModel, which has none."""
    if source.config is None:
        return None, ()
    try:
        config, changes = modernise(source.config, legacy=source.legacy)
        trusted = check_config(config, source.kind, trust_model_code=trust)
        if integer:
            check_unrolled(config)
    except RecursionError as error:
        raise InvalidModelError(
            "its configuration is nested too deeply", where=str(source.path), fix="save the model again"
        ) from error
    except EdgetoolError as error:
        if error.where is None:
            error.where = str(source.path)
        raise
    return config, (*changes, *trusted)


def _samples(request: dict[str, Any], model: FloatModel) -> SampleSet:
    if request["calibration"]:
        return read_samples(Path(request["calibration"]), model.specs)
    return synthetic_samples(model.specs, model.ranges, request["samples"], request["seed"])


if __name__ == "__main__":
    child.serve(work)
