"""Graphs of elementwise operators: branches that start at the same tensors, one output each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgetool.execute.worker import LiteRt
from edgetool.model.draft import STORED
from edgetool.model.schema import OPTION_TABLES
from edgetool.model.types import DType, Model, Tensor
from edgetool.model.writer import write_model
from edgetool.passes.legalize import ELEMENTWISE_RULES as ELEMENTWISE_RULES
from edgetool.passes.legalize import Legalized
from tests.model.builders import Builder, options
from tests.passes.runs import Arrays, made_legal

FLOAT, INT8, INT16, INT32, BOOL = DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.BOOL
Kind = tuple[DType, float, int]  # type, scale (0: none), zero point
REAL: Kind = (FLOAT, 0.0, 0)
TRUTH: Kind = (BOOL, 0.0, 0)
# Operators that have one version for quantized tensors too; others have the second there.
VERSIONS = {"GELU": 1, "ELU": 1, "SELECT_V2": 1, "HARD_SWISH": 1, "ZEROS_LIKE": 1, "NEG": 1, "QUANTIZE": 1}


class Chain(Builder):
    """A Builder of tensors of one shape."""

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        self.shape = tuple(shape)

    def made(self, kind: Kind) -> int:
        dtype, scale, zero_point = kind
        return self.tensor(self.shape, dtype, scales=(scale,) if scale else (), zero_point=zero_point)

    def number(self, value: float, kind: Kind) -> int:
        """A scalar constant, given as what is stored."""
        dtype, scale, zero_point = kind
        data = np.asarray(value, STORED[dtype]).tobytes()
        return self.tensor([], dtype, data=data, scales=(scale,) if scale else (), zero_point=zero_point)

    def step(self, code: str, inputs: Sequence[int], kind: Kind, **fields: Any) -> int:
        result = self.made(kind)
        given = options(OPTION_TABLES[code], **fields) if fields else None
        self.operator(code, inputs, [result], given, version=VERSIONS.get(code, 2 if kind[1] else 1))
        return result


def legal(model: Model) -> Legalized:
    """Legal by the rules of activation functions alone."""
    return made_legal(model, ELEMENTWISE_RULES)


def plain_litert(model: Model, inputs: Arrays) -> Arrays:
    """The outputs for one sample with LiteRT's default kernels, which has operators that its reference kernels lack."""
    return LiteRt(write_model(model), reference=False).invoke(inputs)


def output(model: Model, index: int = 0) -> Tensor:
    return model.main.tensors[model.main.outputs[index]]


def int8_codes() -> np.ndarray[Any, np.dtype[np.int8]]:
    return np.arange(-128, 128).astype(np.int8)
