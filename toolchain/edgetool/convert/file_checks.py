"""Reject HDF5 files and zip archives that refer to other files or declare more data than they contain.

HDF5 files are checked before any array is read, and the entries of an archive before any is unpacked.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from edgetool.errors import UnsupportedModelError

# A .tflite is a flatbuffer with 32-bit offsets: no array beyond this can reach it.
ARRAY_LIMIT_BYTES = 2 * 2**30
# All arrays of a file: those, twice more for an optimizer's state, and something beside.
TOTAL_LIMIT_BYTES = 4 * ARRAY_LIMIT_BYTES
# Attributes hold a configuration or names.
ATTRIBUTE_LIMIT_BYTES = 64 * 2**20
# Texts of any length in one attribute, which may all be the same one in the file: Keras writes single ones.
TEXTS_LIMIT = 2**16
# Deflate makes nothing more than 1032 times as small: what claims more was never written. Small arrays may do so.
MOST_EXPANSION, EXPANDING_BYTES = 1100, 16 * 2**20
# h5py's own filters; for any other HDF5 loads a library from the machine. hdf5's H5Zpublic.h, h5py's lzf_filter.h.
FILTERS = frozenset([1, 2, 3, 4, 5, 6, 32000])
AGAIN = "save the model again"


def check_hdf5(file: Any, path: Path, prefix: str = "") -> None:
    """Visit every object of the open h5py.File once; prefix: for names in messages, of the file inside an archive.

    Raises UnsupportedModelError naming the object: a link, data in other files, a filter that is not h5py's own, and
    sizes beyond the limits or beyond all that is stored.
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
    if size_bytes > max(EXPANDING_BYTES, MOST_EXPANSION * stored_bytes):
        raise UnsupportedModelError(
            f"{where} declares {size_bytes} bytes, but the file contains only {stored_bytes}",
            where=str(path),
            fix=AGAIN,
        )
    properties = entry.id.get_create_plist()
    for index in range(properties.get_nfilters()):
        code, _, _, name = properties.get_filter(index)
        if code not in FILTERS:
            told = name.decode("utf-8", "replace") or f"number {code}"
            raise UnsupportedModelError(
                f"{where} is stored with the filter {told!r}, which is not one of HDF5's standard filters",
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
ENCRYPTED = 1  # in the flags of an entry


def leads_out(name: str) -> bool:
    """Whether the name of an inner file leads out of the folder it belongs to, on any system."""
    windows = PureWindowsPath(name)
    return ".." in windows.parts or bool(windows.drive or windows.root) or PurePosixPath(name).is_absolute()


def check_entries(entries: Sequence[zipfile.ZipInfo], path: Path) -> None:
    """Raise UnsupportedModelError naming the first entry of an archive that is not to be trusted.

    What zipfile reads of an entry never exceeds the size that the entry claims, whatever entries share, and it makes a
    file of a symbolic link.
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
    """What is wrong with an entry, after the names before it."""
    if leads_out(entry.filename) or "\\" in entry.filename:
        return "points outside the archive"
    if entry.filename in seen:
        return "occurs twice"
    if entry.flag_bits & ENCRYPTED:
        return "is encrypted"
    if entry.compress_type not in METHODS:
        return "uses a compression method that Keras does not use"
    if entry.file_size > max(EXPANDING_BYTES, MOST_EXPANSION * entry.compress_size):
        return f"declares {entry.file_size} bytes but occupies only {entry.compress_size}"
    return None
