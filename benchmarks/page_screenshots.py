"""Draw the screenshots of docs/report.md, which people inspect after each change of the page.

    python -m benchmarks.page_screenshots DIRECTORY NAME=MODEL...

DIRECTORY is usually docs/report, and NAME a key of WORDS. Each page is drawn as a desktop and a phone show it, each in
one theme; the desktop's picture begins at what TOP names.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from tests.cli.program import edgetool
from tests.report.browser import DESKTOP, PHONE, started

NATIVE = ("--runtime", "native", "--scratch-budget", "0")
WORDS: dict[str, tuple[str, ...]] = {
    "vww_96": ("report", "{}", "-t", "nucleo-l4r5zi", "-q", "-o"),
    "person_detect": ("report", "{}", "-t", "nucleo-l476rg", "-q", "-o"),
    "mobilenet_v2": ("report", "{}", "-t", "stm32h747i-disco", *NATIVE, "-q", "-o"),
    "sweep": ("sweep", "show", "{}", "-q", "--html"),
}
# Where the desktop's picture begins.
TOP = {"vww_96": "header", "person_detect": "#memory", "mobilenet_v2": "#memory", "sweep": "header"}
COLOURS = 128


def main() -> None:
    directory, words = Path(sys.argv[1]), sys.argv[2:]
    models = {name: Path(path) for name, _, path in (word.partition("=") for word in words)}
    directory.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, started() as browser:
        for name, model in models.items():
            number = list(WORDS).index(name)
            path = Path(folder) / f"{name}.html"
            done = edgetool(*(str(model) if word == "{}" else word for word in WORDS[name]), path)
            assert path.exists(), done
            for kind, size, dark in (("desktop", DESKTOP, number % 2 == 1), ("phone", PHONE, number % 2 == 0)):
                browser.open(path, size, dark=dark)
                if kind == "desktop":
                    browser.run("document.querySelector(arguments[0]).scrollIntoView()", TOP[name])
                    browser.settle()
                picture = Image.open(io.BytesIO(browser.screenshot())).convert("RGB").quantize(COLOURS)
                picture.save(directory / f"{name}-{kind}.png", optimize=True)


if __name__ == "__main__":
    main()
