from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.model.types import DType, Quantization, Tensor
from edgetool.operators.call import KernelRefusal
from tests.flexbuffers import flex_map
from tests.operators.prepare.asked import Asked, F, asked
from tests.operators.prepare.calls import HOST, tensor


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


def test_what_detection_postprocess_does_not_take() -> None:
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
def test_what_decode_does_not_take(codes: Tensor, ancillary: Tensor, result: Tensor, reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        asked("TFLM_DECODE", [codes, ancillary], [result])


def test_tables_of_32_bits_decode_to_other_types() -> None:
    inputs = [CODES, _ancillary(1, parameters=1)]
    assert asked("TFLM_DECODE", inputs, [tensor(4, dtype=DType.INT16)])[-1] == ("persistent", 28)


def test_decode_without_outputs() -> None:
    with pytest.raises(KernelRefusal, match="has no output"):
        asked("TFLM_DECODE", [CODES, _ancillary(0)], [])
