"""The rewrites of activation functions and other elementwise operators, the best first."""

from __future__ import annotations

from edgetool.passes import approximations, expansions, islands, lookup

RULES = (lookup.LOOK_UP, lookup.SHORTEN, approximations.APPROXIMATE, islands.IN_FLOAT, expansions.EXPAND)
