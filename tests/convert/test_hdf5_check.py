"""HDF5 files that claim more than they hold or reach for other files, as whole models and inside .keras archives."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.convert import file_checks
from edgetool.convert.source import read_model_file
from edgetool.errors import UnsupportedModelError

h5py = pytest.importorskip("h5py", reason="needs the convert extra")
CONFIG = json.dumps({"class_name": "Sequential", "config": {"layers": []}})
MANY = 2**26  # of floats 256 MiB
Change = Callable[[Any], object]


def filtered(file: Any, code: int) -> None:
    """An array whose chunks say that they went through a filter of that number."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((4,))
    properties.set_filter(code, h5py.h5z.FLAG_OPTIONAL, ())
    h5py.h5d.create(file.id, b"w", h5py.h5t.NATIVE_FLOAT, h5py.h5s.create_simple((8,)), properties)


def virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("secret.h5", "x", (4,))
    file.create_virtual_dataset("w", layout)


def many_arrays(file: Any) -> None:
    for index in range(5):
        file.create_dataset(f"w{index}", (file_checks.ARRAY_LIMIT_BYTES // 4,), "f4", chunks=(2**16,))


# What is wrong with a file, and how it is reported.
HOSTILE: dict[str, tuple[Change, str]] = {
    "never written": (
        lambda file: file.create_dataset("w", (MANY,), "f4"),
        "w declares 268435456 bytes, .* contains only 0",
    ),
    "hardly written": (
        lambda file: file.create_dataset("w", (MANY,), "f4", chunks=(1024,)).__setitem__(0, 1.0),
        "w declares 268435456 bytes, .* contains only 4096",
    ),
    "beyond a .tflite": (lambda file: file.create_dataset("w", (2**40,), "f4", chunks=(1024,)), "than a .tflite"),
    "beyond 64 bits": (lambda file: file.create_dataset("w", (2**31, 2**31), "f4", chunks=(9, 9)), "than a .tflite"),
    "a link elsewhere": (lambda file: file.__setitem__("w", h5py.ExternalLink("secret.h5", "/x")), "w is a link"),
    "a soft link": (lambda file: file.__setitem__("w", h5py.SoftLink("/nowhere")), "w is a link"),
    "data elsewhere": (
        lambda file: file.create_dataset("w", (4,), "f4", external=[("secret.bin", 0, 16)]),
        "w stores its data in another file",
    ),
    "virtual data": (virtual, "w stores its data in another file"),
    "a filter of others": (lambda file: filtered(file, 32015), "w is stored with the filter"),
}


def h5(path: Path, change: Change) -> Path:
    with h5py.File(path, "w", libver="latest") as file:
        file.attrs["model_config"] = CONFIG
        change(file)
    return path


def archived(path: Path, weights: bytes, method: int) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("config.json", CONFIG)
        archive.writestr("model.weights.h5", weights)
    return path


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_by_the_objects_name(tmp_path: Path, name: str) -> None:
    change, said = HOSTILE[name]
    path = h5(tmp_path / "a.h5", change)
    with pytest.raises(UnsupportedModelError, match=said) as caught:
        read_model_file(path)
    assert caught.value.where == str(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("name", HOSTILE)
def test_so_it_is_inside_an_archive(tmp_path: Path, name: str, method: int) -> None:
    change, said = HOSTILE[name]
    path = archived(tmp_path / "a.keras", h5(tmp_path / "a.h5", change).read_bytes(), method)
    with pytest.raises(UnsupportedModelError, match=said) as caught:
        read_model_file(path)
    if not said.startswith("than"):
        assert "model.weights.h5" in caught.value.what


def test_arrays_that_are_too_much_together_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_checks, "EXPANDING_BYTES", 2**40)  # this is about their sum
    with pytest.raises(UnsupportedModelError, match="its arrays up to /w4 declare a total of 10737418240 bytes"):
        read_model_file(h5(tmp_path / "a.h5", many_arrays))


def test_what_keras_writes_passes(tmp_path: Path) -> None:
    """Zeros compressed as far as it goes, the same array under two names, groups in a ring, small empty arrays."""

    def honest(file: Any) -> None:
        file.create_dataset("zeros", data=np.zeros((5_000_000,), "f4"), compression="gzip", compression_opts=9)
        file.create_dataset("fast", data=np.arange(1000.0), compression="lzf", shuffle=True, fletcher32=True)
        file["again"] = file["zeros"]
        file.create_group("ring")["ring"] = file["/"]
        file.create_dataset("empty", (0, 7), "f4")
        file.create_dataset("optional", (1000,), "f4")
        file.create_dataset("null", dtype="f4")
        file["type"] = np.dtype("f4")
        file.attrs["layer_names"] = [b"a" * 100] * 500
        file.attrs["weight_names"] = []
        file.attrs["nothing"] = h5py.Empty("f4")

    path = h5(tmp_path / "a.h5", honest)
    assert read_model_file(path).config == json.loads(CONFIG)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        assert read_model_file(archived(tmp_path / "a.keras", path.read_bytes(), method)).kind == "keras"


@pytest.mark.parametrize("where", ["/", "/layer", "/layer/w"])
def test_attributes_that_are_too_large_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def change(file: Any) -> None:
        file.create_dataset("layer/w", data=[1.0])
        file[where].attrs["names"] = np.bytes_(b"[" * 2000)

    monkeypatch.setattr(file_checks, "ATTRIBUTE_LIMIT_BYTES", 1000)
    with pytest.raises(UnsupportedModelError, match=f"attribute 'names' of {where} declares 2000 bytes"):
        read_model_file(h5(tmp_path / "a.h5", change))


def test_many_texts_of_any_length_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is 16 bytes, which may stand for the same large one."""

    def change(file: Any) -> None:
        file.attrs["plain"] = np.zeros(100, "S3")
        file.attrs.create("names", ["text"] * count, dtype=h5py.string_dtype())

    monkeypatch.setattr(file_checks, "TEXTS_LIMIT", 4)
    count = 4
    read_model_file(h5(tmp_path / "a.h5", change))
    count = 5
    with pytest.raises(UnsupportedModelError, match="attribute 'names' of / declares 5 variable-length strings"):
        read_model_file(h5(tmp_path / "b.h5", change))
