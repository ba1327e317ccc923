"""Adding metadata to a model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.edit import in_order, renumbered, with_metadata, without_metadata
from edgetool.model.reader import read_model
from edgetool.model.types import Metadata, Model
from edgetool.model.writer import write_model
from tests.conftest import examples
from tests.model.builders import branches_model, conv_model
from tests.model.strategies import NAMES, models

PLAN = "OfflineMemoryAllocation"


def test_an_entry_is_added() -> None:
    model = conv_model()
    changed = with_metadata(model, PLAN, b"plan")
    assert changed.metadata == (Metadata(PLAN, b"plan", len(model.data)),)
    assert changed.data == (*model.data, b"plan")
    assert changed.subgraphs == model.subgraphs


def test_an_entry_is_replaced_in_its_place() -> None:
    first = with_metadata(with_metadata(conv_model(), PLAN, b"old"), "other", b"kept")
    changed = with_metadata(first, PLAN, b"new plan")
    assert [(entry.name, entry.data) for entry in changed.metadata] == [(PLAN, b"new plan"), ("other", b"kept")]
    assert len(changed.data) == len(first.data)
    assert b"old" not in changed.data


def test_a_payload_that_others_use_is_left_alone() -> None:
    model = conv_model()
    weights = model.main.tensors[1]
    assert weights.data is not None
    shared = replace(model, metadata=(Metadata(PLAN, weights.data, weights.buffer),))
    changed = with_metadata(shared, PLAN, b"plan")
    assert changed.subgraphs == model.subgraphs
    assert changed.data == (*model.data, b"plan")


def test_repeated_entries_become_one() -> None:
    model = conv_model()
    twice = replace(
        model,
        data=(*model.data, b"one", b"two"),
        metadata=(
            Metadata(PLAN, b"one", len(model.data)),
            Metadata("other", b"two", len(model.data) + 1),
            Metadata(PLAN, b"two", len(model.data) + 1),
        ),
    )
    changed = with_metadata(twice, PLAN, b"three")
    assert [(entry.name, entry.data) for entry in changed.metadata] == [(PLAN, b"three"), ("other", b"two")]


def test_the_first_buffer_stays_empty() -> None:
    bare = replace(conv_model(), data=(), subgraphs=(replace(conv_model().main, tensors=(), operators=()),))
    assert with_metadata(bare, PLAN, b"plan").data == (None, b"plan")
    on_first = replace(conv_model(), metadata=(Metadata(PLAN, b"", 0),))
    assert with_metadata(on_first, PLAN, b"plan").data[0] is None


@examples(60)
@given(models(), NAMES, st.binary(max_size=20))
def test_the_result_is_a_sound_model(model: Model, name: str, data: bytes) -> None:
    changed = with_metadata(model, name, data)
    assert read_model(write_model(changed)) == changed
    assert [entry.data for entry in changed.metadata if entry.name == name] == [data]
    others = [(entry.name, entry.data) for entry in model.metadata if entry.name != name]
    assert [(entry.name, entry.data) for entry in changed.metadata if entry.name != name] == others
    assert changed.subgraphs == model.subgraphs
    assert with_metadata(changed, name, data) == changed or changed.data[-1] == (data or None)


def test_an_entry_is_removed_with_its_payload() -> None:
    model = conv_model()
    assert without_metadata(with_metadata(model, PLAN, b"plan"), PLAN) == model
    between = with_metadata(with_metadata(model, PLAN, b"plan"), "other", b"kept")
    changed = without_metadata(between, PLAN)
    assert changed.metadata == (between.metadata[1],)
    assert changed.data == (*model.data, None, b"kept")
    assert without_metadata(model, PLAN) == model


def test_a_payload_that_others_use_outlives_the_entry() -> None:
    model = conv_model()
    weights = model.main.tensors[1]
    assert weights.data is not None
    shared = replace(model, metadata=(Metadata(PLAN, weights.data, weights.buffer),))
    assert without_metadata(shared, PLAN) == model


@examples(60)
@given(models(), NAMES, st.binary(max_size=20))
def test_the_remaining_model_is_valid(model: Model, name: str, data: bytes) -> None:
    for given_model in (model, with_metadata(model, name, data)):
        bare = without_metadata(given_model, name)
        assert read_model(write_model(bare)) == bare
        others = [(entry.name, entry.data) for entry in model.metadata if entry.name != name]
        assert [(entry.name, entry.data) for entry in bare.metadata] == others
        assert bare.subgraphs == model.subgraphs


def test_operators_keep_their_indices_in_another_order_until_they_are_numbered_again() -> None:
    model = branches_model()
    order = (0, 2, 1, 3, 4)
    moved = in_order(model, order)
    assert tuple(operator.index for operator in moved.main.operators) == order
    assert read_model(write_model(moved)) == renumbered(moved)
    assert in_order(moved, range(5)) == model
    assert renumbered(model) == model


@pytest.mark.parametrize("order", [(0, 1), (0, 0, 1, 2, 3), (1, 2, 3, 4, 5)])
def test_an_order_names_each_operator_once(order: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="once"):
        in_order(branches_model(), order)
