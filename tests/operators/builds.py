"""The builds of the packaged runtime that operators are tested on."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from edgetool.operators.registry import OPERATORS
from edgetool.target.load import DEFAULT_RUNTIME, load_runtime
from edgetool.target.platform import Platform, make_platform
from edgetool.target.types import EspNNLibrary, EspNNVariant

_RUNTIME = load_runtime(DEFAULT_RUNTIME)
REFERENCE = make_platform(_RUNTIME, "arm-eabi", "reference")
PLAIN = make_platform(_RUNTIME, "arm-eabi", "cmsis-nn")
DSP = make_platform(_RUNTIME, "arm-eabi", "cmsis-nn", dsp=True)
MVE = make_platform(_RUNTIME, "arm-eabi", "cmsis-nn", dsp=True, mve=True)
BUILDS = (REFERENCE, PLAIN, DSP, MVE)
X86_64 = make_platform(_RUNTIME, "x86-64", "reference")

ESP_NN_OP_DATA = (
    ("CONV_2D", "OpDataConv i32"),
    ("DEPTHWISE_CONV_2D", "OpDataConv i32"),
    ("SOFTMAX", "SoftmaxParams i32"),
)
ESP_NN_FAULTS = tuple(
    fault.name for entry in OPERATORS.values() for fault in entry.faults if fault.kernels == ("esp-nn",)
)


@cache
def esp_nn_build(version: tuple[int, int, int], variant: EspNNVariant) -> Platform:
    """Return a build with a version of ESP-NN, with all faults that any version has."""
    library = EspNNLibrary(version, "", "", ESP_NN_FAULTS, ESP_NN_OP_DATA)
    runtime = replace(_RUNTIME, esp_nn=library)
    return make_platform(runtime, "xtensa", "esp-nn", esp_nn_variant=variant)
