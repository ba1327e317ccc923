""""""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType, Tensor
from edgetool.operators.arithmetic import cmsis_broadcast_loops
from edgetool.operators.call import KernelRefusal, Request, persistent, scratch
from edgetool.operators.loops import Shape
from edgetool.target.platform import Platform
from tests.memory.account_net import Net
from tests.operators.builds import DSP, MVE, PLAIN, REFERENCE
from tests.operators.calls import CORTEX_M, HOST, call, platform, prepared, temporaries, tensor
from tests.operators.runs import FLOAT32, INT8, INT16, INT32, binary, run

BINARY = ("ADD", "DIV", "FLOOR_DIV", "FLOOR_MOD", "MUL", "SQUARED_DIFFERENCE", "SUB")
Q = tensor(1, 4, scale=0.5)
F = tensor(1, 4, dtype=DType.FLOAT32)


@pytest.mark.parametrize("code", BINARY)
@pytest.mark.parametrize("cmsis_nn", [False, True])
@pytest.mark.parametrize("one", [Q, F])
def test_a_binary_kernel_requests_each_tensor_once(code: str, cmsis_nn: bool, one: Tensor) -> None:
    assert temporaries(call(code, [one, one], [one], platform(cmsis_nn=cmsis_nn))) == [0, 1, 2]


@pytest.mark.parametrize("code", ["MAXIMUM", "MINIMUM"])
def test_maximum_and_minimum_have_no_prepare(code: str) -> None:
    wrong = tensor(3, dtype=DType.STRING)
    assert prepared(call(code, [wrong, Q], [F])) == []


@pytest.mark.parametrize("code", BINARY)
def test_an_operand_cannot_be_left_out(code: str) -> None:
    with pytest.raises(KernelRefusal, match="no input 1"):
        prepared(call(code, [Q, None], [Q]))


@pytest.mark.parametrize("code", ["DIV", "FLOOR_DIV", "FLOOR_MOD", "MUL", "SQUARED_DIFFERENCE"])
def test_operands_of_two_types_are_refused(code: str) -> None:
    with pytest.raises(KernelRefusal, match="float32 together with int8"):
        prepared(call(code, [F, Q], [F]))


def test_only_the_add_of_cmsis_nn_checks_types() -> None:
    # The reference kernel looks at the output's type alone, and finds float32.
    mixed = [F, Q]
    assert temporaries(call("ADD", mixed, [F])) == [0, 1, 2]
    with pytest.raises(KernelRefusal, match="float32 together with int8"):
        prepared(call("ADD", mixed, [F], platform(cmsis_nn=True)))
    wide = tensor(4, dtype=DType.INT64)
    assert temporaries(call("ADD", [wide, wide], [wide])) == [0, 1, 2]
    with pytest.raises(KernelRefusal, match="int64"):
        prepared(call("ADD", [wide, wide], [wide], platform(cmsis_nn=True)))


def test_only_the_add_of_cmsis_nn_needs_int16_around_zero() -> None:
    shifted = tensor(4, dtype=DType.INT16, scale=0.5, zero_point=3)
    assert temporaries(call("ADD", [shifted, shifted], [shifted])) == [0, 1, 2]
    with pytest.raises(KernelRefusal, match="zero points of 0"):
        prepared(call("ADD", [shifted, shifted], [shifted], platform(cmsis_nn=True)))


@pytest.mark.parametrize("code", ["MUL", "SQUARED_DIFFERENCE"])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_int16_around_another_zero_is_refused(code: str, position: int) -> None:
    tensors = [tensor(4, dtype=DType.INT16, scale=0.5, zero_point=int(i == position)) for i in range(3)]
    with pytest.raises(KernelRefusal, match="zero points of 0"):
        prepared(call(code, tensors[:2], tensors[2:]))


@pytest.mark.parametrize("code", ["ADD", "DIV", "SUB"])
def test_int32_is_no_quantized_type(code: str) -> None:
    plain, quantized = tensor(4, dtype=DType.INT32), tensor(4, dtype=DType.INT32, scale=0.5)
    assert temporaries(call(code, [plain, plain], [plain])) == [0, 1, 2]
    with pytest.raises(KernelRefusal, match="only without quantization"):
        prepared(call(code, [plain, quantized], [plain]))


def test_only_sub_checks_the_quantization_of_an_int32_output() -> None:
    plain, quantized = tensor(4, dtype=DType.INT32), tensor(4, dtype=DType.INT32, scale=0.5)
    assert temporaries(call("ADD", [plain, plain], [quantized])) == [0, 1, 2]
    with pytest.raises(KernelRefusal, match="only without quantization"):
        prepared(call("SUB", [plain, plain], [quantized]))


@pytest.mark.parametrize("code", ["ADD", "SUB"])
@pytest.mark.parametrize(("dtype", "shift"), [(DType.INT8, 20), (DType.INT16, 15)])
def test_the_output_scale_of_a_sum_is_bounded_below(code: str, dtype: DType, shift: int) -> None:
    # The multiplier 2 * 0.5 / (2^shift * scale) is 1 at 2^-shift, and must be less.
    one = tensor(4, dtype=dtype, scale=0.5)
    assert temporaries(call(code, [one, one], [tensor(4, dtype=dtype, scale=1.001 * 2.0**-shift)])) == [0, 1, 2]
    with pytest.raises(KernelRefusal, match="too small"):
        prepared(call(code, [one, one], [tensor(4, dtype=dtype, scale=2.0**-shift)]))


@pytest.mark.parametrize("code", ["ADD", "SUB", "SQUARED_DIFFERENCE"])
def test_int8_without_a_scale_is_refused(code: str) -> None:
    with pytest.raises(KernelRefusal, match="positive input scales"):
        prepared(call(code, [Q, tensor(1, 4)], [Q]))


@pytest.mark.parametrize("code", ["ADD", "DIV", "MUL", "SUB"])
def test_a_clamp_that_no_32_bits_hold_is_refused(code: str) -> None:
    one, fine = tensor(4, scale=1e-9), tensor(4, scale=1e-8)
    assert temporaries(call(code, [fine, fine], [fine], activation="RELU6")) == [0, 1, 2]
    assert temporaries(call(code, [one, one], [one], activation="RELU")) == [0, 1, 2]
    with pytest.raises(KernelRefusal, match="clamp to 6"):
        prepared(call(code, [one, one], [one], activation="RELU6"))


def test_squared_difference_refuses_an_int8_zero_point_beyond_its_type() -> None:
    with pytest.raises(KernelRefusal, match="from -128 to 127"):
        prepared(call("SQUARED_DIFFERENCE", [Q, Q], [tensor(1, 4, scale=0.5, zero_point=128)]))


def test_add_n_keeps_pointers_in_scratch() -> None:
    for abi in (CORTEX_M, HOST):
        requests = prepared(call("ADD_N", [F, F, F], [F], platform(abi)))
        assert [request.tensor for request in requests[:-1]] == [0, 3, 1, 2]  # the output before further inputs
        assert requests[-1] == scratch("pointers to the inputs", 3 * abi.pointer_bytes)


def test_add_n_of_int8_keeps_its_parameters_too() -> None:
    kept: list[Request] = [r for r in prepared(call("ADD_N", [Q, Q], [Q])) if r.kind != "temporary tensor"]
    assert kept == [persistent("parameters", 40), scratch("pointers to the inputs", 8)]


@pytest.mark.parametrize(
    ("inputs", "output", "why"),
    [
        ([F, F], Q, "float32 together with int8"),
        ([F, tensor(4, 1, dtype=DType.FLOAT32)], F, "same shape and type"),
        ([Q, tensor(1, 4, scale=0.25)], Q, "scale"),
        ([Q, tensor(1, 4, scale=0.5, zero_point=1)], Q, "same scale and zero point"),
        ([tensor(4, dtype=DType.INT32)] * 2, tensor(4, dtype=DType.INT32), "float32 and int8, not int32"),
    ],
)
def test_add_n_refuses(inputs: list[Tensor], output: Tensor, why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        prepared(call("ADD_N", inputs, [output]))


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


def test_floor_div_checks_all_divisors() -> None:
    work = binary("FLOOR_DIV", (4, 6), (6,), (4, 6), dtype=FLOAT32)
    assert (work.loops["divisor"], work.loops["divisor dimension"]) == (6, 6)


def test_a_sum_of_many_adds_each_input() -> None:
    net = Net(1)
    inputs = [net.arena(7, dtype=FLOAT32) for _ in range(5)]
    work = run(net.model(inputs, [net.op("ADD_N", inputs)]))
    assert (work.loops["input"], work.loops["addend"], work.loops["element"]) == (5, 35, 7)


SIDES = st.tuples(st.integers(1, 5), st.sampled_from(["same", "first", "second"]))


@given(st.lists(SIDES, min_size=1, max_size=4))
def test_every_element_is_compared_once(sides: list[tuple[int, str]]) -> None:
    first = tuple(1 if kind == "second" else size for size, kind in sides)
    second = tuple(1 if kind == "first" else size for size, kind in sides)
    result = tuple(size for size, _ in sides)
    found = cmsis_broadcast_loops(first, second, result, PLAIN)
    assert found.get("pair element", 0) + found.get("scalar element", 0) == prod(result)
    wide = cmsis_broadcast_loops(first, second, result, MVE)
    for kind in ("pair", "scalar"):
        rows = found.get(f"{kind} row", 0)
        length = found.get(f"{kind} element", 0) // rows if rows else 0
        assert wide.get(f"{kind} element", 0) == rows * -(-length // 16)


@pytest.mark.parametrize(
    ("first", "second", "kind", "rows", "length"),
    [
        ((2, 3, 4, 5), (2, 3, 4, 5), "pair", 1, 120),
        ((2, 3, 4, 5), (1,), "scalar", 1, 120),
        ((2, 3, 4, 5), (1, 3, 4, 5), "pair", 2, 60),
        ((2, 3, 4, 5), (2, 1, 1, 1), "scalar", 2, 60),
        ((2, 3, 4, 5), (2, 1, 4, 5), "pair", 6, 20),
        ((2, 3, 4, 5), (2, 3, 1, 1), "scalar", 6, 20),
        ((2, 3, 4, 5), (5,), "pair", 24, 5),
        ((2, 3, 4, 5), (2, 3, 4, 1), "scalar", 24, 5),
    ],
)
def test_a_row_is_as_long_as_the_shapes_allow(first: Shape, second: Shape, kind: str, rows: int, length: int) -> None:
    found = cmsis_broadcast_loops(first, second, first, PLAIN)
    assert (found[f"{kind} row"], found[f"{kind} element"]) == (rows, rows * length)
    assert cmsis_broadcast_loops(second, first, first, PLAIN) == found
