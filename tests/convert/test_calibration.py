from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgetool.convert.calibration import read_evaluation, read_samples
from edgetool.convert.samples import (
    InputSpec,
    Normalisation,
    Range,
    SampleSet,
    check_varied,
    default_range,
    prepared,
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
    result = prepared(np.array([0, 1, 1]).astype(dtype), VECTOR, None, "here")
    assert result.dtype == np.float32
    assert result.tolist() == [0, 1, 1]


def test_a_sample_may_bring_a_batch_of_one() -> None:
    assert prepared(np.ones((1, 3)), VECTOR, None, "here").shape == (3,)


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
        prepared(values, spec, None, "data.npy sample 7")
    assert caught.value.where == "data.npy sample 7"
    assert caught.value.exit_code == 2


def test_mean_and_std_scale_and_offset() -> None:
    values = np.array([10.0, 20.0, 30.0])
    standardised = Normalisation.of((20.0,), (10.0,), None, None)
    scaled = Normalisation.of(None, None, (0.1, 0.2, 0.3), (1.0,))
    assert prepared(values, VECTOR, standardised, "").tolist() == [-1, 0, 1]
    assert prepared(values, VECTOR, scaled, "") == pytest.approx([2, 5, 10])
    assert Normalisation.of(None, None, None, None) is None
    assert prepared(values, TOKENS, standardised, "").tolist() == [10, 20, 30]  # indices are never scaled


def test_one_value_per_channel_or_one_for_all() -> None:
    three = Normalisation.of((1.0, 2.0, 3.0), (1.0,), None, None)
    assert prepared(np.zeros((4, 6, 3)), PICTURE, three, "")[0, 0].tolist() == [-1, -2, -3]
    with pytest.raises(CalibrationError, match="3 values for the channels of input 'grey'"):
        prepared(np.zeros((4, 6, 1)), GREY, three, "")
    with pytest.raises(CalibrationError, match="3 means and 2 standard"):
        Normalisation.of((1.0, 2.0, 3.0), (1.0, 2.0), None, None)


@given(
    hnp.arrays(np.float32, (3,), elements=st.floats(-1e6, 1e6, width=32)), st.floats(-1e3, 1e3), st.floats(0.01, 1e3)
)
def test_normalisation_is_the_textbook_formula(values: Any, mean: float, std: float) -> None:
    result = prepared(values, VECTOR, Normalisation.of((mean,), (std,), None, None), "")
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
def test_npz_that_does_not_fit_is_told(tmp_path: Path, arrays: Any, specs: Any, said: str) -> None:
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
def test_truncated_arrays_are_told(tmp_path: Path, name: str, keep: int) -> None:
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


def test_csv_in_another_encoding_is_told(tmp_path: Path) -> None:
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


def test_other_mistakes_are_told(tmp_path: Path) -> None:
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
