"""Does a job in a child process: what is the model's fault is its outcome, what is the user's is raised."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgetool import child
from edgetool.errors import CalibrationError, EdgetoolError, OutputError, UsageError
from edgetool.sweep.chain import BUILDER_FILE
from edgetool.sweep.job import Content, Kind, Outcome, Task

WORKER, BLOBS = "edgetool.sweep.worker", "blobs"
DOING: Mapping[Kind, str] = {
    "build": "building the model",
    "prune": "pruning the model",
    "reference": "running the original float model",
    "convert": "converting and comparing the model",
    "analyse": "planning and estimating the model",
}


def do(task: Task, *, progress: child.Progress | None = None, on_start: child.OnStart | None = None) -> Outcome:
    """The outcome of the task, done in a child process; from any thread, and nothing of it remains.

    on_start is handed a function that ends the child. A model that cannot be built, pruned, converted or run, and a
    process that dies or takes too long, give an outcome with the reason.

    Raises UsageError for what is no variant's fault and will not be better with the next: data that does not fit the
    user's model file (with a builder it may fit the next model), packages that are missing or are other ones here, a
    full disk.
    """
    started = time.monotonic()
    try:
        with child.work_folder(task.folder) as folder:
            value, blobs, reason = _done(task, folder, progress, on_start)
    except OSError as error:
        raise OutputError(
            f"cannot be used as the working directory: {error.strerror or error}",
            where=str(child.temporary_place()),
            fix="set TMPDIR to another disk",
        ) from error
    return Outcome(value, blobs, reason, time.monotonic() - started)


def _done(
    task: Task, folder: Path, progress: child.Progress | None, on_start: child.OnStart | None
) -> tuple[dict[str, Any], dict[str, bytes], str | None]:
    """The value and the blobs, or the reason why there are none."""
    job = task.job
    paths = {role: _placed(folder, role, content) for role, content in task.contents.items()}
    workdir = folder / "job"
    workdir.mkdir()
    try:
        value = child.run(
            WORKER,
            {
                "kind": job.kind,
                "request": job.request,
                "inputs": {role: str(path) for role, path in paths.items()},
                "seconds": task.seconds,
            },
            workdir=workdir,
            limits=child.Limits(seconds=task.seconds),
            doing=DOING[job.kind],
            advice="try a smaller model, less data, or a longer job_timeout",
            progress=progress,
            on_start=on_start,
            trusted=True,  # it runs our code alone, and what is not to be trusted in children of its own
        )
    except UsageError as error:
        told = _without_folder(error, folder, task.contents)
        if isinstance(error, CalibrationError) and job.request.get("built", False):
            return {}, {}, str(told)
        raise told from error
    except EdgetoolError as error:
        return {}, {}, str(_without_folder(error, folder, task.contents))
    return value, {path.name: path.read_bytes() for path in sorted((workdir / BLOBS).iterdir())}, None


def _placed(folder: Path, role: str, content: Content) -> Path:
    """The path of an input for the child: a link to it, or its bytes in a file of its name."""
    place = folder / _place(role)
    place.mkdir(exist_ok=True)
    path = place / content.name
    if content.path is not None and content.path.exists():
        path.symlink_to(content.path.absolute())
    elif content.data is not None:
        path.write_bytes(content.data)
    else:
        raise UsageError("is not available to the process that needs it", where=content.name)
    return path


def _place(role: str) -> str:
    """The builder's files lie in one folder, as where they come from, so that they find each other."""
    return "builder" if role.startswith(BUILDER_FILE) else role


def _without_folder(error: EdgetoolError, folder: Path, contents: Mapping[str, Content]) -> EdgetoolError:
    """The same error, with the user's names for files instead of where they lay: those folders are gone."""
    roots = dict.fromkeys((str(folder.resolve()), str(folder)))
    lain = [
        *((str(content.path), content.name) for content in contents.values() if content.path is not None),
        *((f"{root}/{_place(role)}/", "") for root in roots for role in contents),
        *((f"{root}/", "") for root in roots),
    ]

    def told(text: str) -> str:
        for lay, name in lain:
            text = text.replace(lay, name)
        return text

    return type(error)(
        told(error.what),
        where=None if error.where is None else told(error.where),
        fix=None if error.fix is None else told(error.fix),
        details=tuple(map(told, error.details)),
    )
