"""The helpers, compiled and run, against numpy: every quantized value and many floats, bit by bit."""

from __future__ import annotations

import itertools
import re
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.codegen.header import header
from edgetool.codegen.quantizers import C_TYPES, TFLITE_TYPES, float_literal
from edgetool.codegen.spec import QUANTIZED_LIMITS, IoSpec
from edgetool.model.types import DType
from tests.codegen.c_compilers import compile_in
from tests.codegen.header_specs import KWS

SCALES = (1.0, 0.5, 0.00390625, 0.0235294122248888, 0.1, 3.0517578125e-05, 1e-38, 1e-45, 3e38, 12.75)
POINTS = {
    DType.INT8: (0, -128, 127),
    DType.UINT8: (0, 128, 255),
    DType.INT16: (0, 32767, -32768),
    DType.UINT16: (0, 65535),
}
TENSORS = tuple(
    IoSpec(0, "x", (1,), dtype, scale, point)
    for dtype, points in POINTS.items()
    for scale, point in itertools.product(SCALES, points)
)

PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include "kws.h"

static float values[1 << 20];

int main(void)
{
    const size_t count = fread(values, sizeof values[0], sizeof values / sizeof values[0], stdin);
    size_t i;
    int32_t q;
"""
PER_TENSOR = """\
    for (i = 0; i < count; ++i) {{
        q = kws_input_{0}_quantize(values[i]);
        if (fwrite(&q, sizeof q, 1, stdout) != 1) abort();
    }}
    for (q = {1}; q <= {2}; ++q) {{
        const float real = kws_input_{0}_dequantize((kws_input_{0}_type)q);
        if (fwrite(&real, sizeof real, 1, stdout) != 1) abort();
    }}
"""


def interesting_floats(scale: float) -> np.ndarray:
    """Halves and their neighbours, limits, the ends of float32, and random values of every size."""
    rng = np.random.default_rng(7)
    halves = (np.arange(-600, 600) * 0.5 * scale).astype(np.float32)
    wide = (np.array([-65536, -65535.5, -32768.5, -32768, 32767, 32767.5, 65535, 65535.5, 65536]) * scale).astype(
        np.float32
    )
    near = np.concatenate([halves, wide])
    bits = rng.integers(0, 2**32, 2000, dtype=np.uint32).view(np.float32)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, 0.49999997], np.float32)
    spread = (rng.normal(size=2000) * 100 * scale).astype(np.float32)
    infinity = np.float32(np.inf)
    return np.concatenate([near, np.nextafter(near, infinity), np.nextafter(near, -infinity), bits, special, spread])


def quantized(values: np.ndarray, tensor: IoSpec) -> np.ndarray:
    """TFLite's rule in numpy: float32 division, half away from zero, zero point, saturation."""
    assert tensor.scale is not None
    assert tensor.zero_point is not None
    low, high = QUANTIZED_LIMITS[tensor.dtype]
    steps = (values / np.float32(tensor.scale)).astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(steps) + 0.5), steps)
    result = np.clip(rounded + tensor.zero_point, low, high)
    return np.where(np.isnan(steps), tensor.zero_point, result).astype(np.int32)


def dequantized(tensor: IoSpec) -> np.ndarray:
    """TFLite's rule in numpy: a product in double, rounded to float32 once."""
    assert tensor.scale is not None
    assert tensor.zero_point is not None
    low, high = QUANTIZED_LIMITS[tensor.dtype]
    steps = np.arange(low, high + 1, dtype=np.int64) - tensor.zero_point
    return (np.float64(np.float32(tensor.scale)) * steps).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiler", "standard", "optimization"), [("gcc", "c99", "-O0"), ("gcc", "c11", "-O2"), ("g++", "c++17", "-O2")]
)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:divide")
def test_helpers_agree_with_numpy_bit_by_bit(tmp_path: Path, compiler: str, standard: str, optimization: str) -> None:
    values = np.concatenate([interesting_floats(scale) for scale in SCALES])
    (tmp_path / "kws.h").write_text(header(replace(KWS, inputs=TENSORS, outputs=())))
    body = "".join(
        PER_TENSOR.format(position, *QUANTIZED_LIMITS[tensor.dtype]) for position, tensor in enumerate(TENSORS)
    )
    (tmp_path / "main.c").write_text(f"{PROGRAM}{body}    return 0;\n}}\n")
    built = compile_in(tmp_path, compiler, standard, optimization, "main.c", "-o", "program")
    assert (built.returncode, built.stderr) == (0, "")
    run = subprocess.run([tmp_path / "program"], input=values.tobytes(), capture_output=True, check=True, timeout=120)
    start = 0
    for tensor in TENSORS:
        expected, real = quantized(values, tensor), dequantized(tensor)
        np.testing.assert_array_equal(np.frombuffer(run.stdout, np.int32, len(expected), start), expected, repr(tensor))
        start += expected.nbytes
        bits = np.frombuffer(run.stdout, np.uint32, len(real), start)
        np.testing.assert_array_equal(bits, real.view(np.uint32), repr(tensor))
        start += real.nbytes
    assert start == len(run.stdout)


def test_without_an_fpu_they_need_neither_libm_nor_double(tmp_path: Path) -> None:
    (tmp_path / "kws.h").write_text(header(KWS))
    (tmp_path / "unit.c").write_text(
        '#include "kws.h"\nint8_t there(float x);\nint8_t there(float x) { return kws_input_0_quantize(x); }\n'
        "float back(int8_t q);\nfloat back(int8_t q) { return kws_output_0_dequantize(q); }\n"
    )
    built = compile_in(tmp_path, "arm-none-eabi-gcc", "c99", "-mcpu=cortex-m0plus", "-O2", "-c", "unit.c")
    assert built.stderr == ""
    undefined = subprocess.run(
        ["arm-none-eabi-nm", "-u", "unit.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.split()
    called = {symbol for symbol in undefined if symbol != "U"}
    assert "__aeabi_fdiv" in called
    assert {symbol for symbol in called if not re.fullmatch(r"__aeabi_(f\w+|i2f|f2iz)", symbol)} == set()


def test_float_values_pass_through(tmp_path: Path) -> None:
    (tmp_path / "kws.h").write_text(header(replace(KWS, inputs=(IoSpec(0, "x", (1,), DType.FLOAT32),))))
    (tmp_path / "main.c").write_text(
        '#include "kws.h"\nint main(void) { kws_input_0_type x = kws_input_0_quantize(0.3f);'
        " return !(x <= 0.3f && x >= 0.3f && kws_input_0_dequantize(x) >= x); }\n"
    )
    assert compile_in(tmp_path, "gcc", "c99", "main.c", "-o", "program").stderr == ""
    assert subprocess.run([tmp_path / "program"], check=False, timeout=60).returncode == 0


@given(st.integers(1, 0x7F7FFFFF))
def test_a_literal_reads_back_exactly(bits: int) -> None:
    value: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    literal = float_literal(value)
    assert literal.endswith("f")
    assert "." in literal or "e" in literal
    assert struct.pack("<f", float(literal[:-1])) == struct.pack("<f", value)


def test_every_type_has_a_name_in_tflite() -> None:
    assert set(TFLITE_TYPES) == set(DType)
    assert set(QUANTIZED_LIMITS) <= set(C_TYPES)
    for dtype, (low, high) in QUANTIZED_LIMITS.items():
        assert high - low + 1 == 1 << dtype.bits
