"""The child process that builds a model, or prunes and trains it; started by train.training.

A builder is a function in the user's code, which runs only if it is trusted. The model is written as a .keras file
whose bytes depend only on the model.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from edgetool import child
from edgetool.convert.float_model import explain_keras_error
from edgetool.convert.keras_model import float_model
from edgetool.convert.load_keras import (
    checked_config,
    library_versions,
    load_keras_model,
    name_file_in_errors,
    start_keras,
)
from edgetool.convert.request import READING_STEP
from edgetool.convert.source import read_model_file
from edgetool.convert.user_code import UserFiles, import_file, name_lines_in_errors
from edgetool.errors import OutputError, UnsupportedModelError, UsageError
from edgetool.train.fine_tune import fine_tune, prepare_training
from edgetool.train.pruning.prune import prune
from edgetool.train.training import fine_tune_request


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
    found = getattr(module, name, None)
    if callable(found):
        return found
    own = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    functions = [key for key in own if callable(getattr(module, key)) and not key.startswith("_")]
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
    """Make the requested model, write it to a file in workdir, and return its description."""
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
