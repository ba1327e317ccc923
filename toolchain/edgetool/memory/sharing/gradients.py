"""Training graphs: the gradients share buffers among each other, and nothing else does."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from edgetool.errors import UsageError
from edgetool.memory.effort import Effort
from edgetool.memory.sharing.assign import assign
from edgetool.memory.sharing.graph import SharingGraph
from edgetool.memory.sharing.ranges import compute_ranges
from edgetool.memory.sharing.types import Algorithm, Sharing


def share_gradients(
    graph: SharingGraph,
    gradients: Collection[str],
    sizes: Mapping[str, int] | None = None,
    *,
    algorithm: Algorithm = "dynamic-programming",
    prefix: str = "",
    in_place: bool = False,
    effort: Effort | None = None,
) -> Sharing:
    """An assignment in which the named gradients whose names start with `prefix` share, and all else is static.

    Leave out the gradients of parameters, if an optimizer reads them outside of the graph and they are no outputs of
    it. Raises UsageError for names that are no tensors of the graph.
    """
    ranges = compute_ranges(graph, sizes)
    if unknown := sorted(set(gradients).difference(ranges)):
        raise UsageError(
            f"not tensors of the graph: {', '.join(unknown[:5])}", fix="specify gradients that the graph writes"
        )
    static = set(ranges).difference(gradients)
    return assign(ranges, algorithm, static=static, prefix=prefix, in_place=in_place, effort=effort)
