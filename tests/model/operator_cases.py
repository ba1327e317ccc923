"""Operators by their rules: sound ones by name, and each with one rule broken, with the field and the message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from struct import pack
from typing import Any

from edgetool.model.schema import OPTION_TABLES
from edgetool.model.types import DType
from edgetool.model.writer import write_model
from tests.model.builders import Builder, options

# An operand: the shape of an activation (a tuple), the numbers of a constant (a list, or one alone for a scalar), or
# None for one that is left out; pairs of numbers are the rows of a constant.
Given = tuple[int, ...] | list[int] | list[list[int]] | int | None


@dataclass(frozen=True, slots=True)
class Case:
    """One operator and its tensors."""

    code: str
    inputs: Sequence[Given]
    outputs: Sequence[tuple[int, ...]]
    options: Mapping[str, Any] = field(default_factory=dict)
    without_options: bool = False

    def blob(self) -> bytes:
        """The file with this operator alone."""
        build = Builder()
        inputs = [_operand(build, given) for given in self.inputs]
        outputs = [build.tensor(shape) for shape in self.outputs]
        name = OPTION_TABLES.get(self.code)
        given = options(name, **self.options) if name else None
        build.operator(self.code, inputs, outputs, given, custom_code="Own" if self.code == "CUSTOM" else None)
        if self.without_options:
            build.operators[0] = replace(build.operators[0], options=None)
        return write_model(build.model([], []))


def _operand(build: Builder, given: Given) -> int:
    if given is None:
        return -1
    if isinstance(given, tuple):
        return build.tensor(given)
    rows = given if isinstance(given, list) else [given]
    pairs = [row for row in rows if isinstance(row, list)]
    numbers = [number for pair in pairs for number in pair] or rows
    shape = ([len(rows), 2] if pairs else [len(rows)]) if isinstance(given, list) else []
    return build.tensor(shape, DType.INT32, data=pack(f"<{len(numbers)}i", *numbers) or None)


IMAGE, STEPS = (2, 9, 8, 4), {"stride_h": 2, "stride_w": 3}
WINDOW = {**STEPS, "filter_height": 3, "filter_width": 2}
ONE = {"stride_h": 1, "stride_w": 1}

SOUND = {
    "conv": Case("CONV_2D", [IMAGE, (6, 3, 2, 4), (6,)], [(2, 5, 3, 6)], STEPS),
    "conv, valid": Case("CONV_2D", [IMAGE, (6, 3, 2, 4), None], [(2, 4, 3, 6)], {**STEPS, "padding": "VALID"}),
    "conv, dilated": Case(
        "CONV_2D",
        [IMAGE, (6, 3, 2, 4)],
        [(2, 3, 5, 6)],
        {**ONE, "padding": "VALID", "dilation_h_factor": 3, "dilation_w_factor": 3},
    ),
    "conv, groups": Case("CONV_2D", [IMAGE, (6, 3, 2, 2), (6,)], [(2, 5, 3, 6)], STEPS),
    "depthwise": Case(
        "DEPTHWISE_CONV_2D", [IMAGE, (1, 3, 3, 8), (8,)], [(2, 5, 3, 8)], {**STEPS, "depth_multiplier": 2}
    ),
    "transposed": Case("TRANSPOSE_CONV", [[2, 9, 8, 6], (6, 3, 3, 4), (2, 5, 3, 4), (6,)], [(2, 9, 8, 6)], STEPS),
    "transposed, no constant": Case("TRANSPOSE_CONV", [(4,), (6, 3, 3, 4), (2, 5, 3, 4)], [(2, 9, 8, 6)], STEPS),
    "pool": Case("MAX_POOL_2D", [IMAGE], [(2, 4, 3, 4)], {**WINDOW, "padding": "VALID"}),
    "pool, padding of 15 bits": Case(
        "MAX_POOL_2D", [IMAGE], [(2, 5, 3, 4)], {**WINDOW, "padding": "SAME", "filter_width": 65537}
    ),
    "dense": Case("FULLY_CONNECTED", [(2, 3, 8), (5, 8), (5,)], [(2, 3, 5)]),
    "dense, flat": Case("FULLY_CONNECTED", [(2, 3, 8), (5, 24), None], [(2, 5)]),
    "dense, shuffled": Case(
        "FULLY_CONNECTED", [(2, 8), (5, 8)], [(2, 5), (80,)], {"weights_format": "SHUFFLED4x16INT8"}
    ),
    "elementwise": Case("ABS", [(2, 3)], [(3, 2)]),
    "two": Case("ADD", [(2, 1, 4), (3, 1)], [(2, 3, 4)]),
    "two, scalar": Case("MUL", [(), (3, 1)], [(3, 1)]),
    "two, empty": Case("MUL", [(0, 3), (1, 3)], [(0, 3)]),
    "many": Case("ADD_N", [(2, 3)] * 3, [(2, 3)]),
    "slopes": Case("PRELU", [(1, 4, 3), (1, 1, 3)], [(1, 4, 3)]),
    "choice": Case("SELECT_V2", [(3, 1), (3,), (1,)], [(3, 3)]),
    "concatenation": Case("CONCATENATION", [(2, 3), (2, 4)], [(2, 7)], {"axis": -1}),
    "concatenation of scalars": Case("CONCATENATION", [(), ()], [(2,)]),
    "concatenation without options": Case("CONCATENATION", [(2, 3), (4, 3)], [(6, 3)], without_options=True),
    "pack": Case("PACK", [(2, 3)] * 4, [(2, 4, 3)], {"values_count": 4, "axis": 1}),
    "pack, last": Case("PACK", [(2, 3)] * 4, [(2, 3, 4)], {"values_count": 4, "axis": -1}),
    "unpack": Case("UNPACK", [(2, 3)], [(2,)] * 3, {"num": 3, "axis": -1}),
    "split": Case("SPLIT", [1, (2, 6)], [(2, 2)] * 3, {"num_splits": 3}),
    "split, no constant": Case("SPLIT", [(), (2, 6)], [(2, 2)] * 3, {"num_splits": 3}),
    "split by sizes": Case("SPLIT_V", [(2, 6), [4, 2], -1], [(2, 4), (2, 2)], {"num_splits": 2}),
    "split by sizes, no constant": Case("SPLIT_V", [(2, 6), [4, 2], ()], [(2, 4), (2, 2)], {"num_splits": 2}),
    "transpose": Case("TRANSPOSE", [(2, 3), [1, 0]], [(3, 2)]),
    "mean": Case("MEAN", [(2, 3, 4), [0, -1]], [(3,)]),
    "mean, kept": Case("MEAN", [(2, 3, 4), [1]], [(2, 1, 4)], {"keep_dims": True}),
    "mean of a scalar": Case("MEAN", [(), [0]], [()]),
    "mean, no constant": Case("MEAN", [(2, 3, 4), (1,)], [(2, 4)]),
    "greatest": Case("ARG_MAX", [(2, 3), 1], [(2,)]),
    "gather": Case("GATHER", [(4, 5, 6), (4, 7)], [(4, 7, 6)], {"axis": 1, "batch_dims": 1}),
    "slice": Case("SLICE", [(4, 5), [1, 2], [2, -1]], [(2, 3)]),
    "slice, no constant": Case("SLICE", [(4, 5), (2,), [2, -1]], [(2, 3)]),
    "strided slice": Case("STRIDED_SLICE", [(4, 5), [0, 0], [2, 2], [1, 1]], [(2, 2)]),
    "resize": Case("RESIZE_BILINEAR", [(1, 2, 2, 3), [4, 5]], [(1, 4, 5, 3)]),
    "resize, no constant": Case("RESIZE_BILINEAR", [(1, 2, 2, 3), (2,)], [(1, 4, 5, 3)]),
    "pad": Case("PAD", [(2, 3), (2, 2)], [(4, 3)]),
    "mirror": Case("MIRROR_PAD", [(3, 4), [[1, 2], [3, 0]]], [(6, 7)]),
    "mirror, symmetric": Case("MIRROR_PAD", [(2, 4), [[2, 0], [4, 1]]], [(4, 9)], {"mode": "SYMMETRIC"}),
    "mirror, no constant": Case("MIRROR_PAD", [(3, 4), (2, 2)], [(9, 9)]),
    "to batch": Case("SPACE_TO_BATCH_ND", [(2, 3, 4, 5), [3, 2], [[1, 2], [0, 2]]], [(12, 2, 3, 5)]),
    "to batch, one side": Case("SPACE_TO_BATCH_ND", [(2, 4, 5), [2], [[0, 0]]], [(4, 2, 5)]),
    "to batch, no constant": Case("SPACE_TO_BATCH_ND", [(2, 3, 4, 5), (2,), (2, 2)], [(1, 2, 3, 5)]),
    "to space": Case("BATCH_TO_SPACE_ND", [(12, 2, 3, 5), [3, 2], [[1, 2], [0, 2]]], [(2, 3, 4, 5)]),
    "shape of both": Case("BROADCAST_ARGS", [(2,), (4,)], [(4,)]),
    "update": Case("DYNAMIC_UPDATE_SLICE", [(3, 4), (2, 2), [0, 1]], [(3, 4)]),
    "gather points": Case("GATHER_ND", [(3, 4, 5), (2, 7, 2)], [(2, 7, 5)]),
    "gather points, too many numbers": Case("GATHER_ND", [(3,), (7, 2)], [(7,)]),
    "blocks": Case("SPACE_TO_DEPTH", [(1, 4, 4, 1)], [(1, 2, 2, 4)], {"block_size": 2}),
    "reshape": Case("RESHAPE", [(2, 3), [6]], [(6,)]),
    "reshape to a scalar as of old": Case("RESHAPE", [(1, 1)], [(0,)]),
    "shape": Case("SHAPE", [(2, 3, 4)], [(3,)]),
    "product": Case("BATCH_MATMUL", [(2, 3), (3, 4)], [(2, 4)]),
    "while": Case("WHILE", [(1,), (2,)], [(1,), (2,)], without_options=True),
    "if": Case("IF", [(1,), (2,)], [(2,)], without_options=True),
    "custom": Case("CUSTOM", [None, (1,)], []),
}


def broken(name: str, field: str, message: str, **changes: Any) -> tuple[Case, str, str]:
    """A sound case with one thing wrong, the field that is named, and what is said of it."""
    case = SOUND[name]
    if "options" in changes:
        changes["options"] = {**case.options, **changes["options"]}
    for side in ("inputs", "outputs"):
        for position, shape in changes.pop(side, {}).items():
            operands = list(changes.get(f"all_{side}", getattr(case, side)))
            operands[position] = shape
            changes[f"all_{side}"] = operands
    changes = {name.removeprefix("all_"): value for name, value in changes.items()}
    return replace(case, **changes), field, message


BROKEN = {
    "conv, input's rank": broken("conv", "inputs", "input 0 with 3 dimensions instead of 4", inputs={0: (9, 8, 4)}),
    "conv, filter's rank": broken(
        "conv", "inputs", "input 1 with 5 dimensions instead of 4", inputs={1: (6, 3, 2, 4, 1)}
    ),
    "conv, empty input": broken("conv", "inputs", "which is empty", inputs={0: (2, 0, 8, 4)}),
    "conv, empty filter": broken("conv", "inputs", "which is empty", inputs={1: (6, 3, 2, 0)}),
    "conv, padding": broken("conv", "padding", "padding 77, which is not a valid value", options={"padding": 77}),
    "conv, no stride": broken("conv", "stride_w", "stride_w 0, not 1 to 32767", options={"stride_w": 0}),
    "conv, stride of 16 bits": broken("conv", "stride_h", "stride_h 32768", options={"stride_h": 32768}),
    "conv, no dilation": broken("conv", "dilation_h_factor", "dilation_h_factor 0", options={"dilation_h_factor": 0}),
    "conv, dilation": broken("conv", "dilation_w_factor", "not 1 to 32767", options={"dilation_w_factor": 40000}),
    "conv, no options": broken("conv", "builtin_options", "has no Conv2DOptions", without_options=True),
    "conv, channels": broken("conv", "inputs", "4 channels for filters", inputs={1: (6, 3, 2, 3)}),
    "conv, more channels than the input": broken("conv", "inputs", "4 channels for filters", inputs={1: (6, 3, 2, 8)}),
    "conv, groups": broken("conv, groups", "inputs", "channels for filters", inputs={1: (7, 3, 2, 2), 2: (7,)}),
    "conv, bias": broken("conv", "inputs", r"of shape \[7\], which does not have 6 elements", inputs={2: (7,)}),
    "conv, batch": broken("conv", "outputs", r"produce \[2, 5, 3, 6\]", outputs={0: (1, 5, 3, 6)}),
    "conv, height": broken("conv", "outputs", r"produce \[2, 5, 3, 6\]", outputs={0: (2, 4, 3, 6)}),
    "conv, width": broken("conv", "outputs", r"produce \[2, 5, 3, 6\]", outputs={0: (2, 5, 4, 6)}),
    "conv, filters": broken("conv", "outputs", r"produce \[2, 5, 3, 6\]", outputs={0: (2, 5, 3, 5)}),
    "conv, output's rank": broken("conv", "outputs", r"produce \[2, 5, 3, 6\]", outputs={0: (2, 5, 18)}),
    "conv, valid": broken("conv, valid", "outputs", r"produce \[2, 4, 3, 6\]", outputs={0: (2, 5, 3, 6)}),
    "conv, window beyond the image": broken(
        "conv, valid", "outputs", r"produce \[2, 0, 3, 6\]", inputs={1: (6, 12, 2, 4)}
    ),
    "conv, dilated": broken("conv, dilated", "outputs", r"produce \[2, 3, 5, 6\]", outputs={0: (2, 5, 5, 6)}),
    "depthwise, input's rank": broken("depthwise", "inputs", "input 0 with 3 dim", inputs={0: (9, 8, 4)}),
    "depthwise, filter's rank": broken("depthwise", "inputs", "input 1 with 3 dim", inputs={1: (3, 3, 8)}),
    "depthwise, empty filter": broken("depthwise", "inputs", "is empty", inputs={1: (1, 0, 3, 8)}),
    "depthwise, padding": broken("depthwise", "padding", "is not a valid value", options={"padding": 2}),
    "depthwise, stride": broken("depthwise", "stride_w", "not 1 to 32767", options={"stride_w": 0}),
    "depthwise, dilation": broken("depthwise", "dilation_w_factor", "not 1 to", options={"dilation_w_factor": 0}),
    "depthwise, filters": broken("depthwise", "inputs", "2 filters, not 1", inputs={1: (2, 3, 3, 8)}),
    "depthwise, multiplier": broken("depthwise", "depth_multiplier", "3 for 4", options={"depth_multiplier": 3}),
    "depthwise, bias": broken("depthwise", "inputs", "does not have 8 elements", inputs={2: (4,)}),
    "depthwise, output": broken("depthwise", "outputs", r"produce \[2, 5, 3, 8\]", outputs={0: (2, 5, 3, 4)}),
    "transposed, shape's rank": broken("transposed", "inputs", "input 0 with 2 dim", inputs={0: (1, 4)}),
    "transposed, filter's rank": broken("transposed", "inputs", "input 1 with 3 dim", inputs={1: (6, 3, 4)}),
    "transposed, input's rank": broken("transposed", "inputs", "input 2 with 3 dim", inputs={2: (5, 3, 4)}),
    "transposed, empty filter": broken("transposed", "inputs", "is empty", inputs={1: (6, 3, 0, 4)}),
    "transposed, padding": broken("transposed", "padding", "is not a valid value", options={"padding": -1}),
    "transposed, stride": broken("transposed", "stride_h", "not 1 to 32767", options={"stride_h": -2}),
    "transposed, bias": broken("transposed", "inputs", "does not have 6 elements", inputs={3: (7,)}),
    "transposed, channels": broken("transposed", "inputs", "4 channels for", inputs={1: (6, 3, 3, 5)}),
    "transposed, shape": broken("transposed", "inputs", "but the output's shape", inputs={0: [2, 9, 7, 6]}),
    "transposed, output's size": broken(
        "transposed, no constant", "outputs", "do not produce", outputs={0: (2, 11, 8, 6)}
    ),
    "transposed, output's batch": broken(
        "transposed, no constant", "outputs", "do not produce", outputs={0: (1, 9, 8, 6)}
    ),
    "transposed, output's channels": broken(
        "transposed, no constant", "outputs", "do not produce", outputs={0: (2, 9, 8, 4)}
    ),
    "transposed, output's rank": broken(
        "transposed, no constant", "outputs", "do not produce", outputs={0: (2, 9, 48)}
    ),
    "pool, rank": broken("pool", "inputs", "input 0 with 3 dim", inputs={0: (9, 8, 4)}),
    "pool, padding": broken("pool", "padding", "is not a valid value", options={"padding": 9}),
    "pool, stride": broken("pool", "stride_w", "not 1 or more", options={"stride_w": 0}),
    "pool, window": broken("pool", "filter_height", "not 1 or more", options={"filter_height": 0}),
    "pool, padding of 16 bits": broken(
        "pool",
        "padding",
        "elements of padding",
        outputs={0: (2, 5, 3, 4)},
        options={"padding": "SAME", "filter_height": 65539},
    ),
    "pool, output": broken("pool", "outputs", r"produce \[2, 4, 3, 4\]", outputs={0: (2, 4, 3, 5)}),
    "dense, weights' rank": broken("dense", "inputs", "input 1 with 3 dim", inputs={1: (5, 8, 1)}),
    "dense, empty weights": broken("dense", "inputs", "is empty", inputs={1: (5, 0)}),
    "dense, format": broken("dense", "weights_format", "weights_format 9", options={"weights_format": 9}),
    "dense, bias": broken("dense", "inputs", "does not have 5 elements", inputs={2: (4,)}),
    "dense, depth": broken("dense", "inputs", "48 elements for weights", inputs={1: (5, 7)}),
    "dense, output": broken("dense", "outputs", "produce 30 elements", outputs={0: (2, 5)}),
    "dense, one output": broken("dense", "outputs", "2 outputs, not 1", all_outputs=[(2, 3, 5), (1,)]),
    "dense, shuffled": broken("dense, shuffled", "outputs", "1 outputs, not 2", all_outputs=[(2, 5)]),
    "elementwise": broken("elementwise", "outputs", "produce 6 elements", outputs={0: (5,)}),
    "two, inputs": broken("two", "inputs", "incompatible shapes", inputs={1: (2, 3)}),
    "two, output": broken("two", "outputs", "produce 24 elements", outputs={0: (2, 1, 4)}),
    "many, shapes": broken("many", "inputs", "input 2 of shape", inputs={2: (3, 2)}),
    "many, output": broken("many", "outputs", "produce 6 elements", outputs={0: (2, 2)}),
    "slopes": broken("slopes", "outputs", "produce 12 elements", inputs={1: (2, 1, 1)}, outputs={0: (2, 4, 3)}),
    "slopes, inputs": broken("slopes", "inputs", "incompatible shapes", inputs={1: (1, 1, 2)}),
    "choice": broken("choice", "inputs", "incompatible shapes", inputs={2: (2,)}),
    "concatenation, axis": broken("concatenation", "axis", "uses axis 2, but there are only 2", options={"axis": 2}),
    "concatenation, negative axis": broken(
        "concatenation", "axis", "uses axis -3, but there are only 2", options={"axis": -3}
    ),
    "concatenation, rank": broken("concatenation", "inputs", "input 1 of shape", inputs={1: (2, 4, 1)}),
    "concatenation, fewer dimensions": broken("concatenation", "inputs", "input 1 of shape", inputs={1: (2,)}),
    "concatenation, sides": broken("concatenation", "inputs", "input 1 of shape", inputs={1: (3, 4)}),
    "concatenation, output": broken("concatenation", "outputs", r"produce \[2, 7\]", outputs={0: (2, 8)}),
    "pack, count": broken("pack", "values_count", "values_count 3 and 4 inputs", options={"values_count": 3}),
    "pack, no options": broken("pack", "builtin_options", "has no PackOptions", without_options=True),
    "pack, axis": broken("pack", "axis", "uses axis 3, but there are only 3", options={"axis": 3}),
    "pack, shapes": broken("pack", "inputs", "input 3 of shape", inputs={3: (3, 2)}),
    "pack, output": broken("pack", "outputs", r"produce \[2, 4, 3\]", outputs={0: (4, 2, 3)}),
    "unpack, count": broken("unpack", "num", "num 2 and 3 outputs", options={"num": 2}),
    "unpack, axis": broken("unpack", "axis", "uses axis 2, but there are only 2", options={"axis": 2}),
    "unpack, size": broken("unpack", "outputs", "3 outputs for dimension 0", options={"axis": 0}),
    "unpack, output": broken("unpack", "outputs", "output 2 of shape", outputs={2: (3,)}),
    "split, count": broken("split", "num_splits", "num_splits 2 and 3 outputs", options={"num_splits": 2}),
    "split, axis": broken("split", "inputs", "axis 2, but there are only 2", inputs={0: 2}),
    "split, scalar": broken("split", "inputs", "input 1 with 0 dim", inputs={1: ()}),
    "split, parts": broken("split", "outputs", "3 outputs, which do not divide dimension 0", inputs={0: 0}),
    "split, output": broken("split", "outputs", "output 1 of shape", outputs={1: (2, 3)}),
    "split by sizes, count": broken("split by sizes", "num_splits", "and 2 outputs", options={"num_splits": 1}),
    "split by sizes, axis": broken("split by sizes", "inputs", "axis -3", inputs={2: -3}),
    "split by sizes, scalar": broken("split by sizes", "inputs", "input 0 with 0 dim", inputs={0: ()}),
    "split by sizes, output": broken("split by sizes", "outputs", "output 1 of shape", outputs={1: (1, 2)}),
    "split by sizes, rank": broken("split by sizes", "outputs", "output 0 of shape", outputs={0: (2, 4, 1)}),
    "split by sizes, fewer dimensions": broken("split by sizes", "outputs", "output 0 of shape", outputs={0: (2,)}),
    "split by sizes, sum": broken("split by sizes", "outputs", "sizes do not add up", outputs={1: (2, 3)}),
    "transpose, axes": broken("transpose", "inputs", "does not have 2 elements", inputs={1: [1, 0, 2]}),
    "transpose, axis": broken("transpose", "inputs", "axis 2", inputs={1: [2, 0]}),
    "transpose, output": broken("transpose", "outputs", "produce 6 elements", outputs={0: (3, 3)}),
    "mean, axis": broken("mean", "inputs", "axis 3, but there are only 3", inputs={1: [3]}),
    "mean, output": broken("mean", "outputs", "produce 3 elements", outputs={0: (2,)}),
    "mean of a scalar": broken("mean of a scalar", "outputs", "produce 1 elements", outputs={0: (2,)}),
    "greatest, axes": broken("greatest", "inputs", "does not have 1 element", inputs={1: [0, 1]}),
    "greatest of a scalar": broken("greatest", "inputs", "with 0 dimensions", inputs={0: ()}),
    "greatest, axis": broken("greatest", "inputs", "axis -3", inputs={1: -3}),
    "greatest, output": broken("greatest", "outputs", "produce 2 elements", outputs={0: (3,)}),
    "greatest, empty axis": broken("greatest", "inputs", "reduces axis 1 of", inputs={0: (2, 0)}),
    "gather, axis": broken("gather", "axis", "uses axis 3, but there are only 3", options={"axis": 3}),
    "gather, output": broken("gather", "outputs", "produce 168 elements", outputs={0: (4, 7, 5)}),
    "slice, beginnings": broken("slice", "inputs", "input 1 of shape", inputs={1: [1]}),
    "slice, sizes": broken("slice", "inputs", "input 2 of shape", inputs={2: [1, 1, 1]}),
    "slice, beginning": broken("slice", "inputs", "2 elements from -1 in a dimension", inputs={1: [-1, 2]}),
    "slice, beginning past the end": broken("slice", "inputs", "-1 elements from 6 in a dimension", inputs={1: [1, 6]}),
    "slice, end": broken("slice", "inputs", "4 elements from 1 in a dimension of size 4", inputs={2: [4, -1]}),
    "slice, size": broken("slice", "inputs", "-2 elements from 1 in a dimension", inputs={2: [-2, 1]}),
    "slice, output": broken("slice", "outputs", "produce 6 elements", outputs={0: (2, 2)}),
    "strided slice, beginnings": broken("strided slice", "inputs", "input 1 with 0 dim", inputs={1: 0}),
    "strided slice, ends": broken("strided slice", "inputs", "input 2 with 2 dim", inputs={2: (1, 2)}),
    "strided slice, strides": broken("strided slice", "inputs", "input 3 with 2 dim", inputs={3: (1, 2)}),
    "strided slice, more ends": broken("strided slice", "inputs", "input 2 of shape", inputs={2: [2, 2, 2]}),
    "strided slice, fewer strides": broken("strided slice", "inputs", "input 3 of shape", inputs={3: [1]}),
    "resize, rank": broken("resize", "inputs", "input 0 with 3 dim", inputs={0: (2, 2, 3)}),
    "resize, size's rank": broken("resize", "inputs", "input 1 with 0 dim", inputs={1: 4}),
    "resize, size": broken("resize", "inputs", "does not have 2 elements", inputs={1: [4, 5, 6]}),
    "resize, output": broken("resize", "outputs", r"produce \[1, 4, 5, 3\]", outputs={0: (1, 5, 4, 3)}),
    "pad, pairs": broken("pad", "inputs", "for each of 2 dimensions", inputs={1: (3, 2)}),
    "resize, empty": broken("resize", "inputs", "is empty", inputs={0: (1, 2, 0, 3)}),
    "mirror, pairs": broken("mirror", "inputs", "for each of 2 dimensions", inputs={1: [[1, 2]]}),
    "mirror, negative": broken("mirror", "inputs", "padding of -1 before and 2", inputs={1: [[-1, 2], [3, 0]]}),
    "mirror, more than the image": broken("mirror", "inputs", "1 before and 3 after", inputs={1: [[1, 3], [3, 0]]}),
    "mirror, of a table's default": broken(
        "mirror", "inputs", "after a dimension of size 3", inputs={1: [[3, 0], [3, 0]]}, without_options=True
    ),
    "mirror, more with the edge": broken(
        "mirror, symmetric", "inputs", "3 before and 0 after", inputs={1: [[3, 0], [4, 1]]}
    ),
    "mirror, output": broken("mirror", "outputs", r"produce \[6, 7\]", outputs={0: (7, 6)}),
    "to batch, rank": broken("to batch", "inputs", "instead of 3 to 4", inputs={0: (2, 3, 4, 5, 1)}),
    "to batch, blocks": broken("to batch", "inputs", "does not have 2 elements", inputs={1: [3]}),
    "to batch, border": broken("to batch", "inputs", "does not have 4 elements", inputs={2: [[1, 2]]}),
    "to batch, no block": broken("to batch", "inputs", r"blocks of \[3, 0\]", inputs={1: [3, 0]}),
    "to batch, negative border": broken("to batch", "inputs", "padding of", inputs={2: [[1, 2], [0, -2]]}),
    "to batch, rest": broken("to batch", "inputs", "do not divide evenly", inputs={2: [[1, 2], [0, 1]]}),
    "to batch, output": broken("to batch", "outputs", r"produce \[12, 2, 3, 5\]", outputs={0: (12, 3, 2, 5)}),
    "to batch, channels": broken("to batch, no constant", "outputs", "for inputs of", outputs={0: (1, 2, 3, 4)}),
    "to batch, output's rank": broken("to batch, no constant", "outputs", "for inputs of", outputs={0: (6, 5)}),
    "to space, rest": broken("to space", "inputs", "do not divide evenly", inputs={0: (11, 2, 3, 5)}),
    "to space, output": broken("to space", "outputs", r"produce \[2, 3, 4, 5\]", outputs={0: (1, 3, 4, 5)}),
    "shape of both": broken("shape of both", "outputs", "does not have 4 elements", outputs={0: (2,)}),
    "update": broken("update", "outputs", "produce 12 elements", outputs={0: (2, 2)}),
    "gather points": broken("gather points", "outputs", "produce 70 elements", outputs={0: (2, 7)}),
    "blocks, rank": broken("blocks", "inputs", "input 0 with 3 dim", inputs={0: (4, 4, 1)}),
    "blocks, size": broken("blocks", "block_size", "block_size 0, not 1 or more", options={"block_size": 0}),
    "blocks, output": broken("blocks", "outputs", "produce 16 elements", outputs={0: (1, 2, 2, 3)}),
    "reshape": broken("reshape", "outputs", "produce 6 elements", outputs={0: (7,)}),
    "reshape, (0) with a shape": broken("reshape", "outputs", "produce 6 elements", outputs={0: (0,)}),
    "shape": broken("shape", "outputs", "produce 3 elements", outputs={0: (2,)}),
    "product, left": broken("product", "inputs", "input 0 with 1 dimension instead of 2 to 5", inputs={0: (3,)}),
    "product, right": broken("product", "inputs", "input 1 with 6 dim", inputs={1: (1, 1, 1, 1, 3, 4)}),
    "while": broken("while", "outputs", "1 outputs for 2 inputs", all_outputs=[(1,)]),
    "while, left out": broken("while", "inputs", "lacks its required input 1", inputs={1: None}),
}
