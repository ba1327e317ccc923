"""The clean-up as a whole: each pass on its own and all of them leave every output of every model as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from benchmarks.kernels.random_network import random_image_network, random_network

from edgetool.finding import RULES
from edgetool.model.draft import Draft
from edgetool.model.edit import with_metadata
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model
from edgetool.model.views import VIEWS_METADATA_NAME
from edgetool.model.writer import write_model
from edgetool.operators.legality import unsupported_operators
from edgetool.operators.registry import operator_costs
from edgetool.passes.cleanup import INT8_ENDS, PASSES, left_alone, optimize
from edgetool.passes.legalize import legalize
from tests.conftest import model_files, over_models
from tests.memory.test_planner import compiled
from tests.model.builders import if_model
from tests.passes.cleaned import PASS, SAMPLES, cleaned
from tests.passes.runs import Net, codes, runtime
from tests.passes.test_dead_channels import Layers, first_weights, separable
from tests.passes.test_transpose_conv import decoder

SMALL_BYTES = 100_000
# The multiply-accumulates of all samples of a file at most: large networks run with fewer of them.
MOST_MACS = 500_000_000
FILES = model_files()


def test_every_pass_changes_something_and_is_described() -> None:
    dead = separable(first_weights(8, (1, 4)), [-50] * 8, [-20] * 8, "SAME")
    changed = {"no-ops": copied(), "transpose-conv": decoder(), "dead-channels": dead}
    assert list(changed) == list(PASS)
    for name, model in changed.items():
        _, (change,) = cleaned(model, PASS[name])
        assert (change.pass_name, change.rule) == (name, PASS[name].rule)
        assert [other.name for other in PASSES if optimize(model, (other,))[1]] == [name]
    assert all(each.rule in RULES and each.summary for each in (*PASSES, INT8_ENDS))


def copied() -> Model:
    net = Net()
    x = net.input((4, 6), DType.INT8)
    return net.model([x], [net.reshape(net.add_operator("ABS", [x], (4, 6))[0], (4, 6))])


def test_passes_find_what_earlier_ones_uncover() -> None:
    """A RESHAPE to the same shape, of which nothing is known with another scale, hides the channels."""
    layers = Layers(Net())
    x = layers.net.input((1, 4, 4, 2), DType.INT8)
    wide = layers.layer("CONV_2D", x, first_weights(8, (1, 4)), [-50] * 8)
    whole = [layers.net.constant(values) for values in ([0] * 4, [1, 4, 4, 8])]
    hidden = layers.net.add_operator("SLICE", [wide, *whole], (1, 4, 4, 8))[0]
    result = layers.layer("CONV_2D", hidden, first_weights(4, ())[:, :, :, [0, 1] * 4], [0] * 4)
    model = layers.net.model([x], [result])
    assert optimize(model, (PASS["dead-channels"],))[1] == ()
    made, changes = cleaned(model)
    assert [change.pass_name for change in changes] == ["no-ops", "dead-channels"]
    assert codes(made) == ["CONV_2D", "CONV_2D"]


def test_conversions_at_the_ends_are_removed_on_demand() -> None:
    net = Net()
    x = net.input((4, 6), DType.FLOAT32)
    codes_of_x = net.add_operator("QUANTIZE", [x], (4, 6), dtype=DType.INT8)[0]
    inner = net.add_operator("ABS", [codes_of_x], (4, 6))[0]
    model = net.model([x], net.add_operator("DEQUANTIZE", [inner], (4, 6), dtype=DType.FLOAT32))
    assert optimize(model)[1] == ()
    result, (change,) = optimize(model, (INT8_ENDS,))
    assert codes(result) == ["ABS"]
    assert "QUANTIZE from float32 to int8" in change.sentence
    assert optimize(result, (INT8_ENDS,)) == (result, ())


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (compiled(0, 0, 64), "the model is compiled for an accelerator, and stays as it is"),
        (
            with_metadata(copied(), VIEWS_METADATA_NAME, b""),
            "the model is in stripes, and stays as it is",
        ),
    ],
)
def test_models_with_fixed_memory_stay(model: Model, text: str) -> None:
    assert optimize(model) == (model, ())
    assert left_alone(model) == text


def test_ordinary_models_have_nothing_that_is_left_alone() -> None:
    assert left_alone(copied()) == ""


def test_state_control_flow_and_custom_operators_are_named() -> None:
    """IF with a branch that does nothing: its inputs and outputs stay."""
    branches = if_model()
    assert left_alone(branches) == (
        "the clean-up left alone: IF (state, control flow or custom operators), with their inputs and outputs; the "
        "inputs and outputs of 2 more subgraphs"
    )
    assert optimize(branches)[1] == ()
    net = Net()
    x = net.input((1, 4), DType.INT8)
    y = net.input((1, 4), DType.INT8)
    net.operator("CUSTOM", [x], [y], custom_code="mine")
    model = net.model([x], [net.reshape(y, (1, 4))])
    assert left_alone(model).startswith("the clean-up left alone: mine (")
    result, _ = optimize(model)
    assert codes(result) == ["mine"]
    state = tuple(replace(each, is_variable=each.index == x) for each in copied().main.tensors)
    stateful = replace(copied(), subgraphs=(replace(copied().main, tensors=state),))
    assert left_alone(stateful).startswith("the clean-up left alone: ABS (")


def test_subgraphs_whose_operators_are_not_in_order_stay() -> None:
    model = copied()
    operators = tuple(replace(each, index=i) for i, each in enumerate(reversed(model.main.operators)))
    reversed_ = replace(model, subgraphs=(replace(model.main, operators=operators),))
    assert optimize(reversed_) == (reversed_, ())
    assert left_alone(reversed_).endswith("subgraph 0, whose operators read tensors before they are written")


def test_branches_are_cleaned_up_and_keep_their_interface() -> None:
    model = if_model()
    draft = Draft(model, 1)
    (absolute,) = draft.operators
    middle = draft.tensor("middle", (1, 4), DType.FLOAT32)
    draft.replace(absolute, replace(absolute, outputs=(middle,)))
    draft.insert_after(absolute, draft.make("RESHAPE", [middle], list(absolute.outputs), new_shape=(1, 4)))
    result, changes = cleaned(draft.finish())
    assert [each.sentence for each in changes] == ["RESHAPE has no effect and was removed"]
    assert [[operator.code for operator in graph.operators] for graph in result.subgraphs] == [["IF"], ["ABS"], ["NEG"]]


def random_models(count: int) -> list[Model]:
    """Those that the clean-up changes, with the scales that a file can store.

    Those with an operator that TensorFlow Lite Micro lacks are left out: LiteRT reads an int32 bias of an int16
    convolution as if it were int64, so that its outputs depend on what lies behind it in the file.
    """
    made = [network(Random(seed)) for seed in range(count) for network in (random_network, random_image_network)]
    models = [read_model(write_model(model)) for model in made]
    return [model for model in models if optimize(model)[1] and not unsupported_operators(model, runtime())]


def test_some_random_networks_stay_the_same() -> None:
    models = random_models(20)
    assert len(models) > 4
    for model in models[:4]:
        cleaned(model, samples=3)


@pytest.mark.slow
def test_random_networks_stay_the_same() -> None:
    models = random_models(150)
    found = set()
    for model in models:
        _, changes = cleaned(model, samples=4)
        found |= {change.pass_name for change in changes}
    assert found == set(PASS)


def check_file(path: Path) -> None:
    """Run each pass on its own, and all of them if several change something.

    TensorFlow Lite Micro lacks operators of some files, as does LiteRT; these are made legal before.
    """
    model = read_model(path.read_bytes(), name=path.name)
    macs = sum(cost.macs for cost in operator_costs(model))
    samples = max(1, min(SAMPLES, MOST_MACS // max(1, macs)))
    if unsupported_operators(model, runtime()):
        model = legalize(model, runtime()).model
    effective = [each for each in PASSES if cleaned(model, each, samples=samples)[1]]
    if len(effective) > 1:
        cleaned(model, samples=samples)
    elif effective:
        assert optimize(model)[0] == optimize(model, effective)[0]


@over_models([path for path in FILES if path.stat().st_size < SMALL_BYTES])
def test_small_files_stay_the_same(path: Path) -> None:
    check_file(path)


@pytest.mark.slow
@over_models([path for path in FILES if path.stat().st_size >= SMALL_BYTES])
def test_large_files_stay_the_same(path: Path) -> None:
    check_file(path)
