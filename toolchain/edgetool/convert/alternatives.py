"""Suggest what to use instead of a layer or operator that TFLM cannot run: a clause for the user, by name."""

from __future__ import annotations

_IN_FIRMWARE = "compute it in the firmware and pass the result to the model"
_BEFORE = "do it in the firmware, before the model"
_NO_VOLUMES = "TFLM has no 3D operators: use 2D layers with the frames as channels, or TimeDistributed"
_CONDITION = "multiply by 0 or 1 instead of using a condition (x * mask + y * (1 - mask))"
_ROUNDED = "do it in the firmware, after the model"
_BITS = "use addition, multiplication and comparisons on numbers, or compute it in the firmware"
_DYNAMIC = "give every input a fixed size (--input-shape), so that all sizes are known at conversion time"
_SORTED = (
    "cut the model off before it and sort in the firmware; for the largest value only, use GlobalMaxPooling or argmax"
)
_RANDOM = "generate the random numbers in the firmware and pass them to the model as an input"
_COMPLEX = (
    "compute the spectrum in the firmware (TFLM's signal library, or CMSIS-DSP) and pass its magnitudes to the model"
)
_STRINGS = "map strings to numbers before the model: models on microcontrollers accept only numbers"

# By the class of a Keras layer, if no equivalent graph exists; for other layers the operator is more specific.
LAYERS = {
    "Bidirectional": "use --rnn unrolled, or make the layer unidirectional",
    "Conv3DTranspose": _NO_VOLUMES,
    "ConvLSTM3D": _NO_VOLUMES,
    "Hashing": _STRINGS,
    "HashedCrossing": _STRINGS,
    "IntegerLookup": "look up the index in the firmware and pass it to Embedding",
    "StringLookup": _STRINGS,
    "TextVectorization": _STRINGS,
}

# By the operator of TensorFlow Lite.
OPERATORS = {
    "ATAN2": _IN_FIRMWARE,
    "BIDIRECTIONAL_SEQUENCE_LSTM": "use --rnn unrolled",
    "BITCAST": _BITS,
    "BITWISE_XOR": _BITS,
    "BUCKETIZE": "compare with the boundaries in the firmware and pass the index to the model",
    "COMPLEX_ABS": _COMPLEX,
    "CONV_3D": _NO_VOLUMES,
    "CONV_3D_TRANSPOSE": _NO_VOLUMES,
    "CUMSUM": "multiply by a triangular matrix of ones (a Dense layer with fixed weights)",
    "DILATE": "use Conv2DTranspose, or UpSampling2D followed by a mask that sets the inserted values to zero",
    "ELU": "use relu or leaky_relu",
    "EXP": "use softmax or sigmoid, or leave the layer in float with --keep-float",
    "FLOOR": _ROUNDED,
    "GELU": "use silu or relu, or allow an approximation with --allow-approximation",
    "HASHTABLE": _STRINGS,
    "HASHTABLE_FIND": _STRINGS,
    "IMAG": _COMPLEX,
    "LOCAL_RESPONSE_NORMALIZATION": "use BatchNormalization",
    "LOG": "use sigmoid or tanh, or leave the layer in float with --keep-float",
    "LSTM": "use --rnn unrolled",
    "MULTINOMIAL": _RANDOM,
    "NEG": "subtract from zero, or leave the layer in float with --keep-float",
    "NON_MAX_SUPPRESSION_V4": "cut the model off before it and run non-maximum suppression in the firmware",
    "NON_MAX_SUPPRESSION_V5": "cut the model off before it and run non-maximum suppression in the firmware",
    "ONE_HOT": "apply Embedding to the index, or do the encoding in the firmware",
    "POW": "use squares and products",
    "RANDOM_STANDARD_NORMAL": _RANDOM,
    "RANDOM_UNIFORM": _RANDOM,
    "RANGE": _DYNAMIC,
    "RANK": _DYNAMIC,
    "REAL": _COMPLEX,
    "REDUCE_ANY": "remove masks (mask_zero=False, no Masking), or pad all sequences to the same length",
    "REDUCE_PROD": "sum logarithms, or multiply the values one by one",
    "REVERSE_SEQUENCE": "pad all sequences to the same length, or pass the reversed sequence to the model",
    "RFFT2D": _COMPLEX,
    "RIGHT_SHIFT": _BITS,
    "RNN": "use --rnn unrolled",
    "SCATTER_ND": "do the scatter in the firmware, or multiply by a fixed matrix",
    "SEGMENT_SUM": "use a pooling layer",
    "SELECT": _CONDITION,
    "SIGN": "use clip(x * large, -1, 1)",
    "SPARSE_TO_DENSE": "pass the dense tensor to the model",
    "SQRT": "use squares, or leave the layer in float with --keep-float",
    "STABLEHLO_SORT": _SORTED,
    "TILE": "use UpSampling2D, or Concatenate of the same tensor",
    "TOPK_V2": _SORTED,
    "UNIDIRECTIONAL_SEQUENCE_RNN": "use --rnn unrolled",
    "UNIQUE": _IN_FIRMWARE,
    "UNSORTED_SEGMENT_SUM": "use a pooling layer",
    "WHERE": _CONDITION,
    "WHILE": "unroll the loop (unroll=True in recurrent layers, or --rnn unrolled)",
}

# By the operation of TensorFlow, for those without a TensorFlow Lite operator.
OPERATIONS = {
    "AdjustContrastv2": _BEFORE,
    "AdjustHue": _BEFORE,
    "AdjustSaturation": _BEFORE,
    "BitwiseAnd": _BITS,
    "BitwiseOr": _BITS,
    "BitwiseXor": _BITS,
    "CropAndResize": _BEFORE,
    "Cumprod": "multiply the values one by one, or sum logarithms",
    "Digamma": _IN_FIRMWARE,
    "Einsum": "express it with matmul, transpose and reshape",
    "Erf": "use gelu with approximate=True, or tanh",
    "Erfc": "use gelu with approximate=True, or tanh",
    "Erfinv": _IN_FIRMWARE,
    "ExtractImagePatches": "use Conv2D with a fixed one-hot kernel",
    "FFT": _COMPLEX,
    "FFT2D": _COMPLEX,
    "HashTableV2": _STRINGS,
    "IFFT": _COMPLEX,
    "ImageProjectiveTransformV3": "remove the layer: it augments only during training and does nothing at inference",
    "Inv": "divide instead: 1 / x",
    "IRFFT": _COMPLEX,
    "LeftShift": _BITS,
    "Lgamma": _IN_FIRMWARE,
    "LookupTableFindV2": _STRINGS,
    "MatrixInverse": _IN_FIRMWARE,
    "MatrixSolve": _IN_FIRMWARE,
    "MaxPool3D": _NO_VOLUMES,
    "AvgPool3D": _NO_VOLUMES,
    "MaxPoolWithArgmax": "use MaxPooling2D without the indices",
    "Multinomial": _RANDOM,
    "NonMaxSuppressionV3": OPERATORS["NON_MAX_SUPPRESSION_V4"],
    "PartitionedCall": "replace the custom layer with built-in layers",
    "Qr": _IN_FIRMWARE,
    "RandomStandardNormal": _RANDOM,
    "RandomUniform": _RANDOM,
    "ResizeArea": "use AveragePooling2D, or Resizing with interpolation='bilinear'",
    "ResizeBicubic": "use interpolation='bilinear' or 'nearest'",
    "RFFT": _COMPLEX,
    "RightShift": _BITS,
    "ScaleAndTranslate": "use interpolation='bilinear' or 'nearest', without antialias",
    "SelfAdjointEigV2": _IN_FIRMWARE,
    "Sinh": "build it from exponentials",
    "StatelessMultinomial": _RANDOM,
    "StatelessRandomGetKeyCounter": _RANDOM,
    "StatelessRandomNormalV2": _RANDOM,
    "StatelessRandomUniformV2": _RANDOM,
    "StatelessTruncatedNormalV2": _RANDOM,
    "AsString": _STRINGS,
    "StringLength": _STRINGS,
    "StringToHashBucketFast": _STRINGS,
    "StringToNumber": _STRINGS,
    "Svd": _IN_FIRMWARE,
    "Tan": "use sin(x) / cos(x)",
    "TensorScatterAdd": "multiply by a fixed matrix",
    "TopKV2": _SORTED,
    "UniqueV2": _IN_FIRMWARE,
    "Where": _CONDITION,
    "Xdivy": "add a small constant to the divisor, then divide",
}
# By the operator of ONNX, for those that are not imported.
ONNX_OPERATORS = {
    **dict.fromkeys(("BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"), _BITS),
    **dict.fromkeys(("DFT", "MelWeightMatrix", "STFT"), _COMPLEX),
    **dict.fromkeys(("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"), _RANDOM),
    **dict.fromkeys(("RandomUniform", "RandomUniformLike"), _RANDOM),
    **dict.fromkeys(("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"), _STRINGS),
    **dict.fromkeys(("Det", "NonZero", "Unique"), _IN_FIRMWARE),
    "CumSum": OPERATORS["CUMSUM"],
    "LRN": OPERATORS["LOCAL_RESPONSE_NORMALIZATION"],
    "NonMaxSuppression": OPERATORS["NON_MAX_SUPPRESSION_V5"],
    "OneHot": OPERATORS["ONE_HOT"],
    "ReverseSequence": OPERATORS["REVERSE_SEQUENCE"],
    "TopK": _SORTED,
}
UNKNOWN = "build it from layers whose operators the runtime supports ('edgetool inspect' lists a model's operators)"


def alternative_to(operator: str, layer_class: str = "") -> str:
    """Return what to use instead of an operator of TensorFlow Lite ("TILE") or TensorFlow ("ResizeBicubic").

    layer_class: the Keras class that it came from ("UpSampling1D"), "" if unknown; it has precedence.
    """
    for table, name in ((LAYERS, layer_class), (OPERATORS, operator), (OPERATIONS, operator)):
        if name in table:
            return table[name]
    return UNKNOWN
