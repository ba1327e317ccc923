"""Unchanging copies of the user's files: a sweep takes hours, and they may be edited meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from edgetool.errors import OutputError, UsageError
from edgetool.pipeline.convert import hash_of_path
from edgetool.pipeline.files import check_readable
from edgetool.sweep.chain import BUILDER_FILE
from edgetool.sweep.job import InputFile
from edgetool.sweep.spec import SweepSpec


def snapshot(spec: SweepSpec, folder: Path) -> dict[str, InputFile]:
    """Every file or directory that the sweep reads, copied into `folder` and hashed there, by role.

    Roles are "model", or "builder" and "builder_file:NAME", and "calibration", "evaluate", "fine_tune" where they are
    given. Raises UsageError for what cannot be read, or two builder files of one name, and OutputError where the copies
    cannot be written.
    """
    return {role: _copied(path, folder / f"{number}") for number, (role, path) in enumerate(_roles(spec).items())}


def check_inputs(spec: SweepSpec) -> None:
    """Raise UsageError where snapshot would, before anything is made."""
    for path in _roles(spec).values():
        check_readable(path)


def _roles(spec: SweepSpec) -> dict[str, Path]:
    roles = {}
    for role, path in _named(spec):
        if role in roles:
            raise UsageError(f"two builder files are named {path.name}", where=str(path), fix="rename one of them")
        roles[role] = path
    return roles


def _named(spec: SweepSpec) -> Iterator[tuple[str, Path]]:
    if spec.model is not None:
        yield "model", spec.model
    if spec.builder is not None:
        yield "builder", spec.builder.path
        for path in spec.builder.files:
            # The builder itself may be listed; another file of its name could not be imported beside it.
            if path != spec.builder.path:
                yield ("builder" if path.name == spec.builder.path.name else f"{BUILDER_FILE}{path.name}"), path
    data = spec.fine_tune.data if spec.fine_tune is not None else None
    for role, given in (("calibration", spec.calibration), ("evaluate", spec.evaluate), ("fine_tune", data)):
        if given is not None:
            yield role, given


def _copied(path: Path, folder: Path) -> InputFile:
    check_readable(path)
    copy = folder / path.name
    try:
        folder.mkdir(parents=True)
        if path.is_dir():
            shutil.copytree(path, copy)
        else:
            shutil.copyfile(path, copy)
        sha256, _ = hash_of_path(copy)
    except (OSError, shutil.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise OutputError(
            f"cannot be copied to {folder.parent}: {why}", where=str(path), fix="check the file and the free disk space"
        ) from error
    return InputFile(path.name, sha256, copy)
