"""Models whose structure is what matters: subgraphs, variables, dead and shared tensors, long chains, many requests."""

from __future__ import annotations

from collections.abc import Callable

from edgetool.model.types import DType, Model
from tests.memory.account_net import Net

FLOAT32, INT8, INT16, INT32, BOOL = DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.BOOL


def branches() -> Model:
    """IF within a branch of an IF; the branches need scratch and tensors of their own."""
    net = Net(1)
    flag, x, y = net.arena(1, dtype=BOOL), net.arena(1, 4, 4, 3, dtype=FLOAT32), net.arena(1, 2, dtype=FLOAT32)
    net.give("IF", [flag, flag, net.op("ABS", [x])], [y], then_subgraph_index=1, else_subgraph_index=2)
    net.end_graph([flag, x], [y])
    flag, x, y = net.arena(1, dtype=BOOL), net.arena(1, 4, 4, 3, dtype=FLOAT32), net.arena(1, 2, dtype=FLOAT32)
    net.give("IF", [flag, flag, x], [y], then_subgraph_index=3, else_subgraph_index=2)
    net.end_graph([flag, x], [y])
    for index in (2, 3):
        flag, x = net.arena(1, dtype=BOOL), net.arena(1, 4, 4, 3, dtype=FLOAT32)
        z = net.op("MEAN", [x, net.constant([1, 2])], 1, 3, keep_dims=False)
        for _ in range(index):
            z = net.op("ADD", [z, z])
        y = net.op("SLICE", [z, net.constant([0, 1]), net.constant([1, 2])], 1, 2)
        net.end_graph([flag, x], [y])
    return net.whole()


def loop() -> Model:
    """WHILE with a counter, whose body convolves."""
    net = Net(2)
    count, x = net.arena(1, dtype=INT32), net.arena(1, 5, 5, 2)
    outputs = [net.arena(1, dtype=INT32), net.arena(1, 5, 5, 2)]
    net.give("WHILE", [count, x], outputs, cond_subgraph_index=1, body_subgraph_index=2)
    net.end_graph([count, x], outputs)
    count, x = net.arena(1, dtype=INT32), net.arena(1, 5, 5, 2)
    net.end_graph([count, x], [net.op("LESS", [count, net.constant([3])], dtype=BOOL)])
    count, x = net.arena(1, dtype=INT32), net.arena(1, 5, 5, 2)
    y = net.conv(x, 2)
    net.end_graph([count, x], [net.op("ADD", [count, net.constant([1])]), y])
    return net.whole()


def variables() -> Model:
    """Two resource variables, of which CALL_ONCE sets one before the first run."""
    net = Net(3)
    x = net.arena(2, 3, dtype=FLOAT32)
    net.give("CALL_ONCE", [], [], init_subgraph_index=1)
    first, second = _handle(net, "first"), _handle(net, "second")
    y = net.arena(2, 3, dtype=FLOAT32)
    net.give("READ_VARIABLE", [first], [y])
    net.give("ASSIGN_VARIABLE", [second, net.op("ADD", [x, y])], [])
    z = net.arena(2, 3, dtype=FLOAT32)
    net.give("READ_VARIABLE", [second], [z])
    net.end_graph([x], [z])
    net.give("ASSIGN_VARIABLE", [_handle(net, "first"), net.noise(2, 3, dtype=FLOAT32)], [])
    net.end_graph([], [])
    return net.whole()


def _handle(net: Net, name: str) -> int:
    handle = net.arena(dtype=DType.RESOURCE)
    net.give("VAR_HANDLE", [], [handle], container="", shared_name=name)
    return handle


def graph_without_inputs() -> Model:
    """No input at all: constants and a fill."""
    net = Net(4)
    y = net.op("FILL", [net.constant([2, 5]), net.scalar(7)], 2, 5, dtype=INT32)
    return net.model([], [net.op("ADD", [y, net.constant([1] * 5, 1, 5)])])


def many_inputs_and_outputs() -> Model:
    """Nine inputs of all types, each given out, and used once or not at all."""
    net = Net(5)
    inputs = [net.arena(1, size, dtype=dtype) for size in (3, 17, 40) for dtype in (INT8, INT16, FLOAT32)]
    return net.model(inputs, [*(net.op("RELU", [x]) for x in inputs[:6]), inputs[7]])


def dead_tensors() -> Model:
    """Tensors that nothing uses, an output that nothing reads, and a variable that nothing touches."""
    net = Net(6)
    x = net.arena(1, 6, 6, 2)
    net.arena(1, 500)
    net.op("RELU", [x])
    net.arena(70, is_variable=True)
    net.arena(0, 4)
    net.noise(33)
    return net.model([x], [net.conv(x, 4)])


def shared_tensors() -> Model:
    """One tensor for many operators; weights and biases used three times; a graph input that is an output."""
    net = Net(7)
    x = net.arena(1, 8, 8, 4)
    weights, bias = net.filter(4, 3, 3, 4, like=x), net.biases(4, like=x)
    sums = x
    for _ in range(3):
        y = net.op("CONV_2D", [x, weights, bias], padding="SAME", stride_w=1, stride_h=1)
        sums = net.add(sums, y)
    return net.model([x], [sums, x, net.add(sums, sums)])


def long_chain() -> Model:
    """A hundred operators in a row, of sizes that rise and fall."""
    net = Net(8)
    first = x = net.arena(1, 3, 3, 2)
    for index in range(100):
        x = net.conv(x, 2 + index * 7 % 11, kernel=1) if index % 2 else net.op("RELU", [x])
    return net.model([first], [x])


def many_requests() -> Model:
    """Thirty operators with three scratch buffers each, and one whose buffer has a pointer to each of its inputs."""
    net = Net(9)
    first = x = net.arena(1, 6, 6, 3)
    found = []
    for _ in range(30):
        found.append(net.op("SUM", [x, net.constant([1, 2])], 1, 1, 1, 3, keep_dims=True))
        x = net.op("RELU", [x])
    return net.model([first], [net.op("ADD_N", found[:9]), net.op("CONCATENATION", found[9:19], 1, 1, 10, 3, axis=2)])


def tiny() -> Model:
    """One operator on one byte: Prepare sets the size of the arena, not the run."""
    net = Net(10)
    x = net.arena(1)
    return net.model([x], [net.op("RELU", [x])])


def wide() -> Model:
    """Twenty tensors alive at once, of sizes that leave gaps."""
    net = Net(11)
    x = net.arena(1, 40)
    parts = [net.op("SLICE", [x, net.constant([0, index]), net.constant([1, index + 1])], 1, index + 1)
             for index in range(20)]  # fmt: skip
    y = net.op("CONCATENATION", parts[:10], 1, 55, axis=1)
    return net.model([x], [net.op("CONCATENATION", [y, *parts[10:19]], 1, 190, axis=1), parts[19]])


MODELS: dict[str, Callable[[], Model]] = {
    make.__name__: make
    for make in (branches, loop, variables, graph_without_inputs, many_inputs_and_outputs, dead_tensors, shared_tensors,
                 long_chain, many_requests, tiny, wide)
}  # fmt: skip
