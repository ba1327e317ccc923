"""What must hold of a model after clean-up passes, whatever they did."""

from __future__ import annotations

from edgetool.execute.quantize import random_inputs
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.operators.legality import unsupported_operators
from edgetool.passes.cleanup import PASSES, Change, CleanupPass, optimize
from tests.passes.runs import Arrays, litert, runtime, tflm

SAMPLES = 32
ARENA_BYTES = 1 << 24
PASS = {each.name: each for each in PASSES}


def same_bits(first: Arrays, second: Arrays) -> bool:
    pairs = zip(first, second, strict=True)
    return all(
        one.shape == two.shape and one.dtype == two.dtype and one.tobytes() == two.tobytes() for one, two in pairs
    )


def outputs(model: Model, inputs: Arrays) -> Arrays:
    """The outputs on TensorFlow Lite Micro, or on LiteRT where the former lacks an operator."""
    is_supported = not unsupported_operators(model, runtime())
    return tflm(model, inputs, ARENA_BYTES) if is_supported else litert(model, inputs)


def cleaned(
    model: Model, *passes: CleanupPass, inputs: Arrays | None = None, samples: int = SAMPLES
) -> tuple[Model, tuple[Change, ...]]:
    """optimize, and what holds: outputs and names stay, the file reads back, and nothing is left to do."""
    result, changes = optimize(model, passes or None)
    assert optimize(result, passes or None)[1] == ()
    if not changes:
        assert result is model
        return result, changes
    assert read_model(write_model(result), name="cleaned") == result
    assert len(result.subgraphs) == len(model.subgraphs)
    for graph, old in zip(result.subgraphs, model.subgraphs, strict=True):
        for kept, before in ((graph.inputs, old.inputs), (graph.outputs, old.outputs)):
            assert [interface(graph.tensors[i]) for i in kept] == [interface(old.tensors[i]) for i in before]
    for signature, before in zip(result.signatures, model.signatures, strict=True):
        assert [name for name, _ in signature.outputs] == [name for name, _ in before.outputs]
    given = random_inputs(model, samples, seed=0) if inputs is None else inputs
    assert same_bits(outputs(model, given), outputs(result, given))
    return result, changes


def interface(tensor: object) -> tuple[object, ...]:
    """What an application relies on of an input or output."""
    return tuple(getattr(tensor, name) for name in ("name", "shape", "dtype", "quantization"))
