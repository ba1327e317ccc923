"""Sums in a batch of one are those of a larger batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgetool.convert.load_keras import fix_broadcast_sums

keras = pytest.importorskip("keras")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((8, 8), (8, 1)),
        ((50, 4), (50, 1)),
        ((50, 1), (50, 1)),
        ((4, 4, 3), (4, 1, 1)),
        ((6, 5), (1, 5)),
        ((6, 5), (6, 5)),
    ],
)
def test_a_batch_of_one_adds_up_like_two(first: tuple[int, ...], second: tuple[int, ...], request: Any) -> None:
    import tensorflow as tf
    from keras.src.backend.tensorflow import numpy as backend

    original = backend.add
    request.addfinalizer(lambda: setattr(backend, "add", original))
    fix_broadcast_sums(tf, keras)
    inputs = [keras.Input(shape) for shape in (first, second)]
    model = keras.Model(inputs, keras.layers.Add()(inputs))
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(1, *shape)).astype(np.float32) for shape in (first, second)]
    np.testing.assert_allclose(model(values), values[0] + values[1], rtol=1e-6)


def test_applying_the_fix_twice_has_no_further_effect(request: Any) -> None:
    import tensorflow as tf
    from keras.src.backend.tensorflow import numpy as backend

    original = backend.add
    request.addfinalizer(lambda: setattr(backend, "add", original))
    fix_broadcast_sums(tf, keras)
    once = backend.add
    fix_broadcast_sums(tf, keras)
    assert backend.add is once
