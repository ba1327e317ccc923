"""All rewrites that move data or choose between values, in the order in which they are tried."""

from __future__ import annotations

from edgetool.passes import (
    biases,
    choices,
    copies,
    dense,
    folding,
    fusing,
    joins,
    ranking,
    repeats,
    reshapes,
    scales,
    slices,
    transposes,
    upsampling,
)

RULES = (
    *folding.RULES,
    *reshapes.RULES,
    *fusing.RULES,
    *copies.RULES,
    *upsampling.RULES,
    *repeats.RULES,
    *joins.RULES,
    *slices.RULES,
    *transposes.RULES,
    *choices.RULES,
    *dense.RULES,
    *biases.RULES,
    *ranking.RULES,
    *scales.RULES,
)
