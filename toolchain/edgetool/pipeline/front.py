"""The front of plans for TFLM: smaller and smaller arenas for more and more latency, for `edgetool plan --front`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from edgetool.errors import ConversionError, ModelError
from edgetool.memory.planner import Plan, PlanRequest
from edgetool.memory.problem import Effort
from edgetool.model.edit import without_metadata
from edgetool.model.metadata import METADATA_NAME, changes_of
from edgetool.model.writer import write_model
from edgetool.operators.entry import OperatorEntry
from edgetool.pipeline.output import write_file
from edgetool.pipeline.planning import planned_source
from edgetool.pipeline.source import Source
from edgetool.pipeline.stripes import MOST_PERCENT, Unstriped, arena_bytes, band
from edgetool.report.document import FrontPoint, RegionInfo
from edgetool.report.front_picture import front_svg
from edgetool.target.types import Target

# The percentages of extra multiply-accumulates for each of which the smallest arena is searched for.
PERCENTAGES = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, MOST_PERCENT)
SAMPLES = 4  # random inputs with which each point is verified


def front_points(
    source: Source,
    target: Target | None,
    request: PlanRequest,
    effort: Effort,
    custom: Mapping[str, OperatorEntry] | None = None,
    *,
    verify: bool = False,
) -> tuple[Plan, tuple[FrontPoint, ...]]:
    """Return the plan without stripes, and the front: it, and plans with more and more extra multiply-accumulates and
    smaller and smaller arenas.

    Args:
        source: The model.
        target: The target.
        request: How to plan; its max_extra_macs is the limit, by default MOST_PERCENT.
        effort: How long to search.
        custom: Operators that the user describes, by custom code.
        verify: Whether to run each planned file on TFLM and to compare its outputs with those of the model.

    Raises:
        UsageError: No target is known, or the model has stripes.
        UnsupportedModelError: TFLM does not run the model, which is to be verified.
        MissingExtraError: TFLM is to run the model, and is not installed.
    """
    whole = Unstriped.of(source, target, request, effort, custom)
    percent = MOST_PERCENT if request.max_extra_macs is None else request.max_extra_macs
    budgets = [item / 100 for item in (*PERCENTAGES, percent) if item <= percent]
    striped = whole.planner(percent).front(effort, budgets)
    is_equal = _comparison(source) if verify else None

    def point(step: str, made: Source, plan: Plan) -> FrontPoint:
        planned = planned_source(made, plan, whole.target)
        changes = changes_of(made.model)
        return FrontPoint(
            arena_bytes(plan),
            step,
            tuple(RegionInfo(item.first, item.last, item.stripes) for item in changes.regions),
            changes.extra_macs,
            changes.extra_macs_percent,
            sum(len(graph.operators) for graph in made.model.subgraphs),
            len(planned.blob),
            band(whole.latency(made, plan)),
            None if is_equal is None else is_equal(planned),
        )

    first = point("overlap" if whole.plan.overlapping else "layout", source, whole.plan)
    others = (point(plan.step, whole.striped(plan), whole.plan_of(plan)) for plan in striped)
    return whole.plan, (first, *_fastest(others))


def _fastest(points: Iterable[FrontPoint]) -> list[FrontPoint]:
    """Return the points without those that are slower than one with a smaller arena: to move rows takes time, too."""
    result: list[FrontPoint] = []
    for point in reversed([*points]):
        latency, least = point.latency_ms, result[-1].latency_ms if result else None
        if latency is None or least is None or latency.value < least.value:
            result.append(point)
    return result[::-1]


def write_picture(
    picture: Path,
    points: tuple[FrontPoint, ...],
    *,
    title: str,
    limit: int | None,
    force: bool,
    inputs: tuple[Path, ...],
) -> None:
    """Draw the front. limit: the memory of the target. Raises OutputError."""
    svg = front_svg(points, title=title, limit=limit)
    write_file(picture, svg.encode("utf-8"), force=force, inputs=inputs, option="--front-svg")


def _comparison(source: Source) -> Callable[[Source], bool]:
    """Return a function that runs a planned file on TFLM, and returns whether its outputs are those of the model."""
    # Imported on use: numpy, and what runs models, take time.
    from edgetool.execute.run import run_tflm
    from edgetool.pipeline.verify import first_difference, load_all_samples, run_original

    model = without_metadata(source.model, METADATA_NAME)
    samples = load_all_samples(source, None, SAMPLES, 0)
    reference = run_original(Source(source.name, write_model(model), model), samples, lambda step: None)

    def is_equal(planned: Source) -> bool:
        try:
            outputs = run_tflm(planned.blob, samples.arrays).outputs
        except (ModelError, ConversionError):  # TFLM refused it, or the process died
            return False
        return first_difference(reference.outputs, outputs) is None

    return is_equal
