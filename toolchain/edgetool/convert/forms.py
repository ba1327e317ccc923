"""Converts a loaded model with its recurrent layers in the form that works: in the child process only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgetool import child
from edgetool.convert.calibrated import LayerMap
from edgetool.convert.loaded import Loaded
from edgetool.convert.lowering.cut_open import open_cuts
from edgetool.convert.tflite import Options, Order, convert, order_of
from edgetool.errors import ConversionError, UnsupportedModelError


@dataclass(frozen=True, slots=True)
class Converted:
    """A .tflite, the loaded model in the form that it was made of, and what is known of it.

    layers: by scope, and what makes each output. fused: the scopes of recurrent layers that became one operator.
    """

    content: bytes
    loaded: Loaded
    order: Order
    layers: LayerMap
    fused: tuple[str, ...]
    debug: dict[str, Any] | None
    notes: tuple[str, ...]


def convert_loaded(
    tf: Any, loaded: Loaded, samples: Sequence[Any], options: Options, workdir: Path, progress: child.Progress
) -> Converted:
    """Convert; where recurrent layers were to be one operator each and that fails, with a copy for each time step.

    Only where the form is ours to choose. Raises as tflite.convert does, the first error where both forms fail.
    """
    try:
        return _converted(tf, loaded, samples, options, workdir, progress)
    except (ConversionError, UnsupportedModelError) as error:
        if loaded.unrolled is None or not loaded.lowering.cuts.lstms:
            raise
        refused = error
    progress("unrolling recurrent layers")
    try:
        found = _converted(tf, loaded.unrolled(), samples, options, workdir, progress)
    except (ConversionError, UnsupportedModelError):
        raise refused from None
    told = f"the recurrent layers were unrolled because fusing each into one operator failed: {refused.what}"
    return replace(found, notes=(told, *found.notes))


def _converted(
    tf: Any, loaded: Loaded, samples: Sequence[Any], options: Options, workdir: Path, progress: child.Progress
) -> Converted:
    model, lowering = loaded.model, loaded.lowering
    makers = dict(zip(model.signature_outputs, lowering.output_layers, strict=False))  # of a SavedModel none is known
    layers = LayerMap(lowering.layers, makers)
    with lowering.active():
        opened = open_cuts(tf, model, lowering.cuts, samples, options.quantize, progress)
        made = convert(tf, opened.model, opened.samples, options, workdir, progress, layers)
        content = opened.join(made.content)
    order = order_of(content, model)
    return Converted(content, loaded, order, layers, opened.fused, made.debug, (*opened.notes, *made.notes))
