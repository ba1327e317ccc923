"""The child process that builds a model, or prunes and trains it; started by train.training.

A builder is a function in the user's code, which runs only if it is trusted. The model is written as a .keras file
whose bytes depend only on the model.

A model is trained on labelled samples, reproducibly. The loss follows from an output and its labels, unless the user
names one. The data is an .npz of inputs and, usually, of the expected outputs.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from edgetool import child
from edgetool.convert.calibration import find_labels, from_arrays
from edgetool.convert.float_model import FloatModel, explain_keras_error
from edgetool.convert.keras_model import float_model, pack_inputs
from edgetool.convert.load_keras import (
    checked_config,
    library_versions,
    load_keras_model,
    name_file_in_errors,
    start_keras,
)
from edgetool.convert.numpy_files import load_npz
from edgetool.convert.request import READING_STEP
from edgetool.convert.samples import Array, InputSpec, Normalisation, SampleSet, prepare_sample
from edgetool.convert.source import read_model_file
from edgetool.convert.user_code import UserFiles, import_file, name_lines_in_errors
from edgetool.errors import CalibrationError, ConversionError, OutputError, UnsupportedModelError, UsageError
from edgetool.train.pruning import prune
from edgetool.train.training import FineTuneRequest, fine_tune_request

SPARSE = "sparse_categorical_crossentropy"
CATEGORICAL = "categorical_crossentropy"
BINARY = "binary_crossentropy"
SQUARED_ERROR = "mean_squared_error"
# Activations after which values are probabilities and not logits.
PROBABILITIES = frozenset(["softmax", "sigmoid"])
ROW_SUM_TOLERANCE = 1e-3
# Members of keras.losses that are not losses.
NOT_LOSSES = frozenset(["get", "serialize", "deserialize"])
# Layers whose output has the values of their input.
PASS_THROUGH = ("Reshape", "Flatten", "Identity", "Dropout", "ActivityRegularization")


@dataclass(frozen=True, slots=True)
class LossChoice:
    """A loss and its targets.

    name: the name of a Keras loss. from_logits: whether the output is before its softmax or sigmoid, if the loss has
    it. targets: class indices, or numbers of the output's shape.
    """

    name: str
    from_logits: bool
    targets: Array


def loss_by_rule(targets: Array, shape: tuple[int | None, ...], activation: str, where: str) -> LossChoice:
    """Choose the loss for targets (N, ...) of an output of this shape (without batch) after this activation.

    Class indices: sparse categorical cross-entropy. Rows of class probabilities: categorical. 0 and 1, or a sigmoid:
    binary. Other numbers: mean squared error. Raises CalibrationError at `where` if they do not fit the output.
    """
    logits = activation not in PROBABILITIES
    whole = targets.dtype.kind in "iub"
    numbers = _as_numbers(targets, shape)
    if numbers is None:
        return LossChoice(SPARSE, logits, class_targets(targets, shape, where))
    in_range = bool((numbers >= 0).all() and (numbers <= 1).all())
    if activation == "sigmoid":
        if whole and not in_range:
            raise CalibrationError(
                "y has labels outside the range 0 to 1", where=where, fix="use 0 or 1 for a sigmoid output"
            )
        return LossChoice(BINARY if in_range else SQUARED_ERROR, False, numbers)
    if numbers[0].size == 1:
        return LossChoice(BINARY if whole and in_range and activation == "linear" else SQUARED_ERROR, logits, numbers)
    rows = in_range and bool((np.abs(numbers.sum(axis=-1) - 1) < ROW_SUM_TOLERANCE).all())
    return LossChoice(CATEGORICAL if rows and activation in ("softmax", "linear") else SQUARED_ERROR, logits, numbers)


def loss_by_name(name: str, targets: Array, shape: tuple[int | None, ...], activation: str, where: str) -> LossChoice:
    """Return the named loss, with targets in its form. Raises CalibrationError if they do not fit."""
    if name.lower().startswith("sparse"):
        class_or_numbers = class_targets(targets, shape, where)
    else:
        numbers = _as_numbers(targets, shape)
        if numbers is None:
            raise CalibrationError(
                f"has labels of shape {targets.shape}, but loss {name} requires {_text(shape)} per sample",
                where=where,
                fix=f"provide labels in the output's shape, or use {SPARSE}",
            )
        class_or_numbers = numbers
    return LossChoice(name, activation not in PROBABILITIES, class_or_numbers)


def check_loss_name(keras: Any, name: str) -> None:
    """Raise UsageError, which lists Keras's losses, for any other name."""
    try:
        known = keras.losses.get(name) is not None
    except (ValueError, TypeError):
        known = False
    if not known:
        names = sorted(
            item for item in dir(keras.losses) if item.islower() and item[0] != "_" and item not in NOT_LOSSES
        )
        raise UsageError(f"Keras has no loss named {name!r}", where="loss", fix=f"use one of {', '.join(names)}")


def keras_loss(keras: Any, loss_choice: LossChoice) -> Any:
    """Return the loss for model.compile."""
    loss = keras.losses.get(loss_choice.name)
    function = getattr(loss, "fn", loss)  # a class of Keras wraps its function
    try:
        takes_logits = "from_logits" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        takes_logits = False
    if not takes_logits:
        return loss
    return lambda expected, actual: function(expected, actual, from_logits=loss_choice.from_logits)


def output_activation(keras: Any, tensor: Any) -> str:
    """Return the activation of a model's output by Keras's name: "softmax", "sigmoid", "linear", ..."""
    while True:
        history = tensor._keras_history
        operation = history.operation
        if isinstance(operation, keras.Model):
            tensor = operation.outputs[history.tensor_index]
            continue
        kind = type(operation).__name__
        if kind in PASS_THROUGH and operation._inbound_nodes[history.node_index].input_tensors:
            tensor = operation._inbound_nodes[history.node_index].input_tensors[0]
            continue
        activation = getattr(operation, "activation", None)
        if activation is None:  # a layer or an operation that is itself an activation
            return kind.lower() if kind.lower() in PROBABILITIES else "linear"
        return str(getattr(activation, "__name__", type(activation).__name__)).lower()


def class_targets(targets: Array, shape: tuple[int | None, ...], where: str) -> Array:
    """Return class indices, (N, ...) without the output's last axis. Raises CalibrationError for other values."""
    *outer, classes = shape or (None,)
    inner = targets[..., 0] if targets.ndim == len(outer) + 2 and targets.shape[-1] == 1 else targets
    if classes is None or classes < 2 or not _fits(inner.shape[1:], tuple(outer)):
        raise CalibrationError(
            f"has labels of shape {targets.shape} for an output of {_text(shape)} per sample",
            where=where,
            fix="use one integer class per sample, or labels in the output's shape (the labels of an output NAME "
            "must be in an array called y_NAME)",
        )
    values = inner.astype(np.float64)
    if not np.array_equal(values, np.floor(values)) or values.min() < 0 or values.max() >= classes:
        raise CalibrationError(
            f"y has labels outside the range 0 to {classes - 1}", where=where, fix="use one integer class per sample"
        )
    return np.asarray(inner.astype(np.int32))


def _as_numbers(targets: Array, shape: tuple[int | None, ...]) -> Any:
    """Return the targets as float32 in the output's shape, (N, ...); None if their shape differs."""
    if targets.ndim == 1 and shape == (1,):
        targets = targets[:, np.newaxis]
    return targets.astype(np.float32) if _fits(targets.shape[1:], shape) else None


def _fits(actual: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return len(actual) == len(expected) and all(size in (None, own) for own, size in zip(actual, expected, strict=True))


def _text(shape: tuple[int | None, ...]) -> str:
    """ "10 numbers", or "numbers of shape (4, 10)"."""
    return f"{shape[0]} numbers" if len(shape) == 1 else f"numbers of shape {shape}"


SAVE = "save it with numpy.savez(x=, y=)"


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """A model output: its name and the shape of one sample (without batch), None where it is not fixed."""

    name: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The samples of a training file.

    inputs: per input, (N, ...), prepared for the model. targets: (N, ...) as in the file, or the input to be
    reproduced. output: the index of the output of the targets. reproduces: whether the file has no y.
    """

    inputs: tuple[Array, ...]
    targets: Array
    output: int
    reproduces: bool
    notes: tuple[str, ...]


def read_training_data(
    path: Path, specs: Sequence[InputSpec], outputs: Sequence[OutputSpec], normalisation: Normalisation | None
) -> TrainingData:
    """Read an .npz for a model with these inputs and outputs. Raises CalibrationError for data that does not fit.

    All data is held in memory, because every epoch reads it in another order.
    """
    if path.suffix.lower() != ".npz":
        raise CalibrationError(
            "training data must be an .npz file with x and y", where=str(path), fix="use numpy.savez"
        )
    arrays = load_npz(path)
    label_array = find_labels(path, arrays, specs, [output.name for output in outputs])
    labels = None if label_array is None else arrays.pop(label_array[0])
    samples = from_arrays(path, arrays, specs)
    inputs = _stacked(samples, specs, normalisation)
    if label_array is None or labels is None:
        if len(specs) != 1 or specs[0].shape != outputs[0].shape or not specs[0].is_float:
            raise CalibrationError("has no labels: there is no array named 'y'", where=str(path), fix=SAVE)
        note = f"{path.name} has no array y: {outputs[0].name} was trained to reproduce {specs[0].name}"
        return TrainingData(inputs, inputs[0], 0, reproduces=True, notes=(*samples.notes, note))
    name, output = label_array
    if labels.dtype.kind not in "fiub" or labels.ndim < 1 or len(labels) != samples.count:
        raise CalibrationError(
            f"has labels {name} of shape {labels.shape} and type {labels.dtype} for {samples.count} samples",
            where=str(path),
            fix=f"{name} must contain one number, or one array of the output's shape, per sample",
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise CalibrationError("has labels that are NaN or infinite", where=str(path), fix=f"correct {name}")
    return TrainingData(inputs, labels, output, reproduces=False, notes=samples.notes)


def _stacked(samples: SampleSet, specs: Sequence[InputSpec], normalisation: Normalisation | None) -> tuple[Array, ...]:
    if samples.count == 0:
        raise CalibrationError("contains no samples", where=samples.where(0), fix="provide at least one")
    stacked = [np.empty((samples.count, *spec.shape), np.dtype(spec.dtype)) for spec in specs]
    for index in range(samples.count):
        for values, spec, target in zip(samples.get(index), specs, stacked, strict=True):
            target[index] = prepare_sample(values, spec, normalisation, samples.where(index))
    return tuple(stacked)


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """Data and loss, checked against the model. notes: one sentence each."""

    data: TrainingData
    loss_choice: LossChoice
    notes: tuple[str, ...]


def prepare_training(keras: Any, model: Any, described: FloatModel, request: FineTuneRequest) -> TrainingTask:
    """Read the data and choose the loss, before any long work.

    Raises CalibrationError if data and model do not fit each other, UsageError for an unknown loss.
    """
    if request.loss is not None:
        check_loss_name(keras, request.loss)
    outputs = [
        OutputSpec(name, tuple(tensor.shape[1:]))
        for name, tensor in zip(described.output_names, model.outputs, strict=True)
    ]
    normalisation = Normalisation.of(request.mean, request.std, request.scale, request.offset)
    data = read_training_data(request.data, described.specs, outputs, normalisation)
    shape = outputs[data.output].shape
    activation = output_activation(keras, model.outputs[data.output])
    where = str(request.data)
    if request.loss is not None:
        loss_choice = loss_by_name(request.loss, data.targets, shape, activation, where)
    elif data.reproduces:
        loss_choice = LossChoice(SQUARED_ERROR, False, data.targets)
    else:
        loss_choice = loss_by_rule(data.targets, shape, activation, where)
    notes = [*data.notes, f"fine-tuned with loss {loss_choice.name}"]
    if not model.trainable_variables:
        notes.append("every layer is frozen, so fine-tuning changed nothing")
    return TrainingTask(data, loss_choice, tuple(notes))


def fine_tune(
    keras: Any, model: Any, task: TrainingTask, request: FineTuneRequest, *, seed: int, progress: child.Progress
) -> tuple[float, ...]:
    """Train the model in place and return the mean loss of each epoch.

    The same model, task, request and seed give the same weights if TensorFlow is set to be deterministic.
    Raises ConversionError if the loss or a weight becomes NaN or infinite, or the model cannot be trained.
    """
    head = _single_output_model(keras, model, task)
    head.compile(
        optimizer=keras.optimizers.Adam(request.learning_rate),
        loss=keras_loss(keras, task.loss_choice),
        jit_compile=False,  # XLA would spend seconds compiling what takes seconds to train
    )
    history = []
    for epoch in range(1, request.epochs + 1):
        step = f"epoch {epoch}/{request.epochs}"
        progress(f"fine-tuning: {step}")
        rng = np.random.Generator(np.random.PCG64((seed, epoch)))
        with _explain_errors(task, step):
            loss = _epoch(head, task, request.batch_size, rng)
        if not (math.isfinite(loss) and all(np.isfinite(weights).all() for weights in model.get_weights())):
            what = "a weight is not finite" if math.isfinite(loss) else f"the loss is {loss:g}"
            raise ConversionError(
                f"fine-tuning diverged in {step}: {what} with learning_rate {request.learning_rate:g}",
                fix="lower learning_rate",
            )
        history.append(loss)
    return tuple(history)


def _single_output_model(keras: Any, model: Any, task: TrainingTask) -> Any:
    """Return the model with the trained output only, for batches of any size; it shares all layers."""
    if all(tensor.shape[0] is None for tensor in model.inputs):
        return keras.Model(model.inputs, model.outputs[task.data.output])
    inputs = [keras.Input(tensor.shape[1:], dtype=tensor.dtype) for tensor in model.inputs]
    with _explain_errors(task, "its batch size is fixed"):
        outputs = keras.tree.flatten(model(pack_inputs(keras, model, inputs)))
    return keras.Model(inputs, outputs[task.data.output])


def _epoch(head: Any, task: TrainingTask, batch_size: int, rng: np.random.Generator) -> float:
    """Train on every sample once in random order; return the mean loss, or the first loss that is not finite."""
    order = rng.permutation(len(task.data.targets))
    head.reset_metrics()
    loss = math.nan
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        inputs = [array[rows] for array in task.data.inputs]
        loss = float(head.train_on_batch(inputs, task.loss_choice.targets[rows]))
        if not math.isfinite(loss):
            break
    return loss


@contextmanager
def _explain_errors(task: TrainingTask, step: str) -> Iterator[None]:
    """Add loss and step to errors from Keras, such as a loss for other outputs or an operation without a gradient."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        what, where = explain_keras_error(error)
        raise ConversionError(
            f"the model cannot be trained with loss {task.loss_choice.name} ({step}): {where}: {what}",
            fix="use another loss, or omit fine-tuning",
        ) from error


def copy_user_files(folder: Path, source: Path, files: list[Path]) -> UserFiles:
    """Copy the module and its files side by side into a new folder.

    Raises UsageError for two files of one name and for names that hide a module, OutputError if it cannot be written.
    """
    originals: dict[str, Path] = {}
    for path in (source, *files):
        name = path.resolve().name
        if name in originals:
            raise UsageError(f"has the same name as {originals[name]}", where=str(path), fix="rename one of the two")
        if path.suffix == ".py" and (path.stem in sys.modules or path.stem in sys.stdlib_module_names):
            raise UsageError(f"has the same name as the Python module {path.stem}", where=str(path), fix="rename it")
        originals[name] = path
    try:
        folder.mkdir()
        for name, path in originals.items():
            if path.is_dir():
                shutil.copytree(path, folder / name)
            else:
                shutil.copyfile(path, folder / name)
    except (OSError, shutil.Error) as error:
        raise OutputError(
            f"the builder's files cannot be copied: {error}",
            where=str(folder),
            fix="free some disk space and check the files",
        ) from error
    return UserFiles(folder, source, originals)


def call_builder(keras: Any, user_files: UserFiles, function: str, parameters: Mapping[str, Any]) -> Any:
    """Call the function and return its keras.Model. The modules that it imported are removed again.

    Raises UsageError if there is no such function or it has other parameters, UnsupportedModelError with file and
    line if the code raises an error or returns anything else.
    """
    with _working_in(user_files):
        with name_lines_in_errors(user_files, f"importing {user_files.source.name}"):
            module = import_file(user_files.folder / user_files.source.resolve().name, user_files.source.stem)
        builder = _function(module, user_files, function)
        _check_parameters(builder, user_files, function, parameters)
        with name_lines_in_errors(
            user_files, f"{function}({', '.join(f'{name}={value!r}' for name, value in parameters.items())})"
        ):
            model = builder(**parameters)
    if not isinstance(model, keras.Model):
        raise UnsupportedModelError(
            f"function {function} returned {_type_name(model)}, not a Keras model",
            where=str(user_files.source),
            fix="return a Keras 3 model (keras.Model)",
        )
    return model


@contextmanager
def _working_in(user_files: UserFiles) -> Iterator[None]:
    """Change to the folder and import from it; afterwards its modules are removed again."""
    outside = user_files.folder.parent  # the work directory: the user's code may remove its own
    before = set(sys.modules)
    sys.path.insert(0, str(user_files.folder))
    os.chdir(user_files.folder)
    try:
        yield
    finally:
        os.chdir(outside)
        sys.path[:] = [entry for entry in sys.path if entry != str(user_files.folder)]
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if isinstance(file, str) and Path(file).is_relative_to(user_files.folder):
                del sys.modules[name]


def _function(module: ModuleType, user_files: UserFiles, name: str) -> Any:
    function = getattr(module, name, None)
    if callable(function):
        return function
    defined = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    functions = [key for key in defined if callable(getattr(module, key)) and not key.startswith("_")]
    raise UsageError(
        f"has no function {name!r}",
        where=str(user_files.source),
        fix=f"use {' or '.join(functions)}" if functions else "define it",
    )


def _check_parameters(builder: Any, user_files: UserFiles, function: str, parameters: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(builder)
    except (TypeError, ValueError):  # a callable without a signature: the call reports the error
        return
    try:
        signature.bind(**parameters)
    except TypeError as error:
        takes = ", ".join(map(str, signature.parameters.values())) or "no parameters"
        raise UsageError(
            f"function {function} cannot be called with {', '.join(parameters) or 'no parameters'}: {error}",
            where=str(user_files.source),
            fix=f"it takes {takes}",
        ) from error


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


METADATA = "metadata.json"
CONFIG = "config.json"
SHARED = "shared_object_id"
DATE = "1980-01-01@00:00:00"  # the earliest date of a zip file, and its default


def save_keras(model: Any, path: Path) -> None:
    """Save at `path`. Raises OutputError if it cannot be written, UnsupportedModelError if Keras cannot save it."""
    dated = path.with_name(f"dated-{path.name}")
    try:
        model.save(str(dated))
        with zipfile.ZipFile(dated) as old, zipfile.ZipFile(path, "w") as new:
            for name in sorted(old.namelist()):
                new.writestr(zipfile.ZipInfo(name), _without_date(name, old.read(name)))
    except OSError as error:
        raise OutputError(
            f"the model cannot be written: {error.strerror or error}",
            where=str(path),
            fix="free some disk space, or set TMPDIR to a folder with more space",
        ) from error
    except MemoryError:
        raise
    except Exception as error:  # Keras raises what a layer's get_config raises
        what, where = explain_keras_error(error)
        raise UnsupportedModelError(
            f"Keras cannot save {where}: {what}",
            fix="use built-in Keras layers, or define get_config in the custom ones",
        ) from error
    finally:
        dated.unlink(missing_ok=True)


def _without_date(name: str, content: bytes) -> bytes:
    """Return a member of the archive without its date, and with shared objects numbered instead of addresses."""
    if name == METADATA:
        return json.dumps({**json.loads(content), "date_saved": DATE}).encode()
    if name == CONFIG:
        return json.dumps(_renumbered(json.loads(content), {})).encode()
    return content


def _renumbered(value: Any, numbers: dict[int, int]) -> Any:
    if isinstance(value, list):
        return [_renumbered(item, numbers) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: numbers.setdefault(item, len(numbers))
        if key == SHARED and isinstance(item, int)
        else _renumbered(item, numbers)
        for key, item in value.items()
    }


MODEL = "model.keras"
Message = Mapping[str, Any]


def work(request: dict[str, Any], workdir: Path, progress: child.Progress) -> dict[str, Any]:
    """Create the requested model, write it to a file in workdir, and return its description."""
    result = KINDS[request["kind"]](request, workdir.resolve(), progress)  # the user's builder changes the directory
    return {"file": MODEL, **result}


def _build(request: Message, workdir: Path, progress: child.Progress) -> dict[str, Any]:
    source, function = Path(request["source"]), request["function"]
    progress("loading TensorFlow")
    tf, keras = start_keras(workdir)
    _make_deterministic(tf, keras, request["seed"])
    user_files = copy_user_files(workdir / "builder", source, [Path(name) for name in request["files"]])
    progress(f"running {function} of {source.name}")
    model = call_builder(keras, user_files, function, request["parameters"])
    float_model(keras, model, source)
    parameters = model.count_params()
    progress("saving the model")
    with name_file_in_errors(source):
        save_keras(model, workdir / MODEL)
    _check_loads_without_code(keras, workdir, source, function)
    return {
        "parameters": parameters,
        "original_parameters": parameters,
        "removed": {},
        "left_alone": [],
        "notes": [],
        "history": [],
        "versions": library_versions(tf, keras),
    }


def _check_loads_without_code(keras: Any, workdir: Path, source: Path, function: str) -> None:
    """Load the saved model as every later step will, without the code that built it."""
    keras.saving.get_custom_objects().clear()
    saved = read_model_file(workdir / MODEL)
    try:
        config, _ = checked_config(saved, True, tf_keras=False)
        assert config is not None  # only a SavedModel has none
        load_keras_model(keras, saved, config, _folder(workdir, "again"), trust_model_code=True)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(
            f"the model returned by {function} cannot be loaded without its code: {error.what}",
            where=str(source),
            fix="build it from built-in Keras layers",
            details=error.details,
        ) from error


def _prune(request: Message, workdir: Path, progress: child.Progress) -> dict[str, Any]:
    path, trust = Path(request["path"]), bool(request["trust_model_code"])
    progress(READING_STEP)
    _check_prunable(path)
    source = read_model_file(path)
    config, notes = checked_config(source, trust, tf_keras=False)
    assert config is not None  # only a SavedModel has none
    progress("loading TensorFlow")
    tf, keras = start_keras(workdir)
    _make_deterministic(tf, keras, request["seed"])
    progress("loading the model")
    model = load_keras_model(keras, source, config, workdir, trust_model_code=trust)
    described = float_model(keras, model, path)
    task, fine_tuning = None, None
    if request["fine_tune"] is not None:
        progress("reading the training data")
        fine_tuning = fine_tune_request(request["fine_tune"])
        task = prepare_training(keras, model, described, fine_tuning)
    progress("removing channels")
    options = {name: request[name] for name in ("method", "exclude", "allow_missing")}
    pruned = prune(keras, model, request["level"], **options)
    history: tuple[float, ...] = ()
    if task is not None and fine_tuning is not None:
        history = fine_tune(keras, pruned.model, task, fine_tuning, seed=request["seed"], progress=progress)
    progress("saving the model")
    with name_file_in_errors(path):
        save_keras(pruned.model, workdir / MODEL)
    return {
        "parameters": pruned.parameters,
        "original_parameters": pruned.original_parameters,
        "removed": {layer: len(channels) for layer, channels in pruned.removed.items()},
        "left_alone": [[item.layer, item.reason] for item in pruned.left_alone],
        "notes": [*notes, *pruned.notes, *(task.notes if task is not None else ())],
        "history": list(history),
        "versions": library_versions(tf, keras),
    }


def _check_prunable(path: Path) -> None:
    if path.suffix.lower() == ".tflite" or path.is_dir():
        kind = "a SavedModel" if path.is_dir() else "a .tflite file"
        raise UnsupportedModelError(
            f"{kind} cannot be pruned: it no longer has Keras layers", where=str(path), fix="use .h5 or .keras"
        )


def _make_deterministic(tf: Any, keras: Any, seed: int) -> None:
    """Make TensorFlow deterministic and seed its generators; it runs on one thread already."""
    tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(seed)


def _folder(workdir: Path, name: str) -> Path:
    folder = workdir / name
    folder.mkdir()
    return folder


KINDS: Mapping[str, Callable[[Message, Path, child.Progress], dict[str, Any]]] = {"build": _build, "prune": _prune}


if __name__ == "__main__":
    child.serve(work)
