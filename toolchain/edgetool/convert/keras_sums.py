"""Sums of Keras 3 that are right in a batch of one: in the child process only."""

from __future__ import annotations

import functools
import importlib
from typing import Any


def mend_sums(tf: Any, keras: Any) -> None:
    """Let keras.ops.add broadcast where its second tensor ends in a dimension of 1.

    Keras 3.15 takes whatever has one dimension above 1 for a bias of that many channels. In a batch of one, (1, n, 1)
    looks so, and is added along the last axis or refused: other sums than in any larger batch.
    """
    backend: Any = importlib.import_module("keras.src.backend.tensorflow.numpy")
    original = backend.add
    if hasattr(original, "broadcasts"):
        return

    @functools.wraps(original)
    def add(x1: Any, x2: Any) -> Any:
        shape = getattr(x2, "shape", None)
        if shape is None or len(shape) < 2 or shape[-1] != 1 or any(isinstance(x, tf.SparseTensor) for x in (x1, x2)):
            return original(x1, x2)
        dtype = keras.backend.result_type(getattr(x1, "dtype", type(x1)), x2.dtype)
        return tf.add(keras.ops.convert_to_tensor(x1, dtype), keras.ops.convert_to_tensor(x2, dtype))

    vars(add)["broadcasts"] = True
    backend.add = add
