"""What of keras.layers no model of the zoo has, and why."""

from __future__ import annotations

import ast
from pathlib import Path

NO_LAYER = "a base class: it computes nothing by itself"
CODE = "holds code or another framework's model: `--trust-model-code` loads it; what it computes is up to its author"
STRINGS = "works on strings, which TFLM does not support: rejected by name"

LEFT_OUT = {
    "Layer": NO_LAYER,
    "Wrapper": NO_LAYER,
    "InputLayer": "every model has one",
    "Lambda": CODE,
    "TFSMLayer": CODE,
    "TorchModuleWrapper": CODE,
    "JaxLayer": CODE,
    "FlaxLayer": CODE,
    "StringLookup": STRINGS,
    "TextVectorization": STRINGS,
    "Hashing": STRINGS,
    "HashedCrossing": STRINGS,
    "MaxNumBoundingBoxes": "pads training labels; a trained model has no labels",
    "ContrastLimitedAdaptiveHistogramEqualization": "computes histograms like Equalization, which represents both here",
}


def named_in_zoo() -> set[str]:
    """Every attribute and every word in a string (but no docstring) of the zoo's modules: the layers it builds."""
    names: set[str] = set()
    for path in Path(__file__).parent.glob("*.py"):
        if path.name in (Path(__file__).name, "own_layers.py"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        described = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                names.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
                names.update(node.value.split())
    return names
