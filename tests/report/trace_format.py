"""Traces of Chrome's JSON format, read as strictly as the format is documented, and as Perfetto's importer reads them.

The rules are those of the Trace Event Format, and of json_trace_tokenizer.cc, json_trace_parser.cc and slice_tracker.cc
in Perfetto: times in nanoseconds are rounded, slices of a thread must nest, and a thread is known by its number alone.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

FIELDS = {
    "X": {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"},
    "C": {"ph", "name", "pid", "ts", "args"},
    "M": {"ph", "name", "pid", "tid", "args"},
}
METADATA = {
    "process_name": ("name", str),
    "thread_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_sort_index": ("sort_index", int),
}
MAX_INT = 2**63
MAX_DEPTH = 512  # Perfetto drops deeper slices


@dataclass(frozen=True, slots=True)
class Slice:
    name: str
    category: str
    start: int
    end: int
    depth: int
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Trace:
    """Slices by process and thread, threads from the top; samples (ns, value) of the counters by process and name."""

    tracks: dict[str, dict[str, list[Slice]]]
    counters: dict[tuple[str, str], list[tuple[int, int]]]

    def slices(self, process: str) -> list[Slice]:
        """All slices of the only process whose name begins so."""
        (name,) = [name for name in self.tracks if name.startswith(process)]
        return [item for track in self.tracks[name].values() for item in track]


def read_trace(text: str) -> Trace:
    """Read a trace; anything that is not as documented fails an assertion."""
    assert text.isascii()
    document = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_refuse)
    assert list(document) == ["traceEvents"]
    events: dict[str, list[dict[str, Any]]] = {"X": [], "C": [], "M": []}
    for event in document["traceEvents"]:
        _check_fields(event)
        events[event["ph"]].append(event)
    names = _metadata(events["M"])
    threads = {(event["pid"], event["tid"]) for event in events["X"]}
    assert threads == set(names["thread_name"]), "every named thread has slices, and the others no names"
    numbers = [tid for _, tid in threads]
    assert len(set(numbers)) == len(numbers), "a number belongs to one thread"
    assert set(names["process_name"]) == {(event["pid"], None) for event in events["X"] + events["C"]}
    assert not {pid for pid, _ in names["process_name"]} & set(numbers), "no thread is taken for the main thread"
    for kind in ("process", "thread"):
        assert names[f"{kind}_name"].keys() == names[f"{kind}_sort_index"].keys()
    return Trace(_tracks(events["X"], names), _counters(events["C"], names))


def nanoseconds(time: float) -> int:
    """The time as Perfetto takes it."""
    return int(time) * 1000 if time == math.trunc(time) else math.floor(time * 1000 + 0.5)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def _refuse(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def _check_fields(event: dict[str, Any]) -> None:
    assert event["ph"] in FIELDS
    assert set(event) in (FIELDS[event["ph"]], FIELDS["M"] - {"tid"})
    assert isinstance(event["name"], str)
    assert event["name"].strip()
    assert isinstance(event.get("cat", ""), str)
    for field in ("pid", "tid"):
        number = event.get(field, 1)
        assert isinstance(number, int)
        assert 0 < number < 2**32
    for field in ("ts", "dur"):
        time = event.get(field, 0)
        assert isinstance(time, int | float)
        assert not isinstance(time, bool)
        assert 0 <= time < 2**53
    assert isinstance(event["args"], dict)
    _check_arguments(event["args"])


def _check_arguments(value: Any) -> None:
    """Numbers that fit, texts, lists and objects whose keys are words; null has no place."""
    if isinstance(value, dict):
        for key, item in value.items():
            assert re.fullmatch("[a-z][a-z0-9_]*", key), key
            _check_arguments(item)
    elif isinstance(value, list):
        for item in value:
            _check_arguments(item)
    else:
        assert isinstance(value, str | bool | int | float), value
        assert not isinstance(value, int) or abs(value) < MAX_INT


def _metadata(events: list[dict[str, Any]]) -> dict[str, dict[tuple[int, int | None], Any]]:
    found: dict[str, dict[tuple[int, int | None], Any]] = {name: {} for name in METADATA}
    for event in events:
        key, kind = METADATA[event["name"]]
        assert list(event["args"]) == [key]
        assert isinstance(event["args"][key], kind)
        assert event["args"][key] != ""
        assert ("tid" in event) == event["name"].startswith("thread")
        place = event["pid"], event.get("tid")
        assert place not in found[event["name"]]
        found[event["name"]][place] = event["args"][key]
    return found


def _tracks(events: list[dict[str, Any]], names: dict[str, dict[Any, Any]]) -> dict[str, dict[str, list[Slice]]]:
    by_thread: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        by_thread[event["pid"], event["tid"]].append(event)
    order = names["process_sort_index"], names["thread_sort_index"]
    tracks: dict[str, dict[str, list[Slice]]] = {}
    for pid, tid in sorted(by_thread, key=lambda key: (order[0][key[0], None], order[1][key])):
        track = tracks.setdefault(names["process_name"][pid, None], {})
        name = names["thread_name"][pid, tid]
        assert name not in track
        track[name] = _nested(by_thread[pid, tid])
    return tracks


def _nested(events: list[dict[str, Any]]) -> list[Slice]:
    """The slices of a thread, each within those that have not ended."""
    open_until: list[tuple[int, int]] = []
    slices = []
    for event in sorted(events, key=lambda event: nanoseconds(event["ts"])):
        start = nanoseconds(event["ts"])
        end = start + nanoseconds(event["dur"])
        # A slice without a duration is within another one at the same time.
        while open_until and (
            open_until[-1][1] < start or (open_until[-1][1] == start and open_until[-1] != (end, end))
        ):
            open_until.pop()
        assert not open_until or end <= open_until[-1][1], event
        assert len(open_until) < MAX_DEPTH
        slices.append(Slice(event["name"], event["cat"], start, end, len(open_until), event["args"]))
        open_until.append((start, end))
    return slices


def _counters(
    events: list[dict[str, Any]], names: dict[str, dict[Any, Any]]
) -> dict[tuple[str, str], list[tuple[int, int]]]:
    counters: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        ((key, value),) = event["args"].items()
        assert isinstance(value, int)
        assert value >= 0
        samples = counters[names["process_name"][event["pid"], None], f"{event['name']} {key}"]
        samples.append((nanoseconds(event["ts"]), value))
    for samples in counters.values():
        assert samples == sorted(samples, key=lambda sample: sample[0])
    return dict(counters)
