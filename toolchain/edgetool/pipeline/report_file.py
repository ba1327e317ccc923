"""Read reports that edgetool wrote to files.

Content that is not a valid report is an error. One of several reports in a file is selected by its target; the report
of the conversion that wrote a .tflite, which states what quantization cost, is found by the hash of the .tflite.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetool.errors import UsageError
from edgetool.pipeline.output import read_file
from edgetool.pipeline.source import Source
from edgetool.report.document import QuantizationInfo, Report
from edgetool.report.json import USE_UNMODIFIED, parse_reports

# The documents of the largest networks have a few megabytes.
MAX_REPORT_BYTES = 64 * 2**20


def read_reports(path: Path) -> tuple[Report, ...]:
    """Read all reports in the file, in order. Raises UsageError for any other content."""
    return reports_in(read_file(path, what="a report", max_bytes=MAX_REPORT_BYTES), where=str(path))


def reports_in(blob: bytes, *, where: str) -> tuple[Report, ...]:
    """Parse all reports in the bytes of a file, as read_reports does; `where` is the file in error messages."""
    if len(blob) > MAX_REPORT_BYTES:
        raise UsageError("is too large for a report", where=where, fix=USE_UNMODIFIED)
    try:
        return parse_reports(blob.decode("utf-8"))
    except UnicodeDecodeError:
        raise UsageError("is not a UTF-8 text file", where=where, fix=USE_UNMODIFIED) from None
    except UsageError as error:
        raise UsageError(error.what, where=where, fix=error.fix) from None


def select_report(reports: Sequence[Report], target: str | None, *, where: str) -> Report:
    """Return the only report, or the one of several that is for the target.

    Raises UsageError, which lists the reports, unless exactly one of several is for the target.
    """
    if len(reports) == 1:
        return reports[0]
    matching = [report for report in reports if report.target is not None and report.target.name == target]
    if target is not None and len(matching) == 1:
        return matching[0]
    names = ", ".join(f"{report.model.name} on {_target_name(report)}" for report in reports)
    what = f"contains {len(reports)} reports ({names})"
    if matching:
        raise UsageError(
            f"{what}, {len(matching)} for target {target}", where=where, fix="specify a document with only one"
        )
    none_matching = "" if target is None else f", none for target {target}"
    raise UsageError(f"{what}{none_matching}", where=where, fix="choose one with --target NAME")


def _target_name(report: Report) -> str:
    return "no target" if report.target is None else report.target.name


def quantizations(
    paths: Sequence[Path], sources: Sequence[Source], report_paths: Sequence[Path]
) -> tuple[QuantizationInfo | None, ...]:
    """Return the quantization of each model as its report states it; None if no report is for exactly that file.

    Args:
        paths: The models.
        sources: The same models, read.
        report_paths: The user's reports, each of which must be for one of the models; without any, NAME.json beside
            each model is read.

    Raises:
        UsageError: One of report_paths is not the report of the conversion of one of the models.
    """
    if not report_paths:
        return tuple(_quantization_beside(path, source) for path, source in zip(paths, sources, strict=True))
    by_sha256: dict[str, QuantizationInfo | None] = {}
    hashes = {source.sha256 for source in sources}
    for path in report_paths:
        in_file = {
            report.model.output.sha256: report.quantization
            for report in read_reports(path)
            if report.model.output is not None
        }
        if not in_file:
            raise UsageError(
                "is not a report of a conversion",
                where=str(path),
                fix="specify the NAME.json that 'edgetool convert' wrote",
            )
        if hashes.isdisjoint(in_file):
            raise UsageError(
                "is the report for a file other than the given models",
                where=str(path),
                fix="specify the report of the conversion that wrote the model",
            )
        by_sha256 |= in_file
    return tuple(by_sha256.get(source.sha256) for source in sources)


def _quantization_beside(path: Path, source: Source) -> QuantizationInfo | None:
    """Return the quantization that NAME.json states, unless it is another file or for an older build of the model."""
    report_path = path.with_suffix(".json")
    if not report_path.is_file():
        return None
    try:
        reports = read_reports(report_path)
    except UsageError:
        return None
    matching = (r for r in reports if r.model.output is not None and r.model.output.sha256 == source.sha256)
    return next((report.quantization for report in matching), None)
