"""Jobs done by the workers of a Dask cluster that is already there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import secrets
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Self

from edgetool import __version__
from edgetool.errors import ClusterError, EdgetoolError, InternalError, MissingExtraError, UsageError
from edgetool.sweep import work
from edgetool.sweep.job import Content, Outcome, Task
from edgetool.sweep.pool import Do
from edgetool.sweep.remote import do_remotely, message_of, packed

# Tasks beyond the workers' threads, that a thread which ends one has the next at hand.
MARGIN = 2
# Contents that the cluster keeps after the last task that took them, most recent first.
KEPT_CONTENTS = 32
LOOK_SECONDS = 1.0
ANSWER_SECONDS = 20.0
CLOSING_SECONDS = 5.0


class ClusterPool:
    """A Pool on the Dask cluster whose scheduler has this address.

    Each content is sent once while it is in use. A worker that dies is survived: Dask gives its tasks to others, and
    after as many deaths as it allows (distributed.scheduler.allowed-failures) the job has failed.
    connect_seconds: how long the scheduler may take to answer; worker_seconds: how long the cluster may be without any
    worker. Raises UsageError where no scheduler answers, MissingExtraError without Dask.
    """

    def __init__(
        self,
        address: str,
        *,
        do: Do = work.do,
        connect_seconds: float = 10.0,
        worker_seconds: float = 60.0,
    ) -> None:
        self._distributed = _import_distributed()
        self._address = address
        self._do = do
        self._worker_seconds = worker_seconds
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._keys: dict[Any, str] = {}
        self._contents: OrderedDict[str, Any] = OrderedDict()
        self._threads = 0
        self._looked = float("-inf")
        self._last_worker = time.monotonic()
        self._quiet = contextlib.ExitStack()
        self._quiet.enter_context(_silence())
        try:
            self._client = self._connect(connect_seconds)
        except BaseException:
            self._quiet.close()
            raise

    @property
    def capacity(self) -> int:
        """See Pool.capacity: the threads of the workers of the moment, and a few more."""
        self._look()
        return self._threads + MARGIN

    def submit(self, task: Task) -> None:
        """See Pool.submit."""
        from distributed.protocol.pickle import dumps

        name = f"edgetool-{task.job.key}-{secrets.token_hex(4)}"
        call = dumps(partial(do_remotely, self._do, message_of(task), name))
        contents = [self._sent(content) for content in task.contents.values()]
        with self._telling():
            future = self._client.submit(_opener(), call, *contents, key=name, pure=False)
            self._keys[future] = task.job.key
            future.add_done_callback(self._ended.put)

    def wait(self, timeout: float) -> tuple[str, Outcome] | None:
        """See Pool.wait. Raises ClusterError where the scheduler went away or there are no workers."""
        deadline = time.monotonic() + timeout
        while True:
            rest = deadline - time.monotonic()
            try:
                future = self._ended.get(timeout=min(rest, LOOK_SECONDS)) if rest > 0 else self._ended.get_nowait()
            except queue.Empty:
                self._look()
                if rest <= 0:
                    return None
                continue
            with self._telling():
                return self._keys.pop(future), self._outcome(future)

    def close(self) -> None:
        """Cancel what was submitted, which ends it in the workers, and leave the cluster."""
        futures = list(self._keys)
        self._keys.clear()
        self._contents.clear()
        with contextlib.suppress(Exception):  # a scheduler that is gone has nothing to be cancelled
            self._client.cancel(futures)
        with contextlib.suppress(Exception):
            self._client.close(CLOSING_SECONDS)
        self._quiet.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self, seconds: float) -> Any:
        try:
            # A Client that finds nobody leaves threads and noise behind: look first.
            with ThreadPoolExecutor(1) as executor:
                executor.submit(asyncio.run, _reach(self._address, seconds)).result()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of versions that differ; of ours the workers tell
                return self._distributed.Client(self._address, timeout=seconds, set_as_default=False, name="edgetool")
        except (OSError, ValueError, TypeError) as error:  # no answer; not an address
            raise UsageError(
                f"no scheduler answers at {self._address}",
                where="--scheduler",
                fix="start one with 'dask scheduler', and specify the address that it prints (tcp://HOST:8786)",
            ) from error

    def _sent(self, content: Content) -> Any:
        """The future of a content, which is sent where the cluster does not have it."""
        future = self._contents.pop(content.sha256, None)
        if future is None:
            name = f"edgetool-{content.sha256}-{secrets.token_hex(4)}"
            data = packed(content)
            # A task, and no scattered data, so that Dask makes it anew where the worker that held it died.
            with self._telling():
                future = self._client.submit(bytes, data, key=name, pure=False)
        self._contents[content.sha256] = future
        while len(self._contents) > KEPT_CONTENTS:
            self._contents.popitem(last=False)
        return future

    def _outcome(self, future: Any) -> Outcome:
        if future.status == "cancelled":
            raise self._gone()
        error = future.exception()
        if error is None:
            outcome: Outcome = future.result()
            return outcome
        if isinstance(error, self._distributed.scheduler.KilledWorker):
            count = error.allowed_failures + 1
            return Outcome(reason=f"{count} cluster worker{'s' * (count > 1)} crashed while running it")
        if isinstance(error, EdgetoolError):
            raise error
        if isinstance(error, ImportError | AttributeError):
            raise UsageError(
                "a worker of the cluster does not have edgetool, or has a different version of it",
                where=self._address,
                fix=f"install edgetool {__version__} and its extras 'convert' and 'sweep' there",
            ) from error
        raise InternalError(f"a worker raised {type(error).__name__}: {error}", where=self._address) from error

    def _look(self) -> None:
        """Count the workers, at most once in LOOK_SECONDS."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        with self._telling():
            if self._client.status != "running":
                raise self._gone()
            threads = self._client.sync(self._client.scheduler.ncores, callback_timeout=ANSWER_SECONDS)
        self._threads = sum(threads.values())
        self._looked = time.monotonic()
        if threads:
            self._last_worker = self._looked
        elif self._looked - self._last_worker > self._worker_seconds:
            raise ClusterError(
                f"the cluster has had no workers for {self._worker_seconds:g} s",
                where=self._address,
                fix="start workers with 'dask worker', and run the sweep again: completed results are saved",
            )

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """A scheduler that is lost in the middle of a call, as one clear error."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a content is large is no news
                yield
        except EdgetoolError:
            raise
        except (OSError, TimeoutError, self._distributed.CancelledError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and self._client.status == "running":
                raise
            raise self._gone() from error

    def _gone(self) -> ClusterError:
        return ClusterError(
            "lost the connection to the scheduler",
            where=self._address,
            fix="run the sweep again when a scheduler is running: completed results are saved",
        )


def _opener() -> Callable[..., Outcome]:
    """What a worker does with a call: a function without a name goes there as a whole, so that a worker that lacks
    edgetool raises where it opens the call; it would die of a function that it cannot import."""

    def opened(call: bytes, *data: bytes) -> Outcome:
        from distributed.protocol.pickle import loads

        outcome: Outcome = loads(call)(*data)
        return outcome

    return opened


async def _reach(address: str, seconds: float) -> None:
    from distributed.comm import connect
    from distributed.security import Security

    comm = await connect(address, timeout=seconds, **Security().get_connection_args("client"))
    await comm.close()


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep Dask's loggers from stderr, where our messages go."""
    names = [
        name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("distributed", "tornado", "asyncio")
    ]
    quieted = [logger for logger in map(logging.getLogger, names) if not logger.disabled]
    for logger in quieted:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in quieted:
            logger.disabled = False


def _import_distributed() -> Any:
    try:
        import distributed
        import distributed.scheduler
    except ImportError as error:
        raise MissingExtraError(
            "a cluster requires Dask, which is not installed", fix="pip install 'edgetool[sweep]'"
        ) from error
    return distributed
