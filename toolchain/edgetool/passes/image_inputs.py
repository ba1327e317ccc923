"""Images with their channels last at the inputs of a model, where that does not cost a TRANSPOSE.

A RESHAPE orders the axes of an image with one channel, so nothing else would move such an input to the other order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgetool.model.draft import Draft
from edgetool.model.types import DType, Model
from edgetool.passes.float_forms import tidy_float
from edgetool.passes.layout import Layout, TransposedEnds, cost

CHANNELS_LAST: Layout = (0, 2, 3, 1)
CHANNELS_FIRST: Layout = (0, 3, 1, 2)


def images_last(ends: TransposedEnds) -> TransposedEnds:
    """Return the model with every image among its inputs in the order that does not cost more to transpose."""
    model, orders = ends.model, list(ends.inputs)
    for place, order in enumerate(orders):
        index = model.main.inputs[place]
        if (
            order is not None
            or index in model.main.outputs
            or len(model.main.tensors[index].shape) != len(CHANNELS_LAST)
        ):
            continue
        stored = tidy_float(_with_image(model, index))
        if cost(Draft(stored)) <= cost(Draft(model)):
            model, orders[place] = stored, CHANNELS_LAST
    return replace(ends, model=model, inputs=tuple(orders))


def _with_image(model: Model, index: int) -> Model:
    """Return the model with an input in the other order, and a TRANSPOSE that restores the original's."""
    draft = Draft(model)
    tensor = draft.tensors[index]
    shape = [tensor.shape[axis] for axis in CHANNELS_LAST]
    image = draft.tensor(tensor.name, shape, tensor.dtype, tensor.quantization)
    draft.replace_input(index, image)
    axes = draft.constant("axes", np.array(CHANNELS_FIRST), None, DType.INT32)
    draft.insert_before(draft.operators[0], draft.make("TRANSPOSE", [image, axes], [index]))
    return draft.finish()
