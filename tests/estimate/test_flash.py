"""The size of the code: against linked programs, with other versions, and in the user's own library."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.flash.linked import Row, build_of, read

from edgetool.archive.elf import read_object
from edgetool.archive.link import Linker
from edgetool.errors import LibraryError
from edgetool.estimate.flash import REST_ERROR, TABLE_ERROR_BYTES, library_code, measured_code
from edgetool.target.code_sizes import (
    LOG,
    CodeBuild,
    CodeRow,
    CodeSizes,
    Registered,
    VersionFactor,
    load_code_sizes,
)
from edgetool.target.load import DEFAULT_RUNTIME
from tests.archive.objects import Part, Unit, object_bytes

LINKED = read()
BUILD = CodeBuild("cmsis-nn")
SAME = VersionFactor(1, 0.99, 1.01)
PARSE_ADD = "_ZN6tflite8ParseAddEPKNS_8OperatorE"
REGISTER_ADD, REGISTER_ADD_INT8 = "_ZN6tflite12Register_ADDEv", "_ZN6tflite17Register_ADD_INT8Ev"
INVOKE = "_ZN6tflite16MicroInterpreter6InvokeEv"
KNOWN = (
    Registered("", "", symbols=(INVOKE, "_ZN6tflite16InitializeTargetEv")),
    Registered("ADD", "AddAdd", symbols=(REGISTER_ADD, PARSE_ADD)),
    Registered("MUL", "AddMul", symbols=("_ZN6tflite12Register_MULEv",)),
    Registered("ADD", "AddAdd", "Register_ADD_INT8", "add.h", (REGISTER_ADD_INT8, PARSE_ADD)),
    Registered(LOG, ""),
)
COLUMNS = tuple(
    str(replace(BUILD, kernels=kernels, optimization=optimization, c_library=c_library))
    for kernels, optimization, c_library in (
        ("cmsis-nn", "O2", "newlib"),
        ("cmsis-nn", "Os", "newlib"),
        ("cmsis-nn", "O2", "newlib-nano"),
        ("reference", "O2", "newlib"),
    )
)
SIZES = CodeSizes(
    KNOWN,
    COLUMNS,
    (
        CodeRow("library", frozenset(), (1000, 900, 1000, 1000)),
        CodeRow("program", frozenset(), (500, 500, 400, 500)),
        CodeRow("library", frozenset({1, 3}), (300, 200, 300, 250)),
        CodeRow("library", frozenset({1}), (70, 70, 70, 70)),
        CodeRow("library", frozenset({2}), (40, 40, 40, 40)),
        CodeRow("library", frozenset({1, 2, 3}), (8, 8, 8, 8)),
        CodeRow("program", frozenset({4}), (6000, 6000, 2000, 6000)),
    ),
    {"core": "cortex-m7", "compiler": "gcc 1"},
)


def within(row: Row) -> bool:
    """Return whether the table is within 2 % or 1 KB of the linked program."""
    return abs(row.error) <= 0.02 or abs(row.table_bytes - row.linked_bytes) <= 1024


def test_the_tables_state_what_is_linked() -> None:
    cores = {row.core for row in LINKED}
    assert cores == {f"cortex-{name}" for name in ("m0plus", "m3", "m4", "m7", "m33", "m55")}
    assert {len({row.build for row in LINKED if row.core == core}) for core in cores} == {8}
    assert [row for row in LINKED if not within(row)] == []
    assert max(abs(row.table_bytes - row.linked_bytes) for row in LINKED) <= TABLE_ERROR_BYTES
    assert max(abs(row.error) for row in LINKED if row.core != "cortex-m3") < 0.01


def test_what_is_counted_in_the_library_is_what_is_linked() -> None:
    assert max(abs(row.library_error) for row in LINKED if row.core != "cortex-m3") < 0.01
    assert max(abs(row.library_error) for row in LINKED) < 0.015


def test_the_band_of_the_rest_contains_each_program() -> None:
    for row in LINKED:
        sizes = load_code_sizes(DEFAULT_RUNTIME, row.core)
        assert sizes is not None
        rest = sizes.bytes_of(map(int, row.registrations.split()), build_of(row), "program")
        assert abs(row.library_bytes - row.linked_bytes) <= round(rest * REST_ERROR)


def test_the_measured_figures_are_those_of_the_tables() -> None:
    for row in LINKED[::7]:
        sizes = load_code_sizes(DEFAULT_RUNTIME, row.core)
        assert sizes is not None
        assert sizes.bytes_of(map(int, row.registrations.split()), build_of(row)) == row.table_bytes


def test_shared_code_is_counted_once() -> None:
    both = measured_code(SIZES, BUILD, [KNOWN[3], KNOWN[2]], SAME, "tflm")
    assert both.figure.value == 1000 + 500 + 300 + 40 + 8
    assert (both.figure.low, both.figure.high) == (1848 - TABLE_ERROR_BYTES, 1848 + TABLE_ERROR_BYTES)
    assert both.figure.basis == "tflm, cmsis-nn, cortex-m7, gcc 1 -O2, newlib"
    assert [(item.operator, item.bytes) for item in both.alone] == [("ADD", 300), ("MUL", 40)]
    assert both.log_bytes == 6000
    assert dict(both.alternatives) == {
        "--optimization Os": 1648,
        "--c-library newlib-nano": 1748,
        "--kernels reference": 1798,
        "kernels for all types": 1918,
    }
    assert not both.is_exact


def test_unknown_operators_make_it_a_lower_bound() -> None:
    code = measured_code(SIZES, BUILD, [KNOWN[1], Registered("MINE", "")], SAME, "tflm")
    assert code.uncounted == ("MINE",)


def test_another_version_has_a_factor_and_a_band() -> None:
    code = measured_code(SIZES, BUILD, [KNOWN[2]], VersionFactor(0.9, 0.4, 1.6), "tflm-2024-06")
    value = round(0.9 * (1000 + 500 + 40 + 8))
    assert (code.figure.value, code.figure.low, code.figure.high) == (value, round(value * 0.4), round(value * 1.6))


def library(*units: Unit) -> Linker:
    """Return a library of these files."""
    return Linker([read_object(memoryview(object_bytes(unit)), f"{number}.o") for number, unit in enumerate(units)])


INTERPRETER = Unit((Part(".text.invoke", bytes(1000), ("memcpy",)),), {INVOKE: 0})
ADD = Unit(
    (Part(".text.add", bytes(300), ("arm_add",)), Part(".text.parse", bytes(20)), Part(".text.add8", bytes(200))),
    {REGISTER_ADD: 0, PARSE_ADD: 1, REGISTER_ADD_INT8: 2},
)
KERNEL = Unit((Part(".text.arm_add", bytes(100)),), {"arm_add": 0})
FORMER = Unit(
    (Part(".text.add", bytes(300)), Part(".text.parse", bytes(20))),
    {"_ZN6tflite3ops5micro12Register_ADDEv": 0, "_ZN6tflite8ParseAddEPKNS_8OperatorEPNS_13ErrorReporterE": 1},
)


def counted(linker: Linker, *items: Registered, sizes: CodeSizes | None = SIZES) -> tuple[float, tuple[str, ...]]:
    """Return the size and the uncounted operators."""
    code = library_code(linker, KNOWN, sizes, BUILD, items, "lib.a")
    assert code.is_exact
    return code.figure.value, code.uncounted


def test_the_users_library_is_counted_and_the_rest_comes_from_the_table() -> None:
    everything = library(INTERPRETER, ADD, KERNEL)
    assert counted(everything, KNOWN[1]) == (1000 + 300 + 100 + 20 + 500, ())
    assert counted(everything, KNOWN[3]) == (1000 + 200 + 20 + 500, ())
    assert counted(everything, KNOWN[1], sizes=None) == (1420, ())
    assert counted(everything, KNOWN[2]) == (1500, ("MUL",))
    code = library_code(everything, KNOWN, SIZES, BUILD, [KNOWN[1]], "lib.a")
    assert code.figure.high - code.figure.value == 500 * REST_ERROR
    assert code.figure.basis == "lib.a, with the rest of cmsis-nn, cortex-m7, gcc 1 -O2, newlib"


def test_a_library_of_another_version_has_other_symbols() -> None:
    """It has no type-specific registration, the other one is in the former namespace, and parameters differ."""
    assert counted(library(INTERPRETER, FORMER), KNOWN[3]) == (1000 + 320 + 500, ())


def test_the_log_of_tflm_needs_printf() -> None:
    logging = Unit((Part(".text.invoke", bytes(1000), ("vsnprintf",)),), {INVOKE: 0})
    assert counted(library(logging, FORMER), KNOWN[1]) == (1000 + 320 + 500 + 6000, ())


def test_a_library_without_its_kernels_or_the_interpreter_is_refused() -> None:
    with pytest.raises(LibraryError, match="needs 1 symbols that it does not define: arm_add"):
        counted(library(INTERPRETER, ADD), KNOWN[1])
    with pytest.raises(LibraryError, match="does not define the interpreter"):
        counted(library(ADD, KERNEL), KNOWN[1])
