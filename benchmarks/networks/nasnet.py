"""Keras' own NASNetMobile (Zoph et al., 2018), without its trained weights."""

from __future__ import annotations

from typing import Any

import keras


def nasnet_mobile_224() -> Any:
    """On images of 224 x 224, with its 1000 classes."""
    return keras.applications.NASNetMobile(input_shape=(224, 224, 3), weights=None)
