from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType
from edgetool.operators.loops import Loops, Work
from tests.flexbuffers import flex_map
from tests.memory.account_net import Net
from tests.operators.work.runs import FLOAT32, INT8, INT16, run

UINT8 = DType.UINT8


def test_slots_move_forward_and_one_is_added() -> None:
    net = Net(1)
    x, y = net.arena(1, 1, 2, 10), net.arena(1, 6, 2, 10)
    net.custom("CIRCULAR_BUFFER", [x], [y], flex_map(cycles_max=1))
    loops = run(net.model([x], [y])).loops
    assert (loops["moved 16 bytes"], loops["moved words"], loops["moved bytes"]) == (6, 1, 0)
    assert (loops["copied 16 bytes"], loops["copied words"]) == (1, 1)


def detected(boxes: int, classes: int, wanted: int, *, regular: bool) -> tuple[str, Loops]:
    net = Net(1)
    inputs = [net.arena(1, boxes, 4, dtype=FLOAT32), net.arena(1, boxes, classes + 1, dtype=FLOAT32)]
    inputs.append(net.noise(boxes, 4, dtype=FLOAT32))
    shapes = ((1, wanted, 4), (1, wanted), (1, wanted), (1,))
    outputs = [net.arena(*shape, dtype=FLOAT32) for shape in shapes]
    options = flex_map(max_detections=wanted, num_classes=classes, use_regular_nms=int(regular))
    net.custom("TFLite_Detection_PostProcess", inputs, outputs, options)
    work = run(net.model(inputs[:2], outputs))
    return work.path, work.loops


def test_boxes_are_compared_with_those_found() -> None:
    path, loops = detected(20, 3, 5, regular=False)
    assert (path, loops["box"], loops["score"], loops["round"]) == ("fast", 20, 60, 1)
    assert (loops["detection"], loops["compared boxes"]) == (5, 19 + 18 + 17 + 16 + 15)
    path, loops = detected(20, 3, 50, regular=True)
    assert (path, loops["round"], loops["detection"], loops["compared boxes"]) == ("regular", 3, 60, 3 * 190)


def decoded(tables: bytes, rows: int, columns: int, *, scales: int = 1, dtype: DType = INT8, axis: int = 0) -> Work:
    net = Net(1)
    inputs = [net.tensor([len(data)], UINT8, data=data) for data in (bytes(rows * columns), tables)]
    result = net.tensor([rows, columns], dtype, scales=[0.5] * scales, axis=axis, zero_point=1)
    net.custom("TFLM_DECODE", inputs, [result])
    return run(net.model([], [result]))


def table(bits: int) -> bytes:
    return bytes([0, 1, 0, 0, 1, bits, 2**bits]).ljust(16, b"\0")


def walked(rows: int, columns: int, step: int) -> tuple[int, int]:
    """Whole blocks at multiples of `step`, and the single elements before and behind them, row by row."""
    blocks = single = at = 0
    for _ in range(rows):
        left = columns
        while left > 0:
            whole = at % step == 0 and left >= step
            blocks, single = blocks + whole, single + (not whole)
            at, left = at + (step if whole else 1), left - (step if whole else 1)
    return blocks, single


@given(rows=st.integers(1, 6), columns=st.integers(1, 80), kind=st.sampled_from([(2, 16), (3, 32), (4, 16)]))
def test_tables_of_few_bits_make_several_bytes_at_once(rows: int, columns: int, kind: tuple[int, int]) -> None:
    bits, step = kind
    work = decoded(table(bits), rows, columns, scales=rows)
    assert (work.path, work.loops["channel"]) == (f"table of {bits} bits int8", rows)
    assert (work.loops["block"], work.loops["element"]) == walked(rows, columns, step)


@pytest.mark.parametrize(
    ("tables", "dtype", "axis", "scales", "path"),
    [
        (table(5), INT8, 0, 1, "table of 5 bits int8"),
        (table(4), INT16, 0, 1, "table of 4 bits int16"),
        (table(4), INT8, 1, 6, "table of 4 bits int8 last axis"),
        (bytes([1, 1, 0, 0, 1, 1]), INT8, 0, 1, "Huffman int8"),
        (bytes([2, 1, 0, 0, 1]), INT16, 0, 1, "pruned int16"),
        (bytes([2, 1, 0, 0, 1]), INT8, 0, 4, "pruned channels of int8"),
    ],
)
def test_other_decoders_make_one_element_at_a_time(
    tables: bytes, dtype: DType, axis: int, scales: int, path: str
) -> None:
    work = decoded(tables.ljust(16, b"\0"), 4, 6, dtype=dtype, axis=axis, scales=scales)
    assert (work.path, work.loops["output"], work.loops["element"]) == (path, 1, 24)


def test_one_operator_may_decode_several_tensors() -> None:
    net = Net(1)
    inputs = [net.tensor([len(data)], UINT8, data=data) for data in (bytes(24), table(5), bytes(24), table(6))]
    results = [net.tensor([4, 6], INT8, scales=[0.5]) for _ in range(2)]
    net.custom("TFLM_DECODE", inputs, results)
    expected = Work("table of 5 bits int8 and table of 6 bits int8", {"output": 2, "channel": 2, "element": 48})
    assert run(net.model([], results)) == expected
