"""1x1 convolutions that compute one pixel after another, so that their outputs may overlap their inputs.

CMSIS-NN without MVE computes a 1x1 convolution as a product of matrices: two channels of all pixels, then the next two.
Until the end, it reads all of the input. A convolution with a dilation, which has no effect on a filter of one pixel,
runs as any larger one instead: pixel by pixel, with the same sums and the same rounding (arm_convolve_wrapper_s8). It
takes more instructions, because the inputs of each pixel are copied.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from edgetool.model.types import Graph, Model, Operator

DILATION = "dilation_w_factor"
IN_PIXEL_ORDER = 2  # like any other than 1


def pointwise(graph: Graph) -> frozenset[int]:
    """Return the convolutions with filters of one pixel, by index."""
    return frozenset(operator.index for operator in graph.operators if _is_pointwise(graph, operator))


def in_pixel_order(graph: Graph) -> frozenset[int]:
    """Return those with a dilation."""
    return frozenset(index for index in pointwise(graph) if _is_dilated(graph.operators[index]))


def with_pixel_order(model: Model, operators: Collection[int], *, enabled: bool = True) -> Model:
    """Return the model with these 1x1 convolutions of the main graph, by index, in pixel order, or not."""
    made = tuple(
        _dilated(item, IN_PIXEL_ORDER if enabled else 1) if item.index in operators else item
        for item in model.main.operators
    )
    return replace(model, subgraphs=(replace(model.main, operators=made), *model.subgraphs[1:]))


def _is_pointwise(graph: Graph, operator: Operator) -> bool:
    return (
        operator.code == "CONV_2D"
        and operator.options is not None
        and graph.tensors[operator.inputs[1]].shape[1:3] == (1, 1)
    )


def _is_dilated(operator: Operator) -> bool:
    assert operator.options is not None
    return operator.options.integer(DILATION) != 1


def _dilated(operator: Operator, factor: int) -> Operator:
    assert operator.options is not None
    fields = tuple((name, factor if name == DILATION else value) for name, value in operator.options.fields)
    return replace(operator, options=replace(operator.options, fields=fields))
