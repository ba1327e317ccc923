"""Which Keras layer a tensor of the .tflite belongs to: every layer is traced in a name scope of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping


def sanitised(name: str) -> str:
    """A layer's name in the alphabet of TensorFlow's name scopes, without the slash that parts them."""
    plain = re.sub(r"[^A-Za-z0-9_.\\-]", "_", name)
    return plain if re.match(r"[A-Za-z0-9.]", plain) else f"layer{plain}"


def layer_of(names: str | Iterable[str], layers: Mapping[str, object]) -> str | None:
    """The scope among `layers` that tensor names lead to: the deepest one, the first among equals; None without any.

    A name may be of several operations that became one ("conv/Relu;conv/BiasAdd"), and may stand inside functions of
    the graph ("StatefulPartitionedCall/conv/Relu").
    """
    parts = [part for name in ([names] if isinstance(names, str) else names) for part in name.split(";")]
    found = [scope for part in parts if (scope := _scope_of(part.split("/"), layers)) is not None]
    return max(found, key=lambda scope: scope.count("/"), default=None)


def _scope_of(path: list[str], layers: Mapping[str, object]) -> str | None:
    """The longest scope that a run of the path's components spells; a run that begins earlier wins over a later one."""
    for first in range(len(path)):
        for last in range(len(path), first, -1):
            if (scope := "/".join(path[first:last])) in layers:
                return scope
    return None
