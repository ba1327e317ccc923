"""Instances for the tests of large layouts, and an independent look at what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import strategies as st

from edgetool.memory.layout.instance import Instance


def instance_of(rows: Sequence[tuple[int, int, int, int, int]]) -> Instance:
    """Rows of first, last (both inclusive), size, alignment and pin (-1: none); every moment is a clique."""
    first, last, sizes, alignments, pins = zip(*rows, strict=True)
    return Instance(first, last, sizes, alignments, pins, max(last) + 1)


def backbone(buffers: int, seed: int) -> Instance:
    """A chain of short lives and large sizes, with a few long lives across it."""
    draw = Random(seed)
    rows = []
    for i in range(buffers):
        long = draw.random() < 0.02
        life = draw.randint(100, 500) if long else draw.randint(2, 6)
        rows.append((i, i + life - 1, draw.randint(64, 512) if long else draw.randint(1, 4095), 1, -1))
    return instance_of(rows)


def max_live(instance: Instance) -> int:
    """The most that is alive at once."""
    return max(
        sum(size for a, b, size in zip(instance.first, instance.last, instance.sizes, strict=True) if a <= t <= b)
        for t in sorted(set(instance.first))
    )


def top(instance: Instance, offsets: Sequence[int]) -> int:
    """Return the peak of a layout."""
    return max(offset + size for offset, size in zip(offsets, instance.sizes, strict=True))


def assert_valid(instance: Instance, offsets: Sequence[int]) -> None:
    """Nothing overlaps, every offset is aligned, every pin kept."""
    n = len(instance.sizes)
    assert len(offsets) == n
    for i in range(n):
        assert offsets[i] >= 0
        if instance.pins[i] >= 0:
            assert offsets[i] == instance.pins[i]
        else:
            assert offsets[i] % instance.alignments[i] == 0
    by_first = sorted(range(n), key=instance.first.__getitem__)
    for place, i in enumerate(by_first):
        for j in by_first[place + 1 :]:
            if instance.first[j] > instance.last[i]:
                break
            apart = offsets[i] + instance.sizes[i] <= offsets[j] or offsets[j] + instance.sizes[j] <= offsets[i]
            assert apart, f"{i} and {j} overlap"


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """Up to 40 buffers, some aligned, some pinned clear of the other pinned ones."""
    rows = []
    fixed: list[tuple[int, int, int, int]] = []
    for _ in range(draw(st.integers(1, 40))):
        first = draw(st.integers(0, 12))
        last = first + draw(st.integers(0, 6))
        size = draw(st.integers(1, 20))
        alignment = draw(st.sampled_from([1, 1, 1, 2, 3, 4, 8]))
        pin = draw(st.integers(0, 10)) * alignment if draw(st.integers(0, 5)) == 0 else -1
        if any(a <= last and first <= b and p < pin + size and pin < p + s for a, b, p, s in fixed):
            pin = -1
        if pin >= 0:
            fixed.append((first, last, pin, size))
        rows.append((first, last, size, alignment, pin))
    return instance_of(rows)
