"""The environment of a child: of the user's only what Python needs, unless the code that runs is trusted."""

from __future__ import annotations

import site
from collections.abc import Mapping
from pathlib import Path

# What says where programs, libraries and Python's packages are, and in which language and time zone the user lives.
KEPT = frozenset(
    """
    PATH LANG LANGUAGE TZ VIRTUAL_ENV CONDA_PREFIX LD_LIBRARY_PATH LD_PRELOAD DYLD_LIBRARY_PATH
    DYLD_FALLBACK_LIBRARY_PATH PYTHONPATH PYTHONHOME PYTHONPLATLIBDIR PYTHONUTF8 PYTHONHASHSEED PYTHONNOUSERSITE
    PYTHONUSERBASE PYTHONFAULTHANDLER SYSTEMROOT WINDIR PATHEXT COMSPEC TF_USE_LEGACY_KERAS OMP_NUM_THREADS
    """.split()
)
KEPT_PREFIX = "LC_"
# Where a system has the user's home and settings: for a child, in its own folder.
HOMES = ("HOME", "USERPROFILE", "APPDATA")
# Quiet, without a GPU, and with the one backend that converts.
QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "CUDA_VISIBLE_DEVICES": "-1",
    "KERAS_BACKEND": "tensorflow",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONIOENCODING": "utf-8",
}


def environment(given: Mapping[str, str], workdir: Path, *, trusted: bool) -> dict[str, str]:
    """What a child gets of the variables given; temporary files go where they are removed, and so does what it would
    keep in the user's home, which only trusted code is told of."""
    temporary = {**QUIET, "TMPDIR": str(workdir)}
    if trusted:
        return {**given, **temporary}
    kept = {name: value for name, value in given.items() if name in KEPT or name.startswith(KEPT_PREFIX)}
    # Python looks for the user's own packages in the home that it is not told of.
    return {"PYTHONUSERBASE": site.getuserbase(), **kept, **temporary, **dict.fromkeys(HOMES, str(workdir))}
