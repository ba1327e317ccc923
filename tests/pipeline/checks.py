"""Models on disk, checked; what tests ask of the answer."""

from __future__ import annotations

from pathlib import Path

from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.check import Checked, CheckRequest, check_models
from edgetool.report.document import GateInfo, LockInfo
from edgetool.target.load import load_target
from edgetool.target.types import Target

BOARD = load_target("nucleo-f446re")


def write(model: Model, name: str = "m.tflite") -> Path:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(write_model(model))
    return path


def check(*paths: Path, targets: tuple[Target, ...] = (BOARD,), **asked: object) -> Checked:
    return check_models(paths, targets, CheckRequest(**asked))  # type: ignore[arg-type]


def gate(checked: Checked, index: int = 0) -> GateInfo:
    found = checked.reports[index].check
    assert found is not None
    return found


def lock_of(checked: Checked) -> LockInfo:
    found = gate(checked).lock
    assert found is not None
    return found


def failed(checked: Checked, index: int = 0) -> list[str]:
    return [item.rule for item in gate(checked, index).judgements if item.passed is False]
