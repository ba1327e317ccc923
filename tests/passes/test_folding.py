"""Shapes that are known, RESHAPE that does nothing, and operators that nobody needs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.draft import Draft
from edgetool.model.types import DType, Graph, Model, Quantization
from edgetool.passes import folding
from edgetool.passes.folding import COMPUTES, MOVES
from edgetool.passes.legalize import dead_operators, legalize
from tests.model.builders import options
from tests.passes.runs import Net, assert_same_in_all, codes, made_legal, runtime

FLOAT, INT8, INT32 = DType.FLOAT32, DType.INT8, DType.INT32


def flatten(dtype: DType = FLOAT) -> Model:
    """Flatten as converters write it for batches of any size: SHAPE, STRIDED_SLICE, PACK, RESHAPE."""
    net = Net()
    x = net.input([1, 4, 3, 2], dtype)
    shape = net.add_operator("SHAPE", [x], [4], dtype=INT32, version=1, table="ShapeOptions", out_type="INT32")[0]
    bounds = [net.constant([0]), net.constant([1]), net.constant([1])]
    masks = {"shrink_axis_mask": 1}
    batch = net.add_operator("STRIDED_SLICE", [shape, *bounds], [], version=1, table="StridedSliceOptions", **masks)[0]
    size = net.add_operator("REDUCE_PROD", [net.constant([4, 3, 2]), net.constant([0])], [], table="ReducerOptions")[0]
    wanted = net.add_operator("PACK", [batch, size], [2], version=1, table="PackOptions", values_count=2)[0]
    made = [net.input([1, 24], dtype)]
    net.operator("RESHAPE", [x, wanted], made)
    return net.model([x], made)


@pytest.mark.parametrize("dtype", [FLOAT, INT8], ids=lambda dtype: dtype.name)
def test_a_shape_that_is_computed_becomes_a_constant(dtype: DType) -> None:
    result = assert_same_in_all(flatten(dtype))
    assert codes(result.model) == ["RESHAPE"]
    reshape = result.model.main.operators[0]
    assert result.model.main.tensors[reshape.inputs[1]].data == np.array([1, 24], np.int32).tobytes()
    assert [change.operator_label for change in result.applied] == ["SHAPE", "STRIDED_SLICE", "REDUCE_PROD", "PACK"]
    assert result.sentences({}) == ()  # tidying is nothing to tell


FOLDS: dict[str, tuple[list[object], object, dict[str, object]]] = {
    "STRIDED_SLICE": ([[4, 5, 6, 7], [1], [4], [2]], [5, 7], {"table": "StridedSliceOptions"}),
    "SLICE": ([[4, 5, 6, 7], [1], [2]], [5, 6], {}),
    "GATHER": ([[4, 5, 6, 7], [3, 0]], [7, 4], {"table": "GatherOptions"}),
    "PACK": ([[4], [5]], [[4, 5]], {"table": "PackOptions", "axis": 1, "values_count": 2}),
    "CONCATENATION": ([[4], [5, 6]], [4, 5, 6], {"table": "ConcatenationOptions"}),
    "RESHAPE": ([[4, 5], [2, 1]], [[4], [5]], {}),
    "EXPAND_DIMS": ([[4, 5], [0]], [[4, 5]], {}),
    "SQUEEZE": ([[[4, 5]]], [4, 5], {}),
    "TRANSPOSE": ([[[1, 2], [3, 4]], [1, 0]], [[1, 3], [2, 4]], {}),
    "TILE": ([[1, 2], [2]], [1, 2, 1, 2], {}),
    "BROADCAST_TO": ([[[1], [2]], [2, 2]], [[1, 1], [2, 2]], {}),
    "FILL": ([[2, 1], 7], [[7], [7]], {}),
    "CAST": ([[1, 2]], [1, 2], {"table": "CastOptions"}),
    "ADD": ([[1, 2], 3], [4, 5], {"table": "AddOptions"}),
    "SUB": ([[1, 2], 3], [-2, -1], {"table": "SubOptions"}),
    "MUL": ([[1, 2], 3], [3, 6], {"table": "MulOptions"}),
    "MAXIMUM": ([[1, 5], 3], [3, 5], {}),
    "MINIMUM": ([[1, 5], 3], [1, 3], {}),
    "REDUCE_PROD": ([[2, 3, 4], [0]], 24, {"table": "ReducerOptions"}),
    "SUM": ([[2, 3, 4], [0]], 9, {"table": "ReducerOptions"}),
    "RANGE": ([2, 8, 3], [2, 5], {}),
    "BROADCAST_ARGS": ([[3, 1], [1, 2]], [3, 2], {}),
}


def test_all_folds_are_tried() -> None:
    assert FOLDS.keys() == MOVES.keys() | COMPUTES.keys()


@pytest.mark.parametrize("code", FOLDS)
def test_operators_on_constants(code: str) -> None:
    """The result is added to an input, so that the graph does not give out a constant."""
    constants, expected, options = FOLDS[code]
    result = np.asarray(expected, np.int32)
    net = Net()
    x = net.input(result.shape, INT32)
    inputs = [net.constant(values) for values in constants]
    folded = net.add_operator(code, inputs, result.shape, **options)[0]
    made = net.add_operator("ADD", [x, folded], result.shape, version=1, table="AddOptions")
    legal = made_legal(net.model([x], made)).model
    assert codes(legal) == ["ADD"]
    constant = legal.main.tensors[legal.main.operators[0].inputs[1]]
    assert (constant.shape, constant.data) == (result.shape, result.tobytes())


# Constants that contradict each other, or the shape of the result: runtimes refuse them.
CONTRADICTIONS: list[tuple[str, list[object], list[int], dict[str, object]]] = [
    ("RANGE", [0, 5, 0], [5], {}),
    ("RANGE", [0, 5, -1], [5], {}),
    ("RANGE", [0, 2**31 - 1, 1], [5], {}),
    ("RANGE", [[0, 1], 5, 1], [5], {}),
    ("RANGE", [8, 2, 3], [2], {}),
    ("SLICE", [[4, 5, 6], 1, 2], [2], {}),
    ("SLICE", [[4, 5, 6], [2], [2]], [2], {}),
    ("SLICE", [[4, 5, 6], [-1], [1]], [1], {}),
    ("GATHER", [[4, 5, 6], [3, 0]], [2], {"table": "GatherOptions"}),
    ("GATHER", [[4, 5, 6], [-1, 0]], [2], {"table": "GatherOptions"}),
    ("GATHER", [[4, 5, 6], [1, 0]], [2], {"table": "GatherOptions", "axis": 1}),
    ("GATHER", [[4, 5, 6], [1, 0]], [3], {"table": "GatherOptions"}),
    ("BROADCAST_ARGS", [3, 4], [1], {}),
    ("BROADCAST_ARGS", [[3], [4]], [1], {}),
    ("BROADCAST_ARGS", [[3, 1], [-1]], [2], {}),
    ("PACK", [[4], [5, 6]], [2], {"table": "PackOptions", "values_count": 2}),
    ("PACK", [[4], [5]], [2, 1], {"table": "PackOptions", "axis": 2, "values_count": 2}),
    ("ADD", [[1, 2], [3, 4, 5]], [3], {"table": "AddOptions"}),
    ("ADD", [[[1], [2]], [3, 4]], [2], {"table": "AddOptions"}),
    ("SUM", [[2, 3, 4], [1]], [], {"table": "ReducerOptions"}),
    ("SUM", [[2, 3, 4], [0, 0]], [], {"table": "ReducerOptions"}),
    ("FILL", [[2], [7, 8]], [2], {}),
    ("TRANSPOSE", [[[1, 2], [3, 4]], [[1, 0]]], [2, 2], {}),
]


@pytest.mark.parametrize(("code", "constants", "shape", "options"), CONTRADICTIONS)
def test_constants_that_contradict_each_other_stay(
    code: str, constants: list[object], shape: list[int], options: dict[str, object]
) -> None:
    net = Net()
    x = net.input(shape, INT32)
    folded = net.add_operator(code, [net.constant(values) for values in constants], shape, **options)[0]
    model = net.model([x], net.add_operator("ADD", [x, folded], shape, version=1, table="AddOptions"))
    assert legalize(model, runtime(), rules=folding.FOLDING_RULES).model is model


@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(-4, 4).filter(bool))
def test_ranges_are_those_of_numpy(start: int, limit: int, step: int) -> None:
    expected = np.arange(start, limit, step, dtype=np.int32)
    net = Net()
    x = net.input(expected.shape, INT32)
    made = net.add_operator("RANGE", [net.constant(bound) for bound in (start, limit, step)], expected.shape)
    model = net.model([x], net.add_operator("ADD", [x, *made], expected.shape, version=1, table="AddOptions"))
    legal = legalize(model, runtime(), rules=folding.FOLDING_RULES).model
    assert codes(legal) == ["ADD"]
    assert legal.main.tensors[legal.main.operators[0].inputs[1]].data in (expected.tobytes(), None)


def test_a_range_of_more_than_any_tensor_holds_stays() -> None:
    net = Net()
    x = net.input([5], DType.INT64)
    ends = np.iinfo(np.int64)
    bounds = [net.constant(bound, DType.INT64) for bound in (ends.min, ends.max, 1)]
    model = net.model([x], net.add_operator("ADD", [x, *net.add_operator("RANGE", bounds, [5])], [5], version=1))
    assert legalize(model, runtime(), rules=folding.FOLDING_RULES).model is model


def test_bounds_of_several_types_stay() -> None:
    """int(infinity) is no number, nor is a limit in float for whole numbers a thing that runtimes take."""
    net = Net()
    x = net.input([5], INT32)
    bounds = [net.constant(0), net.constant(np.inf, FLOAT), net.constant(1)]
    model = net.model([x], net.add_operator("ADD", [x, *net.add_operator("RANGE", bounds, [5])], [5], version=1))
    assert legalize(model, runtime(), rules=folding.FOLDING_RULES).model is model


def test_what_the_graph_gives_out_stays_computed() -> None:
    net = Net()
    x = net.input([1, 3], FLOAT)
    made = net.add_operator("SHAPE", [x], [2], dtype=INT32, version=1, table="ShapeOptions", out_type="INT32")
    model = net.model([x], made)
    assert legalize(model, runtime()).model is model


def test_a_constant_that_would_grow_stays_computed() -> None:
    net = Net()
    x = net.input([512], INT32)
    filled = net.add_operator("FILL", [net.constant([512]), net.constant(7)], [512])[0]
    model = net.model([x], net.add_operator("ADD", [x, filled], [512], version=1, table="AddOptions"))
    assert legalize(model, runtime()).model is model


def test_sums_that_are_clamped_stay_computed() -> None:
    net = Net()
    x = net.input([2], INT32)
    options = {"table": "SubOptions", "fused_activation_function": "RELU"}
    folded = net.add_operator("SUB", [net.constant([1, 5]), net.constant(3)], [2], version=1, **options)[0]
    model = net.model([x], net.add_operator("ADD", [x, folded], [2], version=1, table="AddOptions"))
    assert legalize(model, runtime()).model is model


def test_reshapes_that_undo_each_other_go() -> None:
    net = Net()
    x = net.input([1, 6], INT8)
    y = net.add_operator("RELU", [net.reshape(net.reshape(x, [2, 3]), [1, 6])], [1, 6])
    assert codes(assert_same_in_all(net.model([x], y)).model) == ["RELU"]


def test_reshapes_before_an_output() -> None:
    net = Net()
    x = net.input([1, 6], INT8)
    relu = net.add_operator("RELU", [x], [1, 6])[0]
    model = net.model([x], [net.reshape(net.reshape(relu, [2, 3]), [1, 6])])
    legal = assert_same_in_all(model).model
    assert codes(legal) == ["RELU"]
    assert legal.signatures[0].outputs == (("output_0", legal.main.outputs[0]),)


def test_an_output_that_is_an_input_keeps_its_reshape() -> None:
    net = Net()
    x = net.input([1, 6], INT8)
    model = net.model([x], [net.reshape(x, [1, 6])])
    assert legalize(model, runtime()).model is model


def test_reshapes_that_change_the_scale_stay() -> None:
    """They are no rewrite's business: what equal codes mean there is not the same."""
    net = Net()
    x = net.input([1, 6], FLOAT)
    first, last = net.reshape(x, [2, 3]), net.reshape(x, [1, 6])
    net.tensors[first] = replace(net.tensors[first], quantization=Quantization((0.5,), (0,), 0))
    net.operators[-1] = replace(net.operators[-1], inputs=(first, net.operators[-1].inputs[1]))
    model = net.model([x], net.add_operator("RELU", [last], [1, 6]))
    assert legalize(model, runtime()).model is model


def test_rewrites_in_every_subgraph() -> None:
    """The branches of IF, each with a RESHAPE too many."""
    net = Net()
    condition, x, y = net.tensor([1], DType.BOOL), net.input([1, 4], FLOAT), net.input([1, 4], FLOAT)
    net.operator("IF", [condition, x], [y], options("IfOptions", then_subgraph_index=1, else_subgraph_index=2))
    graphs: list[Graph] = [net.graph([condition, x], [y])]
    for index, code in ((1, "ABS"), (2, "NEG")):
        net.tensors, net.operators = [], []
        x = net.input([1, 4], FLOAT)
        made = net.add_operator(code, [net.reshape(net.reshape(x, [2, 2]), [1, 4])], [1, 4], version=1)
        graphs.append(net.graph([x], made, index, code.lower()))
    model = Model(3, "made for a test", tuple(net.codes), tuple(graphs), tuple(net.data))
    legal = legalize(model, runtime()).model
    assert [[op.code for op in graph.operators] for graph in legal.subgraphs] == [["IF"], ["ABS"], ["NEG"]]


def test_a_model_that_is_legal_is_the_one_that_was_given() -> None:
    net = Net()
    x = net.input([1, 6], INT8)
    unread = net.add_operator("RELU", [x], [1, 6])[0]
    model = net.model([x], net.add_operator("RELU", [x], [1, 6]))
    result = legalize(model, runtime())
    assert result.model is model
    assert result.applied == ()
    assert [operator.outputs for operator in dead_operators(Draft(model))] == [(unread,)]


def test_what_changes_a_state_is_not_dead() -> None:
    net = Net()
    x, state = net.input([1, 6], FLOAT), net.tensor([1, 6], FLOAT, is_variable=True)
    net.add_operator("SVDF", [x, state], [1, 6])
    assert dead_operators(Draft(net.model([x], [x]))) == []
