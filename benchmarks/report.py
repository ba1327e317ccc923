"""Measure the CPU time of writing a page, node data and a trace about models, and the first paint of the page.

    python -m benchmarks.report [MODEL.tflite...]

A model is planned once; what follows is measured in this process, as the median of RUNS. The first paint is that of
headless Chromium, which loads the page from disk, if Selenium, Chromium and its driver are installed. Exits with 1 if a
page of up to 600 operators takes more than 1 s of CPU, or a larger one more than 3 s.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.startup import EXAMPLE, REAL_MODEL

from edgetool.cli.page import page_reports
from edgetool.pipeline.report import bundled_page, describe
from edgetool.pipeline.reporting import Described
from edgetool.pipeline.viewers import viewer_files
from edgetool.report.html import page, reports_data
from edgetool.target.load import load_target

RUNS = 5
TARGET = "nucleo-l4r5zi"
SMALL_OPERATORS, SMALL_S, LARGE_S = 600, 1.0, 3.0


def page_text(described: Described) -> str:
    """Return the page about a model."""
    return page(bundled_page(), reports_data(page_reports([described]), "edgetool report"))


def node_data_text(described: Described) -> str:
    """Return all node data about a model."""
    return "".join(viewer_files(described, "model-explorer").files.values())


def trace_text(described: Described) -> str:
    """Return the trace of a model."""
    return "".join(viewer_files(described, "perfetto").files.values())


KINDS = (page_text, node_data_text, trace_text)


def cpu_seconds(make: Callable[[Described], str], described: Described) -> float:
    """Return the median of the CPU seconds that it takes to make a text."""
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        make(described)
        times.append(time.process_time() - start)
    return median(times)


def first_paint_ms(text: str) -> float | None:
    """Return the milliseconds until Chromium first paints the page; None if it or Selenium is missing."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    try:
        from selenium import webdriver
    except ImportError:
        return None
    if program is None or driver is None:
        return None
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(text, encoding="utf-8")
        browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        try:
            return median(_paint_ms(browser, path) for _ in range(RUNS))
        finally:
            browser.quit()


def _paint_ms(browser: Any, path: Path) -> float:
    browser.get(path.as_uri())
    script = "return performance.getEntriesByName('first-contentful-paint').map(entry => entry.startTime)"
    end = time.monotonic() + 60
    while not (found := browser.execute_script(script)):
        if time.monotonic() > end:
            raise TimeoutError(f"{path} was not painted")
        time.sleep(0.05)
    return float(found[0])


def main() -> int:
    models = [Path(word) for word in sys.argv[1:]] or [REAL_MODEL if REAL_MODEL.is_file() else EXAMPLE]
    slow = False
    print(f"{'CPU time, size':28} {'page':>18} {'node data':>18} {'trace':>18} {'first paint':>18}")
    for path in models:
        (described,) = describe(path, [load_target(TARGET)])
        operators = described.report.model.operators
        texts = [make(described) for make in KINDS]
        times = [cpu_seconds(make, described) for make in KINDS]
        cells = [f"{seconds:.3f} s {len(text) / 1000:6.0f} kB" for seconds, text in zip(times, texts, strict=True)]
        paint = first_paint_ms(texts[0])
        cells.append("-" if paint is None else f"{paint:.0f} ms")
        name = f"{path.parent.name}/{path.name}, {operators} ops"
        print(f"{name[-28:]:28} {' '.join(f'{cell:>18}' for cell in cells)}")
        slow = slow or times[0] > (SMALL_S if operators <= SMALL_OPERATORS else LARGE_S)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
