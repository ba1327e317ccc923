"""examples/sweep: it is what the docs show, and what they show is what it computes."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgetool.sweep.metrics import Row, Variant
from edgetool.sweep.run import run_sweep
from edgetool.sweep.spec import read_spec
from edgetool.sweep.store import open_store, record_of
from edgetool.sweep.table import rows

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "sweep"
SHOWN = ROOT / "docs" / "sweep-example.sqlite"


def shown() -> dict[Variant, Row]:
    with open_store(SHOWN) as store:
        return {row.variant: row for row in rows(store)}


def test_the_docs_show_this_very_sweep_whole() -> None:
    spec = read_spec(EXAMPLE / "sweep.toml")
    with open_store(SHOWN) as store:
        assert store.sweep() == record_of(spec)
    table = shown()
    assert len(table) == len(spec.pruning.levels) * len(spec.precisions) * len(spec.targets) == 36
    assert {row.status for row in table.values()} == {"done"}
    for target in spec.targets:
        own = [row for row in table.values() if row.variant.target == target.label]
        assert any(row.on_front for row in own)
        assert any(row.judged is not None and not row.judged.accepted for row in own)


def test_each_level_saves_arena_model_macs_and_parameters() -> None:
    table = shown()
    for variant, row in table.items():
        higher = table.get(replace(variant, level=variant.level + 0.25))
        if higher is None:
            continue
        assert row.metrics is not None
        assert higher.metrics is not None
        before, after = row.metrics.cost, higher.metrics.cost
        assert (after.arena_bytes or 0) < (before.arena_bytes or 0)
        assert after.model_bytes < before.model_bytes
        assert after.macs < before.macs
        assert after.parameters < before.parameters


@pytest.mark.slow
def test_a_part_of_it_computed_now_is_what_the_docs_show(tmp_path: Path) -> None:
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("needs the extra 'convert'")
    spec = read_spec(EXAMPLE / "sweep.toml")
    part = replace(spec, precisions=("int8",), pruning=replace(spec.pruning, levels=(0.0,)), fine_tune=None)
    run_sweep(part, tmp_path / "part.sqlite", jobs=2)
    with open_store(tmp_path / "part.sqlite") as store:
        found = rows(store)
    table = shown()
    assert len(found) == 3
    for row in found:
        expected = table[row.variant].metrics
        assert row.metrics is not None
        assert expected is not None
        # Another version of TensorFlow may round a weight otherwise.
        assert row.metrics.quality.accuracy == pytest.approx(expected.quality.accuracy, abs=0.01)
        # The record of the plan in the file may have grown since the sweep was stored.
        assert 0 <= row.metrics.cost.model_bytes - expected.cost.model_bytes <= 64
        assert replace(row.metrics.cost, model_bytes=expected.cost.model_bytes) == expected.cost


def test_the_training_data_is_what_the_script_makes() -> None:
    spec = importlib.util.spec_from_file_location(
        "make_model", ROOT / "examples" / "keyword_spotting" / "make_model.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x, y = module.dataset(module.SEEDS["training"], 12)
    with np.load(EXAMPLE / "training.npz") as data:
        assert np.allclose(data["x"][:12].astype(np.float32), x.astype(np.float32), atol=1e-2)
        assert (data["y"][:12] == y).all()
        assert (np.bincount(data["y"]) == 200).all()
        seen = {sample.tobytes() for sample in data["x"]}
    for name, key in (("calibration", "mfcc"), ("evaluation", "x")):
        with np.load(ROOT / "examples" / "keyword_spotting" / f"{name}.npz") as data:
            assert not seen & {sample.tobytes() for sample in data[key]}
