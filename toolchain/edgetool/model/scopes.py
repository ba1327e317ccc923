"""The Keras layer that a tensor of the .tflite belongs to: every layer is traced in its own name scope."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping


def sanitised(name: str) -> str:
    """Return a layer's name in the alphabet of TensorFlow's name scopes, without the slash that separates scopes."""
    plain = re.sub(r"[^A-Za-z0-9_.\\-]", "_", name)
    return plain if re.match(r"[A-Za-z0-9.]", plain) else f"layer{plain}"


def layer_of(names: str | Iterable[str], layers: Mapping[str, object]) -> str | None:
    """Return the scope among `layers` that tensor names belong to; None if there is none.

    Of several scopes, this is the deepest (the first if several are equally deep).

    A name may join the names of several fused operations ("conv/Relu;conv/BiasAdd"), and may begin with functions of
    the graph ("StatefulPartitionedCall/conv/Relu").
    """
    parts = [part for name in ([names] if isinstance(names, str) else names) for part in name.split(";")]
    scopes = [scope for part in parts if (scope := _scope_of(part.split("/"), layers)) is not None]
    return max(scopes, key=lambda scope: scope.count("/"), default=None)


def _scope_of(path: list[str], layers: Mapping[str, object]) -> str | None:
    """Return the longest scope that consecutive components of the path form; an earlier one wins over a later one."""
    for first in range(len(path)):
        for last in range(len(path), first, -1):
            if (scope := "/".join(path[first:last])) in layers:
                return scope
    return None
