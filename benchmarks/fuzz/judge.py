"""What one file must go through, and what counts as a breach."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, replace
from functools import cache

from benchmarks.fuzz.inputs import Inputs

from edgetool.errors import ModelError
from edgetool.memory.checker import check_layout
from edgetool.memory.planner import Plan, PlanRequest, plan_memory
from edgetool.memory.problem import Effort
from edgetool.memory.sharing.assign import shared_offsets, whole_problem
from edgetool.model.edit import renumbered
from edgetool.model.metadata import has_plan, keeps_own_plan
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.analysis import Analysis, analyse
from edgetool.pipeline.firmware import FirmwareRequest, SharedBuffers, firmware_files
from edgetool.pipeline.planning import plan_findings, planned_source
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import Source
from edgetool.report.json import document
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from edgetool.target.types import Target

TARGETS = ("cortex-m7", "cortex-m0plus", "cortex-m55", "esp32", "nucleo-l4r5zi", "")
NODE_LIMIT = 20_000  # of a search for a layout: how long that may take is the user's choice, not the file's
_PRINTABLE = re.compile(rb"[ -~\n]*")


class BreachError(Exception):
    """A file that was neither refused nor served well."""


@dataclass(frozen=True, slots=True)
class Way:
    """What is asked for a file.

    target: a name, or "" for none. again: the planned file is planned as it stands. report: the document is made.
    """

    target: str = "cortex-m7"
    plan: PlanRequest = PlanRequest()  # noqa: RUF009
    request: FirmwareRequest = FirmwareRequest("header")  # noqa: RUF009
    buffers: bool = False
    again: bool = False
    report: bool = True


def way_of(number: int) -> Way:
    """The way for an input: mostly the usual one, for the others all options are tried."""
    generator = random.Random(f"way {number}")
    if generator.random() < 0.6:
        return Way(again=generator.random() < 0.2, report=generator.random() < 0.2)
    target = generator.choice(TARGETS)
    plan = PlanRequest(file_plan="replace" if generator.random() < 0.3 else "use")
    way = Way(target, plan)
    kind = generator.randrange(6)
    if kind == 0:
        return replace(way, request=FirmwareRequest("cmake", generator.choice(("array", "incbin")), profile=True))
    if kind == 1:
        return replace(way, buffers=True)
    plans = (
        replace(plan, sharing="dynamic-programming"),
        replace(plan, sharing="greedy"),
        replace(plan, constants_in_ram=True),
        replace(plan, order=generator.choice(("breadth-first", "longest-path", "original"))),
    )
    return replace(way, plan=plans[kind - 2])


def judge(blob: bytes, way: Way) -> str:
    """Read, plan, estimate, write, emit and report; "" where all is well, else the class of the refusal.

    Raises BreachError for what is served badly; any exception but our refusals of models is a breach as well.
    """
    try:
        source = Source("mutant.tflite", blob, read_model(blob))
    except ModelError as error:
        return _refused(error)
    try:
        _serve(source, way)
    except ModelError as error:
        return _refused(error)
    return ""


def judge_number(_: str, source: Inputs, number: int) -> str:
    """The judgement of an input by its number."""
    return judge(source[number], way_of(number))


def _refused(error: ModelError) -> str:
    text = str(error)
    if not text.isprintable():
        raise BreachError(f"a message that a terminal would obey: {text!r}")
    if "report this" in text:
        raise BreachError(text)
    return type(error).__name__


def _reads_back(model: Model) -> None:
    """The written file says the same."""
    if model.unknown_fields:
        return
    if read_model(write_model(model)) != renumbered(model):
        raise BreachError("the model does not read back equal after writing")


def _serve(source: Source, way: Way) -> None:
    """All that commands do with a model that was read."""
    target = _target(way.target)
    # What is asked of a plan of ours cannot apply to the file's own.
    request = PlanRequest() if has_plan(source.model) and way.plan.file_plan == "use" else way.plan
    effort = Effort(node_limit=NODE_LIMIT)
    analysis = analyse(source, target, request, effort)
    plan = analysis.plan
    _check(source.model, plan)
    planned = source
    if not plan.constants_in_ram and not source.model.unknown_fields:
        planned = planned_source(source, plan, target)
    if planned is source:
        _reads_back(source.model)
    elif way.again:
        written = read_model(planned.blob)
        platform = None if target is None else platform_of(target)
        _check(written, plan_memory(written, platform, PlanRequest(file_plan="only")))
    shared = None
    if way.buffers:
        problem = whole_problem(source.model, plan.timeline)
        shared = SharedBuffers(problem, shared_offsets(problem, "greedy", effort))
    if not plan.constants_in_ram:
        _check_text(firmware_files("mutant", planned, plan, target, request=way.request, shared=shared))
    if way.report:
        _report(source, analysis)


def _report(source: Source, analysis: Analysis) -> None:
    findings = plan_findings(source.model, analysis.plan, analysis.target)
    json.dumps(document(report(source, analysis, options={}, findings=findings)), allow_nan=False)


def _check_text(files: dict[str, bytes]) -> None:
    for name, content in files.items():
        if not name.endswith(".tflite") and not _PRINTABLE.fullmatch(content):
            raise BreachError(f"{name} holds more than printable ASCII")


def _check(model: Model, plan: Plan) -> None:
    """What is accepted is accepted by the checker, too. Compiled operators let tensors overlap on purpose."""
    violations = () if keeps_own_plan(model) else check_layout(plan.problem, plan.layout)
    if violations:
        raise BreachError(f"the checker refuses the layout: {violations[0].message}")


@cache
def _target(name: str) -> Target | None:
    return load_target(name) if name else None
