"""TODO."""

from __future__ import annotations

from edgetool.codegen.native.site import Lowering

LOWERINGS: dict[str, Lowering] = {}
