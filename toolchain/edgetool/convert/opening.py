"""What every child process does before a model file is loaded: look at it, refuse what carries code, start Keras."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgetool.convert.config_check import check_config, check_unrolled
from edgetool.convert.legacy import modernise
from edgetool.convert.load_keras import import_libraries
from edgetool.convert.source import Source
from edgetool.errors import InvalidModelError, ModelError, OutputError

# Reading a configuration takes milliseconds; libhdf5 can loop for ever on a damaged file.
READ_SECONDS = 20
# What a full disk, a used up quota and a limit on the size of files say.
FULL = frozenset(code for name in ("ENOSPC", "EDQUOT", "EFBIG") if (code := getattr(errno, name, None)) is not None)


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Let the kernel end this process when the block takes longer: no Python code runs inside a C loop."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)
    yield
    if hasattr(signal, "alarm"):
        signal.alarm(0)


@contextlib.contextmanager
def located(path: Path) -> Iterator[None]:
    """Let an error about the model that does not say where say it."""
    try:
        yield
    except ModelError as error:
        if error.where is None:
            error.where = str(path)
        raise


@contextlib.contextmanager
def room_in(workdir: Path) -> Iterator[None]:
    """Raise OutputError where there is no room to write."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise OutputError(
            f"there is no room to work in: {error.strerror}",
            where=str(workdir),
            fix="make room, or set TMPDIR to a folder with more",
        ) from error


def checked_config(source: Source, trust: bool, *, integer: bool) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """The configuration that Keras is to load, checked, and notes; None for a SavedModel, which has none.

    integer: refuse what an integer conversion cannot take. Raises InvalidModelError or UnsupportedModelError.
    """
    loaded_on_trust = ("the model was loaded with --trust-model-code",) if trust else ()
    if source.config is None:
        return None, loaded_on_trust
    try:
        with located(source.path):
            config, changes = modernise(source.config, legacy=source.legacy)
            trusted = check_config(config, source.kind, trust_model_code=trust)
            if integer:
                check_unrolled(config)
    except RecursionError as error:
        raise InvalidModelError(
            "its configuration is nested too deeply", where=str(source.path), fix="save the model again"
        ) from error
    return config, (*changes, *(trusted or loaded_on_trust))


def start_keras(workdir: Path) -> tuple[Any, Any]:
    """The modules tensorflow and keras, quiet and with settings of their own. Raises as import_libraries does.

    They run on one thread: what several sum up depends on how many they are.
    """
    warnings.simplefilter("ignore")  # in the log they would push out what the user needs to see
    os.environ["KERAS_HOME"] = str(workdir)  # the user's keras.json neither changes the result nor is written
    tf, keras = import_libraries()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return tf, keras


def library_versions(tf: Any, keras: Any) -> dict[str, str]:
    """What a result depends on besides its request."""
    return {
        "python": platform.python_version(),
        "tensorflow": str(tf.__version__),
        "keras": str(keras.__version__),
    }
