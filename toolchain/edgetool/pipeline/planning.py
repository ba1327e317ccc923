"""What a user asks of a plan, the search under way, and the model with its plan.

A search under way: it ends at a deadline or at Ctrl-C, and what it has found by then counts.

What a user asks of a plan of ours.

The planned file: a model with a memory plan in it, and what is to be said of plans in files.

A model as it is delivered: planned for a target, in the order and with the plan that the firmware gets.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType

from edgetool import __version__
from edgetool.errors import UnsupportedModelError, UsageError
from edgetool.finding import Finding
from edgetool.memory.effort import Effort
from edgetool.memory.layout.cp_sat import available as cp_sat_available
from edgetool.memory.layout.solve import Strategy
from edgetool.memory.plan_options import OrderStrategy, PlanOptions, Wanted
from edgetool.memory.planner import MemoryPlan, as_written, plan_memory
from edgetool.memory.sharing.types import Algorithm
from edgetool.model.edit import in_order, renumbered, with_metadata, without_metadata
from edgetool.model.metadata import (
    METADATA_NAME,
    PlanRecord,
    decode_record,
    encode_plan,
    encode_record,
    has_plan,
    keeps_own_plan,
)
from edgetool.model.metadata import RECORD_METADATA_NAME as RECORD_NAME
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.operators.entry import OperatorEntry
from edgetool.pipeline.analysis import Analysis, analyse
from edgetool.pipeline.source import Source
from edgetool.target.platform import platform_of
from edgetool.target.types import Target

MAX_SECONDS = 10**7  # a third of a year
TICK_SECONDS = 0.2


class Watch:
    """The limits of a search as an Effort, and what ended it.

    With a time limit the number of search nodes is free; without one it is the Effort's own. Times are of the
    monotonic clock. tick is called about five times a second while the search asks whether to stop. interrupted and
    timed_out say what has ended a search, or a part of it.
    """

    def __init__(self, time_limit: float | None, *, seed: int = 0, tick: Callable[[], None] | None = None) -> None:
        if time_limit is not None and not 0 < time_limit <= MAX_SECONDS:
            raise UsageError(f"the time limit {time_limit} is not between 0 and {MAX_SECONDS:,} seconds")
        now = time.monotonic()
        self.interrupted = False
        self.timed_out = False
        self._start = now
        self._time_limit = time_limit
        self._tick = tick
        self._next_tick = now + TICK_SECONDS
        self.effort = (
            Effort(seed=seed, stop=self._stop)
            if time_limit is None
            else Effort(seed=seed, node_limit=None, stop=self._stop)
        )

    def part(self, share: float) -> Effort:
        """The effort of a search that others follow: it ends when this share of the time limit is over.

        Without a time limit it is `effort`.
        """
        return self.effort if self._time_limit is None else replace(self.effort, stop=lambda: self._stop(share))

    def _stop(self, share: float = 1) -> bool:
        now = time.monotonic()
        if self._tick is not None and now >= self._next_tick:
            self._next_tick = now + TICK_SECONDS
            self._tick()
        over = self._time_limit is not None and now >= self._start + share * self._time_limit
        self.timed_out = self.timed_out or over
        return self.interrupted or over


@contextmanager
def watched(time_limit: float | None, *, seed: int = 0, tick: Callable[[], None] | None = None) -> Iterator[Watch]:
    """A Watch whose search the first Ctrl-C (SIGINT) ends early; a second does what it did before.

    time_limit in seconds. In threads other than the main one, signals are left alone. Raises UsageError for a time
    limit that is not positive.
    """
    watch = Watch(time_limit, seed=seed, tick=tick)
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield watch
        return

    def end_search(signum: int, frame: FrameType | None) -> None:
        watch.interrupted = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, end_search)
    try:
        yield watch
    finally:
        signal.signal(signal.SIGINT, before)


DEFAULT_SECONDS = 10.0
# The part of the time limit after which an order is taken as it is, and its layout begins.
ORDER_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Order, layout and limits of the search; None where nothing was asked for, which is the best there is.

    time_limit: seconds for each plan.
    """

    order: OrderStrategy | None = None
    strategy: Strategy | None = None
    sharing: Algorithm | None = None
    constants_in_ram: bool = False
    time_limit: float = DEFAULT_SECONDS
    seed: int = 0

    def options(self, watch: Watch) -> PlanOptions:
        """For the planner, with the limits of a search."""
        return PlanOptions(
            order=self.order or "optimal",
            strategy=self.strategy or "optimal",
            sharing=self.sharing,
            constants_in_ram=self.constants_in_ram,
            effort=watch.effort,
            order_effort=watch.part(ORDER_SHARE),
        )

    def told(self) -> dict[str, object]:
        """For the document's options."""
        return {
            "order": self.order or "optimal",
            "strategy": self.strategy or "optimal",
            "sharing": self.sharing,
            "constants_in_ram": self.constants_in_ram,
            "plan_time_limit": self.time_limit,
            "plan_seed": self.seed,
        }

    def check_applies(self, model: Model, *, replan: bool) -> None:
        """UsageError when the file's own plan is to be used, and something was asked of a plan of ours."""
        wishes = {
            "--order": self.order,
            "--strategy": self.strategy,
            "--sharing": self.sharing,
            "--constants-in-ram": self.constants_in_ram,
        }
        given = [name for name, value in wishes.items() if value]
        if given and has_plan(model) and not replan:
            raise UsageError(
                f"the file's memory plan is used unchanged: {', '.join(given)} cannot be applied",
                fix="add --replan to create a new plan, or remove these options (also from the settings file)",
            )
        if self.sharing is not None and (self.strategy is not None or self.constants_in_ram):
            raise UsageError("--sharing replaces the layout: --strategy and --constants-in-ram cannot be applied")


WHERE = f"metadata {METADATA_NAME}"
REPLAN = "'edgetool plan --replan -o NEW.tflite'"
NO_PLAN = Finding(
    "no-plan", "the file has no memory plan: TFLM places the tensors itself, and the header has no offsets"
)
PLAN_FOR_NO_BUILD = Finding(
    "plan-for-no-build",
    "the written plan leaves no room for scratch buffers, which depend on the core and its kernels: the arena may be "
    "larger with the plan than without; specify a target with --target",
    where=WHERE,
)


def planned_source(source: Source, plan: MemoryPlan, target: Target | None) -> Source:
    """The source with the plan in its file: as it is where the plan is the file's own. Operators keep their indices.

    Where TFLM's own planner is to decide, a plan in the file is taken out. Raises UnsupportedModelError when the file
    holds fields that the writer does not know.
    """
    if plan.planner == "file" or (plan.offsets is None and not has_plan(source.model) and not plan.moved):
        return source
    model = in_order(source.model, plan.order)
    if plan.offsets is None:
        planned = without_metadata(without_metadata(model, METADATA_NAME), RECORD_NAME)
    else:
        planned = with_metadata(model, METADATA_NAME, encode_plan(model, plan.offsets))
        if target is not None:
            planned = with_metadata(planned, RECORD_NAME, encode_record(_record(plan, target)))
        else:
            planned = without_metadata(planned, RECORD_NAME)
    return Source(source.name, _written(planned), planned)


def _written(model: Model) -> bytes:
    """The file of the model, read back and compared before it leaves."""
    blob = write_model(model)
    if read_model(blob) != renumbered(model):
        raise UnsupportedModelError(
            "the written model differs from the original when read back",
            fix="report this and attach the model",
        )
    return blob


def _record(plan: MemoryPlan, target: Target) -> PlanRecord:
    exact = plan.account is not None and not plan.account.is_lower_bound
    return PlanRecord(
        tool=f"edgetool {__version__}",
        core=target.core.name,
        kernels=target.kernels,
        runtime=target.runtime.name,
        arena_bytes=plan.account.bytes if plan.account is not None and exact else None,
    )


def plan_findings(model: Model, plan: MemoryPlan, target: Target | None) -> tuple[Finding, ...]:
    """Notes on the plan that the input file has, and on the one that was chosen."""
    findings = []
    if keeps_own_plan(model):
        findings.append(
            Finding("plan-kept", "the file's own plan is kept: its compiled operators rely on it", where=WHERE)
        )
    elif plan.planner == "file":
        findings += _file_plan_findings(model, plan, target)
    elif has_plan(model):
        findings.append(Finding("plan-replaced", "the file's own memory plan is not used", where=WHERE))
    if plan.constants_in_ram:
        text = (
            "the layout also contains constants, each only for as long as an operator uses it; firmware that loads "
            "them into RAM can follow it, but stock TFLM reads them in place"
        )
        findings.append(Finding("constants-in-ram", text))
    if plan.planner == "runtime" and plan.stock is not None and plan.account is plan.stock:
        text = "edgetool found no plan better than TFLM's own planner, which is used instead"
        findings.append(Finding("plan-not-needed", text))
    return tuple(findings)


def search_findings(plan: MemoryPlan, watch: Watch, remedy: str) -> tuple[Finding, ...]:
    """What a search that was cut short left open, and the remedy: the option that gives it more time."""
    if plan.planner == "file" or (plan.layout.optimal and plan.order_proof != "none"):
        return ()
    if not (watch.interrupted or watch.timed_out):
        return ()
    ended = "was interrupted by Ctrl-C" if watch.interrupted else "ended at its time limit"
    text = f"the search for order and layout {ended}: there may be a better plan; {remedy}"
    if not plan.layout.optimal and not cp_sat_available():
        text += ", or add a final search stage with pip install 'edgetool[cp-sat]'"
    return (Finding("search-cut-short", text),)


def _file_plan_findings(model: Model, plan: MemoryPlan, target: Target | None) -> list[Finding]:
    text = f"the memory plan in the file is used; {REPLAN} creates a new one"
    findings = [Finding("plan-in-file", text, where=WHERE)]
    record = decode_record(model)
    if record is not None and target is not None:
        made_for = (record.core, record.kernels, record.runtime)
        if made_for != (target.core.name, target.kernels, target.runtime.name):
            text = (
                f"the plan in the file was created for {record.core} with {record.kernels} kernels ({record.runtime}); "
                f"the arena size is nevertheless valid for this target, but {REPLAN} may find a smaller one"
            )
            findings.append(Finding("plan-for-other-build", text, where=WHERE))
    stock, account = plan.stock, plan.account
    if stock is not None and account is not None and account.bytes > stock.bytes:
        text = (
            f"the plan in the file needs an arena of {account.bytes:,} bytes, but TFLM's own planner "
            f"needs only {stock.bytes:,}: use {REPLAN}"
        )
        findings.append(Finding("plan-worse-than-stock", text, where=WHERE))
    return findings


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """The analysis of the planned file, that file, and why no plan of ours is in it where there is none."""

    analysis: Analysis
    source: Source
    unwritten: tuple[Finding, ...] = ()


def planned_for(
    source: Source,
    target: Target,
    *,
    made_anew: bool = True,
    custom: Mapping[str, OperatorEntry] | None = None,
    wanted: Wanted = "best",
    options: PlanOptions | None = None,
) -> PlannedModel:
    """Plan a model for the target as `convert` does.

    made_anew: nobody has seen the model before, so operators and tensors are numbered as in the planned file, not as in
    the source. Without options the search ends after so many nodes, whatever the time: the same model, the same plan.
    Raises UnsupportedModelError and InvalidModelError as `analyse` does.
    """
    platform = platform_of(target)
    plan = plan_memory(source.model, platform, custom=custom, wanted=wanted, options=options)
    written = source
    unwritten: tuple[Finding, ...] = ()
    try:
        written = planned_source(source, plan, target)
    except UnsupportedModelError as error:
        unwritten = (Finding("plan-not-written", f"no plan was written to the file: {error}"),)
        plan = plan_memory(source.model, platform, custom=custom, wanted="as in file")
    if made_anew and plan.moved:
        # Nobody sees the converter's file, so its numbers would tell nothing.
        written = Source(written.name, written.blob, renumbered(written.model))
        plan = as_written(plan, written.model, platform, custom=custom)
    return PlannedModel(analyse(written, target, custom=custom, plan=plan), written, unwritten)
