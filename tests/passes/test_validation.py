"""Damaged models: nothing of theirs makes a rewrite fail, and what is done to them can be written.

Models that no converter writes: rewrites do not change them, or change only their valid operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from edgetool.errors import EdgetoolError, ModelError
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model, Quantization
from edgetool.model.writer import write_model
from edgetool.operators.legality import unsupported_operators
from edgetool.passes.legalize import STRUCTURE_RULES, legalize
from tests.model.mutants import mutants
from tests.passes.chains import INT8, Chain
from tests.passes.runs import Net, runtime
from tests.passes.test_folding import flatten
from tests.passes.test_legalize import CASES, tile, upsampling
from tests.passes.test_selection import one_hot, top_k

MUTANTS = 12
DAMAGED: dict[str, Callable[[], Model]] = {
    **{name: build for name, (build, _) in CASES.items() if not name.endswith(("int8", "floats"))},
    "top k": lambda: top_k([2, 6], 2, DType.INT8),
    "one hot": lambda: one_hot(-1, [2, 3, 5], DType.FLOAT32, 1, 0),
    "flattened": flatten,
}


@pytest.mark.parametrize("build", DAMAGED.values(), ids=DAMAGED)
def test_damaged_models_are_rewritten_or_left(build: Callable[[], Model]) -> None:
    for blob in mutants(write_model(build()), MUTANTS, seed=1):
        try:
            model = read_model(blob, name="mutant")
        except ModelError:
            continue
        result = legalize(model, runtime(), rules=STRUCTURE_RULES).model
        scales = [t.quantization.scales for g in result.subgraphs for t in g.tensors if t.quantization is not None]
        if not model.unknown_fields and not any(math.isnan(scale) for own in scales for scale in own):
            assert read_model(write_model(result), name="legal") == result


def with_tensor(model: Model, index: int, **changes: object) -> Model:
    tensors = list(model.main.tensors)
    tensors[index] = replace(tensors[index], **changes)  # type: ignore[arg-type]
    return replace(model, subgraphs=(replace(model.main, tensors=tuple(tensors)),))


def with_operator(model: Model, **changes: object) -> Model:
    operators = (replace(model.main.operators[0], **changes), *model.main.operators[1:])  # type: ignore[arg-type]
    return replace(model, subgraphs=(replace(model.main, operators=operators),))


def joined_along(axis: int) -> Model:
    net = Net()
    inputs = [net.input([1, 2], DType.INT8) for _ in range(12)]
    made = net.add_operator("CONCATENATION", inputs, [1, 24], table="ConcatenationOptions", axis=axis)
    return net.model(inputs, made)


CONTRADICTIONS: dict[str, Callable[[], Model]] = {
    "no second input": lambda: with_operator(tile([1, 6], [5, 1], DType.INT8), inputs=(0,)),
    "an input left out": lambda: with_operator(tile([1, 6], [5, 1], DType.INT8), inputs=(0, -1)),
    "another type": lambda: with_tensor(tile([1, 6], [5, 1], DType.INT8), 2, dtype=DType.FLOAT32),
    "another shape": lambda: with_tensor(tile([1, 6], [5, 1], DType.INT8), 2, shape=(5, 7)),
    "another rank": lambda: with_tensor(tile([1, 6], [5, 1], DType.INT8), 0, shape=(6,)),
    "no such axis": lambda: joined_along(2),
    "no options": lambda: with_operator(joined_along(1), options=None),
    "more than there is": lambda: top_k([2, 3], 4, DType.INT8),
}


@pytest.mark.parametrize("build", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_contradictory_operators_are_left_to_the_runtimes(build: Callable[[], Model]) -> None:
    model = build()
    assert legalize(model, runtime(), rules=STRUCTURE_RULES).model is model


def test_an_upsampling_whose_end_contradicts_itself() -> None:
    model = upsampling(DType.INT8)
    last = model.main.outputs[0]
    damaged = with_tensor(model, last, shape=(1, 8, 15, 4))
    codes = [operator.code for operator in legalize(damaged, runtime(), rules=STRUCTURE_RULES).model.main.operators]
    assert "RESIZE_NEAREST_NEIGHBOR" not in codes


SOURCE = (INT8, 0.05, 3)
NET_MUTANTS = 80


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
    for _ in range(NET_MUTANTS):
        broken = mutant(model, random)
        try:
            broken = read_model(write_model(broken))
        except EdgetoolError:
            continue  # no file holds that
        result = legalize(broken, runtime(), allow_approximation=True)
        rewritten += bool(result.applied)
        unsupported_operators(broken, runtime())
        unsupported_operators(read_model(write_model(result.model)), runtime())
    assert rewritten > NET_MUTANTS / 4


def test_operators_out_of_order_are_left_alone() -> None:
    """What an operator reads that a later one writes is what was there before."""
    model = int8_net()
    for wrong in (model.main.operators[::-1], (*model.main.operators, model.main.operators[0])):
        numbered = tuple(replace(operator, index=index) for index, operator in enumerate(wrong))
        broken = replace(model, subgraphs=(replace(model.main, operators=numbered),))
        assert legalize(model, runtime()).applied
        assert legalize(broken, runtime()).model is broken
