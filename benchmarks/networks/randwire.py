"""Randomly wired networks: stages of nodes joined by a Watts-Strogatz graph, as in Xie et al., 2019.

Edges of the random graph go from the lower to the higher node. A node adds up what comes in, and applies ReLU and a
separable convolution; nodes without a predecessor take the stage's input at stride 2, and the mean of the nodes without
a successor is the stage's output.
"""

from __future__ import annotations

import random
from typing import Any

import keras
from benchmarks.networks.layers import classifier, conv, image, separable, total
from keras import layers

NEIGHBOURS, REWIRED = 4, 0.75


def watts_strogatz(nodes: int, seed: int) -> list[tuple[int, int]]:
    """The edges, lower node first: a ring of 4 neighbours each, whose edges move their far end with probability .75."""
    rng = random.Random(seed)
    near: list[set[int]] = [set() for _ in range(nodes)]
    for step in range(1, NEIGHBOURS // 2 + 1):
        for node in range(nodes):
            near[node].add((node + step) % nodes)
            near[(node + step) % nodes].add(node)
    for step in range(1, NEIGHBOURS // 2 + 1):
        for node in range(nodes):
            if rng.random() < REWIRED:
                old = (node + step) % nodes
                new = rng.choice([other for other in range(nodes) if other != node and other not in near[node]])
                near[node] ^= {old, new}
                near[old].remove(node)
                near[new].add(node)
    return sorted((low, high) for low in range(nodes) for high in near[low] if low < high)


def _stage(x: Any, channels: int, nodes: int, seed: int) -> Any:
    edges = watts_strogatz(nodes, seed)
    made: list[Any] = []
    for node in range(nodes):
        sources = [made[low] for low, high in edges if high == node]
        entering = total(sources) if sources else x
        made.append(separable(layers.ReLU()(entering), channels, stride=1 if sources else 2))
    read = {low for low, _ in edges}
    return layers.Average()([made[node] for node in range(nodes) if node not in read])


def _network(first: Any, x: Any, channels: tuple[int, ...], nodes: int, seed: int) -> Any:
    """A stage for each number of channels, and a classifier of ten."""
    for stage, width in enumerate(channels):
        x = _stage(x, width, nodes, seed + stage)
    return keras.Model(first, classifier(conv(layers.ReLU()(x), 4 * channels[-1]), 10))


def _small(size: int, channels: tuple[int, ...], nodes: int, seed: int) -> Any:
    first = image(size)
    return _network(first, conv(first, 16, 3, relu=False), channels, nodes, seed)


def cifar() -> Any:
    """Three stages of 32 nodes on images of 32 x 32."""
    return _small(32, (16, 32, 64), 32, seed=1)


def deep() -> Any:
    """Five stages of 32 nodes on images of 64 x 64."""
    return _small(64, (16, 32, 64, 96, 128), 32, seed=21)


def wide() -> Any:
    """Three stages of 56 nodes on images of 32 x 32: wider than those that were published, of 32."""
    return _small(32, (16, 32, 64), 56, seed=2)


def imagenet() -> Any:
    """Three stages of 32 nodes on images of 224 x 224."""
    first = image(224)
    stem = separable(conv(first, 39, 3, 2), 78, stride=2)
    return _network(first, stem, (78, 156, 312), 32, seed=11)
