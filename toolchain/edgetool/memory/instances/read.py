"""An instance from its text, and the answer as text."""

from __future__ import annotations

import json
from typing import Any

from edgetool.errors import UsageError
from edgetool.memory.instances.csv import read_csv, write_csv
from edgetool.memory.instances.graph import read_graph
from edgetool.memory.instances.order import graph_instance
from edgetool.memory.instances.types import Graph, Instance, Table, invalid
from edgetool.memory.types import Layout


def read_instance(text: str, *, constants_in_ram: bool = False) -> Instance:
    """The instance that a text states: a graph when it begins with a brace, else a CSV (docs/layout-format.md).

    constants_in_ram: each use of a constant of a graph is a buffer too. Raises InvalidModelError naming row or tensor,
    UsageError for constants_in_ram with a CSV.
    """
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise invalid("is empty", "use a CSV file with the header id,lower,upper,size, or a graph as JSON")
    if text.lstrip()[0] in "{[":
        return graph_instance(read_graph(text), constants_in_ram=constants_in_ram)
    if constants_in_ram:
        raise UsageError("a CSV file has no constants", fix="omit --constants-in-ram, or use a graph in JSON")
    return read_csv(text)


def write_answer(instance: Instance, layout: Layout) -> str:
    """The instance's text with the layout's offsets in it: read again, every buffer is pinned there.

    A constant of a graph gets the offset of each of its uses, as a list if there are several.
    """
    if isinstance(instance.source, Table):
        return write_csv(instance.source, layout)
    return json.dumps(_with_offsets(instance.source, instance, layout), indent=2) + "\n"


def _with_offsets(graph: Graph, instance: Instance, layout: Layout) -> dict[str, object]:
    offsets: dict[int, list[int]] = {}
    for buffer, offset in zip(instance.problem.buffers, layout.offsets, strict=True):
        offsets.setdefault(buffer.tensor, []).append(offset)
    stated: Any = graph.document["tensors"]
    if isinstance(stated, dict):
        tensors: object = {name: _entry(stated[name], offsets.get(i)) for i, name in enumerate(stated)}
    else:
        tensors = [_entry(entry, offsets.get(i)) for i, entry in enumerate(stated)]
    return {**graph.document, "tensors": tensors}


def _entry(stated: Any, offsets: list[int] | None) -> object:
    if offsets is None:
        return stated
    entry = stated if isinstance(stated, dict) else {"size": stated}
    return {**entry, "offset": offsets[0] if len(offsets) == 1 else offsets}
