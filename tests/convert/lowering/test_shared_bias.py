"""A shared bias in the scale of each of its readers."""

from __future__ import annotations

import numpy as np

from edgetool.convert.lowering.cut_open import own_biases
from edgetool.model.draft import Draft
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Graph, Model, Quantization, Tensor
from edgetool.model.writer import write_model

WEIGHT = 0.5


def test_each_reader_has_it_in_its_own_scale() -> None:
    scales = (0.25, 0.125, 0.5)
    tensors = tuple(
        Tensor(i, f"t{i}", (1, 2), DType.INT16, None, Quantization((scale,), (0,), 0), False)
        for i, scale in enumerate(scales)
    )
    draft = Draft(Model(3, "", (), (Graph(0, "main", tensors, (), (0,), (2,)),), (None,)))
    weights = draft.constant("weights", np.eye(2, dtype=np.int8), Quantization((WEIGHT,), (0,), 0))
    bias = draft.constant("bias", np.array([8, -3], np.int64), Quantization((scales[0] * WEIGHT,), (0,), 0))
    for source in (0, 1):
        draft.operators.append(draft.make("FULLY_CONNECTED", [source, weights, bias], [source + 1]))
    model = own_biases(draft.finish())
    for operator, factor in zip(model.main.operators, (1, 2), strict=True):
        data = model.main.tensors[operator.inputs[2]].data
        np.testing.assert_array_equal(np.frombuffer(data or b"", "<i8"), np.array([8, -3]) * factor)
    assert own_biases(model) is model
    assert read_model(write_model(model)) == model
