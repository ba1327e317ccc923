"""Checks of what a file says, each at the very number where it begins; and that each index is held to its list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgetool.errors import InvalidModelError, UnsupportedModelError
from edgetool.model import checks
from edgetool.model.flatbuffer import Record
from edgetool.model.reader import read_model
from edgetool.model.schema import TABLE_NAMES, table
from edgetool.model.types import DType, SparseDimension, Sparsity
from edgetool.model.writer import write_model
from tests.attacks.operators import Input, model_of
from tests.model.attacks import Path, with_field
from tests.model.builders import conv_model, options

WEIGHTS: Path = ("subgraphs", 0, "tensors", 1)  # (8, 3, 3, 3), eight scales along dimension 0
ROWS = SparseDimension("DENSE", 2)
COLUMNS = SparseDimension("SPARSE_CSR", 0, (0, 2, 3), (0, 3, 1), "Int32Vector", "Uint8Vector")


@pytest.mark.parametrize("axis", [-1, -9, 4])
def test_an_invalid_axis_has_no_scales(axis: int) -> None:
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


# The list that each points into; "?" where -1 stands for none.
INDICES = {
    "Model.metadata_buffer": "buffer",
    "SubGraph.inputs": "tensor",
    "SubGraph.outputs": "tensor",
    "Tensor.buffer": "buffer",
    "BlockwiseQuantization.scales": "tensor",
    "BlockwiseQuantization.zero_points": "tensor?",
    "MultiAxisQuantization.scales": "tensor",
    "MultiAxisQuantization.zero_points": "tensor?",
    "Operator.opcode_index": "operator_code",
    "Operator.inputs": "tensor?",
    "Operator.outputs": "tensor",
    "Operator.intermediates": "tensor",
    "Metadata.buffer": "buffer",
    "TensorMap.tensor_index": "tensor",
    "SignatureDef.subgraph_index": "subgraph",
    "CallOptions.subgraph": "subgraph",
    "IfOptions.then_subgraph_index": "subgraph",
    "IfOptions.else_subgraph_index": "subgraph",
    "WhileOptions.cond_subgraph_index": "subgraph",
    "WhileOptions.body_subgraph_index": "subgraph",
    "CallOnceOptions.init_subgraph_index": "subgraph",
    "StablehloCustomCallOptions.called_computations": "subgraph",
    "StablehloReduceOptions.body_subgraph_index": "subgraph",
    "StablehloScatterOptions.update_computation_subgraph_index": "subgraph",
    "StablehloReduceWindowOptions.body_subgraph_index": "subgraph",
    "StablehloSortOptions.comparator_subgraph_index": "subgraph",
    "StablehloWhileOptions.cond_subgraph_index": "subgraph",
    "StablehloWhileOptions.body_subgraph_index": "subgraph",
    "StableHLOCompositeOptions.decomposition_subgraph_index": "subgraph",
    "StablehloCaseOptions.branch_subgraph_indices": "subgraph",
}
COUNTS = {"buffer": 3, "tensor": 3, "operator_code": 3, "subgraph": 3}


def with_index(name: str, index: int) -> Record:
    """A table, sound but for one index."""
    owner, _, changed = name.partition(".")
    kind = table(owner)
    fields: dict[str, Any] = dict(kind.defaults)
    for field in kind.indices:
        value = index if field.name == changed else 0
        fields[field.name] = value if field.kind == "scalar" else (0, value)
    return Record(owner, 64, fields)


def test_the_schema_marks_these_and_no_others() -> None:
    marked = {
        f"{name}.{field.name}": field.index_of + "?" * field.optional
        for name in TABLE_NAMES
        for field in table(name).indices
    }
    assert marked == INDICES


@pytest.mark.parametrize(("name", "role"), INDICES.items(), ids=INDICES)
def test_an_index_stays_in_its_list(name: str, role: str) -> None:
    for index in (0, 2, *([-1] if role.endswith("?") else [])):
        checks.check_indices("some.tflite", with_index(name, index), COUNTS)
    for index in (3, 2**31 - 1, -2, *([] if role.endswith("?") else [-1])):
        with pytest.raises(InvalidModelError, match=f"there is no {role.rstrip('?')} {index}; the file has 3"):
            checks.check_indices("some.tflite", with_index(name, index), COUNTS)


def test_only_indices_of_subgraphs_are_calls() -> None:
    branch = with_index("IfOptions.then_subgraph_index", 2)
    assert checks.called_subgraphs(branch) == {0, 2}
    assert checks.called_subgraphs(with_index("StablehloCaseOptions.branch_subgraph_indices", 1)) == {0, 1}
    assert checks.called_subgraphs(with_index("BlockwiseQuantization.scales", 2)) == set()
