"""A model against its entry in the lock file: what changed, why, and whether it may.

Which operator of one model is which of another: places shift where an operator is put in.

Why a figure differs from the locked one: rows that sum to the difference, exactly.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from edgetool.gate.anatomy import INVOKE, Alive, Anatomy, OperatorId, OperatorPart
from edgetool.gate.limits import Allowance
from edgetool.gate.lock_file import NS_PER_MS, Entry, Value
from edgetool.gate.text import duration
from edgetool.report.document import ChangeInfo, JudgementInfo, LockInfo

MOST_CELLS = 10**6  # of the table of all alignments: about half a second
PAIR = 1024  # what a pair counts, more than all that do the same: no table of so many cells has room for as many


@dataclass(frozen=True, slots=True)
class Likeness:
    """By what an operator is known again: its label, and counts of what it does and keeps."""

    subgraph: int
    label: str
    work: tuple[int, ...]


IndexPairs = list[tuple[int, int]]
Items = Sequence[Likeness]


def aligned(a: Items, b: Items) -> IndexPairs:
    """The places in a and in b of the operators that both have, in order on both sides, subgraph by subgraph.

    Only operators of one label are paired; of all alignments that with the most pairs, and of those that with the most
    that also do the same. Equal sequences of labels pair in place.
    """
    pairs: IndexPairs = []
    left, right = _by_subgraph(a), _by_subgraph(b)
    for subgraph in sorted(left.keys() & right.keys()):
        here, there = left[subgraph], right[subgraph]
        pairs += [(here[i], there[j]) for i, j in _aligned([a[i] for i in here], [b[j] for j in there])]
    return pairs


def _by_subgraph(items: Items) -> dict[int, list[int]]:
    places: dict[int, list[int]] = {}
    for place, item in enumerate(items):
        places.setdefault(item.subgraph, []).append(place)
    return places


def _aligned(a: Items, b: Items) -> IndexPairs:
    if [item.label for item in a] == [item.label for item in b]:
        return [(i, i) for i in range(len(a))]
    return _around(a, b, lambda x, y: x == y, _between)


def _between(a: Items, b: Items) -> IndexPairs:
    """Of sequences too long to try all, what begins and what ends with the same labels is paired."""
    if len(a) * len(b) <= MOST_CELLS:
        return _best(a, b)
    return _around(a, b, lambda x, y: x.label == y.label, lambda a, b: [])


def _around(
    a: Items, b: Items, same: Callable[[Likeness, Likeness], bool], within: Callable[[Items, Items], IndexPairs]
) -> IndexPairs:
    """What is the same at both ends is paired, and what is left as `within` has it."""
    least = min(len(a), len(b))
    head = next((i for i in range(least) if not same(a[i], b[i])), least)
    tail = next((i for i in range(least - head) if not same(a[-1 - i], b[-1 - i])), least - head)
    middle = within(a[head : len(a) - tail], b[head : len(b) - tail])
    return [
        *((i, i) for i in range(head)),
        *((i + head, j + head) for i, j in middle),
        *((len(a) - i, len(b) - i) for i in range(tail, 0, -1)),
    ]


def _best(a: Items, b: Items) -> IndexPairs:
    """The alignment of most score, by the table of the scores of all pairs of rests (Needleman and Wunsch, 1970)."""
    scores = [array("i", bytes(4 * (len(b) + 1))) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        row, below, item = scores[i], scores[i + 1], a[i]
        for j in range(len(b) - 1, -1, -1):
            row[j] = max(below[j], row[j + 1])
            if item.label == b[j].label:
                row[j] = max(row[j], below[j + 1] + _score(item, b[j]))
    pairs: IndexPairs = []
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i].label == b[j].label and scores[i][j] == scores[i + 1][j + 1] + _score(a[i], b[j]):
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif scores[i][j] == scores[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _score(a: Likeness, b: Likeness) -> int:
    return PAIR + (a.work == b.work)


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


UNITS = {"_bytes": "B", "bytes_moved": "B", "latency_ms": "ms", "energy_uj": "uJ"}
# What may not grow, and what it is called.
GUARDED = {"arena_bytes": "the arena", "model_bytes": "the model", "latency_ms": "the inference time"}
MODEL_CHANGED = "the model file changed"
NAMED = 6  # figures, with --locked
MOST_ALLOWED = 5  # percent of growth that a team may want to let pass
LEAST_NS = 1000  # causes below a microsecond are told together
UPDATE = "if the change is intended, run 'edgetool check --update' to lock the new figures"
MISSING = {
    "missing": "there is no lock file: run 'edgetool check --update' to create one, and commit it",
    "not-in-lock": "the lock file does not contain this model: 'edgetool check --update' adds it",
    "other-target": "the lock file contains this model only for other targets: 'edgetool check --update' adds this one",
}


@dataclass(frozen=True, slots=True)
class Locked:
    """What the lock file has of a model: an entry, or why it has none ("missing", "not-in-lock", "other-target")."""

    entry: Entry | None
    state: str = "changed"


def found_in(lock: Mapping[str, Mapping[str, Entry]] | None, path: str, target: str) -> Locked:
    """The entry of a model, by its path as the lock has it, and of a target; lock is None where there is no file."""
    if lock is None:
        return Locked(None, "missing")
    targets = lock.get(path, {})
    if target not in targets:
        return Locked(None, "other-target" if targets else "not-in-lock")
    return Locked(targets[target])


def compare(locked: Locked, now: Entry, allowance: Allowance) -> LockInfo:
    """What differs from the lock."""
    before = locked.entry
    if before is None:
        return LockInfo(locked.state)
    changes = tuple(
        _change(name, before, now, allowance)
        for name in _names(before, now)
        if before.figures.get(name) != now.figures.get(name)
    )
    inputs = _inputs(before, now)
    return LockInfo("changed" if changes or inputs else "equal", inputs, changes)


def judge_lock(locked: Locked, info: LockInfo, allowance: Allowance, *, strict: bool) -> tuple[JudgementInfo, ...]:
    """Growth beyond the allowance, and with `strict` (--locked) everything that is not as the lock has it."""
    grown = [_growth(change, info.inputs, allowance) for change in info.changes if not change.allowed]
    if locked.entry is None:
        text = MISSING[info.state]
        return (JudgementInfo("lock", False if strict else None, "error" if strict else "note", text),)
    if strict:
        return (*grown, _as_locked(info))
    if grown:
        return tuple(grown)
    guarded = [change for change in info.changes if change.figure in GUARDED]
    unknown = [change.figure for change in guarded if change.before is None or change.after is None]
    if unknown:
        text = f"not checked: {', '.join(unknown)} missing for this model or in the lock file; {UPDATE}"
        return (JudgementInfo("growth", None, "warning", text),)
    changed = [change.figure for change in guarded]
    allowed = f" by more than {allowance}" if allowance != Allowance() else ""
    text = f"arena, model and latency have not grown{allowed}"
    if changed:
        text = f"nothing has grown beyond the allowance of {allowance}; {', '.join(changed)} changed: {UPDATE}"
    return (JudgementInfo("growth", True, "note", text),)


def _as_locked(info: LockInfo) -> JudgementInfo:
    if info.state == "equal":
        return JudgementInfo("lock", True, "note", "everything matches the lock file")
    names = [change.figure for change in info.changes] or list(info.inputs)
    told = ", ".join(names[:NAMED]) + (" and more" if len(names) > NAMED else "")
    return JudgementInfo(
        "lock", False, "error", f"with --locked, nothing may differ from the lock file: {told}", advice=(UPDATE,)
    )


def _growth(change: ChangeInfo, inputs: tuple[str, ...], allowance: Allowance) -> JudgementInfo:
    assert change.before is not None
    assert change.after is not None
    grown, what = change.after - change.before, GUARDED[change.figure]
    if change.unit == "B":
        limit: int | float = change.before + allowance.of_bytes(int(change.before))
        allows = str(allowance)
        sizes = f"by {grown:,} B, from {change.before:,} to {change.after:,} B"
    else:
        limit = change.before + allowance.of_time(change.before)
        allows = f"{allowance.percent:g} %"
        sizes = f"by {duration(grown)}, from {duration(change.before)} to {duration(change.after)}"
    share = f" ({100 * grown / change.before:.1f} %)" if change.before else ""
    why = "" if any(text.startswith(MODEL_CHANGED) for text in inputs) else "; the model file is the same"
    if why and inputs:
        why += f", but {'; '.join(inputs)}"
    return JudgementInfo(
        rule="growth",
        passed=False,
        level="error",
        message=f"{what} has grown {sizes}{share}; the allowance is {allows}{why}",
        value=change.after,
        limit=limit,
        over=change.after - limit,
        unit=change.unit,
        causes=change.causes,
        advice=(UPDATE, *_allowing(grown, change.before)),
    )


def _allowing(grown: float, before: float) -> tuple[str, ...]:
    """The allowance that a small growth needs, to a tenth of a percent above it; none for one that is no noise."""
    percent = 100 * grown / before if before else float("inf")
    needed = math.ceil(10 * percent) / 10
    return (f"--allow-growth {needed:g}% would allow this",) if percent <= MOST_ALLOWED else ()


def _names(before: Entry, now: Entry) -> list[str]:
    """What is guarded first, the others in order."""
    everything = before.figures.keys() | now.figures.keys()
    return [*(name for name in GUARDED if name in everything), *sorted(everything - GUARDED.keys())]


def _change(name: str, before: Entry, now: Entry, allowance: Allowance) -> ChangeInfo:
    old, new = before.figures.get(name), now.figures.get(name)
    unit = next((unit for end, unit in UNITS.items() if end in name), "")
    allowed = True
    if name in GUARDED and old is not None and new is not None:
        more = allowance.of_bytes(int(old)) if unit == "B" else allowance.of_time(old)
        allowed = new - old <= more
    return ChangeInfo(name, unit, old, new, allowed, _causes(name, before, now, old, new))


def _causes(name: str, before: Entry, now: Entry, old: Value, new: Value) -> tuple[str, ...]:
    if before.anatomy is None or now.anatomy is None or old is None or new is None:
        return ()
    rows: list[Row]
    if name == "latency_ms":
        rows = latency_rows(before.anatomy, now.anatomy, round(NS_PER_MS * new) - round(NS_PER_MS * old))
        return told(rows, _signed_duration, LEAST_NS)
    if name == "arena_bytes" and (before.anatomy.bytes, now.anatomy.bytes) == (old, new):
        return told(arena_rows(before.anatomy, now.anatomy), _signed_size)
    if name == "model_bytes":
        return told(model_rows(before.anatomy, now.anatomy, int(new) - int(old)), _signed_size)
    return ()


def _signed_size(size: int) -> str:
    return f"{size:+,} B"


def _signed_duration(ns: int) -> str:
    return f"{'-' if ns < 0 else '+'}{duration(abs(ns) / NS_PER_MS)}"


def _inputs(before: Entry, now: Entry) -> tuple[str, ...]:
    """What else is not as it was, a sentence each."""
    said = []
    if before.sha256 != now.sha256:
        said.append(f"{MODEL_CHANGED} (sha256 {before.sha256[:12]} to {now.sha256[:12]})")
    names = {"edgetool": "edgetool", "converter": "the converter", "runtime": "the runtime"}
    for name, what in names.items():
        old, new = before.versions.get(name), now.versions.get(name)
        if old != new:
            said.append(f"{what} changed from {old or 'an unknown one'} to {new or 'an unknown one'}")
    if before.versions.get("profile") != now.versions.get("profile"):
        said.append("the target's figures changed: its profile, or options such as --sram and --clock")
    if before.kernels != now.kernels:
        said.append(f"the kernels changed from {before.kernels} to {now.kernels}")
    if before.figures == now.figures and before.anatomy != now.anatomy:
        said.append("the totals are unchanged, but their breakdown differs")
    return tuple(said)


def updated(info: LockInfo) -> LockInfo:
    """The comparison after the lock was written anew."""
    return replace(info, state="updated")
