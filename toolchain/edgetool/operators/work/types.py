"""The words for a kernel's work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgetool.operators.kernel import Call


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
