"""Every kind of page, as the commands write them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgetool.model.writer import write_model
from edgetool.pipeline.report import bundled_page, describe, view_of
from edgetool.pipeline.targets import resolve_named
from edgetool.report.document import Accuracy, Histogram, LayerLoss, OutputQuality, QuantizationInfo
from edgetool.report.html import PageReport, page, reports_data
from tests import hostile_names
from tests.cli.program import edgetool
from tests.graphs import chain
from tests.model.builders import Builder, if_model

ROOT = Path(__file__).resolve().parents[2]
PERSON = ROOT / "examples" / "person_detection" / "person_detection.tflite"
KEYWORD = ROOT / "examples" / "keyword_spotting" / "keyword_spotting.tflite"
BOARD = ("-t", "nucleo-l476rg")
NATIVE = (*BOARD, "--runtime", "native")
LARGE = 3_000

# The words of the command that writes each page, but for the page's name.
COMMANDS: dict[str, tuple[str | Path, ...]] = {
    "planned": ("report", PERSON, *BOARD),
    "native": ("report", KEYWORD, *NATIVE, "--scratch-budget", "64KiB"),
    "rows": ("report", PERSON, *NATIVE, "--scratch-budget", "0"),
    "without-target": ("report", PERSON),
    "targets": ("plan", KEYWORD, *BOARD, "-t", "rpi-pico", "-q", "--html"),
    "checked": ("check", KEYWORD, PERSON, *BOARD, "--max-arena", "20KiB", "-q", "--html"),
    "compared": ("compare", KEYWORD, PERSON, *BOARD, "-q", "--html"),
    "documents": ("compare", "a.json", "b.json", "-q", "--html"),
    "swept": ("sweep", "show", "sweep.sqlite", "-q", "--html"),
    "no-operators": ("report", "empty.tflite", *BOARD),
    "subgraphs": ("report", "if.tflite", *BOARD),
    "many-names": ("report", "many.tflite", *BOARD),
    "chain-of-names": ("report", "chain.tflite", *BOARD),
    "custom-operators": ("report", "custom.tflite", *BOARD),
}
HOSTILE = ("many-names", "chain-of-names", "custom-operators")


def write_inputs(folder: Path) -> None:
    """Write the models and the store that the commands read."""
    build = Builder(seed=5)
    x = build.activation([1, 16], name="x")
    (folder / "empty.tflite").write_bytes(write_model(build.model([x], [x])))
    (folder / "if.tflite").write_bytes(write_model(if_model()))
    (folder / "many.tflite").write_bytes(hostile_names.many_inputs())
    (folder / "chain.tflite").write_bytes(hostile_names.hostile_model())
    (folder / "custom.tflite").write_bytes(hostile_names.custom_operators())
    for name, model in (("a", KEYWORD), ("b", PERSON)):
        edgetool("estimate", model, *BOARD, "-o", f"{name}.json", "-q", cwd=folder)
    (folder / "sweep.sqlite").write_bytes((ROOT / "docs" / "sweep-example.sqlite").read_bytes())


def write_page(folder: Path, kind: str) -> Path:
    """Write a page into a folder with the inputs."""
    path = folder / f"{kind}.html"
    if not path.exists():
        words = COMMANDS[kind]
        done = edgetool(*words, *(() if words[-1] == "--html" else ("-q", "-o")), path, cwd=folder)
        assert done.returncode in (0, 1), done
        assert path.exists(), done
    return path


def quantized_page(folder: Path) -> Path:
    """Write the page of a model with the loss of each layer, which has names of any kind."""
    (described,) = describe(KEYWORD, [resolve_named("nucleo-l476rg")])
    layers = tuple(
        LayerLoss(name, "Conv2D", "CONV_2D", 30.0 + number, 0.3, 0.1, -1.0, 1.0, 8, 3, 2.0, Histogram(-1, 1, (1, 5, 0)))
        for number, name in enumerate(("conv2d", *hostile_names.NAMES))
    )
    outputs = (OutputQuality("<b>word", 40.1, 0.99996, 1.0),)
    loss = QuantizationInfo("int8", True, 100, outputs, Accuracy(0.98, 0.97), layers)
    item = PageReport(replace(described.report, quantization=loss), "Fits", False, view_of(described))
    path = folder / "quantized.html"
    path.write_text(page(bundled_page(), reports_data([item], "edgetool")), encoding="utf-8")
    return path


def large_page(folder: Path) -> Path:
    """Write the page of a model with very many operators."""
    path = folder / "large.html"
    (folder / "large.tflite").write_bytes(write_model(chain([16] * (LARGE + 1))))
    done = edgetool("report", "large.tflite", *BOARD, "-q", "-o", path, "--time-limit", "1", cwd=folder)
    assert done.returncode == 0, done
    return path


def data_of(path: Path) -> Any:
    """Return the data of a page."""
    text = path.read_text(encoding="utf-8")
    start = text.index('id="data">') + len('id="data">')
    return json.loads(text[start : text.index("</script>", start)])
