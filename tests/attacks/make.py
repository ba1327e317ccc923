"""Writes every attack as a file: `python -m tests.attacks.make [DIRECTORY]`, by default into files/ beside this script.

The large ones, which a checkout need not carry, are left out there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.attacks import bombs, contents, form, operators

FILES = Path(__file__).parent / "files"
ATTACKS = {**form.ATTACKS, **contents.ATTACKS, **bombs.ATTACKS, **operators.ATTACKS, **operators.BY_RULES}


def path_of(directory: Path, name: str) -> Path:
    return directory / f"{name}.tflite"


def write_all(directory: Path, *, large: bool) -> None:
    """Write the attacks, and with `large` those of over 50 kB too."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, attack in ATTACKS.items():
        if large or not attack.large:
            path_of(directory, name).write_bytes(attack.make())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write_all(Path(sys.argv[1]), large=True)
    else:
        write_all(FILES, large=False)
