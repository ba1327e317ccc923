"""Which fields of the schema are indices, told a second time, and that each is held to its list."""

from __future__ import annotations

from typing import Any

import pytest

from edgetool.errors import InvalidModelError
from edgetool.model import checks
from edgetool.model.flatbuffer import Record
from edgetool.model.schema import TABLE_NAMES, table

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
