"""A trace for Perfetto and other viewers of Chrome's JSON format: the estimated inference, and its arena by address.

The format is the Trace Event Format, of which the trace has complete events ("X") that nest on each track, counters
("C") and metadata ("M"). Times are in microseconds. Perfetto names threads by their number alone, whatever the process,
so that each number occurs once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from edgetool.model.types import Model
from edgetool.report.document import OperatorInfo, Report
from edgetool.report.json import plain
from edgetool.report.moments import Block, Moments, bytes_in_use, moves_bytes, operator_macs

Event = dict[str, Any]

INFERENCE, ARENA = 1, 2  # processes
OPERATORS, TAIL, FIRST_OFFSET = 11, 12, 13  # threads
NS_PER_US = 1000


def trace(report: Report, model: Model, moments: Moments) -> dict[str, Any]:
    """Return the trace of a model as a JSON value.

    The process "inference" has the operators, and "arena" the bytes in use over time, a track for each offset, upwards,
    and one for the tail. Without an estimate, each call of an operator takes a microsecond.

    Args:
        report: The report on the plan.
        model: The model of its file.
        moments: Those of the plan.
    """
    return {
        "traceEvents": [
            *_names("process", INFERENCE, 0, _title(report, moments), 0),
            *_names("thread", INFERENCE, OPERATORS, "operators", 0),
            _slice(INFERENCE, OPERATORS, _text(report.model.name, "model"), "inference", moments, 0, moments.count)
            | {"args": _description(report, moments)},
            *_operators(report, model, moments),
            *_names("process", ARENA, 0, "arena by address", 1),
            *_counter(moments),
            *_memory(moments),
            *_tail(report, moments),
        ],
    }


def _title(report: Report, moments: Moments) -> str:
    target = "" if report.target is None else f" on {report.target.name}"
    return f"inference{target}, {_basis(report, moments)}"


def _basis(report: Report, moments: Moments) -> str:
    if not moments.estimated:
        return "time unknown: 1 us for each operator"
    return "time of moving bytes" if moves_bytes(report) else "estimated time"


def _description(report: Report, moments: Moments) -> dict[str, Any]:
    """Return what the whole trace is about; values that are not known are absent."""
    arena, estimate, target = report.arena, report.estimate, report.target
    facts: dict[str, Any] = {
        "tool": report.provenance.tool,
        "model": report.model.name,
        "sha256": report.model.sha256,
        "target": None if target is None else target.name,
        "runtime": report.runtime.name if report.runtime is not None else None if target is None else target.runtime,
        "times": _basis(report, moments),
        "arena_bytes": None if arena is None else arena.bytes,
        "arena_is_lower_bound": None if arena is None else arena.is_lower_bound,
        "head_bytes": None if arena is None else arena.head_bytes,
        "tail_bytes": None if arena is None else arena.tail_bytes,
    }
    if estimate is not None:
        facts |= {
            "latency_ms": None if estimate.latency_ms is None else plain(estimate.latency_ms),
            "macs": estimate.macs,
            "bound": estimate.bound,
            "validation": estimate.validation,
            "basis": estimate.basis,
        }
    return _known(facts)


def _operators(report: Report, model: Model, moments: Moments) -> Iterator[Event]:
    infos = {} if report.estimate is None else {(item.subgraph, item.index): item for item in report.estimate.operators}
    macs = operator_macs(report, model)
    outputs = {
        (graph.index, operator.index): graph.tensors[operator.outputs[0]].name
        for graph in model.subgraphs
        for operator in graph.operators
        if operator.outputs and operator.outputs[0] >= 0
    }
    for run in moments.runs:
        key = run.subgraph, run.operator
        info = infos.get(key)
        category = "application" if run.operator < 0 else "operator" if info is None else f"{info.bound}-bound"
        event = _slice(INFERENCE, OPERATORS, _text(run.label, "operator"), category, moments, run.first, run.end)
        args: dict[str, Any] = {} if run.operator < 0 else {"operator": run.operator, "subgraph": run.subgraph}
        args |= {"output": outputs[key]} if key in outputs else {}
        args |= {"macs": macs[key]} if key in macs else {}
        args |= {} if info is None else _estimated(info)
        args |= {"calls": run.calls, "of_calls": run.of} if run.of > 1 else {}
        yield event | {"args": args}


def _estimated(info: OperatorInfo) -> dict[str, Any]:
    """Return the figures of all calls of an operator in an inference."""
    return _known(
        {
            "ms": info.ms.value,
            "ms_low": info.ms.low,
            "ms_high": info.ms.high,
            "bound": info.bound,
            "basis": info.basis,
            "instructions": info.instructions,
            "parameter_bytes": info.parameter_bytes,
            "activation_bytes": info.activation_bytes,
            "runs": info.runs,
        }
    )


def _counter(moments: Moments) -> Iterator[Event]:
    """Yield the bytes in use where they change, and 0 at the end."""
    in_use = bytes_in_use(moments)
    changes = [(moment, used) for moment, (last, used) in enumerate(pairwise((-1, *in_use))) if used != last]
    for moment, used in (*changes, (moments.count, 0)):
        yield {
            "ph": "C",
            "name": "bytes in use",
            "pid": ARENA,
            "ts": moments.starts[moment] / NS_PER_US,
            "args": {"bytes": used},
        }


def _memory(moments: Moments) -> Iterator[Event]:
    """Yield a track for each offset, from the highest to the lowest, and more if blocks there overlap in time."""
    by_offset: dict[int, list[Block]] = defaultdict(list)
    for block in moments.blocks:
        by_offset[block.offset].append(block)
    thread = FIRST_OFFSET
    for offset in sorted(by_offset, reverse=True):
        for number, lane in enumerate(_lanes(by_offset[offset])):
            name = f"offset {offset:,}" + (f" ({number + 1})" if number else "")
            yield from _names("thread", ARENA, thread, name, thread)
            for block in lane:
                name = _text(block.name, f"{block.kind} {block.index}")
                event = _slice(ARENA, thread, name, block.kind, moments, block.first, block.end)
                yield event | {"args": _block(block)}
            thread += 1


def _block(block: Block) -> dict[str, Any]:
    of = "operator" if block.kind == "scratch" else "tensor"
    index = {} if block.index < 0 else {of: block.index, "subgraph": block.subgraph}
    return {
        "kind": block.kind,
        **index,
        "offset": block.offset,
        "end": block.offset + block.bytes,
        "bytes": block.bytes,
        **({"in_use": "never"} if block.first == block.end else {}),
    }


def _lanes(blocks: list[Block]) -> list[list[Block]]:
    """Return the blocks in as few lists as possible in which none is in use while another one is."""
    lanes: list[list[Block]] = []
    for block in sorted(blocks, key=lambda item: (item.first, item.end)):
        free = next((lane for lane in lanes if lane[-1].end <= block.first), None)
        if free is None:
            lanes.append([block])
        else:
            free.append(block)
    return lanes


def _tail(report: Report, moments: Moments) -> Iterator[Event]:
    """Yield the part of the arena that persists between inferences, with its parts."""
    arena = report.arena
    if arena is None or not arena.tail_bytes:
        return
    yield from _names("thread", ARENA, TAIL, "tail, at the end of the arena", 0)
    parts = [
        _known({"where": item.where, "subgraph": item.subgraph, "operator": item.operator, "bytes": item.bytes})
        for item in arena.breakdown
        if item.part == "tail"
    ]
    event = _slice(ARENA, TAIL, "persistent buffers", "tail", moments, 0, moments.count)
    yield event | {"args": {"bytes": arena.tail_bytes, "parts": parts}}


def _slice(pid: int, tid: int, name: str, category: str, moments: Moments, first: int, end: int) -> Event:
    start, stop = moments.starts[first], moments.starts[end]
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": pid,
        "tid": tid,
        "ts": start / NS_PER_US,
        "dur": (stop - start) / NS_PER_US,
    }


def _names(kind: str, pid: int, tid: int, name: str, position: int) -> tuple[Event, Event]:
    """Return the name of a process or thread, and its position, from the top."""
    place = {"ph": "M", "pid": pid, **({"tid": tid} if kind == "thread" else {})}
    return (
        place | {"name": f"{kind}_name", "args": {"name": name}},
        place | {"name": f"{kind}_sort_index", "args": {"sort_index": position}},
    )


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _text(name: str, otherwise: str) -> str:
    """Return the name, or another one if there is none: a slice without a name is hard to see."""
    return name if name.strip() else otherwise
