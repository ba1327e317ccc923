"""Files that are no flatbuffer, no .tflite, or not all of one: identifiers, cut files, offsets, vtables, lengths."""

from __future__ import annotations

import gzip
from struct import pack

from tests.attacks.base import Attack, bytes_changed, on_distance, on_length, on_offset, on_vtable, sound
from tests.attacks.places import GRAPH, INPUT, LEAST, MAX_UNSIGNED, MOST, OPERATOR, ROOT, WEIGHTS
from tests.model.attacks import field_at, follow, patched, records, target_at


def _table_in_place_of_a_vector(blob: bytes) -> bytes:
    """The tensors are where the subgraph's own table is: what looks like a cycle is a length of nonsense."""
    graph = follow(records(blob), GRAPH)
    at = field_at(blob, graph, "tensors")
    return patched(blob, at, "I", (graph.at - at) % 2**32)


def _element_is_the_vector(blob: bytes) -> bytes:
    """The first subgraph lies where the vector of subgraphs does."""
    root = records(blob)
    return patched(blob, target_at(blob, root, "subgraphs") + 4, "I", MAX_UNSIGNED - 3)


def _odd_text(blob: bytes) -> bytes:
    tensor = follow(records(blob), INPUT)
    return patched(blob, target_at(blob, tensor, "name") + 4, "B", 0xFF)


def _unknown_union(blob: bytes) -> bytes:
    operator = follow(records(blob), OPERATOR)
    return patched(blob, field_at(blob, operator, "builtin_options"), "B", 255)


ATTACKS = {
    "identifier-of-version-2": bytes_changed(lambda blob: blob[:4] + b"TFL2" + blob[8:], "not a .tflite model"),
    "identifier-none": bytes_changed(lambda blob: blob[:4] + bytes(4) + blob[8:], "not a .tflite model"),
    "identifier-shifted": bytes_changed(lambda blob: pack("<I", len(blob)) + blob, "not a .tflite model"),
    "identifier-alone": Attack(lambda: b"\x08\0\0\0TFL3", "beyond the end"),
    "identifier-of-hdf5": Attack(lambda: b"\x89HDF\r\n\x1a\n" + bytes(64), "an HDF5 file"),
    "identifier-of-zip": Attack(lambda: b"PK\x03\x04" + bytes(64), "a zip archive"),
    "identifier-of-gzip": Attack(lambda: gzip.compress(sound(), mtime=0), "a gzip archive"),
    "identifier-of-text": Attack(lambda: b"<!DOCTYPE html>\n<title>404</title>", "a web page"),
    "identifier-of-git-lfs": Attack(
        lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer"
    ),
    "cut-to-nothing": Attack(lambda: b"", "the file is empty"),
    "cut-to-the-root": bytes_changed(lambda blob: blob[:12], "beyond the end"),
    "cut-in-the-middle": bytes_changed(lambda blob: blob[: len(blob) // 2], "end of the file"),
    "cut-by-a-block": bytes_changed(lambda blob: blob[:-64], "end of the file"),
    "root-past-the-end": bytes_changed(lambda blob: patched(blob, 0, "I", len(blob)), "beyond the end"),
    "root-near-4-gib": bytes_changed(lambda blob: patched(blob, 0, "I", MAX_UNSIGNED - 3), "beyond the end"),
    "root-not-aligned": bytes_changed(lambda blob: patched(blob, 0, "I", 18), "not aligned"),
    "root-is-the-header": bytes_changed(lambda blob: patched(blob, 0, "I", 4), "vtable"),
    "offset-zero": on_offset(INPUT, "shape", 0, "does not point to data"),
    "offset-past-the-end": on_offset(GRAPH, "tensors", MOST, "points past the end"),
    "offset-negative": on_offset(GRAPH, "operators", -64, "points past the end"),
    "offset-to-its-own-table": bytes_changed(_table_in_place_of_a_vector, "past the end"),
    "offset-of-an-element-to-its-vector": bytes_changed(_element_is_the_vector, "points past the end"),
    "offset-in-a-union": bytes_changed(
        lambda blob: patched(blob, field_at(blob, follow(records(blob), OPERATOR), "builtin_options", 1), "I", MOST),
        "points past the end",
    ),
    "vtable-before-the-file": on_distance(INPUT, MOST, "vtable would be"),
    "vtable-after-the-file": on_distance(INPUT, LEAST, "vtable would be"),
    "vtable-in-its-own-table": on_distance(INPUT, 0, "declares sizes"),
    "vtable-too-large": on_vtable(INPUT, 0, 0xFFFE, "declares sizes"),
    "vtable-of-a-table-too-large": on_vtable(INPUT, 1, 0xFFFF, "extend past the end"),
    "vtable-with-a-field-outside": on_vtable(INPUT, 2, 0xFFF0, "outside its table"),
    "vector-longer-than-the-file": on_length(INPUT, "shape", 10_000, "extend past the end"),
    "vector-of-4-g-elements": on_length(INPUT, "shape", MAX_UNSIGNED, "extend past the end"),
    "vector-of-1-g-tables": on_length(ROOT, "subgraphs", 2**30, "extend past the end"),
    "vector-of-a-payload-cut": on_length(("buffers", 1), "data", 100_000, "extend past the end"),
    "text-longer-than-the-file": on_length(WEIGHTS, "name", MAX_UNSIGNED, "extend past the end"),
    "text-without-an-end": on_length(WEIGHTS, "name", 4, "null-terminated"),
    "text-that-is-not-utf-8": bytes_changed(_odd_text, "not valid UTF-8"),
    "union-of-an-unknown-type": bytes_changed(_unknown_union, "BuiltinOptions number 255"),
}
