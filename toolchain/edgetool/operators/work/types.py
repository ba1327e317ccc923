"""The words for a kernel's work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgetool.operators.kernel import Call

# Rules walk along the sides of images and the windows on them. More steps than these are more than any of these devices
# takes, and would keep us busy for as long as a file likes.
MOST_STEPS = 2**18


class TooLongError(Exception):
    """The work of an operator would take too many steps to count."""


def walk(steps: int) -> None:
    """To be called before a walk of so many steps. Raises TooLongError."""
    if steps > MOST_STEPS:
        raise TooLongError


@dataclass(frozen=True, slots=True)
class Work:
    """One run of one operator's kernel, in numbers that its executed instructions are linear in.

    path names the code that runs ("int8 1x1"); loops says how often each of its loops turns. The instructions that one
    turn takes are data, per core and kernel set, by operator, path and loop; each path also has a "call" that turns
    once. gives_up: the kernel returns an error that a release build of TFLM does not look at, and no result.
    """

    path: str
    loops: Mapping[str, int]
    gives_up: bool = False


WorkRule = Callable[[Call], Work]
