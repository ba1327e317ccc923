"""Traces, read strictly: the times are those of the estimate, and the addresses those of the plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import isclose

import pytest
from hypothesis import given

from edgetool.model.types import Model
from edgetool.pipeline.reporting import Described
from edgetool.pipeline.viewers import moments_of, viewer_files
from edgetool.report.json import to_json
from edgetool.report.moments import Moments
from edgetool.report.perfetto import trace
from edgetool.target.types import Target
from tests import hostile_names
from tests.conftest import examples
from tests.memory import account_structures
from tests.model.builders import Builder, add_model, branches_model, chain_model, conv_model, if_model, residual_model
from tests.report.described import DESKTOP, M4, NATIVE, ROWS, described
from tests.report.test_moments import moments
from tests.report.trace_format import Slice, Trace, read_trace

ARENA = "arena by address"


def trace_of(item: Described) -> Trace:
    (text,) = viewer_files(item, "perfetto").files.values()
    return read_trace(text)


@cache
def empty() -> Described:
    """A model without operators."""
    build = Builder()
    x = build.activation([1, 16])
    return described(build.model([x], [x]))


def buffers(found: Trace) -> list[Slice]:
    return [item for item in found.slices(ARENA) if item.category != "tail"]


CASES: list[tuple[Callable[[], Model | bytes], Target | None]] = [
    (residual_model, M4),
    (branches_model, None),
    (if_model, M4),
    (account_structures.branches, M4),
    (account_structures.loop, DESKTOP),
    (account_structures.variables, M4),
    (conv_model, NATIVE),
    (add_model, NATIVE),
    (conv_model, ROWS),
    (hostile_names.many_inputs, M4),
    (hostile_names.hostile_model, M4),
    (hostile_names.custom_operators, M4),
]


@pytest.mark.parametrize(("make", "target"), CASES)
def test_traces_are_as_the_format_demands(make: Callable[[], Model | bytes], target: Target | None) -> None:
    item = described(make(), target)
    found, expected = trace_of(item), moments_of(item)
    whole, *operators = found.slices("inference")
    assert (whole.start, whole.end, whole.depth) == (0, expected.starts[-1], 0)
    assert [(run.start, run.end) for run in operators] == [
        (expected.starts[run.first], expected.starts[run.end]) for run in expected.runs
    ]
    assert sorted((b.args["offset"], b.args["bytes"], b.start, b.end) for b in buffers(found)) == sorted(
        (b.offset, b.bytes, expected.starts[b.first], expected.starts[b.end]) for b in expected.blocks
    )


@examples(80)
@given(moments())
def test_blocks_that_overlap_have_tracks_of_their_own(item: Moments) -> None:
    value = trace(empty().report, empty().source.model, item)
    found = read_trace(to_json(value, indent=None))
    assert len(buffers(found)) == len(item.blocks)
    assert all(block.depth == 0 for block in buffers(found) if block.start < block.end)
    tracks = {name: track for name, track in found.tracks.get(ARENA, {}).items() if name.startswith("offset")}
    offsets = [int(name.removeprefix("offset ").partition(" ")[0].replace(",", "")) for name in tracks]
    assert offsets == sorted(offsets, reverse=True)
    for offset, track in zip(offsets, tracks.values(), strict=True):
        assert {block.args["offset"] for block in track} == {offset}


def test_slices_of_operators_have_their_figures() -> None:
    item = described(residual_model())
    estimate, graph = item.report.estimate, item.source.model.main
    assert estimate is not None
    assert estimate.latency_ms is not None
    whole, *operators = trace_of(item).slices("inference on cortex-m4, estimated time")
    assert whole.args["latency_ms"]["value"] == estimate.latency_ms.value
    assert isclose(whole.end / 1e6, estimate.latency_ms.value, abs_tol=1e-6)
    for found, info in zip(operators, estimate.operators, strict=True):
        assert (found.name, found.category, found.depth) == (info.operator, f"{info.bound}-bound", 1)
        assert (found.args["operator"], found.args["macs"], found.args["ms"]) == (info.index, info.macs, info.ms.value)
        assert found.args["output"] == graph.tensors[graph.operators[info.index].outputs[0]].name
        assert abs(found.end - found.start - info.ms.value * 1e6) <= 1


def test_the_counter_has_the_peak_and_ends_at_0() -> None:
    item = described(residual_model())
    found = trace_of(item)
    ((name, samples),) = found.counters.items()
    assert item.report.plan is not None
    assert item.report.plan.peak is not None
    assert name == (ARENA, "bytes in use bytes")
    assert max(value for _, value in samples) == item.report.plan.peak.bytes
    assert samples[-1] == (moments_of(item).starts[-1], 0)


def test_the_tail_persists_with_its_parts() -> None:
    item = described(residual_model())
    arena = item.report.arena
    assert arena is not None
    (tail,) = (found for found in trace_of(item).slices(ARENA) if found.category == "tail")
    assert (tail.start, tail.end) == (0, moments_of(item).starts[-1])
    assert tail.args["bytes"] == arena.tail_bytes == sum(part["bytes"] for part in tail.args["parts"])


def test_a_called_subgraph_is_within_its_operator() -> None:
    found = [item for item in trace_of(described(account_structures.loop())).slices("inference") if item.depth]
    assert [(item.name, item.depth, item.args["subgraph"]) for item in found] == [
        ("WHILE", 1, 0),
        ("LESS", 2, 1),
        ("CONV_2D", 2, 2),
        ("ADD", 2, 2),
    ]


def test_rows_that_the_application_hands_over_are_no_operators() -> None:
    item = described(conv_model(), ROWS)
    _, *found = trace_of(item).slices("inference")
    fed = [run for run in found if run.category == "application"]
    assert {run.name for run in fed} == {"feed"}
    assert sum(run.args["calls"] for run in fed) == fed[0].args["of_calls"]
    convolutions = [run for run in found if run.name == "CONV_2D"]
    assert sum(run.args["calls"] for run in convolutions) == convolutions[0].args["of_calls"] > 1


def test_unknown_times_are_named_as_such() -> None:
    item = described(residual_model(), None)
    (whole, *operators) = trace_of(item).slices("inference, time unknown")
    assert whole.args["arena_is_lower_bound"]
    assert "latency_ms" not in whole.args
    assert [run.end - run.start for run in operators] == [1000] * len(operators)
    assert all({"macs", "operator"} <= run.args.keys() and "ms" not in run.args for run in operators)


def test_a_device_with_only_a_bandwidth_has_the_time_of_moving_bytes() -> None:
    whole, *operators = trace_of(described(residual_model(), DESKTOP)).slices(
        "inference on desktop, time of moving bytes"
    )
    assert "latency_ms" not in whole.args
    assert {run.args["basis"] for run in operators} == {"bytes"}


def test_a_model_without_operators_or_name_has_a_trace() -> None:
    found = trace_of(empty())
    (whole,) = found.slices("inference")
    assert (whole.start, whole.end) == (0, 0)
    assert [(block.args["bytes"], block.args["in_use"]) for block in buffers(found)] == [(16, "never")]
    report = replace(empty().report, model=replace(empty().report.model, name=" "))
    unnamed = trace(report, empty().source.model, moments_of(empty()))
    assert read_trace(to_json(unnamed, indent=None)).slices("inference")[0].name == "model"


@pytest.mark.slow
def test_thousands_of_operators() -> None:
    item = described(chain_model(3_000))
    found = trace_of(item)
    assert len(found.slices("inference")) == 3_001
    assert len(buffers(found)) == 3_001
    for text in viewer_files(item, "model-explorer").files.values():
        assert len(json.loads(text)["main"]["results"]) == 3_000
