"""The enumerations and unions of the .tflite schema: names in the order of their numbers, counted from 0.

Add a new name at the end of its list. TensorType is types.DType.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.model.types import DType


@dataclass(frozen=True, slots=True)
class Enumeration:
    """An enumeration: the scalar that stores it and its names, whose positions are their numbers."""

    storage: str
    names: tuple[str, ...]

    def name(self, number: int) -> str | int:
        """The name of a number; the number itself where the schema has no name for it."""
        return self.names[number] if 0 <= number < len(self.names) else number

    def number(self, name: str | int) -> int:
        """The number of a name; KeyError when there is none. A number stands for itself."""
        if isinstance(name, int):
            return name
        try:
            return self.names.index(name)
        except ValueError:
            raise KeyError(name) from None


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


BUILTIN_OPERATORS = _names(
    """
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP
    FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
    LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX
    SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD
    UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE
    UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX
    DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER
    GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL
    NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT
    LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE
    RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2
    ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND
    HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY
    SEGMENT_SUM BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D
    IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL
    CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL
    BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD
    UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR
    RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM
    STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION
    STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE
    STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR
    STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH
    STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE
    STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL
    STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE
    STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT
    STABLEHLO_CASE
    """
)

ENUMERATIONS = {
    "TensorType": Enumeration("i8", tuple(dtype.name for dtype in DType)),
    "BuiltinOperator": Enumeration("i32", BUILTIN_OPERATORS),
    "DimensionType": Enumeration("i8", _names("DENSE SPARSE_CSR")),
    "StablehloPrecisionConfig": Enumeration("u32", _names("DEFAULT HIGH HIGHEST")),
    "StablehloComparisonDirection": Enumeration(
        "u32",
        _names(
            """
            STABLEHLO_COMPARISON_DIRECTION_EQ STABLEHLO_COMPARISON_DIRECTION_NE
            STABLEHLO_COMPARISON_DIRECTION_GE STABLEHLO_COMPARISON_DIRECTION_GT
            STABLEHLO_COMPARISON_DIRECTION_LE STABLEHLO_COMPARISON_DIRECTION_LT
            """
        ),
    ),
    "StablehloComparisonType": Enumeration(
        "u32",
        _names(
            """
            STABLEHLO_COMPARISON_TYPE_NOTYPE STABLEHLO_COMPARISON_TYPE_FLOAT
            STABLEHLO_COMPARISON_TYPE_FLOAT_TOTAL_ORDER STABLEHLO_COMPARISON_TYPE_SIGNED
            STABLEHLO_COMPARISON_TYPE_UNSIGNED
            """
        ),
    ),
    "RngAlgorithm": Enumeration("i8", _names("DEFAULT PHILOX THREEFRY")),
    "Padding": Enumeration("i8", _names("SAME VALID")),
    "ActivationFunctionType": Enumeration("i8", _names("NONE RELU RELU_N1_TO_1 RELU6 TANH SIGN_BIT")),
    "LSHProjectionType": Enumeration("i8", _names("UNKNOWN SPARSE DENSE")),
    "FullyConnectedOptionsWeightsFormat": Enumeration("i8", _names("DEFAULT SHUFFLED4x16INT8")),
    "LSTMKernelType": Enumeration("i8", _names("FULL BASIC")),
    "CombinerType": Enumeration("i8", _names("SUM MEAN SQRTN")),
    "MirrorPadMode": Enumeration("i8", _names("REFLECT SYMMETRIC")),
    "ReduceWindowFunction": Enumeration("i32", _names("UNSUPPORTED ADD MUL MINIMUM MAXIMUM ALL ANY")),
    "CustomOptionsFormat": Enumeration("i8", _names("FLEXBUFFERS")),
}

# The table types of each union; number 0 is no table at all.
UNIONS = {
    "QuantizationDetails": _names("NONE CustomQuantization BlockwiseQuantization MultiAxisQuantization"),
    "SparseIndexVector": _names("NONE Int32Vector Uint16Vector Uint8Vector"),
    "BuiltinOptions": _names(
        """
        NONE Conv2DOptions DepthwiseConv2DOptions ConcatEmbeddingsOptions LSHProjectionOptions Pool2DOptions
        SVDFOptions RNNOptions FullyConnectedOptions SoftmaxOptions ConcatenationOptions AddOptions
        L2NormOptions LocalResponseNormalizationOptions LSTMOptions ResizeBilinearOptions CallOptions
        ReshapeOptions SkipGramOptions SpaceToDepthOptions EmbeddingLookupSparseOptions MulOptions
        PadOptions GatherOptions BatchToSpaceNDOptions SpaceToBatchNDOptions TransposeOptions ReducerOptions
        SubOptions DivOptions SqueezeOptions SequenceRNNOptions StridedSliceOptions ExpOptions TopKV2Options
        SplitOptions LogSoftmaxOptions CastOptions DequantizeOptions MaximumMinimumOptions ArgMaxOptions
        LessOptions NegOptions PadV2Options GreaterOptions GreaterEqualOptions LessEqualOptions
        SelectOptions SliceOptions TransposeConvOptions SparseToDenseOptions TileOptions ExpandDimsOptions
        EqualOptions NotEqualOptions ShapeOptions PowOptions ArgMinOptions FakeQuantOptions PackOptions
        LogicalOrOptions OneHotOptions LogicalAndOptions LogicalNotOptions UnpackOptions FloorDivOptions
        SquareOptions ZerosLikeOptions FillOptions BidirectionalSequenceLSTMOptions
        BidirectionalSequenceRNNOptions UnidirectionalSequenceLSTMOptions FloorModOptions RangeOptions
        ResizeNearestNeighborOptions LeakyReluOptions SquaredDifferenceOptions MirrorPadOptions AbsOptions
        SplitVOptions UniqueOptions ReverseV2Options AddNOptions GatherNdOptions CosOptions WhereOptions
        RankOptions ReverseSequenceOptions MatrixDiagOptions QuantizeOptions MatrixSetDiagOptions
        HardSwishOptions IfOptions WhileOptions DepthToSpaceOptions NonMaxSuppressionV4Options
        NonMaxSuppressionV5Options ScatterNdOptions SelectV2Options DensifyOptions SegmentSumOptions
        BatchMatMulOptions CumsumOptions CallOnceOptions BroadcastToOptions Rfft2dOptions Conv3DOptions
        HashtableOptions HashtableFindOptions HashtableImportOptions HashtableSizeOptions VarHandleOptions
        ReadVariableOptions AssignVariableOptions RandomOptions BucketizeOptions GeluOptions
        DynamicUpdateSliceOptions UnsortedSegmentProdOptions UnsortedSegmentMaxOptions
        UnsortedSegmentMinOptions UnsortedSegmentSumOptions ATan2Options SignOptions BitcastOptions
        BitwiseXorOptions RightShiftOptions
        """
    ),
    "BuiltinOptions2": _names(
        """
        NONE StablehloConcatenateOptions StablehloBroadcastInDimOptions StablehloSliceOptions
        StablehloConvolutionOptions StablehloCustomCallOptions StablehloReduceOptions
        StablehloScatterOptions StablehloCompareOptions StablehloDynamicSliceOptions StablehloPadOptions
        StablehloIotaOptions StablehloDotGeneralOptions StablehloReduceWindowOptions StablehloSortOptions
        StablehloWhileOptions StablehloGatherOptions StablehloTransposeOptions DilateOptions
        StablehloRngBitGeneratorOptions ReduceWindowOptions StableHLOCompositeOptions
        StablehloShiftLeftOptions StablehloCaseOptions
        """
    ),
}

# Operators whose option table does not bear their name.
_OTHERS_OPTIONS = {
    "Pool2DOptions": "AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D",
    "L2NormOptions": "L2_NORMALIZATION",
    "SequenceRNNOptions": "UNIDIRECTIONAL_SEQUENCE_RNN",
    "ReducerOptions": "MEAN SUM REDUCE_PROD REDUCE_MAX REDUCE_MIN REDUCE_ANY REDUCE_ALL",
    "MaximumMinimumOptions": "MAXIMUM MINIMUM",
    "Conv3DOptions": "CONV_3D CONV_3D_TRANSPOSE",
    "RandomOptions": "RANDOM_STANDARD_NORMAL RANDOM_UNIFORM MULTINOMIAL",
}


def _option_tables() -> dict[str, str]:
    named = {
        table.removesuffix("Options").lower(): table
        for union in ("BuiltinOptions", "BuiltinOptions2")
        for table in UNIONS[union][1:]
    }
    tables = {code: table for table, codes in _OTHERS_OPTIONS.items() for code in codes.split()}
    for code in BUILTIN_OPERATORS:
        table = named.get(code.replace("_", "").lower())
        if table:
            tables.setdefault(code, table)
    return tables


# The option table of each operator that has one ("CONV_2D": "Conv2DOptions").
OPTION_TABLES = _option_tables()
