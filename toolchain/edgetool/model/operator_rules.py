"""The rules of each operator: how many tensors it has, and what their types, shapes and its options must agree on.

They are those for which LiteRT refuses a file and without which a kernel of TensorFlow Lite Micro, which looks at none
of it, would read or write beyond its tensors. What a kernel refuses by itself, and what it merely does not know (types,
scales), is a finding of the rooms below, not damage to the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgetool.model.checks import MAX_DIMENSIONS
from edgetool.model.operator_checks import (
    MAX_STEP,
    Node,
    Operand,
    Rule,
    as_many,
    axes_input,
    axis_option,
    broadcast,
    dimension,
    filled,
    first_positions,
    length,
    named,
    number_of,
    positive,
    rank,
    sizes,
)
from edgetool.model.operator_shapes import (
    blocks_moved,
    concatenated,
    convolved,
    depthwise,
    found,
    gathered,
    gathered_points,
    in_groups,
    mirrored,
    multiplied,
    packed,
    pooled,
    reduced,
    reshaped,
    resized,
    shape_told,
    sliced,
    split,
    split_by_sizes,
    transposed_convolution,
    unpacked,
)

# An operator, its numbers of inputs and of outputs: N, N-M or N+. Inputs beyond the least number may be left out (-1).
_COUNTS = """
ABS 1 1, ADD_N 2+ 1, ADD 2 1, ARG_MAX 2 1, ARG_MIN 2 1, ASSIGN_VARIABLE 2 0, ATAN2 2 1, AVERAGE_POOL_2D 1 1,
BATCH_MATMUL 2 1, BATCH_TO_SPACE_ND 3 1, BIDIRECTIONAL_SEQUENCE_LSTM 48 1-2, BIDIRECTIONAL_SEQUENCE_RNN 12 1-2,
BITCAST 1 1, BITWISE_XOR 2 1, BROADCAST_ARGS 2 1, BROADCAST_TO 2 1, BUCKETIZE 1 1, CALL_ONCE 0 0, CAST 1 1, CEIL 1 1,
COMPLEX_ABS 1 1, CONCATENATION 1+ 1, CONV_2D 2-3 1, CONV_3D_TRANSPOSE 3-4 1, CONV_3D 2-3 1, COS 1 1, CUMSUM 2 1,
DENSIFY 1 1, DEPTHWISE_CONV_2D 2-3 1, DEPTH_TO_SPACE 1 1, DEQUANTIZE 1 1, DILATE 3 1, DIV 2 1,
DYNAMIC_UPDATE_SLICE 3 1, ELU 1 1, EMBEDDING_LOOKUP 2 1, EQUAL 2 1, EXPAND_DIMS 2 1, EXP 1 1, FAKE_QUANT 1 1,
FILL 2 1, FLOOR_DIV 2 1, FLOOR_MOD 2 1, FLOOR 1 1, FULLY_CONNECTED 2-3 1-2, GATHER_ND 2 1, GATHER 2 1, GELU 1 1,
GREATER_EQUAL 2 1, GREATER 2 1, HARD_SWISH 1 1, IF 1+ 0+, IMAG 1 1, L2_NORMALIZATION 1 1, L2_POOL_2D 1 1,
LEAKY_RELU 1 1, LESS_EQUAL 2 1, LESS 2 1, LOCAL_RESPONSE_NORMALIZATION 1 1, LOGICAL_AND 2 1, LOGICAL_NOT 1 1,
LOGICAL_OR 2 1, LOGISTIC 1 1, LOG_SOFTMAX 1 1, LOG 1 1, LSTM 5-24 1-4, MATRIX_DIAG 1 1, MATRIX_SET_DIAG 2 1,
MAXIMUM 2 1, MAX_POOL_2D 1 1, MEAN 2 1, MINIMUM 2 1, MIRROR_PAD 2 1, MULTINOMIAL 2 1, MUL 2 1, NEG 1 1,
NON_MAX_SUPPRESSION_V4 5 2, NON_MAX_SUPPRESSION_V5 6 3, NOT_EQUAL 2 1, ONE_HOT 4 1, PACK 1+ 1, PADV2 2-3 1, PAD 2-3 1,
POW 2 1, PRELU 2 1, QUANTIZE 1 1, RANDOM_STANDARD_NORMAL 1 1, RANDOM_UNIFORM 1 1, RANGE 3 1, RANK 1 1,
READ_VARIABLE 1 1, REAL 1 1, REDUCE_ALL 2 1, REDUCE_ANY 2 1, REDUCE_MAX 2 1, REDUCE_MIN 2 1, REDUCE_PROD 2 1,
RELU6 1 1, RELU_0_TO_1 1 1, RELU_N1_TO_1 1 1, RELU 1 1, RESHAPE 1-2 1, RESIZE_BILINEAR 2 1,
RESIZE_NEAREST_NEIGHBOR 2 1, REVERSE_SEQUENCE 2 1, REVERSE_V2 2 1, RFFT2D 2 1, RIGHT_SHIFT 2 1, RNN 5 1, ROUND 1 1,
RSQRT 1 1, SCATTER_ND 3 1, SEGMENT_SUM 2 1, SELECT_V2 3 1, SELECT 3 1, SHAPE 1 1, SIGN 1 1, SIN 1 1, SLICE 3 1,
SOFTMAX 1 1, SPACE_TO_BATCH_ND 3 1, SPACE_TO_DEPTH 1 1, SPARSE_TO_DENSE 4 1, SPLIT_V 3 1+, SPLIT 2 1+, SQRT 1 1,
SQUARED_DIFFERENCE 2 1, SQUARE 1 1, SQUEEZE 1 1, STRIDED_SLICE 4 1, SUB 2 1, SUM 2 1, SVDF 5 1, TANH 1 1, TILE 2 1,
TOPK_V2 2 2, TRANSPOSE_CONV 3-4 1, TRANSPOSE 2 1, UNIDIRECTIONAL_SEQUENCE_LSTM 20-24 1,
UNIDIRECTIONAL_SEQUENCE_RNN 5 1, UNIQUE 1 2, UNPACK 1 1+, UNSORTED_SEGMENT_MAX 3 1, UNSORTED_SEGMENT_MIN 3 1,
UNSORTED_SEGMENT_PROD 3 1, UNSORTED_SEGMENT_SUM 3 1, VAR_HANDLE 0 1, WHERE 1 1, WHILE 0+ 0+, ZEROS_LIKE 1 1
"""

# Operators that do without some of their first inputs: peepholes, projections, auxiliary inputs, biases.
_WITH_GAPS = frozenset(
    "BIDIRECTIONAL_SEQUENCE_LSTM BIDIRECTIONAL_SEQUENCE_RNN LSTM SVDF UNIDIRECTIONAL_SEQUENCE_LSTM".split()
)

# Operators whose output is another number of rows than their input: a batch that is unknown on both sides is not one.
_OTHER_ROWS = frozenset(
    """
    BATCH_TO_SPACE_ND CONCATENATION MIRROR_PAD PAD PADV2 RESHAPE SEGMENT_SUM SLICE SPACE_TO_BATCH_ND SPLIT SPLIT_V
    STRIDED_SLICE TILE UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM
    """.split()
)


@dataclass(frozen=True, slots=True)
class Counts:
    """How many inputs and outputs: the least and the most. needed: how many of the first inputs are there."""

    inputs: tuple[int, int]
    outputs: tuple[int, int]
    needed: int


def _span(text: str) -> tuple[int, int]:
    if text.endswith("+"):
        return int(text[:-1]), 2**31
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def _counts() -> Iterator[tuple[str, Counts]]:
    for line in _COUNTS.replace("\n", " ").split(","):
        code, inputs, outputs = line.split()
        span = _span(inputs)
        needed = 0 if code in _WITH_GAPS else span[1] if inputs.endswith("+") else span[0]
        yield code, Counts(span, _span(outputs), needed)


COUNTS = dict(_counts())

X, Y, Z, FOURTH = (Operand("input", position) for position in range(4))
OUT = Operand("output", 0)


def _all_alike(node: Node) -> None:
    """The inputs are of one shape."""
    first = node.inputs[0]
    for position in first_positions(node, "inputs").values():
        tensor = node.inputs[position]
        if tensor is not None and first is not None and tensor.shape != first.shape:
            Operand("input", position).refuse(
                node, f"of shape {sizes(tensor.shape)}, but input 0 has {sizes(first.shape)}"
            )


def _pairs_of_dimensions(node: Node) -> None:
    """Two numbers for each dimension of the first input."""
    source, pairs = X.of(node), Y.of(node)
    if source is not None and pairs is not None and pairs.shape != (len(source.shape), 2):
        Y.refuse(node, f"of shape {sizes(pairs.shape)}, not 2 numbers for each of {len(source.shape)} dimensions")


def _state_for_state(node: Node) -> None:
    """As many outputs as inputs."""
    if len(node.inputs) != len(node.outputs):
        node.refuse("outputs", f"has {len(node.outputs)} outputs for {len(node.inputs)} inputs")


def _as_its_format_has_it(node: Node) -> None:
    """FULLY_CONNECTED: a second output for shuffled weights only."""
    shuffled = node.options is not None and node.options["weights_format"] == "SHUFFLED4x16INT8"
    if len(node.outputs) != 1 + shuffled:
        node.refuse("outputs", f"has {len(node.outputs)} outputs, not {1 + shuffled}")


def _rank_many(node: Node) -> int:
    source = X.of(node)
    return len(source.shape) if source is not None else 0


def _sides(node: Node) -> int:
    """Those between the batch and the channels."""
    return _rank_many(node) - 2


def _longer_shape(node: Node) -> int:
    """The rank of what two shapes are broadcast to."""
    return max(tensor.element_count for tensor in node.inputs if tensor is not None)


_BLOCKS = (as_many(X), rank(X, 4), positive("block_size"))
_STRIDES = positive("stride_w", "stride_h", highest=MAX_STEP)
_DILATIONS = positive("dilation_w_factor", "dilation_h_factor", highest=MAX_STEP)
_FILTERED = (rank(X, 4), rank(Y, 4), filled(X, Y), named("padding"), _STRIDES, _DILATIONS)
_SIZES = positive("stride_w", "stride_h", "filter_width", "filter_height")
_POOLED = (rank(X, 4), named("padding"), _SIZES, pooled)
_REDUCED = (axes_input(Y, X), reduced)
_RESIZED = (rank(X, 4), filled(X), rank(Y, 1), length(Y, lambda _: 2), resized)
_MOVED = (rank(X, 3, 4), length(Y, _sides), length(Z, lambda node: 2 * _sides(node)), blocks_moved)
_FOUND = (rank(X, 1, MAX_DIMENSIONS), length(Y, lambda _: 1), axes_input(Y, X), found)

# Operators that share their rules.
_SHARED: dict[str, tuple[Rule, ...]] = {
    """
    ABS CAST CEIL COS CUMSUM DEQUANTIZE ELU EXP EXPAND_DIMS FLOOR GELU HARD_SWISH L2_NORMALIZATION LEAKY_RELU LOG
    LOGICAL_NOT LOGISTIC LOG_SOFTMAX NEG QUANTIZE RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 REVERSE_SEQUENCE REVERSE_V2 ROUND
    RSQRT SIGN SIN SOFTMAX SQRT SQUARE SQUEEZE TANH ZEROS_LIKE
    """: (as_many(X),),
    """
    ADD ATAN2 BITWISE_XOR DIV EQUAL FLOOR_DIV FLOOR_MOD GREATER GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND LOGICAL_OR
    MAXIMUM MINIMUM MUL NOT_EQUAL POW RIGHT_SHIFT SQUARED_DIFFERENCE SUB
    """: (broadcast(X, Y),),
    "ARG_MAX ARG_MIN": _FOUND,
    "AVERAGE_POOL_2D L2_POOL_2D MAX_POOL_2D": _POOLED,
    "DEPTH_TO_SPACE SPACE_TO_DEPTH": _BLOCKS,
    "MEAN REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD SUM": _REDUCED,
    "BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND": _MOVED,
    "PAD PADV2": (_pairs_of_dimensions,),
    "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR": _RESIZED,
}

RULES: dict[str, tuple[Rule, ...]] = {
    **{code: rules for codes, rules in _SHARED.items() for code in codes.split()},
    "ADD_N": (_all_alike, as_many(X)),
    "BATCH_MATMUL": (rank(X, 2, 5), rank(Y, 2, 5)),
    "BROADCAST_ARGS": (length(OUT, _longer_shape),),
    "CONCATENATION": (concatenated,),
    "CONV_2D": (*_FILTERED, in_groups, length(Z, dimension(Y, 0)), convolved),
    "DEPTHWISE_CONV_2D": (*_FILTERED, depthwise, length(Z, dimension(Y, 3)), convolved),
    "DYNAMIC_UPDATE_SLICE": (as_many(X),),
    "FULLY_CONNECTED": (
        named("weights_format"),
        _as_its_format_has_it,
        rank(Y, 2),
        filled(Y),
        length(Z, dimension(Y, 0)),
        multiplied,
    ),
    "GATHER": (axis_option("axis", X), gathered),
    "GATHER_ND": (gathered_points,),
    "MIRROR_PAD": (_pairs_of_dimensions, mirrored),
    "PACK": (number_of("inputs", "values_count"), axis_option("axis", X, extra=1), _all_alike, packed),
    "PRELU": (broadcast(X, Y), as_many(X)),
    "RESHAPE": (reshaped,),
    "SELECT_V2": (broadcast(X, Y, Z),),
    "SHAPE": (shape_told,),
    "SLICE": (length(Y, _rank_many), length(Z, _rank_many), sliced),
    "SPLIT": (number_of("outputs", "num_splits"), rank(Y, 1, MAX_DIMENSIONS), axes_input(X, Y), split),
    "SPLIT_V": (number_of("outputs", "num_splits"), rank(X, 1, MAX_DIMENSIONS), axes_input(Z, X), split_by_sizes),
    "STRIDED_SLICE": (
        rank(Y, 1),
        rank(Z, 1),
        rank(FOURTH, 1),
        length(Z, dimension(Y, 0)),
        length(FOURTH, dimension(Y, 0)),
    ),
    "TRANSPOSE": (as_many(X), length(Y, _rank_many), axes_input(Y, X)),
    "TRANSPOSE_CONV": (
        rank(X, 1),
        rank(Y, 4),
        rank(Z, 4),
        filled(Y, Z),
        named("padding"),
        _STRIDES,
        length(FOURTH, dimension(Y, 0)),
        transposed_convolution,
    ),
    "UNPACK": (number_of("outputs", "num"), axis_option("axis", X), unpacked),
    "WHILE": (_state_for_state,),
}


def check_operator(node: Node) -> None:
    """Hold an operator against its rules. Raises InvalidModelError for the first that it breaks."""
    for rule in RULES.get(node.code, ()):
        rule(node)


def has_unknown_sizes(node: Node) -> bool:
    """Whether a dimension is known only when the model runs, so that the shapes in the file are place holders.

    A batch that no tensor of the operator knows is 1 in all of them, and the shapes are to be taken at their word; but
    not where the operator makes another number of rows. A rank may be unknown too, if the writer knows others.
    """
    every = (tensor for tensor in (*node.inputs, *node.outputs) if tensor is not None)
    tensors = [tensor for tensor in every if not tensor.is_constant]
    signatures = [tensor.shape_signature for tensor in tensors]
    batches = {signature[:1] == (-1,) for signature in signatures}
    if len(batches) > 1 or any(-1 in signature[1:] for signature in signatures):
        return True
    if any(tensor.has_rank for tensor in tensors) and any(not (t.shape or t.has_rank) for t in tensors):
        return True
    return True in batches and node.code in _OTHER_ROWS


def check_counts(node: Node) -> None:
    """Hold an operator's numbers of inputs and outputs against its code. Raises InvalidModelError."""
    inputs, outputs = node.record["inputs"], node.record["outputs"]
    both = set(inputs).intersection(outputs)
    if both:
        node.refuse("outputs", f"writes tensor {min(both)}, which it also reads")
    counts = COUNTS.get(node.code)
    if counts is None:
        return
    for field, indices, (least, most) in (("inputs", inputs, counts.inputs), ("outputs", outputs, counts.outputs)):
        if not least <= len(indices) <= most:
            span = f"{least}" if least == most else f"{least} or more" if most >= 2**31 else f"{least} to {most}"
            node.refuse(field, f"has {len(indices)} {field if len(indices) != 1 else field[:-1]}, not {span}")
    if -1 in inputs[: counts.needed]:
        node.refuse("inputs", f"lacks its required input {inputs.index(-1)}")
