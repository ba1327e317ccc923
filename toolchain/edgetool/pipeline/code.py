"""The flash of the code that a model's firmware links, from the measured tables or from the user's own library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from edgetool.archive.ar import read_members
from edgetool.archive.elf import MACHINES, read_object
from edgetool.archive.link import Linker
from edgetool.errors import LibraryError
from edgetool.estimate.flash import CodeSize, library_code, measured_code
from edgetool.model.types import Model
from edgetool.operators.entry import OperatorEntry
from edgetool.pipeline.output import read_file
from edgetool.pipeline.registrations import registrations_of
from edgetool.target.code_sizes import CodeBuild, Registered, load_code_sizes, load_registrations, load_version_factors
from edgetool.target.types import CodeOptions, Core, Target

# The machine of object files by the first letters of a core's instruction set.
_MACHINE_OF_ISA = {"armv8-a": "AArch64", "armv": "Arm", "rv": "RISC-V", "xtensa": "Xtensa", "rx": "RX", "x86": "x86-64"}


def code_of(model: Model, target: Target, custom: Mapping[str, OperatorEntry] | None = None) -> CodeSize | None:
    """Return the size of the code that TFLM's firmware of a model links; None if it is unknown for the target.

    Raises LibraryError if the user's library does not define what the firmware needs.
    """
    runtime, options = target.runtime, target.code_options or CodeOptions()
    if runtime.is_native:
        return None
    registrations = [
        Registered(item.operator, item.method or "", item.function or "")
        for item in registrations_of(model, runtime, target.kernels, custom or {})
    ]
    measured = runtime.newest or runtime.name
    sizes = load_code_sizes(measured, target.core.name)
    build = CodeBuild(target.kernels, options.optimization or "O2", options.c_library or "newlib")
    if sizes is not None and str(build) not in sizes.builds:
        sizes = None
    if options.libraries:
        linker = read_libraries(options.libraries, target.core)
        where = ", ".join(Path(each).name for each in options.libraries)
        return library_code(linker, load_registrations(measured), sizes, build, registrations, where)
    if sizes is None:
        return None
    factor = load_version_factors().get((runtime.name, target.kernels))
    if factor is None:
        return None
    return measured_code(sizes, build, registrations, factor, runtime.name)


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
