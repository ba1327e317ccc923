"""The mutators: the same for the same seed, and of every kind."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable

import pytest

from edgetool.errors import ModelError
from edgetool.model.flatbuffer import read_root
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from tests.model import structural_mutants
from tests.model.builders import ALL, conv_model_bytes
from tests.model.mutants import mutants
from tests.model.structural_mutants import restructured


def read(blob: bytes) -> Model | None:
    with contextlib.suppress(ModelError):
        return read_model(blob)
    return None


def sound(blob: bytes) -> bool:
    """Whether its tables can be read."""
    with contextlib.suppress(ModelError):
        read_root(blob, "Model", "mutant")
        return True
    return False


def changed(blob: bytes, count: int, seed: int) -> list[bytes]:
    root, generator = read_root(blob, "Model", "seed")[0], random.Random(seed)
    return [restructured(root, generator) for _ in range(count)]


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_some_damaged_files_are_sound_and_some_are_not(make: Callable[[], Model]) -> None:
    found = Counter(read(blob) is None for blob in mutants(write_model(make()), 60, seed=1))
    assert min(found[True], found[False]) >= 3


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_many_changed_files_are_read(make: Callable[[], Model]) -> None:
    models = [read(blob) for blob in changed(write_model(make()), 100, seed=1)]
    assert sum(model is not None for model in models) >= 15
    assert sum(model is None for model in models) >= 5


def test_mutants_repeat() -> None:
    blob = conv_model_bytes()
    assert list(mutants(blob, 20, 3)) == list(mutants(blob, 20, 3))
    assert list(mutants(blob, 20, 3)) != list(mutants(blob, 20, 4))
    assert changed(blob, 20, 3) == changed(blob, 20, 3)
    assert changed(blob, 20, 3) != changed(blob, 20, 4)


@pytest.mark.parametrize("change", set(structural_mutants.CHANGES), ids=lambda change: change.__name__)
def test_every_change_changes_a_file_and_never_its_seed(
    change: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structural_mutants, "CHANGES", (change,))
    sound = write_model(ALL["residual"]())
    assert len(set(changed(sound, 60, seed=2))) > 10
    root = read_root(sound, "Model", "seed")[0]
    generator = random.Random(3)
    before = repr(root)
    for _ in range(20):
        restructured(root, generator)
    assert repr(root) == before


def test_operators_of_all_kinds_are_put_in() -> None:
    roots = [read_root(blob, "Model", "mutant")[0] for blob in changed(conv_model_bytes(), 1000, seed=4) if sound(blob)]
    codes = {entry["builtin_code"] for root in roots for entry in root["operator_codes"]}
    assert len(codes) > 100


def test_tables_are_shared() -> None:
    """Two entries of a vector lead to one table."""
    shared = 0
    for blob in filter(sound, changed(write_model(ALL["residual"]()), 200, seed=5)):
        root = read_root(blob, "Model", "mutant")[0]
        starts = [record.at for graph in root["subgraphs"] for record in (*graph["tensors"], *graph["operators"])]
        shared += len(set(starts)) < len(starts)
    assert shared >= 3
