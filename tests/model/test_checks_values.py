"""Checks of what a file says, each at the very number where it begins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgetool.errors import InvalidModelError, UnsupportedModelError
from edgetool.model.reader import read_model
from edgetool.model.types import DType, SparseDimension, Sparsity
from edgetool.model.writer import write_model
from tests.attacks.operators import Input, model_of
from tests.model.attacks import Path, with_field
from tests.model.builders import conv_model, options

WEIGHTS: Path = ("subgraphs", 0, "tensors", 1)  # (8, 3, 3, 3), eight scales along dimension 0
ROWS = SparseDimension("DENSE", 2)
COLUMNS = SparseDimension("SPARSE_CSR", 0, (0, 2, 3), (0, 3, 1), "Int32Vector", "Uint8Vector")


@pytest.mark.parametrize("axis", [-1, -9, 4])
def test_an_axis_that_is_none_holds_no_scales(axis: int) -> None:
    """LiteRT reads such files, and TFLM does not look at it; a finding tells."""
    blob = with_field(conv_model(), (*WEIGHTS, "quantization"), "quantized_dimension", axis)
    assert read_model(blob).main.tensors[1].quantization is not None


def sparse(sparsity: Sparsity) -> bytes:
    """The third tensor as a (2, 4) matrix, three of whose numbers are stored."""
    model = conv_model()
    tensor = model.main.tensors[2]
    tensor = replace(tensor, shape=(2, 4), dtype=DType.INT8, data=b"abc", sparsity=sparsity, quantization=None)
    tensors = (*model.main.tensors[:2], tensor, *model.main.tensors[3:])
    data = tuple(b"abc" if i == tensor.buffer else payload for i, payload in enumerate(model.data))
    return write_model(replace(model, data=data, subgraphs=(replace(model.main, tensors=tensors, operators=()),)))


def test_a_block_of_a_negative_dimension_is_refused() -> None:
    blocked = Sparsity((0, 1, 2), (-1,), (ROWS, COLUMNS, COLUMNS))
    with pytest.raises(InvalidModelError, match="block for a dimension"):
        read_model(sparse(blocked))


def test_a_block_of_the_last_dimension_is_read() -> None:
    blocked = Sparsity((0, 1, 2), (1,), (ROWS, COLUMNS, COLUMNS))
    assert read_model(sparse(blocked)).main.tensors[2].sparsity == blocked


def test_an_unknown_sparse_format_is_refused() -> None:
    blob = sparse(Sparsity((0, 1), (), (ROWS, COLUMNS)))
    model = read_model(blob)
    path = ("subgraphs", 0, "tensors", 2, "sparsity", "dim_metadata", 1)
    with pytest.raises(UnsupportedModelError, match="stored in format 7"):
        read_model(with_field(model, path, "format", 7))


ALONG_1: Any = options("GatherOptions", axis=1)
READ = {
    "gather up to the last": model_of("GATHER", [Input((3, 2)), Input((2,), (0, 2))], [(2, 2)]),
    "gather along another axis": model_of("GATHER", [Input((2, 3)), Input((2,), (0, 2))], [(2, 2)], ALONG_1),
    "gather by an input": model_of("GATHER", [Input((3, 2)), Input((2,))], [(2, 2)]),
    "gather_nd of both dimensions": model_of("GATHER_ND", [Input((3, 2)), Input((2, 2), (2, 1, 0, 0))], [(2,)]),
    "lookup": model_of("EMBEDDING_LOOKUP", [Input((2,), (2, 0)), Input((3, 2))], [(2, 2)]),
    "scatter": model_of("SCATTER_ND", [Input((1, 2), (2, 1)), Input((1,)), Input((2,), (3, 2))], [(3, 2)]),
    "equal segments": model_of("SEGMENT_SUM", [Input((3, 2)), Input((3,), (0, 0, 1))], [(2, 2)]),
}


@pytest.mark.parametrize("blob", READ.values(), ids=READ)
def test_indices_inside_are_read(blob: bytes) -> None:
    assert write_model(read_model(blob)) == blob


REFUSED = {
    "index 2 of GATHER": model_of("GATHER", [Input((3, 2)), Input((1,), (2,))], [(3, 1)], ALONG_1),
    "index 1 of GATHER_ND": model_of("GATHER_ND", [Input((3, 1)), Input((2, 2), (2, 0, 0, 1))], [(2,)]),
    "index 3 of EMBEDDING_LOOKUP": model_of("EMBEDDING_LOOKUP", [Input((1,), (3,)), Input((3, 2))], [(1, 2)]),
    "segment IDs of SEGMENT_SUM are not in ascending order": model_of(
        "SEGMENT_SUM", [Input((3, 2)), Input((3,), (0, 1, 0))], [(2, 2)]
    ),
}


@pytest.mark.parametrize(("message", "blob"), REFUSED.items(), ids=REFUSED)
def test_indices_just_outside_are_refused(message: str, blob: bytes) -> None:
    with pytest.raises(InvalidModelError, match=message):
        read_model(blob)
