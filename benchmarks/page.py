"""Measure how long pages take: the CPU time of writing them, and the first paint in Chromium.

    python -m benchmarks.page [MODEL.tflite TARGET LIMIT_SECONDS]...

Writing is everything after the plan and the estimate: what the drawings need, the JSON document, and the text. The
median of RUNS runs in one process is printed, beside that of the plan and the estimate. The first paint is that of the
last model's page, loaded from disk without a cache; it is not measured if Chromium, its driver or Selenium is missing.
Exits with 1 if writing takes longer than its limit, or if a page of up to 600 operators has 1 MB or more.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest
from tests.report.browser import started

from edgetool.cli.page import page_reports
from edgetool.pipeline.report import bundled_page, describe
from edgetool.pipeline.targets import resolve_named
from edgetool.report.html import page, reports_data

RUNS = 5
ROOT = Path(__file__).resolve().parents[1]
CASES = (
    (ROOT.parent / "shared" / "data" / "models" / "mlperf" / "vww_96_int8.tflite", "nucleo-l4r5zi", 1.0),
    (ROOT.parent / "zoo" / "nasnet-mobile" / "model.tflite", "stm32h747i-disco", 3.0),
)
EXAMPLE = (ROOT / "examples" / "person_detection" / "person_detection.tflite", "nucleo-l476rg", 1.0)
MAX_OPERATORS, MAX_BYTES = 600, 1_000_000


@dataclass(frozen=True, slots=True)
class Written:
    """A page: its text, its operators, and the CPU seconds of describing the model and of writing the page."""

    text: str
    operators: int
    described_s: float
    written_s: float


def write(model: Path, target: str) -> Written:
    start = time.process_time()
    described = describe(model, [resolve_named(target)])
    described_s = time.process_time() - start
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        text = page(bundled_page(), reports_data(page_reports(described), ""))
        times.append(time.process_time() - start)
    return Written(text, described[0].report.model.operators, described_s, median(times))


def paints_ms(text: str) -> tuple[float, float]:
    """Return the median milliseconds from the start of loading to the first contentful paint, and to the maps."""
    with tempfile.TemporaryDirectory() as folder, started() as browser:
        path = Path(folder) / "page.html"
        path.write_text(text, encoding="utf-8")
        times = []
        for _ in range(RUNS):
            browser.open(path)
            script = "return arguments[0].map((name) => performance.getEntriesByName(name)[0].startTime)"
            times.append(browser.run(script, ["first-contentful-paint", "drawn"]))
        first, drawn = (float(median(values)) for values in zip(*times, strict=True))
        return first, drawn


def main() -> None:
    words = sys.argv[1:]
    given = [(Path(words[i]), words[i + 1], float(words[i + 2])) for i in range(0, len(words), 3)]
    cases = given or [case for case in CASES if case[0].is_file()] or [EXAMPLE]
    failed = False
    for model, target, limit in cases:
        result = write(model, target)
        size = len(result.text)
        too_large = result.operators <= MAX_OPERATORS and size >= MAX_BYTES
        failed |= result.written_s > limit or too_large
        name = model.stem if model.stem != "model" else model.parent.name
        print(
            f"{name:<24} {result.operators:>6,} operators  described in {result.described_s:.2f} s, written in "
            f"{result.written_s:.3f} s (at most {limit:g}), {size:,} bytes"
        )
    try:
        first, drawn = paints_ms(result.text)
        print(f"first paint of the last page after {first:,.0f} ms, its memory maps after {drawn:,.0f} ms")
    except pytest.skip.Exception as reason:
        print(f"first paint not measured: {reason}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
