"""Opens a file of samples, which may be anything that has a path."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from edgetool.errors import CalibrationError

# Opening a pipe would wait for whoever writes to it; Windows reads text unless told otherwise.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@contextlib.contextmanager
def open_data(path: Path) -> Iterator[BinaryIO]:
    """The open file. Raises CalibrationError for what cannot be read, and for pipes and devices: they may never end."""
    try:
        descriptor = os.open(path, _FLAGS)
    except (OSError, ValueError) as error:  # the latter for a name that no file can have
        said = f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else "is not a path"
        raise CalibrationError(said, where=str(path), fix="specify a readable file") from error
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise CalibrationError("is a pipe or a device, not a file", where=str(path), fix="specify a regular file")
        yield stream


def size_bytes(stream: BinaryIO) -> int:
    """The size of an open file."""
    return os.fstat(stream.fileno()).st_size
