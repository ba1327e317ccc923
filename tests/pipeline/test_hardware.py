from __future__ import annotations

from pathlib import Path

import pytest

from edgetool.errors import UsageError
from edgetool.model.writer import write_model
from edgetool.pipeline import hardware
from edgetool.target.load import load_target
from tests.model.builders import residual_model


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "residual.tflite"
    file.write_bytes(write_model(residual_model()))
    return file


def test_every_public_name_is_there_and_documented() -> None:
    for name in hardware.__all__:
        found = getattr(hardware, name)
        assert name == "Verdict" or (found.__doc__ and not found.__doc__.startswith(f"{name}("))


def test_the_profile_of_a_file(path: Path) -> None:
    rows = hardware.profile_file(path, load_target("nucleo-l4r5zi"))
    assert [row.operator for row in rows] == [op.label for op in residual_model().main.operators]
    assert all(row.latency_ms > 0 for row in rows)
    summary = hardware.hardware_summary(rows, 1.0, 0.4)
    assert summary.estimated_total_macs == sum(row.macs for row in rows)


def test_batches_of_a_file(path: Path) -> None:
    target = load_target("nucleo-l4r5zi")
    memory = hardware.batch_memory_of_file(path, target, 3)
    assert memory.model_bytes == path.stat().st_size
    assert memory.arena_bytes is not None
    assert hardware.largest_batch_of_file(path, target, memory.arena_bytes) == 3
    assert hardware.largest_batch_of_file(path, target) > 100
    with pytest.raises(UsageError, match="limit_bytes"):
        hardware.largest_batch_of_file(path, load_target("cortex-m4"))
    with pytest.raises(UsageError, match="absent"):
        hardware.profile_file(path.with_name("absent.tflite"), target)
