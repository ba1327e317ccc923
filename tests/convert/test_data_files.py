"""Samples from files that want something else than to be read: bombs, lies about sizes, code, pipes and damage."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgetool.convert import calibration, numpy_files
from edgetool.convert.calibration import read_samples
from edgetool.convert.numpy_files import load_npy, load_npz
from edgetool.convert.samples import InputSpec
from edgetool.errors import CalibrationError

VECTOR = InputSpec("x", (3,), "float32")
PICTURE = InputSpec("picture", (4, 6, 3), "float32")


def npy(header: str, data: bytes = bytes(4096), version: tuple[int, int] = (1, 0)) -> bytes:
    length = struct.pack("<H" if version[0] == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes(version) + length + header.encode("latin-1") + data


def array_of(descr: str = "<f4", shape: str = "(3,)", fortran: str = "False") -> str:
    return f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


def refused(path: Path, *, most_bytes: int = 2**23) -> str:
    """What is said of the file, which must not cost memory first."""
    tracemalloc.start()
    try:
        with pytest.raises(CalibrationError) as caught:
            read_samples(path, [PICTURE if path.is_dir() else VECTOR]).get(0)
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()
    assert str(path) in str(caught.value)
    return caught.value.what


HEADERS = {
    "more than the file has": (npy(array_of(shape="(1025,)")), "truncated"),
    "a product that overflows": (npy(array_of(shape="(4294967296, 4294967296)")), "truncated"),
    "huge and nothing": (npy(array_of(shape="(0, 999999999999999999)")), "has an invalid shape"),
    "a negative size": (npy(array_of(shape="(-1, 3)")), "damaged"),
    "a size of many digits": (npy(array_of(shape=f"({'9' * 5000},)")), "damaged"),
    "an expression": (npy(array_of(shape="(3 ** 9,)")), "damaged"),
    "nested brackets": (npy("(" * 9000), "damaged"),
    "thirty-three dimensions": (npy(array_of(shape=f"({'1, ' * 33})")), "damaged"),
    "no shape": (npy("{'descr': '<f4', 'fortran_order': False, }"), "damaged"),
    "a key twice": (npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False}"), "damaged"),
    "a key of its own": (npy(array_of().replace("}", "'x': 1}")), "damaged"),
    "objects": (npy(array_of("|O")), "contains Python objects instead of numbers"),
    "records": (
        npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }"),
        "contains records instead of numbers",
    ),
    "dates": (npy(array_of("<M8[s]")), "contains <M8[s] instead of numbers"),
    "text without a size": (npy(array_of("<U0", "(99999999999,)")), "contains <U0 instead of numbers"),
    "a width that there is not": (npy(array_of("<f3")), "damaged"),
    "a long header": (npy(array_of() + " " * 20_000), "has a header of 20,"),
    "a header of four gigabytes": (npy("", version=(2, 0))[:8] + b"\xff" * 8, "has a header of 4,294,967,295 bytes"),
    "version nine": (npy(array_of(), version=(9, 0)), "damaged"),
    "the first six bytes": (b"\x93NUMPY", "damaged"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_is_not_believed(tmp_path: Path, name: str) -> None:
    content, said = HEADERS[name]
    (tmp_path / "a.npy").write_bytes(content)
    assert said in refused(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", content)
    assert said in refused(tmp_path / "a.npz")


@given(
    hnp.arrays(
        hnp.floating_dtypes() | hnp.integer_dtypes() | hnp.boolean_dtypes() | hnp.unicode_string_dtypes(),
        hnp.array_shapes(min_dims=0, min_side=0),
    ),
    st.booleans(),
    st.booleans(),
)
def test_what_numpy_writes_is_read(
    tmp_path_factory: pytest.TempPathFactory, array: Any, fortran: bool, zip_: bool
) -> None:
    if array.dtype.itemsize == 0:
        return
    array = np.asfortranarray(array) if fortran else array
    folder = tmp_path_factory.mktemp("arrays")
    np.save(folder / "a.npy", array)
    (np.savez_compressed if zip_ else np.savez)(folder / "a.npz", x=array)
    for found in (load_npy(folder / "a.npy"), load_npz(folder / "a.npz")["x"]):
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found, array)


def test_an_archive_that_unpacks_to_a_thousand_times_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_files, "FREE_BYTES", 2**22)
    content = npy(array_of("|u1", f"({2**22},)"), bytes(2**22))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", content)
        archive.writestr("y.npy", npy(array_of()))
    assert "more than 100 times its own size" in refused(tmp_path / "a.npz")


def test_an_archive_that_lies_about_a_size(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", npy(array_of("|u1", "(2000,)"), bytes(2000)))
    whole = (tmp_path / "a.npz").read_bytes()
    place = whole.rindex(b"PK\x01\x02") + 24
    for size in (100, 2**27):  # less than there is, and more
        lying = whole[:place] + struct.pack("<I", size) + whole[place + 4 :]
        (tmp_path / "a.npz").write_bytes(lying)
        assert "damaged or truncated" in refused(tmp_path / "a.npz")


def test_archives_of_odd_members(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    for names, said in (
        (["x.npy", "../../x.txt"], r"'../../x.txt', which is not an array"),
        ([f"{i}.npy" for i in range(1001)], "contains 1,001 arrays"),
    ):
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, npy(array_of()))
        assert said in refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", npy(array_of()))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x.npy", npy(array_of()))
    assert "contains 2 arrays but only 1 distinct names" in refused(path)
    blob = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        blob[blob.index(mark) + flags] |= 1  # encrypted
    path.write_bytes(blob)
    assert refused(path)


def test_a_table_of_contents_without_end(tmp_path: Path) -> None:
    entry = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", *[20] * 2, *[0] * 4, *[0] * 3, 1, *[0] * 4, 0, 0) + b"x"
    table = entry * 50_000
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 50_000, 50_000, len(table), 0, 0)
    (tmp_path / "a.npz").write_bytes(table + end)
    assert "damaged" in refused(tmp_path / "a.npz")


@given(st.data())
def test_any_damage_is_told(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    name = data.draw(st.sampled_from(["a.npy", "a.npz", "a.csv"]))
    stream = io.BytesIO()
    if name == "a.npy":
        np.save(stream, np.ones((4, 3), np.float32))
    elif name == "a.npz":
        np.savez_compressed(stream, x=np.ones((4, 3), np.float32))
    else:
        stream.write(b"a,b,c\n1,2,3\n4,5,6\n")
    blob = bytearray(stream.getvalue())
    for place in data.draw(st.lists(st.integers(0, len(blob) - 1), max_size=6)):
        blob[place] = data.draw(st.integers(0, 255))
    (folder / name).write_bytes(blob[: data.draw(st.integers(0, len(blob)))])
    try:
        samples = read_samples(folder / name, [VECTOR])
        for index in range(samples.count):
            samples.get(index)
    except CalibrationError:
        return


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.csv"])
def test_pipes_links_and_folders_are_no_data(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if hasattr(os, "mkfifo"):
        os.mkfifo(path)
        assert "is a pipe or a device" in refused(path)
        path.unlink()
    if os.name == "posix":
        path.symlink_to("/dev/zero")
        assert "is a pipe or a device" in refused(path)
        path.unlink()
        path.symlink_to(path)
        assert "cannot be read: Too many levels" in refused(path)
        path.unlink()
    with pytest.raises(CalibrationError, match="is not a path"):
        read_samples(tmp_path / f"\0{name}", [VECTOR])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"1,2," + b"3" * 200_000, "field larger than field limit"),
        (b"1,2,\x00\n", "which is not a number"),
        (b"1,2,1_0\n", "'1_0', which is not a number"),
        (b'1,2,"3\n4,5,6\n', "which is not a number"),
        (b"1,2,\xff\n", "is not UTF-8 text"),
        (b"1," * 100_000 + b"1\n", "has 100001 values"),
    ],
)
def test_odd_rows_are_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    assert said in refused(tmp_path / "a.csv")


def test_a_csv_has_a_size_that_fits_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "MAX_FILE_BYTES", 100)
    (tmp_path / "a.csv").write_bytes(b"1,2,3\n" * 17)
    assert "is larger than 100 bytes" in refused(tmp_path / "a.csv")


# ---- images


def png(width: int, height: int, *, data: bytes = b"", kind: int = 2) -> bytes:
    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.png", png(1, 100_000_000), "1x100000000 pixels"),
        ("a.png", png(2**31 - 1, 2**31 - 1), "cannot be read as an image"),
        ("a.png", png(64, 64), "cannot be read as an image"),
        ("a.png", b"", "is not a PNG, JPEG or BMP image"),
        ("a.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n", "is not a PNG, JPEG or BMP image"),
        ("a.bmp", b"BM" + bytes(12) + struct.pack("<IiiHHIIiiII", 40, 2**30, -(2**30), 1, 24, 0, 0, 0, 0, 0, 0), ""),
        ("a.jpg", b"GIF89a" + struct.pack("<HH", 65535, 65535) + bytes(20), "is not a PNG, JPEG or BMP image"),
    ],
)
@pytest.mark.filterwarnings("ignore:Image size")
def test_odd_images_are_refused(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    pytest.importorskip("PIL.Image")
    data = tmp_path / "data"
    data.mkdir()
    (data / name).write_bytes(content)
    assert said in refused(data)


def test_images_of_several_frames_and_other_colours_are_read(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    frames = [image.new("RGB", (6, 4), (value, 0, 0)) for value in (255, 0)]
    frames[0].save(tmp_path / "a.png", save_all=True, append_images=frames[1:])
    image.new("CMYK", (6, 4), (0, 255, 255, 0)).save(tmp_path / "b.jpg")
    image.new("P", (6, 4)).save(tmp_path / "c.png")
    samples = read_samples(tmp_path, [PICTURE])
    first, second, third = (np.asarray(samples.get(index)[0]) for index in range(3))
    assert first[0, 0].tolist() == [255, 0, 0]  # of several frames, the first
    assert second[0, 0, 0] > 200 > 50 > second[0, 0, 1]
    assert third.shape == (4, 6, 3)


def test_the_limits_are_those_of_the_pages() -> None:
    assert (numpy_files.FREE_BYTES, numpy_files.MAX_RATIO, calibration.MAX_FILE_BYTES) == (2**28, 100, 2**28)
