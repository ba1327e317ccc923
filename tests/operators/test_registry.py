"""The shipped tables: what the fit makes of the counts, for every operator that TFLM registers.

How many times kernels read their constants.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

import pytest
from benchmarks.instructions.cases import rooms
from benchmarks.instructions.fit import fit_build, points, predicted
from benchmarks.instructions.measured import BUILDS

from edgetool import operators
from edgetool.model.rules import COUNTS
from edgetool.model.types import DType, Model
from edgetool.operators.call import Call, KernelRefusal
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import (
    CUSTOM_FAMILIES,
    CUSTOM_OPERATORS,
    FAMILIES,
    OPERATORS,
    OTHERS,
    constant_reads,
    entry_of,
    input_reads,
    loop_counts_of,
)
from edgetool.target.load import DEFAULT_RUNTIME, list_runtimes, load_runtime
from edgetool.target.platform import Platform, make_platform
from edgetool.target.tables import load_instructions
from edgetool.target.types import Kernels
from tests.graphs import operator
from tests.memory.account_convolutions import dense, lstm
from tests.memory.account_net import Net
from tests.operators.builds import DSP, MVE, PLAIN, REFERENCE
from tests.operators.runs import FLOAT32, INT8, INT16, INT32, run

# Custom operators of TFLM whose allocations no rule here tells: a model with one has an arena known from below.
WITHOUT_RULE: frozenset[str] = frozenset()


@pytest.mark.parametrize("name", list_runtimes())
def test_every_operator_that_tflm_registers_has_a_rule(name: str) -> None:
    runtime = load_runtime(name)
    assert [code for code in runtime.operators if OPERATORS[code].prepare is None] == []
    assert {name for name in runtime.custom_operators if name not in CUSTOM_OPERATORS} == WITHOUT_RULE


def test_the_reader_counts_the_operands_of_every_operator_that_has_a_rule() -> None:
    """No rule counts them again."""
    assert {code for code, entry in OPERATORS.items() if entry.prepare is not None} <= COUNTS.keys()


def test_every_operator_is_of_one_family() -> None:
    codes = [*OTHERS, *(code for family in FAMILIES.values() for code in family.split())]
    assert [code for code, times in Counter(codes).items() if times > 1] == []
    assert sorted(codes) == [*OPERATORS]


@pytest.mark.parametrize(("family", "codes"), [*FAMILIES.items(), *CUSTOM_FAMILIES.items()])
def test_the_registry_lists_the_operators_of_each_family(family: str, codes: str) -> None:
    module = import_module(f"edgetool.operators.{family}")
    assert codes.split() == sorted(entry.code for entry in module.OPERATORS)


def test_every_family_is_in_the_registry() -> None:
    modules = [item.name for item in iter_modules(operators.__path__)]
    families = [name for name in modules if hasattr(import_module(f"edgetool.operators.{name}"), "OPERATORS")]
    assert sorted(families) == sorted({*FAMILIES, *CUSTOM_FAMILIES, "registry"})


def test_an_operator_imports_its_own_family_only() -> None:
    code = (
        "import sys; from edgetool.operators.registry import CUSTOM_OPERATORS, OPERATORS; "
        "assert 'SVDF' in OPERATORS and 'SignalRfft' in CUSTOM_OPERATORS and OPERATORS['RESHAPE'].prepare; "
        "assert 'edgetool.operators.shape' in sys.modules; "
        "sys.exit('edgetool.operators.recurrent' in sys.modules or 'edgetool.operators.signal' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_entry_of_the_user_goes_before_that_of_tflm() -> None:
    known = next(iter(CUSTOM_OPERATORS))
    call = replace(operator(0, "CUSTOM", [0], [1]), custom_code=known)
    own = OperatorEntry(known)
    assert entry_of(call) is CUSTOM_OPERATORS[known]
    assert entry_of(call, {known: own}) is own
    assert entry_of(replace(call, custom_code="Foreign"), {known: own}) is None
    assert entry_of(operator(0, "CONV_2D", [0], [1]), {"CONV_2D": own}) is OPERATORS["CONV_2D"]


def test_tensors_with_other_axes_than_the_kernel_reads_have_no_loop_counts() -> None:
    net = Net(1)
    x, slopes = net.arena(1, 2, 2, 2, 3, dtype=FLOAT32), net.noise(3, dtype=FLOAT32)
    with pytest.raises(KernelRefusal, match="PRELU does not support tensors"):
        run(net.model([x], [net.op("PRELU", [x, slopes])]))


def test_a_row_of_pixels_is_not_an_image_to_scatter() -> None:
    net = Net(1)
    x, weights = net.arena(1, 8, 20), net.noise(4, 3, 3, 20)
    inputs = [net.constant((1, 3, 23, 4)), weights, x]
    with pytest.raises(KernelRefusal, match="TRANSPOSE_CONV"):
        run(net.model([x], [net.op("TRANSPOSE_CONV", inputs, 1, 3, 23, 4, stride_h=3, stride_w=3)]))


def test_a_result_smaller_than_its_padding_has_no_loop_counts() -> None:
    net = Net(1)
    x, around = net.arena(4, 5, dtype=FLOAT32), net.constant((0, 0, 3, 3), 2, 2)
    with pytest.raises(KernelRefusal, match="PAD requires paddings that match"):
        run(net.model([x], [net.op("PAD", [x, around], 4, 5)]))


@pytest.mark.parametrize("platform", [REFERENCE, PLAIN, MVE])
def test_paddings_that_do_not_match_the_result_have_no_loop_counts(platform: Platform) -> None:
    """What the kernel would do with them follows from no shape, and may be counted to any height."""
    net = Net(1)
    x, around = net.arena(1, 10, 10, 8), net.constant((0, 0, 2**31 - 1, 0, 0, 0, 0, 0), 4, 2)
    with pytest.raises(KernelRefusal, match="PAD requires paddings"):
        run(net.model([x], [net.op("PAD", [x, around], 1, 10, 10, 8)]), platform)


def test_sides_that_no_device_holds_are_not_walked() -> None:
    """A hostile file may name a window for each of two thousand million places."""
    net = Net(1)
    x = net.arena(1, 2**31 - 1, 1, 1)
    y = net.op(
        "CONV_2D", [x, net.filter(1, 1, 3, 1, like=x), net.biases(1, like=x)], padding="SAME", stride_h=1, stride_w=1
    )
    assert without_work(net.model([x], [y]))


def without_work(model: Model) -> bool:
    platform = make_platform(load_runtime(DEFAULT_RUNTIME), "arm-eabi", "cmsis-nn")
    return loop_counts_of(Call(model, model.main, model.main.operators[0], platform, {})) is None


def test_windows_with_too_many_elements_are_not_walked() -> None:
    """Two long sides make a walk of their product."""
    net = Net(1)
    x, weights = net.arena(1, 2**16, 1, 1), net.arena(1, 2**16, 1, 1)
    y = net.op("CONV_2D", [x, weights], 1, 2**16, 1, 1, padding="SAME", stride_h=1, stride_w=1)
    assert without_work(net.model([x, weights], [y]))


@pytest.mark.parametrize("stride", [1, 2])
def test_a_long_filter_over_a_long_result_is_not_walked(stride: int) -> None:
    net = Net(1)
    x, weights = net.arena(1, 1, 1, 17), net.arena(1, 2**16, 1, 17)
    inputs = [net.constant((1, 2**16, 1, 1)), weights, x]
    y = net.op("TRANSPOSE_CONV", inputs, 1, 2**16, 1, 1, stride_h=stride, stride_w=stride)
    assert without_work(net.model([x, weights], [y]))


def test_batches_of_images_are_not_walked_without_end() -> None:
    net = Net(1)
    x = net.arena(2**16, 16, 16, 1)
    block, around = net.constant((1, 1)), net.constant((0, 0, 0, 0), 2, 2)
    y = net.op("SPACE_TO_BATCH_ND", [x, block, around], 2**16, 16, 16, 1)
    z = net.op("BATCH_TO_SPACE_ND", [x, block, around], 2**16, 16, 16, 1)
    assert without_work(net.model([x], [y, z]))


@pytest.mark.parametrize(
    ("code", "given", "options"),
    [
        ("GATHER", (2**10, 2**10), {"axis": 0}),
        ("GATHER", (1,), {"axis": 2}),
        ("GATHER_ND", (2**10, 2**10), {}),
        ("EMBEDDING_LOOKUP", (2**10, 2**10), {}),
    ],
)
def test_indices_without_end_are_not_walked(code: str, given: tuple[int, ...], options: dict[str, int]) -> None:
    """Indices that are calculated may be as many as a shape says: the file holds none of them."""
    net = Net(1)
    table, places = net.arena(2**10, 2**10, 4), net.arena(*given, dtype=INT32)
    inputs = [places, table] if code == "EMBEDDING_LOOKUP" else [table, places]
    assert without_work(net.model([table, places], [net.op(code, inputs, 2**10, 4, **options)]))


RUNTIME = load_runtime(DEFAULT_RUNTIME)
REGISTERED = (*RUNTIME.operators, *RUNTIME.custom_operators)


@pytest.mark.slow
@pytest.mark.parametrize(("core", "kernels"), BUILDS)
def test_the_tables_are_what_the_fit_makes_of_the_counts(core: str, kernels: Kernels) -> None:
    """Equal figures for every counted operator; the coefficients themselves may differ with the solver's version."""
    shipped, fitted = load_instructions(core, kernels), fit_build(core, kernels)
    assert set(shipped) == set(fitted)
    for room in rooms():
        for key, counted in points(room, core, kernels).items():
            for point in counted:
                expected = predicted(point.loops, fitted[key])
                assert predicted(point.loops, shipped[key]) == pytest.approx(expected, rel=2e-3), (key, point.case)


@pytest.mark.parametrize(("core", "kernels"), BUILDS)
def test_every_registered_operator_was_counted_on_every_build(core: str, kernels: Kernels) -> None:
    counted = {operator for operator, _ in load_instructions(core, kernels)}
    assert sorted(set(REGISTERED) - counted) == []


def test_every_registered_operator_has_a_rule() -> None:
    known = {**OPERATORS, **CUSTOM_OPERATORS}
    assert [code for code in REGISTERED if known[code].loops is None] == []


@pytest.mark.slow
@pytest.mark.parametrize(("core", "kernels"), BUILDS)
def test_the_rules_fit_the_counts(core: str, kernels: Kernels) -> None:
    """Nine of ten counted operators within 2 %, and half within 0.5 %."""
    table = load_instructions(core, kernels)
    errors = sorted(
        abs(predicted(point.loops, table[key]) / point.instructions - 1)
        for room in rooms()
        for key, counted in points(room, core, kernels).items()
        for point in counted
    )
    assert len(errors) > 10_000
    assert errors[len(errors) // 2] < 0.005
    assert errors[len(errors) * 9 // 10] < 0.02


def reads(model: Model, counted: Callable[[Call], int] = constant_reads) -> tuple[int, ...]:
    """Of the model's only operator, on each build."""

    def of(platform: Platform) -> int:
        return counted(Call(model, model.main, model.main.operators[0], platform, {}))

    return tuple(of(build) for build in (REFERENCE, PLAIN, DSP, MVE))


@pytest.mark.parametrize(
    ("dtype", "kernel", "stride", "expected"),
    [
        (INT8, 3, 1, (70, 35, 35, 18)),
        (INT8, 1, 1, (70, 1, 1, 19)),  # 17 times four rows, and two rows alone
        (INT8, 1, 2, (20, 5, 5, 5)),  # five rows of four pixels
        (INT16, 1, 1, (70, 35, 35, 18)),
        (FLOAT32, 1, 1, (70, 70, 70, 70)),
        (FLOAT32, 3, 1, (70, 70, 70, 70)),
    ],
)
def test_constant_reads_of_a_convolution(dtype: DType, kernel: int, stride: int, expected: tuple[int, ...]) -> None:
    assert reads(convolution(dtype, kernel, stride)) == expected


@pytest.mark.parametrize(
    ("dtype", "kernel", "stride", "expected"),
    [
        (INT8, 1, 1, (1, 4, 4, 1)),  # once for every two of eight output channels
        (INT8, 1, 2, (1, 1, 1, 1)),
        (INT8, 3, 1, (1, 1, 1, 1)),
        (INT16, 1, 1, (1, 1, 1, 1)),
        (FLOAT32, 1, 1, (1, 1, 1, 1)),
    ],
)
def test_input_reads_of_a_convolution(dtype: DType, kernel: int, stride: int, expected: tuple[int, ...]) -> None:
    assert reads(convolution(dtype, kernel, stride), input_reads) == expected


def test_input_reads_of_a_dense_layer_that_runs_as_a_convolution() -> None:
    net = Net(1)
    x = net.arena(2, 3, 12, dtype=INT8)
    assert reads(net.model([x], [dense(net, x, 7, keep=True)]), input_reads) == (1, 4, 4, 1)


def convolution(dtype: DType, kernel: int, stride: int) -> Model:
    net = Net(1)
    x = net.arena(1, 10, 7, 4, dtype=dtype)
    inputs = [x, net.filter(8, kernel, kernel, 4, like=x), net.biases(8, like=x)]
    options = {"padding": "SAME", "stride_h": stride, "stride_w": stride}
    y = net.op("CONV_2D", inputs, 1, -(-10 // stride), -(-7 // stride), 8, **options)
    return net.model([x], [y])


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((1, 12), INT8, (1, 1, 1, 1)),
        ((6, 12), INT8, (6, 6, 6, 6)),
        ((2, 3, 12), INT8, (6, 1, 1, 3)),  # runs as a convolution
        ((2, 3, 9), INT8, (6, 6, 6, 6)),
        ((2, 3, 12), INT16, (6, 6, 6, 6)),
        ((2, 3, 12), FLOAT32, (6, 6, 6, 6)),
    ],
)
def test_constant_reads_of_a_dense_layer(shape: tuple[int, ...], dtype: DType, expected: tuple[int, ...]) -> None:
    net = Net(1)
    x = net.arena(*shape, dtype=dtype)
    assert reads(net.model([x], [dense(net, x, 7, keep=len(shape) > 2)])) == expected


@pytest.mark.parametrize("time_major", [False, True])
def test_a_recurrent_layer_reads_its_weights_in_every_step_of_every_sequence(time_major: bool) -> None:
    assert reads(lstm(INT8, time_major=time_major)) == (10,) * 4


def test_what_no_kernel_takes_is_read_once() -> None:
    net = Net(1)
    x = net.arena(1, 8)
    weights = net.tensor((), INT8, data=bytes(1), scales=[1.0])
    assert reads(net.model([x], [net.op("FULLY_CONNECTED", [x, weights, -1], 1, 4)])) == (1,) * 4
