""""""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.operators.cmsis_nn import (
    Convolution,
    average_pool,
    convolve_s8,
    convolve_s16,
    depthwise_s4,
    depthwise_s8,
    fully_connected_s8,
    svdf_s8,
    transpose_reversed_filter_s8,
    transpose_s8,
)
from tests.operators.builds import DSP, MVE, PLAIN

CONV_3X3 = Convolution(
    batch=1,
    in_height=8,
    in_width=8,
    in_channels=3,
    out_height=8,
    out_width=8,
    out_channels=8,
    kernel_height=3,
    kernel_width=3,
    kernel_channels=3,
    stride_height=1,
    stride_width=1,
    pad_height=1,
    pad_width=1,
)
CONV_1X1 = replace(CONV_3X3, kernel_height=1, kernel_width=1, pad_height=0, pad_width=0)
DEPTHWISE_5X5 = replace(CONV_3X3, in_channels=8, kernel_height=5, kernel_width=5, kernel_channels=1)
ROW = replace(
    CONV_3X3, in_height=1, in_width=16, in_channels=4, kernel_channels=4, kernel_height=1, kernel_width=5, pad_height=0
)


def test_im2col_of_int8_is_two_columns_of_int16_or_four_of_int8_on_mve() -> None:
    # 27 elements, rounded up to 4 and to 16.
    assert convolve_s8(CONV_3X3, DSP) == 2 * 28 * 2
    assert convolve_s8(CONV_3X3, MVE) == 4 * 32


def test_im2col_of_int16_is_rounded_up_on_mve_only() -> None:
    assert convolve_s16(CONV_3X3, DSP) == 2 * 27 * 2
    assert convolve_s16(CONV_3X3, MVE) == 4 * 32 * 2
    assert convolve_s16(CONV_1X1, DSP) == 2 * 3 * 2


@pytest.mark.parametrize("mve", [False, True])
def test_only_a_plain_1x1_convolution_of_int8_needs_no_im2col(mve: bool) -> None:
    assert convolve_s8(CONV_1X1, MVE if mve else DSP) == 0
    assert convolve_s8(replace(CONV_1X1, stride_height=2, stride_width=2), MVE if mve else DSP) == 0
    for changed in (
        replace(CONV_1X1, dilation_height=2),
        replace(CONV_1X1, pad_width=1),
        replace(CONV_1X1, kernel_channels=1),
    ):
        assert convolve_s8(changed, MVE if mve else DSP) > 0


@pytest.mark.parametrize(
    ("row", "elements"),
    [
        (replace(ROW, out_width=16, pad_width=2), 5 + 2),
        # (6 - 1) * 2 + 5 - 16 = -1: one column is left over, and a padded window is kept for it.
        (replace(ROW, out_width=6, stride_width=2, pad_width=0), 4 + 1),
        (replace(ROW, out_width=7, stride_width=2, pad_width=0, kernel_width=4), 4),
        # 3 columns of padding, 1 in front: 2 padded windows behind.
        (replace(ROW, out_width=16, kernel_width=4, pad_width=1), 4 + 1),
    ],
)
def test_mve_pads_only_the_ends_of_a_row(row: Convolution, elements: int) -> None:
    assert convolve_s8(row, MVE) == 4 * elements
    assert convolve_s8(row, DSP) == 4 * 4 * row.kernel_width


def test_a_row_of_ends_alone_or_of_odd_steps_takes_im2col() -> None:
    short = replace(ROW, in_width=2, out_width=2, pad_width=2)
    assert convolve_s8(short, MVE) == 4 * 32
    assert convolve_s8(replace(ROW, in_channels=3, kernel_channels=3, out_width=16, pad_width=2), MVE) == 4 * 16


def test_a_depthwise_convolution_keeps_its_columns_or_blocks_of_channels() -> None:
    assert depthwise_s8(DEPTHWISE_5X5, DSP) == 8 * 25 * 2
    assert depthwise_s8(DEPTHWISE_5X5, MVE) == 4 * 124 * 25
    assert depthwise_s8(DEPTHWISE_5X5, PLAIN) == 0
    assert depthwise_s4(DEPTHWISE_5X5, mve=False) == 8 * 25 * 2
    assert depthwise_s4(DEPTHWISE_5X5, mve=True) == 4 * 124 * 25


def test_a_3x3_depthwise_convolution_needs_nothing_without_mve() -> None:
    small = replace(DEPTHWISE_5X5, kernel_height=3, kernel_width=3)
    assert depthwise_s8(small, DSP) == 0
    assert depthwise_s8(small, MVE) == 4 * 124 * 9
    assert depthwise_s4(small, mve=False) == 8 * 9 * 2
    assert depthwise_s8(replace(small, pad_height=2), DSP) == 8 * 9 * 2


@pytest.mark.parametrize("changed", [{"batch": 2}, {"dilation_width": 2}, {"out_channels": 16}])
def test_other_depthwise_convolutions_run_without_a_buffer(changed: dict[str, int]) -> None:
    general = replace(DEPTHWISE_5X5, **changed)
    assert depthwise_s8(general, DSP) == depthwise_s8(general, MVE) == 0
    assert depthwise_s4(general, mve=False) == depthwise_s4(general, mve=True) == 0


def test_mve_convolves_one_channel_with_reversed_filters() -> None:
    one = replace(DEPTHWISE_5X5, in_channels=1, kernel_height=3, kernel_width=3)
    assert depthwise_s8(one, MVE) == 4 * 16 + 8 * 9
    assert depthwise_s8(one, DSP) == 0
    pointwise = replace(one, kernel_height=1, kernel_width=1, pad_height=0, pad_width=0)
    assert depthwise_s8(pointwise, MVE) == 8


def test_one_channel_in_a_row_gets_the_larger_of_two_buffers() -> None:
    row = replace(ROW, in_channels=1, kernel_channels=1, stride_width=4, out_width=4, pad_width=0)
    assert convolve_s8(row, MVE) == 5
    assert depthwise_s8(row, MVE) == 4 * 16 + 8 * 5


def test_a_transposed_convolution_reverses_its_filter_from_17_channels_on() -> None:
    few = replace(CONV_3X3, in_channels=16, kernel_channels=16, stride_height=2, stride_width=2)
    many = replace(few, in_channels=17, kernel_channels=17)
    assert transpose_reversed_filter_s8(few) == 0
    assert transpose_s8(few, DSP) == transpose_s8(few, MVE) == (7 * 2 + 3) * 8 * 3 * 4
    assert transpose_reversed_filter_s8(many) == 17 * 9 * 8
    assert transpose_s8(many, DSP) == 4 * 156
    assert transpose_s8(many, MVE) == 4 * 160


def test_accumulators_are_as_wide_as_the_vertical_stride() -> None:
    tall = replace(CONV_3X3, stride_height=4, stride_width=3)
    assert transpose_s8(tall, DSP) == (7 * 3 + 4) * 8 * 4 * 4
    assert transpose_reversed_filter_s8(replace(tall, in_channels=32)) == 0


@given(
    width=st.integers(1, 64),
    outputs=st.integers(1, 64),
    kernel=st.integers(1, 64),
    channels=st.integers(1, 8),
    stride=st.integers(0, 8),
    data=st.data(),
)
def test_the_buffer_of_a_row_is_never_larger_than_im2col(
    width: int, outputs: int, kernel: int, channels: int, stride: int, data: st.DataObject
) -> None:
    row = replace(
        ROW,
        in_width=width,
        out_width=outputs,
        kernel_width=kernel,
        stride_width=stride,
        in_channels=channels,
        kernel_channels=channels,
        pad_width=data.draw(st.integers(0, kernel // 2)),
    )
    assert 0 <= convolve_s8(row, MVE) <= convolve_s8(replace(row, in_height=2), MVE)


def test_only_mve_sums_rows_of_weights() -> None:
    for size in (fully_connected_s8, svdf_s8):
        assert size(10, mve=True) == 40  # an int32 for each row
        assert size(10, mve=False) == 0


def test_only_the_dsp_extension_accumulates_averages() -> None:
    assert average_pool(3, dsp=True, mve=False) == 12  # an int32 for each channel
    assert average_pool(3, dsp=True, mve=True) == average_pool(3, dsp=False, mve=False) == 0
