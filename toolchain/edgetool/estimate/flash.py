"""The flash of the code that a firmware links for a model: TFLM, the kernels of its operators, and what these need.

Helpers are shared, so that sums over operators are 30 to 80 % too high. The size is therefore that of a union: of the
sections that the registrations of the model keep (target.code_sizes), or of those that a linker keeps of the user's own
library (archive.link). The rest of the program is the emitted runner, main.cc, the start-up code of examples/firmware
and the C library; the log prints formats as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgetool.errors import LibraryError
from edgetool.figure import Figure
from edgetool.target.code_sizes import LOG, CodeBuild, CodeSizes, Part, Registered, VersionFactor

if TYPE_CHECKING:  # imported on use: few users give their library, and object files are read with numpy
    from edgetool.archive.link import Linker

# Code of TFLM and its kernel libraries, except what the application may define.
_OWN_SYMBOL = re.compile(
    r"_ZNK?6tflite(?!\d+(InitializeTarget|GetCurrentTimeTicks|ticks_per_second))|arm_|esp_nn_|kiss_fft"
)
NAMED = 3  # symbols in a message
# More than any difference between a table and a linked program in benchmarks/flash/measured/linked.csv.
TABLE_ERROR_BYTES = 600


@dataclass(frozen=True, slots=True)
class OperatorCode:
    """The bytes of code that a program has only because of an operator."""

    operator: str
    bytes: int


@dataclass(frozen=True, slots=True)
class CodeSize:
    """The size of the code in flash.

    figure: In bytes, with its band. Its basis states runtime, kernels, core, compiler and C library.
    is_exact: Whether it is counted in the user's own library; for a core without a table, the rest is missing.
    uncounted: The operators whose kernels are not counted; if there are any, the size is a lower bound.
    alone: What each operator takes alone, the most first.
    log_bytes: What TFLM's own log adds, which formats with vsnprintf; 0 if it is counted, None if it is unknown.
    alternatives: The bytes with other options, by their names on the command line.
    """

    figure: Figure
    is_exact: bool = False
    uncounted: tuple[str, ...] = ()
    alone: tuple[OperatorCode, ...] = ()
    log_bytes: int | None = None
    alternatives: tuple[tuple[str, int], ...] = ()


def measured_code(
    sizes: CodeSizes, build: CodeBuild, registrations: Sequence[Registered], factor: VersionFactor, where: str
) -> CodeSize:
    """Return the size of the code with measured sections.

    Args:
        sizes: The table of the core.
        build: The column of the table.
        registrations: The registrations of the model.
        factor: The size with the target's version of TFLM relative to that of the table.
        where: The version, for the basis.
    """
    numbers, uncounted = _numbers(sizes, registrations)
    chosen = set(numbers.values())
    value = round(sizes.bytes_of(chosen, build) * factor.value)
    low = min(round(value * factor.low), value - TABLE_ERROR_BYTES)
    high = max(round(value * factor.high), value + TABLE_ERROR_BYTES)
    figure = Figure(value, low, high, "B", f"{where}, {sizes.basis(build)}")
    others = {
        "--optimization Os": (replace(build, optimization="Os"), chosen),
        "--c-library newlib-nano": (replace(build, c_library="newlib-nano"), chosen),
        "--kernels reference": (replace(build, kernels="reference"), chosen),
        "kernels for all types": (
            build,
            set(_numbers(sizes, [replace(item, function="") for item in registrations])[0].values()),
        ),
    }
    return CodeSize(
        figure,
        False,
        uncounted,
        _alone(sizes, build, numbers),
        _added(sizes, build, chosen, sizes.number(LOG)),
        tuple(
            (name, size)
            for name, (other, registered) in others.items()
            if (size := round(sizes.bytes_of(registered, other) * factor.value)) != value
        ),
    )


def measured_bytes(sizes: CodeSizes, build: CodeBuild, registrations: Sequence[Registered], part: Part) -> int:
    """Return the bytes of a part of a program with these registrations, as far as they are in the table."""
    return sizes.bytes_of(set(_numbers(sizes, registrations)[0].values()), build, part)


def library_code(
    linker: Linker,
    known: Sequence[Registered],
    sizes: CodeSizes | None,
    build: CodeBuild,
    registrations: Sequence[Registered],
    where: str,
) -> CodeSize:
    """Return the size of the code that a linker keeps of the user's library, plus the rest of the program.

    Args:
        linker: The library.
        known: The registrations with the symbols that they need; the first entry has those of every program.
        sizes: The table of the core, for the rest of the program; None if there is none, so that it is not counted.
        build: The column of the table.
        registrations: The registrations of the model.
        where: The library's name.

    Raises:
        LibraryError: The library does not define what TFLM needs.
    """
    symbols = _program_symbols(linker, known[0].symbols, where)
    uncounted = []
    for item in registrations:
        chosen = next((each for each in _entries(known, item) if _defines(linker, each)), None)
        if chosen is None:
            uncounted.append(item.operator)
        else:
            symbols += [each for name in chosen.symbols if (each := _definition(linker, name)) is not None]
    linked = linker.link(symbols)
    missing = sorted(name for name in linked.undefined if _OWN_SYMBOL.match(name))
    if missing:
        raise LibraryError(
            f"needs {len(missing)} symbols that it does not define: {', '.join(missing[:NAMED])}",
            where=where,
            fix="name the library that defines them with another --tflm-library",
        )
    value, band, rest_of = linked.flash_bytes, 0, "without the runner, start-up code and C library"
    if sizes is not None:
        numbers = set(_numbers(sizes, registrations)[0].values())
        log = sizes.number(LOG)
        if log is not None and "vsnprintf" in linked.undefined:
            numbers.add(log)
        rest = sizes.bytes_of(numbers, build, "program")
        value, band, rest_of = value + rest, round(rest * REST_ERROR), f"with the rest of {sizes.basis(build)}"
    figure = Figure(value, value - band, value + band, "B", f"{where}, {rest_of}")
    return CodeSize(figure, True, tuple(uncounted), log_bytes=0)


REST_ERROR = 0.05  # of runner, start-up code and C library, which the user's toolchain compiles


def _entries(known: Sequence[Registered], item: Registered) -> list[Registered]:
    """Return the type-specific registration, which older libraries lack, and then the default one."""
    functions = dict.fromkeys((item.function or "", ""))
    return [
        each for function in functions for each in known if (each.operator, each.function) == (item.operator, function)
    ]


def _defines(linker: Linker, item: Registered) -> bool:
    return all(_definition(linker, name) is not None for name in item.symbols)


def _program_symbols(linker: Linker, names: Iterable[str], where: str) -> list[str]:
    """Return what every program needs, without what the application can define itself, such as InitializeTarget."""
    found = [each for name in names if (each := _definition(linker, name)) is not None]
    if not any("MicroInterpreter" in name for name in found):
        raise LibraryError(
            "does not define the interpreter of TFLM", where=where, fix="give the library that TFLM's build wrote"
        )
    return found


def _definition(linker: Linker, name: str) -> str | None:
    """Return the symbol, or that of a version with other parameters, or in the former namespace; None if there is none.

    A mangled name begins with its nested name, _ZN...E (Itanium C++ ABI, section 5.1).
    """
    if name in linker.definitions:
        return name
    nested = _nested(name)
    if nested is None:
        return None
    former = nested.replace("_ZN6tflite", "_ZN6tflite3ops5micro", 1)
    return linker.first_with(nested) or linker.first_with(former)


def _nested(name: str) -> str | None:
    match = re.match(r"_ZN?K?", name)
    if match is None or not name.startswith("_ZN"):
        return None
    at = match.end()
    while length := re.match(r"\d+", name[at:]):
        at += length.end() + int(length[0])
    ended = re.match(r"(C1)?E", name[at:])
    return None if ended is None else name[: at + ended.end()]


def _numbers(sizes: CodeSizes, registrations: Sequence[Registered]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the number of each operator's registration, and the operators that the table does not have."""
    numbers, uncounted = {}, []
    for item in registrations:
        number = sizes.number(item.operator, item.function)
        if number is None:
            uncounted.append(item.operator)
        else:
            numbers[item.operator] = number
    return numbers, tuple(uncounted)


def _alone(sizes: CodeSizes, build: CodeBuild, numbers: dict[str, int]) -> tuple[OperatorCode, ...]:
    every = set(numbers.values())
    total = sizes.bytes_of(every, build)
    alone = [OperatorCode(name, total - sizes.bytes_of(every - {number}, build)) for name, number in numbers.items()]
    return tuple(sorted(alone, key=lambda item: -item.bytes))


def _added(sizes: CodeSizes, build: CodeBuild, chosen: set[int], number: int | None) -> int | None:
    return None if number is None else sizes.bytes_of(chosen | {number}, build) - sizes.bytes_of(chosen, build)
