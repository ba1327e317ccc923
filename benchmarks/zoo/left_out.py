"""What of keras.layers no model of the zoo has, and why."""

from __future__ import annotations

import ast
from pathlib import Path

NO_LAYER = "a base class, which computes nothing by itself"
CODE = (
    "contains code or another framework's model, which `--trust-model-code` loads; its author determines what it "
    "computes"
)
STRINGS = "operates on strings, which TFLM does not support; rejected with an error that names the layer"

LEFT_OUT = {
    "Layer": NO_LAYER,
    "Wrapper": NO_LAYER,
    "InputLayer": "part of every model",
    "Lambda": CODE,
    "TFSMLayer": CODE,
    "TorchModuleWrapper": CODE,
    "JaxLayer": CODE,
    "FlaxLayer": CODE,
    "StringLookup": STRINGS,
    "TextVectorization": STRINGS,
    "Hashing": STRINGS,
    "HashedCrossing": STRINGS,
    "MaxNumBoundingBoxes": "pads training labels, which a trained model does not have",
    "ContrastLimitedAdaptiveHistogramEqualization": (
        "computes histograms, like `Equalization`, which represents both in the tables above"
    ),
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
