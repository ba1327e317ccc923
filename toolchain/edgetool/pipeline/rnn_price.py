"""What each form of a model's recurrent layers costs on the device, and which one is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgetool.errors import InvalidModelError, UnsupportedModelError
from edgetool.finding import Finding
from edgetool.operators.types import OperatorEntry
from edgetool.pipeline.planned_model import planned_for
from edgetool.pipeline.source import Source
from edgetool.target.types import Target

WORDS = {"fused": "one operator per LSTM", "unrolled": "one copy per time step"}
MOST_NAMES = 6
WORSE_DB = 6.0  # one bit: what a form may lose against the best before its price counts no more


@dataclass(frozen=True, slots=True)
class RnnPrice:
    """One form of a model: "fused" or "unrolled".

    arena_bytes: None where it is not known. file_bytes: of the planned .tflite. sqnr_db: of its worst output, None
    where it was not measured.
    """

    form: str
    arena_bytes: int | None
    file_bytes: int
    operators: int
    sqnr_db: float | None = None

    @property
    def total_bytes(self) -> int | None:
        """RAM and flash together: the measure by which a form is chosen."""
        return None if self.arena_bytes is None else self.arena_bytes + self.file_bytes


def price_of(
    form: str,
    source: Source,
    target: Target,
    *,
    custom: Mapping[str, OperatorEntry] | None = None,
    sqnr_db: float | None = None,
) -> RnnPrice:
    """Plan the model for the target, as it would be delivered. Its arena is unknown where it cannot be planned."""
    operators = sum(len(graph.operators) for graph in source.model.subgraphs)
    try:
        planned = planned_for(source, target, custom=custom)
    except (UnsupportedModelError, InvalidModelError):
        return RnnPrice(form, None, len(source.blob), operators, sqnr_db)
    account = planned.analysis.plan.account
    exact = account is not None and not account.is_lower_bound
    arena = account.bytes if account is not None and exact else None
    return RnnPrice(form, arena, len(planned.source.blob), operators, sqnr_db)


def cheapest(prices: Sequence[RnnPrice]) -> RnnPrice:
    """The form that takes the fewest bytes of arena and flash together, of those that are not much worse than the best.

    An unknown arena loses, the first wins ties.
    """
    good = [price for price in prices if not is_worse(price, prices)]
    return min(good, key=_size)


def _size(price: RnnPrice) -> tuple[bool, int]:
    return price.total_bytes is None, price.total_bytes or price.file_bytes


def is_worse(price: RnnPrice, prices: Sequence[RnnPrice]) -> bool:
    """Whether a form's outputs are more than WORSE_DB from those of the best."""
    known = [other.sqnr_db for other in prices if other.sqnr_db is not None]
    return price.sqnr_db is not None and price.sqnr_db < max(known) - WORSE_DB


def rnn_finding(chosen: RnnPrice, others: Sequence[RnnPrice], layers: Sequence[str]) -> Finding:
    """What these layers became, at which price of the whole model, and what it would cost in the other forms."""
    text = f"{_named(layers)} converted to {WORDS[chosen.form]} (--rnn {chosen.form}): {_figures(chosen)}"
    for other in others:
        text += f"; {WORDS[other.form]} (--rnn {other.form}) would take {_figures(other)}"
        if _size(other) < _size(chosen):
            text += f" (rejected: more than {WORSE_DB:.0f} dB worse)"
    return Finding("rnn-form", "note", text)


def only_finding(layers: Sequence[str], why: str) -> Finding:
    """What these layers became, and why there is no other form to compare the price with."""
    text = f"{_named(layers)} converted to {WORDS['fused']}: {WORDS['unrolled']} (--rnn unrolled) does not work: {why}"
    return Finding("rnn-form", "note", text)


def _named(layers: Sequence[str]) -> str:
    """'layers 'a', 'b' and 'c''; of many, the first ones."""
    names = [repr(name) for name in layers[:MOST_NAMES]]
    if len(layers) > MOST_NAMES:
        names.append(f"{len(layers) - MOST_NAMES} more")
    first, last = names[:-1], names[-1]
    return f"layers {', '.join(first)} and {last} were" if first else f"layer {last} was"


def _figures(price: RnnPrice) -> str:
    arena = "an arena of unknown size" if price.arena_bytes is None else f"{price.arena_bytes:,} bytes of arena"
    quality = "" if price.sqnr_db is None else f" and an SQNR of {price.sqnr_db:.1f} dB"
    return f"{arena} and {price.file_bytes:,} bytes of flash, with {price.operators} operators{quality}"
