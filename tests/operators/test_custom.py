"""Prepare and loop counts of the custom operators that TFLM brings."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType, OperatorCode, Quantization, Tensor
from edgetool.model.writer import write_model
from edgetool.operators.call import KernelRefusal
from edgetool.operators.loops import LoopCounts, Loops
from tests.execute.many_arenas import measure_arenas
from tests.flexbuffers import flex_map
from tests.memory.account_net import Net
from tests.operators.asked import Asked, F, alone, asked, constant
from tests.operators.calls import HOST, tensor
from tests.operators.runs import FLOAT32, INT8, INT16, run

INT32, BOOL = DType.INT32, DType.BOOL
CLASSES, TARGETS, THRESHOLDS = tensor(1, 5, dtype=INT32), constant(4, 1), constant(100, -20)
FLAGS, TARGET_SCORES = tensor(2, dtype=BOOL), tensor(2, dtype=INT32)


def test_a_classifier_requests_only_its_tensors() -> None:
    for classes in (CLASSES, tensor(5, dtype=INT32)):
        requests = asked("BasicClassifier", [classes, TARGETS, THRESHOLDS], [FLAGS, TARGET_SCORES])
        assert requests == ["t0", "t1", "t2", "t3", "t4"]


NOT_CLASSIFIED: list[tuple[list[Tensor], list[Tensor], str]] = [
    ([CLASSES, TARGETS, THRESHOLDS], [FLAGS], "has no output 1"),
    ([CLASSES, TARGETS], [FLAGS, TARGET_SCORES], "has no input 2"),
    ([CLASSES, TARGETS, THRESHOLDS, TARGETS], [FLAGS, TARGET_SCORES], "3 inputs and 2 outputs, not 4 and 2"),
    ([tensor(1, 1, 5, dtype=INT32), TARGETS, THRESHOLDS], [FLAGS, TARGET_SCORES], "1 to 2 dimensions, not 3"),
    ([tensor(dtype=INT32), TARGETS, THRESHOLDS], [FLAGS, TARGET_SCORES], "1 to 2 dimensions, not 0"),
    ([CLASSES, constant(4, 1, shape=(1, 2)), THRESHOLDS], [FLAGS, TARGET_SCORES], "input 1 with 1 dimensions"),
    ([CLASSES, TARGETS, constant(1, 2, shape=(2, 1))], [FLAGS, TARGET_SCORES], "input 2 with 1 dimensions"),
    ([CLASSES, TARGETS, THRESHOLDS], [tensor(1, 2, dtype=BOOL), TARGET_SCORES], "output 0 with 1 dimensions"),
    ([CLASSES, TARGETS, THRESHOLDS], [FLAGS, tensor(2, 1, dtype=INT32)], "output 1 with 1 dimensions"),
    ([CLASSES, TARGETS, constant(100)], [FLAGS, TARGET_SCORES], r"shape \(2,\) for its targets, not \(1,\)"),
    ([CLASSES, TARGETS, THRESHOLDS], [tensor(3, dtype=BOOL), TARGET_SCORES], r"not \(3,\)"),
    ([CLASSES, TARGETS, THRESHOLDS], [FLAGS, tensor(1, dtype=INT32)], r"not \(1,\)"),
    ([tensor(1, 5), TARGETS, THRESHOLDS], [FLAGS, TARGET_SCORES], "int32, not int8"),
    ([CLASSES, constant(4, 1, dtype=DType.INT64), THRESHOLDS], [FLAGS, TARGET_SCORES], "int32, not int64"),
    ([CLASSES, TARGETS, tensor(2, dtype=F)], [FLAGS, TARGET_SCORES], "int32, not float32"),
    ([CLASSES, TARGETS, THRESHOLDS], [TARGET_SCORES, TARGET_SCORES], "bool, not int32"),
    ([CLASSES, TARGETS, THRESHOLDS], [FLAGS, FLAGS], "int32, not bool"),
]


@pytest.mark.parametrize(("inputs", "outputs", "reason"), NOT_CLASSIFIED)
def test_a_classifier_rejects(inputs: list[Tensor], outputs: list[Tensor], reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        asked("BasicClassifier", inputs, outputs)


def test_real_tflm_refuses_what_a_classifier_does_not_take(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    if not hasattr(os, "fork"):
        pytest.skip("measuring arenas needs fork()")
    code = OperatorCode("CUSTOM", 1, "BasicClassifier")
    models = [
        replace(
            alone("BasicClassifier", [replace(one, data=None) for one in inputs], outputs)[0], operator_codes=(code,)
        )
        for inputs, outputs, _ in NOT_CLASSIFIED
    ]
    arenas = measure_arenas([write_model(model) for model in models], tmp_path)
    assert [arena.refusal is not None and "basic_classifier.cc" in arena.refusal for arena in arenas] == [True] * len(
        models
    )


def test_a_classifier_compares_each_target() -> None:
    net = Net(1)
    scores, outputs = net.tensor((1, 5), INT32), [net.tensor((3,), BOOL), net.tensor((3,), INT32)]
    net.custom("BasicClassifier", [scores, net.constant([4, 1, 0]), net.constant([1, 2, 3])], outputs)
    assert run(net.model([scores], outputs)) == LoopCounts("int32", {"target": 3})


def _circular(source: Tensor, result: Tensor) -> Asked:
    return asked("CIRCULAR_BUFFER", [source], [result], custom_options=b"")


def test_circular_buffer_has_no_buffer_of_its_own() -> None:
    # The rows are the output's, a variable tensor.
    assert _circular(tensor(1, 1, 1, 8), tensor(1, 5, 1, 8)) == ["t0", "t1"]
    with pytest.raises(KernelRefusal, match="cannot add"):
        _circular(tensor(1, 2, 1, 8), tensor(1, 5, 1, 8))
    with pytest.raises(KernelRefusal, match="int8, not float32"):
        _circular(tensor(1, 1, 1, 8, dtype=F), tensor(1, 5, 1, 8, dtype=F))


BOXES, SCORES, ANCHORS = tensor(1, 100, 4, dtype=F), tensor(1, 100, 3, dtype=F), tensor(100, 4, dtype=F)
RESULTS = [tensor(1, 10, 4, dtype=F), tensor(1, 10, dtype=F), tensor(1, 10, dtype=F), tensor(1, dtype=F)]


def _detected(boxes: Tensor = BOXES, *, results: int = 4, **options: int) -> Asked:
    code, given = "TFLite_Detection_PostProcess", flex_map(num_classes=2, **options)
    return asked(code, [boxes, SCORES, ANCHORS], RESULTS[:results], custom_options=given)


def test_detection_postprocess_keeps_lists_of_boxes_in_scratch_buffers() -> None:
    temporary, sizes = ["t0", "t1", "t2"], [100, 1600, 1200, 400, 400, 4000, 4000, 400, 4000, 4000, 4000]
    assert _detected(max_detections=10) == [*temporary, *(("scratch", size) for size in sizes)]


def test_detection_postprocess_with_more_detections_than_boxes_or_none() -> None:
    # The list of indices has room for classes or detections, the one of selected boxes for detections or boxes.
    assert _detected(max_detections=1)[-2:] == [("scratch", 2 * 400), ("scratch", 400)]
    assert _detected(max_detections=200)[-2:] == [("scratch", 200 * 400), ("scratch", 100 * 400)]
    assert _detected()[-2:] == [("scratch", 2 * 400), ("scratch", 0)]


def test_detection_postprocess_rejects() -> None:
    with pytest.raises(KernelRefusal, match="3 inputs and 4 outputs"):
        _detected(results=3)
    with pytest.raises(KernelRefusal, match="3 dimensions, not 2"):
        _detected(ANCHORS)
    with pytest.raises(KernelRefusal, match="a size of -1"):
        _detected(max_detections=-1)
    with pytest.raises(KernelRefusal, match="custom options that are not a FlexBuffer"):
        asked("TFLite_Detection_PostProcess", [BOXES, SCORES, ANCHORS], RESULTS, custom_options=b"?")


def _ancillary(kind: int, *, version: int = 1, own: int = 1, parameters: int = 0) -> Tensor:
    header = bytes([kind, version, 0, 0, own, parameters])
    return replace(tensor(32, dtype=DType.UINT8), data=header.ljust(32, b"\0"))


CODES = replace(tensor(4, dtype=DType.UINT8), data=bytes(4))
PLAIN = tensor(4, 2, scale=0.5)


def _shifted(axis: int, *zero_points: int, dtype: DType = DType.INT8) -> Tensor:
    return replace(tensor(4, 2, dtype=dtype), quantization=Quantization((0.5,) * len(zero_points), zero_points, axis))


# The quantization of the output is looked at after the state is made: nothing may lie over it until then.
READ_LATER = ("temporary buffer", 0)


@pytest.mark.parametrize(("kind", "size_32", "size_64"), [(0, 36, 72), (1, 28, 56), (2, 40, 80)])
def test_decode_makes_a_state_for_each_output(kind: int, size_32: int, size_64: int) -> None:
    inputs = [CODES, _ancillary(kind)]
    requests = asked("TFLM_DECODE", inputs, [PLAIN])
    assert requests == [("persistent", 4), "t0", "t1", "t2", READ_LATER, ("persistent", size_32)]
    assert asked("TFLM_DECODE", inputs, [PLAIN], abi=HOST)[-1] == ("persistent", size_64)
    two = asked("TFLM_DECODE", inputs * 2, [PLAIN, PLAIN])
    assert two[0] == ("persistent", 8)
    assert two[6:] == ["t2", "t3", "t5", READ_LATER, ("persistent", size_32)]


def test_a_pruned_tensor_keeps_its_zero_points() -> None:
    prune = [CODES, _ancillary(2)]
    assert asked("TFLM_DECODE", prune, [_shifted(0, 0, 1, 0, 0)])[-1] == ("persistent", 4)
    assert asked("TFLM_DECODE", prune, [_shifted(1, 0, 1)])[-1] == ("persistent", 2)
    assert asked("TFLM_DECODE", prune, [_shifted(0, 5)])[-1] == ("persistent", 40)
    assert asked("TFLM_DECODE", prune, [_shifted(0, 0, 0, 0, 0)])[-1] == ("persistent", 40)


@pytest.mark.parametrize(
    ("codes", "ancillary", "result", "reason"),
    [
        (tensor(4, dtype=DType.UINT8), _ancillary(0), PLAIN, "requires its codes to be constant in the file"),
        (CODES, tensor(32, dtype=DType.UINT8), PLAIN, "requires its tables to be constant in the file"),
        (CODES, _ancillary(0, version=2), PLAIN, "version 1, not 2"),
        (CODES, _ancillary(127), PLAIN, "no decoder for type 127"),
        (CODES, _ancillary(1, own=3), PLAIN, "tables of version 1, not 3"),
        (CODES, _ancillary(1), tensor(4, dtype=DType.INT16), "only to int8 with 16-bit tables"),
        (CODES, _ancillary(2), _shifted(0, 1, dtype=DType.INT16), "only for int8"),
        (CODES, _ancillary(0), _shifted(2, 0), "first or last axis, not 2"),
        (CODES, _ancillary(0), _shifted(1, 0), "first or last axis, not 1"),
    ],
)
def test_decode_rejects(codes: Tensor, ancillary: Tensor, result: Tensor, reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        asked("TFLM_DECODE", [codes, ancillary], [result])


def test_tables_of_32_bits_decode_to_other_types() -> None:
    inputs = [CODES, _ancillary(1, parameters=1)]
    assert asked("TFLM_DECODE", inputs, [tensor(4, dtype=DType.INT16)])[-1] == ("persistent", 28)


def test_decode_without_outputs() -> None:
    with pytest.raises(KernelRefusal, match="has no output"):
        asked("TFLM_DECODE", [CODES, _ancillary(0)], [])


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


def decoded(
    tables: bytes, rows: int, columns: int, *, scales: int = 1, dtype: DType = INT8, axis: int = 0
) -> LoopCounts:
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
    expected = LoopCounts("table of 5 bits int8 and table of 6 bits int8", {"output": 2, "channel": 2, "element": 48})
    assert run(net.model([], results)) == expected
