"""The tflite-micro wheel that runs models on this machine: which versions the profile of TFLM was tested with."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "tflite-micro"
# The first and the last nightly build whose arena is what the profile tflm-2026-08 predicts for x86-64; those just
# before differ by a few bytes of their tail. setup.cfg has the same range.
TESTED = ("0.dev20261012203412", "0.dev20261023182759")


def installed_version() -> str | None:
    """Return the version of the installed wheel, None if there is none."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return None


def is_tested(installed: str) -> bool:
    """Return whether a version lies in the tested range."""
    first, last = map(_build, TESTED)
    build = _build(installed)
    return build is not None and first is not None and last is not None and first <= build <= last


def _build(text: str) -> int | None:
    """Return the date and time of a nightly build as a number; None for a version of any other form."""
    match = re.fullmatch(r"0\.dev(\d{14})", text)
    return int(match[1]) if match else None
