"""Reports that edgetool wrote to files: read strictly, and one of several chosen by its target.

The report of the conversion that made a .tflite, found by the hash of the file: it tells what quantization cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetool.errors import UsageError
from edgetool.pipeline.output import read_file
from edgetool.pipeline.source import Source
from edgetool.report.document import QuantizationInfo, Report
from edgetool.report.json import WRITE_ANEW, parse_reports

# The largest networks' documents hold a few megabytes.
MAX_REPORT_BYTES = 64 * 2**20


def read_reports(path: Path) -> tuple[Report, ...]:
    """All reports of the document in the file, in its order. Raises UsageError for any other content."""
    return reports_in(read_file(path, what="a report", most_bytes=MAX_REPORT_BYTES), where=str(path))


def reports_in(blob: bytes, *, where: str) -> tuple[Report, ...]:
    """The same from the file's bytes."""
    if len(blob) > MAX_REPORT_BYTES:
        raise UsageError("is too large for a report", where=where, fix=WRITE_ANEW)
    try:
        return parse_reports(blob.decode("utf-8"))
    except UnicodeDecodeError:
        raise UsageError("is not a UTF-8 text file", where=where, fix=WRITE_ANEW) from None
    except UsageError as error:
        raise UsageError(error.what, where=where, fix=error.fix) from None


def chosen(reports: Sequence[Report], target: str | None, *, where: str) -> Report:
    """The only report, whatever its target; of several the one of this target. Raises UsageError that lists them."""
    if len(reports) == 1:
        return reports[0]
    found = [report for report in reports if report.target is not None and report.target.name == target]
    if target is not None and len(found) == 1:
        return found[0]
    names = ", ".join(f"{report.model.name} on {_target_name(report)}" for report in reports)
    what = f"contains {len(reports)} reports ({names})"
    if found:
        raise UsageError(
            f"{what}, {len(found)} for target {target}", where=where, fix="specify a document with only one"
        )
    asked = "" if target is None else f", none for target {target}"
    raise UsageError(f"{what}{asked}", where=where, fix="choose one with --target NAME")


def _target_name(report: Report) -> str:
    return "no target" if report.target is None else report.target.name


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
