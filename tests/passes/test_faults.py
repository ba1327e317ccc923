"""Operators whose kernels compute wrong outputs, rewritten: they compute what the reference kernels do, bit by bit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from benchmarks.kernels.cases import Case

from edgetool.execute.quantize import random_inputs
from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.operators.legality import kernel_faults, unsupported_operators
from edgetool.passes.faults import RULES, Avoided, Axis, Cost, _same_extension, _valid_extension, avoid_faults
from edgetool.target.load import load_target
from edgetool.target.platform import Platform, platform_of
from tests.passes.runs import codes, differ, litert, runtime, tflm

CORES = ("cortex-m7", "cortex-m55")
# The generators whose models have a fault, and the rules that may then apply.
GENERATORS = {
    "conv-int16-without-bias": ("CONV_2D", "int16"),
    "conv-row-ends": ("CONV_2D", "int8"),
    "dense-weights-zero-point": ("FULLY_CONNECTED", "int8"),
    "depthwise-int4-nibbles": ("DEPTHWISE_CONV_2D", "int8-int4"),
    "depthwise-scratch": ("DEPTHWISE_CONV_2D", "int8"),
    "extremum-broadcast": ("MAXIMUM", "int8"),
    "grouped-conv-int16": ("CONV_2D", "int16"),
    "grouped-conv-int4": ("CONV_2D", "int8-int4"),
    "grouped-conv-without-bias": ("CONV_2D", "int8"),
    "softmax-int16-single": ("SOFTMAX", "int16"),
    "space-to-batch-padding": ("SPACE_TO_BATCH_ND", "int8"),
    "svdf-without-bias": ("SVDF", "int8-int16"),
    "transpose-conv-activation": ("TRANSPOSE_CONV", "int16"),
    "transpose-conv-rows": ("TRANSPOSE_CONV", "int8"),
    "transpose-identity": ("TRANSPOSE", "int8"),
}
# The reference kernels have these faults, too: LiteRT computes what is right.
FAULTS_OF_REFERENCE = frozenset({"space-to-batch-padding", "svdf-without-bias"})
HELIUM_FAULTS = frozenset({"conv-row-ends", "depthwise-scratch"})
SAMPLES = 2


def platform(core: str) -> Platform:
    return platform_of(load_target(core))


def faults_of_model(model: Model, core: str) -> set[str]:
    return {fault.name for _, _, fault in kernel_faults(model, platform(core))}


def avoided(model: Model, core: str) -> Avoided:
    return avoid_faults(model, runtime(), platform(core))


def models_with(fault: str, core: str) -> Iterator[Model]:
    """Generated models that TFLM runs, and that have the fault; others have no fault and do not change."""
    for number in range(3000):
        model = read_model(write_model(Case(*GENERATORS[fault], number).model()))
        options = model.main.operators[0].options
        if fault == "svdf-without-bias" and options is not None and options["fused_activation_function"] != "RELU":
            continue  # LiteRT rejects it
        if fault not in faults_of_model(model, core):
            continue
        if unsupported_operators(avoided(model, core).model, runtime()):
            continue
        if fault in FAULTS_OF_REFERENCE or not unsupported_operators(model, runtime()):
            yield model


def interface(model: Model) -> list[str]:
    return [model.main.tensors[index].name for index in (*model.main.inputs, *model.main.outputs)]


def assert_equal_to_reference(fault: str, model: Model, core: str) -> None:
    result = avoided(model, core)
    assert faults_of_model(result.model, core) == set()
    assert unsupported_operators(result.model, runtime()) == ()
    assert read_model(write_model(result.model)) == result.model
    assert avoided(result.model, core).model is result.model
    assert interface(result.model) == interface(model)
    inputs = random_inputs(model, SAMPLES, seed=1)
    expected = litert(model, inputs) if fault in FAULTS_OF_REFERENCE else tflm(model, inputs)
    assert differ(tflm(result.model, inputs), expected) == 0


CASES = [
    (fault, core)
    for fault, core in itertools.product(GENERATORS, CORES)
    if fault not in HELIUM_FAULTS or core == "cortex-m55"
]


@pytest.mark.parametrize(("fault", "core"), CASES)
def test_a_rewritten_model_computes_what_the_reference_kernels_compute(fault: str, core: str) -> None:
    assert_equal_to_reference(fault, next(models_with(fault, core)), core)


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "core"), CASES)
def test_many_rewritten_models_compute_what_the_reference_kernels_compute(fault: str, core: str) -> None:
    for model in itertools.islice(models_with(fault, core), 1, 20):
        assert_equal_to_reference(fault, model, core)


def test_every_rule_has_a_case() -> None:
    assert RULES.keys() == GENERATORS.keys()


@pytest.mark.parametrize("core", CORES)
def test_models_without_faults_do_not_change(core: str) -> None:
    for operator, kind in sorted(set(GENERATORS.values())):
        models = [Case(operator, kind, number).model() for number in range(40)]
        for model in (model for model in models if not unsupported_operators(model, runtime())):
            assert (avoided(model, core).model is model) == (not faults_of_model(model, core))


def test_reference_kernels_have_few_faults() -> None:
    model = next(models_with("transpose-conv-rows", "cortex-m7"))
    result = avoid_faults(model, runtime(), platform_of(load_target("cortex-m7").with_overrides(kernels="reference")))
    assert result.model is model
    assert result.sentences({}) == ()


def test_an_offline_plan_is_removed_with_the_tensors_that_it_places() -> None:
    model = next(models_with("transpose-identity", "cortex-m7"))
    offsets = {(0, index): 0 for index in model.main.inputs}
    planned = with_metadata(model, METADATA_NAME, encode_plan(model, offsets))
    assert avoided(planned, "cortex-m7").model == avoided(model, "cortex-m7").model


def test_the_int8_state_of_svdf_has_no_equivalent() -> None:
    models = (Case("SVDF", "int8", number).model() for number in range(100))
    model = next(model for model in models if faults_of_model(model, "cortex-m7") == {"svdf-int8-state"})
    assert avoided(model, "cortex-m7").model is model


# A decoder's usual layers: kernel and stride, whether the outputs of SAME padding are wrong.
@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "border", "part"),
    [(4, 2, 1, (1, 1), (0, 1)), (5, 2, 1, (1, 0), (0, 1)), (2, 3, 0, (0, 0), (1, 0)), (3, 2, 0, (0, 0), (0, 0))],
)
def test_the_extension_of_a_transposed_convolution_is_the_shortest(
    kernel: int, stride: int, pad: int, border: tuple[int, int], part: tuple[int, int]
) -> None:
    axis = Axis(8, kernel, stride, pad, 8 * stride, columns=False, other_stride=stride)
    bordered, larger = _same_extension(axis), _valid_extension(axis)
    assert bordered is not None
    assert larger is not None
    assert (bordered.before, bordered.after) == border
    assert (larger.after, larger.start) == part


def test_a_sentence_states_the_rewrite_its_cost_and_the_reason() -> None:
    model = next(models_with("grouped-conv-int16", "cortex-m7"))
    result = avoided(model, "cortex-m7")
    (sentence,) = result.sentences({})
    rewrite = "CONV_2D was replaced by one CONV_2D per group, between SPLIT and CONCATENATION, which adds "
    assert sentence.startswith(f"{rewrite}{len(result.model.main.operators) - 1} operators")
    assert sentence.endswith(": otherwise, CMSIS-NN's kernel ignores the groups and reads beyond its weights")
    assert codes(result.model)[0] == "SPLIT"
    assert codes(result.model)[-1] == "CONCATENATION"


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (Cost(0, 0, 0), ""),
        (Cost(-1, 0, 0), ""),
        (Cost(1, 0, 0), "1 operator"),
        (Cost(2, 1024, 0), "2 operators and 1,024 bytes of constants"),
        (Cost(2, 1024, 4096), "2 operators, 1,024 bytes of constants and 4,096 multiply-accumulates"),
    ],
)
def test_the_text_of_a_cost(cost: Cost, text: str) -> None:
    assert str(cost) == text
