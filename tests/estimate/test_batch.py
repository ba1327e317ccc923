from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.estimate.batch_model import batch_memory_bytes, largest_batch

COUNTS = st.integers(1, 10**6)


def test_a_feature_is_eight_bytes_unless_told() -> None:
    assert batch_memory_bytes(32, 100) == 25_600
    assert batch_memory_bytes(32, 100, 1) == 3200
    assert largest_batch(25_600, 100) == 32
    assert largest_batch(25_599, 100) == 31
    assert largest_batch(799, 100) == 0


@given(COUNTS, COUNTS, st.integers(1, 16))
def test_the_largest_batch_fits_and_one_more_does_not(limit: int, features: int, bytes_per_feature: int) -> None:
    size = largest_batch(limit, features, bytes_per_feature)
    assert size == 0 or batch_memory_bytes(size, features, bytes_per_feature) <= limit
    assert batch_memory_bytes(size + 1, features, bytes_per_feature) > limit


@pytest.mark.parametrize("value", [0, -1, 1.5, float("nan"), float("inf"), "8", None, True])
@pytest.mark.parametrize("name", ["batch_size", "features", "bytes_per_feature", "limit_bytes"])
def test_what_is_no_count_is_refused_by_name(name: str, value: Any) -> None:
    figures: dict[str, Any] = {"features": 4, "bytes_per_feature": 8}
    call: Any = batch_memory_bytes if name == "batch_size" else largest_batch
    figures |= {"batch_size": 4} if call is batch_memory_bytes else {"limit_bytes": 4000}
    with pytest.raises(UsageError, match=name):
        call(**{**figures, name: value})
