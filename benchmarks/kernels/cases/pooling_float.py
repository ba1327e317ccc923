"""L2_POOL_2D, which pools floats only."""

from __future__ import annotations

from math import prod
from random import Random

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.drawing import ACTIVATIONS, ELEMENTS, FLOAT32, finished, net_of, size

from edgetool.model.rules import windows
from edgetool.model.types import Model


def _l2_pool(random: Random) -> Model:
    """L2_POOL_2D with windows that hang over the border or not."""
    while True:
        batches, channels = random.choice((1, 1, 2, 3)), size(random, 12)
        sides = [size(random, 14) for _ in range(2)]
        window = [random.choice((1, 2, 3, size(random, 8), side)) for side in sides]
        strides = random.choice((window, (1, 1), (2, 2), (1, 2), (3, 1)))
        padding = random.choice(("SAME", "VALID"))
        made = [windows(padding, *spans) for spans in zip(sides, window, strides, strict=True)]
        work = prod(made) * prod(window) * batches * channels
        if min(made) > 0 and work <= 2000 and prod(sides) * batches * channels <= ELEMENTS:
            break
    net = net_of(random)
    x = net.arena(batches, *sides, channels, dtype=FLOAT32)
    y = net.arena(batches, *made, channels, dtype=FLOAT32)
    net.give(
        "L2_POOL_2D",
        [x],
        [y],
        padding=padding,
        filter_height=window[0],
        filter_width=window[1],
        stride_h=strides[0],
        stride_w=strides[1],
        fused_activation_function=random.choice(ACTIVATIONS),
    )
    return finished(net)


GENERATORS: Generators = {("L2_POOL_2D", "float32"): _l2_pool}
