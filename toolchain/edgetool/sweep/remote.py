"""The side of a cluster's workers: a task arrives as text and bytes, and is done here as it is locally."""

from __future__ import annotations

import contextlib
import io
import json
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from edgetool import child
from edgetool.errors import EdgetoolError
from edgetool.sweep.job import Content, Job, Outcome, Task
from edgetool.sweep.pool import Do

WATCH_SECONDS = 0.5


def packed(content: Content) -> bytes:
    """The content as bytes; of a directory a ZIP archive, the same for the same files."""
    if content.path is None:
        return content.data or b""
    if content.path.is_file():
        return content.path.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(path for path in content.path.rglob("*") if path.is_file()):
            archive.writestr(zipfile.ZipInfo(path.relative_to(content.path).as_posix()), path.read_bytes())
    return buffer.getvalue()


def message_of(task: Task) -> str:
    """The task without its contents, in JSON, for do_remotely."""
    contents = [
        {"role": role, "name": content.name, "sha256": content.sha256, "is_directory": _is_directory(content)}
        for role, content in task.contents.items()
    ]
    job = task.job
    return json.dumps(
        {"key": job.key, "kind": job.kind, "request": job.request, "seconds": task.seconds, "contents": contents}
    )


def do_remotely(do: Do, message: str, name: str, *data: bytes) -> Outcome:
    """The outcome of the task of which message_of and packed made `message` and `data`, done in a Dask worker.

    name: the task's in the cluster; one that the cluster no longer wants is ended. Raises what `do` raises, and says in
    which worker.
    """
    from distributed import get_worker

    worker = get_worker()
    told = json.loads(message)
    job = Job(key=told["key"], kind=told["kind"], request=told["request"], inputs={})
    with child.work_folder() as folder:
        contents = {
            item["role"]: _content(item, packed_data, folder / str(place))
            for place, (item, packed_data) in enumerate(zip(told["contents"], data, strict=True))
        }
        try:
            with _ended_when_unwanted(worker, name) as started:
                return do(Task(job=job, contents=contents, seconds=told["seconds"]), on_start=started)
        except EdgetoolError as error:
            where = f"the Dask worker {worker.address}" if error.where is None else error.where
            raise type(error)(error.what, where=where, fix=error.fix, details=error.details) from error


def _is_directory(content: Content) -> bool:
    return content.path is not None and content.path.is_dir()


def _content(item: Mapping[str, Any], data: bytes, folder: Path) -> Content:
    if not item["is_directory"]:
        return Content(name=item["name"], sha256=item["sha256"], data=data)
    path = folder / item["name"]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(path)
    return Content(name=item["name"], sha256=item["sha256"], path=path)


@contextlib.contextmanager
def _ended_when_unwanted(worker: Any, name: str) -> Iterator[Callable[[Callable[[], None]], None]]:
    """While in the block, end what is started once the task was cancelled, or its client is gone; Dask itself lets a
    task that runs run on."""
    over = threading.Event()
    watching: list[threading.Thread] = []

    def started(stop: Callable[[], None]) -> None:
        thread = threading.Thread(target=watch, args=(stop,), name="sweep-watch", daemon=True)
        watching.append(thread)
        thread.start()

    def watch(stop: Callable[[], None]) -> None:
        while not over.wait(WATCH_SECONDS):
            task = worker.state.tasks.get(name)
            if task is None or task.state == "cancelled":
                stop()
                return

    try:
        yield started
    finally:
        over.set()
        for thread in watching:
            thread.join()
