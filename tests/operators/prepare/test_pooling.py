from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from edgetool.target.platform import Platform
from tests.operators.prepare.calls import tensor
from tests.operators.prepare.layers import CORTEX_M, DSP, MVE, PLAIN, REFERENCE, asked, kept, looked_at

IMAGE, POOLED = tensor(2, 8, 8, 3, scale=0.5), tensor(2, 4, 4, 3, scale=0.5)
FLOAT_IMAGE, FLOAT_POOLED = (replace(one, dtype=DType.FLOAT32, quantization=None) for one in (IMAGE, POOLED))
WINDOW = {"padding": "VALID", "stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}


@pytest.mark.parametrize("build", CORTEX_M)
def test_maximum_looks_at_each_tensor_once_and_keeps_nothing(build: Platform) -> None:
    requests = asked("MAX_POOL_2D", [IMAGE], POOLED, build)
    assert (looked_at(requests), kept(requests)) == ([0, 1], [])


def test_average_of_cmsis_nn_looks_twice() -> None:
    assert looked_at(asked("AVERAGE_POOL_2D", [IMAGE], POOLED)) == [0, 1]
    for build in (PLAIN, DSP, MVE):
        assert looked_at(asked("AVERAGE_POOL_2D", [FLOAT_IMAGE], FLOAT_POOLED, build)) == [0, 1, 0, 1]


@pytest.mark.parametrize("kind", [DType.INT8, DType.INT16])
def test_average_accumulates_in_scratch_with_the_dsp_extension_only(kind: DType) -> None:
    image, pooled = (replace(one, dtype=kind) for one in (IMAGE, POOLED))
    assert kept(asked("AVERAGE_POOL_2D", [image], pooled, DSP)) == [("scratch", 12)]  # an int32 for each channel
    for build in (REFERENCE, PLAIN, MVE):
        assert kept(asked("AVERAGE_POOL_2D", [image], pooled, build)) == []


def test_average_of_floats_needs_no_scratch() -> None:
    assert kept(asked("AVERAGE_POOL_2D", [FLOAT_IMAGE], FLOAT_POOLED, DSP)) == []


@pytest.mark.parametrize("code", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize(
    ("output", "why"),
    [
        (tensor(2, 4, 4, 3, scale=0.25), "quantized like the input"),
        (tensor(2, 4, 4, 3, scale=0.5, zero_point=1), "quantized like the input"),
    ],
)
def test_pooling_refuses_to_rescale(code: str, output: Tensor, why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        asked(code, [IMAGE], output)


def test_pooling_takes_a_scale_within_a_millionth() -> None:
    assert asked("MAX_POOL_2D", [IMAGE], tensor(2, 4, 4, 3, scale=0.5 + 2**-20))  # 0.95e-6
    with pytest.raises(KernelRefusal, match="quantized like the input"):
        asked("MAX_POOL_2D", [IMAGE], tensor(2, 4, 4, 3, scale=0.5 + 2**-19))  # 1.9e-6


@pytest.mark.parametrize("code", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_pooling_refuses_uint8(code: str) -> None:
    with pytest.raises(KernelRefusal, match="not uint8"):
        asked(code, [replace(IMAGE, dtype=DType.UINT8)], replace(POOLED, dtype=DType.UINT8))


def test_l2_pooling_looks_at_the_output_first_and_copies_its_dimensions() -> None:
    requests = asked("L2_POOL_2D", [FLOAT_IMAGE], FLOAT_POOLED, **WINDOW)
    assert (looked_at(requests), kept(requests)) == ([1, 0], [("persistent", 20)])  # a TfLiteIntArray of 4


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"stride_w": 0}, "cannot produce an output"),
        ({"filter_height": 9}, "cannot produce an output"),
    ],
)
def test_l2_pooling_refuses_an_empty_output(changed: dict[str, str | int], why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        asked("L2_POOL_2D", [FLOAT_IMAGE], FLOAT_POOLED, **{**WINDOW, **changed})


def test_l2_pooling_refuses_what_is_quantized() -> None:
    with pytest.raises(KernelRefusal, match="float32, not int8"):
        asked("L2_POOL_2D", [IMAGE], POOLED, **WINDOW)
