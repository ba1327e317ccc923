"""The account of an arena that several models share: one MicroAllocator, and an interpreter for each model.

AllocateTensors runs for one model after the other. The persistent parts of all lie behind each other in the tail, each
with a MicroBuiltinDataAllocator and tables of its own; the allocators come once. Planned tensors and scratch of all
lie at the start of the arena, over each other: MicroAllocator keeps the largest head that it planned
(max_head_buffer_usage_) and reserves it at the end of each AllocateTensors. The next one gives it up first, since its
table of scratch requests takes the arena's only resizable buffer (InitScratchBufferData): the transients of a later
model lie over the heads of the earlier ones, and meet their tails only.

Source: micro_allocator.cc, single_arena_buffer_allocator.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations

from edgetool.memory.account import ArenaAccount, Offsets, Peak, Unaccounted, account_plan, prepare
from edgetool.memory.types import ARENA_ALIGNMENT
from edgetool.model.types import Model
from edgetool.operators.entry import OperatorEntry
from edgetool.target.platform import Platform

# Up to so many models, every order of initialisation is tried.
MODELS_IN_ANY_ORDER = 5


@dataclass(frozen=True, slots=True)
class Tenant:
    """One of the models: offsets, by (subgraph, tensor), is the offline plan in its file."""

    model: Model
    offsets: Offsets | None = None


@dataclass(frozen=True, slots=True)
class TenantPart:
    """What one model takes: its own head, and what it adds to the tail (the first one the allocators, too)."""

    head_bytes: int
    tail_bytes: int
    unaccounted: tuple[Unaccounted, ...]


@dataclass(frozen=True, slots=True)
class SharedAccount:
    """The arena of all models, initialised in the order of `parts`.

    peak is the moment that sets the arena, and peak_model the position of the model that is then initialised, None
    where it is Invoke. best_order: the positions in the order that needs the smallest arena, of all orders up to
    MODELS_IN_ANY_ORDER models, and best_bytes what it needs.
    """

    parts: tuple[TenantPart, ...]
    peak: Peak
    peak_model: int | None
    best_order: tuple[int, ...]
    best_bytes: int

    @property
    def head_bytes(self) -> int:
        """What the largest head takes."""
        return max(part.head_bytes for part in self.parts)

    @property
    def tail_bytes(self) -> int:
        """The persistent parts of all models."""
        return sum(part.tail_bytes for part in self.parts)

    @property
    def used_bytes(self) -> int:
        """What arena_used_bytes() of each interpreter gives after the last AllocateTensors."""
        return self.head_bytes + self.tail_bytes

    @property
    def bytes(self) -> int:
        """The smallest arena, a multiple of 16, in which every model allocates and runs."""
        return self.peak.bytes

    @property
    def is_lower_bound(self) -> bool:
        """Whether some operator of some model is not accounted for."""
        return any(part.unaccounted for part in self.parts)


# The account of the model at a position, behind a tail of so many bytes.
_Accounts = Callable[[int, int], ArenaAccount]


def account_shared(
    tenants: Sequence[Tenant], platform: Platform, *, custom: Mapping[str, OperatorEntry] | None = None
) -> SharedAccount:
    """The account of these models in one arena, initialised in this order on a build of TFLM.

    custom: entries of operators that the user describes, by custom code. Raises ValueError without a model,
    UnsupportedModelError for control flow that never ends.
    """
    if not tenants:
        raise ValueError("no model")

    @cache
    def account(position: int, behind: int) -> ArenaAccount:
        tenant = tenants[position]
        return account_plan(prepare(tenant.model, platform, custom=custom, behind=behind), tenant.offsets)

    given = tuple(range(len(tenants)))
    parts, peak, peak_model = _stacked(account, given)
    best = min(_orders(account, len(tenants)), key=lambda order: (_stacked(account, order)[1].bytes, order != given))
    return SharedAccount(parts, peak, peak_model, best, _stacked(account, best)[1].bytes)


def _stacked(account: _Accounts, order: Sequence[int]) -> tuple[tuple[TenantPart, ...], Peak, int | None]:
    """The parts in this order, the moment that sets the arena and the model at it."""
    parts, moments, behind = [], list[tuple[Peak, int | None]](), 0
    for position in order:
        # All of an account but its alignment to 16 moves along with the tail before it.
        near = behind and ARENA_ALIGNMENT + behind % ARENA_ALIGNMENT
        own = account(position, near)
        peak = _transient(own)
        moments.append((replace(peak, tail_bytes=peak.tail_bytes + behind - near), position))
        parts.append(TenantPart(own.head_bytes, own.tail_bytes - near, own.unaccounted))
        behind += own.tail_bytes - near
    moments.append((Peak("Invoke", max(part.head_bytes for part in parts), behind), None))
    peak, model = max(moments, key=lambda moment: (moment[0].bytes, moment[1] is None))
    return tuple(parts), peak, model


def _orders(account: _Accounts, count: int) -> list[tuple[int, ...]]:
    """The orders to try: all, or of many models that in which those with the highest transients over their tails begin.

    Without alignment nothing is better than that one: exchanging two neighbours in it never lowers the arena.
    """
    if count <= MODELS_IN_ANY_ORDER:
        return list(permutations(range(count)))
    given = tuple(range(count))
    alone = [account(position, 0) for position in given]
    return [
        given,
        tuple(sorted(given, key=lambda position: alone[position].tail_bytes - _transient(alone[position]).bytes)),
    ]


def _transient(own: ArenaAccount) -> Peak:
    """The highest moment of AllocateTensors, before the head is reserved."""
    return max(own.peaks[:-1], key=lambda peak: peak.bytes)
