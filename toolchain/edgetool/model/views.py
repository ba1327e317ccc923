"""Tensors that are parts of others: a model whose feature maps are computed in stripes describes them in its metadata.

At batch 1, rows of an image are contiguous bytes. With an offline plan, a tensor that no operator writes can therefore
be a view of another tensor's rows, and a tensor that nobody writes as a whole can consist of views that operators
write: TFLM only looks at offsets. Other runtimes do not run such a model.

The payload is int32 words, little endian: a version, the number of views, then for each view the indices of tensor and
parent in the main graph and the offset of the tensor in the parent, in bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from edgetool.errors import InvalidModelError
from edgetool.model.edit import with_metadata
from edgetool.model.types import Model

VIEWS_METADATA_NAME = "edgetool.views"
VIEWS_VERSION = 1
WORDS_PER_VIEW = 3
# Operators whose copies have constants of their own: the rows that they add, take or move.
BOUNDED = ("PAD", "PADV2", "SLICE", "STRIDED_SLICE", "RESHAPE")
STRIPE = "/stripe"  # and a number: what the name of a tensor with a stripe of another one's rows ends with


@dataclass(frozen=True, slots=True)
class View:
    """A tensor of the main graph, by index, that is a part of another: its first byte is at `offset` in the parent."""

    tensor: int
    parent: int
    offset: int


def with_views(model: Model, views: Iterable[View]) -> Model:
    """Return the model with these views in its metadata."""
    words = [word for view in views for word in (view.tensor, view.parent, view.offset)]
    payload = struct.pack(f"<{len(words) + 2}i", VIEWS_VERSION, len(words) // WORDS_PER_VIEW, *words)
    return with_metadata(model, VIEWS_METADATA_NAME, payload)


def views_of(model: Model) -> tuple[View, ...]:
    """Return the views in the metadata of a model; none if it has no such entry.

    Raises InvalidModelError if the entry is malformed, if a view is no part of its parent, or if a parent or a
    constant is a view.
    """
    payload = next((entry.data for entry in reversed(model.metadata) if entry.name == VIEWS_METADATA_NAME), b"")
    if not payload:
        return ()
    words = struct.unpack_from(f"<{len(payload) // 4}i", payload)
    count = words[1] if len(words) > 1 and words[0] == VIEWS_VERSION else -1
    # Payloads are padded to the alignment of constants.
    if not 0 <= count <= (len(words) - 2) // WORDS_PER_VIEW:
        raise _invalid("it has an unknown version or size")
    views = tuple(View(*words[at : at + WORDS_PER_VIEW]) for at in range(2, 2 + count * WORDS_PER_VIEW, WORDS_PER_VIEW))
    _check(model, views)
    return views


def copies_of(model: Model) -> dict[int, int]:
    """Return the operators of the main graph that compute stripes, by index, with the first copy of each operator.

    Copies of an operator have the same code and constants, and write rows of the same tensor: views of it, or tensors
    with its name, up to a semicolon, and the number of the stripe.
    """
    views = {view.tensor: view.parent for view in views_of(model)}
    first: dict[tuple[object, ...], int] = {}
    found = {}
    for operator in model.main.operators if views else ():
        output = operator.outputs[0] if operator.outputs else -1
        name, stripe, _ = model.main.tensors[output].name.rpartition(STRIPE)
        rows: object = output
        if output in views:
            whole = model.main.tensors[views[output]].name.partition(";")[0]
            rows = whole.rpartition(STRIPE)[0] or whole
        elif stripe:
            rows = name
        weights = tuple(i for i in operator.inputs[1:] if i >= 0 and model.main.tensors[i].is_constant)
        group = operator.code, rows, weights if operator.code not in BOUNDED else ()
        first.setdefault(group, operator.index)
        if stripe or output in views:
            found[operator.index] = first[group]
    return found


def _check(model: Model, views: tuple[View, ...]) -> None:
    tensors = model.main.tensors
    children = {view.tensor for view in views}
    if len(children) != len(views):
        raise _invalid("a tensor is a view of two others")
    for view in views:
        if not all(0 <= index < len(tensors) for index in (view.tensor, view.parent)):
            raise _invalid(f"it names the tensors {view.tensor} and {view.parent} of {len(tensors)}")
        tensor, parent = tensors[view.tensor], tensors[view.parent]
        if view.parent in children:
            raise _invalid(f"tensor {view.parent} is a view and has views")
        if any(item.is_constant or item.is_variable for item in (tensor, parent)) or tensor.dtype != parent.dtype:
            raise _invalid(f"tensors {view.tensor} and {view.parent} cannot share their elements")
        if not 0 <= view.offset <= parent.size_bytes - tensor.size_bytes or view.offset * 8 % tensor.dtype.bits:
            raise _invalid(f"tensor {view.tensor} is no part of tensor {view.parent}")
        if view.tensor in model.main.inputs or view.tensor in model.main.outputs:
            raise _invalid(f"tensor {view.tensor} is an input or output of the model")


def _invalid(text: str) -> InvalidModelError:
    return InvalidModelError(
        f"the views are malformed: {text}",
        where=f"metadata {VIEWS_METADATA_NAME}",
        fix="create the file again from the model without stripes",
    )
