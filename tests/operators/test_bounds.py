"""What keeps kernels within their tensors: sound operators pass, and each with one thing changed is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from struct import pack
from typing import Any

import pytest

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import Call, KernelRefusal
from edgetool.operators.registry import CUSTOM_OPERATORS, OPERATORS, check_bounds
from tests.flexbuffers import flex_map
from tests.operators.asked import F, alone, constant
from tests.operators.calls import platform, tensor

INT16, INT32, UINT8, UINT32, UINT64 = DType.INT16, DType.INT32, DType.UINT8, DType.UINT32, DType.UINT64
INTEGER, VECTOR = 1 << 2 | 3, 10 << 2 | 3  # of a flexbuffer, 8 bytes wide
BORDER = constant(0, 0, 0, 0, shape=(2, 2))
TABLES, PRUNED = bytes([0, 1, 0, 0, 1, 4, 16]).ljust(16, b"\0"), bytes([2, 1, 0, 0, 1]).ljust(16, b"\0")


def held(data: bytes) -> Tensor:
    """A constant of bytes."""
    return replace(tensor(len(data), dtype=UINT8), data=data)


def samples(*shape: int) -> Tensor:
    return tensor(*shape, dtype=INT16)


def energies(*shape: int) -> Tensor:
    return tensor(*shape, dtype=UINT32)


@dataclass(frozen=True, slots=True)
class Alone:
    """One operator; numbers: the options of a custom one."""

    code: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    options: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, int] | None = None

    def check(self) -> None:
        given = None if self.numbers is None else flex_map(**self.numbers)
        whole, made = alone(self.code, self.inputs, self.outputs, given, **self.options)
        check_bounds(Call(whole, whole.main, made, platform(), {}))


FLAG = tensor(dtype=DType.BOOL)
WIDE = tensor(4, 6)
BOXES = [tensor(1, 12, 4, dtype=F), tensor(1, 12, 4, dtype=F), tensor(12, 4, dtype=F)]
FOUND = [tensor(1, 5, 4, dtype=F), tensor(1, 5, dtype=F), tensor(1, 5, dtype=F), tensor(1, dtype=F)]
CHOICE = {"max_detections": 5, "max_classes_per_detection": 1, "num_classes": 3}
STARTS = [constant(*numbers, dtype=INT16) for numbers in ([0, 2, 4], [0, 3, 6], [3, 3, 4])]
STACK = {"num_channels": 4, "stacker_left_context": 1, "stacker_right_context": 1, "stacker_step": 2}
NOISE = {
    "alternate_one_minus_smoothing": 1,
    "alternate_smoothing": 1,
    "clamping": 0,
    "min_signal_remaining": 1,
    "num_channels": 8,
}

SOUND = {
    "greatest": Alone("ARG_MAX", [tensor(2, 3), constant(1)], [tensor(2)]),
    "least": Alone("ARG_MIN", [tensor(2, 3), constant(1)], [tensor(2)]),
    "to space": Alone("BATCH_TO_SPACE_ND", [tensor(4, 2, 2, 1), constant(2, 2), BORDER], [tensor(1, 4, 4, 1)]),
    "to batch": Alone("SPACE_TO_BATCH_ND", [tensor(1, 4, 4, 1), constant(2, 2), BORDER], [tensor(4, 2, 2, 1)]),
    "shapes": Alone("BROADCAST_ARGS", [constant(2, 1, 4), constant(3, 4)], [tensor(3, dtype=INT32)]),
    "shapes that are computed": Alone("BROADCAST_ARGS", [tensor(3), constant(3, 4)], [tensor(3, dtype=INT32)]),
    "slots": Alone("CIRCULAR_BUFFER", [tensor(1, 1, 2, 3)], [tensor(1, 9, 2, 3)], numbers={"cycles_max": 1}),
    "classes": Alone(
        "BasicClassifier",
        [tensor(1, 5, dtype=INT32), constant(4, 0), constant(9, 9)],
        [tensor(2, dtype=DType.BOOL), tensor(2, dtype=INT32)],
        numbers={},
    ),
    "classes that are computed": Alone(
        "BasicClassifier",
        [tensor(1, 5, dtype=INT32), tensor(2, dtype=INT32), constant(9, 9)],
        [tensor(2, dtype=DType.BOOL), tensor(2, dtype=INT32)],
        numbers={},
    ),
    "depth": Alone("SPACE_TO_DEPTH", [tensor(1, 4, 4, 1)], [tensor(1, 2, 2, 4)], {"block_size": 2}),
    "space": Alone("DEPTH_TO_SPACE", [tensor(1, 2, 2, 4)], [tensor(1, 4, 4, 1)], {"block_size": 2}),
    "gather": Alone("GATHER", [tensor(4, 5, 6), tensor(4, 7)], [tensor(4, 7, 6)], {"axis": 1, "batch_dims": 1}),
    "gather, batches from the end": Alone("GATHER", [tensor(4, 5), tensor(4, 7)], [tensor(4, 7)], {"batch_dims": -1}),
    "gather points": Alone("GATHER_ND", [tensor(3, 4, 5), tensor(2, 7, 2)], [tensor(2, 7, 5)]),
    "mirror": Alone("MIRROR_PAD", [tensor(2, 2), BORDER], [tensor(2, 2)]),
    "reverse": Alone("REVERSE_V2", [tensor(2, 3), constant(1)], [tensor(2, 3)]),
    "slice": Alone("SLICE", [tensor(4), constant(1), constant(2)], [tensor(2)]),
    "slice from somewhere": Alone("SLICE", [WIDE, tensor(2, dtype=INT32), constant(-1, 2)], [tensor(4, 2)]),
    "mean": Alone("MEAN", [tensor(1, 4, 6, 5), constant(1, 2)], [tensor(1, 1, 1, 5)], {"keep_dims": True}),
    "mean, not kept": Alone("MEAN", [tensor(1, 4, 6, 5), constant(1, 2)], [tensor(1, 5)], {"keep_dims": False}),
    "sum": Alone("SUM", [WIDE, constant(1)], [tensor(4)]),
    "all": Alone("REDUCE_ALL", [WIDE, constant(1)], [tensor(4)]),
    "most": Alone("REDUCE_MAX", [WIDE, constant(1)], [tensor(4)]),
    "fewest": Alone("REDUCE_MIN", [WIDE, constant(1)], [tensor(4)]),
    "strided": Alone("STRIDED_SLICE", [WIDE, *[constant(1, -1)] * 3], [tensor(3)], {"shrink_axis_mask": 2}),
    "strided from where it begins": Alone(
        "STRIDED_SLICE",
        [WIDE, constant(9, 9), *[constant(1, -1)] * 2],
        [tensor()],
        {"shrink_axis_mask": 3, "begin_mask": 3},
    ),
    "table": Alone("TFLM_DECODE", [held(bytes(12)), held(TABLES + bytes(16))], [WIDE], numbers={}),
    "tables of channels": Alone(
        "TFLM_DECODE", [held(bytes(12)), held(TABLES + bytes(17))], [tensor(4, 6, scale=1.0, scales=2)], numbers={}
    ),
    "pruned": Alone("TFLM_DECODE", [held(b"\x07\0\x01"), held(PRUNED + bytes(4))], [WIDE], numbers={}),
    "detections": Alone("TFLite_Detection_PostProcess", BOXES, FOUND, numbers=CHOICE),
    "regular detections": Alone(
        "TFLite_Detection_PostProcess",
        BOXES,
        FOUND,
        numbers={**CHOICE, "use_regular_nms": 1, "max_classes_per_detection": 9},
    ),
    "delay": Alone("SignalDelay", [samples(2, 8)], [samples(2, 8)], numbers={"delay_length": 3}),
    "energy": Alone("SignalEnergy", [samples(16)], [energies(8)], numbers={"end_index": 8, "start_index": 1}),
    "scaled": Alone("SignalFftAutoScale", [samples(8)], [samples(8), tensor(dtype=INT32)]),
    "filters": Alone(
        "SignalFilterBank",
        [energies(8), samples(10), samples(10), *STARTS],
        [tensor(2, dtype=UINT64)],
        numbers={"num_channels": 2},
    ),
    "logarithms": Alone("SignalFilterBankLog", [energies(8)], [samples(8)]),
    "noise": Alone("SignalFilterBankSpectralSubtraction", [energies(8)], [energies(8), energies(8)], numbers=NOISE),
    "roots": Alone("SignalFilterBankSquareRoot", [tensor(8, dtype=UINT64), tensor(dtype=INT32)], [energies(8)]),
    "frames": Alone(
        "SignalFramer",
        [samples(2, 8)],
        [samples(2, 2, 6), FLAG],
        numbers={"frame_size": 6, "frame_step": 4, "prefill": 1},
    ),
    "short frames": Alone(
        "SignalFramer", [samples(8)], [samples(2, 3), FLAG], numbers={"frame_size": 3, "frame_step": 4, "prefill": 0}
    ),
    "overlap": Alone("SignalOverlapAdd", [samples(3, 8)], [samples(24)], numbers={"T": INT16.code, "frame_step": 8}),
    "gains": Alone("SignalPCAN", [energies(8), energies(8), samples(125)], [energies(8)]),
    "spectrum": Alone("SignalRfft", [samples(2, 6)], [samples(2, 10)], numbers={"T": INT16.code, "fft_length": 8}),
    "samples": Alone("SignalIrfft", [samples(2, 10)], [samples(2, 8)], numbers={"T": INT16.code, "fft_length": 8}),
    "stack": Alone("SignalStacker", [samples(4)], [samples(12), FLAG], numbers=STACK),
    "window": Alone("SignalWindow", [samples(2, 8), samples(8)], [samples(2, 8)], numbers={"shift": 12}),
}


def broken(name: str, message: str, **changes: Any) -> tuple[Alone, str]:
    """A sound operator with other tensors at these positions, or other options, and what is said of it."""
    case = SOUND[name]
    for side in ("inputs", "outputs"):
        others = changes.pop(side, {})
        case = replace(case, **{side: [others.get(i, one) for i, one in enumerate(getattr(case, side))]})
    for given in ("options", "numbers"):
        if given in changes:
            case = replace(case, **{given: {**(getattr(case, given) or {}), **changes.pop(given)}})
    return case, message


BROKEN = {
    "greatest": broken("greatest", "requires its axis to be constant", inputs={1: tensor(1)}),
    "least": broken("least", "requires its axis to be constant", inputs={1: tensor(1)}),
    "blocks": broken("to space", "requires its blocks to be constant", inputs={1: tensor(2)}),
    "border": broken("to batch", "requires its border to be constant", inputs={2: tensor(2, 2)}),
    "shapes": broken("shapes", "cannot broadcast 4 to 5", inputs={1: constant(5)}),
    "classes, one too many": broken("classes", "cannot detect class 5: there are only 5", inputs={1: constant(4, 5)}),
    "classes, negative": broken("classes", "cannot detect class -1", inputs={1: constant(-1, 0)}),
    "slots, rank": broken("slots", "requires 4 dimensions", inputs={0: tensor(1, 1, 6)}),
    "slots, output's rank": broken("slots", "requires 4 dimensions", outputs={0: tensor(1, 9)}),
    "slots, none": broken("slots", "whose dimension 1 is 0", outputs={0: tensor(1, 0, 2, 3)}),
    "depth": broken("depth", "writes 4 dimensions to an output with 3", outputs={0: tensor(1, 2, 8)}),
    "space": broken("space", "writes 4 dimensions to an output with 5", outputs={0: tensor(1, 4, 4, 1, 1)}),
    "gather": broken("gather", "writes 3 dimensions to an output with 2", outputs={0: tensor(28, 6)}),
    "gather, batches": broken(
        "gather, batches from the end", "2 dimensions to an output with 1", outputs={0: tensor(28)}
    ),
    "gather points": broken("gather points", "3 dimensions to an output with 2", outputs={0: tensor(14, 5)}),
    "mirror": broken("mirror", "requires its border to be constant", inputs={1: tensor(2, 2)}),
    "reverse": broken("reverse", "empty list", inputs={1: tensor(0, dtype=INT32)}),
    "slice": broken("slice", "int32 together with int64", inputs={2: constant(2, dtype=DType.INT64)}),
    "slice, sizes": broken("slice", "requires its sizes to be constant", inputs={2: tensor(1, dtype=INT32)}),
    "slice from somewhere, rest": broken("slice from somewhere", r"may write a \(4, 2\)", outputs={0: tensor(3, 2)}),
    "slice from somewhere, size": broken(
        "slice from somewhere", r"may write a \(5, 2\)", inputs={2: constant(5, 2)}, outputs={0: tensor(5, 2)}
    ),
    "slice from somewhere, fewer": broken(
        "slice from somewhere", r"may write a \(-2, -4\)", inputs={2: constant(-2, -4)}, outputs={0: tensor(8)}
    ),
    "mean": broken("mean", "cannot keep 4 dimensions", outputs={0: tensor(1, 1, 1, 5, 1)}),
    "mean, axes": broken("mean", "requires its axes to be constant", inputs={1: tensor(2, dtype=INT32)}),
    "sum": broken("sum", "requires its axis to be constant", inputs={1: tensor(1, dtype=INT32)}),
    "all": broken("all", "requires its axis to be constant", inputs={1: tensor(1, dtype=INT32)}),
    "most": broken("most", "requires its axis to be constant", inputs={1: tensor(1, dtype=INT32)}),
    "fewest": broken("fewest", "requires its axis to be constant", inputs={1: tensor(1, dtype=INT32)}),
    "strided, beginnings": broken("strided", "2 elements of input 1, which has 1", inputs={1: constant(1)}),
    "strided, ends": broken("strided", "2 elements of input 2, which has 1", inputs={2: constant(1)}),
    "strided, strides": broken("strided", "2 elements of input 3, which has 1", inputs={3: constant(1)}),
    "strided, past the end": broken("strided", "element 6 of a dimension of size 6", inputs={1: constant(1, 6)}),
    "strided, before the beginning": broken("strided", "element -7 of", inputs={1: constant(1, -7)}),
    "strided, empty": broken("strided from where it begins", "a dimension of size 0", inputs={0: tensor(4, 0)}),
    "table, bits": broken("table", "requires 96 bits of codes, not 88", inputs={0: held(bytes(11))}),
    "table, no bits": broken("table", "codes of 0 bits", inputs={1: held(TABLES.replace(b"\4", b"\0") + bytes(16))}),
    "table, values": broken("table", "a table of 1 values, not 0", inputs={1: held(TABLES)}),
    "tables of channels": broken("tables of channels", "17 values, not 16", inputs={1: held(TABLES + bytes(16))}),
    "pruned, bits": broken("pruned", "24 bits of codes, not 16", inputs={0: held(bytes(2))}),
    "pruned, values": broken("pruned", "4 values, not 3", inputs={1: held(PRUNED + bytes(3))}),
    "detections, classes": broken("detections", "does not support 0 classes", numbers={"num_classes": 0}),
    "detections, none": broken("detections", "0 detections", numbers={"max_detections": 0}),
    "detections, too many": broken("detections", "does not have room", numbers={"max_detections": 2**27}),
    "detections, anchors": broken("detections", "12 anchors", inputs={2: tensor(11, 4, dtype=F)}),
    "detections, type": broken("detections", "float32, not int8", outputs={2: tensor(1, 5)}),
    "detections, boxes": broken("detections", "20 elements to output 0", outputs={0: tensor(1, 4, 4, dtype=F)}),
    "detections, scores": broken("detections", "5 elements to output 2", outputs={2: tensor(1, 4, dtype=F)}),
    "detections, number": broken("detections", "empty output 3", outputs={3: tensor(0, dtype=F)}),
    "detections, classes for each": broken("detections", "80 el", numbers={"max_classes_per_detection": 2}),
    "detections, regular": broken("regular detections", "20 elements to", outputs={0: tensor(1, 4, 4, dtype=F)}),
    "detections, room": broken("regular detections", "can merge at most 12 boxes", numbers={"max_detections": 1}),
    "delay": broken("delay", "produces 16 elements, not 15", outputs={0: samples(1, 15)}),
    "energy, order": broken("energy", "from 9 to 8", numbers={"start_index": 9}),
    "energy, input": broken("energy", "16 elements as input 0, not 15", inputs={0: samples(15)}),
    "energy, output": broken("energy", "8 elements as output 0, not 7", outputs={0: energies(7)}),
    "scaled": broken("scaled", "produces 8 elements", outputs={0: samples(9)}),
    "filters, constant": broken("filters", "requires its starts to be constant", inputs={3: samples(3)}),
    "filters, widths": broken("filters", "3 elements as input 5", inputs={5: constant(1, 1, dtype=INT16)}),
    "filters, output": broken("filters", "2 channels, not 3", outputs={0: tensor(3, dtype=UINT64)}),
    "filters, input": broken("filters", "4 frequencies from 4", inputs={0: energies(7)}),
    "filters, weights": broken("filters", "weights from 6", inputs={2: samples(9)}),
    "filters, before": broken("filters", "from -1", inputs={3: constant(-1, 0, 0, dtype=INT16)}),
    "logarithms": broken("logarithms", "produces 8 elements, not 7", outputs={0: samples(7)}),
    "noise, input": broken("noise", "8 elements as input 0", inputs={0: energies(7)}),
    "noise, output": broken("noise", "8 elements as output 0", outputs={0: energies(7)}),
    "noise, estimates": broken("noise", "8 noise estimates", outputs={1: energies(9)}),
    "roots": broken("roots", "produces 8 elements", outputs={0: energies(7)}),
    "frames, output": broken("frames", "24 elements as output 0", outputs={0: samples(2, 2, 5)}),
    "frames, none": broken("short frames", "frames of 0", numbers={"frame_size": 0}),
    "frames, filled": broken("short frames", "frames of 3 in steps of 4", numbers={"prefill": 1}),
    "overlap, step": broken("overlap", "frames of 8 in steps of 9", numbers={"frame_step": 9}),
    "overlap, output": broken("overlap", "24 elements as output 0", outputs={0: samples(23)}),
    "gains, output": broken("gains", "produces 8 elements", outputs={0: energies(9)}),
    "gains, noise": broken("gains", "8 elements as input 1", inputs={1: energies(7)}),
    "gains, table": broken("gains", "125 elements as input 2", inputs={2: samples(124)}),
    "spectrum, odd": broken("spectrum", "transform of 7", numbers={"fft_length": 7}),
    "spectrum, none": broken("spectrum", "transform of 0", numbers={"fft_length": 0}),
    "spectrum, scalar": broken("spectrum", "without dimensions", inputs={0: samples()}, outputs={0: samples()}),
    "spectrum, input": broken("spectrum", "with a length of 8", inputs={0: samples(2, 9)}),
    "spectrum, output": broken("spectrum", "with a length of 8", outputs={0: samples(2, 9)}),
    "spectrum, rows": broken("spectrum", "produces 2 rows, not 1", outputs={0: samples(1, 10)}),
    "samples, input": broken("samples", "with a length of 8", inputs={0: samples(2, 9)}),
    "samples, output": broken("samples", "with a length of 8", outputs={0: samples(2, 7)}),
    "stack, no step": broken("stack", "in steps of 0", numbers={"stacker_step": 0}),
    "stack, step": broken("stack", "3 rows in steps of 4", numbers={"stacker_step": 4}),
    "stack, channels": broken("stack", "does not support 0 channels", numbers={"num_channels": 0}),
    "stack, input": broken("stack", "4 elements as input 0", inputs={0: samples(3)}),
    "stack, output": broken("stack", "12 elements as output 0", outputs={0: samples(11)}),
    "window, rest": broken("window", "16 samples in windows of 7", inputs={1: samples(7)}),
    "window, none": broken("window", "windows of 0", inputs={1: samples(0)}),
    "window, output": broken("window", "produces 16 elements", outputs={0: samples(2, 7)}),
}


@pytest.mark.parametrize("case", SOUND.values(), ids=SOUND)
def test_an_operator_that_stays_within_its_tensors_passes(case: Alone) -> None:
    case.check()


@pytest.mark.parametrize(("case", "message"), BROKEN.values(), ids=BROKEN)
def test_an_operator_that_leaves_its_tensors_is_refused(case: Alone, message: str) -> None:
    with pytest.raises(KernelRefusal, match=message) as caught:
        case.check()
    assert str(caught.value).startswith(case.code)


def test_an_option_of_64_bits_is_not_truncated_to_32() -> None:
    """TFLM cuts it: an end far away would be one before the beginning."""
    numbers = pack("<3Q", 2, 2**33 + 8, 2**31)  # a vector's length, the end and the start
    given = numbers + bytes([INTEGER, INTEGER, len(numbers) + 2 - 8, VECTOR, 1])
    whole, made = alone("SignalEnergy", [samples(16)], [energies(8)], given)
    with pytest.raises(KernelRefusal, match="as option 0"):
        check_bounds(Call(whole, whole.main, made, platform(), {}))


def test_every_operator_with_bounds_has_cases() -> None:
    bounded = {entry.code for entry in (*OPERATORS.values(), *CUSTOM_OPERATORS.values()) if entry.bounds is not None}
    assert {case.code for case in SOUND.values()} == bounded == {case.code for case, _ in BROKEN.values()}
