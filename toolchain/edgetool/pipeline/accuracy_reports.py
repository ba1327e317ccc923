"""The report of the conversion that made a .tflite, found by the hash of the file: it tells what quantization cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetool.errors import UsageError
from edgetool.pipeline.report_file import read_reports
from edgetool.pipeline.source import Source
from edgetool.report.document import QuantizationInfo


def quantizations(
    paths: Sequence[Path], sources: Sequence[Source], given: Sequence[Path]
) -> tuple[QuantizationInfo | None, ...]:
    """Of each model what its report says; None where there is no report of that very file.

    given: reports of the user's, each of which must be of one of the models; without any, NAME.json beside each model
    is looked at. Raises UsageError for a file that is no report.
    """
    if not given:
        return tuple(_beside(path, source) for path, source in zip(paths, sources, strict=True))
    found: dict[str, QuantizationInfo | None] = {}
    hashes = {source.sha256 for source in sources}
    for path in given:
        told = {
            report.model.output.sha256: report.quantization
            for report in read_reports(path)
            if report.model.output is not None
        }
        if not told:
            raise UsageError(
                "is not a report of a conversion",
                where=str(path),
                fix="specify the NAME.json that 'edgetool convert' wrote",
            )
        if hashes.isdisjoint(told):
            raise UsageError(
                "is the report for a file other than the given models",
                where=str(path),
                fix="specify the report of the conversion that wrote the model",
            )
        found |= told
    return tuple(found.get(source.sha256) for source in sources)


def _beside(path: Path, source: Source) -> QuantizationInfo | None:
    """A file of that name may be anything, or the report of an older build of the model."""
    report = path.with_suffix(".json")
    if not report.is_file():
        return None
    try:
        found = read_reports(report)
    except UsageError:
        return None
    told = (item for item in found if item.model.output is not None and item.model.output.sha256 == source.sha256)
    return next((item.quantization for item in told), None)
