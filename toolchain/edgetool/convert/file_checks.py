"""Reject HDF5 files and zip archives that refer to other files or declare more data than they contain.

HDF5 files are checked before any array is read, and the entries of an archive before any is unpacked.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from edgetool.errors import UnsupportedModelError

# A .tflite is a flatbuffer with 32-bit offsets, which cannot contain a larger array.
ARRAY_LIMIT_BYTES = 2 * 2**30
# All arrays of a file: the weights, twice their size for the state of an optimizer, and a margin.
TOTAL_LIMIT_BYTES = 4 * ARRAY_LIMIT_BYTES
# Attributes contain a configuration or names.
ATTRIBUTE_LIMIT_BYTES = 64 * 2**20
# Variable-length strings in one attribute, which can all be the same one in the file; Keras writes only one.
TEXTS_LIMIT = 2**16
# Deflate compresses by a factor of at most 1032: more data than that is not stored. Smaller arrays than EXPANDING_BYTES
# are accepted anyway.
MAX_EXPANSION, EXPANDING_BYTES = 1100, 16 * 2**20
# Filters in h5py; for others, HDF5 loads a library from the machine. Sources: H5Zpublic.h (HDF5), lzf_filter.h (h5py).
FILTERS = frozenset([1, 2, 3, 4, 5, 6, 32000])
AGAIN = "save the model again"


def check_hdf5(file: Any, path: Path, prefix: str = "") -> None:
    """Check every object of the open h5py.File once.

    Args:
        prefix: the name of the file inside an archive, for messages.

    Raises UnsupportedModelError naming an object that is a link, has its data in another file, uses a filter that h5py
    does not contain, or declares a size beyond the limits or beyond the stored data.
    """
    import h5py

    seen: set[Any] = set()
    pending, total_bytes = [file], 0
    _check_attributes(file, prefix or "/", path)
    while pending:
        group = pending.pop()
        for name in group:
            where = f"{prefix}{group.name.rstrip('/')}/{name}"
            if isinstance(group.get(name, getlink=True), h5py.ExternalLink | h5py.SoftLink):
                raise UnsupportedModelError(f"{where} is a link", where=str(path), fix=AGAIN)
            entry = group[name]
            if isinstance(entry, h5py.Datatype):
                continue
            address = h5py.h5o.get_info(entry.id).addr
            if address in seen:
                continue
            seen.add(address)
            _check_attributes(entry, where, path)
            if isinstance(entry, h5py.Group):
                pending.append(entry)
                continue
            _check_dataset(entry, where, path)
            total_bytes += entry.nbytes
            if total_bytes > TOTAL_LIMIT_BYTES:
                raise UnsupportedModelError(
                    f"its arrays up to {where} declare a total of {total_bytes} bytes, more than any model that can be "
                    "converted",
                    where=str(path),
                    fix=AGAIN,
                )


def _check_dataset(entry: Any, where: str, path: Path) -> None:
    if entry.external or entry.is_virtual:
        raise UnsupportedModelError(f"{where} stores its data in another file", where=str(path), fix=AGAIN)
    size_bytes = entry.nbytes
    if size_bytes > ARRAY_LIMIT_BYTES:
        raise UnsupportedModelError(
            f"{where} declares {size_bytes} bytes, more than a .tflite file can contain", where=str(path)
        )
    stored_bytes = entry.id.get_storage_size()
    if size_bytes > max(EXPANDING_BYTES, MAX_EXPANSION * stored_bytes):
        raise UnsupportedModelError(
            f"{where} declares {size_bytes} bytes, but the file contains only {stored_bytes}",
            where=str(path),
            fix=AGAIN,
        )
    properties = entry.id.get_create_plist()
    for index in range(properties.get_nfilters()):
        code, _, _, name = properties.get_filter(index)
        if code not in FILTERS:
            filter_name = name.decode("utf-8", "replace") or f"number {code}"
            raise UnsupportedModelError(
                f"{where} is stored with the filter {filter_name!r}, which is not one of HDF5's standard filters",
                where=str(path),
                fix=AGAIN,
            )


def _check_attributes(entry: Any, where: str, path: Path) -> None:
    for name in entry.attrs:
        attribute = entry.attrs.get_id(name)
        count = attribute.get_space().get_simple_extent_npoints()
        if count > TEXTS_LIMIT and attribute.dtype.hasobject:
            raise UnsupportedModelError(
                f"attribute {name!r} of {where} declares {count} variable-length strings", where=str(path), fix=AGAIN
            )
        size_bytes = count * attribute.get_type().get_size()
        if size_bytes > ATTRIBUTE_LIMIT_BYTES:
            raise UnsupportedModelError(
                f"attribute {name!r} of {where} declares {size_bytes} bytes", where=str(path), fix=AGAIN
            )


METHODS = frozenset([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
ENCRYPTED = 1  # bit in the flags of an entry


def leads_out(name: str) -> bool:
    """Return whether the name of an inner file is a path out of its folder on any operating system."""
    windows = PureWindowsPath(name)
    return ".." in windows.parts or bool(windows.drive or windows.root) or PurePosixPath(name).is_absolute()


def check_entries(entries: Sequence[zipfile.ZipInfo], path: Path) -> None:
    """Raise UnsupportedModelError naming the first entry of an archive that cannot be trusted.

    The sizes that entries declare are sufficient, because zipfile reads no more than that, even if entries overlap.
    Symbolic links need no check, because it unpacks them as files.
    """
    seen: set[str] = set()
    for entry in entries:
        reason = _reason(entry, seen)
        if reason is not None:
            raise UnsupportedModelError(f"entry {entry.filename!r} {reason}", where=str(path), fix=AGAIN)
        seen.add(entry.filename)
    claimed_bytes = sum(entry.file_size for entry in entries)
    if claimed_bytes > TOTAL_LIMIT_BYTES:
        raise UnsupportedModelError(
            f"its files declare a total of {claimed_bytes} bytes, more than any convertible model can have",
            where=str(path),
        )


def _reason(entry: zipfile.ZipInfo, seen: set[str]) -> str | None:
    """Return what is wrong with an entry, None if nothing is. seen: the names of the entries before it."""
    if leads_out(entry.filename) or "\\" in entry.filename:
        return "points outside the archive"
    if entry.filename in seen:
        return "occurs twice"
    if entry.flag_bits & ENCRYPTED:
        return "is encrypted"
    if entry.compress_type not in METHODS:
        return "uses a compression method that Keras does not use"
    if entry.file_size > max(EXPANDING_BYTES, MAX_EXPANSION * entry.compress_size):
        return f"declares {entry.file_size} bytes but occupies only {entry.compress_size}"
    return None
