"""Models that no converter writes: rewrites do not change them, or change only their valid operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from edgetool.errors import EdgetoolError
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model, Quantization
from edgetool.model.writer import write_model
from edgetool.operators.legality import unsupported_operators
from edgetool.passes.legalize import legalize
from tests.passes.chains import INT8, Chain
from tests.passes.runs import Net, runtime

SOURCE = (INT8, 0.05, 3)
MUTANTS = 80


@pytest.mark.parametrize("code", ["ABS", "EXP", "GELU", "RSQRT", "RESHAPE", "TILE"])
def test_an_operator_without_outputs(code: str) -> None:
    chain = Chain([1, 16])
    x = chain.made(SOURCE)
    model = chain.model([x], [chain.step("ABS", [x], SOURCE)])
    graph = model.main
    broken = tuple(replace(operator, code=code, options=None, outputs=()) for operator in graph.operators)
    model = replace(model, subgraphs=(replace(graph, operators=broken),))
    assert [operator.outputs for operator in legalize(model, runtime()).model.main.operators] == [()] * len(broken)


def float_net() -> Model:
    """A few operators of each kind that rewrites look at, mostly illegal."""
    net = Net()
    x = net.input([1, 4, 4, 3], DType.FLOAT32)
    tiled = net.add_operator("TILE", [x, net.constant([1, 2, 1, 1])], [1, 8, 4, 3])[0]
    turned = net.add_operator("TRANSPOSE", [tiled, net.constant([0, 2, 1, 3])], [1, 4, 8, 3])[0]
    power = net.add_operator("POW", [turned, net.constant(3, DType.FLOAT32)], [1, 4, 8, 3], table="PowOptions")[0]
    flat = net.reshape(power, [96])
    order = net.add_operator("RANGE", [net.constant(0), net.constant(4), net.constant(1)], [4], table="RangeOptions")[0]
    taken = net.add_operator("GATHER", [flat, order], [4], table="GatherOptions")[0]
    classes = net.add_operator("CAST", [taken], [4], dtype=DType.INT32, table="CastOptions")[0]
    values = [net.constant(1, DType.FLOAT32), net.constant(0, DType.FLOAT32)]
    hot = net.add_operator(
        "ONE_HOT", [classes, net.constant(5), *values], [4, 5], dtype=DType.FLOAT32, table="OneHotOptions", axis=-1
    )
    shape = net.add_operator("BROADCAST_ARGS", [net.constant([4, 1]), net.constant([1, 5])], [2])[0]
    return net.model([x], [*hot, *net.add_operator("BROADCAST_TO", [hot[0], shape], [4, 5])])


def int8_net() -> Model:
    """A chain that becomes a table, one with a branch, and a table's neighbours."""
    chain = Chain([1, 16])
    x, kind = chain.made(SOURCE), (INT8, 0.03, -5)
    logs = chain.step("LOG", [chain.step("ADD", [chain.step("EXP", [x], kind), chain.number(3, kind)], kind)], kind)
    power = chain.step("LEAKY_RELU", [chain.step("SQUARE", [logs], kind)], kind, alpha=1.0)
    return chain.model([x], [chain.step("GELU", [chain.step("MAXIMUM", [logs, power], kind)], SOURCE)])


def mutant(model: Model, random: Random) -> Model:
    """The model with something that no converter writes in one place or two."""
    graph = model.main
    tensors, operators = list(graph.tensors), list(graph.operators)
    for _ in range(random.randint(1, 2)):
        at, which = random.randrange(len(operators)), random.randrange(len(tensors))
        one, tensor, other = operators[at], tensors[which], random.choice([-1, *range(len(tensors))])
        count = random.randint(0, len(one.inputs))
        kind = random.choice(operators)
        match random.randrange(8):
            case 0:
                operators[at] = replace(one, inputs=one.inputs[:count])
            case 1:
                operators[at] = replace(one, inputs=(*one.inputs[:count], other, *one.inputs[count + 1 :]))
            case 2:
                operators[at] = replace(one, outputs=(*one.outputs[:-1], *(other,) * random.randint(0, 2)))
            case 3:
                operators[at] = replace(one, code=kind.code, options=kind.options, opcode_index=kind.opcode_index)
            case 4:
                odd = [None, Quantization((), (), 0, (0.0,), (1.0,)), Quantization((0.5, 0.0), (), 0)]
                tensors[which] = replace(tensor, quantization=random.choice(odd))
            case 5:
                alike = [dtype for dtype in DType if dtype.bits == tensor.dtype.bits]
                tensors[which] = replace(tensor, dtype=random.choice(alike))
            case 6:
                tensors[which] = replace(tensor, shape=random.choice([(1, *tensor.shape), tensor.shape[::-1]]))
            case 7 if tensor.data:
                tensors[which] = replace(tensor, data=random.choice([b"\x00", b"\xff", b"\x7f"]) * len(tensor.data))
    return replace(model, subgraphs=(replace(graph, tensors=tuple(tensors), operators=tuple(operators)),))


@pytest.mark.parametrize("made", [float_net, int8_net])
def test_no_content_of_a_file_raises_an_error(made: Callable[[], Model]) -> None:
    """Neither rewriting it nor telling what of it is illegal; nothing is left to rewrite, and the result is a file."""
    model, random, rewritten = made(), Random(0), 0
    for _ in range(MUTANTS):
        broken = mutant(model, random)
        try:
            broken = read_model(write_model(broken))
        except EdgetoolError:
            continue  # no file holds that
        result = legalize(broken, runtime(), allow_approximation=True)
        rewritten += bool(result.applied)
        unsupported_operators(broken, runtime())
        unsupported_operators(read_model(write_model(result.model)), runtime())
    assert rewritten > MUTANTS / 4


def test_operators_out_of_order_are_left_alone() -> None:
    """What an operator reads that a later one writes is what was there before."""
    model = int8_net()
    for wrong in (model.main.operators[::-1], (*model.main.operators, model.main.operators[0])):
        numbered = tuple(replace(operator, index=index) for index, operator in enumerate(wrong))
        broken = replace(model, subgraphs=(replace(model.main, operators=numbered),))
        assert legalize(model, runtime()).applied
        assert legalize(broken, runtime()).model is broken
