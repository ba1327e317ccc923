"""Recognizes kinds of files other than .tflite by their content, and advises what to do with them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass

HEAD_BYTES = 4096
# The endings of files from which 'edgetool convert' infers the format of a model.
ENDINGS = (".tflite", ".h5", ".keras", ".pt2", ".onnx")
_ONNX_TAGS = b"\x12\x1a\x22\x28\x32\x3a\x42"  # of fields 2 to 8 of ModelProto
_TOML_LINE = re.compile(rb"\[{1,2}[A-Za-z_][\w.\"-]*\]{1,2}.*|[\w.\"-]+\s*=\s*[\"'\[{\d-].*")
_CONVERT = "convert it first: edgetool convert {name} --target NAME"
_AS_PROGRAM = (
    "export the model with torch.export.save(torch.export.export(model.eval(), (example_input,)), 'model.pt2'), then "
    "convert it with 'edgetool convert'"
)
_HEX_TFL3 = re.compile(rb"0x54,\s*0x46,\s*0x4c,\s*0x33", re.IGNORECASE)  # "TFL3", as xxd -i writes it


@dataclass(frozen=True, slots=True)
class FileKind:
    """what: a phrase that completes "this is ...". fix: the advice, with {name} for the path quoted for a shell.

    ending: the file name ending that 'edgetool convert' expects of this kind; None if it cannot be converted.
    """

    what: str
    fix: str
    ending: str | None = None

    def advice(self, name: str) -> str:
        """Return what to do with the file of this name; one with the ending of another kind must be renamed first."""
        if self.ending is not None and name.lower().endswith(ENDINGS) and not name.lower().endswith(self.ending):
            return f"rename it to end in {self.ending}, then convert it with 'edgetool convert'"
        return self.fix.format(name=shlex.quote(name))


def file_kind(blob: bytes) -> FileKind | None:
    """Return the kind of file that the bytes belong to; None if they match no known kind."""
    return next((kind for matches, kind in _KINDS if matches(blob)), None)


def _starts(*heads: bytes) -> Callable[[bytes], bool]:
    return lambda blob: blob.startswith(heads)


def _archive_of(*entries: bytes) -> Callable[[bytes], bool]:
    """Match a zip archive with one of the entries; names are not compressed and survive in a truncated archive."""
    return lambda blob: blob.startswith(b"PK\x03\x04") and any(entry in blob for entry in entries)


def _is_onnx(blob: bytes) -> bool:
    """Match a protobuf that begins with ir_version (3 or later), followed by another field of ModelProto."""
    return len(blob) > 2 and blob[0] == 0x08 and 3 <= blob[1] <= 31 and blob[2] in _ONNX_TAGS


def _is_text(blob: bytes) -> bool:
    return all(0x20 <= byte <= 0x7E or byte in b"\t\n\r" for byte in blob[:256])


def _is_json(blob: bytes) -> bool:
    return blob[:HEAD_BYTES].lstrip().startswith((b"{", b"["))


def _is_toml(blob: bytes) -> bool:
    """Match text whose first line, after empty lines and comments, is a key or a table."""
    lines = (line.strip() for line in blob[:HEAD_BYTES].splitlines())
    first = next((line for line in lines if line and not line.startswith(b"#")), b"")
    return _is_text(blob) and _TOML_LINE.fullmatch(first) is not None


_KINDS: tuple[tuple[Callable[[bytes], bool], FileKind], ...] = (
    (lambda blob: blob[4:8] == b"TFL3", FileKind("a .tflite model", "use it as it is", ".tflite")),
    (_starts(b"\x89HDF\r\n\x1a\n"), FileKind("an HDF5 file, the format of Keras .h5 files", _CONVERT, ".h5")),
    (
        _archive_of(b"config.json", b"model.weights.h5"),
        FileKind("a Keras model, as in .keras files", _CONVERT, ".keras"),
    ),
    (
        _archive_of(b"/models/model.json", b"/data/weights/weight_"),
        FileKind("a PyTorch program, as in .pt2 files", _CONVERT, ".pt2"),
    ),
    (_archive_of(b"/data.pkl"), FileKind("a pickled PyTorch file", _AS_PROGRAM)),
    (_archive_of(b"saved_model.pb"), FileKind("a zip archive of a SavedModel", "unpack it, and convert the directory")),
    (_archive_of(b".npy"), FileKind("an .npz archive of arrays", "use the model; pass arrays with --calibration")),
    (_archive_of(b""), FileKind("a zip archive", "unpack it")),
    (
        _starts(b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
        FileKind("a pickle file, such as PyTorch writes", _AS_PROGRAM),
    ),
    (
        _starts(b"\x08\x01\x12"),
        FileKind("the saved_model.pb of a SavedModel", "pass its directory to 'edgetool convert'"),
    ),
    (_is_onnx, FileKind("an ONNX model", _CONVERT, ".onnx")),
    (_starts(b"\x93NUMPY"), FileKind("an .npy array", "use the model; pass arrays with --calibration")),
    (_starts(b"\x1f\x8b"), FileKind("a gzip archive", "unpack it")),
    (lambda blob: blob[257:262] == b"ustar", FileKind("a tar archive", "unpack it")),
    (_starts(b"\x7fELF"), FileKind("an ELF program or object file", "use the .tflite that it was built from")),
    (
        _starts(b"version https://git-lfs"),
        FileKind("a Git LFS pointer", "fetch it with 'git lfs pull'"),
    ),
    (
        lambda blob: blob[:HEAD_BYTES].lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")),
        FileKind("a web page", "download the file itself, not the page that shows it"),
    ),
    (
        lambda blob: _HEX_TFL3.search(blob[: 2 * HEAD_BYTES]) is not None,
        FileKind("the C array of a .tflite", "use the .tflite that it was made from"),
    ),
    (_is_toml, FileKind("a TOML file", "use the .tflite; pass a board profile with --target")),
    (
        lambda blob: _is_json(blob) and b'"edgetool/' in blob[:HEAD_BYTES],
        FileKind("an edgetool report", "use the .tflite that it describes"),
    ),
    (
        lambda blob: _is_json(blob) and b'"class_name"' in blob[:HEAD_BYTES],
        FileKind(
            "the configuration of a Keras model, without its weights", "save the model with model.save('model.keras')"
        ),
    ),
    (_is_json, FileKind("a JSON document", "use the .tflite")),
    (_is_text, FileKind("a text file", "use the .tflite that the converter wrote")),
)
