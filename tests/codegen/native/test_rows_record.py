"""The recorded plans of rows: how far they are from their lower bounds."""

from __future__ import annotations

from collections import Counter

from benchmarks.native.rows import median_gap, read_record


def test_the_median_gap_is_small() -> None:
    records = read_record()
    assert Counter(item.input for item in records)["whole"] >= 80
    assert median_gap(records, "whole") <= 0.04
    assert median_gap(records, "rows") <= 0.09


def test_no_plan_takes_less_than_its_bound_or_its_peak() -> None:
    for item in read_record():
        assert item.bytes >= max(item.bound_bytes, item.peak_bytes), item
