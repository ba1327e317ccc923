"""Return the versions of the packages that determine the outcome of a job."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from edgetool import __version__
from edgetool.errors import MissingExtraError

# For each name in the keys of jobs: the distributions that contain the package; the first one installed counts.
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "tensorflow": ("tensorflow-cpu", "tensorflow"),
    "keras": ("keras",),
    "ai-edge-litert": ("ai-edge-litert",),
    "numpy": ("numpy",),
}
# With OR-Tools the search for a layout has one more stage; Pillow reads calibration images.
OPTIONAL: Mapping[str, tuple[str, ...]] = {"ortools": ("ortools",), "pillow": ("pillow",)}


def installed_versions() -> dict[str, str]:
    """Return the version of each package by name, without optional ones that are not installed.

    Raises MissingExtraError naming the required packages that are not installed.
    """
    versions = {name: _version(names) for name, names in {**REQUIRED, **OPTIONAL}.items()}
    missing = [name for name in REQUIRED if versions[name] is None]
    if missing:
        raise MissingExtraError(
            f"a sweep requires {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed",
            fix="pip install 'edgetool[convert,sweep]'",
        )
    return {"edgetool": __version__, **{name: text for name, text in versions.items() if text is not None}}


def _version(names: tuple[str, ...]) -> str | None:
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None
