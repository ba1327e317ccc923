"""Builds one network and saves it; run as a process of its own, so that TensorFlow stays out of the others.

python -m benchmarks.networks.build NAME FILE.keras
"""

from __future__ import annotations

import importlib
import os
import sys

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf
from benchmarks.networks import NETWORKS
from benchmarks.networks.layers import awaken

SEED = 1


def main() -> None:
    name, path = sys.argv[1:]
    module, function = NETWORKS[name]
    keras.utils.set_random_seed(SEED)
    tf.config.experimental.enable_op_determinism()
    model = getattr(importlib.import_module(f"benchmarks.networks.{module}"), function)()
    awaken(model, SEED).save(path)


if __name__ == "__main__":
    main()
