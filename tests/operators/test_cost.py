from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from edgetool.model.types import DType, Model, Operator
from edgetool.operators.registry import OPERATORS, operator_costs, parameter_count
from tests.conftest import model_files, over_models
from tests.graphs import graph, model, operator, tensor


def one(
    code: str, shapes: list[tuple[int, ...]], output: tuple[int, ...], constants: set[int], **options: bool
) -> Model:
    tensors = [tensor(i, *shape, data=bytes(prod(shape)) if i in constants else None) for i, shape in enumerate(shapes)]
    tensors.append(tensor(len(shapes), *output))
    op = operator(0, code, range(len(shapes)), [len(shapes)], "Options" if options else "", **options)
    return model(graph(tensors, [op], [0], [len(shapes)]))


@pytest.mark.parametrize(
    ("code", "shapes", "output", "constants", "macs"),
    [
        ("CONV_2D", [(1, 8, 8, 3), (16, 3, 3, 3), (16,)], (1, 8, 8, 16), {1, 2}, 8 * 8 * 16 * 27),
        ("CONV_2D", [(1, 8, 8, 4), (16, 3, 3, 2), (16,)], (1, 4, 4, 16), {1, 2}, 4 * 4 * 16 * 18),
        ("DEPTHWISE_CONV_2D", [(1, 8, 8, 4), (1, 3, 3, 8), (8,)], (1, 8, 8, 8), {1, 2}, 8 * 8 * 8 * 9),
        ("FULLY_CONNECTED", [(1, 64), (10, 64), (10,)], (1, 10), {1, 2}, 640),
        ("FULLY_CONNECTED", [(2, 5, 64), (10, 64)], (2, 5, 10), {1}, 10 * 640),
        ("TRANSPOSE_CONV", [(4,), (8, 3, 3, 4), (1, 5, 5, 4)], (1, 10, 10, 8), {0, 1}, 25 * 4 * 8 * 9),
        ("CONV_3D", [(1, 4, 4, 4, 2), (3, 3, 3, 2, 8)], (1, 4, 4, 4, 8), {1}, 64 * 8 * 54),
        ("SVDF", [(1, 16), (8, 16), (8, 10)], (1, 8), {1, 2}, 8 * 16 + 8 * 10),
        ("ADD", [(1, 16), (1, 16)], (1, 16), set(), 0),
        ("SOFTMAX", [(1, 16)], (1, 16), set(), 0),
    ],
)
def test_macs(
    code: str, shapes: list[tuple[int, ...]], output: tuple[int, ...], constants: set[int], macs: int
) -> None:
    small = one(code, shapes, output, constants)
    cost = operator_costs(small)[0]
    assert (cost.macs, cost.known) == (macs, True)
    assert cost.parameter_bytes == sum(prod(shapes[i]) for i in constants)
    assert cost.activation_bytes == sum(prod(s) for i, s in enumerate(shapes) if i not in constants) + prod(output)


@pytest.mark.parametrize(("adj_x", "left"), [(False, (2, 3, 7)), (True, (2, 7, 3))])
def test_batch_matmul_counts_the_contracted_dimension(adj_x: bool, left: tuple[int, ...]) -> None:
    small = one("BATCH_MATMUL", [left, (2, 7, 5)], (2, 3, 5), set(), adj_x=adj_x, adj_y=False)
    assert operator_costs(small)[0].macs == 2 * 3 * 5 * 7


def test_lstm_uses_each_matrix_weight_once_a_step() -> None:
    shapes: list[tuple[int, ...]] = [(1, 9, 4), *[(6, 4)] * 4, *[(6, 6)] * 4, *[(6,)] * 4, (1, 6), (1, 6)]
    small = one("UNIDIRECTIONAL_SEQUENCE_LSTM", shapes, (1, 9, 6), set(range(1, 13)))
    assert operator_costs(small)[0].macs == 9 * 4 * (6 * 4 + 6 * 6)


def test_an_operator_without_an_entry_is_counted_in_bytes_and_not_known() -> None:
    cost = operator_costs(one("CUSTOM", [(1, 16)], (1, 4), set()))[0]
    assert (cost.known, cost.macs, cost.memory_bytes) == (False, 0, 20)


def test_a_tensor_used_twice_is_touched_once() -> None:
    small = model(graph([tensor(0, 16), tensor(1, 16)], [operator(0, "MUL", [0, 0], [1])], [0], [1]))
    assert operator_costs(small)[0].activation_bytes == 32


def weights_per_position(op: Operator, small: Model) -> int:
    """The second formula: every weight is used once for each position that it meets."""
    tensors = (
        small.main.tensors
        if op in small.main.operators
        else next(g for g in small.subgraphs if op in g.operators).tensors
    )
    shapes = [tensors[i].shape if i >= 0 else () for i in op.inputs]
    output = tensors[op.outputs[0]].shape if op.outputs else ()
    match op.code:
        case "CONV_2D":
            return prod(shapes[1]) * prod(output[:-1])
        case "DEPTHWISE_CONV_2D":
            return prod(shapes[1]) * prod(output[:-1])
        case "FULLY_CONNECTED":
            return prod(shapes[1]) * (prod(shapes[0]) // shapes[1][-1])
        case "TRANSPOSE_CONV":
            return prod(shapes[1]) * prod(shapes[2][:-1])
        case "SVDF":
            return shapes[0][0] * (prod(shapes[1]) + prod(shapes[2]))
        case "BATCH_MATMUL":
            return prod(shapes[0]) * output[-1]
        case "UNIDIRECTIONAL_SEQUENCE_LSTM":
            gates = [prod(shapes[i]) for i in range(1, 9) if shapes[i]]
            return shapes[0][0] * shapes[0][1] * sum(gates)
        case _:
            return 0


@over_models(model_files())
def test_real_files_agree_with_a_second_formula(path: Path) -> None:
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    from edgetool.model.reader import read_model

    blob = path.read_bytes()
    small = read_model(blob)
    costs = iter(operator_costs(small))
    peer = schema.Model.GetRootAs(blob, 0)
    for g in small.subgraphs:
        peer_graph = peer.Subgraphs(g.index)
        for op in g.operators:
            cost = next(costs)
            peer_op = peer_graph.Operators(op.index)
            indices = {peer_op.Inputs(i) for i in range(peer_op.InputsLength())} - {-1}
            sizes = [peer.Buffers(peer_graph.Tensors(i).Buffer()).DataLength() for i in indices]
            assert cost.macs == weights_per_position(op, small), op
            assert cost.parameter_bytes == sum(sizes), op


def test_parameters_are_trained_constants_each_payload_once() -> None:
    tensors = [
        tensor(0, 4),
        tensor(1, 16, data=bytes(64), dtype=DType.FLOAT32, buffer=7),
        tensor(2, 16, data=bytes(64), dtype=DType.FLOAT32, buffer=7),
        tensor(3, 8, data=bytes(32), dtype=DType.FLOAT32),
        tensor(4, 4, data=bytes(16), dtype=DType.INT32),
        tensor(5, 4),
    ]
    assert parameter_count(model(graph(tensors, [operator(0, "ADD_N", [0, 1, 2, 3], [5])], [0], [5]))) == 16 + 8


def test_every_builtin_operator_that_the_runtime_has_is_in_the_registry() -> None:
    from edgetool.target.load import load_target

    assert set(load_target("cortex-m7").runtime.operators) <= set(OPERATORS)
