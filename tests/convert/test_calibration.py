"""Samples from files that want something else than to be read: bombs, lies about sizes, code, pipes and damage."""

from __future__ import annotations

import io
import math
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
from edgetool.convert.calibration import read_evaluation, read_samples
from edgetool.convert.numpy_files import load_npy, load_npz
from edgetool.convert.samples import (
    InputSpec,
    Normalisation,
    Range,
    SampleSet,
    check_varied,
    default_range,
    prepare_sample,
    store,
    synthetic_samples,
)
from edgetool.errors import CalibrationError

VECTOR = InputSpec("x", (3,), "float32")
PICTURE = InputSpec("picture", (4, 6, 3), "float32")
GREY = InputSpec("grey", (4, 6, 1), "float32")
TOKENS = InputSpec("tokens", (3,), "int32")
PAIR = (InputSpec("first", (3,), "float32"), InputSpec("second", (2,), "float32"))


def rows(samples: SampleSet, *specs: InputSpec) -> list[Any]:
    return [samples.get(index)[0] for index in range(samples.count)]


def stored(samples: SampleSet, *specs: InputSpec, to: Path, normalisation: Normalisation | None = None) -> Any:
    return store(samples, specs, normalisation, [to / f"{index}.npy" for index in range(len(specs))])


# ---- one sample


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint8", "int64", "bool", ">f4"])
def test_numbers_of_any_type_become_the_inputs_own(dtype: str) -> None:
    result = prepare_sample(np.array([0, 1, 1]).astype(dtype), VECTOR, None, "here")
    assert result.dtype == np.float32
    assert result.tolist() == [0, 1, 1]


def test_a_sample_may_bring_a_batch_of_one() -> None:
    assert prepare_sample(np.ones((1, 3)), VECTOR, None, "here").shape == (3,)


@pytest.mark.parametrize(
    ("values", "spec", "said"),
    [
        (np.ones(4), VECTOR, r"shape \(4,\), but input 'x' requires \(3,\)"),
        (np.array([1, math.nan, 2]), VECTOR, r"NaN at index \(1,\)"),
        (np.array([1, 2, -math.inf]), VECTOR, r"infinity at index \(2,\)"),
        (np.array([1, 1e300, 2]), VECTOR, "does not fit float32"),
        (np.array(["a", "b", "c"]), VECTOR, "instead of numbers"),
        (np.array([1j, 1, 1]), VECTOR, "instead of numbers"),
        (np.array([0.5, 1, 2]), TOKENS, "cannot represent"),
        (np.array([2**40, 1, 2]), TOKENS, "cannot represent"),
        (np.array([math.nan, 1, 2]), TOKENS, "NaN"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_sample(values: Any, spec: InputSpec, said: str) -> None:
    with pytest.raises(CalibrationError, match=said) as caught:
        prepare_sample(values, spec, None, "data.npy sample 7")
    assert caught.value.where == "data.npy sample 7"
    assert caught.value.exit_code == 2


def test_mean_and_std_scale_and_offset() -> None:
    values = np.array([10.0, 20.0, 30.0])
    standardised = Normalisation.of((20.0,), (10.0,), None, None)
    scaled = Normalisation.of(None, None, (0.1, 0.2, 0.3), (1.0,))
    assert prepare_sample(values, VECTOR, standardised, "").tolist() == [-1, 0, 1]
    assert prepare_sample(values, VECTOR, scaled, "") == pytest.approx([2, 5, 10])
    assert Normalisation.of(None, None, None, None) is None
    assert prepare_sample(values, TOKENS, standardised, "").tolist() == [10, 20, 30]  # indices are never scaled


def test_one_value_per_channel_or_one_for_all() -> None:
    three = Normalisation.of((1.0, 2.0, 3.0), (1.0,), None, None)
    assert prepare_sample(np.zeros((4, 6, 3)), PICTURE, three, "")[0, 0].tolist() == [-1, -2, -3]
    with pytest.raises(CalibrationError, match="3 values for the channels of input 'grey'"):
        prepare_sample(np.zeros((4, 6, 1)), GREY, three, "")
    with pytest.raises(CalibrationError, match="3 means and 2 standard"):
        Normalisation.of((1.0, 2.0, 3.0), (1.0, 2.0), None, None)


@given(
    hnp.arrays(np.float32, (3,), elements=st.floats(-1e6, 1e6, width=32)), st.floats(-1e3, 1e3), st.floats(0.01, 1e3)
)
def test_normalisation_is_the_textbook_formula(values: Any, mean: float, std: float) -> None:
    result = prepare_sample(values, VECTOR, Normalisation.of((mean,), (std,), None, None), "")
    assert result == pytest.approx((values.astype(np.float64) - mean) / std, rel=1e-5, abs=1e-4)


# ---- files


def test_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(12).reshape(4, 3))
    samples = read_samples(tmp_path / "a.npy", [VECTOR])
    (array,) = stored(samples, VECTOR, to=tmp_path)
    assert array.dtype == np.float32
    assert array.tolist() == np.arange(12).reshape(4, 3).tolist()


def test_npz_by_name_and_by_order(tmp_path: Path) -> None:
    first, second = np.zeros((4, 3)), np.ones((4, 2))
    np.savez(tmp_path / "names.npz", second=second, first=first)
    np.savez(tmp_path / "order.npz", a=first, b=second)
    by_name = read_samples(tmp_path / "names.npz", PAIR)
    by_order = read_samples(tmp_path / "order.npz", PAIR)
    assert [part.tolist() for part in by_name.get(0)] == [[0, 0, 0], [1, 1]]
    assert [part.tolist() for part in by_order.get(0)] == [[0, 0, 0], [1, 1]]
    assert by_name.notes == ()
    assert "a for first, b for second" in by_order.notes[0]


def test_the_labels_of_an_npz_are_left_out(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 3)), y=np.zeros(4))
    assert read_samples(tmp_path / "a.npz", [VECTOR]).count == 4


@pytest.mark.parametrize(
    ("arrays", "specs", "said"),
    [
        ({"a": np.zeros((4, 3))}, PAIR, "contains 1 arrays"),
        ({"first": np.zeros((4, 3)), "b": np.zeros((4, 2))}, PAIR, "contains first, b, but .* are first, second"),
        ({"b": np.zeros((4, 3)), "first": np.zeros((4, 2))}, PAIR, "contains b, first, but .* are first, second"),
        ({"first": np.zeros((4, 3))}, PAIR, "contains first, but"),
        ({"x": np.zeros((4, 3)), "extra": np.zeros(4)}, [VECTOR], "contains x, extra, but the model's inputs are x"),
        ({"first": np.zeros((4, 3)), "second": np.zeros((5, 2))}, PAIR, "different numbers of samples.*4, 5"),
        ({"first": np.zeros((4, 3)), "second": np.zeros((4, 3))}, PAIR, r"\(second\).*'second'.*\(2,\)"),
        ({"x": np.zeros(3)}, [VECTOR], r"\(N, 3\)"),
        ({"x": np.array([{}], dtype=object)}, [VECTOR], "contains Python objects instead of numbers"),
    ],
)
def test_npz_that_does_not_fit_is_reported(tmp_path: Path, arrays: Any, specs: Any, said: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(CalibrationError, match=said):
        read_samples(tmp_path / "a.npz", specs)


def test_pickles_never_run(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return exec, ("raise SystemExit('ran')",)

    np.save(tmp_path / "a.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", x=np.array([Bomb()], dtype=object))
    (tmp_path / "bare.npy").write_bytes((tmp_path / "a.npy").read_bytes()[128:])
    (tmp_path / "bare.npz").write_bytes((tmp_path / "bare.npy").read_bytes())
    for name, said in {
        "a.npy": "contains Python objects instead of numbers",
        "a.npz": "contains Python objects instead of numbers",
        "bare.npy": r"is not a \.npy file",
        "bare.npz": r"is not an \.npz file",
    }.items():
        with pytest.raises(CalibrationError, match=said) as caught:
            read_samples(tmp_path / name, [VECTOR])
        assert "pickle" not in f"{caught.value.what} {caught.value.fix}"


def test_text_is_no_array(tmp_path: Path) -> None:
    for name in ("a.npy", "a.npz"):
        (tmp_path / name).write_text("1,2,3\n", encoding="utf-8")
        with pytest.raises(CalibrationError, match=r"is not an? \.np. file"):
            read_samples(tmp_path / name, [VECTOR])
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("x.txt", "1,2,3")
    with pytest.raises(CalibrationError, match=r"'x\.txt', which is not an array"):
        read_samples(tmp_path / "b.npz", [VECTOR])


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
@pytest.mark.parametrize("keep", [0, 1, 5, 9, 60, 200])
def test_truncated_arrays_are_reported(tmp_path: Path, name: str, keep: int) -> None:
    path = tmp_path / name
    (np.save if name.endswith("npy") else np.savez)(path, np.zeros((100, 3)))  # type: ignore[operator]
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CalibrationError, match=r"damaged or truncated|is not an? \.np. file"):
        read_samples(path, [VECTOR])


def test_csv_with_and_without_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,c\n1,2,3\n\n4,5,6e1\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("1,2,3\n4,5,60\n", encoding="utf-8-sig")
    for name in ("a.csv", "b.csv"):
        assert [row.tolist() for row in rows(read_samples(tmp_path / name, [VECTOR]))] == [[1, 2, 3], [4, 5, 60]]


@pytest.mark.parametrize("separator", [",", ";", "\t", ", ", ",\t"])
@pytest.mark.parametrize("header", ["", "a{0}b{0}c\n", "\na{0}b{0}c\n"])
def test_csv_may_have_semicolons_or_tabs(tmp_path: Path, separator: str, header: str) -> None:
    text = header.format(separator) + f"1{separator}2{separator}3\n4{separator}5{separator}6"
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    assert [row.tolist() for row in rows(read_samples(tmp_path / "a.csv", [VECTOR]))] == [[1, 2, 3], [4, 5, 6]]


def test_csv_in_another_encoding_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2,3\n", encoding="utf-16")
    with pytest.raises(CalibrationError, match="UTF-8"):
        read_samples(tmp_path / "a.csv", [VECTOR])


def test_csv_rows_take_the_inputs_shape(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",".join(map(str, range(6))), encoding="utf-8")
    assert rows(read_samples(tmp_path / "a.csv", [InputSpec("x", (2, 3), "float32")]))[0].shape == (2, 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b,c\n1,2,3\n1,x,3\n", "row 3: has 'x', which is not a number"),
        ("a,2,3\n1,2,3\n", "row 1: has 'a', which is not a number"),
        ("a,b,c\nd,e,f\n1,2,3\n", "row 2: has 'd'"),
        ("1,2,\n", "row 1: has '', which"),
        ("1,2,3\n1,2\n", "row 2: has 2 values"),
        ("1,5;2,5;3,5\n", "commas and semicolons.*separate values with commas"),
        ("a;b;c\n1,5;2,5;3,5\n", "row 2: has '1,5', which is not a number"),
        ("1 2 3\n", "contains no samples"),
        ("1,2,3\n4,nan,6\n", "row 2: contains NaN"),
        ("a,b,c\n", "contains no samples"),
        ("", "contains no samples"),
    ],
)
def test_csv_mistakes_name_the_row(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    with pytest.raises(CalibrationError, match=said):
        stored(read_samples(tmp_path / "a.csv", [VECTOR]), VECTOR, to=tmp_path)


def test_a_directory_of_arrays_is_read_sorted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name, value in (("b", 2), ("a", 1), ("c", 3)):
        np.save(data / f"{name}.npy", np.full(3, value))
    samples = read_samples(data, [VECTOR])
    assert [row[0] for row in rows(samples)] == [1, 2, 3]
    np.save(data / "b.npy", np.zeros(4))
    with pytest.raises(CalibrationError, match=r"b\.npy: has shape \(4,\)"):
        stored(samples, VECTOR, to=tmp_path)


@pytest.mark.parametrize(
    "spec", [PICTURE, GREY, InputSpec("flat", (4, 6), "float32"), InputSpec("u", (4, 6, 4), "uint8")]
)
@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp"])
def test_images_take_the_inputs_size_and_channels(tmp_path: Path, spec: InputSpec, suffix: str) -> None:
    image = pytest.importorskip("PIL.Image")
    data = tmp_path / "data"
    (data / "class").mkdir(parents=True)
    image.new("RGB", (30, 20), (255, 0, 0)).save(data / "class" / f"b.{suffix}")
    image.new("L", (6, 4), 7).save(data / f"a.{suffix}")
    (array,) = stored(read_samples(data, [spec]), spec, to=tmp_path)
    assert array.shape == (2, *spec.shape)
    assert array[0].ravel()[0] == pytest.approx(7, abs=1)
    if spec.shape[-1] == 3:
        assert array[1, 0, 0].tolist() == pytest.approx([255, 0, 0], abs=3)


def test_images_that_cannot_be_used_name_the_file(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    noise = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    image.fromarray(noise).save(tmp_path / "whole.png")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:1500])
    deep = tmp_path / "deep"
    deep.mkdir()
    image.new("I;16", (8, 8)).save(deep / "deep.png")
    bomb = tmp_path / "bomb"
    bomb.mkdir()
    image.new("1", (9000, 9000)).save(bomb / "bomb.png")
    for folder, said in ((damaged, r"cut\.png"), (deep, "8 bits"), (bomb, "81000000|9000x9000")):
        with pytest.raises(CalibrationError, match=said):
            stored(read_samples(folder, [PICTURE]), PICTURE, to=tmp_path)
    with pytest.raises(CalibrationError, match="does not accept images"):
        read_samples(bomb, [VECTOR])


def test_other_mistakes_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.pkl").write_bytes(b"x")
    np.save(tmp_path / "a.npy", np.zeros((0, 3)))
    np.save(tmp_path / "b.npy", np.zeros((2, 3)))
    with pytest.raises(CalibrationError, match=r"unknown file type '\.pkl'"):
        read_samples(tmp_path / "a.pkl", [VECTOR])
    with pytest.raises(CalibrationError, match="contains no samples"):
        stored(read_samples(tmp_path / "a.npy", [VECTOR]), VECTOR, to=tmp_path)
    with pytest.raises(CalibrationError, match=r"2 inputs.*first, second"):
        read_samples(tmp_path / "b.npy", PAIR)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(CalibrationError, match="no images and no"):
        read_samples(empty, [VECTOR])


# ---- evaluation data


def test_evaluation_data_is_x_and_y(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 3)), y=np.arange(4))
    found = read_evaluation(tmp_path / "a.npz", [VECTOR], ["scores", "other"])
    assert (found.samples.count, found.labels.tolist(), found.output) == (4, [0, 1, 2, 3], 0)


def test_labels_may_name_their_output(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 3)), y_other=np.arange(4))
    assert read_evaluation(tmp_path / "a.npz", [VECTOR], ["scores", "other"]).output == 1
    assert read_samples(tmp_path / "a.npz", [VECTOR]).count == 4
    np.savez(tmp_path / "b.npz", x=np.zeros((4, 3)), y_other=np.arange(4), y_scores=np.arange(4))
    with pytest.raises(CalibrationError, match=r"2 outputs \(y_other, y_scores\)"):
        read_evaluation(tmp_path / "b.npz", [VECTOR], ["scores", "other"])
    np.savez(tmp_path / "c.npz", x=np.zeros((4, 3)), y_none=np.arange(4))
    with pytest.raises(CalibrationError, match=r"no array named 'y'.*y_scores, y_other"):
        read_evaluation(tmp_path / "c.npz", [VECTOR], ["scores", "other"])


def test_an_input_may_be_called_like_labels(tmp_path: Path) -> None:
    specs = (InputSpec("y_scores", (3,), "float32"), InputSpec("x", (3,), "float32"))
    np.savez(tmp_path / "a.npz", y_scores=np.ones((4, 3)), x=np.zeros((4, 3)), y=np.arange(4))
    found = read_evaluation(tmp_path / "a.npz", specs, ["scores"])
    assert [part.tolist() for part in found.samples.get(0)] == [[1, 1, 1], [0, 0, 0]]
    assert read_samples(tmp_path / "a.npz", specs).count == 4


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.zeros((4, 3))}, "no array named 'y'"),
        ({"x": np.zeros((4, 3)), "y": np.zeros(5)}, "for 4 samples"),
        ({"x": np.zeros((4, 3)), "y": np.zeros((4, 2, 2))}, "for 4 samples"),
        ({"x": np.zeros((4, 3)), "y": np.array(list("abcd"))}, "type <U1"),
        ({"x": np.zeros((4, 3)), "y": np.array([0, 1, math.nan, 1])}, "NaN"),
    ],
)
def test_evaluation_data_without_fitting_labels_is_refused(tmp_path: Path, arrays: Any, said: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(CalibrationError, match=said):
        read_evaluation(tmp_path / "a.npz", [VECTOR], ["scores"])


# ---- an input that does not vary


@pytest.mark.parametrize("value", [0.0, 5.0, -2.5])
def test_an_input_of_one_value_is_refused_by_name(value: float) -> None:
    with pytest.raises(CalibrationError, match=f"'second' is {value:g} in all samples.*do this") as caught:
        check_varied([np.arange(6.0).reshape(2, 3), np.full((2, 2), value)], PAIR, "a.npz", "do this")
    assert caught.value.where == "a.npz"


def test_a_range_too_small_for_a_scale_is_refused() -> None:
    with pytest.raises(CalibrationError, match="'x' varies by less than 1e-09"):
        check_varied([np.array([[0, 1e-10, 2e-10]])], [VECTOR], "here", "")
    check_varied([np.array([[0, 1e-8, 0]])], [VECTOR], "here", "")
    check_varied([np.zeros((2, 3), np.int32)], [TOKENS], "here", "")


# ---- the synthetic set


def test_synthetic_samples_depend_on_the_seed_and_nothing_else(tmp_path: Path) -> None:
    def make(count: int, seed: int) -> list[Any]:
        samples = synthetic_samples(PAIR, [default_range(spec) for spec in PAIR], count, seed)
        return [np.concatenate(samples.get(index)) for index in range(count)]

    few, many, other = make(3, 0), make(50, 0), make(3, 1)
    assert np.array_equal(few, many[:3])
    assert not np.array_equal(few, other)
    assert np.min(many) >= -1
    assert np.max(many) <= 1
    assert abs(float(np.mean(many))) < 0.1
    assert not np.array_equal(many[0][:2], many[0][3:])


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("float32", -1, 1), ("int8", -128, 127), ("uint8", 0, 255), ("int32", 0, 1), ("bool", 0, 1)],
)
def test_the_default_range_follows_the_type(dtype: str, low: int, high: int) -> None:
    found = default_range(InputSpec("x", (2,), dtype))
    assert (found.low, found.high) == (low, high)


def test_indices_are_whole_and_reach_both_ends() -> None:
    spec = InputSpec("x", (1000,), "float32")
    (values,) = synthetic_samples([spec], [Range(0, 10, whole=True)], 1, 0).get(0)
    assert set(values.tolist()) == set(range(11))


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
def test_a_header_is_not_trusted(tmp_path: Path, name: str) -> None:
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
def test_any_damage_is_reported(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
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
