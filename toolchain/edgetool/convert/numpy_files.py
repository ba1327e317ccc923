"""Opens .npy and .npz files without ever running what is in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from edgetool.convert.samples import Array
from edgetool.errors import CalibrationError

NPY_START = b"\x93NUMPY"
ZIP_START = b"PK"


def load_npy(path: Path) -> Array:
    """The array of a .npy file, mapped. CalibrationError when it is none, is damaged or holds Python objects."""
    if not _start_of(path).startswith(NPY_START):
        raise CalibrationError("is not a .npy file", where=str(path), fix="save the array with numpy.save")
    array: Array = _read(path, lambda: np.load(path, mmap_mode="r", allow_pickle=False))
    return array


def load_npz(path: Path) -> dict[str, Array]:
    """Every array of an .npz file in its order. CalibrationError as for a .npy file."""
    start = _start_of(path)
    if start.startswith(NPY_START):
        raise CalibrationError("is a single array", where=str(path), fix="name it .npy")
    if not start.startswith(ZIP_START):
        raise CalibrationError("is not an .npz file", where=str(path), fix="save the arrays with numpy.savez")

    def members() -> dict[str, Any]:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    arrays: dict[str, Any] = _read(path, members)
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # numpy gives other members of the archive as bytes
            raise CalibrationError(
                f"holds {name!r}, which is no array", where=str(path), fix="save the arrays with numpy.savez"
            )
    return arrays


def _start_of(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(len(NPY_START))
    except OSError as error:
        raise CalibrationError(
            f"cannot be read: {error.strerror or error}", where=str(path), fix="give a readable file"
        ) from error


def _read(path: Path, load: Callable[[], Any]) -> Any:
    """What `load` returns; numpy's messages, which advise to allow pickles, in our own words."""
    try:
        return load()
    except MemoryError:
        raise
    except Exception as error:  # numpy and zipfile raise many kinds on damaged files
        if "object" in str(error).lower():
            raise CalibrationError(
                "holds Python objects, not numbers", where=str(path), fix="save an array of numbers"
            ) from error
        raise CalibrationError(
            f"cannot be read as {path.suffix}: it is damaged or cut short", where=str(path), fix="save it again"
        ) from error
