"""Half of the models of layers, and a sixth of the networks that people train, from their files to real TFLM.

`python -m benchmarks.zoo` runs all. The catalog, and the page about it.
"""

from __future__ import annotations

from collections import Counter

import pytest
from benchmarks.zoo.catalog import ENTRIES, cheap
from benchmarks.zoo.left_out import LEFT_OUT, named_in_zoo
from benchmarks.zoo.page import PAGE, table_of

from tests.zoo.conftest import Tried
from tests.zoo.judged import check

GROUPS = ("activations", "convolution layers", "other layers", "preprocessing")
NAMES = [entry.name for entry in cheap() if entry.group in GROUPS][::2]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_layers_runs_on_tflm(name: str, tried: Tried) -> None:
    check(tried(name))


def test_each_layer_and_activation_of_keras_is_in_a_model_or_left_out_with_a_reason(tried: Tried) -> None:
    import keras

    public: dict[type, set[str]] = {}
    for name, value in vars(keras.layers).items():
        if isinstance(value, type) and issubclass(value, keras.layers.Layer):
            public.setdefault(value, set()).add(name)
    activations = {
        value.__name__
        for name, value in vars(keras.activations).items()
        if callable(value) and not name.startswith("_") and name not in ("get", "serialize", "deserialize")
    }
    named = named_in_zoo()
    assert {min(names) for names in public.values() if not names & named} == set(LEFT_OUT)
    assert activations <= named


NETWORKS = [entry.name for entry in cheap() if entry.group not in GROUPS][::6]


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_runs_on_tflm(name: str, tried: Tried) -> None:
    check(tried(name))


def test_the_zoo_is_large_and_its_names_differ() -> None:
    assert len(ENTRIES) >= 66
    assert max(Counter(entry.name for entry in ENTRIES).values()) == 1
    assert all(entry.about for entry in ENTRIES)
    assert {entry.format for entry in ENTRIES} == {"keras", "h5", "keras2 .keras", "keras2 .h5", "saved_model"}


def test_the_page_has_a_row_for_each_model_and_each_layer_left_out() -> None:
    rows = [row.split("|") for row in table_of(PAGE.read_text(encoding="utf-8")).splitlines() if row.startswith("| `")]
    assert [cells[1].strip(" `") for cells in rows] == [*(entry.name for entry in ENTRIES), *LEFT_OUT]


def test_the_page_lists_the_models_that_the_zoo_rejects() -> None:
    rows = [row.split("|") for row in table_of(PAGE.read_text(encoding="utf-8")).splitlines() if row.startswith("| `")]
    refused = {cells[1].strip(" `") for cells in rows if len(cells) > 4 and cells[4].strip().startswith("refused")}
    assert refused == {entry.name for entry in ENTRIES if entry.refused is not None}
