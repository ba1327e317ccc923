"""Why a figure differs from the locked one: rows that sum to the difference, exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetool.gate.alignment import Likeness, aligned
from edgetool.gate.anatomy import INVOKE, Alive, Anatomy, OperatorId, OperatorPart

# The operators of the model now that were in the one before, and which they were.
Pairs = dict[OperatorId, OperatorId]

SHOWN = 8
PADDING = "padding to a multiple of 16"
LAYOUT = "gaps between tensors in the layout"
REST_OF_FILE = "data other than weights: scales, names, metadata, a memory plan"
REST_OF_TIME = "time not attributed to any operator"


@dataclass(frozen=True, slots=True)
class Row:
    """A part of a difference, in bytes or nanoseconds, and its cause."""

    change: int
    cause: str


def arena_rows(before: Anatomy, after: Anatomy) -> list[Row]:
    """The rows of the arena, the largest first; they sum to after.bytes - before.bytes."""
    pairs = aligned_operators(before.operators, after.operators)
    rows = _tail_rows(before, after, pairs)
    same_moment = before.moment == after.moment and (after.during is None or pairs.get(after.during) == before.during)
    if same_moment and after.moment != INVOKE:
        rows.append(Row(after.peak_head - before.peak_head, f"head memory used during {after.moment_text}"))
        later = (after.tail_bytes - after.peak_tail) - (before.tail_bytes - before.peak_tail)
        rows.append(Row(-later, f"tail memory allocated only after {after.moment_text}"))
        rows.append(Row(_padding(after) - _padding(before), PADDING))
    else:
        rows += _head_rows(before, after, pairs)
        beyond = _beyond_invoke(after) - _beyond_invoke(before)
        text = PADDING if same_moment else f"now set by {after.moment_text} (previously {before.moment_text})"
        rows.append(Row(beyond, text))
    return _sorted(rows)


def model_rows(before: Anatomy, after: Anatomy, change: int) -> list[Row]:
    """The rows of the model's bytes, by the weights of operators; they sum to the change."""
    pairs = aligned_operators(before.operators, after.operators)
    rows = _by_operator(before, after, lambda part: part.constants, "weights", pairs)
    return _with_rest(rows, change, REST_OF_FILE)


def latency_rows(before: Anatomy, after: Anatomy, change_ns: int) -> list[Row]:
    """The rows of the time in nanoseconds, by operators; they sum to the change."""
    pairs = aligned_operators(before.operators, after.operators)
    rows = _by_operator(before, after, lambda part: part.ns, "", pairs)
    return _with_rest(rows, change_ns, REST_OF_TIME)


def told(rows: Sequence[Row], quantity: Callable[[int], str], least: int = 1) -> tuple[str, ...]:
    """As in "+4,096 B: operator 7 CONV_2D scratch"; from SHOWN on, and below `least`, the rows are told as one.

    rows: the largest first. What is told sums to them, up to less than `least`.
    """
    large = [row for row in rows if abs(row.change) >= least]
    shown = large if len(large) <= SHOWN + 1 else large[:SHOWN]
    lines = [f"{quantity(row.change)}: {row.cause}" for row in shown]
    left = [row.change for row in rows[len(shown) :]]
    if abs(sum(left)) >= least:
        lines.append(f"{quantity(sum(left))}: {len(left)} smaller changes in total")
    return tuple(lines)


def aligned_operators(before: Sequence[OperatorPart], after: Sequence[OperatorPart]) -> Pairs:
    """The pairs, known again by their labels, weights, persistent data and scratch."""
    then, now = ([_likeness(part) for part in parts] for parts in (before, after))
    return {after[new].operator: before[old].operator for old, new in aligned(then, now)}


def _likeness(part: OperatorPart) -> Likeness:
    return Likeness(part.operator.subgraph, part.operator.label, (part.constants, part.tail, part.scratch))


def _tail_rows(before: Anatomy, after: Anatomy, pairs: Pairs) -> list[Row]:
    rows = _by_operator(before, after, lambda part: part.tail, "persistent data", pairs)
    own_before, own_after = dict(before.own), dict(after.own)
    rows += [
        Row(own_after.get(name, 0) - own_before.get(name, 0), f"TFLM's {name}")
        for name in sorted(own_before.keys() | own_after.keys())
    ]
    # Both sides sum to tail_bytes in what edgetool writes; a file that was edited need not.
    listed = (_tail_listed(after) - after.tail_bytes) - (_tail_listed(before) - before.tail_bytes)
    return [*rows, Row(-listed, "other persistent data")]


def _tail_listed(anatomy: Anatomy) -> int:
    return sum(part.tail for part in anatomy.operators) + sum(size for _, size in anatomy.own)


def _head_rows(before: Anatomy, after: Anatomy, pairs: Pairs) -> list[Row]:
    """What is alive where most is; where that is at another operator now, by what that one had before."""
    gap = Row(after.gap_bytes - before.gap_bytes, LAYOUT)
    if before.busiest == (None if after.busiest is None else pairs.get(after.busiest)):
        return [*_alive_rows(before, after, pairs), gap]
    parts_after = {part.operator: part for part in after.operators}
    parts_before = {part.operator: part for part in before.operators}
    new = parts_after.get(after.busiest) if after.busiest is not None else None
    old = parts_before.get(pairs[after.busiest]) if after.busiest in pairs else None
    was = "before the first operator" if before.busiest is None else f"at {before.busiest}"
    if new is None or old is None:
        what = "before the first operator" if after.busiest is None else f"at {after.busiest}, which is new"
        text = f"head usage now peaks {what}; previously {was}"
        return [Row(after.alive_bytes - before.alive_bytes, text), gap]
    return [
        Row(new.scratch - old.scratch, f"{new.operator} scratch"),
        Row(
            after.alive_bytes - new.scratch - (old.live - old.scratch),
            f"tensors live at {new.operator}, where head usage now peaks",
        ),
        # A file that was edited may say that less was alive in all than with one operator.
        Row(old.live - before.alive_bytes, f"memory live {was}, the previous peak, no longer counted"),
        gap,
    ]


def _alive_rows(before: Anatomy, after: Anatomy, pairs: Pairs) -> list[Row]:
    """Tensors by name and scratch by operator; a tensor of another name but the same size counts as renamed."""
    gone = {item.scratch_of or item.name: item for item in before.alive}
    rows: list[Row] = []
    new: list[Alive] = []
    for item in after.alive:
        same = gone.pop(item.name if item.scratch_of is None else pairs.get(item.scratch_of, item.scratch_of), None)
        if same is None:
            new.append(item)
        else:
            rows.append(Row(item.bytes - same.bytes, str(item)))
    for item in new:
        is_tensor = item.scratch_of is None
        renamed = (
            key for key, old in gone.items() if old.bytes == item.bytes and (old.scratch_of is None) == is_tensor
        )
        key = next(renamed, None)
        if key is None:
            rows.append(Row(item.bytes, f"{item}{', now live there' if is_tensor else ''}"))
        else:
            del gone[key]
    left = [(item, "" if item.scratch_of else ", no longer live there") for item in gone.values()]
    return [*rows, *(Row(-item.bytes, f"{item}{text}") for item, text in left)]


def _by_operator(
    before: Anatomy,
    after: Anatomy,
    figure: Callable[[OperatorPart], int],
    what: str,
    pairs: Pairs,
) -> list[Row]:
    """The change of a figure for every operator that is, or was."""
    old = {part.operator: figure(part) for part in before.operators}
    end = f" {what}" if what else ""
    rows = []
    for part in after.operators:
        was = pairs.get(part.operator)
        text = f"{part.operator}{end}" + ("" if was is not None else ", which is new")
        rows.append(Row(figure(part) - (0 if was is None else old.pop(was)), text))
    return [*rows, *(Row(-size, f"{operator}{end}, which was removed") for operator, size in old.items())]


def _with_rest(rows: list[Row], change: int, rest: str) -> list[Row]:
    return _sorted([*rows, Row(change - sum(row.change for row in rows), rest)])


def _sorted(rows: list[Row]) -> list[Row]:
    return sorted((row for row in rows if row.change), key=lambda row: -abs(row.change))


def _padding(anatomy: Anatomy) -> int:
    return anatomy.bytes - anatomy.peak_head - anatomy.peak_tail


def _beyond_invoke(anatomy: Anatomy) -> int:
    """What the arena is larger than head and tail in Invoke."""
    return anatomy.bytes - anatomy.head_bytes - anatomy.tail_bytes
