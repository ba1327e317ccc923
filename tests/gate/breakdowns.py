"""Anatomies of arenas as values: of small models, and any at all."""

from __future__ import annotations

from hypothesis import strategies as st

from edgetool.gate.breakdown import ArenaBreakdown, LiveBuffer, OperatorId, OperatorPart, breakdown_of
from edgetool.memory.planner import Plan, PlanRequest, plan_memory
from edgetool.model.types import Model
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of

TARGET = load_target("nucleo-f446re")
SIZES = st.integers(0, 10**6)
LABELS = st.sampled_from(["CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "a custom one", ""])


def plan_of(model: Model) -> Plan:
    """The plan of a file as it is."""
    return plan_memory(model, platform_of(TARGET), request=PlanRequest(file_plan="only"))


def breakdown(model: Model) -> ArenaBreakdown:
    plan = plan_of(model)
    assert plan.account is not None
    return breakdown_of(model, plan.account, plan.timeline)


@st.composite
def breakdowns(draw: st.DrawFn) -> ArenaBreakdown:
    """Whatever a lock file may say: sizes need not fit together."""
    labels = draw(st.lists(st.tuples(st.integers(0, 1), LABELS), max_size=8))
    ids = sorted(OperatorId(graph, index, label) for index, (graph, label) in enumerate(labels))
    # As a lock file leaves out what is 0, any part may have any of them.
    parts = tuple(OperatorPart(id_, *(draw(SIZES) for _ in range(5))) for id_ in ids)
    some = st.none() | st.sampled_from(ids) if ids else st.none()
    names = draw(st.lists(st.text(max_size=6), max_size=5, unique=True))
    alive = [LiveBuffer(name, draw(SIZES)) for name in names]
    scratch = draw(st.lists(st.sampled_from(ids), unique=True)) if ids else []
    alive += [LiveBuffer(str(operator), draw(SIZES), operator) for operator in scratch]
    own = draw(st.dictionaries(st.text(max_size=6), SIZES, max_size=4))
    return ArenaBreakdown(
        bytes=draw(SIZES),
        moment=draw(st.sampled_from(["Invoke", "Prepare", "planning"])),
        during=draw(some),
        peak_head=draw(SIZES),
        peak_tail=draw(SIZES),
        head_bytes=draw(SIZES),
        tail_bytes=draw(SIZES),
        busiest=draw(some),
        alive=tuple(sorted(alive, key=lambda item: (-item.bytes, item.name))),
        tflm_parts=tuple(sorted(own.items())),
        operators=parts,
    )
