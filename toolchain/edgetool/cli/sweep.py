"""edgetool sweep: the group, and what its commands share: option types, finding the sweep.toml or store, rows."""

from __future__ import annotations

import gc
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from edgetool.cli.command import LazyGroup, option
from edgetool.cli.options import PATH, stacked
from edgetool.errors import EdgetoolError, UsageError

if TYPE_CHECKING:
    from edgetool.sweep.metrics import Row
    from edgetool.sweep.store import SweepRecord

json_option = option("--json", "as_json", group="Output", is_flag=True, help="Print only the JSON document.")
csv_option = option("--csv", "as_csv", group="Output", is_flag=True, help="Print only CSV, one line per variant.")
axes_help = "accuracy, sqnr_db, latency_ms, energy_uj, arena_bytes, model_bytes, macs or model_parameters"


class AxisType(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """The name of a figure by which variants are compared."""

    name = "axis"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or fail with a usage error that lists the names."""
        from edgetool.sweep.front import AXES

        if value not in AXES:
            self.fail(f"{value!r} is not one of {', '.join(AXES)}", param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with the text."""
        from edgetool.sweep.front import AXES

        return [CompletionItem(name) for name in AXES if name.startswith(incomplete)]


AXIS = AxisType()


def one_form(as_json: bool, as_csv: bool) -> None:
    """Raise UsageError if two output forms are requested."""
    if as_json and as_csv:
        raise UsageError("--json and --csv are mutually exclusive", fix="specify only one of them")


def picture_format(path: Path | None) -> str:
    """Return "svg" or "png" by the file's suffix, "" without a file. Raises UsageError for other suffixes."""
    if path is None:
        return ""
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in ("svg", "png"):
        raise UsageError("a plot must be an .svg or .png file", where=str(path), fix="use one of these extensions")
    return suffix


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
# For the commands that only read: either the sweep.toml, from which the store is found, or the store itself.
source_options = stacked(
    click.argument("source", type=PATH, required=False, metavar="[SWEEP.toml|STORE]"), store_option
)


def is_store(path: Path) -> bool:
    """Return whether the file is an SQLite database, whatever its name."""
    if not path.is_file():  # opening a pipe would wait for whoever writes to it
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def spec_path(source: Path | None) -> Path:
    """Return the sweep.toml for 'run'. Raises UsageError for a store, or if there is no sweep.toml."""
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
    """Return the store of a sweep.toml. Raises UsageError for a directory whose name a store cannot have."""
    if store is not None:
        return store
    if path.is_dir():
        raise UsageError("is a directory, not a sweep.toml", where=str(path), fix="give the path of a sweep.toml")
    return path.with_suffix(STORE_SUFFIX)


def find_store(source: Path | None, store: Path | None) -> Path:
    """Return the existing store. Raises UsageError that states what to do first."""
    if source is not None and is_store(source):
        if store is not None and store != source:
            raise UsageError(f"{source} and --store {store} are different stores", fix="specify only one of them")
        return source
    path = store if source is None and store is not None else store_path(spec_path(source), store)
    if not path.exists():
        if source is not None:
            _check_toml(source)
        again = "" if source is None else f" {shlex.quote(str(source))}"
        option = "" if store is None else f" --store {shlex.quote(str(store))}"
        raise UsageError(
            "the store does not exist yet", where=str(path), fix=f"run 'edgetool sweep run{again}{option}' first"
        )
    return path


def _check_toml(source: Path) -> None:
    """Raise UsageError if 'sweep run' could not use the file."""
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
    """Return the sweep of a store and all its rows, judged, with the front of the axes marked."""
    from edgetool.sweep.store import open_store
    from edgetool.sweep.table import rows

    with open_store(path) as store:
        result = store.sweep(), rows(store, axes, notes=notes)
    gc.freeze()  # hundreds of thousands of live objects: do not scan them for garbage while printing
    return result


def named(labels: Iterable[str]) -> str:
    """Return labels quoted for a shell: pico, 'slow pico'."""
    return ", ".join(map(shlex.quote, labels))


def of_targets(record: SweepRecord, rows: tuple[Row, ...], labels: tuple[str, ...]) -> tuple[Row, ...]:
    """Return the rows of these targets, all rows if none is named. Raises UsageError for an unknown target."""
    known_labels = tuple(target.label for target in record.targets)
    for label in labels:
        if label not in known_labels:
            raise UsageError(f"the sweep has no target {label!r}", fix=f"use one of {named(known_labels)}")
    return tuple(row for row in rows if row.variant.target in labels) if labels else rows


COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("edgetool.cli.sweep_run", "Compute every variant in a sweep.toml that is not yet in its store."),
    "show": ("edgetool.cli.sweep_show", "Show the variants in a store as a table, CSV or JSON."),
    "pareto": ("edgetool.cli.sweep_pareto", "Show the Pareto front: the accepted variants that no other dominates."),
    "best": ("edgetool.cli.sweep_best", "Write the firmware files of the best variant for a target."),
}


@click.group(
    "sweep",
    cls=LazyGroup,
    modules=COMMANDS,
    examples=(
        "edgetool sweep run sweep.toml",
        "edgetool sweep pareto sweep.toml --plot front.svg",
        "edgetool sweep best sweep.toml --target rpi-pico",
    ),
)
def command() -> None:
    """Compare many variants of a model on many targets: size, time and accuracy.

    A sweep.toml defines what varies: pruning, precision, targets, and parameters of your own. 'run' saves each result
    in a single file, the store, and continues where it was stopped.
    """
