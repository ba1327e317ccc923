"""What TFLM's recording allocator prints about an arena, read back as values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgetool import errors

# The two forms of line that RecordingMicroAllocator::PrintAllocations prints (recording_micro_allocator.cc).
_TOTAL = re.compile(r"Arena allocation (?P<part>total|head|tail) (?P<bytes>\d+) bytes")
_CATEGORY = re.compile(
    r"'(?P<name>[^']+)' used (?P<used>\d+) bytes with alignment overhead "
    r"\(requested (?P<requested>\d+) bytes for (?P<count>\d+) "
)


@dataclass(frozen=True, slots=True)
class Category:
    """What TFLM counts under one name: bytes with and without the padding of alignment, and how many things."""

    name: str
    used_bytes: int
    requested_bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class TflmAllocation:
    """The bytes that TFLM took from its arena, and those of its tail by category; empty categories are left out."""

    total: int
    head: int
    tail: int
    categories: tuple[Category, ...] = ()


def parse_allocations(text: str) -> TflmAllocation:
    """The allocation that TFLM printed, the last one where it printed several.

    Raises MissingExtraError when a figure is absent: another version of the runtime words it otherwise.
    """
    totals = {found["part"]: int(found["bytes"]) for found in _TOTAL.finditer(text)}
    start = text.rfind("Arena allocation total")
    if totals.keys() != {"total", "head", "tail"}:
        raise errors.MissingExtraError(
            "the installed tflite-micro does not report its allocations in a format that edgetool supports",
            fix="pip install 'edgetool[verify]' installs a version that does",
        )
    categories = tuple(
        Category(found["name"], int(found["used"]), int(found["requested"]), int(found["count"]))
        for found in _CATEGORY.finditer(text, start)
    )
    return TflmAllocation(totals["total"], totals["head"], totals["tail"], categories)
