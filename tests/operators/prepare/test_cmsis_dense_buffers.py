from __future__ import annotations

from edgetool.operators.cmsis_nn import average_pool, fully_connected_s8, svdf_s8


def test_only_mve_sums_rows_of_weights() -> None:
    for size in (fully_connected_s8, svdf_s8):
        assert size(10, mve=True) == 40  # an int32 for each row
        assert size(10, mve=False) == 0


def test_only_the_dsp_extension_accumulates_averages() -> None:
    assert average_pool(3, dsp=True, mve=False) == 12  # an int32 for each channel
    assert average_pool(3, dsp=True, mve=True) == average_pool(3, dsp=False, mve=False) == 0
