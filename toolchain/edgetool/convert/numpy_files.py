"""Read .npy and .npz files (numpy.lib.format, versions 1 to 3) without running any code in them.

The header is parsed by a separate grammar, and no memory is allocated before its sizes agree with the file's size. The
path may name anything, so pipes and devices are rejected.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import numpy as np
import numpy.typing as npt

from edgetool.convert.file_checks import DAMAGED_ZIP
from edgetool.convert.samples import Array
from edgetool.errors import CalibrationError

# Without O_NONBLOCK, opening a pipe waits for a writer; without O_BINARY, Windows reads text.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@contextlib.contextmanager
def open_data(path: Path) -> Iterator[BinaryIO]:
    """Open a file. Raises CalibrationError if it cannot be read, or is a pipe or a device, which may never end."""
    try:
        descriptor = os.open(path, _FLAGS)
    except (OSError, ValueError) as error:  # ValueError for a name that no file can have
        what = f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else "is not a path"
        raise CalibrationError(what, where=str(path), fix="specify a readable file") from error
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise CalibrationError("is a pipe or a device, not a file", where=str(path), fix="specify a regular file")
        yield stream


def size_bytes(stream: BinaryIO) -> int:
    """Return the size of an open file."""
    return os.fstat(stream.fileno()).st_size


NPY_START = b"\x93NUMPY"
ZIP_START = b"PK"
MAX_HEADER_BYTES = 10_000  # the limit of numpy
MAX_DIMENSIONS = 32
MAX_DIMENSION = 2**48
MAX_MEMBERS = 1000
# An archive may expand to FREE_BYTES, or to MAX_RATIO times its size if that is more.
FREE_BYTES = 2**28
MAX_RATIO = 100
CHUNK_BYTES = 2**20

_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}  # size of the field with the header's length, by version of the format
_ENTRY = (
    rb"'descr'\s*:\s*'(?P<descr>[^']{1,32})'"
    rb"|'fortran_order'\s*:\s*(?P<fortran>True|False)"
    rb"|'shape'\s*:\s*\((?P<shape>(?:\s*\d{1,18}\s*,){0,31}(?:\s*\d{1,18}\s*)?)\)"
)
_HEADER = re.compile(rb"\s*\{\s*(?:(?:" + _ENTRY + rb")\s*(?:,\s*|(?=\}))){3}\}\s*")
# Numbers, and text, which labels that are not used may contain.
_PLAIN = re.compile(r"[<>|=]?[fiubcUS][1-9]\d{0,8}")
_OBJECTS = re.compile(r"[|<>=]?O\d?")


@dataclass(frozen=True, slots=True)
class _Header:
    """The header of a .npy file, which describes its array. length_bytes: the length of the header."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    length_bytes: int

    @property
    def data_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class _BadArrayError(Exception):
    """An invalid array: what is wrong with it, and how to fix it."""

    def __init__(self, what: str, fix: str = "save it again") -> None:
        super().__init__(what, fix)


def load_npy(path: Path) -> Array:
    """Return the array of a .npy file, memory-mapped.

    Raises CalibrationError if the file is not a .npy file, is damaged, or contains Python objects.
    """
    with open_data(path) as stream, _explain_errors(path):
        header = _read_header(stream, size_bytes(stream))
        if not header.data_bytes:
            return np.empty(header.shape, header.dtype)
        return np.memmap(stream, header.dtype, "r", header.length_bytes, header.shape, header.order)


def load_npz(path: Path) -> dict[str, Array]:
    """Return the arrays of an .npz file in order. Raises CalibrationError as load_npy does."""
    with open_data(path) as stream, _explain_errors(path):
        start = stream.read(len(NPY_START))
        if start == NPY_START:
            raise _BadArrayError("is a single array", "rename it to .npy")
        if not start.startswith(ZIP_START):
            raise _BadArrayError("is not an .npz file", "save the arrays with numpy.savez")
        with zipfile.ZipFile(cast(BinaryIO, _BoundedReader(stream))) as archive:
            members = archive.infolist()
            _check_members(members, size_bytes(stream))
            return {info.filename.removesuffix(".npy"): _member(archive, info) for info in members}


class _BoundedReader:
    """A file for zipfile, which reads a whole table of contents at once and expands it to twenty times its size."""

    def __init__(self, stream: BinaryIO) -> None:
        self.seek, self.tell, self.seekable = stream.seek, stream.tell, stream.seekable
        self._read = stream.read

    def read(self, size: int = -1) -> bytes:
        """Read at most CHUNK_BYTES."""
        if size > CHUNK_BYTES:
            raise zipfile.BadZipFile("its zip directory is too large")
        return self._read(size)


def _check_members(members: list[zipfile.ZipInfo], archive_bytes: int) -> None:
    """Raise an error if the table of contents lists a zip bomb, or anything that numpy.savez does not write."""
    fix = "save the arrays with numpy.savez"
    names = [info.filename for info in members]
    for info in members:
        if not info.filename.endswith(".npy"):
            raise _BadArrayError(f"contains {info.filename!r}, which is not an array", fix)
    if len(members) > MAX_MEMBERS or len(set(names)) < len(names):
        raise _BadArrayError(f"contains {len(names):,} arrays but only {len(set(names)):,} distinct names", fix)
    total = sum(info.file_size for info in members)
    if total > max(FREE_BYTES, MAX_RATIO * archive_bytes):
        raise _BadArrayError(
            f"unpacks to {total:,} bytes, more than {MAX_RATIO} times its own size", "save it with numpy.savez"
        )


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    with archive.open(info) as stream:
        header = _read_header(cast(BinaryIO, stream), info.file_size)
        if header.length_bytes + header.data_bytes != info.file_size:  # zipfile checks the checksum only at the end
            raise EOFError
        data = np.empty(header.data_bytes, np.uint8)
        filled = 0
        while filled < len(data):
            chunk = stream.read(min(CHUNK_BYTES, len(data) - filled))
            if not chunk:
                raise EOFError
            data[filled : filled + len(chunk)] = np.frombuffer(chunk, np.uint8)
            filled += len(chunk)
    return data.view(header.dtype).reshape(header.shape, order=header.order)


def _read_header(stream: BinaryIO, max_bytes: int) -> _Header:
    """Return the header at the start of the stream, whose array must end within `max_bytes`."""
    start = stream.read(len(NPY_START) + 2)
    if not start.startswith(NPY_START):
        raise _BadArrayError("is not a .npy file", "save the array with numpy.save")
    length = _LENGTH_BYTES[start[len(NPY_START)]]
    header_bytes = int.from_bytes(stream.read(length), "little")
    if header_bytes > MAX_HEADER_BYTES:
        raise _BadArrayError(f"has a header of {header_bytes:,} bytes")
    text = stream.read(header_bytes)
    match = _HEADER.fullmatch(text)
    if match is None and b"'descr': [" in text:
        raise _BadArrayError("contains records instead of numbers", "save an array of numbers")
    if match is None or None in match.groups():
        raise EOFError
    shape = tuple(int(size) for size in match["shape"].split(b",") if size.strip())
    header = _Header(
        _dtype(match["descr"].decode("ascii")),
        shape,
        "F" if match["fortran"] == b"True" else "C",
        len(start) + length + header_bytes,
    )
    if len(shape) > MAX_DIMENSIONS or any(size >= MAX_DIMENSION for size in shape):
        raise _BadArrayError("has an invalid shape")
    if header.length_bytes + header.data_bytes > max_bytes:
        raise EOFError
    return header


def _dtype(descr: str) -> np.dtype[Any]:
    if _OBJECTS.fullmatch(descr):
        raise _BadArrayError("contains Python objects instead of numbers", "save an array of numbers")
    if not _PLAIN.fullmatch(descr):
        raise _BadArrayError(f"contains {descr} instead of numbers", "save it as float32")
    dtype: npt.DTypeLike = descr
    return np.dtype(dtype)


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    """Replace errors by CalibrationErrors that name the path: numpy's messages advise allowing pickles."""
    try:
        yield
    except _BadArrayError as error:
        what, fix = error.args
        raise CalibrationError(what, where=str(path), fix=fix) from None
    except (*DAMAGED_ZIP, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise CalibrationError(
            f"cannot be read as {path.suffix}: it is damaged or truncated", where=str(path), fix="save it again"
        ) from error
