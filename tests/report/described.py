"""Models planned and estimated as `edgetool report` does it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.report import describe
from edgetool.pipeline.reporting import Described
from edgetool.target.load import load_target
from edgetool.target.types import Target

M4 = load_target("cortex-m4")
NATIVE = M4.with_overrides(runtime="native")
ROWS = NATIVE.with_overrides(scratch_budget_bytes=0, row_input=True)
DESKTOP = load_target("desktop")


def described(model: Model | bytes, target: Target | None = M4) -> Described:
    """The description of a model on a target."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        path.write_bytes(model if isinstance(model, bytes) else write_model(model))
        return describe(path, [target])[0]
