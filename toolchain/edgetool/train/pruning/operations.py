"""Rules for operations that are no layers: x + y, x * 0.5, keras.ops.relu(x)."""

from __future__ import annotations

from edgetool.train.pruning.call import Call
from edgetool.train.pruning.channels import Signal
from edgetool.train.pruning.merges import MERGES
from edgetool.train.pruning.rules import elementwise

# Classes in keras.src.ops.
TWO_TENSORS = frozenset(["Add", "Subtract", "Multiply", "Maximum", "Minimum"])
SCALED = frozenset(["Multiply", "Divide", "TrueDivide"])
SHIFTED = frozenset(["Add", "Subtract", "Maximum", "Minimum"])
ONE_TENSOR = frozenset(
    "Relu Relu6 LeakyRelu Elu Selu Gelu Silu HardSilu Tanh Sigmoid HardSigmoid Softplus Abs Absolute Negative".split()
)


def operation(call: Call, signals: list[Signal]) -> list[Signal]:
    """What an operation of Keras's own does; others freeze what goes in."""
    kind = call.facts.kind
    if kind in TWO_TENSORS and len(signals) == 2 and len(signals[0].shape) == len(signals[1].shape):
        return MERGES[kind](call, signals)
    if kind in ONE_TENSOR and len(signals) == 1:
        return elementwise(call, signals[0])
    if len(signals) == 1 and len(call.arguments) == 2 and signals[0].axis is not None:
        first, second = call.arguments
        scalar = second if first is signals[0] else first
        if isinstance(scalar, int | float):
            if kind in SCALED and (first is signals[0] or kind == "Multiply"):
                return call.output(signals[0].axis, signals[0].symbols, signals[0].residue)
            if kind in SHIFTED:
                residue = signals[0].residue.copy()
                residue[residue == None] = f"{call.facts} adds a value to every channel"  # noqa: E711
                return call.output(signals[0].axis, signals[0].symbols, residue)
    return call.give_up(signals)
