"""Control flow and resource variables; the helper operators in their subgraphs have no kernel in CMSIS-NN."""

from __future__ import annotations

from random import Random

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.drawing import (
    ANY,
    BOOL,
    INT8,
    INT16,
    INT32,
    TYPES,
    UINT8,
    Shape,
    any_shape,
    by_type,
    constant,
    finished,
    net_of,
    scale,
    zero_point,
)
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

RESOURCE = DType.RESOURCE
CONTAINERS = ("", "first", "second")


class _Kind:
    """A type with one quantization for all tensors of a model, which subgraphs and variables copy without rescaling."""

    def __init__(self, random: Random, kind: str) -> None:
        self.dtype = TYPES[kind]
        quantized = self.dtype in (INT8, INT16, UINT8)
        self.scale = scale(random) if quantized else None
        self.zero = zero_point(random, self.dtype)

    def tensor(self, net: Net, dims: Shape) -> int:
        """Add a tensor in the arena."""
        return net.arena(*dims, dtype=self.dtype, scale=self.scale, zero_point=self.zero)

    def constant(self, net: Net, random: Random, dims: Shape) -> int:
        """Add a constant."""
        scales = () if self.scale is None else (self.scale,)
        return constant(net, random, dims, self.dtype, scales=scales, zero=self.zero)


def _shapes(random: Random, most: int) -> list[Shape]:
    return [any_shape(random, elements=120) for _ in range(random.randint(1, most))]


def _reversed(net: Net, random: Random, kind: _Kind, x: int) -> int:
    """Add a REVERSE_V2 of one axis."""
    dims = net.tensors[x].shape
    y = kind.tensor(net, dims)
    net.give("REVERSE_V2", [x, net.constant([random.randrange(len(dims))])], [y])
    return y


def _changed(net: Net, random: Random, kind: _Kind, tensors: list[int]) -> list[int]:
    """Return tensors of the same shapes: the same ones, constants or reversed ones."""
    made = []
    for x in tensors:
        form = random.random()
        if form < 0.7:
            made.append(_reversed(net, random, kind, x))
        elif form < 0.8:
            made.append(kind.constant(net, random, net.tensors[x].shape))
        else:
            made.append(x)
    return made


def _if(code: str, name: str, random: Random) -> Model:
    """IF with a condition from outside or a constant; a branch passes on its inputs, reverses or replaces them."""
    net, kind, shapes = net_of(random), _Kind(random, name), _shapes(random, 3)
    one = random.choice(((), (1,)))
    known = random.random() < 0.1
    flag = constant(net, random, one, BOOL) if known else net.arena(*one, dtype=BOOL)
    inputs, outputs = ([kind.tensor(net, dims) for dims in shapes] for _ in range(2))
    branches = random.choice(((1, 2), (1, 2), (2, 1), (1, 1)))
    net.give(code, [flag, *inputs], outputs, then_subgraph_index=branches[0], else_subgraph_index=branches[1])
    net.end_graph(inputs if known else [flag, *inputs], outputs)
    for _ in range(max(branches)):
        given = [kind.tensor(net, dims) for dims in shapes]
        net.end_graph(given, _changed(net, random, kind, given))
    return net.whole()


def _while(code: str, name: str, random: Random) -> Model:
    """WHILE that counts up or down, and changes other tensors in each of 0 to 4 turns."""
    net, kind, shapes = net_of(random), _Kind(random, name), _shapes(random, 3)
    turns, up = random.randint(0, 4), random.random() < 0.5
    first, last = (0, turns) if up else (turns, 0)
    inputs = [kind.tensor(net, dims) for dims in shapes]
    outputs = [net.arena(1, dtype=INT32), *(kind.tensor(net, dims) for dims in shapes)]
    net.give(code, [net.constant([first]), *inputs], outputs, cond_subgraph_index=1, body_subgraph_index=2)
    net.end_graph(inputs, outputs)

    count, *given = net.arena(1, dtype=INT32), *(kind.tensor(net, dims) for dims in shapes)
    goes_on = net.op("LESS" if up else "GREATER", [count, net.constant([last])], 1, dtype=BOOL)
    net.end_graph([count, *given], [goes_on])

    count, *given = net.arena(1, dtype=INT32), *(kind.tensor(net, dims) for dims in shapes)
    counted = net.op("SUB", [count, net.constant([-1 if up else 1])], 1)
    net.end_graph([count, *given], [counted, *_changed(net, random, kind, given)])
    return net.whole()


def _handle(net: Net, name: tuple[str, str], dtype: DType = RESOURCE) -> int:
    handle = net.arena(dtype=dtype)
    net.give("VAR_HANDLE", [], [handle], container=name[0], shared_name=name[1])
    return handle


def _read(net: Net, kind: _Kind, name: tuple[str, str], dims: Shape) -> int:
    y = kind.tensor(net, dims)
    net.give("READ_VARIABLE", [_handle(net, name)], [y])
    return y


def _assign(code: str, name: str, random: Random) -> Model:
    """ASSIGN_VARIABLE, whose handle may be int32, and READ_VARIABLE behind it."""
    net, kind = net_of(random), _Kind(random, name)
    for number, dims in enumerate(_shapes(random, 3)):
        variable = random.choice(CONTAINERS), f"variable_{number}"
        value = kind.constant(net, random, dims) if random.random() < 0.1 else kind.tensor(net, dims)
        if random.random() < 0.3:
            net.give(code, [_handle(net, variable, INT32), value], [])
            _read(net, kind, variable, dims)
        else:
            handle, y = _handle(net, variable), kind.tensor(net, dims)
            net.give(code, [handle, value], [])
            net.give("READ_VARIABLE", [handle], [y])
    return finished(net)


def _read_first(code: str, name: str, random: Random) -> Model:
    """READ_VARIABLE of the initial value, which is the zero point, before ASSIGN_VARIABLE; then once more."""
    net, kind = net_of(random), _Kind(random, name)
    for number, dims in enumerate(_shapes(random, 2)):
        variable = random.choice(CONTAINERS), f"variable_{number}"
        handle, y = _handle(net, variable), kind.tensor(net, dims)
        net.give(code, [handle], [y])
        net.give("ASSIGN_VARIABLE", [handle, kind.tensor(net, dims)], [])
        if random.random() < 0.5:
            _read(net, kind, variable, dims)
    return finished(net)


def _handles(random: Random) -> Model:
    """VAR_HANDLE of variables that share a name or a container, or are the same."""
    net, kind, dims = net_of(random), _Kind(random, "float32"), any_shape(random, elements=60)
    variables = [(random.choice(CONTAINERS), random.choice(("a", "b"))) for _ in range(random.randint(1, 4))]
    for variable in variables:
        net.give("ASSIGN_VARIABLE", [_handle(net, variable), kind.tensor(net, dims)], [])
    for variable in variables:
        _read(net, kind, variable, dims)
    return finished(net)


def _once(code: str, name: str, random: Random) -> Model:
    """CALL_ONCE of a subgraph that assigns constants, some of which the main graph then replaces."""
    net, kind, shapes = net_of(random), _Kind(random, name), _shapes(random, 3)
    variables = [((random.choice(CONTAINERS), f"variable_{number}"), dims) for number, dims in enumerate(shapes)]
    net.give(code, [], [], init_subgraph_index=1)
    inputs, outputs = [], []
    for variable, dims in variables:
        outputs.append(_read(net, kind, variable, dims))
        if random.random() < 0.5:
            inputs.append(kind.tensor(net, dims))
            net.give("ASSIGN_VARIABLE", [_handle(net, variable), inputs[-1]], [])
    net.end_graph(inputs, outputs)
    for variable, dims in variables:
        net.give("ASSIGN_VARIABLE", [_handle(net, variable), kind.constant(net, random, dims)], [])
    net.end_graph([], [])
    return net.whole()


GENERATORS: Generators = {
    **by_type(_if, {"IF": ANY}),
    **by_type(_while, {"WHILE": ANY}),
    **by_type(_assign, {"ASSIGN_VARIABLE": ANY}),
    **by_type(_read_first, {"READ_VARIABLE": ANY}),
    **by_type(_once, {"CALL_ONCE": ANY}),
    ("VAR_HANDLE", "resource"): _handles,
}
