"""Plan a model for a target within a deadline, write the plan into its file, and report findings on the plan.

The planner has no clock and no signals: a Deadline ends its search at a time limit or at Ctrl-C, with the best plan so
far.
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
from edgetool.memory.layout.cp_sat import available as cp_sat_available
from edgetool.memory.planner import Plan, PlanRequest, plan_memory, renumbered_plan
from edgetool.memory.problem import Effort
from edgetool.model.edit import in_order, renumbered, with_metadata, without_metadata
from edgetool.model.metadata import (
    METADATA_NAME,
    PlanRecord,
    changes_of,
    decode_record,
    encode_plan,
    encode_record,
    has_plan,
    keeps_own_plan,
    with_changes,
)
from edgetool.model.metadata import RECORD_METADATA_NAME as RECORD_NAME
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import operator_costs
from edgetool.pipeline.analysis import Analysis, analyse
from edgetool.pipeline.source import Source
from edgetool.report.document import ShrinkInfo
from edgetool.target.platform import Platform, platform_of
from edgetool.target.types import Target

MAX_SECONDS = 10**7  # a third of a year
TICK_SECONDS = 0.2


# The fraction of the time limit at which the search for an order ends, and the search for its layout begins.
ORDER_SHARE = 0.8
# The same for plans of rows, whose search takes the same steps in any time: only a slow machine shall not wait forever.
# It is the time of the processor, so that the load of the machine does not matter.
ROWS_SHARE = 6


class Deadline:
    """The end of a search: a time limit in seconds, or Ctrl-C.

    Without a time limit, the number of search nodes is limited instead. Times are those of the monotonic clock, except
    for rows. During the search, tick is called about five times a second. interrupted and timed_out state what ended
    the search, or a part of it. Raises UsageError for a time limit out of range.
    """

    def __init__(self, time_limit: float | None, *, tick: Callable[[], None] | None = None) -> None:
        if time_limit is not None and not 0 < time_limit <= MAX_SECONDS:
            raise UsageError(f"the time limit {time_limit} is not between 0 and {MAX_SECONDS:,} seconds")
        now = time.monotonic()
        self.interrupted = False
        self.timed_out = False
        self._start = now
        self._busy_start = time.process_time()
        self._time_limit = time_limit
        self._tick = tick
        self._next_tick = now + TICK_SECONDS

    def effort(self, seed: int = 0) -> Effort:
        """Return the effort of a search that ends at the deadline."""
        if self._time_limit is None:
            return Effort(seed=seed, stop=self._stop)
        return Effort(
            seed=seed,
            node_limit=None,
            stop=self._stop,
            stop_order=lambda: self._stop(ORDER_SHARE),
            stop_rows=lambda: self._stop(ROWS_SHARE, is_busy=True),
        )

    def _stop(self, share: float = 1, *, is_busy: bool = False) -> bool:
        now = time.monotonic()
        if self._tick is not None and now >= self._next_tick:
            self._next_tick = now + TICK_SECONDS
            self._tick()
        is_over = self._time_limit is not None and now - self._start >= share * self._time_limit
        if is_over and is_busy:
            # A thread is busy for no longer than time passes: the slower clock is asked only when that can matter.
            is_over = time.process_time() - self._busy_start >= share * (self._time_limit or 0)
        self.timed_out = self.timed_out or is_over
        return self.interrupted or is_over


@contextmanager
def interruptible(time_limit: float | None, *, tick: Callable[[], None] | None = None) -> Iterator[Deadline]:
    """Yield a Deadline that ends at once at the first Ctrl-C (SIGINT); a second Ctrl-C has its usual effect.

    In threads other than the main thread, signals are not handled. Raises UsageError as Deadline does.
    """
    deadline = Deadline(time_limit, tick=tick)
    previous = signal.getsignal(signal.SIGINT)
    if previous is None or threading.current_thread() is not threading.main_thread():
        yield deadline
        return

    def end_search(signum: int, frame: FrameType | None) -> None:
        deadline.interrupted = True
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, end_search)
    try:
        yield deadline
    finally:
        signal.signal(signal.SIGINT, previous)


def check_applies(request: PlanRequest, model: Model) -> None:
    """Raise UsageError if the file's own plan is to be used, but the request has options for a new plan."""
    options = {
        "--order": request.order,
        "--strategy": request.strategy,
        "--sharing": request.sharing,
        "--constants-in-ram": request.constants_in_ram,
        "--keep-inputs": request.keep_inputs,
        "--max-extra-macs": request.max_extra_macs is not None,
        "--shrink": request.shrink,
    }
    specified = [name for name, value in options.items() if value]
    if specified and has_plan(model) and request.file_plan == "use":
        raise UsageError(
            f"the file's memory plan is used unchanged: {', '.join(specified)} cannot be applied",
            fix="add --replan to create a new plan, or remove these options (also from the settings file)",
        )
    if request.sharing is not None and (request.strategy is not None or request.constants_in_ram):
        raise UsageError("--sharing replaces the layout: --strategy and --constants-in-ram cannot be applied")


PLAN_LOCATION = f"metadata {METADATA_NAME}"
REPLAN_COMMAND = "'edgetool plan --replan -o NEW.tflite'"
NO_PLAN = Finding(
    "no-plan", "the file has no memory plan: TFLM places the tensors itself, and the header has no offsets"
)
PLAN_FOR_NO_BUILD = Finding(
    "plan-for-no-build",
    "the written plan leaves no room for scratch buffers, which depend on the core and its kernels: the arena may be "
    "larger with the plan than without; specify a target with --target",
    where=PLAN_LOCATION,
)


def planned_source(source: Source, plan: Plan, target: Target | None) -> Source:
    """Return the source with the plan written to its file; unchanged if the plan is the file's own.

    Operators keep their indices. If the plan is to use TFLM's own planner, a plan in the file is removed. Raises
    UnsupportedModelError if the file has fields that the writer does not know.
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
    return Source(source.name, _checked_tflite(planned), planned)


def _checked_tflite(model: Model) -> bytes:
    """Return the model as a .tflite. Raises UnsupportedModelError unless it reads back as the same model."""
    from edgetool.model.writer import write_model  # imported on use: most plans are only shown

    blob = write_model(model)
    if read_model(blob) != renumbered(model):
        raise UnsupportedModelError(
            "the written model differs from the original when read back",
            fix="report this and attach the model",
        )
    return blob


def _record(plan: Plan, target: Target) -> PlanRecord:
    exact = plan.account is not None and not plan.account.is_lower_bound
    return PlanRecord(
        tool=f"edgetool {__version__}",
        core=target.core.name,
        kernels=target.kernels,
        runtime=target.runtime.name,
        arena_bytes=plan.account.bytes if plan.account is not None and exact else None,
        overlaps=len(plan.overlapping),
    )


def plan_findings(model: Model, plan: Plan, target: Target | None) -> tuple[Finding, ...]:
    """Return notes on the plan in the input file, and on the plan that was chosen."""
    findings = []
    if keeps_own_plan(model):
        findings.append(
            Finding("plan-kept", "the file's own plan is kept: its compiled operators rely on it", where=PLAN_LOCATION)
        )
    elif plan.planner == "file":
        findings += _file_plan_findings(model, plan, target)
    elif has_plan(model):
        findings.append(Finding("plan-replaced", "the file's own memory plan is not used", where=PLAN_LOCATION))
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


def search_findings(plan: Plan, deadline: Deadline, remedy: str) -> tuple[Finding, ...]:
    """Report a search that was cut short.

    remedy: the text that names the option for more time.
    """
    if plan.planner == "file" or (plan.layout.optimal and plan.order_proof != "none"):
        return ()
    if not (deadline.interrupted or deadline.timed_out):
        return ()
    ended = "was interrupted by Ctrl-C" if deadline.interrupted else "ended at its time limit"
    text = f"the search for order and layout {ended}: there may be a better plan; {remedy}"
    if not plan.layout.optimal and not cp_sat_available():
        text += ", or add a final search stage with pip install 'edgetool[cp-sat]'"
    return (Finding("search-cut-short", text),)


def _file_plan_findings(model: Model, plan: Plan, target: Target | None) -> list[Finding]:
    text = f"the memory plan in the file is used; {REPLAN_COMMAND} creates a new one"
    findings = [Finding("plan-in-file", text, where=PLAN_LOCATION)]
    record = decode_record(model)
    if record is not None and target is not None:
        planned_build = (record.core, record.kernels, record.runtime)
        if planned_build != (target.core.name, target.kernels, target.runtime.name):
            text = (
                f"the plan in the file was created for {record.core} with {record.kernels} kernels ({record.runtime}); "
                f"the arena size is nevertheless valid for this target, but {REPLAN_COMMAND} may find a smaller one"
            )
            findings.append(Finding("plan-for-other-build", text, where=PLAN_LOCATION))
    stock, account = plan.stock, plan.account
    if stock is not None and account is not None and account.bytes > stock.bytes:
        text = (
            f"the plan in the file needs an arena of {account.bytes:,} bytes, but TFLM's own planner "
            f"needs only {stock.bytes:,}: use {REPLAN_COMMAND}"
        )
        findings.append(Finding("plan-worse-than-stock", text, where=PLAN_LOCATION))
    return findings


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """The planned file with its analysis, and a finding if no plan could be written to the file."""

    analysis: Analysis
    source: Source
    unwritten: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class PossiblyStriped:
    """A model, its plan if it is in stripes, and what stripes change; shrink: what --shrink did."""

    source: Source
    plan: Plan | None
    findings: tuple[Finding, ...]
    shrink: ShrinkInfo | None = None


def with_stripes(
    source: Source,
    target: Target | None,
    request: PlanRequest,
    effort: Effort,
    custom: Mapping[str, OperatorEntry] | None = None,
    place: str | None = None,
) -> PossiblyStriped:
    """Return the model in stripes if the request permits them, as in_stripes does, or else as it is."""
    if not request.permits_stripes:
        return PossiblyStriped(source, None, ())
    from edgetool.pipeline.stripes import in_stripes  # most plans have no stripes

    return in_stripes(source, target, request, effort, custom, place)


def planned_for(
    source: Source,
    target: Target,
    request: PlanRequest | None = None,
    effort: Effort | None = None,
    *,
    plan: Plan | None = None,
    renumber: bool = True,
    custom: Mapping[str, OperatorEntry] | None = None,
) -> PlannedModel:
    """Plan a model for the target as `convert` does, unless its plan is given.

    Without an effort, the search ends at its node limit, so the same model always has the same plan. With renumber,
    operators and tensors are numbered as in the planned file, because the user has never seen the source. Raises
    UnsupportedModelError and InvalidModelError as `analyse` does.
    """
    platform = platform_of(target)
    if plan is None:
        plan = plan_memory(source.model, platform, request, effort, custom=custom)
    written = source
    unwritten: tuple[Finding, ...] = ()
    try:
        written = planned_source(source, plan, target)
    except UnsupportedModelError as error:
        unwritten = (Finding("plan-not-written", f"no plan was written to the file: {error}"),)
        plan = plan_memory(source.model, platform, PlanRequest(file_plan="only"), custom=custom)
    if renumber and plan.moved:
        written = Source(written.name, written.blob, renumbered(written.model))
        plan = renumbered_plan(plan, written.model, platform, custom=custom)
    return PlannedModel(analyse(written, target, plan=plan, custom=custom), written, unwritten)


def without_faults(
    source: Source, target: Target, custom: Mapping[str, OperatorEntry] | None = None
) -> tuple[Source, tuple[str, ...]]:
    """Rewrite the operators whose kernels on the target compute wrong outputs.

    Returns:
        The rewritten file, or the same one if no rewrite applies; and a sentence for each rewrite.
    """
    from edgetool.model.writer import write_model  # imported on use: most models do not change
    from edgetool.passes.faults import avoid_faults

    avoided = avoid_faults(source.model, target.runtime, platform_of(target), custom)
    if avoided.model is source.model:
        return source, ()
    return Source(source.name, write_model(avoided.model), avoided.model), avoided.sentences({})


def cleaned_up(
    source: Source, platform: Platform | None, custom: Mapping[str, OperatorEntry] | None = None
) -> tuple[Source, tuple[Finding, ...]]:
    """Run the clean-up passes (passes/cleanup.py), which leave every output the same bit for bit.

    A file that they change says so in its metadata. A pass that may enlarge the arena is used only if TFLM's arena on
    the platform is known not to grow.

    Returns:
        The file, which is the given one if nothing changed; and findings: what the passes left alone, and for each pass
        that changed something, what that saves.
    """
    from edgetool.model.writer import write_model  # imported on use: most models do not change
    from edgetool.passes.cleanup import PASSES, left_alone, optimize

    text = left_alone(source.model)
    findings = [Finding("not-cleaned-up", text)] if text else []
    cleaned = source
    for cleanup in PASSES:
        model, changes = optimize(cleaned.model, (cleanup,))
        if not changes or (cleanup.may_enlarge and not _keeps_arena(cleaned.model, model, platform, custom)):
            continue
        result = Source(source.name, write_model(model), model)
        findings += [change.finding(_savings(cleaned, result)) for change in changes]
        cleaned = result
    if cleaned is source:
        return source, tuple(findings)
    model = with_changes(cleaned.model, replace(changes_of(cleaned.model), optimized=True))
    return Source(source.name, write_model(model), model), tuple(findings)


def rewritten_for(
    source: Source, target: Target, custom: Mapping[str, OperatorEntry] | None = None
) -> tuple[Source, tuple[Finding, ...]]:
    """Clean up the model, and rewrite the operators whose kernels on the target compute wrong outputs.

    Returns:
        The file, which is the given one if nothing changed, and findings on the rewrites.
    """
    cleaned, on_cleanup = cleaned_up(source, None if target.runtime.is_native else platform_of(target), custom)
    rewritten, avoided = without_faults(cleaned, target, custom)
    return rewritten, (*on_cleanup, *(Finding("fault-avoided", sentence) for sentence in avoided))


def _keeps_arena(
    model: Model, result: Model, platform: Platform | None, custom: Mapping[str, OperatorEntry] | None
) -> bool:
    if platform is None:
        return False
    request = PlanRequest(file_plan="replace")
    before, after = (plan_memory(each, platform, request, custom=custom).account for each in (model, result))
    return before is not None and after is not None and after.bytes <= before.bytes


def _savings(before: Source, after: Source) -> str:
    """Return the multiply-accumulates and the bytes of flash of two models, those of the second one first."""
    macs = [sum(cost.macs for cost in operator_costs(source.model)) for source in (after, before)]
    sizes = [len(source.blob) for source in (after, before)]
    pairs = (macs, "multiply-accumulates"), (sizes, "bytes of flash for the model")
    return ", and ".join(f"{new:,} instead of {old:,} {unit}" for (new, old), unit in pairs if new != old)
