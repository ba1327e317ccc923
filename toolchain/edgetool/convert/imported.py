"""A model of another framework as a float .tflite, and the original to compare it with.

The samples and outputs of the original framework usually have their channels first. The .tflite may have other orders
of the axes (passes/layout.py); this module translates between the two. In the child process only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgetool.convert.float_model import FloatModel
from edgetool.convert.float_tflite import FloatTflite, TfliteRunner, with_batch
from edgetool.convert.samples import Array, InputSpec
from edgetool.model.types import Model, Signature
from edgetool.passes.float_forms import tidy_float
from edgetool.passes.image_inputs import images_last
from edgetool.passes.layout import Layout, TransposedEnds, transpose_ends

SIGNATURE = "serving_default"


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """A model that another framework wrote.

    model: as a .tflite with the batch 1 and the original's layout. inputs, outputs: their names in the original, in the
    order of the .tflite. call: the original; takes and returns arrays with a batch of 1. layers: the original's module
    or operator type by the scope in the names of tensors. output_layers: the scope of the layer that computes each
    output, "" if unknown; empty if all are. versions: those of the libraries that took part. notes: for
    the user, one sentence each.
    """

    model: Model
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    call: Callable[[Sequence[Array]], list[Array]]
    layers: Mapping[str, str]
    versions: Mapping[str, str]
    output_layers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def with_original_names(model: Model, inputs: Sequence[str], outputs: Sequence[str]) -> Model:
    """Return the model with a signature that has the original's names."""
    sides = (
        tuple(zip(names, indices, strict=True))
        for names, indices in ((inputs, model.main.inputs), (outputs, model.main.outputs))
    )
    return replace(model, signatures=(Signature(SIGNATURE, 0, *sides),))


def for_device(imported: ImportedModel, *, keep_layout: bool) -> TransposedEnds:
    """Return the .tflite with its channels last, unless the layout is kept, and the orders of its axes."""
    model = tidy_float(with_original_names(imported.model, imported.inputs, imported.outputs))
    if keep_layout:
        return TransposedEnds(model, (None,) * len(imported.inputs), (None,) * len(imported.outputs))
    return images_last(transpose_ends(model))


def original_model(imported: ImportedModel, tflite: FloatTflite, layout: TransposedEnds) -> FloatModel:
    """Return the original as a float model with the inputs and outputs of the device."""
    specs = tuple(
        replace(_with_axes(spec, order), name=name)
        for spec, order, name in zip(tflite.specs, layout.inputs, imported.inputs, strict=True)
    )

    def call(arrays: Sequence[Array]) -> list[Array]:
        originals = [
            np.transpose(values, np.argsort(order)) if order else values
            for values, order in zip(arrays, layout.inputs, strict=True)
        ]
        results = zip(imported.call(originals), layout.outputs, strict=True)
        return [with_batch(np.transpose(values, order) if order else values) for values, order in results]

    return FloatModel(
        specs=specs,
        output_names=imported.outputs,
        ranges=tflite.ranges,
        call=call,
        chunk=1,
        tracked=(),
        traced=TfliteRunner(tflite.model, tflite.content),
        notes=tflite.notes,
    )


def _with_axes(spec: InputSpec, order: Layout | None) -> InputSpec:
    """Return an input whose samples also come in the original's order of the axes; both are without batch."""
    return spec if order is None else replace(spec, axes=tuple(axis - 1 for axis in order[1:]))


def layout_notes(imported: ImportedModel, layout: TransposedEnds) -> tuple[str, ...]:
    """Return a sentence for each input and output whose axes have another order on the device."""
    notes = []
    for kind, names, orders in (
        ("input", imported.inputs, layout.inputs),
        ("output", imported.outputs, layout.outputs),
    ):
        for name, order in zip(names, orders, strict=True):
            if order is not None:
                axes = " ".join(map(str, order))
                notes.append(
                    f"{kind} {name!r} has its channels last on the device: its axes are those of the original in the "
                    f"order {axes} (--keep-layout keeps the original's)"
                )
    return tuple(notes)
