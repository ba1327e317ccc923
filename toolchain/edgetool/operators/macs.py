"""Multiply-accumulate counts, from shapes alone. Padding counts as if it were data, as is customary."""

from __future__ import annotations

from math import prod

from edgetool.model.types import Graph, Operator, Tensor


def tensor_at(operator: Operator, graph: Graph, position: int) -> Tensor | None:
    """The operator's input at a position; None when it is left out or the operator has fewer."""
    if position >= len(operator.inputs) or operator.inputs[position] < 0:
        return None
    return graph.tensors[operator.inputs[position]]


def _shapes(operator: Operator, graph: Graph, *positions: int) -> list[tuple[int, ...]] | None:
    """The shapes of these inputs; None when one is missing."""
    tensors = [tensor_at(operator, graph, position) for position in positions]
    return None if None in tensors else [tensor.shape for tensor in tensors if tensor is not None]


def _outputs(operator: Operator, graph: Graph) -> int:
    return graph.tensors[operator.outputs[0]].element_count if operator.outputs else 0


def convolution(operator: Operator, graph: Graph) -> int:
    """Outputs x window x input channels of a group. CONV_2D filters are [out, h, w, in / groups]."""
    shapes = _shapes(operator, graph, 1)
    return _outputs(operator, graph) * prod(shapes[0][1:]) if shapes else 0


def depthwise_convolution(operator: Operator, graph: Graph) -> int:
    """Outputs x window. DEPTHWISE_CONV_2D filters are [1, h, w, out]."""
    shapes = _shapes(operator, graph, 1)
    return _outputs(operator, graph) * prod(shapes[0][1:-1]) if shapes else 0


def convolution_3d(operator: Operator, graph: Graph) -> int:
    """Outputs x window x input channels. CONV_3D filters are [d, h, w, in, out]."""
    shapes = _shapes(operator, graph, 1)
    return _outputs(operator, graph) * prod(shapes[0][:-1]) if shapes else 0


def transposed_convolution(operator: Operator, graph: Graph) -> int:
    """Inputs x window x output channels. Filters are [out, h, w, in], inputs (shape, filter, data)."""
    shapes = _shapes(operator, graph, 1, 2)
    return prod(shapes[1]) * prod(shapes[0][:-1]) if shapes else 0


def transposed_convolution_3d(operator: Operator, graph: Graph) -> int:
    """Inputs x window x output channels. CONV_3D_TRANSPOSE filters are [d, h, w, out, in]."""
    shapes = _shapes(operator, graph, 1, 2)
    return prod(shapes[1]) * prod(shapes[0][:-1]) if shapes else 0


def fully_connected(operator: Operator, graph: Graph) -> int:
    """Outputs x depth. Filters are [out, depth]."""
    shapes = _shapes(operator, graph, 1)
    return _outputs(operator, graph) * (shapes[0][-1] if shapes[0] else 1) if shapes else 0


def batch_matmul(operator: Operator, graph: Graph) -> int:
    """Outputs x the contracted dimension of the left operand."""
    shapes = _shapes(operator, graph, 0)
    if not shapes or len(shapes[0]) < 2:
        return 0
    transposed = operator.options is not None and bool(operator.options["adj_x"])
    return _outputs(operator, graph) * shapes[0][-2 if transposed else -1]


def svdf(operator: Operator, graph: Graph) -> int:
    """Batch x (feature weights + time weights): each weight is used once per step."""
    shapes = _shapes(operator, graph, 0, 1, 2)
    return prod(shapes[0][:-1]) * (prod(shapes[1]) + prod(shapes[2])) if shapes else 0


def recurrent(operator: Operator, graph: Graph) -> int:
    """Steps x batch x matrix weights: each weight of every gate's matrices is used once per step.

    The data is [steps or batch, batch or steps, features], or [batch, features] for a single step.
    """
    data = tensor_at(operator, graph, 0)
    weights = 0
    for position in range(1, len(operator.inputs)):
        tensor = tensor_at(operator, graph, position)
        if tensor is not None and tensor.is_constant and len(tensor.shape) == 2:
            weights += tensor.element_count
    return prod(data.shape[:-1]) * weights if data is not None else 0
