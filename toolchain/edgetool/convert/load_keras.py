"""Start Keras and load .h5 and .keras files with it, or with tf_keras if Keras 3 cannot rebuild them.

In the child process only. The user's module with custom classes and functions is imported only if the code is trusted.
Keras runs on one thread, because its sums depend on the number of threads.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import platform
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from edgetool.convert.file_checks import check_config
from edgetool.convert.float_model import explain_keras_error
from edgetool.convert.legacy import HARD_SIGMOID, for_tf_keras, modernise
from edgetool.convert.model_copy import copy_with
from edgetool.convert.source import CONVERT_EXTRA, ModelFile
from edgetool.convert.tf_keras_layers import TF_KERAS, TFMOT, needs_tf_keras, needs_tfmot
from edgetool.convert.user_code import UserFiles, first_line_of, import_file, name_lines_in_errors, traceback_lines
from edgetool.errors import (
    ConversionError,
    EdgetoolError,
    InvalidModelError,
    MissingExtraError,
    ModelError,
    UnsupportedModelError,
    UsageError,
)

CUSTOM_OBJECTS = "--custom-objects module.py"
CUSTOM_OBJECTS_OPTION = "--custom-objects"
INSTALL = "install the modules that it imports in edgetool's environment, or put them into the folder of"
# A dictionary of this name in the module lists its custom objects; without it, all its public names are used.
DECLARATION = "CUSTOM_OBJECTS"
LIBRARIES = frozenset(["keras", "numpy", "tensorflow", "tf_keras", *sys.stdlib_module_names])


@dataclass(frozen=True, slots=True)
class CustomCode:
    """Custom objects of a module by their name in a model file, and whether they are written for tf_keras."""

    objects: Mapping[str, Any] = field(default_factory=dict)
    of_tf_keras: bool = False
    user_files: UserFiles | None = None

    @contextmanager
    def name_lines_in_errors(self, doing: str) -> Iterator[None]:
        """Turn an error in the module's code into one that names its file and line; re-raise all others."""
        try:
            yield
        except (EdgetoolError, MemoryError):
            raise
        except Exception as error:
            lines = () if self.user_files is None else traceback_lines(error, self.user_files)
            if not lines:
                raise
            raise UnsupportedModelError(
                f"its code fails while loading {doing}: {type(error).__name__}: {first_line_of(error)}",
                where=lines[-1].partition(" in ")[0],
                fix="load the model with it outside edgetool to find out why",
                details=lines,
            ) from error


def import_custom_code(path: Path) -> CustomCode:
    """Import the module from its folder, which stays on the path for its imports, now and when it is called.

    Raises UsageError if it does not exist, hides another module or defines nothing, UnsupportedModelError with file and
    line if importing it fails.
    """
    user_files = _user_files(path)
    sys.dont_write_bytecode = True  # nothing is left in the user's folder
    sys.path.insert(0, str(user_files.folder))
    with name_lines_in_errors(user_files, f"importing {path.name}", missing=f"{INSTALL} {path.name}"):
        resolved = path.resolve()
        module = import_file(resolved, resolved.stem)
    objects = _objects(module, path)
    return CustomCode(objects, any(_of_tf_keras(item) for item in objects.values()), user_files)


def _user_files(path: Path) -> UserFiles:
    try:
        resolved = path.resolve(strict=True)
        names = [entry.name for entry in resolved.parent.iterdir()]
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror or error}",
            where=f"{CUSTOM_OBJECTS_OPTION} {path}",
            fix="specify a readable Python file",
        ) from error
    if resolved.suffix != ".py":
        raise UsageError("is not a Python file", where=f"{CUSTOM_OBJECTS_OPTION} {path}", fix="specify a .py file")
    if resolved.stem in sys.modules or resolved.stem in sys.stdlib_module_names:
        raise UsageError(f"has the same name as the Python module {resolved.stem}", where=str(path), fix="rename it")
    return UserFiles(resolved.parent, path, {name: path.parent / name for name in names})


def _objects(module: ModuleType, path: Path) -> dict[str, Any]:
    declared = getattr(module, DECLARATION, None)
    if declared is not None:
        if not isinstance(declared, dict) or not all(isinstance(key, str) for key in declared):
            raise UsageError(
                f"{DECLARATION} is not a dictionary with string keys", where=str(path), fix="map names to classes"
            )
        return dict(declared)
    found = {name: item for name, item in vars(module).items() if not name.startswith("_") and _is_user_defined(item)}
    if not found:
        raise UsageError(
            "does not define any class or function", where=str(path), fix=f"define them, or list them in {DECLARATION}"
        )
    return found


def _is_user_defined(item: Any) -> bool:
    """Return whether it is a class or a function of the user, not one imported from a library."""
    known = inspect.isclass(item) or inspect.isfunction(item)
    return known and (item.__module__ or "").partition(".")[0] not in LIBRARIES


def _of_tf_keras(item: Any) -> bool:
    return inspect.isclass(item) and any(base.__module__.startswith("tf_keras.") for base in item.__mro__)


LIBRARY = "tf_keras"
OPTIMIZATION = "tensorflow_model_optimization"
REPLACE = "replace the layer, or export a SavedModel using the Keras version that created it"
# tensorflow-model-optimization 0.8 cannot load the .keras files of its own quantized layers.
AS_HDF5 = "save the model as .h5, or export a SavedModel using the Keras version that created it"


def is_installed(name: str = LIBRARY) -> bool:
    """Return whether the library is installed."""
    return importlib.util.find_spec(name) is not None


def check_installed(config: Mapping[str, Any], path: Path) -> None:
    """Raise MissingExtraError with the layer and what to install if the model needs a library that is missing."""
    layer, name, reason = next(needs_tf_keras(config))
    if not is_installed():
        fix = TFMOT if needs_tfmot(config) else TF_KERAS
        raise MissingExtraError(
            f"layer {layer!r} ({name}) requires tf-keras: {reason}",
            where=str(path),
            fix=f"{fix}; or {REPLACE}",
        )
    if needs_tfmot(config) and not is_installed(OPTIMIZATION):
        raise MissingExtraError(
            f"layer {layer!r} ({name}) requires the library that defines it: {reason}", where=str(path), fix=TFMOT
        )


def load_with_tf_keras(
    source: ModelFile, workdir: Path, *, trust_model_code: bool, custom_objects: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Load a model with tf_keras; return that module and the model.

    Raises UnsupportedModelError with the layer, if tf_keras names it, or for code that is not trusted, and
    MissingExtraError if a library cannot be imported.
    """
    assert source.config is not None  # only a SavedModel has none
    config = for_tf_keras(source.config)
    # This configuration differs from the one checked for Keras 3, and tf_keras runs code in it.
    check_config(config, source.kind, trust_model_code=trust_model_code, tf_keras=True)
    keras = _imported_extra(LIBRARY, TF_KERAS)
    scope = _quantize_scope() if needs_tfmot(config) else nullcontext()
    path = workdir / f"model-tf-keras.{source.kind}"
    copy_with(source, config, path)
    try:
        with scope, keras.utils.custom_object_scope(dict(custom_objects)):
            model = keras.models.load_model(str(path), compile=False, safe_mode=not trust_model_code)
    except MemoryError:
        raise
    except Exception as error:
        what, where = explain_keras_error(error)
        raise UnsupportedModelError(
            f"tf_keras {keras.__version__} cannot load {where}: {what}",
            where=str(source.path),
            fix=AS_HDF5 if source.kind == "keras" and needs_tfmot(config) else REPLACE,
        ) from error
    finally:
        path.unlink(missing_ok=True)
    return keras, model


def _quantize_scope() -> AbstractContextManager[Any]:
    scope: AbstractContextManager[Any] = _imported_extra(OPTIMIZATION, TFMOT).quantization.keras.quantize_scope()
    return scope


def _imported_extra(name: str, fix: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(f"{name} cannot be imported: {error}", fix=fix) from error


MINIMUM_KERAS = (3, 15)


@dataclass(frozen=True, slots=True)
class LoadedKeras:
    """A model, its module (keras or tf_keras), and notes for the user."""

    keras: Any
    model: Any
    notes: tuple[str, ...] = ()


def import_libraries() -> tuple[Any, Any]:
    """Import tensorflow and keras.

    Raises MissingExtraError if one is missing or too old, ConversionError if one cannot be loaded.
    """
    tf, keras = (_imported(name) for name in ("tensorflow", "keras"))
    version = tuple(int(part) for part in re.findall(r"\d+", keras.__version__)[:2])
    if version < MINIMUM_KERAS:
        raise MissingExtraError(
            f"Keras {keras.__version__} is too old: it does not protect against malicious files", fix=CONVERT_EXTRA
        )
    return tf, keras


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"{error.name} is not installed", fix=CONVERT_EXTRA) from error
    except Exception as error:  # a memory limit causes errors of several kinds
        raise ConversionError(
            f"{name} cannot be imported: {error}", fix="raise the memory limit, or reinstall it"
        ) from error


def load_keras_model(
    keras: Any, source: ModelFile, config: dict[str, Any], workdir: Path, *, trust_model_code: bool
) -> Any:
    """Load an .h5 or .keras file with Keras 3; raises as load_keras_file does."""
    return _with_keras(keras, source, config, workdir, trust_model_code=trust_model_code, code=CustomCode())


def load_keras_file(
    keras: Any,
    source: ModelFile,
    config: dict[str, Any],
    workdir: Path,
    *,
    trust_model_code: bool,
    custom_objects: Path | None = None,
) -> LoadedKeras:
    """Load an .h5 or .keras file with its weights.

    config: the result of checked_config. custom_objects: a Python module with the model's own classes and functions.
    Raises UnsupportedModelError naming the layer if Keras names it, and file and line if the module's code fails,
    UsageError if the module defines nothing, MissingExtraError if tf_keras is needed and not installed.
    """
    code = CustomCode() if custom_objects is None else import_custom_code(custom_objects)
    needed = next(needs_tf_keras(config), None) if source.legacy else None
    if needed is None and not code.of_tf_keras:
        try:
            model = _with_keras(keras, source, config, workdir, trust_model_code=trust_model_code, code=code)
            return LoadedKeras(keras, model)
        except UnsupportedModelError as error:
            if not source.legacy or not is_installed() or code.objects:
                raise
            keras_error = error
    else:
        keras_error = None
    try:
        with code.name_lines_in_errors("the model") if code.objects else nullcontext():
            library, model = load_with_tf_keras(
                source, workdir, trust_model_code=trust_model_code, custom_objects=code.objects
            )
    except UnsupportedModelError as error:
        raise keras_error or error from error
    return LoadedKeras(library, model, (_tf_keras_note(library, needed, keras_error, quantized=needs_tfmot(config)),))


def _tf_keras_note(
    library: Any, needed: tuple[str, str, str] | None, keras_error: EdgetoolError | None, *, quantized: bool
) -> str:
    loaded = f"the model was loaded with tf_keras {library.__version__}"
    if quantized:
        return f"{loaded}: it comes from quantization-aware training, and its learned ranges are used"
    if needed is not None:
        layer, name, reason = needed
        return f"{loaded}: layer {layer!r} ({name}): {reason}"
    return (
        f"{loaded}: {keras_error.what}"
        if keras_error is not None
        else f"{loaded}: its custom classes are written for tf_keras"
    )


def _with_keras(
    keras: Any, source: ModelFile, config: dict[str, Any], workdir: Path, *, trust_model_code: bool, code: CustomCode
) -> Any:
    path = workdir / f"model.{source.kind}"
    copy_with(source, config, path, convert_weights=source.legacy)
    objects = {HARD_SIGMOID: _hard_sigmoid(keras), **code.objects}
    try:
        with code.name_lines_in_errors("the model"), keras.saving.custom_object_scope(objects):
            model = keras.models.load_model(str(path), compile=False, safe_mode=not trust_model_code)
    except (EdgetoolError, MemoryError):
        raise
    except Exception as error:
        what, where = explain_keras_error(error)
        raise UnsupportedModelError(
            f"Keras {keras.__version__} cannot load {where}: {what}", where=str(source.path), fix=_fix(source, what)
        ) from error
    finally:
        path.unlink(missing_ok=True)
    if source.legacy:
        _check_order(model, config, source.path)
    return model


def _fix(source: ModelFile, what: str) -> str:
    if "could not locate" in what.lower() or "unknown layer" in what.lower():
        return f"provide the code of its classes with {CUSTOM_OBJECTS}, or export a SavedModel with model.export()"
    again = "save the model again with a current Keras version, or export a SavedModel with model.export()"
    return f"{again}; {TF_KERAS} lets edgetool try the old version" if source.legacy and not is_installed() else again


def _hard_sigmoid(keras: Any) -> Any:
    """clip(0.2 x + 0.5, 0, 1), as in Keras 2, in the operators that Keras 3 uses for its own."""

    def keras_2_hard_sigmoid(x: Any) -> Any:
        return keras.ops.relu6(x * 1.2 + 3.0) / 6.0

    keras_2_hard_sigmoid.__name__ = HARD_SIGMOID
    return keras_2_hard_sigmoid


def _check_order(model: Any, config: Mapping[str, Any], path: Path) -> None:
    """Check that Keras orders the layers as the file does, because weights are assigned in that order."""
    inner = config.get("config")
    layers = inner.get("layers", ()) if isinstance(inner, dict) else ()
    written = [layer["config"].get("name") for layer in layers if isinstance(layer.get("config"), dict)]
    loaded = [layer.name for layer in getattr(model, "layers", ())]
    known = set(loaded)
    if [name for name in written if name in known] != [name for name in loaded if name in set(written)]:
        raise UnsupportedModelError(
            "Keras 3 orders this model's layers differently from Keras 2, and would mix up their weights",
            where=str(path),
            fix="export a SavedModel with model.export() using the Keras version that created it",
        )


def fix_broadcast_sums(tf: Any, keras: Any) -> None:
    """Make keras.ops.add broadcast correctly if its second tensor ends in a dimension of 1.

    Keras 3.15 treats a tensor with one dimension above 1 as a bias of that many channels. In a batch of one, (1, n, 1)
    is such a tensor, and is added along the last axis or rejected: other sums than in any larger batch.
    """
    backend: Any = importlib.import_module("keras.src.backend.tensorflow.numpy")
    original = backend.add
    if hasattr(original, "broadcasts"):
        return

    @functools.wraps(original)
    def add(x1: Any, x2: Any) -> Any:
        shape = getattr(x2, "shape", None)
        if shape is None or len(shape) < 2 or shape[-1] != 1 or any(isinstance(x, tf.SparseTensor) for x in (x1, x2)):
            return original(x1, x2)
        dtype = keras.backend.result_type(getattr(x1, "dtype", type(x1)), x2.dtype)
        return tf.add(keras.ops.convert_to_tensor(x1, dtype), keras.ops.convert_to_tensor(x2, dtype))

    vars(add)["broadcasts"] = True
    backend.add = add


# TensorFlow reads these when it starts its first operation.
ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}


@contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Add the path to an error about the model that does not name a place."""
    try:
        yield
    except ModelError as error:
        if error.where is None:
            error.where = str(path)
        raise


def checked_config(
    source: ModelFile, trust: bool, *, tf_keras: bool = True
) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return the checked configuration to load, and notes; None for a SavedModel, which has none.

    tf_keras: whether that library may load what Keras 3 cannot rebuild. Raises InvalidModelError or
    UnsupportedModelError, and MissingExtraError if tf_keras is needed and not installed.
    """
    loaded_on_trust = ("the model was loaded with --trust-model-code",) if trust else ()
    if source.config is None:
        return None, loaded_on_trust
    changes: tuple[str, ...] = ()
    try:
        with name_file_in_errors(source.path):
            needed = tf_keras and source.legacy and any(needs_tf_keras(source.config))
            if needed:
                config = for_tf_keras(source.config)
            else:
                config, changes = modernise(source.config, legacy=source.legacy)
            trusted = check_config(config, source.kind, trust_model_code=trust, tf_keras=needed)
    except RecursionError as error:
        raise InvalidModelError(
            "its configuration is nested too deeply", where=str(source.path), fix="save the model again"
        ) from error
    if needed:
        check_installed(config, source.path)
    return config, (*changes, *(trusted or loaded_on_trust))


def start_keras(workdir: Path) -> tuple[Any, Any]:
    """Import tensorflow and keras, without warnings and the user's settings. Raises as import_libraries does.

    They run on one thread, because sums depend on the number of threads.
    """
    warnings.simplefilter("ignore")  # in the log they would displace what the user needs to see
    os.environ["KERAS_HOME"] = str(workdir)  # the user's keras.json neither changes the result nor is written
    os.environ.update(ONE_THREAD)
    tf, keras = import_libraries()
    fix_broadcast_sums(tf, keras)
    return tf, keras


def library_versions(tf: Any, keras: Any) -> dict[str, str]:
    """Return the versions that a result depends on; keras: the library of the model, Keras 3 or tf_keras."""
    return {
        "python": platform.python_version(),
        "tensorflow": str(tf.__version__),
        LIBRARY if keras.__name__.startswith(LIBRARY) else "keras": str(keras.__version__),
    }
