"""What makes an instance impossible: pins that collide or cannot be, and a capacity below what is alive at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, lcm

from edgetool.errors import FailedCheckError
from edgetool.memory.bound import live_bytes
from edgetool.memory.checker import Violation, check_layout
from edgetool.memory.instances.types import MAX_TOTAL_BYTES, Instance, invalid
from edgetool.memory.types import Buffer, Layout, LayoutProblem, Lifetime, aligned

MAX_PROBLEMS_SHOWN = 10_000
LARGEST_SHOWN = 8
# Of the fullest moments: padding may make another than the very fullest impossible.
MOMENTS_LOOKED_AT = 100


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of memory: a buffer, or all of an alias as one, with the buffers' indices."""

    buffer: Buffer
    members: tuple[int, ...]


def pieces_of(problem: LayoutProblem) -> tuple[Piece, ...]:
    """The pieces of memory, in the order of their first buffers; an alias' pin is the first of its members'."""
    groups: dict[object, list[int]] = {}
    for i, buffer in enumerate(problem.buffers):
        groups.setdefault(i if buffer.alias is None else buffer.alias, []).append(i)
    return tuple(Piece(_merged([problem.buffers[i] for i in members]), tuple(members)) for members in groups.values())


def naive_bytes(problem: LayoutProblem) -> int:
    """The sum of all pieces: the memory without any reuse."""
    return sum(piece.buffer.aligned_bytes for piece in pieces_of(problem))


def check_pins(instance: Instance, capacity: int | None = None) -> None:
    """Raise InvalidModelError, every row named, for pins that collide, are unaligned or end above the capacity.

    Also for members of one alias with different pins, and for sizes that sum to 2**63 or more.
    """
    pieces = pieces_of(instance.problem)
    if sum(piece.buffer.aligned_bytes for piece in pieces) > MAX_TOTAL_BYTES:
        raise invalid("the sizes add up to 2**63 bytes or more", "use a larger unit for sizes")
    problems = _different_pins(instance)
    pinned = [piece for piece in pieces if piece.buffer.pinned is not None]
    problem = LayoutProblem(tuple(piece.buffer for piece in pinned))
    offsets = tuple(piece.buffer.pinned or 0 for piece in pinned)
    top = 0
    for piece, offset in zip(pinned, offsets, strict=True):
        end = offset + piece.buffer.aligned_bytes if piece.buffer.size_bytes else 0
        top = max(top, end)
        if capacity is not None and end > capacity:
            problems.append(f"{_told(instance, piece)} is pinned to end at {end:,}, above the capacity of {capacity:,}")
    violations = check_layout(problem, Layout(offsets, top, 0, "none"))
    problems += [_violation(instance, violation, [pinned[i] for i in violation.buffers]) for violation in violations]
    if problems:
        fix = "change or remove these offsets"
        if len(problems) == 1:
            raise invalid(problems[0], fix)
        shown = problems[:MAX_PROBLEMS_SHOWN]
        if len(problems) > len(shown):
            shown.append(f"and {len(problems) - len(shown):,} more")
        count = "thousands of" if len(problems) > MAX_PROBLEMS_SHOWN else f"{len(problems):,}"
        raise invalid(f"has {count} conflicts between pinned offsets", fix, tuple(shown))


def check_capacity(instance: Instance, capacity: int) -> None:
    """Raise FailedCheckError when one moment needs more than the capacity; its details name what is alive then.

    Where all offsets are multiples of a grain, all that is alive but the highest takes up a multiple of it.
    """
    pieces = [piece for piece in pieces_of(instance.problem) if piece.buffer.size_bytes]
    grain = gcd(*(piece.buffer.alignment for piece in pieces), *(piece.buffer.pinned or 0 for piece in pieces)) or 1
    padded = LayoutProblem(tuple(_padded(piece.buffer, grain) for piece in pieces))
    moments = sorted(live_bytes(padded), key=lambda item: -item[1])[:MOMENTS_LOOKED_AT]
    for position, most in moments:
        if most <= capacity:
            return
        moment = Lifetime(position, position)
        alive = [piece for piece in pieces if piece.buffer.lifetime.overlaps(moment)]
        needed = most - max(-piece.buffer.aligned_bytes % grain for piece in alive)
        if needed > capacity:
            raise _impossible(instance, capacity, position, needed, alive)


def _padded(buffer: Buffer, grain: int) -> Buffer:
    return replace(buffer, size_bytes=aligned(buffer.aligned_bytes, grain), granule=1)


def _impossible(instance: Instance, capacity: int, position: int, needed: int, alive: list[Piece]) -> FailedCheckError:
    alive.sort(key=lambda piece: -piece.buffer.aligned_bytes)
    lines = [f"{piece.buffer.aligned_bytes:,} B  {_told(instance, piece)}" for piece in alive[:LARGEST_SHOWN]]
    if rest := alive[LARGEST_SHOWN:]:
        lines.append(f"{sum(piece.buffer.aligned_bytes for piece in rest):,} B  in {len(rest):,} more")
    padding = needed - sum(piece.buffer.aligned_bytes for piece in alive)
    gaps = f", including {padding:,} B of alignment padding" if padding else ""
    return FailedCheckError(
        f"no layout fits within the capacity of {capacity:,} B: {needed:,} B are live {instance.moment(position)}"
        f"{gaps}",
        fix=f"use a capacity of {needed:,} B or more, or reduce what is live there",
        details=tuple(lines),
    )


def _merged(buffers: list[Buffer]) -> Buffer:
    if len(buffers) == 1:
        return buffers[0]
    pins = [buffer.pinned for buffer in buffers if buffer.pinned is not None]
    return Buffer(
        subgraph=buffers[0].subgraph,
        tensor=buffers[0].tensor,
        name=buffers[0].name,
        size_bytes=max(buffer.aligned_bytes for buffer in buffers),
        lifetime=Lifetime(min(b.lifetime.first for b in buffers), max(b.lifetime.last for b in buffers)),
        alignment=lcm(*(buffer.alignment for buffer in buffers)),
        granule=1,
        pinned=pins[0] if pins else None,
    )


def _different_pins(instance: Instance) -> list[str]:
    """Members of one alias that are pinned to another place than its first pinned one."""
    first: dict[str, int] = {}
    problems = []
    for i, buffer in enumerate(instance.problem.buffers):
        if buffer.alias is None or buffer.pinned is None:
            continue
        other = first.setdefault(buffer.alias, i)
        pin = instance.problem.buffers[other].pinned
        if pin != buffer.pinned:
            text = f"{instance.told(other)} and {instance.told(i)} share the alias {buffer.alias[:40]!a}"
            problems.append(f"{text}, but are pinned to {pin:,} and {buffer.pinned:,}")
    return problems


def _violation(instance: Instance, violation: Violation, pieces: list[Piece]) -> str:
    if not pieces:
        return violation.message
    told = " and ".join(_told(instance, piece) for piece in pieces)
    buffers = [piece.buffer for piece in pieces]
    spans = " and ".join(f"{b.pinned or 0:,} to {(b.pinned or 0) + b.aligned_bytes:,}" for b in buffers)
    if violation.rule == "overlap":
        both = max(buffer.lifetime.first for buffer in buffers)
        return f"{told} overlap (bytes {spans}) {instance.moment(both)}"
    if violation.rule == "alignment":
        return f"{told} is at {buffers[0].pinned:,}, which is not a multiple of its alignment {buffers[0].alignment:,}"
    return f"{told}: {violation.message}"


def _told(instance: Instance, piece: Piece) -> str:
    told = instance.told(piece.members[0])
    others = len(piece.members) - 1
    return f"{told} and {others:,} more with the same alias" if others else told
