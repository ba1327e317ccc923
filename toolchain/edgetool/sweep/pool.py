"""Where jobs are done: what local processes and a cluster have in common."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from edgetool.sweep.job import Outcome, Task

# `do`, or what stands for it in a test: do(task, on_start=...) hands a function to on_start that ends what it started.
Do = Callable[..., Outcome]


class Pool(Protocol):
    """Does tasks side by side, in whatever order they end. All calls come from one thread."""

    @property
    def capacity(self) -> int:
        """How many tasks are worth having submitted and not yet ended; at least 1."""

    def submit(self, task: Task) -> None:
        """Start it, or let it wait for its turn. Its key must not be in the pool already."""

    def wait(self, timeout: float) -> tuple[str, Outcome] | None:
        """The key and outcome of a task that has ended; None where none ends within `timeout` seconds.

        Raises what a task raised: an error that is no variant's (data that does not fit, a full disk).
        """

    def close(self) -> None:
        """End what still runs, at once; nothing of it remains."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
