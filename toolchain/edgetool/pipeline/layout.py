"""Find the smallest layout of the buffers in an instance file, or their fastest placement in several memories."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from edgetool import __version__
from edgetool.errors import EdgetoolError, FailedCheckError, InvalidModelError, UsageError, did_you_mean
from edgetool.finding import Finding
from edgetool.memory.bound import lower_bound
from edgetool.memory.checker import require_valid, require_valid_choice, require_valid_lowest
from edgetool.memory.instances import (
    InstanceFile,
    check_capacity,
    check_pins,
    naive_bytes,
    read_instance,
    write_answer,
)
from edgetool.memory.layout.solve import LayoutStrategy, solve
from edgetool.memory.problem import Effort, Layout, LayoutProblem, LowestLayout, Memory, SeveralLayout, SeveralProblem
from edgetool.memory.several import NoChoice, solve_lowest, solve_several
from edgetool.memory.sharing.assign import shared_offsets
from edgetool.memory.sharing.types import Algorithm
from edgetool.pipeline.output import check_writable, read_file, write_file
from edgetool.pipeline.planning import interruptible
from edgetool.pipeline.reporting import finding_infos
from edgetool.pipeline.source import sha256_of
from edgetool.report.document import Provenance
from edgetool.report.layout import (
    BufferInMemory,
    InstanceInfo,
    LayoutInfo,
    LayoutReport,
    MinimizedMemory,
    PlacedBuffer,
    PlacedReport,
    PlacementOfBuffers,
    SharedLayoutBuffer,
    UsedMemory,
)

MAX_INSTANCE_BYTES = 2**27
DEFAULT_SECONDS = 60.0
STEPS_PER_CYCLE = 1000  # costs are integers, so that the search is exact
FORMATS = "a CSV (id,lower,upper,size) or a graph as JSON"


def open_instance(path: Path, *, constants_in_ram: bool = False) -> InstanceFile:
    """Read an instance. Raises UsageError if the file cannot be read, InvalidModelError if its content is not valid."""
    return _parse(path, _read_bytes(path), constants_in_ram=constants_in_ram)


def layout_instance(
    path: Path,
    *,
    capacity: int | None = None,
    output: Path | None = None,
    strategy: LayoutStrategy | None = None,
    sharing: Algorithm | None = None,
    time_limit: float | None = DEFAULT_SECONDS,
    seed: int = 0,
    constants_in_ram: bool = False,
    force: bool = False,
    progress: Callable[[str], None] | None = None,
) -> LayoutReport:
    """Lay out the buffers of an instance file, and write the layout to `output` if that is given.

    Args:
        path: The instance file.
        capacity: A size in bytes; the search ends at the first layout that fits in it.
        output: The file to write.
        strategy: The strategy of the search; by default "optimal".
        sharing: Instead of a strategy, the algorithm for shared buffers, each of which is used by several buffers that
            are never alive at the same time.
        time_limit: The time limit in seconds. The first Ctrl-C ends the search, too; the best layout so far is
            returned.
        seed: The seed of the search.
        constants_in_ram: Whether constants of a graph are laid out, too.
        force: Whether to replace an existing file.
        progress: Called with the state of the search.

    Raises:
        UsageError: Options conflict, or the file cannot be read.
        MissingExtraError: The strategy needs a package that is not installed.
        InvalidModelError: The instance or its pins are not valid.
        FailedCheckError: The buffers that are alive at the same time need more than the capacity.
    """
    if sharing is not None and strategy is not None:
        raise UsageError("--strategy and --sharing are mutually exclusive", fix="specify only one of them")
    if output is not None:
        check_writable(output.parent, (output.name,), force=force, inputs=(path,))
    blob = _read_bytes(path)
    instance = _parse(path, blob, constants_in_ram=constants_in_ram)
    with _located(path):
        if any(instance.memories):
            raise UsageError("the instance names memories", fix="specify each of them with --memory NAME=SIZE")
        check_pins(instance, capacity)
        if capacity is not None:
            check_capacity(instance, capacity)
    method = sharing or strategy or "optimal"
    result = _search(instance, capacity, strategy or "optimal", sharing, time_limit, seed, progress)
    layout = result.layout
    if output is not None:
        write_file(output, write_answer(instance, layout).encode("utf-8"), force=force, inputs=(path,))
    options: dict[str, object] = {
        "command": "layout",
        "capacity": capacity,
        "strategy": None if sharing else strategy or "optimal",
        "sharing": sharing,
        "time_limit": time_limit,
        "seed": seed,
        "constants_in_ram": constants_in_ram,
    }
    return LayoutReport(
        provenance=Provenance(f"edgetool {__version__}", {"python": platform.python_version()}, options, False),
        instance=InstanceInfo(path.name, sha256_of(blob), len(blob), len(instance.problem.buffers)),
        layout=_info(instance, result, method, capacity),
        interrupted=result.interrupted,
        findings=finding_infos((*_findings(result, method, capacity), *_pin_findings(instance.problem, layout))),
    )


@dataclass(frozen=True, slots=True)
class TimedMemory:
    """A memory of a board, and the cycles that the core waits for each byte that is read from or written to it."""

    memory: Memory
    cycles_per_byte: float


def place_instance(
    path: Path,
    memories: Sequence[TimedMemory],
    *,
    minimize: str | None = None,
    output: Path | None = None,
    time_limit: float | None = DEFAULT_SECONDS,
    seed: int = 0,
    constants_in_ram: bool = False,
    force: bool = False,
) -> PlacedReport:
    """Place the buffers of an instance file in several memories with the fewest cycles, and write that to `output`.

    Args:
        path: The instance file.
        memories: The memories.
        minimize: The name of a memory of which buffers shall take the fewest bytes; the cycles are then the fewest for
            that height.
        output: The file to write.
        time_limit: The time limit in seconds. The first Ctrl-C ends the search, too; the best placement so far is
            returned.
        seed: The seed of the search for layouts.
        constants_in_ram: Whether constants of a graph are placed, too.
        force: Whether to replace an existing file.

    Raises:
        UsageError: The file cannot be read, a buffer or `minimize` names an unknown memory, or a buffer has a pin or
            an alias.
        InvalidModelError: The instance is not valid.
        FailedCheckError: No placement fits, or none was found.
    """
    if output is not None:
        check_writable(output.parent, (output.name,), force=force, inputs=(path,))
    names = [item.memory.name for item in memories]
    if minimize is not None and minimize not in names:
        raise UsageError(
            f"there is no memory {minimize[:40]!a}",
            where="--minimize",
            fix=did_you_mean(minimize, names) or f"the memories are {', '.join(names)}",
        )
    blob = _read_bytes(path)
    instance = _parse(path, blob, constants_in_ram=constants_in_ram)
    with _located(path):
        problem = _several_problem(instance, memories)
    with interruptible(time_limit) as deadline:
        effort = deadline.effort(seed)
        if minimize is None:
            found: SeveralLayout | LowestLayout | NoChoice = solve_several(problem, effort)
        else:
            found = solve_lowest(problem, names.index(minimize), effort)
        interrupted = deadline.interrupted
    if isinstance(found, NoChoice):
        what = "no placement fits in these memories" if found.proven else "no placement was found that fits"
        raise FailedCheckError(what, where=str(path), fix="use larger memories, or let buffers be in more of them")
    minimized = None
    if isinstance(found, LowestLayout):
        require_valid_lowest(problem, found)
        minimized = MinimizedMemory(names[found.memory], found.height, found.lower_bound_bytes, found.proof)
    placed = found.layout if isinstance(found, LowestLayout) else require_valid_choice(problem, found)
    if output is not None:
        text = write_answer(instance, placed, [names[memory] for memory in placed.memories])
        write_file(output, text.encode("utf-8"), force=force, inputs=(path,))
    options: dict[str, object] = {
        "command": "layout",
        "memory": [[item.memory.name, item.memory.size_bytes, item.cycles_per_byte] for item in memories],
        "minimize": minimize,
        "time_limit": time_limit,
        "seed": seed,
        "constants_in_ram": constants_in_ram,
    }
    return PlacedReport(
        provenance=Provenance(f"edgetool {__version__}", {"python": platform.python_version()}, options, False),
        instance=InstanceInfo(path.name, sha256_of(blob), len(blob), len(instance.problem.buffers)),
        placement=_placement_info(instance, placed, memories),
        interrupted=interrupted,
        minimized=minimized,
    )


def _several_problem(instance: InstanceFile, memories: Sequence[TimedMemory]) -> SeveralProblem:
    """Return the problem with costs in STEPS_PER_CYCLE parts of a cycle."""
    names = [item.memory.name for item in memories]
    costs = []
    for index, buffer in enumerate(instance.problem.buffers):
        if buffer.pinned is not None or buffer.alias is not None:
            what = "offset" if buffer.pinned is not None else "alias"
            raise UsageError(
                f"{instance.describe(index)} has an {what}, which several memories do not support",
                fix=f"remove the {what}s, or --memory",
            )
        allowed = instance.memories[index]
        unknown = [name for name in allowed if name not in names]
        if unknown:
            raise UsageError(
                f"{instance.describe(index)} can be in {unknown[0][:40]!a}, which is no --memory",
                fix=did_you_mean(unknown[0], names) or f"the memories are {', '.join(names)}",
            )
        costs.append(
            tuple(
                round(instance.traffic[index] * item.cycles_per_byte * STEPS_PER_CYCLE)
                if not allowed or item.memory.name in allowed
                else None
                for item in memories
            )
        )
    return SeveralProblem(instance.problem, tuple(item.memory for item in memories), tuple(costs))


def _placement_info(
    instance: InstanceFile, placed: SeveralLayout, memories: Sequence[TimedMemory]
) -> PlacementOfBuffers:
    buffers = instance.problem.buffers
    traffic = [
        sum(instance.traffic[i] for i, memory in enumerate(placed.memories) if memory == number)
        for number in range(len(memories))
    ]
    return PlacementOfBuffers(
        cycles=placed.cost / STEPS_PER_CYCLE,
        lower_bound_cycles=placed.lower_bound / STEPS_PER_CYCLE,
        optimal=placed.optimal,
        proof=placed.proof,
        memories=tuple(
            UsedMemory(
                item.memory.name, item.memory.size_bytes, item.cycles_per_byte, placed.heights[number], traffic[number]
            )
            for number, item in enumerate(memories)
        ),
        buffers=tuple(
            BufferInMemory(
                b.name,
                b.lifetime.first,
                b.lifetime.last + 1,
                b.size_bytes,
                b.alignment,
                memories[memory].memory.name,
                offset,
            )
            for b, memory, offset in zip(buffers, placed.memories, placed.offsets, strict=True)
        ),
    )


def _read_bytes(path: Path) -> bytes:
    if path.is_file() and path.stat().st_size > MAX_INSTANCE_BYTES:
        raise InvalidModelError(
            f"is larger than {MAX_INSTANCE_BYTES:,} bytes",
            where=str(path),
            fix="split it and lay out the parts separately",
        )
    return read_file(path, what=FORMATS)


def _parse(path: Path, blob: bytes, *, constants_in_ram: bool) -> InstanceFile:
    if blob[4:8] == b"TFL3":
        raise InvalidModelError("is a .tflite, not an instance", where=str(path), fix="use edgetool plan")
    try:
        text = blob.decode("utf-8")
    except UnicodeDecodeError as error:
        row = blob.count(b"\n", 0, error.start) + 1
        raise InvalidModelError(f"is not UTF-8 text (row {row})", where=str(path), fix=f"specify {FORMATS}") from None
    with _located(path):
        return read_instance(text, constants_in_ram=constants_in_ram)


@contextmanager
def _located(path: Path) -> Iterator[None]:
    """Add the path of the instance to the errors that the block raises."""
    try:
        yield
    except EdgetoolError as error:
        if error.where is not None:
            raise
        raise type(error)(error.what, where=str(path), fix=error.fix, details=error.details) from error


@dataclass(frozen=True, slots=True)
class _SearchResult:
    """The result of a search: the layout, the buffers in each shared buffer, if any, and whether Ctrl-C ended it."""

    layout: Layout
    shared: tuple[tuple[int, ...], ...] | None
    interrupted: bool


def _search(
    instance: InstanceFile,
    capacity: int | None,
    strategy: LayoutStrategy,
    sharing: Algorithm | None,
    time_limit: float | None,
    seed: int,
    progress: Callable[[str], None] | None,
) -> _SearchResult:
    """Search for the best layout, and validate it with the checker."""
    step = "searching"

    def improved(layout: Layout) -> None:
        nonlocal step
        step = f"height {layout.height:,} B, lower bound {layout.lower_bound:,} B"
        show()

    def show() -> None:
        if progress is not None:
            progress(step)

    problem = instance.problem
    with interruptible(time_limit, tick=show) as deadline:
        effort = deadline.effort(seed)
        if sharing is None:
            layout = solve(problem, effort, strategy=strategy, capacity=capacity, improved=improved)
            return _SearchResult(require_valid(problem, layout), None, deadline.interrupted)
        layout, groups = _share(problem, sharing, effort)
        return _SearchResult(layout, groups, deadline.interrupted)


def _share(problem: LayoutProblem, sharing: Algorithm, effort: Effort) -> tuple[Layout, tuple[tuple[int, ...], ...]]:
    """Lay out shared buffers, the largest first, each aligned; the lower bound is that of shared buffers."""
    shared = shared_offsets(problem, sharing, effort)
    placed = zip(shared.offsets, problem.buffers, strict=True)
    end = max((offset + buffer.aligned_bytes for offset, buffer in placed), default=0)
    # The checker knows only bounds for layouts, not for shared buffers.
    require_valid(problem, Layout(shared.offsets, end, 0, "none"))
    if any(buffer.aligned_bytes % buffer.alignment for buffer in problem.buffers):
        # Sharing rounds sizes up to their alignment, so its bound is for larger buffers.
        bound = lower_bound(problem)
        return Layout(shared.offsets, end, bound, "bound met" if end == bound else "none"), shared.groups
    proof = shared.proof if end == shared.lower_bound else "none"
    return Layout(shared.offsets, end, shared.lower_bound, proof), shared.groups


def _info(instance: InstanceFile, result: _SearchResult, method: str, capacity: int | None) -> LayoutInfo:
    layout, buffers = result.layout, instance.problem.buffers
    naive = naive_bytes(instance.problem)
    shared = None
    if result.shared is not None:
        shared = tuple(
            SharedLayoutBuffer(
                layout.offsets[group[0]],
                max(buffers[i].aligned_bytes for i in group),
                tuple(buffers[i].name for i in group),
            )
            for group in result.shared
        )
    return LayoutInfo(
        naive_bytes=naive,
        height=layout.height,
        ratio=naive / layout.height if layout.height else None,
        lower_bound=layout.lower_bound,
        optimal=layout.optimal,
        proof=layout.proof,
        strategy=method,
        capacity=capacity,
        fits=None if capacity is None else layout.height <= capacity,
        buffers=tuple(
            PlacedBuffer(b.name, b.lifetime.first, b.lifetime.last + 1, b.size_bytes, b.alignment, offset)
            for b, offset in zip(buffers, layout.offsets, strict=True)
        ),
        shared=shared,
    )


def _findings(result: _SearchResult, method: str, capacity: int | None) -> tuple[Finding, ...]:
    """Report what ended the search early, and what could improve or prove the layout."""
    findings = []
    layout = result.layout
    if result.interrupted:
        findings.append(Finding("interrupted", "Ctrl-C ended the search: this is the best layout so far"))
    remedy = _remedy(method, shares=result.shared is not None)
    if capacity is not None and layout.height > capacity:
        if layout.lower_bound > capacity:
            text = f"no layout fits within the capacity of {capacity:,} B: the lower bound is {layout.lower_bound:,} B"
        else:
            text = f"found no layout that fits within the capacity of {capacity:,} B; {remedy} may find one"
        findings.append(Finding("over-capacity", text))
    elif not layout.optimal and capacity is not None and result.shared is None and method != "tflm":
        text = "the search ended at the first layout that fits; without a capacity, it continues to the smallest"
        findings.append(Finding("not-lowest", text))
    elif not layout.optimal:
        text = f"there may be a smaller layout: {remedy} may find it, or prove that there is none"
        findings.append(Finding("not-proven", text))
    return tuple(findings)


def _pin_findings(problem: LayoutProblem, layout: Layout) -> tuple[Finding, ...]:
    """Report pins that raise the lower bound: without them, there may be a smaller layout."""
    if all(buffer.pinned is None for buffer in problem.buffers):
        return ()
    without_pins = lower_bound(LayoutProblem(tuple(replace(buffer, pinned=None) for buffer in problem.buffers)))
    if without_pins >= layout.lower_bound:
        return ()
    text = f"the offsets specified in the file raise the lower bound: without them, it is {without_pins:,} B"
    return (Finding("pins-raise-bound", text),)


def _remedy(method: str, *, shares: bool) -> str:
    if method in ("greedy", "tflm"):
        return "--sharing dynamic-programming" if shares else "--strategy optimal"
    if method == "optimal" and importlib.util.find_spec("ortools") is None:
        return "a longer --time-limit or CP-SAT (pip install 'edgetool[cp-sat]')"
    return "a longer --time-limit"
