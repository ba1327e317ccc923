"""The builds of the packaged runtime that operators are tested on."""

from __future__ import annotations

from edgetool.target.load import DEFAULT_RUNTIME, load_runtime
from edgetool.target.platform import make_platform

_RUNTIME = load_runtime(DEFAULT_RUNTIME)
REFERENCE = make_platform(_RUNTIME, "arm-eabi", "reference")
PLAIN = make_platform(_RUNTIME, "arm-eabi", "cmsis-nn")
DSP = make_platform(_RUNTIME, "arm-eabi", "cmsis-nn", dsp=True)
MVE = make_platform(_RUNTIME, "arm-eabi", "cmsis-nn", dsp=True, mve=True)
BUILDS = (REFERENCE, PLAIN, DSP, MVE)
X86_64 = make_platform(_RUNTIME, "x86-64", "reference")
