"""Files for other viewers: node data for Model Explorer, and a trace for Perfetto."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgetool.pipeline.report import row_operators
from edgetool.pipeline.reporting import Described
from edgetool.report.json import to_json
from edgetool.report.model_explorer import FIGURES, node_data
from edgetool.report.moments import Moments, row_moments, tensor_moments
from edgetool.report.perfetto import trace

Viewer = Literal["model-explorer", "perfetto"]
# The files of each viewer, of which those that are not known are missing.
FILES: dict[Viewer, tuple[str, ...]] = {
    "model-explorer": tuple(f"{name}.json" for name in FIGURES),
    "perfetto": ("trace.json",),
}


@dataclass(frozen=True, slots=True)
class ViewerFiles:
    """The text of each file by name, and a sentence for what the files lack."""

    files: dict[str, str]
    notes: tuple[str, ...] = ()


def viewer_files(described: Described, viewer: Viewer) -> ViewerFiles:
    """Return the files that show a model on a target: several for Model Explorer, one for Perfetto."""
    report, model, moments = described.report, described.source.model, moments_of(described)
    if viewer == "perfetto":
        (name,) = FILES[viewer]
        return ViewerFiles({name: to_json(trace(report, model, moments), indent=None)})
    data = node_data(report, model, moments)
    return ViewerFiles({f"{name}.json": to_json(value) for name, value in data.files.items()}, data.notes)


def moments_of(described: Described) -> Moments:
    """Return the moments of the plan, of tensors or of rows."""
    report, model = described.report, described.source.model
    rows = None if described.native is None else described.native.planned.rows
    if rows is None:
        return tensor_moments(report, model)
    return row_moments(report, model, rows.problem, rows.plan, row_operators(rows))
