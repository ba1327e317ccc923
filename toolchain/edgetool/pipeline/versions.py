"""List the versions of Python and of the packages that each extra requires, for bug reports.

The versions of some packages determine the outcome of a job of a sweep.
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from edgetool import __version__
from edgetool.errors import MissingExtraError

_REQUIREMENT = re.compile(r"(?P<package>[\w.-]+)[^;]*(?:; *(?P<marker>.*))?")
_EXTRA = re.compile(r"""extra == ["'](?P<extra>[\w-]+)["']""")
_CONDITION = re.compile(r"""(?P<name>sys_platform|platform_machine) (?P<sign>[!=]=) ["'](?P<value>\w+)["']""")
# Extras that only combine others, or that only developers install.
_WITHOUT_ROW = frozenset(["all", "dev"])


@dataclass(frozen=True, slots=True)
class PackageVersion:
    """A package that edgetool or one of its extras requires here. extra: "" for edgetool's own requirements.

    version: None if the package is not installed.
    """

    extra: str
    package: str
    version: str | None


def python_version() -> str:
    """Return Python's version with the implementation, the system and the processor."""
    return f"{platform.python_implementation()} {platform.python_version()} ({sys.platform}, {platform.machine()})"


def package_versions() -> tuple[PackageVersion, ...]:
    """Return the required packages in the order of edgetool's metadata, without importing any.

    Raises PackageNotFoundError if edgetool runs without being installed.
    """
    return tuple(_versions(importlib.metadata.requires("edgetool") or []))


def _versions(requirements: list[str]) -> Iterator[PackageVersion]:
    for requirement in requirements:
        parts = _REQUIREMENT.fullmatch(requirement)
        if parts is None:
            continue
        marker = parts["marker"] or ""
        extra = match["extra"] if (match := _EXTRA.search(marker)) else ""
        # An extra that adds to another one requires edgetool itself.
        if extra not in _WITHOUT_ROW and parts["package"] != "edgetool" and _applies(marker):
            yield PackageVersion(extra, parts["package"], _installed(parts["package"]))


def _applies(marker: str) -> bool:
    """Return whether the platform conditions hold; in our metadata, all are joined by "and", or all by "or"."""
    here = {"sys_platform": sys.platform, "platform_machine": platform.machine()}
    conditions = [
        (here[item["name"]] == item["value"]) == (item["sign"] == "==") for item in _CONDITION.finditer(marker)
    ]
    return not conditions or (any(conditions) if " or " in marker else all(conditions))


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


# For each name in the keys of jobs: the distributions that contain the package; the first one that is installed is
# used.
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
