"""Read the kind of a model file and its configuration, without Keras. In the child process only."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edgetool.convert.file_checks import ARRAY_LIMIT_BYTES, DAMAGED_ZIP, check_entries, check_hdf5
from edgetool.errors import (
    ConversionError,
    EdgetoolError,
    InvalidModelError,
    MissingExtraError,
    UnsupportedModelError,
    UsageError,
)
from edgetool.model.file_kinds import HEAD_BYTES, file_kind

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
ZIP_SIGNATURE = b"PK\x03\x04"
CONFIG_LIMIT_BYTES = 64 * 2**20
CONFIG, WEIGHTS, METADATA = "config.json", "model.weights.h5", "metadata.json"
TEXT_LIMIT_BYTES = {CONFIG: CONFIG_LIMIT_BYTES, METADATA: 2**20}
# Reading a configuration takes milliseconds, but libhdf5 can loop forever on a damaged file.
READ_SECONDS = 20
CONVERT_EXTRA = "pip install 'edgetool[convert]'"
FORMATS = "provide a complete model as .h5, .keras, .pt2, .onnx or a SavedModel directory"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """The kind of a model file, its configuration, and the version of Keras that wrote it.

    config: the JSON object {"class_name", "config", ...}; None for a SavedModel. keras_version: "" if unknown.
    """

    path: Path
    kind: Literal["h5", "keras", "saved_model"]
    config: dict[str, Any] | None
    keras_version: str

    @property
    def legacy(self) -> bool:
        """Whether Keras 1 or 2 or tf_keras, whose versions are 2.x, wrote the file."""
        major = self.keras_version.split(".", maxsplit=1)[0]
        return not major.isdigit() or int(major) < 3


def read_model_file(path: Path) -> ModelFile:
    """Read the kind and the configuration of a model file.

    Raises InvalidModelError or UnsupportedModelError if the file is rejected, UsageError if it cannot be opened.
    """
    try:
        if path.is_dir():
            return _read_directory(path)
        start = start_of(path)
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror or error}", where=str(path), fix="specify a readable file"
        ) from error
    if start.startswith(HDF5_SIGNATURE):
        return _read_hdf5(path)
    if start.startswith(ZIP_SIGNATURE):
        return _read_zip(path, start)
    raise wrong_content(path, start, "a Keras model", "this is neither HDF5 nor a .keras archive", FORMATS)


def start_of(path: Path) -> bytes:
    """Return the first bytes of a regular file. Raises UsageError for a pipe or a device, and OSError."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise UsageError(
            "is not a regular file", where=str(path), fix=FORMATS
        )  # reading a pipe or a device may never end
    with path.open("rb") as stream:
        return stream.read(HEAD_BYTES)


def _read_directory(path: Path) -> ModelFile:
    if not (path / "saved_model.pb").is_file():
        raise InvalidModelError(
            "the directory is not a SavedModel: it has no saved_model.pb",
            where=str(path),
            fix="export the model with model.export()",
        )
    if not start_of(path / "saved_model.pb"):
        raise InvalidModelError("saved_model.pb is empty", where=str(path), fix="export the model with model.export()")
    for inner in path.rglob("*"):
        if inner.exists() and not (inner.is_file() or inner.is_dir()):  # reading a pipe or a device may never end
            raise InvalidModelError(
                f"{inner.relative_to(path)} in it is not a regular file", where=str(path), fix="export it again"
            )
    return ModelFile(path, "saved_model", None, "")


def wrong_content(
    path: Path, start: bytes, expected: str, otherwise: str, fix: str, *, is_archive: bool = False
) -> InvalidModelError:
    """Return the error for a file that is not what its name says.

    start: the first bytes of the file. expected: what it should be, "a Keras model". otherwise, fix: the message and
    the advice if it is of no other known kind. is_archive: whether it should be a zip archive; then it says nothing
    that it is one.
    """
    kind = file_kind(start)
    if not start:
        return InvalidModelError("the file is empty", where=str(path), fix=fix)
    says_nothing = is_archive and start.startswith(ZIP_SIGNATURE)
    if kind is None or (kind.ending == path.suffix.lower() if kind.ending else says_nothing):
        return InvalidModelError(otherwise, where=str(path), fix=fix)
    advice = fix if kind.ending is None and ".tflite" in kind.fix else kind.advice(str(path))
    return InvalidModelError(f"this is {kind.what}, not {expected}", where=str(path), fix=advice)


def _read_hdf5(path: Path) -> ModelFile:
    with _hdf5(path, path) as file:
        check_hdf5(file, path)
        text = file.attrs.get("model_config")
        if text is None:
            raise _without_config(file, path)
        version = file.attrs.get("keras_version", "")
        return ModelFile(path, "h5", _parsed(text, path), _text(version, path))


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Let the kernel end this process if the block takes longer, because no Python code can run during a loop in C."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)
    try:
        yield
    finally:
        if hasattr(signal, "alarm"):
            signal.alarm(0)


@contextmanager
def _hdf5(opened: Any, path: Path) -> Iterator[Any]:
    """Open a path or a stream as h5py.File for at most READ_SECONDS; errors name the model at `path`."""
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"{error.name} is not installed", fix=CONVERT_EXTRA) from error
    except (ImportError, OSError) as error:  # OSError: its files cannot be mapped within the memory limit
        raise ConversionError(
            f"h5py cannot be imported: {_short(error)}", fix="raise the memory limit, or reinstall it"
        ) from error
    try:
        with time_limit(READ_SECONDS), h5py.File(opened, "r") as file:
            yield file
    except (EdgetoolError, MemoryError):
        raise
    except Exception as error:  # h5py raises many kinds of exceptions for damaged files
        reason = "the HDF5 file is truncated" if "truncated" in str(error) else "the HDF5 file is damaged"
        raise InvalidModelError(f"{reason} ({_short(error)})", where=str(path), fix="copy or save it again") from error


def _without_config(file: Any, path: Path) -> InvalidModelError:
    weights = "layer_names" in file.attrs or any(name in file for name in ("layers", "_layer_checkpoint_dependencies"))
    if weights:
        return InvalidModelError(
            "it contains only weights, not the model",
            where=str(path),
            fix="save the complete model with model.save('model.keras')",
        )
    return InvalidModelError("the HDF5 file does not contain a Keras model", where=str(path), fix=FORMATS)


def _read_zip(path: Path, start: bytes) -> ModelFile:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            sizes = {entry.filename: entry.file_size for entry in entries}
            if CONFIG not in sizes:
                otherwise = f"the zip file is not a .keras file: it has no {CONFIG}"
                raise wrong_content(path, start, "a Keras model", otherwise, FORMATS, is_archive=True)
            if WEIGHTS not in sizes:
                raise InvalidModelError("the .keras file has no weights", where=str(path), fix="save the model again")
            for name, size in sizes.items():
                if size > TEXT_LIMIT_BYTES.get(name, ARRAY_LIMIT_BYTES):
                    raise UnsupportedModelError(f"{name} declares {size} bytes", where=str(path))
            check_entries(entries, path)
            config = _parsed(archive.read(CONFIG), path)
            metadata = _parsed(archive.read(METADATA), path) if METADATA in sizes else {}
            _check_weights(archive, path)
    except (*DAMAGED_ZIP, OSError, RuntimeError) as error:
        raise InvalidModelError(
            f"the .keras archive is damaged ({_short(error)})", where=str(path), fix="copy or save it again"
        ) from error
    return ModelFile(path, "keras", config, str(metadata.get("keras_version", "")))


def _check_weights(archive: zipfile.ZipFile, path: Path) -> None:
    """Check the weights as an HDF5 file; compressed ones are copied first, because HDF5 requires random access."""
    with archive.open(WEIGHTS) as packed, tempfile.TemporaryFile() as copy:
        stored = archive.getinfo(WEIGHTS).compress_type == zipfile.ZIP_STORED
        if not stored:
            shutil.copyfileobj(packed, copy)
        with _hdf5(packed if stored else copy, path) as file:
            check_hdf5(file, path, WEIGHTS)


def _parsed(text: Any, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_text(text, path))
    except (ValueError, RecursionError) as error:
        raise InvalidModelError(
            f"its model configuration is not valid JSON ({_short(error)})",
            where=str(path),
            fix="save the model again",
        ) from error
    if not isinstance(value, dict):
        raise InvalidModelError(
            "its model configuration is not a JSON object", where=str(path), fix="save the model again"
        )
    return value


def _text(value: Any, path: Path) -> str:
    if hasattr(value, "tobytes") and not isinstance(value, bytes):
        value = value.tobytes()
    try:
        return value.decode("utf-8") if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError as error:
        raise InvalidModelError("its model configuration is not UTF-8", where=str(path)) from error


def _short(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def link(path: Path, target: Path) -> None:
    """Link `target` to `path`; its name has a suffix that Keras recognizes."""
    os.symlink(path.resolve(), target)
