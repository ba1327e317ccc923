"""What the C++ files beside the header are made of: plain values, free of the rooms that compute them.

The array that is an arena, in a C++ file, and what the user may define for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgetool.codegen.spec import ARENA_ALIGNMENT, HeaderSpec

Data = Literal["array", "incbin"]


@dataclass(frozen=True, slots=True)
class Registration:
    """One operator of the resolver.

    operator: its name ("CONV_2D", or a custom operator's own). method: the MicroMutableOpResolver method that registers
    it; None for a custom operator whose TFLMRegistration the user's own code gives.
    """

    operator: str
    method: str | None


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """Everything that NAME_ops.h, NAME_runner.h, NAME_runner.cc, main.cc and NAME_profile.cc say.

    header: what NAME.h says; its name, inputs, outputs and arena are the program's.
    registrations: each operator once, in the order of first use. runtime, commit: the TFLM that the methods were read
    from. resource_variables: how many different resource variables the model has. events: how many operators one
    inference runs, those of called subgraphs included; None where that depends on the data.
    clock_hz: of the core, None where it is not known. shared_arena: the C name of the arena that several models
    share, None for an arena of the model's own.
    """

    header: HeaderSpec
    registrations: tuple[Registration, ...]
    runtime: str
    commit: str
    resource_variables: int = 0
    events: int | None = None
    clock_hz: int | None = None
    shared_arena: str | None = None


@dataclass(frozen=True, slots=True)
class SharedArenaSpec:
    """One arena for several models, initialised in the order given.

    name: the C name of the arena's files. arena_bytes: what to declare, None when not known; arena_is_lower_bound as in
    HeaderSpec. head_bytes: what the largest head takes; tail_bytes: the persistent parts of all models together.
    """

    name: str
    tool_version: str
    programs: tuple[ProgramSpec, ...]
    arena_bytes: int | None
    arena_is_lower_bound: bool
    head_bytes: int
    tail_bytes: int

    def __post_init__(self) -> None:
        if not self.programs:
            raise ValueError("an arena without a model")
        if self.arena_bytes is None and not self.arena_is_lower_bound:
            raise ValueError("without arena_bytes the arena is only a lower bound")

    @property
    def exact_arena_bytes(self) -> int | None:
        """The arena to declare, None while only a lower bound is known."""
        return None if self.arena_is_lower_bound else self.arena_bytes

    @property
    def least_arena_bytes(self) -> int:
        """The largest size that the arena is known to need, rounded up to its alignment."""
        known = max(self.arena_bytes or 0, self.head_bytes + self.tail_bytes)
        return -(-known // ARENA_ALIGNMENT) * ARENA_ALIGNMENT


def options(file: str, macro: str, *, exact: bool) -> list[str]:
    """Lines for a comment: what may be defined for the compilation of the file that has the array.

    macro: the prefix of the arena's macros. exact: whether its size is known, and not only from below.
    """
    lines = [
        f"The arena is in {file}. The following macros may be defined when that file is compiled:",
        f"  {macro}_ARENA_SECTION      the attribute placed before the arena, to put it in its own section:",
        "                     __attribute__((section(...)))",
    ]
    if exact:
        return [
            *lines,
            f"  {macro}_ARENA_EXTRA_BYTES  bytes to add to {macro}_ARENA_BYTES, for another version of TFLM",
        ]
    return [
        *lines,
        f"  {macro}_ARENA_BYTES        its size, which you must define: only a lower bound is known.",
        "                     Start with a large value and reduce it on the device",
    ]


def array(name: str, macro: str, *, exact: bool) -> str:
    """The array NAME_arena, by the macros of the header that has its size or lower bound."""
    text = f"#ifndef {macro}_ARENA_SECTION\n#define {macro}_ARENA_SECTION\n#endif\n"
    if exact:
        text += f"#ifndef {macro}_ARENA_EXTRA_BYTES\n#define {macro}_ARENA_EXTRA_BYTES 0\n#endif\n"
        size = f"{macro}_ARENA_BYTES + ({macro}_ARENA_EXTRA_BYTES)"
    else:
        text += (
            f"#ifndef {macro}_ARENA_BYTES\n"
            f'#error "the exact arena size is unknown: define {macro}_ARENA_BYTES, larger than'
            f' {macro}_ARENA_LOWER_BOUND_BYTES"\n#endif\n'
        )
        size = f"{macro}_ARENA_BYTES"
    text += f"\nalignas({macro}_ARENA_ALIGNMENT) {macro}_ARENA_SECTION static uint8_t {name}_arena[{size}];\n"
    if not exact:
        text += (
            f"static_assert(sizeof({name}_arena) >= {macro}_ARENA_LOWER_BOUND_BYTES,\n"
            f'              "{name}_arena needs at least " {macro}_TEXT({macro}_ARENA_LOWER_BOUND_BYTES)\n'
            f'              " bytes, but {macro}_ARENA_BYTES is " {macro}_TEXT({macro}_ARENA_BYTES));\n'
        )
    return text + (
        f"#ifdef {macro}_SRAM_LIMIT_BYTES\nstatic_assert(sizeof({name}_arena) <= ({macro}_SRAM_LIMIT_BYTES),\n"
        f'              "{name}_arena takes " {macro}_TEXT({size})\n'
        f'              " bytes, but {macro}_SRAM_LIMIT_BYTES is " {macro}_TEXT({macro}_SRAM_LIMIT_BYTES));\n#endif\n'
    )
