"""The form of an operator's entry, which contains everything that edgetool knows about the operator.

Entries contain no operand counts: the reader has checked those (`model/rules.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from edgetool.model.types import Graph, Operator
from edgetool.operators.call import Call, Condition, PrepareRule, no_requests
from edgetool.operators.loops import LoopRule
from edgetool.operators.overlap import OverlapRules
from edgetool.operators.rows import RowRule
from edgetool.target.types import Kernels

MacRule = Callable[[Operator, Graph], int]
ReadsRule = Callable[[Call], int]
FaultCondition = Callable[[Call], bool]
EMPTY: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class KernelFault:
    """A condition under which the outputs of a kernel are wrong, although AllocateTensors and Invoke report success.

    Outputs are wrong if they differ from those of the reference kernel, or if they depend on the previous contents of
    the arena; a kernel that writes outside its tensors or crashes is wrong, too.

    name: kebab-case; the profile of a runtime lists the faults of its kernels. kernels: the sets whose kernel has the
    fault. applies: the condition, on an operator that the kernel accepts; it is only called if the kernel set matches.
    condition: the same in words, after the operator's name. effect: what the kernel does, as a clause without subject.
    remedy: what to do, as an imperative clause. source: the file with the cause. fixed_by: the commit that removes the
    fault; "" if there is none. wrong, right: generated models on either side of the condition, as "type/number" of the
    operator in benchmarks/kernels; "" for a fault that only versions before the newest have.
    """

    name: str
    kernels: tuple[Kernels, ...]
    applies: FaultCondition
    condition: str
    effect: str
    remedy: str
    source: str
    fixed_by: str
    wrong: str
    right: str


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """Everything known about one operator. Sources: the kernels of the same names.

    macs: the multiply-accumulates of one run, computed from shapes alone (padding counts as data, as is customary);
    None if it has none. prepare: what its Prepare requests from the arena, and what it rejects; None if that is
    unknown, so that the arena of a model with the operator is a lower bound. init: what Init requests besides the
    OpData that the runtime's profile describes. loops: how many times each loop of its kernel runs; None if its latency
    cannot be estimated. bounds: conditions that keep the kernel within its tensors, if neither Prepare nor the reader
    checks them. If they do not hold, Eval reads or writes beyond a tensor, divides by 0 or never ends. Only values in
    the file are checked; a value that decides what the kernel reads must be in the file. constant_reads: how many times
    the kernel reads all its constants; None means once. input_reads: the same for its other inputs, where it returns to
    parts of them only after it has read the rest. overlaps: what its output may overlap, by kernel set; sets that
    are missing have no certified kernel. rows: which input rows a row of an image needs; None if its kernel does not
    compute row by row. faults: conditions under which its outputs are wrong in some runtime. resolver_method: the
    method that registers the operator, if no runtime's profile contains it.
    """

    code: str
    macs: MacRule | None = None
    prepare: PrepareRule | None = None
    init: PrepareRule = no_requests
    loops: LoopRule | None = None
    bounds: Condition | None = None
    constant_reads: ReadsRule | None = None
    input_reads: ReadsRule | None = None
    overlaps: OverlapRules = field(default_factory=dict)
    rows: RowRule | None = None
    faults: tuple[KernelFault, ...] = ()
    resolver_method: str | None = None


def entries(
    *,
    prepare: Mapping[str, PrepareRule],
    loops: Mapping[str, LoopRule],
    macs: Mapping[str, MacRule] = EMPTY,
    init: Mapping[str, PrepareRule] = EMPTY,
    bounds: Mapping[str, Condition] = EMPTY,
    constant_reads: Mapping[str, ReadsRule] = EMPTY,
    input_reads: Mapping[str, ReadsRule] = EMPTY,
    overlaps: Mapping[str, OverlapRules] = EMPTY,
    rows: Mapping[str, RowRule] = EMPTY,
    faults: Mapping[str, tuple[KernelFault, ...]] = EMPTY,
) -> tuple[OperatorEntry, ...]:
    """Return the entries of a family, sorted by operator.

    The tables are indexed by operator code, or by custom code for custom operators.
    """
    return tuple(
        OperatorEntry(
            code,
            macs.get(code),
            prepare.get(code),
            init.get(code, no_requests),
            loops.get(code),
            bounds.get(code),
            constant_reads.get(code),
            input_reads.get(code),
            overlaps.get(code, EMPTY),
            rows.get(code),
            faults.get(code, ()),
        )
        for code in sorted({*prepare, *loops, *macs, *init, *bounds, *constant_reads, *overlaps, *rows})
    )
