"""What makes figures of a sweep say less than they seem to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from edgetool.convert.request import INTEGER
from edgetool.sweep.metrics import Quality, Row
from edgetool.sweep.variant import PRECISIONS, Variant


@dataclass(frozen=True, slots=True)
class Caution:
    """A warning, and the numbers of the variants that it is of."""

    message: str
    numbers: tuple[int, ...]


def cautions(rows: Sequence[Row]) -> tuple[Caution, ...]:
    """Ranges from synthetic samples, and agreement where it would compare what it cannot."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows:
        if row.metrics is not None:
            for message in _messages(row.variant, row.metrics.quality):
                found[message].append(row.number)
    return tuple(Caution(message, tuple(numbers)) for message, numbers in found.items())


def _messages(variant: Variant, quality: Quality) -> list[str]:
    messages = []
    if not quality.calibrated and PRECISIONS[variant.precision].quantize in INTEGER:
        unknown = ", so the accuracy on real data is unknown" if quality.accuracy is None else ""
        messages.append(
            f"the quantization is uncalibrated: its ranges come from {quality.samples} synthetic samples{unknown}; "
            "set calibration to a file with real inputs"
        )
    if variant.parameters and quality.accuracy is None and quality.agreement is not None:
        messages.append(
            "agreement is measured against the original float model with the same parameters, so it cannot be used to "
            "compare different parameters: set evaluate to measure accuracy"
        )
    return messages
