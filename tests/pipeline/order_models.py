"""Small models whose operators can run in several orders: branches, several inputs, state, control flow."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from edgetool.model.types import DType, Model
from tests.graphs import graph, model, operator, tensor
from tests.memory.account_convolutions import svdf
from tests.memory.account_net import Net

FLOAT32, BOOL, RESOURCE = DType.FLOAT32, DType.BOOL, DType.RESOURCE
LSTM_STATE = 6


def branching(seed: int) -> Model:
    """Two inputs, twelve operators on what is there already, and every tensor that nobody reads as an output."""
    net = Net(seed)
    inputs = [net.arena(1, 6, 6, 4), net.arena(1, 6, 6, 4)]
    made = list(inputs)
    for _ in range(12):
        x, other = net.random.choice(made[-5:]), net.random.choice(made)
        kind = net.random.randrange(4)
        if kind == 0:
            made.append(net.conv(x, 4, kernel=net.random.choice([1, 3])))
        elif kind == 1:
            made.append(net.depthwise(x))
        elif kind == 2:
            made.append(net.add(x, other))
        else:
            made.append(net.op("RELU", [x]))
    read = {index for operator in net.operators for index in operator.inputs}
    return net.model(inputs, [index for index in made if index not in read and index not in inputs])


def tangle(operators: int, seed: int = 1) -> Model:
    """Operators that read any of the tensors before them: no order of them is proven at once.

    They are of a kind that may make anything of anything.
    """
    rng = random.Random(seed)
    tensors = [tensor(0, 64)]
    made = []
    for index in range(operators):
        recent = range(max(0, len(tensors) - 25), len(tensors))
        inputs = rng.sample(recent, min(len(recent), rng.choice([1, 2, 3])))
        tensors.append(tensor(len(tensors), rng.randint(1, 4000)))
        made.append(operator(index, "IF", inputs, [index + 1]))
    read = {index for op in made for index in op.inputs}
    return model(graph(tensors, made, [0], [item.index for item in tensors[1:] if item.index not in read]))


def two_variables() -> Model:
    """Two resource variables that CALL_ONCE sets; each is read, assigned and read again, and the results are added.

    Operators 0 to 2 set up; first variable: READ 3, ADD 4, ASSIGN 5, READ 6; the second the same, 7 to 10; ADD 11.
    """
    net = Net(1)
    x = net.arena(1, 4, dtype=FLOAT32)
    net.give("CALL_ONCE", [], [], init_subgraph_index=1)
    handles = [_handle(net, "first"), _handle(net, "second")]
    results = []
    for handle in handles:
        old = net.arena(1, 4, dtype=FLOAT32)
        net.give("READ_VARIABLE", [handle], [old])
        net.give("ASSIGN_VARIABLE", [handle, net.op("ADD", [x, old])], [])
        new = net.arena(1, 4, dtype=FLOAT32)
        net.give("READ_VARIABLE", [handle], [new])
        results.append(new)
    net.end_graph([x], [net.op("ADD", results), *results])
    for name in ("first", "second"):
        net.give("ASSIGN_VARIABLE", [_handle(net, name), net.noise(1, 4, dtype=FLOAT32)], [])
    net.end_graph([], [])
    return net.whole()


def _handle(net: Net, name: str) -> int:
    handle = net.arena(dtype=RESOURCE)
    net.give("VAR_HANDLE", [], [handle], container="", shared_name=name)
    return handle


def filters() -> Model:
    """Two float SVDF side by side, each with a variable tensor, and one more after them."""
    net = Net(2)
    x = net.arena(1, 10, dtype=FLOAT32)
    sides = [svdf(net, net.op("RELU", [x]), rank=rank, units=6, memory=5) for rank in (1, 2)]
    return net.model([x], [svdf(net, net.op("ADD", sides), rank=1, units=3, memory=4)])


def lstms() -> Model:
    """Two float LSTM of an input each, with two variable tensors each, added up."""
    net = Net(3)
    inputs = [net.arena(1, 3, 5, dtype=FLOAT32), net.arena(1, 3, 5, dtype=FLOAT32)]
    return net.model(inputs, [net.op("ADD", [_lstm(net, net.op("TANH", [x])) for x in inputs])])


def _lstm(net: Net, x: int) -> int:
    batch, steps, depth = net.tensors[x].shape
    inputs = [
        x,
        *(net.noise(LSTM_STATE, depth, dtype=FLOAT32) for _ in range(4)),
        *(net.noise(LSTM_STATE, LSTM_STATE, dtype=FLOAT32) for _ in range(4)),
        *[-1] * 3,
        *(net.noise(LSTM_STATE, dtype=FLOAT32) for _ in range(4)),
        *[-1] * 2,
        *(net.arena(batch, LSTM_STATE, dtype=FLOAT32, is_variable=True) for _ in range(2)),
        *[-1] * 4,
    ]
    given = {"fused_activation_function": "TANH", "time_major": False, "cell_clip": 0.0, "proj_clip": 0.0}
    return net.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, batch, steps, LSTM_STATE, **given)


def conditional() -> Model:
    """IF beside a branch of its own, both added, and a result that needs neither."""
    net = Net(4)
    flag, x = net.arena(1, dtype=BOOL), net.arena(1, 4, dtype=FLOAT32)
    y = net.arena(1, 4, dtype=FLOAT32)
    net.give("IF", [flag, x], [y], then_subgraph_index=1, else_subgraph_index=2)
    side = net.op("NEG", [net.op("EXP", [x])])
    net.end_graph([flag, x], [net.op("ADD", [y, side]), net.op("ABS", [x])])
    for code in ("ABS", "NEG"):
        x = net.arena(1, 4, dtype=FLOAT32)
        net.end_graph([x], [net.op(code, [x])])
    return net.whole()


MODELS: dict[str, Callable[[], Model]] = {
    **{f"branching_{seed}": partial(branching, seed) for seed in range(3)},
    **{make.__name__: make for make in (two_variables, filters, lstms, conditional)},
}
