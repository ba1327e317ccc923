"""What every child process does before a model file is loaded: look at it, refuse what carries code, start Keras.

Sums of Keras 3 that are right in a batch of one: in the child process only.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import platform
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgetool.convert.config_check import check_config
from edgetool.convert.legacy import for_tf_keras, modernise
from edgetool.convert.load_keras import LIBRARY, check_installed, import_libraries
from edgetool.convert.source import Source
from edgetool.convert.tf_keras_needs import needs_tf_keras
from edgetool.errors import InvalidModelError, ModelError


def mend_sums(tf: Any, keras: Any) -> None:
    """Let keras.ops.add broadcast where its second tensor ends in a dimension of 1.

    Keras 3.15 takes whatever has one dimension above 1 for a bias of that many channels. In a batch of one, (1, n, 1)
    looks so, and is added along the last axis or refused: other sums than in any larger batch.
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


@contextlib.contextmanager
def located(path: Path) -> Iterator[None]:
    """Let an error about the model that does not say where say it."""
    try:
        yield
    except ModelError as error:
        if error.where is None:
            error.where = str(path)
        raise


def checked_config(
    source: Source, trust: bool, *, tf_keras: bool = True
) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """The configuration that is to be loaded, checked, and notes; None for a SavedModel, which has none.

    tf_keras: whether that library may load what Keras 3 cannot rebuild. Raises InvalidModelError or
    UnsupportedModelError, and MissingExtraError where tf_keras is needed and not installed.
    """
    loaded_on_trust = ("the model was loaded with --trust-model-code",) if trust else ()
    if source.config is None:
        return None, loaded_on_trust
    changes: tuple[str, ...] = ()
    try:
        with located(source.path):
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
    """The modules tensorflow and keras, quiet and with settings of their own. Raises as import_libraries does.

    They run on one thread: what several sum up depends on how many they are.
    """
    warnings.simplefilter("ignore")  # in the log they would push out what the user needs to see
    os.environ["KERAS_HOME"] = str(workdir)  # the user's keras.json neither changes the result nor is written
    os.environ.update(ONE_THREAD)
    tf, keras = import_libraries()
    mend_sums(tf, keras)
    return tf, keras


def library_versions(tf: Any, keras: Any) -> dict[str, str]:
    """What a result depends on besides its request; keras: the library of the model, Keras 3 or tf_keras."""
    return {
        "python": platform.python_version(),
        "tensorflow": str(tf.__version__),
        LIBRARY if keras.__name__.startswith(LIBRARY) else "keras": str(keras.__version__),
    }
