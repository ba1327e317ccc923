"""Loops within loops: how their turns multiply and add up."""

from __future__ import annotations

from collections.abc import Mapping

Loops = Mapping[str, int]


def repeated(turns: int, loops: Loops) -> dict[str, int]:
    """The loops inside a loop that turns so often."""
    return {name: turns * inner for name, inner in loops.items()}


def together(*parts: Loops) -> dict[str, int]:
    """The loops of one piece of code after the other; those of one name are the same code."""
    total: dict[str, int] = {}
    for part in parts:
        for name, turns in part.items():
            total[name] = total.get(name, 0) + turns
    return total


def named(prefix: str, loops: Loops) -> dict[str, int]:
    """The loops with a word before their names: the same code compiled a second time."""
    return {f"{prefix} {name}": turns for name, turns in loops.items()}


def nested(name: str, inner: Loops) -> dict[str, int]:
    """A loop that turns once and those inside; going into one at all costs, as well as each turn."""
    entered = {f"{loop} entered": int(turns > 0) for loop, turns in inner.items()}
    return {name: 1, **named(name, inner), **named(name, entered)}
