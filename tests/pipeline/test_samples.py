"""Samples from a file for a .tflite: names, shapes, raw and real values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgetool.errors import EdgetoolError, UsageError
from edgetool.model.types import DType, Model
from edgetool.pipeline.verify import load_samples, raw_samples
from tests.model.builders import ACTIVATION_SCALE, Builder, add_model, dense_model


def raw(model: Model, **arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return raw_samples(arrays, model, where="data.npz")


def test_arrays_go_by_the_name_of_argument_or_tensor() -> None:
    model = add_model()
    one, other = (np.full((2, 1, 4, 4, 2), value, np.int8) for value in (1, 2))
    for names in (("input_0", "input_1"), ("tensor_0", "tensor_1"), ("tensor_0", "input_1")):
        first, second = raw(model, **{names[1]: other, names[0]: one, "y": np.zeros(2)})
        assert (first == 1).all()
        assert (second == 2).all()
    with pytest.raises(UsageError, match="has no array 'input_1'"):
        raw(model, input_0=one, y=other)


def test_the_array_for_a_single_input_may_have_any_name() -> None:
    (x,) = raw(dense_model(), whatever=np.ones((3, 1, 16), np.int8))
    assert x.shape == (3, 1, 16)
    with pytest.raises(UsageError, match="has no array 'input_0'"):
        raw(dense_model(), a=np.ones((3, 1, 16), np.int8), b=np.ones(3))


def test_real_numbers_are_quantized_and_arrays_of_the_tensors_dtype_are_unchanged() -> None:
    integers = np.arange(32, dtype=np.int8).reshape(2, 1, 16)
    (taken,) = raw(dense_model(), x=integers)
    np.testing.assert_array_equal(taken, integers)
    for real in (integers * ACTIVATION_SCALE, (integers * ACTIVATION_SCALE).astype(np.float32)):
        (quantized,) = raw(dense_model(), x=real)
        assert quantized.dtype == np.int8
        np.testing.assert_array_equal(quantized, integers)
    (pixels,) = raw(dense_model(), x=np.full((1, 1, 16), 3, np.uint8))  # real values, too
    assert (pixels == 3 / ACTIVATION_SCALE).all()


def test_the_dimension_of_samples_may_stand_for_a_batch_of_one() -> None:
    values = np.arange(32, dtype=np.int8)
    for shape in ((2, 16), (2, 1, 16)):
        (x,) = raw(dense_model(), x=values.reshape(shape))
        np.testing.assert_array_equal(x, values.reshape(2, 1, 16))
    for shape in ((32,), (2, 4, 4), (1, 2, 16)):
        with pytest.raises(UsageError, match=r"requires samples of shape \[1, 16\]"):
            raw(dense_model(), x=values.reshape(shape))


def index_model() -> Model:
    build = Builder()
    x, y = build.tensor([2], DType.INT32), build.tensor([2], DType.INT32)
    build.operator("ABS", [x], [y])
    return build.model([x], [y])


def test_integers_without_a_scale_must_be_kept() -> None:
    (x,) = raw(index_model(), x=np.array([[1, 2.0]]))
    assert x.dtype == np.int32
    for lossy in (np.array([[1, 2.5]]), np.array([[1, 2**31]])):
        with pytest.raises(UsageError, match="int32 without a scale"):
            raw(index_model(), x=lossy)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"input_0": np.zeros((2, 1, 4, 4, 2)), "input_1": np.zeros((3, 1, 4, 4, 2))}, "2, 3 samples"),
        ({"input_0": np.zeros((0, 1, 4, 4, 2)), "input_1": np.zeros((0, 1, 4, 4, 2))}, "0 samples"),
        ({"input_0": np.zeros((2, 1, 4, 4, 2), complex), "input_1": np.zeros((2, 1, 4, 4, 2))}, "complex128"),
        (
            {"input_0": np.full((2, 1, 4, 4, 2), np.nan), "input_1": np.zeros((2, 1, 4, 4, 2))},
            "data.npz: contains NaN for",
        ),
        ({}, "it has none"),
    ],
)
def test_samples_that_do_not_fit_are_reported(arrays: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        raw(add_model(), **arrays)
    assert message in str(caught.value)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, x=np.ones((4, 16), np.int8))
    (x,) = load_samples(path, dense_model())
    assert x.shape == (4, 1, 16)
    np.save(tmp_path / "single.npy", np.full((2, 16), 5, np.int8))
    (x,) = load_samples(tmp_path / "single.npy", dense_model())
    assert (x == 5).all()
    path.write_bytes(b"PK no archive")
    with pytest.raises(EdgetoolError) as caught:
        load_samples(path, dense_model())
    assert caught.value.exit_code == 2
    with pytest.raises(UsageError, match="cannot be read"):
        load_samples(tmp_path / "none.npz", dense_model())
