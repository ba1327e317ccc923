from __future__ import annotations

import json
import os
import shutil
import signal
import zipfile
from pathlib import Path

import pytest

from edgetool.convert import source
from edgetool.convert.source import read_model_file
from edgetool.errors import EdgetoolError, InvalidModelError, UnsupportedModelError, UsageError

CONFIG = {"class_name": "Sequential", "config": {"layers": []}}


def write_hdf5(path: Path, **attributes: object) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name, value in attributes.items():
            file.attrs[name] = value
        file.create_dataset("model_weights/dense/kernel", data=list(range(1000)))
    return path


def weights(tmp_path: Path) -> bytes:
    """The bytes of an HDF5 file with a small array."""
    return write_hdf5(tmp_path / "weights.h5").read_bytes()


def write_zip(path: Path, **members: str | bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "."), text)
    return path


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"hello, I am text\n", "text file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
        (b"\x1c\0\0\0TFL3" + bytes(20), "rename it to end in .tflite"),
        (b"\x08\x08\x12\x07pytorch\x1a\x052.1.0:\x10", "an ONNX model, not a Keras model; rename it to end in .onnx"),
        (bytes(range(256)), "neither HDF5 nor"),
        (b"\x89HDF\r\n\x1a\n" + bytes(40), "damaged"),
        (b"PK\x03\x04" + bytes(40), "damaged"),
    ],
)
def test_a_file_that_is_not_a_model_is_reported_in_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    if content.startswith(b"\x89HDF"):
        pytest.importorskip("h5py")
    path = tmp_path / "model.h5"
    path.write_bytes(content)
    with pytest.raises(InvalidModelError) as caught:
        read_model_file(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3


def test_hdf5_models_are_read_without_keras(tmp_path: Path) -> None:
    source = read_model_file(write_hdf5(tmp_path / "a.h5", model_config=json.dumps(CONFIG), keras_version="2.4.0"))
    assert (source.kind, source.config, source.keras_version, source.legacy) == ("h5", CONFIG, "2.4.0", True)


@pytest.mark.parametrize(("version", "legacy"), [("3.15.1", False), ("2.21.0", True), ("1.2", True), ("", True)])
def test_the_version_distinguishes_legacy_files(tmp_path: Path, version: str, legacy: bool) -> None:
    path = write_hdf5(tmp_path / "a.h5", model_config=json.dumps(CONFIG), keras_version=version)
    assert read_model_file(path).legacy is legacy


@pytest.mark.parametrize("keep", [0.3, 0.9, 0.999])
def test_truncated_hdf5_is_reported(tmp_path: Path, keep: float) -> None:
    path = write_hdf5(tmp_path / "a.h5", model_config=json.dumps(CONFIG))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(InvalidModelError, match="truncated"):
        read_model_file(path)


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"layer_names": ["dense"]}, "only weights"),
        ({}, "does not contain a Keras model"),
        ({"model_config": "{oops"}, "not valid JSON"),
        ({"model_config": "[1]"}, "not a JSON object"),
        ({"model_config": "[" * 100_000}, "not valid JSON"),
    ],
)
def test_hdf5_without_a_model_is_reported(tmp_path: Path, attributes: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidModelError, match=said):
        read_model_file(write_hdf5(tmp_path / "a.h5", **attributes))


def test_hdf5_with_external_data_is_rejected(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(64))
    path = write_hdf5(tmp_path / "a.h5", model_config=json.dumps(CONFIG))
    with h5py.File(path, "r+") as file:
        file["model_weights/link"] = h5py.ExternalLink(str(secret), "/x")
    with pytest.raises(UnsupportedModelError, match="/model_weights/link is a link"):
        read_model_file(path)
    path = write_hdf5(tmp_path / "b.h5", model_config=json.dumps(CONFIG))
    with h5py.File(path, "r+") as file:
        file.create_dataset("model_weights/raw", (64,), "u1", external=[(str(secret), 0, 64)])
    with pytest.raises(UnsupportedModelError, match="raw stores its data in another file"):
        read_model_file(path)


def test_hdf5_that_claims_more_than_a_tflite_can_hold_is_refused(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = write_hdf5(tmp_path / "a.h5", model_config=json.dumps(CONFIG))
    with h5py.File(path, "r+") as file:
        file.create_dataset("model_weights/bomb", (1 << 40,), "f4", chunks=(1024,))
    with pytest.raises(UnsupportedModelError, match="bomb declares"):
        read_model_file(path)


def test_keras_archives_are_read(tmp_path: Path) -> None:
    path = write_zip(
        tmp_path / "a.keras",
        config__json=json.dumps(CONFIG),
        metadata__json='{"keras_version": "3.9"}',
        model__weights__h5=weights(tmp_path),
    )
    source = read_model_file(path)
    assert (source.kind, source.config, source.legacy) == ("keras", CONFIG, False)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"readme__txt": "x"}, "has no config.json"),
        ({"config__json": "{}"}, "no weights"),
        ({"config__json": "nope", "model__weights__h5": ""}, "not valid JSON"),
        ({"config__json": "{}", "model__weights__h5": "none"}, "HDF5 file is damaged"),
    ],
)
def test_zip_files_that_are_not_keras_files_are_reported(tmp_path: Path, members: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidModelError, match=said):
        read_model_file(write_zip(tmp_path / "a.h5", **members))


def test_a_configuration_bomb_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.keras", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", " " * (65 * 2**20))
        archive.writestr("model.weights.h5", "")
    with pytest.raises(UnsupportedModelError, match=r"config\.json declares"):
        read_model_file(tmp_path / "a.keras")


@pytest.mark.parametrize("files", [{}, {"saved_model.pb": b""}, {"variables": b"x"}])
def test_directories_that_are_not_saved_models_are_reported(tmp_path: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidModelError, match=r"saved_model\.pb"):
        read_model_file(tmp_path)


def test_any_cut_and_any_flip_of_an_archive_is_our_own_error_or_fine(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.keras", config__json=json.dumps(CONFIG), model__weights__h5=weights(tmp_path))
    read_model_file(path)
    content = path.read_bytes()
    seen = set()
    for index in range(0, len(content), 29):
        for mutant in (content[:index], content[:index] + bytes([content[index] ^ 0x41]) + content[index + 1 :]):
            path.write_bytes(mutant)
            try:
                seen.add(type(read_model_file(path)))
            except EdgetoolError as error:
                seen.add(type(error))
    assert InvalidModelError in seen


def test_pipes_and_devices_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.h5")
    for path in (tmp_path / "pipe.h5", Path("/dev/zero")):
        with pytest.raises(UsageError, match="is not a regular file"):
            read_model_file(path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"x")
    assert read_model_file(tmp_path / "model").kind == "saved_model"
    (tmp_path / "model" / "variables").mkdir()
    os.mkfifo(tmp_path / "model" / "variables" / "variables.index")
    with pytest.raises(InvalidModelError, match=r"variables/variables\.index in it is not a regular file"):
        read_model_file(tmp_path / "model")


def test_what_cannot_be_opened_is_wrong_usage(tmp_path: Path) -> None:
    loop = tmp_path / "loop.keras"
    loop.symlink_to(loop)
    for path in (loop, tmp_path / "none.h5"):
        with pytest.raises(UsageError, match="cannot be read: ") as caught:
            read_model_file(path)
        assert caught.value.where == str(path)


def test_a_part_of_a_saved_model_that_cannot_be_opened_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"x")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UsageError, match="cannot be read: Permission denied"):
        read_model_file(tmp_path)


@pytest.mark.skipif(not hasattr(signal, "getitimer"), reason="the system has no alarm")
def test_the_time_for_hdf5_does_not_run_while_a_large_file_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", json.dumps(CONFIG))
        archive.writestr("model.weights.h5", weights(tmp_path))
    left: dict[str, float] = {}

    def noting(owner: object, name: str) -> None:
        real = getattr(owner, name)

        def note(*given: object) -> object:
            left[name] = signal.getitimer(signal.ITIMER_REAL)[0]
            return real(*given)

        monkeypatch.setattr(owner, name, note)

    noting(shutil, "copyfileobj")
    noting(source, "check_hdf5")
    read_model_file(path)
    assert left["copyfileobj"] == 0
    assert 0 < left["check_hdf5"] <= source.READ_SECONDS
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
