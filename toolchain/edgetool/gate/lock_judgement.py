"""A model compared with its entry in the lock file: what changed, why, and whether that is allowed.

The causes of a change are contributions of operators, tensors and TFLM, which sum to exactly the change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from edgetool.gate.alignment import OperatorKey, align
from edgetool.gate.breakdown import INVOKE, ArenaBreakdown, LiveBuffer, OperatorId, OperatorPart
from edgetool.gate.limits import Allowance
from edgetool.gate.lock_file import NS_PER_MS, FigureValue, LockEntry
from edgetool.gate.text import duration
from edgetool.report.document import ChangeInfo, JudgementInfo, LockInfo

# The operators of the model that its locked version contains too, each with its counterpart there.
Pairs = dict[OperatorId, OperatorId]

SHOWN = 8
PADDING = "padding to a multiple of 16"
LAYOUT = "gaps between tensors in the layout"
REST_OF_FILE = "data other than weights: scales, names, metadata, a memory plan"
REST_OF_TIME = "time not attributed to any operator"


@dataclass(frozen=True, slots=True)
class Contribution:
    """A part of a change, in bytes or nanoseconds, and its cause."""

    change: int
    cause: str


def arena_contributions(before: ArenaBreakdown, after: ArenaBreakdown) -> list[Contribution]:
    """Return the contributions to the change of the arena, the largest first; they sum to the difference in bytes."""
    pairs = aligned_operators(before.operators, after.operators)
    contributions = _tail_contributions(before, after, pairs)
    same_moment = before.moment == after.moment and (after.during is None or pairs.get(after.during) == before.during)
    if same_moment and after.moment != INVOKE:
        contributions.append(
            Contribution(after.peak_head - before.peak_head, f"head memory used during {after.moment_text}")
        )
        later = (after.tail_bytes - after.peak_tail) - (before.tail_bytes - before.peak_tail)
        contributions.append(Contribution(-later, f"tail memory allocated only after {after.moment_text}"))
        contributions.append(Contribution(_padding(after) - _padding(before), PADDING))
    else:
        contributions += _head_contributions(before, after, pairs)
        beyond = _beyond_invoke(after) - _beyond_invoke(before)
        text = PADDING if same_moment else f"now set by {after.moment_text} (previously {before.moment_text})"
        contributions.append(Contribution(beyond, text))
    return _sorted(contributions)


def model_contributions(before: ArenaBreakdown, after: ArenaBreakdown, change: int) -> list[Contribution]:
    """Return the contributions to the change of the model's bytes, by the weights of operators; they sum to it."""
    pairs = aligned_operators(before.operators, after.operators)
    contributions = _by_operator(before, after, lambda part: part.constants, "weights", pairs)
    return _with_rest(contributions, change, REST_OF_FILE)


def latency_contributions(before: ArenaBreakdown, after: ArenaBreakdown, change_ns: int) -> list[Contribution]:
    """Return the contributions to the change of the time in nanoseconds, by operators; they sum to it."""
    pairs = aligned_operators(before.operators, after.operators)
    contributions = _by_operator(before, after, lambda part: part.ns, "", pairs)
    return _with_rest(contributions, change_ns, REST_OF_TIME)


def cause_lines(
    contributions: Sequence[Contribution], quantity: Callable[[int], str], minimum: int = 1
) -> tuple[str, ...]:
    """Return lines such as "+4,096 B: operator 7 CONV_2D scratch".

    One line sums up contributions below the minimum, and those after the first SHOWN. The lines sum to the
    contributions, except for a rest below the minimum.

    contributions: the largest first.
    """
    large = [item for item in contributions if abs(item.change) >= minimum]
    shown = large if len(large) <= SHOWN + 1 else large[:SHOWN]
    lines = [f"{quantity(item.change)}: {item.cause}" for item in shown]
    rest = [item.change for item in contributions[len(shown) :]]
    if abs(sum(rest)) >= minimum:
        lines.append(f"{quantity(sum(rest))}: {len(rest)} smaller changes in total")
    return tuple(lines)


def aligned_operators(before: Sequence[OperatorPart], after: Sequence[OperatorPart]) -> Pairs:
    """Return the pairs, which have similar labels, weights, persistent data and scratch."""
    then, now = ([_operator_key(part) for part in parts] for parts in (before, after))
    return {after[new].operator: before[old].operator for old, new in align(then, now)}


def _operator_key(part: OperatorPart) -> OperatorKey:
    return OperatorKey(part.operator.subgraph, part.operator.label, (part.constants, part.tail, part.scratch))


def _tail_contributions(before: ArenaBreakdown, after: ArenaBreakdown, pairs: Pairs) -> list[Contribution]:
    contributions = _by_operator(before, after, lambda part: part.tail, "persistent data", pairs)
    tflm_before, tflm_after = dict(before.tflm_parts), dict(after.tflm_parts)
    contributions += [
        Contribution(tflm_after.get(name, 0) - tflm_before.get(name, 0), f"TFLM's {name}")
        for name in sorted(tflm_before.keys() | tflm_after.keys())
    ]
    # In a file that edgetool writes, both sides sum to tail_bytes; in a file that was edited, they may not.
    listed = (_tail_listed(after) - after.tail_bytes) - (_tail_listed(before) - before.tail_bytes)
    return [*contributions, Contribution(-listed, "other persistent data")]


def _tail_listed(breakdown: ArenaBreakdown) -> int:
    return sum(part.tail for part in breakdown.operators) + sum(size for _, size in breakdown.tflm_parts)


def _head_contributions(before: ArenaBreakdown, after: ArenaBreakdown, pairs: Pairs) -> list[Contribution]:
    """Compare the peaks of the head; if the peak has moved to another operator, compare that operator in both
    versions."""
    gap = Contribution(after.gap_bytes - before.gap_bytes, LAYOUT)
    if before.busiest == (None if after.busiest is None else pairs.get(after.busiest)):
        return [*_alive_contributions(before, after, pairs), gap]
    parts_after = {part.operator: part for part in after.operators}
    parts_before = {part.operator: part for part in before.operators}
    new = parts_after.get(after.busiest) if after.busiest is not None else None
    old = parts_before.get(pairs[after.busiest]) if after.busiest in pairs else None
    was = "before the first operator" if before.busiest is None else f"at {before.busiest}"
    if new is None or old is None:
        what = "before the first operator" if after.busiest is None else f"at {after.busiest}, which is new"
        text = f"head usage now peaks {what}; previously {was}"
        return [Contribution(after.alive_bytes - before.alive_bytes, text), gap]
    return [
        Contribution(new.scratch - old.scratch, f"{new.operator} scratch"),
        Contribution(
            after.alive_bytes - new.scratch - (old.live - old.scratch),
            f"tensors live at {new.operator}, where head usage now peaks",
        ),
        # In a file that was edited, this may be negative.
        Contribution(old.live - before.alive_bytes, f"memory live {was}, the previous peak, no longer counted"),
        gap,
    ]


def _alive_contributions(before: ArenaBreakdown, after: ArenaBreakdown, pairs: Pairs) -> list[Contribution]:
    """Compare tensors by name and scratch by operator; a tensor with another name but the same size was renamed."""
    unmatched = {item.scratch_of or item.name: item for item in before.alive}
    contributions: list[Contribution] = []
    new: list[LiveBuffer] = []
    for item in after.alive:
        same = unmatched.pop(
            item.name if item.scratch_of is None else pairs.get(item.scratch_of, item.scratch_of), None
        )
        if same is None:
            new.append(item)
        else:
            contributions.append(Contribution(item.bytes - same.bytes, str(item)))
    for item in new:
        is_tensor = item.scratch_of is None
        renamed = (
            key for key, old in unmatched.items() if old.bytes == item.bytes and (old.scratch_of is None) == is_tensor
        )
        key = next(renamed, None)
        if key is None:
            contributions.append(Contribution(item.bytes, f"{item}{', now live there' if is_tensor else ''}"))
        else:
            del unmatched[key]
    removed = [(item, "" if item.scratch_of else ", no longer live there") for item in unmatched.values()]
    return [*contributions, *(Contribution(-item.bytes, f"{item}{text}") for item, text in removed)]


def _by_operator(
    before: ArenaBreakdown,
    after: ArenaBreakdown,
    figure: Callable[[OperatorPart], int],
    what: str,
    pairs: Pairs,
) -> list[Contribution]:
    """Return the change of a figure for every operator of either version."""
    old = {part.operator: figure(part) for part in before.operators}
    end = f" {what}" if what else ""
    contributions = []
    for part in after.operators:
        was = pairs.get(part.operator)
        text = f"{part.operator}{end}" + ("" if was is not None else ", which is new")
        contributions.append(Contribution(figure(part) - (0 if was is None else old.pop(was)), text))
    return [
        *contributions,
        *(Contribution(-size, f"{operator}{end}, which was removed") for operator, size in old.items()),
    ]


def _with_rest(contributions: list[Contribution], change: int, rest: str) -> list[Contribution]:
    return _sorted([*contributions, Contribution(change - sum(item.change for item in contributions), rest)])


def _sorted(contributions: list[Contribution]) -> list[Contribution]:
    return sorted((item for item in contributions if item.change), key=lambda item: -abs(item.change))


def _padding(breakdown: ArenaBreakdown) -> int:
    return breakdown.bytes - breakdown.peak_head - breakdown.peak_tail


def _beyond_invoke(breakdown: ArenaBreakdown) -> int:
    """Return by how much the arena is larger than head and tail in Invoke."""
    return breakdown.bytes - breakdown.head_bytes - breakdown.tail_bytes


UNITS = {"_bytes": "B", "bytes_moved": "B", "latency_ms": "ms", "energy_uj": "uJ"}
# The figures that may not grow, and how messages name them.
GUARDED = {"arena_bytes": "the arena", "model_bytes": "the model", "latency_ms": "the inference time"}
MODEL_CHANGED = "the model file changed"
FIGURES_NAMED = 6  # in the message of --locked
MAX_ALLOWED = 5  # percent of growth for which a message suggests an allowance
MINIMUM_NS = 1000  # smaller causes are summed up
UPDATE = "if the change is intended, run 'edgetool check --update' to lock the new figures"
MISSING = {
    "missing": "there is no lock file: run 'edgetool check --update' to create one, and commit it",
    "not-in-lock": "the lock file does not contain this model: 'edgetool check --update' adds it",
    "other-target": "the lock file contains this model only for other targets: 'edgetool check --update' adds this one",
}


@dataclass(frozen=True, slots=True)
class LockedModel:
    """A model in the lock file: its entry, or why it has none ("missing", "not-in-lock", "other-target")."""

    entry: LockEntry | None
    state: str = "changed"


def locked_model(lock: Mapping[str, Mapping[str, LockEntry]] | None, path: str, target: str) -> LockedModel:
    """Return the entry of a model, by its path in the lock file, on a target; lock is None if there is no file."""
    if lock is None:
        return LockedModel(None, "missing")
    targets = lock.get(path, {})
    if target not in targets:
        return LockedModel(None, "other-target" if targets else "not-in-lock")
    return LockedModel(targets[target])


def compare(locked: LockedModel, now: LockEntry, allowance: Allowance) -> LockInfo:
    """Return what differs from the lock file."""
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


def judge_lock(locked: LockedModel, info: LockInfo, allowance: Allowance, *, strict: bool) -> tuple[JudgementInfo, ...]:
    """Judge growth beyond the allowance and, if `strict` (--locked), every difference from the lock file."""
    grown = [growth(change, info.inputs, allowance) for change in info.changes if not change.allowed]
    if locked.entry is None:
        text = MISSING[info.state]
        return (JudgementInfo("lock", False if strict else None, "error" if strict else "note", text),)
    if strict:
        return (*grown, _judge_strictly(info))
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


def _judge_strictly(info: LockInfo) -> JudgementInfo:
    if info.state == "equal":
        return JudgementInfo("lock", True, "note", "everything matches the lock file")
    names = [change.figure for change in info.changes] or list(info.inputs)
    listed = ", ".join(names[:FIGURES_NAMED]) + (" and more" if len(names) > FIGURES_NAMED else "")
    return JudgementInfo(
        "lock", False, "error", f"with --locked, nothing may differ from the lock file: {listed}", advice=(UPDATE,)
    )


def growth(
    change: ChangeInfo, inputs: tuple[str, ...], allowance: Allowance, *, rule: str = "growth", advice: str = UPDATE
) -> JudgementInfo:
    """Return the failed judgement of a figure that grew by more than the allowance.

    inputs: what else changed, a sentence each. advice: what to do if the change is intended.
    """
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
        rule=rule,
        passed=False,
        level="error",
        message=f"{what} has grown {sizes}{share}; the allowance is {allows}{why}",
        value=change.after,
        limit=limit,
        over=change.after - limit,
        unit=change.unit,
        causes=change.causes,
        advice=(advice, *_allowing(grown, change.before)),
    )


def _allowing(grown: float, before: float) -> tuple[str, ...]:
    """Suggest the allowance that a small growth needs, rounded up to a tenth of a percent; none for a large growth."""
    percent = 100 * grown / before if before else float("inf")
    needed = math.ceil(10 * percent) / 10
    return (f"--allow-growth {needed:g}% would allow this",) if percent <= MAX_ALLOWED else ()


def _names(before: LockEntry, now: LockEntry) -> list[str]:
    """Return the guarded figures, then the others in order."""
    everything = before.figures.keys() | now.figures.keys()
    return [*(name for name in GUARDED if name in everything), *sorted(everything - GUARDED.keys())]


def _change(name: str, before: LockEntry, now: LockEntry, allowance: Allowance) -> ChangeInfo:
    old, new = before.figures.get(name), now.figures.get(name)
    unit = next((unit for end, unit in UNITS.items() if end in name), "")
    allowed = True
    if name in GUARDED and old is not None and new is not None:
        more = allowance.of_bytes(int(old)) if unit == "B" else allowance.of_time(old)
        allowed = new - old <= more
    return ChangeInfo(name, unit, old, new, allowed, _causes(name, before, now, old, new))


def _causes(name: str, before: LockEntry, now: LockEntry, old: FigureValue, new: FigureValue) -> tuple[str, ...]:
    if before.breakdown is None or now.breakdown is None or old is None or new is None:
        return ()
    contributions: list[Contribution]
    if name == "latency_ms":
        contributions = latency_contributions(
            before.breakdown, now.breakdown, round(NS_PER_MS * new) - round(NS_PER_MS * old)
        )
        return cause_lines(contributions, _signed_duration, MINIMUM_NS)
    if name == "arena_bytes" and (before.breakdown.bytes, now.breakdown.bytes) == (old, new):
        return cause_lines(arena_contributions(before.breakdown, now.breakdown), _signed_size)
    if name == "model_bytes":
        return cause_lines(model_contributions(before.breakdown, now.breakdown, int(new) - int(old)), _signed_size)
    return ()


def _signed_size(size: int) -> str:
    return f"{size:+,} B"


def _signed_duration(ns: int) -> str:
    return f"{'-' if ns < 0 else '+'}{duration(abs(ns) / NS_PER_MS)}"


def _inputs(before: LockEntry, now: LockEntry) -> tuple[str, ...]:
    """Return what else differs, a sentence each."""
    sentences = []
    if before.sha256 != now.sha256:
        sentences.append(f"{MODEL_CHANGED} (sha256 {before.sha256[:12]} to {now.sha256[:12]})")
    names = {"edgetool": "edgetool", "converter": "the converter", "runtime": "the runtime"}
    for name, what in names.items():
        old, new = before.versions.get(name), now.versions.get(name)
        if old != new:
            sentences.append(f"{what} changed from {old or 'an unknown version'} to {new or 'an unknown version'}")
    if before.versions.get("profile") != now.versions.get("profile"):
        sentences.append("the target's figures changed: its profile, or options such as --sram and --clock")
    if before.kernels != now.kernels:
        sentences.append(f"the kernels changed from {before.kernels} to {now.kernels}")
    if before.reached is not None and now.reached is not None and before.reached != now.reached:
        sentences.append(f"the arena is reached by {now.reached}; before, by {before.reached}")
    if before.figures == now.figures and before.breakdown != now.breakdown:
        sentences.append("the totals are unchanged, but their breakdown differs")
    return tuple(sentences)


def updated(info: LockInfo) -> LockInfo:
    """Return the comparison after the lock file was written."""
    return replace(info, state="updated")
