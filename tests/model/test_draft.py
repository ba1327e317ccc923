"""A subgraph under change, and the model that comes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from edgetool.model.draft import OFFLINE_PLAN, STORED, Draft
from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME
from edgetool.model.reader import read_model
from edgetool.model.schema import table
from edgetool.model.types import DType, Model, Options, Quantization
from edgetool.model.writer import write_model
from tests.model.builders import Builder, chain_model, conv_model, if_model, residual_model
from tests.model.strategies import models


def read_back(model: Model) -> Model:
    return read_model(write_model(model), name="m")


def test_the_draft_removes_the_plan_that_the_writer_writes() -> None:
    assert OFFLINE_PLAN == METADATA_NAME
    planned = with_metadata(conv_model(), METADATA_NAME, b"plan")
    assert not Draft(planned).finish().metadata


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(models())
def test_finishing_twice_changes_nothing_more_and_reads_back_equal(model: Model) -> None:
    for graph in model.subgraphs:
        once = Draft(model, graph.index).finish()
        assert read_back(once) == once
        assert Draft(once, graph.index).finish() == once
        kept = once.subgraphs[graph.index]
        assert [op.code for op in kept.operators] == [op.code for op in graph.operators]
        for old, new in zip(graph.operators, kept.operators, strict=True):
            names = [graph.tensors[i].name for i in old.inputs if i >= 0]
            assert [kept.tensors[i].name for i in new.inputs if i >= 0] == names


@pytest.mark.parametrize("dtype", STORED, ids=lambda dtype: dtype.name)
def test_a_constant_reads_as_it_was_given(dtype: DType) -> None:
    draft = Draft(conv_model())
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(STORED[dtype])
    first, second = draft.constant("a", values), draft.constant("b", values.reshape(3, 2), dtype=dtype)
    assert draft.constant("again", values) == first
    assert draft.tensors[first].dtype is dtype
    assert draft.tensors[first].shape == (2, 3)
    assert draft.tensors[first].buffer == draft.tensors[second].buffer
    found = draft.values(first)
    assert found is not None
    assert found.dtype == STORED[dtype]
    np.testing.assert_array_equal(found, values)


def test_a_constant_that_its_type_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="big has values that INT8 cannot represent"):
        Draft(conv_model()).constant("big", np.array([300]), dtype=DType.INT8)


def test_a_constant_without_elements_is_one() -> None:
    build = Builder()
    x = build.activation([1])
    shape = build.tensor([0], DType.INT32)
    y = build.activation([])
    build.operator("RESHAPE", [x, shape], [y])
    draft = Draft(build.model([x], [y]))
    values = draft.values(shape)
    assert values is not None
    assert values.shape == (0,)
    assert draft.values(x) is None
    assert draft.values(y) is None
    empty = draft.constant("none", np.zeros(0, np.int32))
    assert draft.tensors[empty].data is None


def test_an_operator_has_the_schemas_defaults_for_what_is_not_given() -> None:
    draft = Draft(conv_model())
    made = draft.make("CONV_2D", [0], [1], stride_w=2, padding="VALID")
    assert made.options is not None
    assert dict(made.options.fields) == {**table("Conv2DOptions").defaults, "stride_w": 2, "padding": "VALID"}
    assert draft.make("LOGISTIC", [0], [1]).options is None
    assert draft.make("REDUCE_WINDOW", [0], [1]).options_in_2
    assert made.index not in {op.index for op in draft.operators}
    with pytest.raises(KeyError, match="ADD has no option stride"):
        draft.make("ADD", [0], [1], stride=1)


def test_an_operator_is_replaced_in_its_place() -> None:
    draft = Draft(residual_model())
    add = next(op for op in draft.operators if op.code == "ADD")
    a, b = add.inputs
    out = draft.tensors[add.outputs[0]]
    middle = draft.tensor("middle", out.shape, out.dtype, out.quantization)
    codes = [op.code for op in draft.operators]
    draft.replace(add, draft.make("SUB", [a, b], [middle]), draft.make("RELU", [middle], add.outputs))
    model = draft.finish()
    place = codes.index("ADD")
    assert [op.code for op in model.main.operators] == [*codes[:place], "SUB", "RELU", *codes[place + 1 :]]
    assert "ADD" not in {code.code for code in model.operator_codes}
    assert [op.index for op in model.main.operators] == list(range(len(codes) + 1))
    assert read_back(model) == model


def test_readers_outputs_and_signatures_follow_a_redirect() -> None:
    draft = Draft(chain_model(3))
    first, second, last = draft.operators
    assert draft.producer(first.outputs[0]) == first
    assert draft.consumers(first.outputs[0]) == [second]
    draft.redirect(second.outputs[0], first.outputs[0])
    assert {op.index for op in draft.consumers(first.outputs[0])} == {second.index, last.index}
    draft.replace(second)
    draft.redirect(last.outputs[0], first.outputs[0])
    draft.replace(last)
    model = draft.finish()
    assert [op.code for op in model.main.operators] == ["CONV_2D"]
    assert model.main.outputs == model.main.operators[0].outputs
    assert model.signatures[0].outputs == (("output_0", model.main.outputs[0]),)
    assert len(model.data) == 3  # none, weights, bias
    assert read_back(model) == model


def test_the_graph_takes_another_input() -> None:
    draft = Draft(conv_model())
    (conv,) = draft.operators
    old = draft.inputs[0]
    new = draft.tensor("real", draft.tensors[old].shape, DType.FLOAT32)
    draft.replace_input(old, new)
    draft.insert_before(conv, draft.make("QUANTIZE", [new], [old]))
    relu = draft.tensor("relu", draft.tensors[conv.outputs[0]].shape, DType.INT8)
    draft.insert_after(conv, draft.make("RELU", conv.outputs, [relu]))
    model = draft.finish()
    assert model.main.tensors[model.main.inputs[0]].name == "real"
    assert model.signatures[0].inputs == (("input_0", model.main.inputs[0]),)
    assert [op.code for op in model.main.operators] == ["QUANTIZE", "CONV_2D", "RELU"]
    assert read_back(model) == model


def test_a_removed_operator_has_no_position() -> None:
    draft = Draft(conv_model())
    (conv,) = draft.operators
    assert draft.operator(conv.index) == conv
    draft.replace(conv)
    assert draft.operator(conv.index) is None
    with pytest.raises(ValueError, match=r"operator 0 \(CONV_2D\) is not in the draft"):
        draft.replace(conv)


def test_other_subgraphs_stay() -> None:
    model = if_model()
    draft = Draft(model, 2)
    (neg,) = draft.operators
    draft.replace(neg, draft.make("ABS", neg.inputs, neg.outputs))
    changed = draft.finish()
    assert [[op.code for op in graph.operators] for graph in changed.subgraphs] == [["IF"], ["ABS"], ["ABS"]]
    assert changed.main.tensors == model.main.tensors
    assert read_back(changed) == changed


def test_scales_that_are_tensors_stay_with_what_they_scale() -> None:
    build = Builder()
    unused = build.activation([1])
    scales = build.tensor([2], DType.FLOAT16, data=bytes(4), name="scales")
    fields = {**table("BlockwiseQuantization").defaults, "scales": scales, "zero_points": -1}
    x, y = build.activation([2]), build.activation([2])
    details = Quantization((), (), 0, details=Options("BlockwiseQuantization", tuple(fields.items())))
    build.tensors[x] = replace(build.tensors[x], quantization=details)
    build.operator("RELU", [x], [y])
    model = Draft(build.model([x], [y])).finish()
    assert len(model.main.tensors) == len(build.tensors) - 1
    assert build.tensors[unused].name not in {tensor.name for tensor in model.main.tensors}
    quantization = model.main.tensors[model.main.inputs[0]].quantization
    assert quantization is not None
    assert quantization.details is not None
    assert model.main.tensors[quantization.details.integer("scales")].name == "scales"
    assert read_back(model) == model
