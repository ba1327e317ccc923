"""Loops and branches over tensors of several sizes, resource variables, and what runs once.

Counts of operators that run subgraphs are without those of the operators in them.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

INT8, INT32, FLOAT32, BOOL = DType.INT8, DType.INT32, DType.FLOAT32, DType.BOOL

# The turns, the shapes of the tensors beside the counter, and the operators of the body beside that which counts.
LOOPS: tuple[tuple[int, tuple[tuple[int, ...], ...], int], ...] = (
    (0, ((4,),), 1),
    (1, ((4,),), 1),
    (5, ((4,),), 1),
    (3, ((1, 16), (1, 16), (1, 8, 12)), 4),
    (6, ((1, 33), (2, 5)), 2),
    (2, ((1, 10, 10, 3),), 8),
    (4, ((7,), (3, 3), (1, 1, 20), (1, 2, 2, 9)), 3),
    (8, (), 0),
    (10, ((1, 24), (1, 24)), 12),
    (3, ((500,), (1, 40)), 2),
    (7, ((2, 3, 4), (60,), (1, 5)), 6),
    (4, ((1, 3), (9,)), 1),
    (2, ((2, 2), (31,), (1, 1, 1)), 10),
    (9, ((1, 6),), 4),
)
BRANCHES: tuple[tuple[tuple[tuple[int, ...], ...], int], ...] = (
    (((4,),), 1),
    (((1, 16), (1, 30)), 3),
    (((1, 8, 8, 4),), 5),
    (((3,), (1, 7), (2, 2, 2)), 2),
    (((1, 400),), 1),
    (((1, 5), (1, 5), (1, 5), (1, 5)), 8),
    (((1, 12, 3), (100,)), 12),
    ((), 0),
    (((1,), (2,), (3,), (5,), (6,)), 0),
    (((1, 16),), 16),
    (((2, 2, 2, 2, 2), (10,)), 4),
    (((1, 1, 64), (7, 7), (1, 90)), 1),
    (((1, 17), (1, 19), (1, 23)), 10),
)
VALUES: tuple[tuple[int, ...], ...] = ((1,), (2, 3), (1, 16), (5, 5, 3), (1, 4, 4, 10), (300,), (1, 33))


def loop(number: int, shapes: tuple[tuple[int, ...], ...], operators: int) -> Model:
    """WHILE with a counter."""
    net = Net(51)
    counter, limit = net.constant([0]), number

    def tensors() -> list[int]:
        return [net.arena(1, dtype=INT32), *(net.arena(*shape, dtype=FLOAT32) for shape in shapes)]

    inputs, outputs = tensors()[1:], tensors()
    net.give("WHILE", [counter, *inputs], outputs, cond_subgraph_index=1, body_subgraph_index=2)
    net.end_graph(inputs, outputs)
    given = tensors()
    net.end_graph(given, [net.op("LESS", [given[0], net.constant([limit])], dtype=BOOL)])
    given = tensors()
    made = [net.op("ADD", [given[0], net.constant([1])]), *given[1:]]
    for turn in range(operators if shapes else 0):
        at = 1 + turn % len(shapes)
        made[at] = net.op("ABS", [made[at]])
    net.end_graph(given, made)
    return net.whole()


def branch(shapes: tuple[tuple[int, ...], ...], operators: int) -> Model:
    """IF with branches of the same length."""
    net = Net(52)

    def tensors() -> list[int]:
        return [net.arena(*shape, dtype=FLOAT32) for shape in shapes]

    flag, inputs, outputs = net.arena(1, dtype=BOOL), tensors(), tensors()
    net.give("IF", [flag, *inputs], outputs, then_subgraph_index=1, else_subgraph_index=2)
    net.end_graph([flag, *inputs], outputs)
    for _ in range(2):
        given = tensors()
        made = list(given)
        for turn in range(operators):
            made[turn % len(shapes)] = net.op("ABS", [made[turn % len(shapes)]])
        net.end_graph(given, made)
    return net.whole()


def _handle(net: Net, name: str) -> int:
    handle = net.arena(dtype=DType.RESOURCE)
    net.give("VAR_HANDLE", [], [handle], container="", shared_name=name)
    return handle


def variables(dtype: DType) -> Model:
    """ASSIGN_VARIABLE and READ_VARIABLE of each shape."""
    net = Net(53)
    inputs, outputs = [], []
    for at, shape in enumerate(VALUES):
        x, y = net.arena(*shape, dtype=dtype), net.arena(*shape, dtype=dtype)
        handle = _handle(net, f"v{at}")
        net.give("ASSIGN_VARIABLE", [handle, x], [])
        net.give("READ_VARIABLE", [handle], [y])
        inputs.append(x)
        outputs.append(y)
    return net.model(inputs, outputs)


def again() -> Model:
    """CALL_ONCE alone: what is counted for it is its second run in `once`."""
    net = Net(55)
    x = net.arena(1)
    net.give("CALL_ONCE", [], [], init_subgraph_index=1)
    net.end_graph([x], [x])
    net.give("ASSIGN_VARIABLE", [_handle(net, "v"), net.noise(3, dtype=FLOAT32)], [])
    net.end_graph([], [])
    return net.whole()


def once() -> Model:
    """CALL_ONCE in the body of a loop: from the second turn on it does nothing more."""
    net = Net(54)
    x, outputs = net.arena(2, dtype=FLOAT32), [net.arena(1, dtype=INT32), net.arena(2, dtype=FLOAT32)]
    net.give("WHILE", [net.constant([0]), x], outputs, cond_subgraph_index=1, body_subgraph_index=2)
    net.end_graph([x], outputs)
    given = [net.arena(1, dtype=INT32), net.arena(2, dtype=FLOAT32)]
    net.end_graph(given, [net.op("LESS", [given[0], net.constant([4])], dtype=BOOL)])
    given = [net.arena(1, dtype=INT32), net.arena(2, dtype=FLOAT32)]
    net.give("CALL_ONCE", [], [], init_subgraph_index=3)
    net.end_graph(given, [net.op("ADD", [given[0], net.constant([1])]), net.op("ABS", [given[1]])])
    net.give("ASSIGN_VARIABLE", [_handle(net, "v"), net.noise(3, dtype=FLOAT32)], [])
    net.end_graph([], [])
    return net.whole()


CASES: dict[str, Callable[[], Model]] = {
    **{f"loop-{at}": lambda given=given: loop(*given) for at, given in enumerate(LOOPS)},
    **{f"branch-{at}": lambda given=given: branch(*given) for at, given in enumerate(BRANCHES)},
    **{f"variables-{dtype.name.lower()}": lambda dtype=dtype: variables(dtype) for dtype in (INT8, FLOAT32)},
    "once": once,
    "again": again,
}
