"""Which converter wrote a .tflite, by the metadata that TensorFlow's leaves in it.

Source: conversion_metadata.fbs (TensorFlow Lite): ConversionMetadata{environment}, Environment{tensorflow_version}. It
is a hint of the file's author, so whatever is not well formed counts as not there.
"""

from __future__ import annotations

from struct import error, unpack_from

from edgetool.model.types import Model

CONVERSION = "CONVERSION_METADATA"
MINIMUM_RUNTIME = "min_runtime_version"
LONGEST_VERSION = 40
ENVIRONMENT, TENSORFLOW_VERSION = 0, 0  # the number of the field in its table


def converter_of(model: Model) -> str | None:
    """ "TensorFlow 2.21.0"; without that "for TensorFlow Lite 2.9.0", the least runtime; None where nothing tells."""
    payloads = {entry.name: entry.data for entry in model.metadata}
    version = _tensorflow_version(payloads.get(CONVERSION, b""))
    if version is not None:
        return f"TensorFlow {version}"
    least = _version(payloads.get(MINIMUM_RUNTIME, b"").rstrip(b"\0"))
    return None if least is None else f"for TensorFlow Lite {least}"


def _tensorflow_version(blob: bytes) -> str | None:
    try:
        environment = _field(blob, unpack_from("<I", blob, 0)[0], ENVIRONMENT)
        text = None if environment is None else _field(blob, environment, TENSORFLOW_VERSION)
        if text is None:
            return None
        (length,) = unpack_from("<I", blob, text)
    except error:  # an offset beyond the end
        return None
    return _version(blob[text + 4 : text + 4 + length]) if length <= LONGEST_VERSION else None


def _field(blob: bytes, table: int, number: int) -> int | None:
    """Where the field that an offset leads to begins; None where the table omits it."""
    vtable = table - unpack_from("<i", blob, table)[0]
    if vtable < 0:
        return None
    entry = 4 + 2 * number
    if unpack_from("<H", blob, vtable)[0] < entry + 2:
        return None
    (offset,) = unpack_from("<H", blob, vtable + entry)
    if not offset:
        return None
    return int(table + offset + unpack_from("<I", blob, table + offset)[0])


def _version(text: bytes) -> str | None:
    if not 0 < len(text) <= LONGEST_VERSION or any(not 0x20 < byte < 0x7F for byte in text):
        return None
    return text.decode("ascii")
