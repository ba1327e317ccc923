"""The tables of code: what every packaged one contains, and damaged ones."""

from __future__ import annotations

from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import TargetError
from edgetool.target.code_sizes import (
    LOG,
    CodeBuild,
    CodeRow,
    CodeSizes,
    Registered,
    format_code_sizes,
    load_code_sizes,
    load_registrations,
    load_version_factors,
    parse_code_sizes,
    parse_registrations,
)
from edgetool.target.load import DEFAULT_RUNTIME, list_runtimes, load_runtime
from edgetool.target.types import Kernels

CORES = ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")
BUILDS = [
    CodeBuild(kernels, optimization, c_library)
    for kernels in ("reference", "cmsis-nn")
    for optimization in ("O2", "Os")
    for c_library in ("newlib", "newlib-nano")
]
KNOWN = (Registered("", ""), Registered("ADD", "AddAdd"), Registered("ADD", "AddAdd", "Register_ADD_INT8", "add.h"))


def table(core: str) -> CodeSizes:
    """Return the packaged table of a core."""
    sizes = load_code_sizes(DEFAULT_RUNTIME, core)
    assert sizes is not None
    return sizes


@pytest.mark.parametrize("core", CORES)
def test_every_build_of_every_core_is_measured(core: str) -> None:
    sizes, runtime = table(core), load_runtime(DEFAULT_RUNTIME)
    assert sizes.builds == tuple(map(str, BUILDS))
    assert sizes.conditions["tflm"] == runtime.tflm_commit
    assert sizes.conditions["cmsis-nn"] == runtime.cmsis_nn_commit
    assert sizes.conditions["core"] == core
    assert sizes.basis(BUILDS[0]).startswith(f"reference, {core}, arm-none-eabi-gcc ")


def test_every_registration_of_the_runtime_is_measured() -> None:
    runtime, known = load_runtime(DEFAULT_RUNTIME), load_registrations(DEFAULT_RUNTIME)
    general = {item.operator: item.method for item in known if item.method and not item.function}
    assert general == dict((*runtime.resolver, *runtime.custom_resolver))
    assert {item.function for item in known if item.function} == {item.function for item in runtime.registrations}
    assert (known[0].operator, known[-1].operator) == ("", LOG)
    for item in known[1:-1]:
        name = f"{len(item.function)}{item.function}" if item.function else "Register_"
        assert any(name in symbol for symbol in item.symbols), item


@pytest.mark.parametrize("core", CORES)
def test_more_registrations_never_take_less(core: str) -> None:
    sizes = table(core)
    for build in BUILDS:
        numbers: list[int] = []
        before = sizes.bytes_of(numbers, build)
        assert 14_000 < before < 26_000
        for number in range(1, len(sizes.registrations), 7):
            numbers.append(number)
            after = sizes.bytes_of(numbers, build)
            assert after == sizes.bytes_of(numbers, build, "library") + sizes.bytes_of(numbers, build, "program")
            assert before < after or sizes.registrations[number].function
            before = after


def test_kernels_for_all_types_take_no_less() -> None:
    sizes = table("cortex-m7")
    for number, item in enumerate(sizes.registrations):
        if item.function:
            general = sizes.number(item.operator)
            assert general is not None
            assert sizes.bytes_of([number], BUILDS[4]) <= sizes.bytes_of([general], BUILDS[4])


def test_every_version_of_tflm_has_a_factor() -> None:
    factors = load_version_factors()
    kernels: tuple[Kernels, ...] = ("reference", "cmsis-nn")
    versions = [name for name in list_runtimes() if name.startswith("tflm-")]
    assert set(factors) == {(name, each) for name in versions for each in kernels}
    assert all(0.5 < item.value <= 1.0 and 0.8 < item.low < 1 < item.high < 1.2 for item in factors.values())
    assert factors[DEFAULT_RUNTIME, "reference"].value == 1


def test_there_is_no_table_for_other_cores_and_runtimes() -> None:
    assert load_code_sizes(DEFAULT_RUNTIME, "xtensa-lx7") is None
    assert load_code_sizes("native", "cortex-m7") is None
    assert load_registrations("native") == ()


@pytest.mark.parametrize("core", CORES)
def test_packaged_tables_are_in_their_canonical_form(core: str) -> None:
    folder = files("edgetool.targets").joinpath("runtimes", "code")
    registrations, text = format_code_sizes(table(core))
    assert folder.joinpath(f"{DEFAULT_RUNTIME}.csv").read_text(encoding="ascii") == registrations
    assert folder.joinpath(f"{DEFAULT_RUNTIME}.{core}.csv").read_text(encoding="ascii") == text


ROWS = st.lists(
    st.builds(
        CodeRow,
        st.sampled_from(["library", "program"]),
        st.frozensets(st.integers(1, 2)),
        st.tuples(st.integers(-99, 9999), st.integers(0, 9999)),
    ),
    unique_by=lambda row: (row.part, row.registrations),
)


@given(ROWS)
def test_tables_read_back(rows: list[CodeRow]) -> None:
    builds = (str(BUILDS[0]), str(BUILDS[1]))
    sizes = CodeSizes(KNOWN, builds, tuple(rows), {"core": "m: 7", "compiler": "gcc"})
    registrations, text = format_code_sizes(sizes)
    read = parse_code_sizes(parse_registrations(registrations), text, where="t.csv")
    assert (read.registrations, read.builds, read.conditions) == (KNOWN, builds, sizes.conditions)
    assert set(read.rows) == set(rows)
    for numbers in ([], [1], [1, 2]):
        expected = sum(row.bytes[1] for row in rows if not row.registrations or row.registrations & set(numbers))
        assert read.bytes_of(numbers, BUILDS[1]) == expected


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("library,1,5,6,7", "row 1 is not valid: it has 5 cells instead of 4"),
        ("other,1,5,6", "row 1 is not valid: 'other' is no part of a firmware"),
        ("library,3,5,6", "row 1 is not valid: it has a registration that does not exist"),
        ("library,0,5,6", "row 1 is not valid: it has a registration that does not exist"),
        ("library,a,5,6", "row 1 is not valid"),
        ("library,1,-99999999,6", "row 1 is not valid: its sizes are not at most"),
        ("library,1,x,6", "row 1 is not valid"),
    ],
)
def test_damaged_tables_are_refused(line: str, what: str) -> None:
    header = f"part,registrations,{BUILDS[0]},{BUILDS[1]}\n"
    with pytest.raises(TargetError, match=what):
        parse_code_sizes(KNOWN, header + line + "\n", where="t.csv")
    with pytest.raises(TargetError, match="does not begin with the columns"):
        parse_code_sizes(KNOWN, "part,other\n", where="t.csv")
