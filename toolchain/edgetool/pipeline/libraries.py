"""The user's own static libraries, for the target's core."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from edgetool.archive.ar import read_members
from edgetool.archive.elf import MACHINES, read_object
from edgetool.archive.link import Linker
from edgetool.errors import LibraryError
from edgetool.pipeline.output import read_file
from edgetool.target.types import Core

# The machine of object files by the first letters of a core's instruction set.
_MACHINE_OF_ISA = {"armv8-a": "AArch64", "armv": "Arm", "rv": "RISC-V", "xtensa": "Xtensa", "rx": "RX", "x86": "x86-64"}


def read_libraries(paths: Sequence[str], core: Core) -> Linker:
    """Return the user's static libraries, which are read again only after a change.

    Raises:
        UsageError: A file cannot be read.
        LibraryError: A file is no static library for the core, or is damaged.
    """
    return _linker(tuple((path, read_file(Path(path), what="the library")) for path in paths), _machine_of(core))


@lru_cache(maxsize=2)
def _linker(libraries: tuple[tuple[str, bytes], ...], machine: int | None) -> Linker:
    files = [
        read_object(member.data, f"{path}({member.name})", machine=machine)
        for path, blob in libraries
        for member in read_members(blob, path)
    ]
    if not files:
        raise LibraryError(
            "contains no object files", where=libraries[0][0], fix="give the library that TFLM's build wrote"
        )
    return Linker(files)


def _machine_of(core: Core) -> int | None:
    name = next((machine for isa, machine in _MACHINE_OF_ISA.items() if core.isa.startswith(isa)), None)
    return next((number for number, machine in MACHINES.items() if machine == name), None)
