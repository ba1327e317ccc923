"""The child process that turns a model file into .tflite bytes; started by convert.convert_model."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgetool import child
from edgetool.convert import files
from edgetool.convert.calibration import read_evaluation, read_samples
from edgetool.convert.config_check import check_config, check_unrolled
from edgetool.convert.float_model import FloatModel
from edgetool.convert.float_run import output_shape, run_float_model
from edgetool.convert.legacy import modernise
from edgetool.convert.load_keras import import_libraries, load_keras
from edgetool.convert.load_saved_model import load_saved_model
from edgetool.convert.quality import class_indices
from edgetool.convert.samples import Array, Normalisation, SampleSet, check_varied, store
from edgetool.convert.source import Source, read_source
from edgetool.convert.synthetic import synthetic_samples
from edgetool.convert.tflite import Options, convert, order_of
from edgetool.errors import InvalidModelError, ModelError

# Reading a configuration takes milliseconds; libhdf5 can loop for ever on a damaged file.
READ_SECONDS = 20


def work(request: dict[str, Any], workdir: Path, progress: child.Progress) -> dict[str, Any]:
    """Convert as the request says; bytes and arrays go to files in workdir, the rest is returned."""
    path, trust = Path(request["path"]), bool(request["trust_model_code"])
    progress(files.READING)
    with time_limit(READ_SECONDS):
        source = read_source(path)
    integer = request["quantize"] != "float32"
    config, notes = _checked_config(source, trust, integer=integer)
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
    if integer:
        check_varied(arrays, model.specs, *_origin(request))
    # Before the long work, so that a mistake in it is told at once.
    labelled, labelled_output = _labelled(tf, request["evaluate"], model, normalisation, workdir)
    options = Options(request["quantize"], request["io_type"], bool(request["dense_per_tensor"]))
    with _located(path):
        content = convert(tf, model, arrays, options, workdir, progress)
        order = order_of(content, model)
    (workdir / files.TFLITE).write_bytes(content)
    outputs = len(model.output_names)
    if request["compare"]:
        run_float_model(tf, model, arrays, files.array_files(workdir, files.OUTPUT, outputs), progress)
    if labelled:
        stored = files.array_files(workdir, files.EVALUATION_OUTPUT, outputs)
        run_float_model(tf, model, labelled, stored, progress)
    return {
        "samples": samples.count,
        "inputs": order.inputs,
        "outputs": order.outputs,
        "input_names": (names := [model.specs[index].name for index in order.inputs]),
        "output_names": (results := [model.output_names[index] for index in order.outputs]),
        "labelled_output": labelled_output,
        "versions": {
            "python": platform.python_version(),
            "tensorflow": str(tf.__version__),
            "keras": str(keras.__version__),
        },
        "notes": [
            *notes,
            *samples.notes,
            *_order_note("takes its inputs", order.inputs, names),
            *_order_note("gives its outputs", order.outputs, results),
        ],
    }


def _order_note(verb: str, order: Sequence[int], names: Sequence[str]) -> tuple[str, ...]:
    """What to tell when the .tflite does not have the model's own order."""
    if list(order) == sorted(order):
        return ()
    return (f"the .tflite {verb} in the order {', '.join(names)}",)


def _origin(request: dict[str, Any]) -> tuple[str, str]:
    """Where the samples come from, and what to do when they do not vary."""
    if request["calibration"]:
        return request["calibration"], "give real inputs, which differ"
    return "--samples", "use more, or give real inputs with --calibration"


@contextlib.contextmanager
def _located(path: Path) -> Iterator[None]:
    """Let an error about the model that does not say where say it."""
    try:
        yield
    except ModelError as error:
        if error.where is None:
            error.where = str(path)
        raise


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
    loaded_on_trust = ("the model was loaded with --trust-model-code",) if trust else ()
    if source.config is None:
        return None, loaded_on_trust
    try:
        with _located(source.path):
            config, changes = modernise(source.config, legacy=source.legacy)
            trusted = check_config(config, source.kind, trust_model_code=trust)
            if integer:
                check_unrolled(config)
    except RecursionError as error:
        raise InvalidModelError(
            "its configuration is nested too deeply", where=str(source.path), fix="save the model again"
        ) from error
    return config, (*changes, *(trusted or loaded_on_trust))


def _samples(request: dict[str, Any], model: FloatModel) -> SampleSet:
    if request["calibration"]:
        return read_samples(Path(request["calibration"]), model.specs)
    return synthetic_samples(model.specs, model.ranges, request["samples"], request["seed"])


def _labelled(
    tf: Any, file: str | None, model: FloatModel, normalisation: Normalisation | None, workdir: Path
) -> tuple[tuple[Array, ...], int]:
    """The evaluation samples, (N, ...) per input, and the output that their labels are for; labels go to a file."""
    if file is None:
        return (), 0
    found = read_evaluation(Path(file), model.specs, model.output_names)
    stored = files.array_files(workdir, files.EVALUATION_INPUT, len(model.specs))
    arrays = store(found.samples, model.specs, normalisation, stored)
    shape = output_shape(tf, model, arrays, found.output, workdir)
    class_indices(found.labels, shape, where=file)
    np.save(workdir / files.LABELS, found.labels, allow_pickle=False)
    return arrays, found.output


if __name__ == "__main__":
    child.serve(work)
