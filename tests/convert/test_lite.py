"""TensorFlow Lite starts without TensorFlow's Python API, which can still be imported afterwards."""

from __future__ import annotations

import subprocess
import sys

import pytest

from edgetool.convert.lite import mlir_quantize, start_lite

START = """
import sys
from edgetool.convert.lite import start_lite
versions = start_lite()
assert not {"tensorflow", "keras"} & set(sys.modules), "the API was imported"
"""
API = """
import tensorflow as tf
from tensorflow.lite.python.interpreter import Interpreter
assert tf.lite.Interpreter is Interpreter
assert tf.__version__ == versions["tensorflow"]
assert tf.keras.layers.Dense(2)(tf.ones((1, 3))).shape == (1, 2)
"""


@pytest.mark.parametrize("script", [START, pytest.param(START + API, marks=pytest.mark.slow)], ids=["alone", "first"])
def test_tensorflow_lite_starts_without_the_api(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_damaged_file_is_rejected_with_an_exception() -> None:
    start_lite()
    with pytest.raises((RuntimeError, ValueError)):
        mlir_quantize(b"", "int8", "int8", denied=(), verify=False, dense_per_tensor=False)
