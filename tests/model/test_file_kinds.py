"""Files that are taken for a .tflite: what each is, and what to do with it."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import InvalidModelError
from edgetool.model.file_kinds import file_kind
from edgetool.model.reader import read_model


def archive(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name in names:
            file.writestr(name, "{}")
    return stream.getvalue()


def npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.zeros(3))
    return stream.getvalue()


def tar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as file:
        file.addfile(tarfile.TarInfo("saved_model.pb"))
    return stream.getvalue()


KERAS = archive("metadata.json", "config.json", "model.weights.h5")
CASES = {
    "h5": (b"\x89HDF\r\n\x1a\n" + bytes(64), "HDF5", "edgetool convert 'my model' --target NAME"),
    "keras": (KERAS, "a Keras model", "edgetool convert 'my model' --target NAME"),
    "keras, truncated": (KERAS[:120], "a Keras model", "edgetool convert"),
    "pytorch": (archive("archive/data.pkl", "archive/version"), "PyTorch", "torch.export.save("),
    "program": (archive("m/models/model.json", "m/archive_format"), "a PyTorch program", "edgetool convert 'my model'"),
    "program, truncated": (archive("m/data/weights/weight_0")[:60], "a PyTorch program", "edgetool convert"),
    "pickle": (b"\x80\x04\x95" + bytes(20), "PyTorch", "torch.export.save("),
    "zip of a SavedModel": (archive("m/saved_model.pb"), "zip archive of a SavedModel", "unpack"),
    "npz": (archive("x.npy"), ".npz", "--calibration"),
    "other zip": (archive("readme"), "a zip archive", "unpack"),
    "saved_model.pb": (b"\x08\x01\x12\xd8\x01" + bytes(20), "saved_model.pb", "directory"),
    "onnx": (b"\x08\x08\x12\x07pytorch\x1a\x052.1.0:\x10", "ONNX", "edgetool convert 'my model'"),
    "npy": (npy(), ".npy", "--calibration"),
    "tar": (tar(), "tar archive", "unpack"),
    "gzip": (b"\x1f\x8b\x08" + bytes(20), "gzip", "unpack"),
    "elf": (b"\x7fELF" + bytes(60), "ELF", ".tflite"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer", "git lfs pull"),
    "html": (b"\n<!DOCTYPE html>\n<html>", "web page", "download"),
    "c array": (
        b"#include <stdint.h>\nconst unsigned char g_model[] = {\n  0x1c, 0x00, 0x00, 0x00, 0x54, 0x46, 0x4C,\n 0x33,",
        "C array",
        "it was made from",
    ),
    "report": (json.dumps({"schema": "edgetool/1"}).encode(), "edgetool report", "describes"),
    "architecture": (json.dumps({"class_name": "Sequential"}).encode(), "without its weights", "model.save"),
    "json": (b" [1]", "JSON", ".tflite"),
    "toml": (b'# a board\n\nname = "mine"\n', "TOML", "--target"),
    "toml table": (b"[check]\n", "TOML", "--target"),
    "text": (b"hello\n", "text file", ".tflite"),
    "c++": (b"int main() { return 0; }\n", "text file", ".tflite"),
    "random": (bytes(range(256)), "not a .tflite model", "TFL3"),
}


@pytest.mark.parametrize("case", CASES)
def test_each_kind_gets_its_own_advice(case: str) -> None:
    blob, what, fix = CASES[case]
    with pytest.raises(InvalidModelError) as caught:
        read_model(blob, name="my model")
    assert what in caught.value.what
    assert fix in (caught.value.fix or "")
    assert "give it the ending" not in str(caught.value)


@pytest.mark.parametrize(("case", "ending"), [("keras", ".keras"), ("h5", ".h5")])
def test_a_model_named_tflite_must_be_renamed(case: str, ending: str) -> None:
    with pytest.raises(InvalidModelError, match=f"rename it to end in {ending}, then convert it"):
        read_model(CASES[case][0], name="dir/lstm.tflite")


@pytest.mark.parametrize(
    ("case", "name"), [("onnx", "model.keras"), ("program", "model.h5"), ("keras", "model.onnx"), ("h5", "model.pt2")]
)
def test_a_model_named_as_another_kind_must_be_renamed(case: str, name: str) -> None:
    kind = file_kind(CASES[case][0])
    assert kind is not None
    assert kind.advice(name) == f"rename it to end in {kind.ending}, then convert it with 'edgetool convert'"
    assert "edgetool convert" in kind.advice(f"model{kind.ending}")


@given(st.sampled_from([blob for blob, _, _ in CASES.values()]), st.binary(max_size=40), st.integers(0, 300))
def test_any_bytes_have_at_most_one_kind(head: bytes, noise: bytes, cut: int) -> None:
    for blob in (head[:cut] + noise, noise + head[:cut]):
        kind = file_kind(blob)
        assert kind is None or (kind.what and kind.advice("x"))
