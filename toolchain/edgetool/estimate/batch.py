"""Memory of a batch of plain data, and the largest batch that a memory holds."""

from __future__ import annotations

from edgetool.estimate.given import whole

BYTES_PER_FEATURE = 8  # a double, as numpy and pandas hold plain data


def batch_memory_bytes(batch_size: int, features: int, bytes_per_feature: int = BYTES_PER_FEATURE) -> int:
    """The bytes of batch_size rows of that many features.

    Raises UsageError naming the argument that is not a whole number of 1 or more.
    """
    return whole(batch_size, "batch_size", 1) * _row_bytes(features, bytes_per_feature)


def largest_batch(limit_bytes: int, features: int, bytes_per_feature: int = BYTES_PER_FEATURE) -> int:
    """The most rows that limit_bytes hold; 0 where not even one fits.

    Raises UsageError naming the argument that is not a whole number of 1 or more.
    """
    return whole(limit_bytes, "limit_bytes", 1) // _row_bytes(features, bytes_per_feature)


def _row_bytes(features: int, bytes_per_feature: int) -> int:
    return whole(features, "features", 1) * whole(bytes_per_feature, "bytes_per_feature", 1)
