from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType
from edgetool.target.platform import Platform
from tests.memory.account_net import Net
from tests.operators.work.runs import DSP, FLOAT32, INT8, INT16, INT32, MVE, PLAIN, REFERENCE, binary, run


@pytest.mark.parametrize("code", ["ADD", "MUL"])
@pytest.mark.parametrize(
    ("dtype", "platform", "elements"),
    [
        (INT8, PLAIN, {"element": 1}),
        (INT8, DSP, {"vector": 4, "rest": 1}),
        (INT8, MVE, {"vector": 4}),
        (INT16, PLAIN, {"pair": 2, "rest": 1}),
        (INT16, DSP, {"pair": 2, "rest": 1}),
        (INT16, MVE, {"vector": 4}),
    ],
)
@given(count=st.integers(1, 100))
def test_cmsis_nn_takes_several_elements_a_turn(
    code: str, dtype: DType, platform: Platform, elements: dict[str, int], count: int
) -> None:
    work = binary(code, (count,), (count,), dtype=dtype, platform=platform)
    assert work.path == f"{dtype.name.lower()} CMSIS-NN"
    done = sum(work.loops[name] * size for name, size in elements.items())
    assert count <= done < count + 4 if platform.mve else done == count


@pytest.mark.parametrize("code", ["ADD", "MUL", "SUB", "DIV"])
@pytest.mark.parametrize("dtype", [FLOAT32, INT32])
def test_other_types_run_the_same_code_on_both_kernel_sets(code: str, dtype: DType) -> None:
    one, other = (binary(code, (3, 5), (3, 5), dtype=dtype, platform=own) for own in (REFERENCE, DSP))
    assert one == other
    assert (one.path, one.loops["element"]) == (dtype.name.lower(), 15)


@pytest.mark.parametrize("platform", [REFERENCE, DSP, MVE])
def test_a_broadcast_is_the_reference_code(platform: Platform) -> None:
    work = binary("ADD", (4, 6), (6,), (4, 6), platform=platform)
    assert (work.path, work.loops["row of both"], work.loops["element of both"]) == ("int8 broadcast", 4, 24)


@pytest.mark.parametrize(
    ("code", "dtype", "path"),
    [
        ("ADD", INT8, "int8"),
        ("ADD", FLOAT32, "float32 broadcast"),
        ("SUB", INT16, "int16"),
        ("SUB", INT32, "int32 broadcast"),
        ("MUL", FLOAT32, "float32"),
        ("DIV", FLOAT32, "float32"),
        ("MAXIMUM", INT8, "int8 broadcast"),
        ("SQUARED_DIFFERENCE", INT8, "int8 broadcast"),
        ("FLOOR_MOD", FLOAT32, "float32 broadcast"),
    ],
)
def test_some_kernels_take_ones_in_front_for_a_broadcast(code: str, dtype: DType, path: str) -> None:
    assert binary(code, (1, 8), (8,), (1, 8), dtype=dtype).path == path


def test_maximum_of_int8_is_cmsis_nns_with_its_own_broadcast() -> None:
    work = binary("MAXIMUM", (2, 3, 4), (4,), (2, 3, 4), platform=DSP)
    assert (work.path, work.loops["pair row"], work.loops["pair element"]) == ("int8 CMSIS-NN", 6, 24)
    assert binary("MAXIMUM", (2, 3), (2, 3), dtype=INT16, platform=DSP).path == "int16"


def test_negative_numbers_are_expected_half_the_time() -> None:
    work = binary("ADD", (100,), (100,))
    assert (work.loops["negative"], work.loops["negative result"]) == (100, 50)
    product = binary("MUL", (100,), (100,))
    assert product.loops["negative"] == 50


def test_an_operand_that_stands_still_is_rounded_once() -> None:
    net = Net(1)
    x, y = net.arena(50), net.arena(1)
    work = run(net.model([x, y], [net.op("SUB", [x, y])]))
    assert work.loops["negative beside one"] == 25


def test_floor_div_looks_at_all_divisors() -> None:
    work = binary("FLOOR_DIV", (4, 6), (6,), (4, 6), dtype=FLOAT32)
    assert (work.loops["divisor"], work.loops["divisor dimension"]) == (6, 6)


def test_a_sum_of_many_adds_each_input() -> None:
    net = Net(1)
    inputs = [net.arena(7, dtype=FLOAT32) for _ in range(5)]
    work = run(net.model(inputs, [net.op("ADD_N", inputs)]))
    assert (work.loops["input"], work.loops["addend"], work.loops["element"]) == (5, 35, 7)
