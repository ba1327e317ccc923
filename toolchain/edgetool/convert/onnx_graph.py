"""Compute an ONNX graph with TensorFlow functions; in the child process only.

Nodes whose inputs are all known are computed once, by ONNX's own reference evaluator: shapes, axes and folded weights.
The others become TensorFlow operations. Images stay in TensorFlow's order, with their channels last, from one
convolution to the next: only an operator that depends on the order of the axes moves the channels back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from edgetool.convert.alternatives import ONNX_OPERATORS
from edgetool.convert.onnx_file import opset_of, place_of
from edgetool.errors import EdgetoolError, UnsupportedModelError
from edgetool.model.scopes import sanitised

Constant: TypeAlias = npt.NDArray[Any]
# Operators of models that ONNX Runtime or another framework has quantized.
QUANTIZED = frozenset(
    "ConvInteger DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearConv QLinearMatMul QuantizeLinear".split()
)
# Nodes whose results are random, or are needed although all their inputs are known.
RANDOM = frozenset(
    ["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)
# Types that are computed in float32.
OTHER_FLOATS = (np.dtype(np.float16), np.dtype(np.float64))
# A constant of more bytes is not computed from others: it would be a bomb.
MAX_CONSTANT_BYTES = 2**28


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor that TensorFlow computes. is_last: whether its axis 1, the channels, was moved to the end."""

    tensor: Any
    is_last: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in ONNX's order."""
        sizes = tuple(int(size) for size in self.tensor.shape)
        return (sizes[0], sizes[-1], *sizes[1:-1]) if self.is_last else sizes

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.tensor.shape)

    def axis(self, axis: int) -> int:
        """Return where an axis of ONNX's order is in `tensor`."""
        axis %= max(self.rank, 1)
        return axis if not self.is_last else (0, self.rank - 1, *range(1, self.rank - 1))[axis]


Operand: TypeAlias = Value | Constant | None


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is being computed: its attributes by name, its inputs, and the number of its outputs.

    opset: the version of the operators. where: names the node in messages.
    """

    kind: str
    attributes: Mapping[str, Any]
    inputs: tuple[Operand, ...]
    outputs: int
    opset: int
    where: str

    def value(self, position: int) -> Value:
        """Return an input that is computed, or a constant as if it were."""
        operand = self.operand(position)
        if operand is None:
            raise UnsupportedModelError(f"has no input {position}", where=self.where, fix="export the model again")
        return operand if isinstance(operand, Value) else Value(operand)

    def operand(self, position: int) -> Operand:
        """Return an input; None if it is absent."""
        return self.inputs[position] if position < len(self.inputs) else None

    def constant(self, position: int, what: str) -> Constant:
        """Return an input that must be known. Raises UnsupportedModelError naming it otherwise."""
        operand = self.operand(position)
        if not isinstance(operand, np.ndarray):
            raise UnsupportedModelError(
                f"computes its {what}, which must be constant", where=self.where, fix="make it a constant of the model"
            )
        return operand

    def integers(self, name: str, position: int) -> list[int] | None:
        """Return integers from an attribute or, in later versions, from an input; None if both are absent."""
        if name in self.attributes:
            return [int(number) for number in np.atleast_1d(self.attributes[name])]
        if self.operand(position) is None:
            return None
        return [int(number) for number in self.constant(position, name).reshape(-1)]

    def refuse(self, what: str, fix: str) -> UnsupportedModelError:
        """Return an error about this node."""
        return UnsupportedModelError(what, where=self.where, fix=fix)


Handler: TypeAlias = Callable[[Any, Node], Sequence[Value]]


class OnnxGraph:
    """A checked ModelProto, whose nodes `run` computes."""

    def __init__(self, tf: Any, onnx: Any, model: Any, path: Path) -> None:
        self._tf, self._onnx, self._model, self._path = tf, onnx, model, path
        self._opset = opset_of(model)
        self.notes: tuple[str, ...] = ()

    def run(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Return the graph's outputs for TensorFlow tensors with a batch of 1.

        Raises UnsupportedModelError naming the node that has no TensorFlow function.
        """
        values: dict[str, Operand] = {name: Value(tensor) for name, tensor in inputs.items()}
        self._compute(self._model.graph, values)
        return [first(self._tf, _as_value(values[output.name])) for output in self._model.graph.output]

    def _compute(self, graph: Any, values: dict[str, Operand]) -> None:
        for tensor in graph.initializer:
            values.setdefault(tensor.name, self._onnx.numpy_helper.to_array(tensor))
        for node in graph.node:
            operands = tuple(values.get(name) if name else None for name in node.input)
            results = self._results(node, operands, values)
            values.update(zip(node.output, results, strict=False))

    def _results(self, node: Any, operands: tuple[Operand, ...], values: dict[str, Operand]) -> Sequence[Operand]:
        from edgetool.convert.onnx_operators import HANDLERS

        where = place_of(node, self._path)
        if node.op_type == "If":
            return self._branch(node, operands, values, where)
        if node.op_type in ("Shape", "Size") and isinstance(operands[0], Value):
            return [self._size(node, operands[0])]
        if node.op_type not in RANDOM and not any(isinstance(operand, Value) for operand in operands):
            return self._folded(node, operands, where)
        if node.op_type in QUANTIZED:
            raise UnsupportedModelError(
                "computes with quantized values, and ONNX models are imported in float only",
                where=where,
                fix="export the model as it was before its quantization; edgetool quantizes it with --calibration",
            )
        handler = HANDLERS.get(node.op_type)
        if handler is None:
            raise UnsupportedModelError(
                "has no equivalent in TensorFlow Lite Micro, or none that edgetool knows",
                where=where,
                fix=ONNX_OPERATORS.get(node.op_type, "replace it in the model before the export"),
            )
        attributes = {item.name: _attribute(self._onnx, item) for item in node.attribute}
        count = sum(1 for name in node.output if name)
        inputs = tuple(in_float32(item) if isinstance(item, np.ndarray) else item for item in operands)
        described = Node(node.op_type, attributes, inputs, count, self._opset, where)
        try:
            with self._scope(node):
                return handler(self._tf, described)
        except (EdgetoolError, MemoryError):
            raise
        except Exception as error:  # TensorFlow and NumPy raise errors of many types for shapes that do not match
            reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise UnsupportedModelError(
                f"cannot be computed by TensorFlow: {reason[:200]}", where=where, fix="check the shapes of its inputs"
            ) from error

    def _scope(self, node: Any) -> AbstractContextManager[Any]:
        scope: AbstractContextManager[Any] = self._tf.name_scope(scope_of(node) or sanitised(node.output[0]))
        return scope

    def _branch(
        self, node: Any, operands: Sequence[Operand], values: Mapping[str, Operand], where: str
    ) -> Sequence[Operand]:
        """Return the results of the branch of an If that is always taken."""
        if not isinstance(operands[0], np.ndarray):
            raise UnsupportedModelError(
                "is control flow: TensorFlow Lite Micro models compute the same operators each time",
                where=where,
                fix="compute both branches and select with Where",
            )
        name = "then_branch" if bool(operands[0].reshape(-1)[0]) else "else_branch"
        graph = next(attribute.g for attribute in node.attribute if attribute.name == name)
        inner = dict(values)
        for key in (tensor.name for tensor in graph.initializer):
            inner.pop(key, None)
        self._compute(graph, inner)
        return [inner[output.name] for output in graph.output]

    def _size(self, node: Any, value: Value) -> Constant:
        shape = np.array(value.shape, np.int64)
        if node.op_type == "Size":
            return np.array(shape.prod())
        bounds = {item.name: item.i for item in node.attribute}
        return shape[slice(bounds.get("start"), bounds.get("end"))]

    def _folded(self, node: Any, operands: Sequence[Operand], where: str) -> Sequence[Operand]:
        """Return the results of a node whose inputs are known."""
        from onnx.reference import ReferenceEvaluator

        names = [f"input_{position}" if operand is not None else "" for position, operand in enumerate(operands)]
        feeds = {name: operand for name, operand in zip(names, operands, strict=True) if name}
        if node.op_type in ("ConstantOfShape", "Expand", "Tile", "Range"):
            _check_expansion(node.op_type, operands, where)
        helper, types = self._onnx.helper, self._onnx.TensorProto
        copy = type(node)()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend(names)
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype), None)
            for name, value in feeds.items()
        ]
        results = [helper.make_tensor_value_info(name, types.UNDEFINED, None) for name in node.output if name]
        graph = helper.make_graph([copy], "constant", infos, results)
        model = helper.make_model(graph, opset_imports=self._model.opset_import)
        try:
            computed = ReferenceEvaluator(model).run(None, feeds)
        except MemoryError:
            raise
        except Exception as error:  # the evaluator is NumPy code without errors of its own
            raise UnsupportedModelError(
                f"cannot be computed from constants: {str(error)[:200]}", where=where, fix="simplify the model"
            ) from error
        return [np.asarray(value) for value in computed]


def _check_expansion(kind: str, operands: Sequence[Operand], where: str) -> None:
    """Raise UnsupportedModelError if a constant would become enormous."""
    numbers = [np.asarray(operand).astype(np.float64) for operand in operands]
    with np.errstate(all="ignore"):
        if kind == "Range":
            count = abs(float(numbers[1] - numbers[0])) / max(abs(float(numbers[2])), 1e-30)
        else:
            count = float(np.prod(numbers[-1])) * (numbers[0].size if kind in ("Tile", "Expand") else 1)
    if not count * 8 <= MAX_CONSTANT_BYTES:
        raise UnsupportedModelError(
            f"creates a constant of {count:.3g} elements", where=where, fix="use a smaller constant"
        )


def scope_of(node: Any) -> str:
    """Return the name of a node as a name scope of TensorFlow: "/block/conv/Conv" -> "block/conv/Conv"."""
    return "/".join(sanitised(part) for part in node.name.split("/") if part)


def _attribute(onnx: Any, item: Any) -> Any:
    value = onnx.helper.get_attribute_value(item)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def in_float32(values: Constant) -> Constant:
    """Return half and double precision as float32, in which everything is computed."""
    return values.astype(np.float32) if values.dtype in OTHER_FLOATS else values


def _as_value(operand: Operand) -> Value:
    assert operand is not None
    return operand if isinstance(operand, Value) else Value(operand)


def first(tf: Any, value: Value) -> Any:
    """Return a tensor in ONNX's order."""
    if not value.is_last:
        return tf.convert_to_tensor(value.tensor)
    return tf.transpose(value.tensor, (0, value.rank - 1, *range(1, value.rank - 1)))


def last(tf: Any, value: Value) -> Any:
    """Return a tensor with its channels last."""
    return value.tensor if value.is_last else tf.transpose(value.tensor, (0, *range(2, value.rank), 1))
