"""Every kind of page, as the commands write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgetool.model.writer import write_model
from tests import hostile_names
from tests.cli.program import edgetool
from tests.graphs import chain
from tests.model.builders import Builder, if_model

ROOT = Path(__file__).resolve().parents[2]
PERSON = ROOT / "examples" / "person_detection" / "person_detection.tflite"
KEYWORD = ROOT / "examples" / "keyword_spotting" / "keyword_spotting.tflite"
BOARD = ("-t", "nucleo-l476rg")
NATIVE = (*BOARD, "--runtime", "native")
LARGE = 10_000

# The words of the command that writes each page, but for the page's name.
COMMANDS: dict[str, tuple[str | Path, ...]] = {
    "planned": ("report", PERSON, *BOARD),
    "native": ("report", PERSON, *NATIVE, "--scratch-budget", "64KiB"),
    "rows": ("report", PERSON, *NATIVE, "--scratch-budget", "0"),
    "without-target": ("report", PERSON),
    "targets": ("plan", KEYWORD, *BOARD, "-t", "rpi-pico", "-q", "--html"),
    "checked": ("check", KEYWORD, PERSON, *BOARD, "--max-arena", "20KiB", "-q", "--html"),
    "compared": ("compare", KEYWORD, PERSON, *BOARD, "-q", "--html"),
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
    (folder / "sweep.sqlite").write_bytes((ROOT / "docs" / "sweep-example.sqlite").read_bytes())


def write_page(folder: Path, kind: str) -> Path:
    """Write a page into a folder with the inputs."""
    page = folder / f"{kind}.html"
    if not page.exists():
        words = COMMANDS[kind]
        done = edgetool(*words, *(() if words[-1] == "--html" else ("-q", "-o")), page, cwd=folder)
        assert done.returncode in (0, 1), done
        assert page.exists(), done
    return page


def large_page(folder: Path) -> Path:
    """Write the page of a model with very many operators."""
    page = folder / "large.html"
    (folder / "large.tflite").write_bytes(write_model(chain([16] * (LARGE + 1))))
    done = edgetool("report", "large.tflite", *BOARD, "-q", "-o", page, "--time-limit", "1", cwd=folder)
    assert done.returncode == 0, done
    return page


def data_of(page: Path) -> Any:
    """Return the data of a page."""
    text = page.read_text(encoding="utf-8")
    start = text.index('id="data">') + len('id="data">')
    return json.loads(text[start : text.index("</script>", start)])
