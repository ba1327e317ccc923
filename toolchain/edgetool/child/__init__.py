"""Child processes with limits, for all work that an untrusted file could cause to crash, hang or misbehave."""

from __future__ import annotations

from edgetool.child.folder import temporary_place, work_folder
from edgetool.child.process import ChildDiedError, OnStart, ProcessLimits, run
from edgetool.child.serving import LOG_NAME, UNCONFINED, Progress, log_tail, serve

__all__ = [
    "LOG_NAME",
    "UNCONFINED",
    "ChildDiedError",
    "OnStart",
    "ProcessLimits",
    "Progress",
    "log_tail",
    "run",
    "serve",
    "temporary_place",
    "work_folder",
]
