"""Shapes that are place holders: what does not go together is kept for the rooms below to refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from edgetool.errors import InvalidModelError, UnsupportedModelError
from edgetool.memory.planner import plan_memory
from edgetool.model.lint import model_findings
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model
from edgetool.model.writer import write_model
from edgetool.operators.legality import unsupported_operators
from edgetool.target.load import load_runtime
from tests.model.builders import Builder, options

Signatures = Sequence[tuple[int, ...]]


def adding(result: Sequence[int], signatures: Signatures) -> bytes:
    """ADD of two tensors of one row of three to a result that need not fit, with what is known of each of the three."""
    build = Builder()
    tensors = [build.activation(shape) for shape in ((1, 3), (1, 3), result)]
    build.operator("ADD", tensors[:2], tensors[2:])
    for index, signature in enumerate(signatures):
        build.tensors[index] = replace(build.tensors[index], shape_signature=signature)
    return write_model(build.model(tensors[:2], tensors[2:]))


@pytest.mark.parametrize(
    ("result", "signatures"),
    [
        ((4, 3), [(-1, 3), (1, 3), (4, 3)]),  # as many rows as there will be
        ((4, 3), [(-1, 3), (), ()]),
        ((1, 4), [(1, -1), (1, 3), (1, 4)]),
        ((1, 4), [(-1, -1), (-1, 3), (-1, 4)]),
    ],
)
def test_what_disagrees_where_sizes_are_unknown_is_read_and_not_planned(
    result: tuple[int, ...], signatures: Signatures
) -> None:
    model = read_model(adding(result, signatures))
    assert "ADD has output 0 of shape" in model.subgraphs[0].operators[0].shape_conflict
    assert read_model(write_model(model)) == model
    (illegal,) = unsupported_operators(model, load_runtime("tflm-2026-08"))
    assert illegal.kind == "limit"
    assert "known only when the model runs" in illegal.why
    with pytest.raises(UnsupportedModelError, match=r"operator 0: ADD has output 0 .* known only when the model runs"):
        plan_memory(model)


def test_inspection_tells_of_it() -> None:
    findings = model_findings(read_model(adding((4, 3), [(-1, 3), (), ()])))
    (unsettled,) = (finding for finding in findings if finding.rule == "unsettled-shapes")
    assert (unsettled.level, unsettled.where) == ("error", "operator 0 ADD")


def test_what_agrees_is_planned_although_sizes_are_unknown() -> None:
    model = read_model(adding((1, 3), [(-1, -1), (1, 3), (-1, 3)]))
    assert model.subgraphs[0].operators[0].shape_conflict == ""
    plan_memory(model)


@pytest.mark.parametrize("signatures", [[], [(1, 3), (1, 3), (1, 4)], [(-1, 3), (-1, 3), (-1, 4)]])
def test_a_batch_that_is_unknown_throughout_is_one_and_excuses_nothing(signatures: Signatures) -> None:
    with pytest.raises(InvalidModelError, match="ADD has output 0 of shape"):
        read_model(adding((1, 4), signatures))


def two_parts(code: str, result: tuple[int, ...], signature: tuple[int, ...], table: str) -> bytes:
    """An operator of two tensors of one row of four to a result, with the same rows unknown in all of them."""
    build = Builder()
    tensors = [build.activation((1, 4)), build.activation((1, 4)), build.activation(result)]
    build.operator(code, tensors[: 1 if code == "RESHAPE" else 2], tensors[2:], options(table))
    for index, own in enumerate(((-1, 4), (-1, 4), signature)):
        build.tensors[index] = replace(build.tensors[index], shape_signature=own)
    return write_model(build.model(tensors[:2], tensors[2:]))


@pytest.mark.parametrize(
    ("code", "result", "table"),
    [
        ("RESHAPE", (1, 2), "ReshapeOptions"),  # the converter's own, of reshape(x, [-1, 2])
        ("CONCATENATION", (1, 4), "ConcatenationOptions"),  # and of two batches one after the other
    ],
)
def test_an_operator_that_makes_other_rows_does_not_keep_the_batch(
    code: str, result: tuple[int, ...], table: str
) -> None:
    operator = read_model(two_parts(code, result, (-1, result[1]), table)).main.operators[0]
    assert operator.shape_conflict.startswith(f"{code} has output 0 of shape")
    with pytest.raises(InvalidModelError, match="has output 0 of shape"):
        read_model(two_parts(code, result, (), table).replace(b"\xff\xff\xff\xff", b"\x01\0\0\0"))


@pytest.mark.parametrize("knows_ranks", [True, False])
def test_a_tensor_without_a_rank_is_no_scalar_where_the_writer_knows_ranks(knows_ranks: bool) -> None:
    """EXPAND_DIMS along an axis that is calculated, as the converter writes it."""
    build = Builder()
    tensors = [build.activation((2, 3)), build.tensor((), DType.INT32), build.activation(())]
    build.tensors[:2] = [replace(tensor, has_rank=knows_ranks) for tensor in build.tensors[:2]]
    build.operator("EXPAND_DIMS", tensors[:2], tensors[2:])
    blob = write_model(build.model(tensors[:2], tensors[2:]))
    if knows_ranks:
        assert "produce 6 elements" in read_model(blob).main.operators[0].shape_conflict
    else:
        with pytest.raises(InvalidModelError, match="produce 6 elements"):
            read_model(blob)


def test_too_few_tensors_are_never_excused() -> None:
    build = Builder()
    tensors = [build.activation((1, 3)), build.activation((1, 3))]
    build.tensors[0] = replace(build.tensors[0], shape_signature=(1, -1))
    build.operator("ADD", tensors[:1], tensors[1:])
    with pytest.raises(InvalidModelError, match="has 1 input, not 2"):
        read_model(write_model(build.model(tensors[:1], tensors[1:])))


def gathering(signature: tuple[int, ...]) -> Model:
    """GATHER of row 2 of one row."""
    build = Builder()
    source, rows = build.activation((1, 3)), build.tensor((1,), DType.INT32, data=b"\x02\0\0\0")
    build.tensors[source] = replace(build.tensors[source], shape_signature=signature)
    result = build.activation((1, 3))
    build.operator("GATHER", [source, rows], [result], options("GatherOptions"))
    return read_model(write_model(build.model([source], [result])))


def test_indices_into_a_dimension_of_unknown_size() -> None:
    operator = gathering((-1, 3)).subgraphs[0].operators[0]
    assert operator.shape_conflict == "index 2 of GATHER is outside a dimension of size 1"
    with pytest.raises(InvalidModelError, match="outside a dimension of size 1"):
        gathering((1, 3))
