"""The layers of Keras 2 files that only tf_keras can load, and the TensorFlow functions that they may call.

This module is pure.

A Keras 2 model may call TensorFlow functions outside a layer. Each function allowed is listed: mathematics on tensors
only. Functions that read or write files, call Python, print, keep state or draw random numbers are left out on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def _named(prefix: str, names: str) -> set[str]:
    return {f"{prefix}{name}" for name in names.split()}


_ARRAYS = """
    abs acos add add_n argmax argmin argsort batch_to_space boolean_mask broadcast_to cast clip_by_norm clip_by_value
    concat convert_to_tensor cos cumsum divide einsum ensure_shape equal exp expand_dims eye fill floor gather gather_nd
    greater greater_equal identity less less_equal linspace logical_and logical_not logical_or matmul maximum meshgrid
    minimum multiply negative norm not_equal one_hot ones ones_like pad pow range rank realdiv reduce_all reduce_any
    reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod reduce_sum repeat reshape reverse roll round
    saturate_cast scalar_mul scatter_nd sequence_mask shape sigmoid sign sin size slice sort space_to_batch split sqrt
    square squeeze stack stop_gradient strided_slice subtract tan tanh tensordot tile transpose truediv unstack where
    zeros zeros_like
"""
_MATH = """
    abs accumulate_n acos acosh add add_n argmax argmin asin asinh atan atan2 atanh ceil cos cosh count_nonzero cumprod
    cumsum divide divide_no_nan equal erf exp expm1 floor floordiv floormod greater greater_equal in_top_k is_finite
    is_inf is_nan l2_normalize less less_equal log log1p log_sigmoid log_softmax logical_and logical_not logical_or
    logical_xor maximum minimum mod multiply multiply_no_nan negative not_equal pow reciprocal reciprocal_no_nan
    reduce_all reduce_any reduce_euclidean_norm reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod
    reduce_std reduce_sum reduce_variance rint round rsqrt scalar_mul sigmoid sign sin sinh softmax softplus softsign
    sqrt square squared_difference subtract tan tanh top_k truediv xdivy xlogy
"""
_NETS = """
    atrous_conv2d avg_pool avg_pool1d avg_pool2d avg_pool3d batch_normalization bias_add conv1d conv1d_transpose conv2d
    conv2d_transpose conv3d conv3d_transpose convolution crelu depth_to_space depthwise_conv2d elu embedding_lookup
    gelu l2_loss l2_normalize leaky_relu local_response_normalization log_softmax max_pool max_pool1d max_pool2d
    max_pool3d moments pool relu relu6 selu separable_conv2d sigmoid silu softmax softplus softsign space_to_depth swish
    tanh top_k
"""
_LINEAR = """
    adjoint band_part cross diag diag_part einsum eye l2_normalize matmul matrix_transpose matvec norm normalize
    tensor_diag tensor_diag_part tensordot trace
"""
_IMAGES = """
    adjust_brightness adjust_contrast central_crop convert_image_dtype crop_to_bounding_box extract_patches
    flip_left_right flip_up_down grayscale_to_rgb pad_to_bounding_box per_image_standardization resize
    resize_with_crop_or_pad resize_with_pad rgb_to_grayscale rot90 transpose
"""
_SIGNALS = "dct fft fft2d frame hamming_window hann_window idct ifft irfft overlap_and_add rfft rfft2d stft"
_OPERATORS = "add eq getitem ne"  # the others are under tf.math
_V1 = """
    argmax argmin concat expand_dims gather math.reduce_max math.reduce_mean math.reduce_min math.reduce_sum
    math.log_softmax math.softmax nn.avg_pool nn.conv2d nn.depthwise_conv2d nn.leaky_relu nn.log_softmax nn.max_pool
    nn.softmax ones_like pad reduce_max reduce_mean reduce_min reduce_sum reverse shape size squeeze transpose where
    zeros_like image.resize_bilinear image.resize_nearest_neighbor
"""
# Names as in tf.*, without the "tf.".
FUNCTIONS = frozenset(
    _named("", _ARRAYS)
    | _named("math.", _MATH)
    | _named("nn.", _NETS)
    | _named("linalg.", _LINEAR)
    | _named("image.", _IMAGES)
    | _named("signal.", _SIGNALS)
    | _named("__operators__.", _OPERATORS)
    | _named("compat.v1.", _V1)
)
# Operations of a graph, as TensorFlow 2.0 to 2.3 kept them in a TensorFlowOpLayer.
OPERATIONS = frozenset(
    """
    Abs Acos Add AddN AddV2 All Any ArgMax ArgMin AvgPool BatchMatMul BatchMatMulV2 BiasAdd BroadcastTo Cast Ceil
    ClipByValue Concat ConcatV2 Conv2D Cos Cumsum DepthToSpace DepthwiseConv2dNative DivNoNan Einsum Elu Equal Erf Exp
    ExpandDims Fill Floor FloorDiv FloorMod Gather GatherNd GatherV2 Greater GreaterEqual Identity L2Loss LeakyRelu Less
    LessEqual Log Log1p LogSoftmax LogicalAnd LogicalNot LogicalOr MatMul Max MaxPool Maximum Mean Min Minimum MirrorPad
    Mul Neg NotEqual OneHot OnesLike Pack Pad PadV2 Pow Prod RealDiv Reciprocal Relu Relu6 Reshape
    ResizeBilinear ResizeNearestNeighbor ReverseV2 Round Rsqrt Select SelectV2 Selu Shape Sigmoid Sign Sin Size Slice
    Softmax Softplus Softsign SpaceToDepth Split SplitV Sqrt Square SquaredDifference Squeeze StopGradient StridedSlice
    Sub Sum Tan Tanh Tile TopKV2 Transpose Unpack Where ZerosLike
    """.split()
)


ConfigNode = dict[str, Any]
TF_KERAS = "pip install --no-deps tf-keras"
TFMOT = "pip install --no-deps tensorflow-model-optimization tf-keras"
# Class -> what it is.
CALLS = {
    "TFOpLambda": "it is a raw TensorFlow call",
    "SlicingOpLambda": "it is a raw TensorFlow slice",
    "TensorFlowOpLayer": "it is a raw TensorFlow operation",
}
LOCAL = {
    "LocallyConnected1D": "this layer does not exist in Keras 3",
    "LocallyConnected2D": "this layer does not exist in Keras 3",
}
# Wrappers of tensorflow-model-optimization for quantization-aware training.
TRAINED_FOR_INTEGERS = frozenset(["QuantizeAnnotate", "QuantizeLayer", "QuantizeWrapper", "QuantizeWrapperV2"])
# The objects in these wrappers.
TFMOT_PARTS = frozenset(
    """
    AllValuesQuantizer Default8BitActivationQuantizeConfig Default8BitConvQuantizeConfig
    Default8BitConvTransposeQuantizeConfig Default8BitConvTransposeWeightsQuantizer Default8BitConvWeightsQuantizer
    Default8BitOutputQuantizeConfig Default8BitQuantizeConfig Default8BitQuantizeConfigRNN FixedQuantizeConfig
    FixedQuantizer LastValueQuantizer MovingAverageQuantizer NoOpActivation NoOpQuantizeConfig NoQuantizer
    OutputOnlyConfig QuantizeAwareActivation
    """.split()
)
TFMOT_MODULE = "tensorflow_model_optimization."
# Classes that are rewritten for Keras 3, but exist in tf_keras.
REWRITTEN = frozenset(["ThresholdedReLU"])
# Classes that check_config accepts if tf_keras loads the file.
ALLOWED = frozenset(CALLS) | frozenset(LOCAL) | REWRITTEN | TRAINED_FOR_INTEGERS | TFMOT_PARTS


def needs_tf_keras(config: Any) -> Iterator[tuple[str, str, str]]:
    """Yield name, class and reason for each layer that Keras 3 cannot rebuild."""
    for node in objects(config):
        name = node["class_name"]
        inner = node.get("config")
        if not isinstance(inner, dict):
            continue
        layer = str(inner.get("name", name))
        if name in CALLS:
            yield layer, name, f"{CALLS[name]}{_called(node)}, which Keras 3 cannot rebuild"
        elif name in LOCAL:
            yield layer, name, LOCAL[name]
        elif name in TRAINED_FOR_INTEGERS:
            yield layer, name, "it comes from quantization-aware training with tensorflow-model-optimization"
        elif name == "BatchNormalization" and (inner.get("renorm") or inner.get("virtual_batch_size")):
            yield layer, name, "it keeps statistics that Keras 3 does not support"


def needs_tfmot(config: Any) -> bool:
    """Return whether the model comes from quantization-aware training."""
    return any(node["class_name"] in TRAINED_FOR_INTEGERS for node in objects(config))


def forbidden_call(node: ConfigNode) -> str | None:
    """Return the TensorFlow function of a raw call if it is not allowed, otherwise None."""
    name = node.get("class_name")
    inner = node.get("config")
    config = inner if isinstance(inner, dict) else {}
    if name in ("TFOpLambda", "SlicingOpLambda"):
        function = config.get("function")
        return None if isinstance(function, str) and function in FUNCTIONS else f"tf.{function}"
    if name == "TensorFlowOpLayer":
        definition = config.get("node_def")
        operation = definition.get("op") if isinstance(definition, dict) else None
        return None if isinstance(operation, str) and operation in OPERATIONS else str(operation)
    return None


def objects(value: Any) -> Iterator[ConfigNode]:
    """Yield every serialized object in a configuration, at any depth."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            if isinstance(item.get("class_name"), str):
                yield item
            pending += reversed(list(item.values()))
        elif isinstance(item, list):
            pending += reversed(item)


def _called(node: ConfigNode) -> str:
    config = node["config"]
    if isinstance(config.get("function"), str):
        return f" (tf.{config['function']})"
    definition = config.get("node_def")
    return f" ({definition.get('op')})" if isinstance(definition, dict) else ""
