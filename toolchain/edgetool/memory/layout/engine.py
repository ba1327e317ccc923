"""What runs the search: plain Python over lists, or numba's machine code of the same function over arrays.

Both take the same decisions. numba (the extra `fast`) is worth its start-up only for searches that are not done soon.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from edgetool.memory.layout.kernel import search


@dataclass(frozen=True, slots=True)
class Engine:
    """The search, the nodes it does in a few milliseconds, and its arrays.

    column copies numbers; table copies rows, padded to one length where it must; more is an array of twice the length.
    """

    search: Callable[..., int]
    slice: int
    column: Callable[[Sequence[int]], Any]
    table: Callable[[Sequence[Sequence[int]], int], Any]
    more: Callable[[Any], Any]


def _same_rows(rows: Sequence[Sequence[int]], _padding: int) -> list[list[int]]:
    return [list(row) for row in rows]


def _more_items(items: Any) -> Any:
    return items + ([[0] * len(items[0]) for _ in items] if isinstance(items[0], list) else [0] * len(items))


PLAIN = Engine(search, 64, list, _same_rows, _more_items)


@functools.cache
def compiled() -> Engine | None:
    """The engine of numba, None where it is not installed. The first on a machine takes seconds to compile.

    numba keeps the machine code beside the source, or in the user's cache directory where that cannot be written;
    where neither can, it is compiled in every process.
    """
    if importlib.util.find_spec("numba") is None:
        return None
    import numba
    import numpy as np

    def column(numbers: Sequence[int]) -> Any:
        return np.array(numbers, dtype=np.int64)

    def table(rows: Sequence[Sequence[int]], padding: int) -> Any:
        padded = np.full((len(rows), max(map(len, rows), default=0)), padding, dtype=np.int64)
        for i, row in enumerate(rows):
            padded[i, : len(row)] = row
        return padded

    def more(items: Any) -> Any:
        return np.concatenate([items, np.zeros_like(items)])

    try:
        compiled_search = numba.njit(cache=True)(search)
    except RuntimeError:
        compiled_search = numba.njit(search)
    return Engine(compiled_search, 1024, column, table, more)


def is_loaded() -> bool:
    """Whether the compiled engine is there already, and costs nothing more."""
    return compiled.cache_info().currsize > 0
