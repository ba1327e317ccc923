"""Model Explorer itself, in a browser: it shows the figures of each operator beside the graph, whatever the names."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.viewers import viewer_files
from edgetool.report.model_explorer import node_keys
from tests.model.builders import residual_model
from tests.report.described import described
from tests.report.test_model_explorer import data_of, named, values

FIGURES = ("time", "arena", "macs")
SECONDS = 120
# Only of this machine, and without a browser of its own.
SERVE = """
import sys
import model_explorer.server
config = model_explorer.config()
config.add_model_from_path(sys.argv[2])
for path in sys.argv[3:]:
    config.add_node_data_from_path(path)
print("?data=" + config.to_url_param_value(), flush=True)
model_explorer.server.start(
    config=config, host="localhost", port=int(sys.argv[1]), no_open_in_browser=True, skip_health_check=True
)
"""


@contextlib.contextmanager
def served(*files: Path) -> Iterator[str]:
    """The address at which Model Explorer shows a model with its node data."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-c", SERVE, str(port), *map(str, files)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            query = server.stdout.readline().strip()
            until(lambda: listens(port))
            yield f"http://localhost:{port}/{query}"
        finally:
            server.kill()


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("localhost", port)) == 0


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window, which draws WebGL without a graphics card."""
    pytest.importorskip("model_explorer", reason="pip install ai-edge-model-explorer")
    webdriver = pytest.importorskip("selenium.webdriver", reason="pip install selenium")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("chromium or chromedriver is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    drawn = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist")
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1500,1000", *drawn):
        options.add_argument(argument)
    running = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield running
    finally:
        running.quit()


def shown(browser: Any, address: str, operators: int) -> list[tuple[str, ...]]:
    """The rows of the table of operators: the kind and the figures."""
    rows: list[tuple[str, ...]] = []

    def is_complete() -> bool:
        text = browser.execute_script("return document.body.innerText")
        table = text.rpartition("Node data\n")[2]
        rows[:] = [tuple(line.split("\t")[1:]) for line in table.splitlines() if re.match(r"\d+\t", line)]
        return len(rows) >= operators + 2

    browser.get(address)
    until(is_complete)
    return [row for row in rows if not row[0].startswith("Graph")]


def with_numbers() -> Model:
    """The same model, with the numbers of other operators as names of outputs."""
    model = residual_model()
    return named(model, **{f"t{operator.outputs[0]}": str(7 - operator.index) for operator in model.main.operators})


@pytest.mark.slow
@pytest.mark.parametrize("make", [residual_model, with_numbers])
def test_the_viewer_shows_the_figures_of_each_operator(make: Callable[[], Model], browser: Any, tmp_path: Path) -> None:
    model = make()
    item = described(model)
    (tmp_path / "model.tflite").write_bytes(write_model(model))
    for name, text in viewer_files(item, "model-explorer").files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    figures = [values(data_of(item), figure) for figure in FIGURES]
    keys = node_keys(model.main)
    expected = [
        (operator.label.lower(), *(float(figure[keys[operator.index]]) for figure in figures))
        for operator in model.main.operators
    ]
    files = [tmp_path / f"{figure}.json" for figure in FIGURES]
    with served(tmp_path / "model.tflite", *files) as address:
        rows = shown(browser, address, len(expected))
    assert [(kind, *map(float, numbers)) for kind, *numbers in rows] == expected
