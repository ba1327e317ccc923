"""Which sweep is meant: a sweep.toml, or the store that 'sweep run' made of one."""

from __future__ import annotations

import gc
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgetool.cli.command import option
from edgetool.cli.options import PATH, stacked
from edgetool.errors import EdgetoolError, UsageError

if TYPE_CHECKING:
    from edgetool.sweep.metrics import Row
    from edgetool.sweep.store import SweepRecord

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT = Path("sweep.toml")
STORE_SUFFIX = ".sqlite"
MAGIC = b"SQLite format 3\0"  # https://www.sqlite.org/fileformat.html, section 1.3

store_option = option(
    "--store",
    group="Model",
    type=PATH,
    metavar="FILE",
    help="The store, if it is not NAME.sqlite beside NAME.toml.",
)
# For the commands that only read: the sweep.toml, of which the store is found, or that itself.
source_options = stacked(
    click.argument("source", type=PATH, required=False, metavar="[SWEEP.toml|STORE]"), store_option
)


def is_store(path: Path) -> bool:
    """Whether the file is an SQLite database, whatever its name."""
    if not path.is_file():  # opening a pipe would wait for whoever writes to it
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def spec_path(source: Path | None) -> Path:
    """The sweep.toml of 'run'. Raises UsageError for a store, or where there is none."""
    path = source or DEFAULT
    if is_store(path):
        raise UsageError(
            "is a store, not a sweep.toml",
            where=str(path),
            fix=f"give the sweep.toml, and --store {shlex.quote(str(path))}",
        )
    if not path.exists():
        raise UsageError(
            "does not exist",
            where=str(path),
            fix="name a sweep.toml" if source is None else "give the path of a sweep.toml",
        )
    return path


def store_path(path: Path, store: Path | None) -> Path:
    """The store of a sweep.toml. Raises UsageError for a directory, which may have no name that a store could take."""
    if store is not None:
        return store
    if path.is_dir():
        raise UsageError("is a directory, not a sweep.toml", where=str(path), fix="give the path of a sweep.toml")
    return path.with_suffix(STORE_SUFFIX)


def find_store(source: Path | None, store: Path | None) -> Path:
    """The store that exists. Raises UsageError naming what to do first."""
    if source is not None and is_store(source):
        if store is not None and store != source:
            raise UsageError(f"{source} and --store {store} are different stores", fix="specify only one of them")
        return source
    found = store if source is None and store is not None else store_path(spec_path(source), store)
    if not found.exists():
        if source is not None:
            _check_toml(source)
        again = "" if source is None else f" {shlex.quote(str(source))}"
        option = "" if store is None else f" --store {shlex.quote(str(store))}"
        raise UsageError(
            "the store does not exist yet", where=str(found), fix=f"run 'edgetool sweep run{again}{option}' first"
        )
    return found


def _check_toml(source: Path) -> None:
    """Raise UsageError where 'sweep run' could make nothing of the file."""
    from edgetool.sweep.spec import read_toml

    try:
        read_toml(source, what="a sweep.toml")
    except EdgetoolError as error:
        raise UsageError(
            f"is neither a sweep.toml ({error.what}) nor a store",
            where=str(source),
            fix="use the sweep.toml, or the store that 'edgetool sweep run' created from it",
        ) from error


def read_rows(
    path: Path, axes: tuple[str, ...] | None = None, *, notes: bool = True
) -> tuple[SweepRecord, tuple[Row, ...]]:
    """The sweep of a store and all its rows, judged, the front of the axes marked (by default the usual ones)."""
    from edgetool.sweep.store import open_store
    from edgetool.sweep.table import rows

    with open_store(path) as store:
        found = store.sweep(), rows(store, axes, notes=notes)
    gc.freeze()  # of hundreds of thousands of objects none is garbage: do not look for it while they are shown
    return found


def named(labels: Iterable[str]) -> str:
    """The labels as they are given in a shell: pico, 'slow pico'."""
    return ", ".join(map(shlex.quote, labels))


def of_targets(record: SweepRecord, rows: tuple[Row, ...], labels: tuple[str, ...]) -> tuple[Row, ...]:
    """The rows of these targets, all without any. Raises UsageError for one that the sweep has not."""
    known = tuple(target.label for target in record.targets)
    for label in labels:
        if label not in known:
            raise UsageError(f"the sweep has no target {label!r}", fix=f"use one of {named(known)}")
    return tuple(row for row in rows if row.variant.target in labels) if labels else rows
