"""Models of few operators, and what must hold of them once they are legal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgetool.execute.quantize import random_inputs
from edgetool.execute.worker import LiteRt, Tflm
from edgetool.model.draft import STORED
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model
from edgetool.model.writer import write_model
from edgetool.operators.legality import unsupported_operators
from edgetool.passes.legalize import STRUCTURE_RULES as STRUCTURE_RULES
from edgetool.passes.legalize import Legalized, legalize
from edgetool.passes.rewrite import Rewrite
from edgetool.target.load import load_target
from edgetool.target.types import Runtime
from tests.model.builders import Builder, options

Arrays = tuple[npt.NDArray[Any], ...]

SAMPLES = 3
SCALE, ZERO_POINT = 1 / 16, 3


@cache
def runtime() -> Runtime:
    return load_target("cortex-m7").runtime


class Net(Builder):
    """A Builder whose tensors have one scale, and whose operators are given with their constants as arrays."""

    def input(self, shape: Sequence[int], dtype: DType) -> int:
        quantized = dtype in {DType.INT8, DType.INT16}
        zero_point = ZERO_POINT if dtype is DType.INT8 else 0
        return self.tensor(shape, dtype, scales=(SCALE,) if quantized else (), zero_point=zero_point)

    def constant(self, values: Any, dtype: DType = DType.INT32) -> int:
        array = np.asarray(values, STORED[dtype])
        quantized = dtype in {DType.INT8, DType.INT16}
        zero_point = ZERO_POINT if dtype is DType.INT8 else 0
        scales = (SCALE,) if quantized else ()
        return self.tensor(array.shape, dtype, data=array.tobytes(), scales=scales, zero_point=zero_point)

    def add_operator(
        self,
        code: str,
        inputs: Sequence[int],
        *shapes: Sequence[int],
        dtype: DType | None = None,
        version: int = 2,
        table: str = "",
        **fields: Any,
    ) -> list[int]:
        """The outputs of an operator, of these shapes and of the first input's type unless another is given."""
        made = [self.input(shape, dtype or self.tensors[inputs[0]].dtype) for shape in shapes]
        self.operator(code, inputs, made, options(table, **fields) if table else None, version=version)
        return made

    def reshape(self, x: int, shape: Sequence[int]) -> int:
        return self.add_operator(
            "RESHAPE", [x, self.constant(shape)], shape, version=1, table="ReshapeOptions", new_shape=tuple(shape)
        )[0]


def codes(model: Model) -> list[str]:
    return [operator.label for operator in model.main.operators]


def litert(model: Model, inputs: Arrays) -> Arrays:
    """Its outputs with LiteRT's reference kernels, sample by sample."""
    pytest.importorskip("ai_edge_litert")
    return _run(LiteRt(write_model(model), reference=True), inputs)


def tflm(model: Model, inputs: Arrays, arena_bytes: int = 1 << 20) -> Arrays:
    pytest.importorskip("tflite_micro")
    return _run(Tflm(write_model(model), arena_bytes=arena_bytes), inputs)


def _run(engine: LiteRt | Tflm, inputs: Arrays) -> Arrays:
    samples = [engine.invoke(tuple(array[i] for array in inputs)) for i in range(len(inputs[0]))]
    return tuple(np.stack(output) for output in zip(*samples, strict=True))


def differ(first: Arrays, second: Arrays) -> float:
    """The largest difference of any element; shapes and types must be the same."""
    worst = 0.0
    for one, other in zip(first, second, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        if one.size:
            worst = max(worst, float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max()))
    return worst


def made_legal(model: Model, rules: tuple[Rewrite, ...] = STRUCTURE_RULES) -> Legalized:
    """legalize, and what holds whatever it did: all is legal, nothing is left to do, and the file reads back."""
    result = legalize(model, runtime(), rules=rules)
    assert unsupported_operators(result.model, runtime()) == ()
    blob = write_model(result.model)
    assert read_model(blob, name="legal") == result.model
    assert legalize(result.model, runtime(), rules=rules).applied == ()
    assert write_model(legalize(model, runtime(), rules=rules).model) == blob
    graph, before = result.model.main, model.main
    for kept, old in ((graph.inputs, before.inputs), (graph.outputs, before.outputs)):
        assert [graph.tensors[i].name for i in kept] == [before.tensors[i].name for i in old]
    return result


def assert_same_in_all(model: Model, inputs: Arrays | None = None, tolerance: float = 0.0) -> Legalized:
    """The legal model gives what the model gave, on LiteRT and on TensorFlow Lite Micro."""
    result = made_legal(model)
    given = random_inputs(model, SAMPLES, seed=0) if inputs is None else inputs
    before, after = litert(model, given), litert(result.model, given)
    assert differ(before, after) <= tolerance
    assert differ(tflm(result.model, given), after) <= tolerance
    return result
