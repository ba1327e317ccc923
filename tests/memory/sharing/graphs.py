"""Ranges and graphs for the tests of sharing: drawn at random, and a small training graph."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import strategies as st

from edgetool.memory.sharing.graph import NamedOperator, SharingGraph, SubgraphCall
from edgetool.memory.sharing.types import LiveRange

SIZES = st.sampled_from([1, 2, 3, 5, 8, 10, 16, 40])


@st.composite
def ranges(draw: st.DrawFn, most: int = 12, *, unknowns: bool = True) -> dict[str, LiveRange]:
    found = {}
    for index in range(draw(st.integers(0, most))):
        defined = draw(st.integers(0, 8))
        used = draw(st.integers(defined, 10))
        unknown = draw(st.sampled_from(["", "", "", "", "d", "u", "s"])) if unknowns else ""
        found[f"t{index}"] = LiveRange(
            None if unknown == "d" else defined,
            None if unknown == "u" else used,
            None if unknown == "s" else draw(SIZES),
        )
    return found


@st.composite
def dags(draw: st.DrawFn, most: int = 8) -> SharingGraph:
    """Operators that read what there is and write something new, or now and then something old."""
    names = ["in0", "in1"]
    operators = []
    for index in range(draw(st.integers(1, most))):
        inputs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        count = draw(st.integers(1, 2))
        outputs = [f"t{index}_{k}" for k in range(count)]
        if draw(st.integers(0, 7)) == 0:
            outputs[0] = draw(st.sampled_from(names))
        names += [name for name in outputs if name not in names]
        operators.append(NamedOperator(f"op{index}", tuple(inputs), tuple(outputs)))
    outputs = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    return SharingGraph(tuple(operators), ("in0", "in1"), tuple(outputs))


@st.composite
def loops(draw: st.DrawFn) -> SharingGraph:
    """A graph whose operators run others, bound to some of their tensors."""
    graph = draw(dags(5))
    operators = list(graph.operators)
    for index, operator in enumerate(operators):
        if draw(st.booleans()):
            calls = []
            for _ in range(draw(st.integers(1, 2))):
                body = draw(dags(3))
                outer = [*operator.inputs, *operator.outputs]
                inner = ["in0", "in1", *(name for op in body.operators for name in op.outputs)]
                pairs = draw(st.lists(st.tuples(st.sampled_from(inner), st.sampled_from(outer)), max_size=3))
                calls.append(SubgraphCall(body, tuple({name: (name, other) for name, other in pairs}.values())))
            operators[index] = NamedOperator(operator.name, operator.inputs, operator.outputs, tuple(calls))
    return SharingGraph(tuple(operators), graph.inputs, graph.outputs)


def training_graph(layers: Sequence[int]) -> tuple[SharingGraph, dict[str, int], list[str]]:
    """A dense network of these widths with its backward pass: graph, sizes, and the gradients of activations.

    Layer i: y(i+1) = relu(y(i) W(i)). Backward: the gradient before the activation, then those of weights and input.
    """
    operators, sizes, gradients = [], {"y0": 4 * layers[0], "labels": 4 * layers[-1], "loss": 4}, []
    for i, (width, wider) in enumerate(pairwise(layers)):
        operators.append(NamedOperator(f"dense{i}", (f"y{i}", f"w{i}"), (f"z{i}",)))
        operators.append(NamedOperator(f"relu{i}", (f"z{i}",), (f"y{i + 1}",)))
        sizes |= {f"w{i}": 4 * width * wider, f"z{i}": 4 * wider, f"y{i + 1}": 4 * wider}
    last = len(layers) - 1
    operators.append(NamedOperator("loss", (f"y{last}", "labels"), ("loss", f"y{last}_grad")))
    for i in reversed(range(last)):
        operators.append(NamedOperator(f"relu{i}_back", (f"z{i}", f"y{i + 1}_grad"), (f"z{i}_grad",)))
        operators.append(NamedOperator(f"dense{i}_w", (f"y{i}", f"z{i}_grad"), (f"w{i}_grad",)))
        operators.append(NamedOperator(f"dense{i}_x", (f"w{i}", f"z{i}_grad"), (f"y{i}_grad",)))
        operators.append(NamedOperator(f"step{i}", (f"w{i}", f"w{i}_grad"), (f"w{i}",)))
    for name in [name for op in operators for name in op.outputs if name.endswith("_grad")]:
        sizes[name] = sizes[name.removesuffix("_grad")]
        if not name.startswith("w"):
            gradients.append(name)
    weights = tuple(f"w{i}" for i in range(last))
    return SharingGraph(tuple(operators), ("y0", "labels", *weights), ("loss", *weights)), sizes, gradients
