"""The hierarchy of errors; each class has the exit code that the command line returns for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial


class EdgetoolError(Exception):
    """An expected failure.

    what: what is wrong, a sentence without a full stop.
    where: the file, key, layer or tensor concerned, or None.
    fix: what the user can do about it, or None.
    details: further lines (the last output of a child process), printed below the message.
    """

    exit_code = 5

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        fix: str | None = None,
        details: tuple[str, ...] = (),
    ) -> None:
        self.what = what
        self.where = where
        self.fix = fix
        self.details = details
        super().__init__(what, where, fix, details)

    def __reduce__(self) -> tuple[Callable[[], EdgetoolError], tuple[()]]:
        """Support pickling, so that an error in a process of a cluster is raised unchanged in this process."""
        return partial(type(self), self.what, where=self.where, fix=self.fix, details=self.details), ()

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}; {self.fix}" if self.fix else head


class FailedCheckError(EdgetoolError):
    """A negative result, such as a failed check or a layout that exceeds its capacity."""

    exit_code = 1


class UsageError(EdgetoolError):
    """Wrong options or arguments."""

    exit_code = 2


class TargetError(UsageError):
    """A target that does not exist, or a profile that is not valid."""


class SettingsError(UsageError):
    """An edgetool.toml that is not valid."""


class CalibrationError(UsageError):
    """Calibration or evaluation data that does not match the model."""


class OutputError(UsageError):
    """An output that cannot be written."""


class LibraryError(UsageError):
    """A static library that cannot be read, or is for another machine."""


class MissingExtraError(UsageError):
    """An optional dependency that is not installed."""


class ModelError(EdgetoolError):
    """A model file that cannot be used."""

    exit_code = 3


class InvalidModelError(ModelError):
    """A file that is not what its name or its header claims."""


class UnsupportedModelError(ModelError):
    """A valid file with content that edgetool does not support."""


class ConversionError(EdgetoolError):
    """The converter rejected the model, or its process died."""

    exit_code = 4


class ClusterError(EdgetoolError):
    """A cluster that does not respond or has no workers."""

    exit_code = 4


class InternalError(EdgetoolError):
    """An invariant of edgetool does not hold: a bug."""

    exit_code = 5


MAX_PROBLEMS = 50  # listed per file


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at a key of a file ("region[1].size"), and what to do about it."""

    key: str
    what: str
    fix: str | None = None

    def __str__(self) -> str:
        return f"{self.key} {self.what}" if self.key else self.what


def problems_as_error(
    problems: Iterable[Problem], where: str, kind: type[UsageError] = UsageError, *, fix: str | None = None
) -> UsageError:
    """Return the first problem as an error with the others as its details.

    If there are too many, the details are only the first ones and the number of the rest. fix: replaces that of the
    first problem.
    """
    first, *others = problems
    rest = len(others) - MAX_PROBLEMS
    more = (f"and {rest:,} more problems",) if rest > 0 else ()
    return kind(
        first.what,
        where=f"{where}: {first.key}" if first.key else where,
        fix=fix or first.fix,
        details=(*(_line(problem) for problem in others[:MAX_PROBLEMS]), *more),
    )


def _line(problem: Problem) -> str:
    fix = f"; {problem.fix}" if problem.fix else ""
    return f"{problem.key}: {problem.what}{fix}"


def in_words(names: Sequence[str]) -> str:
    """Return names as an enumeration: "plan, check and emit"."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return "did you mean 'x'?" for the nearest known word, or None."""
    from difflib import get_close_matches

    near = get_close_matches(word[:100], list(known), n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else None
