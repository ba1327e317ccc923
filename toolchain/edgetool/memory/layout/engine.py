"""What runs the search: plain Python over lists, or numba's machine code of the same function over arrays.

Both take the same decisions. numba (the extra `fast`) is worth its start-up only for searches that are not done soon.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from inspect import signature
from itertools import count
from typing import Any

from edgetool.memory.layout.kernel import search


@dataclass(frozen=True, slots=True)
class Engine:
    """The search, the nodes it does in a few milliseconds, and its arrays.

    column copies numbers; table copies rows, padded to one length where it must; zeros makes so many rows of a length;
    ranked sorts the pieces in each row of a table by an order; more is an array of twice the length.
    """

    search: Callable[..., int]
    slice: int
    column: Callable[[Sequence[int]], Any]
    table: Callable[[Sequence[Sequence[int]], int], Any]
    zeros: Callable[[int, int], Any]
    ranked: Callable[[Any, Sequence[int]], Any]
    more: Callable[[Any], Any]


def _same_rows(rows: Sequence[Sequence[int]], _padding: int) -> list[list[int]]:
    return [list(row) for row in rows]


def _zero_rows(rows: int, length: int) -> list[list[int]]:
    return [[0] * length for _ in range(rows)]


def _ranked_rows(rows: Sequence[Sequence[int]], order: Sequence[int]) -> list[list[int]]:
    rank = [0] * len(order)
    for place, i in enumerate(order):
        rank[i] = place
    return [sorted(row, key=rank.__getitem__) for row in rows]


def _more_items(items: Any) -> Any:
    return items + ([[0] * len(items[0]) for _ in items] if isinstance(items[0], list) else [0] * len(items))


POLL_SECONDS, MOST_POLLS = 0.02, 50
# The types of the search's parameters for numba: limits and switches, then columns and tables.
TABLES = ("near", "pinned_near", "alone", "members", "stack", "ranges")
SIGNATURE = "int64(int64, int64, boolean, int64, {})".format(
    ", ".join("int64[:, ::1]" if name in TABLES else "int64[::1]" for name in list(signature(search).parameters)[4:])
)

PLAIN = Engine(search, 64, list, _same_rows, _zero_rows, _ranked_rows, _more_items)


def compiled(stop: Callable[[], bool], *, patient: bool = False) -> Engine | None:
    """The engine of numba, None where that is not installed, is not there yet, or when told to stop.

    The first call in a process takes half a second. The first on a machine takes about four, as the machine code has to
    be made: after a second the search goes on in plain Python meanwhile, unless it is patient. It is made in a thread
    of its own, so that this one can ask `stop` and take signals; a program does not end before it is done. numba keeps
    the code beside the source, or in the user's cache directory where that cannot be written; where neither can, it is
    made in every process.
    """
    starting = _starting()
    if starting is None:
        return None
    for _ in count() if patient else starting.polls:
        if wait([starting.engine], timeout=POLL_SECONDS).done or stop():
            break
    return starting.engine.result() if starting.engine.done() else None


def is_loaded() -> bool:
    """Whether the compiled engine is there already, and costs nothing more."""
    if _starting.cache_info().currsize == 0:
        return False
    starting = _starting()
    return starting is not None and starting.engine.done()


@dataclass(frozen=True, slots=True)
class _Starting:
    """The engine under way, and how often it is still waited for."""

    engine: Future[Engine]
    polls: Iterator[int]


@functools.cache
def _starting() -> _Starting | None:
    if importlib.util.find_spec("numba") is None:
        return None
    pool = ThreadPoolExecutor(max_workers=1)
    engine = pool.submit(_compile)
    pool.shutdown(wait=False)
    return _Starting(engine, iter(range(MOST_POLLS)))


def _compile() -> Engine:
    import numba
    import numpy as np

    def column(numbers: Sequence[int]) -> Any:
        return np.array(numbers, dtype=np.int64)

    def table(rows: Sequence[Sequence[int]], padding: int) -> Any:
        padded = np.full((len(rows), max(map(len, rows), default=0)), padding, dtype=np.int64)
        for i, row in enumerate(rows):
            padded[i, : len(row)] = row
        return padded

    def zeros(rows: int, length: int) -> Any:
        return np.zeros((rows, length), dtype=np.int64)

    def ranked(rows: Any, order: Sequence[int]) -> Any:
        # The padding comes last, and stays.
        pieces = np.array([*order, len(order)], dtype=np.int64)
        rank = np.empty_like(pieces)
        rank[pieces] = np.arange(len(pieces))
        return pieces[np.sort(rank[rows], axis=1)]

    def more(items: Any) -> Any:
        return np.concatenate([items, np.zeros_like(items)])

    # With its types given, all is compiled here and now.
    try:
        compiled_search = numba.njit(SIGNATURE, cache=True)(search)
    except RuntimeError:
        compiled_search = numba.njit(SIGNATURE)(search)
    return Engine(compiled_search, 1024, column, table, zeros, ranked, more)
