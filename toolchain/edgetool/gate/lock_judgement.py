"""A model against its entry in the lock file: what changed, why, and whether it may."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgetool.gate.changes import Row, arena_rows, latency_rows, model_rows, told
from edgetool.gate.limits import Allowance
from edgetool.gate.lock_entry import NS_PER_MS, Entry, Value
from edgetool.gate.plain import duration
from edgetool.report.check import ChangeInfo, JudgementInfo, LockInfo

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
