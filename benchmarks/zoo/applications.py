"""Variants of keras.applications with random weights, on images as small as they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.zoo.entry import BENCHMARK, CI, Entry
from benchmarks.zoo.samples import centred, pixels

GROUP = "keras.applications"


def _of(name: str, side: int, **options: Any) -> Callable[[Any], Any]:
    def build(keras: Any) -> Any:
        return getattr(keras.applications, name)(
            input_shape=(side, side, 3), weights=None, classes=10, **{"classifier_activation": "softmax", **options}
        )

    return build


def _entry(
    name: str,
    kind: str,
    side: int,
    sampler: Any = centred,
    runs: str = BENCHMARK,
    refused: str | None = None,
    **options: Any,
) -> Entry:
    about = f"{kind} on {side} x {side} images" + (f", alpha {options['alpha']:g}" if "alpha" in options else "")
    return Entry(name, _of(kind, side, **options), GROUP, about, samplers={"": sampler}, runs=runs, refused=refused)


ENTRIES = [
    _entry("mobilenet", "MobileNet", 48, alpha=0.25, runs=CI),
    _entry("mobilenet-v2", "MobileNetV2", 48, alpha=0.35),
    _entry("mobilenet-v3-small", "MobileNetV3Small", 64, pixels, minimalistic=False),
    _entry("mobilenet-v3-minimal", "MobileNetV3Small", 64, pixels, alpha=0.75, minimalistic=True),
    _entry("efficientnet-b0", "EfficientNetB0", 32, pixels),
    _entry("efficientnet-v2-b0", "EfficientNetV2B0", 32, pixels),
    _entry("nasnet-mobile", "NASNetMobile", 32),
    _entry("resnet-50", "ResNet50", 32),
    _entry("resnet-50-v2", "ResNet50V2", 32),
    _entry("densenet-121", "DenseNet121", 32),
    _entry("xception", "Xception", 71),
    _entry("convnext-tiny", "ConvNeXtTiny", 32, pixels),
]
