"""What to use instead of what TFLM cannot run."""

from __future__ import annotations

import re

from edgetool.convert.alternatives import LAYERS, ONNX_OPERATORS, OPERATIONS, OPERATORS, UNKNOWN, alternative_to
from edgetool.convert.onnx_operators import HANDLERS
from edgetool.model.schema import BUILTIN_OPERATORS


def test_the_layer_takes_precedence_over_the_operator() -> None:
    assert alternative_to("TILE", "ConvLSTM3D") == LAYERS["ConvLSTM3D"]
    assert alternative_to("TILE", "Lambda") == OPERATORS["TILE"]
    assert alternative_to("EXP", "Conv3D") == OPERATORS["EXP"]  # the layer itself converts: its activation does not
    assert alternative_to("ResizeBicubic") == OPERATIONS["ResizeBicubic"]
    assert alternative_to("Nonesuch", "Nonesuch") == UNKNOWN


def test_alternatives_are_for_operators_that_are_not_imported() -> None:
    assert not ONNX_OPERATORS.keys() & HANDLERS.keys()


def test_operators_are_those_of_the_schema_and_sentences_are_clauses() -> None:
    assert set(OPERATORS) <= set(BUILTIN_OPERATORS)
    for text in {*LAYERS.values(), *OPERATORS.values(), *OPERATIONS.values(), *ONNX_OPERATORS.values(), UNKNOWN}:
        assert re.fullmatch(r"[a-zT+][^\n]{10,150}[^.\n]", text), text
