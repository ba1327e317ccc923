"""Changes to a model's metadata and to the order of its operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgetool.model.types import Metadata, Model


def with_metadata(model: Model, name: str, data: bytes) -> Model:
    """Return the model with `data` as its only metadata entry of that name.

    An existing entry keeps its position, and its buffer unless something else uses it; other entries of that name are
    removed, because runtimes disagree on which one to use.
    """
    old = next((i for i, entry in enumerate(model.metadata) if entry.name == name), None)
    others = [entry for entry in model.metadata if entry.name != name]
    if old is not None and not _used_elsewhere(model, model.metadata[old]):
        buffer = model.metadata[old].buffer
        payloads = (*model.data[:buffer], data or None, *model.data[buffer + 1 :])
    else:
        first = model.data or (None,)  # the first buffer stands for no data
        buffer = len(first)
        payloads = (*first, data or None)
    others.insert(len(others) if old is None else old, Metadata(name, data, buffer))
    return replace(model, data=payloads, metadata=tuple(others))


def without_metadata(model: Model, name: str) -> Model:
    """Return the model without its metadata entries of that name, and without payloads that only these used.

    Other payloads keep their indices: in the middle of the list, a removed payload becomes empty; at the end, it is
    dropped.
    """
    gone = {entry.buffer for entry in model.metadata if entry.name == name and not _used_elsewhere(model, entry)}
    payloads = [None if index in gone else payload for index, payload in enumerate(model.data)]
    while len(payloads) - 1 in gone:
        payloads.pop()
    return replace(model, data=tuple(payloads), metadata=tuple(e for e in model.metadata if e.name != name))


def _used_elsewhere(model: Model, entry: Metadata) -> bool:
    """Return whether a tensor or another entry shares the payload of a metadata entry."""
    return (
        entry.buffer == 0
        or entry.buffer in model.metadata_buffer
        or any(other.buffer == entry.buffer and other.name != entry.name for other in model.metadata)
        or any(tensor.buffer == entry.buffer for graph in model.subgraphs for tensor in graph.tensors)
    )


def in_order(model: Model, order: Sequence[int]) -> Model:
    """Return the model with its main graph's operators in that order; they keep the indices that identify them.

    Raises ValueError unless `order` contains each operator's index exactly once.
    """
    by_index = {operator.index: operator for operator in model.main.operators}
    if sorted(order) != sorted(by_index):
        raise ValueError("the order must contain each operator exactly once")
    main = replace(model.main, operators=tuple(by_index[index] for index in order))
    return replace(model, subgraphs=(main, *model.subgraphs[1:]))


def renumbered(model: Model) -> Model:
    """Return the model with operators numbered in execution order, as they are when the file is read back."""
    graphs = (
        replace(graph, operators=tuple(replace(op, index=place) for place, op in enumerate(graph.operators)))
        for graph in model.subgraphs
    )
    return replace(model, subgraphs=tuple(graphs))
