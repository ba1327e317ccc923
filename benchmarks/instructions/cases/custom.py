"""Custom operators: rolling windows, the end of object detectors, and compressed constants."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from struct import pack

from tests.flexbuffers import flex_map
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

INT8, INT16, INT32, FLOAT32 = DType.INT8, DType.INT16, DType.INT32, DType.FLOAT32

# Slots, width and depth.
ROLLED: tuple[tuple[int, int, int], ...] = (
    (9, 1, 6), (4, 1, 16), (12, 1, 3), (30, 1, 40), (3, 2, 33), (5, 4, 4), (2, 1, 5), (8, 1, 64), (16, 1, 1),
    (7, 1, 10), (20, 1, 12), (3, 1, 100), (11, 3, 7), (5, 1, 1), (6, 2, 24), (40, 1, 2), (2, 1, 200), (13, 1, 20),
)  # fmt: skip
# Boxes, classes, and the detections that are wanted.
DETECTED: tuple[tuple[int, int, int], ...] = (
    (12, 3, 5), (40, 2, 10), (100, 1, 10), (25, 8, 5), (150, 4, 20), (60, 20, 10), (18, 2, 18), (200, 3, 3),
    (30, 1, 30), (80, 6, 8), (10, 10, 10), (120, 2, 40), (50, 12, 3),
)  # fmt: skip
# What is decoded: rows and columns, and whether each row has a table of its own.
DECODED: tuple[tuple[int, int, bool], ...] = (
    (6, 16, False), (5, 13, True), (40, 40, False), (8, 20, True), (100, 9, False), (3, 7, False), (20, 30, True),
    (7, 65, True),
)  # fmt: skip
TABLE_BITS = range(1, 8)
# Which axis has several scales.
ROWS, COLUMNS = 0, 1


def rolling() -> Model:
    """CIRCULAR_BUFFER."""
    net = Net(61)
    inputs, outputs = [], []
    for slots, width, depth in ROLLED:
        x, y = net.arena(1, 1, width, depth), net.arena(1, slots, width, depth)
        net.custom("CIRCULAR_BUFFER", [x], [y], flex_map(cycles_max=1))
        inputs.append(x)
        outputs.append(y)
    return net.model(inputs, outputs)


def detections(boxes: int, classes: int, wanted: int, *, regular: bool) -> Model:
    """TFLite_Detection_PostProcess of boxes that hardly overlap."""
    net = Net(62)
    places, scores = net.arena(1, boxes, 4, dtype=FLOAT32), net.arena(1, boxes, classes + 1, dtype=FLOAT32)
    outputs = [net.arena(*shape, dtype=FLOAT32) for shape in ((1, wanted, 4), (1, wanted), (1, wanted), (1,))]
    given = flex_map(
        max_detections=wanted,
        max_classes_per_detection=1,
        detections_per_class=wanted,
        use_regular_nms=int(regular),
        num_classes=classes,
        nms_score_threshold=-100.0,
        nms_iou_threshold=0.5,
        y_scale=10.0,
        x_scale=10.0,
        h_scale=5.0,
        w_scale=5.0,
    )
    side = ceil(boxes**0.5)
    anchors = [
        value
        for at in range(boxes)
        for value in ((at // side + 0.5) / side, (at % side + 0.5) / side, 1 / side, 1 / side)
    ]
    known = net.tensor([boxes, 4], FLOAT32, data=pack(f"<{len(anchors)}f", *anchors))
    net.custom("TFLite_Detection_PostProcess", [places, scores, known], outputs, given)
    return net.model([places, scores], outputs)


def tables(dtype: DType, axis: int = ROWS) -> Model:
    """TFLM_DECODE by tables of each size."""
    net = Net(63)
    made = []
    for bits in TABLE_BITS:
        for rows, columns, own in DECODED:
            scales = (rows, columns)[axis] if own and dtype == INT8 else 1
            header = bytes([0, 1, 0, 0, 1, bits, 2**bits]).ljust(16, b"\0")
            codes = bytes(net.random.randrange(256) for _ in range(-(-rows * columns * bits // 8) + 8))
            values = bytes(net.random.randrange(100) for _ in range(scales * 2**bits * dtype.bits // 8))
            made.append(decoded(net, codes, header + values, (rows, columns), dtype, scales, axis, 0))
    return net.model([], made)


def pruned(dtype: DType, zero_point: int = 0) -> Model:
    """TFLM_DECODE of tensors half of which are zeros."""
    net = Net(64)
    made = []
    for rows, columns, own in DECODED:
        scales = rows if own and dtype == INT8 else 1
        header = bytes([2, 1, 0, 0, 1]).ljust(16, b"\0")
        codes = bytes(net.random.randrange(256) for _ in range(-(-rows * columns // 8)))
        values = bytes(net.random.randrange(100) for _ in range(rows * columns * dtype.bits // 8))
        made.append(decoded(net, codes, header + values, (rows, columns), dtype, scales, ROWS, zero_point))
    return net.model([], made)


def decoded(
    net: Net, codes: bytes, values: bytes, shape: tuple[int, int], dtype: DType, scales: int, axis: int, zero_point: int
) -> int:
    """The output of a decoder."""
    given = [net.tensor([len(data)], DType.UINT8, data=data) for data in (codes, values)]
    made = net.tensor(shape, dtype, scales=[0.25] * scales, zero_point=zero_point, axis=axis if scales > 1 else ROWS)
    net.custom("TFLM_DECODE", given, [made])
    return made


CASES: dict[str, Callable[[], Model]] = {
    "rolling": rolling,
    **{
        f"detections-{given[0]}-{'regular' if regular else 'fast'}": lambda given=given, regular=regular: detections(
            *given, regular=regular
        )
        for given in DETECTED
        for regular in (False, True)
    },
    **{
        f"{make.__name__}-{dtype.name.lower()}": lambda make=make, dtype=dtype: make(dtype)
        for make in (tables, pruned)
        for dtype in (INT8, INT16, INT32, FLOAT32)
    },
    "tables-columns": lambda: tables(INT8, COLUMNS),
    "pruned-channels": lambda: pruned(INT8, 3),
}
