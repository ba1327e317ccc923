"""Operator graphs in the manner of well-known networks, as order problems: int8 activations, one byte per element.

Converted networks have an operator for each convolution (its activation fused), binary ADD, and n-ary CONCATENATION;
PAD stands apart where TensorFlow's padding does. Weights are constants and do not appear.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from edgetool.memory.order.evaluate import OrderProblem


class Builder:
    """A network under construction: tensors are indices, with height, width and channels."""

    def __init__(self, height: int, width: int, channels: int) -> None:
        self.shapes = [(height, width, channels)]
        self.reads: list[tuple[int, ...]] = []
        self.writes: list[tuple[int, ...]] = []

    def add(self, inputs: tuple[int, ...], shape: tuple[int, int, int]) -> int:
        self.shapes.append(shape)
        self.reads.append(inputs)
        self.writes.append((len(self.shapes) - 1,))
        return len(self.shapes) - 1

    def conv(self, tensor: int, channels: int, stride: int = 1) -> int:
        height, width, _ = self.shapes[tensor]
        return self.add((tensor,), (-(-height // stride), -(-width // stride), channels))

    def depthwise(self, tensor: int, stride: int = 1) -> int:
        return self.conv(tensor, self.shapes[tensor][2], stride)

    pool = relu = depthwise

    def separable(self, tensor: int, channels: int, stride: int = 1) -> int:
        return self.conv(self.depthwise(tensor, stride), channels)

    def sum(self, tensors: list[int]) -> int:
        total = tensors[0]
        for tensor in tensors[1:]:
            total = self.add((total, tensor), self.shapes[total])
        return total

    def concat(self, tensors: list[int]) -> int:
        height, width, _ = self.shapes[tensors[0]]
        return self.add(tuple(tensors), (height, width, sum(self.shapes[tensor][2] for tensor in tensors)))

    def classifier(self, tensor: int, classes: int = 10) -> None:
        channels = self.shapes[tensor][2]
        pooled = self.add((tensor,), (1, 1, channels))
        logits = self.add((pooled,), (1, 1, classes))
        self.add((logits,), (1, 1, classes))

    def problem(self, shuffle: int | None = None) -> OrderProblem:
        count = len(self.reads)
        problem = OrderProblem(
            sizes=tuple(height * width * channels for height, width, channels in self.shapes),
            reads=tuple(self.reads),
            writes=tuple(self.writes),
            after=((),) * count,
            scratch=(0,) * count,
            inputs=(0,),
            outputs=(len(self.shapes) - 1,),
        )
        return problem if shuffle is None else shuffled(problem, shuffle)


def shuffled(problem: OrderProblem, seed: int) -> OrderProblem:
    """The same network with another original order: some topological order, as a converter might choose."""
    draw = random.Random(seed)
    writer = {tensor: operator for operator, tensors in enumerate(problem.writes) for tensor in tensors}
    waiting = [{writer[tensor] for tensor in tensors if tensor in writer} for tensors in problem.reads]
    order: list[int] = []
    left = set(range(len(waiting)))
    while left:
        ready = sorted(operator for operator in left if not waiting[operator] & left)
        order.append(draw.choice(ready))
        left.remove(order[-1])
    return OrderProblem(
        sizes=problem.sizes,
        reads=tuple(problem.reads[operator] for operator in order),
        writes=tuple(problem.writes[operator] for operator in order),
        after=problem.after,
        scratch=tuple(problem.scratch[operator] for operator in order),
        inputs=problem.inputs,
        outputs=problem.outputs,
    )


def watts_strogatz(nodes: int, neighbours: int, rewired: float, draw: random.Random) -> list[set[int]]:
    """The predecessors of each node of a small-world graph, its edges directed from lower to higher."""
    edges = {(node, (node + step) % nodes) for node in range(nodes) for step in range(1, neighbours // 2 + 1)}
    for step in range(1, neighbours // 2 + 1):
        for node in range(nodes):
            old = (node, (node + step) % nodes)
            if draw.random() < rewired and old in edges:
                taken = {other for edge in edges for other in edge if node in edge} | {node}
                edges.remove(old)
                edges.add((node, draw.choice(sorted(set(range(nodes)) - taken))))
    before: list[set[int]] = [set() for _ in range(nodes)]
    for start, end in edges:
        before[max(start, end)].add(min(start, end))
    return before


def randwire(seed: int, size: int = 224, channels: int = 78, stages: int = 3, nodes: int = 32) -> OrderProblem:
    """RandWire (Xie et al. 2019), small regime: WS(nodes, 4, 0.75); a node is sum, ReLU, separable convolution."""
    draw = random.Random(seed)
    net = Builder(size, size, 3)
    tensor = net.separable(net.conv(0, channels // 2, 2), channels, 2)
    for stage in range(stages):
        width = channels * 2**stage
        before = watts_strogatz(nodes, 4, 0.75, draw)
        made: list[int] = []
        for needed in before:
            inputs = [made[other] for other in sorted(needed)] or [tensor]
            made.append(net.separable(net.relu(net.sum(inputs)), width, 1 if needed else 2))
        ends = set(range(nodes)) - {other for needed in before for other in needed}
        tensor = net.sum([made[node] for node in sorted(ends)])
    net.classifier(net.conv(tensor, 1280))
    return net.problem()


def wired(seed: int, nodes: int) -> OrderProblem:
    """A stage of such nodes alone, its tensors of one size: no other part of the network hides how hard it is."""
    net = Builder(8, 8, 16)
    made: list[int] = []
    before = watts_strogatz(nodes, 4, 0.75, random.Random(seed))
    for needed in before:
        inputs = [made[other] for other in sorted(needed)] or [0]
        made.append(net.separable(net.relu(net.sum(inputs)), 16))
    net.sum([made[node] for node in sorted(set(range(nodes)) - {other for needed in before for other in needed})])
    return net.problem()


def nasnet(size: int = 224, filters: int = 44, repeats: int = 4) -> OrderProblem:
    """NASNet-A cells: five sums of pairs of separable convolutions and pools, concatenated."""
    net = Builder(size, size, 3)

    def branch(tensor: int, width: int, stride: int = 1) -> int:
        return net.separable(net.relu(net.separable(net.relu(tensor), width, stride)), width)

    def adjusted(earlier: int, tensor: int, width: int) -> int:
        if net.shapes[earlier][0] == net.shapes[tensor][0]:
            return net.conv(net.relu(earlier), width)
        live = net.relu(earlier)
        halves = [net.conv(net.pool(live, 2), width // 2), net.conv(net.pool(net.depthwise(live), 2), width // 2)]
        return net.concat(halves)

    def normal(tensor: int, earlier: int, width: int) -> tuple[int, int]:
        p = adjusted(earlier, tensor, width)
        h = net.conv(net.relu(tensor), width)
        parts = [
            net.sum([branch(h, width), branch(p, width)]),
            net.sum([branch(p, width), branch(p, width)]),
            net.sum([net.pool(h), p]),
            net.sum([net.pool(p), net.pool(p)]),
            net.sum([branch(h, width), h]),
        ]
        return net.concat([p, *parts]), tensor

    def reduction(tensor: int, earlier: int, width: int) -> tuple[int, int]:
        p = adjusted(earlier, tensor, width)
        h = net.conv(net.relu(tensor), width)
        first = net.sum([branch(h, width, 2), branch(p, width, 2)])
        second = net.sum([net.pool(h, 2), branch(p, width, 2)])
        third = net.sum([net.pool(h, 2), branch(p, width, 2)])
        fourth = net.sum([net.pool(first), second])
        fifth = net.sum([branch(first, width), net.pool(h, 2)])
        return net.concat([second, third, fourth, fifth]), tensor

    tensor, earlier = net.conv(0, 32, 2), 0
    earlier = tensor
    tensor, earlier = reduction(tensor, earlier, filters // 4)
    tensor, earlier = reduction(tensor, earlier, filters // 2)
    for block in range(3):
        for _ in range(repeats):
            tensor, earlier = normal(tensor, earlier, filters * 2**block)
        if block < 2:
            tensor, earlier = reduction(tensor, earlier, filters * 2 ** (block + 1))
    net.classifier(net.relu(tensor), 1000)
    return net.problem()


def darts(size: int = 32, filters: int = 36, cells: int = 8) -> OrderProblem:
    """DARTS-V2 (Liu et al. 2019): cells of four nodes, each the sum of two of separable convolution, skip, pool."""
    net = Builder(size, size, 3)
    tensor = earlier = net.conv(0, filters * 3)
    width, reduced = filters, False

    def branch(source: int, stride: int) -> int:
        return net.separable(net.relu(net.separable(net.relu(source), width, stride)), width)

    def dilated(source: int, stride: int) -> int:
        return net.separable(net.relu(source), width, stride)

    for cell in range(cells):
        reduction = cell in (cells // 3, 2 * cells // 3)
        width *= 2 if reduction else 1
        s0 = net.conv(net.relu(earlier), width, 2 if reduced else 1)
        s1 = net.conv(net.relu(tensor), width)
        if reduction:
            first = net.sum([net.pool(s0, 2), net.pool(s1, 2)])
            second = net.sum([first, net.pool(s1, 2)])
            third = net.sum([net.pool(s0, 2), first])
            fourth = net.sum([first, net.pool(s1, 2)])
        else:
            first = net.sum([branch(s0, 1), branch(s1, 1)])
            second = net.sum([branch(s0, 1), branch(s1, 1)])
            third = net.sum([branch(s1, 1), s0])
            fourth = net.sum([s0, dilated(first, 1)])
        tensor, earlier = net.concat([first, second, third, fourth]), tensor
        reduced = reduction
    net.classifier(tensor)
    return net.problem()


def densenet(size: int = 224, growth: int = 32, blocks: tuple[int, ...] = (6, 12, 24, 16)) -> OrderProblem:
    """DenseNet (Huang et al. 2017); batch norm and ReLU before each convolution stand as operators."""
    net = Builder(size, size, 3)
    tensor = net.pool(net.conv(0, 2 * growth, 2), 2)
    for at, layers in enumerate(blocks):
        for _ in range(layers):
            bottleneck = net.conv(net.relu(net.relu(tensor)), 4 * growth)
            tensor = net.concat([tensor, net.conv(bottleneck, growth)])
        if at < len(blocks) - 1:
            tensor = net.pool(net.conv(net.relu(net.relu(tensor)), net.shapes[tensor][2] // 2), 2)
    net.classifier(tensor, 1000)
    return net.problem()


def inception(size: int = 299) -> OrderProblem:
    """Inception-V3-like: stem, then modules of four branches, some of which fork again."""
    net = Builder(size, size, 3)
    tensor = net.conv(net.conv(net.conv(0, 32, 2), 32), 64)
    tensor = net.pool(net.conv(net.conv(net.pool(tensor, 2), 80), 192), 2)

    def chain(source: int, *widths: int, stride: int = 1) -> int:
        for at, width in enumerate(widths):
            source = net.conv(source, width, stride if at == len(widths) - 1 else 1)
        return source

    for pooled in (32, 64, 64):
        tensor = net.concat(
            [chain(tensor, 64), chain(tensor, 48, 64), chain(tensor, 64, 96, 96), chain(net.pool(tensor), pooled)]
        )
    tensor = net.concat([chain(tensor, 384, stride=2), chain(tensor, 64, 96, 96, stride=2), net.pool(tensor, 2)])
    for width in (128, 160, 160, 192):
        tensor = net.concat(
            [
                chain(tensor, 192),
                chain(tensor, width, width, 192),
                chain(tensor, *[width] * 4, 192),
                chain(net.pool(tensor), 192),
            ]
        )
    tensor = net.concat(
        [chain(tensor, 192, 320, stride=2), chain(tensor, 192, 192, 192, 192, stride=2), net.pool(tensor, 2)]
    )
    for _ in range(2):
        wide, deep = chain(tensor, 384), chain(tensor, 448, 384)
        tensor = net.concat(
            [
                chain(tensor, 320),
                net.concat([chain(wide, 384), chain(wide, 384)]),
                net.concat([chain(deep, 384), chain(deep, 384)]),
                chain(net.pool(tensor), 192),
            ]
        )
    net.classifier(tensor, 1000)
    return net.problem()


def mobilenet(size: int = 224, expansion: int = 6) -> OrderProblem:
    """MobileNetV2 (Sandler et al. 2018): inverted residuals."""
    net = Builder(size, size, 3)
    tensor = net.conv(net.depthwise(net.conv(0, 32, 2)), 16)
    for width, repeats, first in ((24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)):
        for repeat in range(repeats):
            stride = first if repeat == 0 else 1
            inner = net.depthwise(net.conv(tensor, net.shapes[tensor][2] * expansion), stride)
            narrow = net.conv(inner, width)
            tensor = net.sum([narrow, tensor]) if net.shapes[narrow] == net.shapes[tensor] else narrow
    net.classifier(net.conv(tensor, 1280), 1000)
    return net.problem()


def chain(count: int) -> OrderProblem:
    """Operators one after the other."""
    net = Builder(16, 16, 8)
    tensor = 0
    for at in range(count):
        tensor = net.conv(tensor, 8 + at % 5)
    return net.problem()


NETWORKS: dict[str, Callable[[], OrderProblem]] = {
    "chain of 30": lambda: chain(30),
    "MobileNetV2 224": mobilenet,
    "Inception-V3-like 299": inception,
    "DenseNet121 224": densenet,
    "DenseNet-BC-100 32": lambda: densenet(32, 12, (16, 16, 16)),
    "DARTS-V2-like 32, 8 cells": darts,
    "DARTS-V2-like 224, 14 cells": lambda: darts(224, 48, 14),
    "NASNet-A-like 224": nasnet,
    "NASNet-A-like 32, 6 repeats": lambda: nasnet(32, 32, 6),
    "RandWire-like 224, seed 1": lambda: randwire(1),
    "RandWire-like 224, seed 2": lambda: randwire(2),
    "RandWire-like 224, seed 3": lambda: randwire(3),
    "RandWire-like 32, seed 4": lambda: randwire(4, 32, 16),
    "RandWire-like 224, 5 stages": lambda: randwire(5, 224, 64, 5),
    "RandWire stage, 48 nodes": lambda: wired(1, 48),
    "RandWire-like 224, 64 nodes": lambda: randwire(6, 224, 78, 3, 64),
}
