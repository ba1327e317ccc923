"""Headers to emit in the tests: a board, a bare core, and a model whose every name is hostile."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from edgetool.codegen.spec import BuffersSpec, HeaderSpec, HeaderTarget, IoSpec, PlacedSpec, TensorSpec
from edgetool.model.types import DType

BLOB = bytes(range(256)) + b"TFL3 tail"
SHA256 = hashlib.sha256(BLOB).hexdigest()

KWS = HeaderSpec(
    name="kws",
    tool_version="0.1.0",
    model_sha256=SHA256,
    model_bytes=len(BLOB),
    target=HeaderTarget(
        name="nucleo-h743zi",
        core="cortex-m7",
        kernels="cmsis-nn",
        board="NUCLEO-H743ZI",
        runtime="tflm-2026-08",
        region="AXI SRAM",
        sram_bytes=524288,
        flash_bytes=2097152,
    ),
    arena_bytes=23456,
    arena_is_lower_bound=False,
    layout_bytes=16000,
    lower_bound_bytes=16000,
    tensors=(
        TensorSpec(0, 0, "serving_default_input_1:0", 0, 490, 0, 0),
        TensorSpec(5, 0, "model/conv2d/Relu;model/conv2d/BiasAdd", 496, 8000, 0, 2),
        TensorSpec(6, 0, "dense", 8496, 12, 2, 3),
        TensorSpec(7, 0, "StatefulPartitionedCall:0", 0, 12, 3, 3),
    ),
    inputs=(IoSpec(0, "serving_default_input_1:0", (1, 49, 10, 1), DType.INT8, 0.5847029089927673, 83, 0),),
    outputs=(IoSpec(7, "StatefulPartitionedCall:0", (1, 12), DType.INT8, 0.00390625, -128, 0),),
)

SEQUENCE = HeaderSpec(
    name="fall-detector v2",
    tool_version="0.1.0",
    model_sha256=SHA256,
    model_bytes=len(BLOB),
    target=HeaderTarget(name="cortex-m0plus", core="cortex-m0plus", kernels="reference"),
    arena_bytes=None,
    arena_is_lower_bound=True,
    layout_bytes=4100,
    lower_bound_bytes=4096,
    tensors=(TensorSpec(1, 0, "state", None, 64, 0, 9), TensorSpec(2, 1, "state", 64, 64, 0, 1)),
    inputs=(
        IoSpec(3, "accelerometer", (1, 128, 3), DType.INT16, 0.000244140625, 0),
        IoSpec(4, "image", (1, 2, 2, 3), DType.UINT8, 0.00784313771874, 128),
        IoSpec(5, "length", (), DType.INT32),
        IoSpec(6, "mask", (1, 4), DType.BOOL),
    ),
    outputs=(
        IoSpec(7, "score", (1, 2), DType.FLOAT32),
        IoSpec(8, "raw", (1, 2), DType.UINT16, 1.0, 40000),
        IoSpec(9, "half", (1, 2), DType.FLOAT16),
        IoSpec(10, "sum", (1, 2), DType.INT32, 0.25, 0),
    ),
    uncalibrated=True,
    notes=("The operator FFT is custom: its scratch is not known */ here.",),
)

HOSTILE_NAMES = (
    "*/ int injected; /*",
    "/* // nested",
    "*//*/",
    "line\nbreak\r\n#error injected",
    "ends in a backslash \\",
    "??/",
    "??=define x",
    '"quoted',
    "\u202eright to left\u2066",
    "\x00\x07\x1b[31m",
    "\ud800",
    "größe",
    "int",
    "class",
    "NULL",
    "int8_t",
    "errno",
    "main",
    "_leading",
    "__double",
    "do__uble",
    "trailing_",
    "9lives",
    "",
    " ",
    "a/b",
    "a:b",
    "a" * 300,
    "a" * 301,
    "A/B",
    "x",
    "X",
    "x_OFFSET",
    "%s%n",
    "defined",
    "__COUNTER__",
    "twin",
    "twin",
    "\\\n*/",
    "𝕏",
)

HOSTILE = HeaderSpec(
    name="*/\n#error injected ??/ \\",
    tool_version='0.1.0"; int injected; //',
    model_sha256=SHA256,
    model_bytes=len(BLOB),
    target=HeaderTarget("*/ t", '"core"', "kern\\", board="??/", runtime="// r", region="/*", sram_bytes=2**20),
    arena_bytes=4096,
    arena_is_lower_bound=False,
    layout_bytes=1024,
    lower_bound_bytes=1024,
    tensors=tuple(TensorSpec(i, 0, name, 16 * i, 16, 0, i) for i, name in enumerate(HOSTILE_NAMES)),
    inputs=tuple(IoSpec(i, name, (1, 16), DType.INT8, 0.1, -1, 16 * i) for i, name in enumerate(HOSTILE_NAMES)),
    outputs=(IoSpec(0, "*/", (1, 0), DType.INT8, 0.1, -1),),
    notes=("*/ int injected; /*", "a\nb \\", "\n"),
)

# The same tensors in shared buffers; one has nothing but the output of the first operator.
SHARED = replace(
    KWS,
    name="shared",
    tensors=tuple(
        replace(tensor, offset=None, buffer=buffer) for tensor, buffer in zip(KWS.tensors, (1, 0, 1, 0), strict=True)
    ),
    inputs=(replace(KWS.inputs[0], offset=None, buffer=1),),
    outputs=(replace(KWS.outputs[0], offset=None, buffer=0),),
    buffers=BuffersSpec((8000, 496), baseline_bytes=8528, lower_bound_bytes=8496),
)
HOSTILE_SHARED = replace(
    HOSTILE,
    name="*/ shared ??/",
    tensors=tuple(replace(tensor, offset=None, buffer=tensor.index % 3) for tensor in HOSTILE.tensors),
    inputs=tuple(replace(tensor, offset=None, buffer=tensor.index % 3) for tensor in HOSTILE.inputs),
    buffers=BuffersSpec((32, 16, 16), baseline_bytes=1024, lower_bound_bytes=48),
)

# The parts of a model in memories of their own: each in another, and together with a copy of the model.
PLACED = replace(
    KWS,
    name="placed",
    places=(
        PlacedSpec("head", "dtcm", 131072, 16000, 0x20000000),
        PlacedSpec("tail", "d3-sram", 65536, 7472, 0x38000000),
        PlacedSpec("model", "qspi", 1 << 24, len(BLOB)),
    ),
)
COPIED = replace(
    KWS,
    name="copied",
    places=(
        PlacedSpec("head", "AXI SRAM", 524288, 16000),
        PlacedSpec("tail", "AXI SRAM", 524288, 7472),
        PlacedSpec("model copy", "AXI SRAM", 524288, len(BLOB)),
        PlacedSpec("model", "flash", 2097152, len(BLOB), is_default=True),
    ),
)

ALL = {
    "kws": KWS,
    "sequence": SEQUENCE,
    "hostile": HOSTILE,
    "shared": SHARED,
    "hostile_shared": HOSTILE_SHARED,
    "placed": PLACED,
    "copied": COPIED,
}
