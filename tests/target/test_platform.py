"""The structs of the packaged runtime: what was measured on real TFLM, and that nothing is left out.

Sizes of structs as compilers give them; on this machine's own ABI ctypes is the judge.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.target.load import DEFAULT_RUNTIME, list_targets, load_runtime, load_target
from edgetool.target.platform import Platform, make_platform, platform_of
from edgetool.target.types import Abi, Kernels, StructSize, struct_size

RUNTIME = load_runtime(DEFAULT_RUNTIME)
OPERATORS = (*RUNTIME.operators, *RUNTIME.custom_operators)
ABIS = [abi.name for abi in RUNTIME.abis]


def arm(kernels: Kernels = "reference") -> Platform:
    """A Cortex-M build."""
    return make_platform(RUNTIME, "arm-eabi", kernels)


def test_each_operator_has_its_options_and_its_data() -> None:
    assert [code for code, _ in RUNTIME.options] == list(OPERATORS)
    assert [code for code, _ in RUNTIME.op_data] == list(OPERATORS)
    assert {code for code, _ in RUNTIME.cmsis_nn_op_data} <= set(RUNTIME.operators)


@pytest.mark.parametrize("abi", ABIS)
@pytest.mark.parametrize("kernels", ["cmsis-nn", "reference"])
def test_every_abi_computes(abi: str, kernels: Kernels) -> None:
    platform = make_platform(RUNTIME, abi, kernels)
    assert platform.op_data.keys() == platform.options.keys() == set(OPERATORS)
    sizes = {**platform.structs, **platform.options, **platform.op_data}
    assert all(size.size_bytes % size.alignment == 0 for size in sizes.values())
    assert platform.cmsis_nn == (kernels == "cmsis-nn")


def test_the_abis_state_their_basis() -> None:
    assert {abi.name: abi.measured for abi in RUNTIME.abis} == {
        "arm-eabi": ("reference", "cmsis-nn"),
        "x86-64": ("reference",),
        "riscv32-ilp32": (),
        "xtensa": (),
        "rx": (),
        "aarch64": (),
    }
    with pytest.raises(KeyError):
        RUNTIME.abi("vax")


# sizeof on Cortex-M with short enums, as measured by the arenas of TFLM
@pytest.mark.parametrize(
    ("struct", "size"),
    [
        ("SingleArenaBufferAllocator", 36),
        ("PersistentArenaBufferAllocator", 16),
        ("NonPersistentArenaBufferAllocator", 32),
        ("GreedyMemoryPlanner", 44),
        ("MicroAllocator", 36),
        ("MicroBuiltinDataAllocator", 8),
        ("MicroResourceVariables", 12),
        ("MicroResourceVariable", 20),
        ("ScratchBufferRequest", 12),
        ("AllocationInfo", 24),
        ("GreedyMemoryPlannerBuffer", 40),
        ("TfLiteEvalTensor", 12),
        ("NodeAndRegistration", 32),
        ("SubgraphAllocations", 8),
        ("ScratchBufferHandle", 4),
        ("TfLiteTensor", 32),
        ("TfLiteAffineQuantization", 12),
        ("QuantizationOpDataBatchMatmul", 28),
        ("LogSoftmaxOpData", 28),
        ("OpDataCumSum", 36),
        ("OpDataAddN", 40),
    ],
)
def test_the_interpreters_structs_on_arm(struct: str, size: int) -> None:
    assert arm().size_of(struct) == size


# size/alignment on Cortex-M
OPTIONS = """ADD 2/1, ARG_MAX 1/1, BATCH_MATMUL 3/1, CALL_ONCE 4/4, CAST 2/1, CONCATENATION 8/4, CONV_2D 28/4,
CUMSUM 2/1, DEPTH_TO_SPACE 4/4, DEPTHWISE_CONV_2D 28/4, DIV 1/1, FULLY_CONNECTED 5/1, GATHER 8/4, IF 8/4,
L2_NORMALIZATION 1/1, LEAKY_RELU 4/4, MIRROR_PAD 1/1, MUL 1/1, PACK 8/4, AVERAGE_POOL_2D 40/4, MAX_POOL_2D 40/4,
L2_POOL_2D 40/4, MEAN 1/1, SUM 1/1, REDUCE_MAX 1/1, RESHAPE 36/4, RESIZE_BILINEAR 2/1, RESIZE_NEAREST_NEIGHBOR 2/1,
SHAPE 1/1, SOFTMAX 4/4, SPACE_TO_DEPTH 4/4, SPLIT 4/4, SPLIT_V 4/4, SQUEEZE 36/4, STRIDED_SLICE 24/4, SUB 2/1,
SVDF 8/4, TRANSPOSE_CONV 16/4, UNIDIRECTIONAL_SEQUENCE_LSTM 16/4, UNPACK 8/4, VAR_HANDLE 8/4, WHILE 8/4,
PAD 0/1, TRANSPOSE 0/1, RELU 0/1, RELU6 0/1, LOGISTIC 0/1, QUANTIZE 0/1, DEQUANTIZE 0/1, TFLM_DECODE 0/1"""


@pytest.mark.parametrize("line", OPTIONS.replace("\n", " ").split(", "))
def test_parsed_options_on_arm(line: str) -> None:
    code, _, sizes = line.strip().partition(" ")
    struct = arm().options[code]
    assert f"{struct.size_bytes}/{struct.alignment}" == sizes


def test_op_data_on_arm(shared: Path) -> None:
    measured = json.loads((shared / "data" / "arena" / "op_data_bytes.json").read_text(encoding="utf-8"))
    found = {code: [arm(k).op_data[code].size_bytes for k in ("reference", "cmsis-nn")] for code in measured}
    assert found == measured
    assert len(measured) > 50


@pytest.mark.parametrize(
    ("code", "reference", "cmsis_nn"),
    [("CONV_2D", 56, 60), ("SOFTMAX", 56, 64), ("PAD", 56, 56), ("TRANSPOSE", 0, 0), ("SELECT_V2", 1, 1)],
)
def test_cmsis_nn_overlays_the_reference_kernels(code: str, reference: int, cmsis_nn: int) -> None:
    assert arm("reference").op_data[code].size_bytes == reference
    assert arm("cmsis-nn").op_data[code].size_bytes == cmsis_nn


def test_the_python_package_uses_other_allocators() -> None:
    platform = make_platform(RUNTIME, "x86-64", "reference")
    assert platform.size_of("MicroAllocator") == platform.size_of("RecordingMicroAllocator")
    assert platform.size_of("SingleArenaBufferAllocator") == platform.size_of("RecordingSingleArenaBufferAllocator")
    assert platform.size_of("TfLiteTensor") == 64  # as the C++ compiler has it


@pytest.mark.parametrize("name", list_targets())
def test_each_target_has_a_platform(name: str) -> None:
    target = load_target(name)
    platform = platform_of(target)
    assert (platform.kernels, platform.dsp, platform.mve) == (target.kernels, target.core.dsp, target.core.mve)
    assert platform.abi.name == target.core.abi
    assert platform.abi.pointer_bytes * 8 == target.core.word_bits
    with pytest.raises(KeyError):
        platform.size_of("Unknown")


ARM = Abi("arm-eabi", 4, 1, 8, "measured")
HOST = load_runtime(DEFAULT_RUNTIME).abi("x86-64")
C_TYPES: dict[str, type] = {
    "i8": ctypes.c_int8,
    "bool": ctypes.c_bool,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "f32": ctypes.c_float,
    "i64": ctypes.c_int64,
    "pointer": ctypes.c_void_p,
    "enum": ctypes.c_int,
    "Inner": type("Inner", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_int64), ("b", ctypes.c_int8)]}),
}
INNER = {"Inner": StructSize(16, 8)}


@pytest.mark.skipif(sys.platform == "win32" or struct.calcsize("P") != 8, reason="needs a 64-bit System V machine")
@given(st.lists(st.tuples(st.sampled_from(sorted(C_TYPES)), st.integers(1, 5)), min_size=1, max_size=12))
def test_this_machine_agrees(fields: list[tuple[str, int]]) -> None:
    members = [(f"m{i}", C_TYPES[kind] * count) for i, (kind, count) in enumerate(fields)]
    compiled = type("Compiled", (ctypes.Structure,), {"_fields_": members})
    text = " ".join(f"{kind}*{count}" for kind, count in fields)
    assert struct_size(text, HOST, INNER) == StructSize(ctypes.sizeof(compiled), ctypes.alignment(compiled))


@pytest.mark.parametrize(
    ("fields", "size", "alignment"),
    [
        ("", 0, 1),
        ("bool", 1, 1),
        ("enum*2 bool*2 enum", 5, 1),  # short enums
        ("bool i32", 8, 4),
        ("i32 bool", 8, 4),  # the tail is padded: elements of an array stay aligned
        ("i32 i64", 16, 8),
        ("pointer enum", 8, 4),
        ("i8 i16*3 i8", 10, 2),
        ("Inner i8", 24, 8),
    ],
)
def test_arm(fields: str, size: int, alignment: int) -> None:
    assert struct_size(fields, ARM, INNER) == StructSize(size, alignment)


def test_an_abi_may_align_eight_bytes_to_four() -> None:
    assert struct_size("i32 i64", Abi("i386", 4, 4, 4, "derived"), {}) == StructSize(12, 4)


@pytest.mark.parametrize("fields", ["u32", "i32 Unknown", "pointers", "*3"])
def test_an_unknown_field_is_a_key_error(fields: str) -> None:
    with pytest.raises(KeyError):
        struct_size(fields, ARM, {})
