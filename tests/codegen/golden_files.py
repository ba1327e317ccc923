"""Generated text against its golden file; EDGETOOL_UPDATE_GOLDEN=1 renews it."""

from __future__ import annotations

import os
import re
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


def check_golden(file: str, text: str) -> None:
    """Compare the text with golden/FILE.golden."""
    path = GOLDEN / f"{file}.golden"
    if os.environ.get("EDGETOOL_UPDATE_GOLDEN"):
        path.write_text(text, encoding="ascii", newline="")
    assert text == path.read_text(encoding="ascii")


def code(text: str) -> str:
    """The text without its comments."""
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
