"""Load the target that a sweep specifies."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from edgetool.report.json import plain
from edgetool.sweep.spec import TargetSpec
from edgetool.target.load import load_target, parse_target
from edgetool.target.types import Target


def resolved(spec: TargetSpec) -> Target:
    """Return the target with its overrides. Raises TargetError naming file and key."""
    target = load_target(spec.name) if spec.profile is None else parse_target(spec.profile, where=spec.name)
    overrides: dict[str, Any] = dict(spec.overrides)
    return target.with_overrides(**overrides)


def target_sha256(target: Target) -> str:
    """Return a hash of the target's content, which is the same whatever name the user gives to the target.

    The vendor is omitted: it has no effect on results, and results stored before the field existed remain valid.
    """
    figures = {key: value for key, value in plain(target).items() if key != "vendor"}
    return hashlib.sha256(json.dumps(figures, sort_keys=True).encode()).hexdigest()
