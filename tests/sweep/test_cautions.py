"""What is warned of in a table."""

from __future__ import annotations

from edgetool.sweep.metrics import Variant
from edgetool.sweep.table import cautions
from tests.sweep.made_rows import row, variant


def test_an_uncalibrated_quantization_is_told_once_with_all_variants() -> None:
    synthetic = {"calibrated": False, "samples": 100}
    found = cautions(
        [
            row(1, quality={**synthetic, "accuracy": None}),
            row(2, quality={**synthetic, "accuracy": None}),
            row(3, quality=synthetic),
            row(4, variant(precision="float32"), quality=synthetic),
            row(5, quality={"calibrated": True}),
        ]
    )
    assert [item.numbers for item in found] == [(1, 2), (3,)]
    assert "100 synthetic samples, so the accuracy on real data is unknown" in found[0].message
    assert "is unknown" not in found[1].message


def test_agreement_does_not_compare_sets_of_parameters() -> None:
    wide = Variant((("width", 1.0),), 0.0, "int8", "board")
    found = cautions([row(1, wide, quality={"accuracy": None}), row(2, wide), row(3, quality={"accuracy": None})])
    assert [item.numbers for item in found] == [(1,)]
    assert "same parameters" in found[0].message
