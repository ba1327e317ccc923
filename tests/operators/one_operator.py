"""Models of one operator each, of every operator that TFLM has, in the types of our models and in others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from edgetool.execute.quantize import numpy_dtype
from edgetool.model.types import DType, Graph, Model, Operator, OperatorCode, Options, Quantization
from tests.memory.account_models import MODELS

FLOAT32, INT8, INT16, INT32 = DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32
OTHER_TYPES = (FLOAT32, INT8, INT16, INT32, DType.INT64, DType.BOOL, DType.UINT8)
# They need other subgraphs or variables; a custom operator has no types in the profile.
WITH_OTHERS = frozenset("IF WHILE CALL_ONCE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE CUSTOM".split())
# Operators whose second input tells what they work on.
MAIN_IS_SECOND = frozenset("SPLIT SELECT_V2 TRANSPOSE_CONV EMBEDDING_LOOKUP FILL".split())
SCALES = {INT8: 1 / 16, INT16: 1 / 2048, DType.UINT8: 1 / 16}
# What TFLM wants of an output.
OUTPUT_SCALES = {
    ("L2_NORMALIZATION", INT8): (1 / 128, 0),
    ("LOGISTIC", INT8): (1 / 256, -128),
    ("LOGISTIC", INT16): (2.0**-15, 0),
    ("LOG_SOFTMAX", INT8): (1 / 16, 127),
    ("SOFTMAX", INT8): (1 / 256, -128),
    ("SOFTMAX", INT16): (2.0**-15, 0),
    ("TANH", INT8): (1 / 128, 0),
    ("TANH", INT16): (2.0**-15, 0),
}


@dataclass(frozen=True, slots=True)
class Variant:
    """A model of one operator. changed: its main type was, "float32 -> int8"; "" for that of our models."""

    name: str
    changed: str
    model: Model


def variants() -> Iterator[Variant]:
    """Each operator once per combination of types that our models have, as it is and with its main type changed."""
    seen = set()
    for make in MODELS.values():
        for graph in make().subgraphs:
            for operator in graph.operators:
                key = (operator.code, tuple(graph.tensors[index].dtype for index in _operands(operator)))
                if operator.code in WITH_OTHERS or key in seen:
                    continue
                seen.add(key)
                name = f"{operator.code} {' '.join(dtype.name.lower() for dtype in key[1][:6])}"
                yield Variant(name, "", _alone(operator, graph, {}))
                position = min(operator.code in MAIN_IS_SECOND, len(operator.inputs) - 1)
                main = graph.tensors[operator.inputs[position]].dtype
                same = [index for index in _operands(operator) if graph.tensors[index].dtype == main]
                for dtype in OTHER_TYPES:
                    if dtype != main and main != DType.INT4:
                        changed = f"{main.name.lower()} -> {dtype.name.lower()}"
                        yield Variant(name, changed, _alone(operator, graph, dict.fromkeys(same, dtype)))


def _operands(operator: Operator) -> list[int]:
    return [index for index in (*operator.inputs, *operator.outputs) if index >= 0]


def _alone(operator: Operator, graph: Graph, types: Mapping[int, DType]) -> Model:
    """The operator with its tensors, of which some have another type."""
    kept = list(dict.fromkeys(_operands(operator)))
    new = {old: index for index, old in enumerate(kept)}
    data: list[bytes | None] = [None]
    tensors = []
    for old in kept:
        tensor = graph.tensors[old]
        payload, dtype, own = tensor.data, types.get(old, tensor.dtype), tensor.quantization
        if dtype != tensor.dtype:
            if payload is not None:
                payload = np.frombuffer(payload, numpy_dtype(tensor.dtype)).astype(numpy_dtype(dtype)).tobytes()
            own = _quantization(operator.code, dtype, old in operator.outputs)
        elif old in operator.outputs and (operator.code, dtype) in OUTPUT_SCALES:
            own = _quantization(operator.code, dtype, True)
        if payload is not None:
            data.append(payload)
        buffer = 0 if payload is None else len(data) - 1
        tensors.append(replace(tensor, index=new[old], dtype=dtype, data=payload, quantization=own, buffer=buffer))
    inputs = [new[old] for old in kept if old in operator.inputs]
    given = tuple(i for i in inputs if tensors[i].data is None and not tensors[i].is_variable)
    outputs = tuple(new[old] for old in operator.outputs)
    moved = replace(
        operator, index=0, opcode_index=0, inputs=tuple(new.get(old, -1) for old in operator.inputs), outputs=outputs
    )
    if operator.code == "CAST":
        names = (("in_data_type", tensors[inputs[0]].dtype.name), ("out_data_type", tensors[outputs[0]].dtype.name))
        moved = replace(moved, options=Options("CastOptions", names))
    own_graph = Graph(0, "main", tuple(tensors), (moved,), given, outputs)
    code = OperatorCode(operator.code, operator.version, operator.custom_code)
    return Model(3, "", (code,), (own_graph,), tuple(data))


def _quantization(code: str, dtype: DType, is_output: bool) -> Quantization | None:
    if dtype not in SCALES:
        return None
    scale, zero_point = (SCALES[dtype], 0) if not is_output else OUTPUT_SCALES.get((code, dtype), (SCALES[dtype], 0))
    return Quantization((scale,), (zero_point,), 0)
