"""Images at the inputs of a model have their channels last where that costs nothing."""

from __future__ import annotations

import numpy as np

from edgetool.model.draft import Draft
from edgetool.model.types import DType, Model
from edgetool.passes.image_inputs import CHANNELS_LAST, images_last
from edgetool.passes.layout import TransposedEnds
from tests.model.builders import Builder


def with_input(shape: tuple[int, ...], code: str) -> Model:
    """A model of one RELU, or of a TRANSPOSE of the input to channels last."""
    build = Builder(seed=1)
    x = build.activation([1, 4])
    draft = Draft(build.model([x], [build.dense(x, 2)]))
    image = draft.tensor("image", shape, DType.FLOAT32)
    draft.replace_input(draft.inputs[0], image)
    result = draft.tensor("result", shape, DType.FLOAT32)
    if code == "TRANSPOSE":
        result = draft.tensor("result", [shape[axis] for axis in CHANNELS_LAST], DType.FLOAT32)
        operator = draft.make(code, [image, draft.constant("order", np.array(CHANNELS_LAST, np.int32))], [result])
    else:
        operator = draft.make(code, [image], [result])
    draft.redirect(draft.outputs[0], result)
    draft.replace_all([operator])
    return draft.finish()


def ends(model: Model) -> TransposedEnds:
    return TransposedEnds(model, (None,), (None,))


def test_a_transpose_at_an_input_is_left_to_the_firmware() -> None:
    result = images_last(ends(with_input((1, 3, 8, 6), "TRANSPOSE")))
    assert result.inputs == (CHANNELS_LAST,)
    assert result.model.main.tensors[result.model.main.inputs[0]].shape == (1, 8, 6, 3)


def test_an_input_stays_if_the_other_order_costs_a_transpose() -> None:
    model = with_input((1, 3, 8, 6), "RELU")
    assert images_last(ends(model)) == ends(model)


def test_an_input_that_is_no_image_stays() -> None:
    model = with_input((1, 3, 8), "RELU")
    assert images_last(ends(model)) == ends(model)
