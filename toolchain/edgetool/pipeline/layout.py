"""The layout of any buffers: an instance file in, the lowest layout that a search finds out."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from edgetool import __version__
from edgetool.errors import EdgetoolError, InvalidModelError, UsageError
from edgetool.finding import Finding
from edgetool.memory.bound import lower_bound
from edgetool.memory.checker import require_valid
from edgetool.memory.instances.read import check_capacity, check_pins, naive_bytes, read_instance, write_answer
from edgetool.memory.instances.types import InstanceFile
from edgetool.memory.layout.solve import LayoutStrategy, solve
from edgetool.memory.problem import Effort, Layout, LayoutProblem
from edgetool.memory.sharing.plan import shared_offsets
from edgetool.memory.sharing.types import Algorithm
from edgetool.pipeline.output import check_writable, read_file, write_file
from edgetool.pipeline.planning import interruptible
from edgetool.pipeline.reporting import finding_infos
from edgetool.pipeline.source import sha256_of
from edgetool.report.document import Provenance
from edgetool.report.layout import InstanceInfo, LayoutInfo, LayoutReport, PlacedBuffer, SharedLayoutBuffer

MAX_INSTANCE_BYTES = 2**27
DEFAULT_SECONDS = 60.0
FORMS = "a CSV (id,lower,upper,size) or a graph as JSON"


def open_instance(path: Path, *, constants_in_ram: bool = False) -> InstanceFile:
    """The instance that a file states. Raises UsageError (path) and InvalidModelError (contents)."""
    return _read(path, _bytes(path), constants_in_ram=constants_in_ram)


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
    """Lay out the buffers of an instance file; write the answer to `output` when that is given.

    capacity, in bytes: the search ends at the first layout that is no higher. strategy: "optimal" when not given.
    sharing, in place of a strategy: whole buffers one after another, each shared by buffers that are never alive
    together. time_limit, in seconds; the first Ctrl-C ends the search as well, and what it has found is delivered.
    Raises UsageError, MissingExtraError, InvalidModelError (the instance, its pins) and FailedCheckError (more than the
    capacity is alive at once).
    """
    if sharing is not None and strategy is not None:
        raise UsageError("--strategy and --sharing are mutually exclusive", fix="specify only one of them")
    if output is not None:
        check_writable(output.parent, (output.name,), force=force, inputs=(path,))
    blob = _bytes(path)
    instance = _read(path, blob, constants_in_ram=constants_in_ram)
    with _located(path):
        check_pins(instance, capacity)
        if capacity is not None:
            check_capacity(instance, capacity)
    way = sharing or strategy or "optimal"
    found = _search(instance, capacity, strategy or "optimal", sharing, time_limit, seed, progress)
    layout = found.layout
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
        layout=_info(instance, found, way, capacity),
        interrupted=found.interrupted,
        findings=finding_infos((*_findings(found, way, capacity), *_pin_findings(instance.problem, layout))),
    )


def _bytes(path: Path) -> bytes:
    if path.is_file() and path.stat().st_size > MAX_INSTANCE_BYTES:
        raise InvalidModelError(
            f"is larger than {MAX_INSTANCE_BYTES:,} bytes",
            where=str(path),
            fix="split it and lay out the parts separately",
        )
    return read_file(path, what=FORMS)


def _read(path: Path, blob: bytes, *, constants_in_ram: bool) -> InstanceFile:
    if blob[4:8] == b"TFL3":
        raise InvalidModelError("is a .tflite, not an instance", where=str(path), fix="use edgetool plan")
    try:
        text = blob.decode("utf-8")
    except UnicodeDecodeError as error:
        row = blob.count(b"\n", 0, error.start) + 1
        raise InvalidModelError(f"is not UTF-8 text (row {row})", where=str(path), fix=f"specify {FORMS}") from None
    with _located(path):
        return read_instance(text, constants_in_ram=constants_in_ram)


@contextmanager
def _located(path: Path) -> Iterator[None]:
    """Errors of the instance, told with its file."""
    try:
        yield
    except EdgetoolError as error:
        if error.where is not None:
            raise
        raise type(error)(error.what, where=str(path), fix=error.fix, details=error.details) from error


@dataclass(frozen=True, slots=True)
class _Found:
    """A layout, the buffers of each shared buffer where they share, and whether Ctrl-C ended the search."""

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
) -> _Found:
    """The best layout, judged by the checker."""
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
            return _Found(require_valid(problem, layout), None, deadline.interrupted)
        layout, groups = _share(problem, sharing, effort)
        return _Found(layout, groups, deadline.interrupted)


def _share(problem: LayoutProblem, sharing: Algorithm, effort: Effort) -> tuple[Layout, tuple[tuple[int, ...], ...]]:
    """Shared buffers, the largest first, each where its alignment allows; its bound is that of whole buffers."""
    shared = shared_offsets(problem, sharing, effort)
    placed = zip(shared.offsets, problem.buffers, strict=True)
    end = max((offset + buffer.aligned_bytes for offset, buffer in placed), default=0)
    # The checker knows of bounds of layouts alone.
    require_valid(problem, Layout(shared.offsets, end, 0, "none"))
    if any(buffer.aligned_bytes % buffer.alignment for buffer in problem.buffers):
        # Sizes were rounded up to their alignment: the bound of sharing is that of larger buffers.
        bound = lower_bound(problem)
        return Layout(shared.offsets, end, bound, "bound met" if end == bound else "none"), shared.groups
    proof = shared.proof if end == shared.lower_bound else "none"
    return Layout(shared.offsets, end, shared.lower_bound, proof), shared.groups


def _info(instance: InstanceFile, found: _Found, way: str, capacity: int | None) -> LayoutInfo:
    layout, buffers = found.layout, instance.problem.buffers
    naive = naive_bytes(instance.problem)
    shared = None
    if found.shared is not None:
        shared = tuple(
            SharedLayoutBuffer(
                layout.offsets[group[0]],
                max(buffers[i].aligned_bytes for i in group),
                tuple(buffers[i].name for i in group),
            )
            for group in found.shared
        )
    return LayoutInfo(
        naive_bytes=naive,
        height=layout.height,
        ratio=naive / layout.height if layout.height else None,
        lower_bound=layout.lower_bound,
        optimal=layout.optimal,
        proof=layout.proof,
        strategy=way,
        capacity=capacity,
        fits=None if capacity is None else layout.height <= capacity,
        buffers=tuple(
            PlacedBuffer(b.name, b.lifetime.first, b.lifetime.last + 1, b.size_bytes, b.alignment, offset)
            for b, offset in zip(buffers, layout.offsets, strict=True)
        ),
        shared=shared,
    )


def _findings(found: _Found, way: str, capacity: int | None) -> tuple[Finding, ...]:
    """What ended the search early, and what would close the gap."""
    findings = []
    layout = found.layout
    if found.interrupted:
        findings.append(Finding("interrupted", "Ctrl-C ended the search: this is the best layout so far"))
    remedy = _remedy(way, shares=found.shared is not None)
    if capacity is not None and layout.height > capacity:
        if layout.lower_bound > capacity:
            text = f"no layout fits within the capacity of {capacity:,} B: the lower bound is {layout.lower_bound:,} B"
        else:
            text = f"found no layout that fits within the capacity of {capacity:,} B; {remedy} may find one"
        findings.append(Finding("over-capacity", text))
    elif not layout.optimal and capacity is not None and found.shared is None and way != "tflm":
        text = "the search ended at the first layout that fits; without a capacity, it continues to the smallest"
        findings.append(Finding("not-lowest", text))
    elif not layout.optimal:
        text = f"there may be a smaller layout: {remedy} may find it, or prove that there is none"
        findings.append(Finding("not-proven", text))
    return tuple(findings)


def _pin_findings(problem: LayoutProblem, layout: Layout) -> tuple[Finding, ...]:
    """Whether pins raise the bound: a layout is the best with its pins, and there may be a lower one without them."""
    if all(buffer.pinned is None for buffer in problem.buffers):
        return ()
    free = lower_bound(LayoutProblem(tuple(replace(buffer, pinned=None) for buffer in problem.buffers)))
    if free >= layout.lower_bound:
        return ()
    text = f"the offsets specified in the file raise the lower bound: without them, it is {free:,} B"
    return (Finding("pins-raise-bound", text),)


def _remedy(way: str, *, shares: bool) -> str:
    if way in ("greedy", "tflm"):
        return "--sharing dynamic-programming" if shares else "--strategy optimal"
    if way == "optimal" and importlib.util.find_spec("ortools") is None:
        return "a longer --time-limit or CP-SAT (pip install 'edgetool[cp-sat]')"
    return "a longer --time-limit"
