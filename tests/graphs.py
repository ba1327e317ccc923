"""Small models as values, for tests that need no file."""

from __future__ import annotations

from collections.abc import Sequence

from edgetool.model.types import DType, Graph, Model, Operator, OperatorCode, Options, OptionValue, Tensor


def tensor(
    index: int,
    *shape: int,
    data: bytes | None = None,
    variable: bool = False,
    dtype: DType = DType.INT8,
    buffer: int | None = None,
) -> Tensor:
    """A tensor; a constant has a payload of its own unless `buffer` says otherwise."""
    own = 0 if data is None else index + 1
    return Tensor(
        index, f"t{index}", tuple(shape), dtype, data, None, variable, buffer=own if buffer is None else buffer
    )


def operator(
    index: int, code: str, inputs: Sequence[int], outputs: Sequence[int], table: str = "", **fields: OptionValue
) -> Operator:
    options = Options(table, tuple(fields.items())) if table else None
    return Operator(index, code, 1, tuple(inputs), tuple(outputs), options)


def graph(
    tensors: Sequence[Tensor],
    operators: Sequence[Operator],
    inputs: Sequence[int],
    outputs: Sequence[int],
    index: int = 0,
) -> Graph:
    return Graph(index, f"g{index}", tuple(tensors), tuple(operators), tuple(inputs), tuple(outputs))


def model(*graphs: Graph) -> Model:
    codes = sorted({op.code for g in graphs for op in g.operators})
    return Model(3, "", tuple(OperatorCode(code, 1) for code in codes), tuple(graphs), (None,))


def chain(sizes: Sequence[int], code: str = "RELU") -> Model:
    """Tensors of these sizes, each made from the one before."""
    tensors = [tensor(i, size) for i, size in enumerate(sizes)]
    operators = [operator(i, code, [i], [i + 1]) for i in range(len(sizes) - 1)]
    return model(graph(tensors, operators, [0], [len(sizes) - 1]))
