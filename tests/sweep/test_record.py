"""What a store knows of its sweep: whole, the same on any machine, and back from JSON as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.convert.request import BuilderArgument
from edgetool.gate.limits import MemoryBudget
from edgetool.sweep.spec import Builder, FineTune, Pruning, Search, SweepLimits, SweepSpec, TargetSpec
from edgetool.sweep.store import SweepRecord, record_from_json, record_of, record_to_json

SPEC = SweepSpec(
    name="keywords",
    model=Path("/home/somebody/models/keywords.h5"),
    builder=None,
    precisions=("int8", "float32"),
    targets=(TargetSpec("m4", "cortex-m4"), TargetSpec("mine", "b/mine.toml", "name = 1", (("clock_hz", 80),))),
    pruning=Pruning((0.0, 0.5), "l1", ("head_*",)),
    fine_tune=FineTune(Path("/home/somebody/training.npz"), epochs=3, learning_rate=0.01),
    calibration=Path("/home/somebody/c.npz"),
    mean=(1.0, 2.0),
    limits=SweepLimits((MemoryBudget("64KiB", 65536),), MemoryBudget("1MB", 10**6, "flash"), 1, 2, 3.0, 4.0, 0.9, 2.0),
)
BUILT = replace(
    SPEC,
    model=None,
    builder=Builder(
        Path("/home/somebody/net.py"),
        "net",
        "make",
        (Path("/home/somebody/blocks.py"),),
        (("width", (0.5, 1.0)), ("name", ("a",))),
    ),
    strategy="search",
    search=Search(12, 3, ("sqnr_db",)),
)


def test_a_record_says_what_was_asked_for() -> None:
    assert record_of(SPEC) == SweepRecord(
        name="keywords",
        model="keywords.h5",
        parameter_names=(),
        targets=SPEC.targets,
        limits=SPEC.limits,
        strategy="grid",
        objectives=("accuracy", "latency_ms"),
        options={
            "precisions": ["int8", "float32"],
            "calibration": "c.npz",
            "evaluate": None,
            "mean": [1.0, 2.0],
            "std": None,
            "scale": None,
            "offset": None,
            "samples": 100,
            "seed": 0,
            "trust_model_code": False,
            "job_seconds": 3600.0,
            "pruning": {"levels": [0.0, 0.5], "method": "l1", "exclude": ["head_*"]},
            "fine_tune": {
                "epochs": 3,
                "learning_rate": 0.01,
                "batch_size": 32,
                "loss": None,
                "data": "training.npz",
            },
            "builder": None,
            "search": None,
        },
    )


def test_a_builder_and_a_search_are_named() -> None:
    record = record_of(BUILT)
    assert (record.model, record.parameter_names, record.objectives) == ("net:make", ("width", "name"), ("sqnr_db",))
    assert record.options["builder"] == {
        "builder": "net:make",
        "files": ["blocks.py"],
        "parameters": {"width": [0.5, 1.0], "name": ["a"]},
    }
    assert record.options["search"] == {"trials": 12, "batch": 3, "objectives": ["sqnr_db"]}


@pytest.mark.parametrize("spec", [SPEC, BUILT], ids=["model", "builder"])
def test_no_directory_of_the_machine_is_kept(spec: SweepSpec) -> None:
    assert "somebody" not in json.dumps(record_to_json(record_of(spec)))


@pytest.mark.parametrize("spec", [SPEC, BUILT, replace(SPEC, limits=SweepLimits())], ids=["model", "builder", "free"])
def test_a_record_round_trips(spec: SweepSpec) -> None:
    record = record_of(spec)
    assert record_from_json(json.loads(json.dumps(record_to_json(record)))) == record


VALUES: st.SearchStrategy[BuilderArgument] = st.integers() | st.floats(allow_nan=False) | st.text() | st.booleans()
FIGURES = st.none() | st.floats(allow_nan=False)
BUDGETS = st.builds(MemoryBudget, st.text(), st.integers(0), st.sampled_from(["arena", "ram", "flash"]))


@settings(max_examples=40)
@given(
    st.builds(
        SweepRecord,
        name=st.text(),
        model=st.text(),
        parameter_names=st.lists(st.text()).map(tuple),
        targets=st.lists(
            st.builds(
                TargetSpec,
                st.text(),
                st.text(),
                st.none() | st.text(),
                st.lists(st.tuples(st.text(), st.integers() | st.text())).map(tuple),
            ),
            max_size=3,
        ).map(tuple),
        limits=st.builds(
            SweepLimits,
            budgets=st.lists(BUDGETS, max_size=3).map(tuple),
            active_budget=st.none() | BUDGETS,
            max_latency_ms=FIGURES,
            min_accuracy=FIGURES,
        ),
        strategy=st.sampled_from(["grid", "search"]),
        objectives=st.lists(st.text()).map(tuple),
        options=st.dictionaries(st.text(), VALUES, max_size=3),
    )
)
def test_any_record_round_trips(record: SweepRecord) -> None:
    assert record_from_json(json.loads(json.dumps(record_to_json(record)))) == record


@pytest.mark.parametrize("change", [{"limits": 1}, {"targets": [1]}, {"targets": [{"label": "a"}]}, {"name": None}])
def test_what_is_no_record_is_refused(change: dict[str, Any]) -> None:
    value = {**record_to_json(record_of(SPEC)), **change}
    if change == {"name": None}:
        del value["name"]
    with pytest.raises((KeyError, TypeError, ValueError)):
        record_from_json(value)
