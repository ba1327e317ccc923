"""QUANTIZE, DEQUANTIZE and CAST as native kernels."""

from __future__ import annotations

from struct import pack

import numpy as np
import pytest

from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.program import Constant, StepOverlap
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Model
from tests.codegen.native.host import differences, prepare
from tests.memory.account_net import Net


def _table(model: Model) -> list[int]:
    """Return the table of a model's only step, from code 0 on, as unsigned bytes."""
    (step,) = lower(model).steps
    table = dict(step.op.values)["table"]
    assert step.kernel == "edgetool_lookup"
    assert isinstance(table, Constant)
    return list(table.data)


def test_requantization_of_bytes_is_a_table() -> None:
    net = Net()
    x = net.arena(4, scale=0.5, zero_point=-3)
    net.end_graph([x], [net.op("QUANTIZE", [x], scale=0.3, zero_point=5)])
    # No code is a tie.
    expected = [max(-128, min(127, round((code + 3) * 0.5 / 0.3) + 5)) for code in range(-128, 128)]
    assert _table(net.whole()) == [code % 256 for code in expected[128:] + expected[:128]]
    net = Net()
    x = net.arena(4, scale=0.5, zero_point=-3)
    net.end_graph([x], [net.op("QUANTIZE", [x], dtype=DType.UINT8, scale=0.5, zero_point=125)])
    assert _table(net.whole()) == [code ^ 128 for code in range(256)]


def test_distances_of_types_of_different_sizes() -> None:
    for code, source, output, distance in (
        ("DEQUANTIZE", DType.INT8, DType.FLOAT32, 9 * 3),
        ("QUANTIZE", DType.INT16, DType.INT8, -1),
        ("QUANTIZE", DType.INT8, DType.INT32, 9 * 3),
        ("CAST", DType.INT32, DType.INT8, -3),
    ):
        net = Net()
        x = net.arena(10, dtype=source)
        net.end_graph([x], [net.op(code, [x], dtype=output, scale=0.25 if code == "QUANTIZE" else None)])
        (step,) = lower(net.whole()).steps
        assert step.overlaps == (StepOverlap(0, distance),)
    # C does not allow to access the same bytes as int16 and as float32.
    net = Net()
    x = net.arena(10, dtype=DType.INT16)
    net.end_graph([x], [net.op("DEQUANTIZE", [x], dtype=DType.FLOAT32)])
    assert lower(net.whole()).steps[0].overlaps == ()


def test_casts_of_the_same_size_are_views() -> None:
    net = Net()
    x = net.arena(6, dtype=DType.INT32)
    y = net.op("CAST", [x], dtype=DType.UINT32)
    net.end_graph([x], [net.op("CAST", [y], dtype=DType.INT8)])
    (step,) = lower(net.whole()).steps
    assert step.kernel == "edgetool_cast"


def test_constants_are_converted_by_the_generator() -> None:
    values = (0.5, -0.5, 0.49, 1.5, -1.5, 1e9, -1e9, 63.4, float("nan"))
    net = Net()
    x = net.tensor((9,), DType.FLOAT32, data=pack("<9f", *values))
    y = net.op("QUANTIZE", [x], dtype=DType.INT8, scale=1.0, zero_point=3)
    z = net.op("DEQUANTIZE", [y], dtype=DType.FLOAT32)
    w = net.op("CAST", [y], dtype=DType.INT16)
    net.end_graph([], [y, z, w])
    program = lower(net.whole())
    assert program.steps == ()
    codes = [4, 2, 3, 5, 1, 127, -128, 66, -128]
    assert np.frombuffer(program.graph.tensors[y].data or b"", np.int8).tolist() == codes
    assert np.frombuffer(program.graph.tensors[z].data or b"", "<f4").tolist() == [code - 3 for code in codes]
    assert np.frombuffer(program.graph.tensors[w].data or b"", "<i2").tolist() == codes


def test_unsupported_types_are_refused() -> None:
    for code, source, output in (
        ("QUANTIZE", DType.FLOAT32, DType.UINT8),
        ("QUANTIZE", DType.INT32, DType.UINT8),
        ("CAST", DType.INT64, DType.INT8),
        ("CAST", DType.INT8, DType.BOOL),
    ):
        net = Net()
        x = net.arena(4, dtype=source)
        net.end_graph([x], [net.op(code, [x], dtype=output, scale=0.25 if code == "QUANTIZE" else None)])
        with pytest.raises(UnsupportedModelError, match="is not supported"):
            lower(net.whole())


@pytest.mark.slow
def test_float_ends_round_as_tflm_does() -> None:
    """Codes at ties, next to them, and beyond the range, in both directions."""
    net = Net()
    x = net.arena(1024, dtype=DType.FLOAT32)
    outputs = []
    for dtype, scale, zero in (
        (DType.INT8, 0.0625, -5),
        (DType.INT8, 0.0437, 127),
        (DType.INT16, 0.001, 0),
        (DType.INT16, 0.25, 300),
    ):
        y = net.op("QUANTIZE", [x], dtype=dtype, scale=scale, zero_point=zero)
        outputs += [y, net.op("DEQUANTIZE", [y], dtype=DType.FLOAT32)]
    net.end_graph([x], outputs)
    ties = (np.arange(-512, 512) * 0.03125).astype(np.float32)
    samples = [ties, np.nextafter(ties, np.float32(9)), np.nextafter(ties, np.float32(-9)), ties * 99, ties * 1e5]
    assert differences({"ends": prepare(net.whole(), inputs=[np.stack(samples)])}) == []
