"""The tables of the .tflite schema as data, and the meaning of their fields.

One table per line: its name, then `field:type=default` in the order of the field ids. Types: a scalar (bool, i8 ..
u64, f32), string, an enumeration, a table, a union (which takes two ids: its type's and its value's), any of
the first four in brackets for a vector, or `-` for a field that the schema no longer uses. `@tensor`, `@buffer`,
`@subgraph` and `@operator_code` mark an index into that list; with `?`, -1 stands for none. `!` marks a field that
runtimes read without checking that it is present.

The enumerations and unions of the .tflite schema: names in the order of their numbers, counted from 0.

Add a new name at the end of its list. TensorType is types.DType.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from edgetool.model.types import DType


@dataclass(frozen=True, slots=True)
class Enumeration:
    """An enumeration: the scalar that stores it, and its names, whose positions are their numbers."""

    storage: str
    names: tuple[str, ...]

    def name(self, number: int) -> str | int:
        """Return the name of a number; the number itself if the schema has no name for it."""
        return self.names[number] if 0 <= number < len(self.names) else number

    def number(self, name: str | int) -> int:
        """Return the number of a name. A number stands for itself. Raises KeyError for an unknown name."""
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

# Operators whose option table is not named after them.
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


FILE_IDENTIFIER = b"TFL3"
VERSION = 3

# Vectors that start at a multiple of more bytes than their elements need (the schema's force_align).
ALIGNMENTS = {
    ("Buffer", "data"): 16,
    ("CustomQuantization", "custom"): 16,
    ("Uint16Vector", "values"): 4,
    ("Uint8Vector", "values"): 4,
}

_TABLES = """
Model version:u32 operator_codes:[OperatorCode] subgraphs:[SubGraph] description:string buffers:[Buffer]
    metadata_buffer:[i32]@buffer metadata:[Metadata] signature_defs:[SignatureDef]
    external_buffer_groups:[ExternalBufferGroup] external_buffers:[ExternalBuffer]
OperatorCode deprecated_builtin_code:i8 custom_code:string version:i32=1 builtin_code:i32
SubGraph tensors:[Tensor]! inputs:[i32]@tensor! outputs:[i32]@tensor! operators:[Operator] name:string
    debug_metadata_index:i32=-1
Tensor shape:[i32] type:TensorType buffer:u32@buffer name:string quantization:QuantizationParameters
    is_variable:bool sparsity:SparsityParameters shape_signature:[i32] has_rank:bool
    variant_tensors:[VariantSubType] external_buffer:u32
QuantizationParameters min:[f32] max:[f32] scale:[f32] zero_point:[i64] details:QuantizationDetails
    quantized_dimension:i32
CustomQuantization custom:[u8]
BlockwiseQuantization scales:i32@tensor zero_points:i32@tensor? block_size:i32 block_shape:[i32]
MultiAxisQuantization scales:i32@tensor zero_points:i32@tensor? block_size:i32 quantized_dimensions:[i32]
SparsityParameters traversal_order:[i32] block_map:[i32] dim_metadata:[DimensionMetadata]
DimensionMetadata format:DimensionType dense_size:i32 array_segments:SparseIndexVector
    array_indices:SparseIndexVector
Int32Vector values:[i32]
Uint16Vector values:[u16]
Uint8Vector values:[u8]
VariantSubType shape:[i32] type:TensorType has_rank:bool
Operator opcode_index:u32@operator_code inputs:[i32]@tensor? outputs:[i32]@tensor
    builtin_options:BuiltinOptions custom_options:[u8] custom_options_format:CustomOptionsFormat
    mutating_variable_inputs:[bool] intermediates:[i32]@tensor large_custom_options_offset:u64
    large_custom_options_size:u64 builtin_options_2:BuiltinOptions2 debug_metadata_index:i32=-1
Buffer data:[u8] offset:u64 size:u64
Metadata name:string buffer:u32@buffer
TensorMap name:string tensor_index:u32@tensor
SignatureDef inputs:[TensorMap] outputs:[TensorMap] signature_key:string deprecated_tag:-
    subgraph_index:u32@subgraph
ExternalBufferGroup name:string
ExternalBuffer id:u32 group:u32 offset:u64 length:u64 packing:string

Conv2DOptions padding:Padding stride_w:i32 stride_h:i32 fused_activation_function:ActivationFunctionType
    dilation_w_factor:i32=1 dilation_h_factor:i32=1 quantized_bias_type:TensorType
DepthwiseConv2DOptions padding:Padding stride_w:i32 stride_h:i32 depth_multiplier:i32
    fused_activation_function:ActivationFunctionType dilation_w_factor:i32=1 dilation_h_factor:i32=1
ConcatEmbeddingsOptions num_channels:i32 num_columns_per_channel:[i32] embedding_dim_per_channel:[i32]
LSHProjectionOptions type:LSHProjectionType
Pool2DOptions padding:Padding stride_w:i32 stride_h:i32 filter_width:i32 filter_height:i32
    fused_activation_function:ActivationFunctionType
SVDFOptions rank:i32 fused_activation_function:ActivationFunctionType asymmetric_quantize_inputs:bool
RNNOptions fused_activation_function:ActivationFunctionType asymmetric_quantize_inputs:bool
FullyConnectedOptions fused_activation_function:ActivationFunctionType
    weights_format:FullyConnectedOptionsWeightsFormat keep_num_dims:bool asymmetric_quantize_inputs:bool
    quantized_bias_type:TensorType quant_spec:[u8]
SoftmaxOptions beta:f32
ConcatenationOptions axis:i32 fused_activation_function:ActivationFunctionType
AddOptions fused_activation_function:ActivationFunctionType pot_scale_int16:bool=true
L2NormOptions fused_activation_function:ActivationFunctionType
LocalResponseNormalizationOptions radius:i32 bias:f32 alpha:f32 beta:f32
LSTMOptions fused_activation_function:ActivationFunctionType cell_clip:f32 proj_clip:f32
    kernel_type:LSTMKernelType asymmetric_quantize_inputs:bool
ResizeBilinearOptions new_height:- new_width:- align_corners:bool half_pixel_centers:bool
CallOptions subgraph:u32@subgraph
ReshapeOptions new_shape:[i32]
SkipGramOptions ngram_size:i32 max_skip_size:i32 include_all_ngrams:bool
SpaceToDepthOptions block_size:i32
EmbeddingLookupSparseOptions combiner:CombinerType
MulOptions fused_activation_function:ActivationFunctionType
GatherOptions axis:i32 batch_dims:i32
ReducerOptions keep_dims:bool
SubOptions fused_activation_function:ActivationFunctionType pot_scale_int16:bool=true
DivOptions fused_activation_function:ActivationFunctionType
SqueezeOptions squeeze_dims:[i32]
SequenceRNNOptions time_major:bool fused_activation_function:ActivationFunctionType
    asymmetric_quantize_inputs:bool
StridedSliceOptions begin_mask:i32 end_mask:i32 ellipsis_mask:i32 new_axis_mask:i32 shrink_axis_mask:i32
    offset:bool
SplitOptions num_splits:i32
CastOptions in_data_type:TensorType out_data_type:TensorType
ArgMaxOptions output_type:TensorType
TransposeConvOptions padding:Padding stride_w:i32 stride_h:i32
    fused_activation_function:ActivationFunctionType quantized_bias_type:TensorType
SparseToDenseOptions validate_indices:bool
ShapeOptions out_type:TensorType
ArgMinOptions output_type:TensorType
FakeQuantOptions min:f32 max:f32 num_bits:i32 narrow_range:bool
PackOptions values_count:i32 axis:i32
OneHotOptions axis:i32
UnpackOptions num:i32 axis:i32
BidirectionalSequenceLSTMOptions fused_activation_function:ActivationFunctionType cell_clip:f32
    proj_clip:f32 merge_outputs:bool time_major:bool=true asymmetric_quantize_inputs:bool
BidirectionalSequenceRNNOptions time_major:bool fused_activation_function:ActivationFunctionType
    merge_outputs:bool asymmetric_quantize_inputs:bool
UnidirectionalSequenceLSTMOptions fused_activation_function:ActivationFunctionType cell_clip:f32
    proj_clip:f32 time_major:bool asymmetric_quantize_inputs:bool diagonal_recurrent_tensors:bool
ResizeNearestNeighborOptions align_corners:bool half_pixel_centers:bool
LeakyReluOptions alpha:f32
MirrorPadOptions mode:MirrorPadMode
SplitVOptions num_splits:i32
UniqueOptions idx_out_type:TensorType=INT32
ReverseSequenceOptions seq_dim:i32 batch_dim:i32
IfOptions then_subgraph_index:i32@subgraph else_subgraph_index:i32@subgraph
WhileOptions cond_subgraph_index:i32@subgraph body_subgraph_index:i32@subgraph
DepthToSpaceOptions block_size:i32
BatchMatMulOptions adj_x:bool adj_y:bool asymmetric_quantize_inputs:bool
CumsumOptions exclusive:bool reverse:bool
CallOnceOptions init_subgraph_index:i32@subgraph
Conv3DOptions padding:Padding stride_d:i32 stride_w:i32 stride_h:i32
    fused_activation_function:ActivationFunctionType dilation_d_factor:i32=1 dilation_w_factor:i32=1
    dilation_h_factor:i32=1
HashtableOptions table_id:i32 key_dtype:TensorType value_dtype:TensorType
VarHandleOptions container:string shared_name:string
RandomOptions seed:i64 seed2:i64
BucketizeOptions boundaries:[f32]
GeluOptions approximate:bool

StablehloConcatenateOptions dimension:i64
StablehloBroadcastInDimOptions broadcast_dimensions:[i64]
StablehloSliceOptions start_indices:[i64] limit_indices:[i64] strides:[i64]
StablehloConvolutionOptions window_strides:[i64] padding:[i64] lhs_dilation:[i64] rhs_dilation:[i64]
    window_reversal:[bool] input_batch_dimension:i64 input_feature_dimension:i64
    input_spatial_dimensions:[i64] kernel_input_feature_dimension:i64 kernel_output_feature_dimension:i64
    kernel_spatial_dimensions:[i64] output_batch_dimension:i64 output_feature_dimension:i64
    output_spatial_dimensions:[i64] feature_group_count:i64 batch_group_count:i64
    precision_config:[StablehloPrecisionConfig]
StablehloCustomCallOptions call_target_name:string has_side_effect:bool backend_config:string
    api_version:i32 called_computations:[i32]@subgraph custom_attributes:[u8]
StablehloReduceOptions dimensions:[i64] body_subgraph_index:i32@subgraph
StablehloScatterOptions indices_are_sorted:bool update_window_dims:[i64] inserted_window_dims:[i64]
    scatter_dims_to_operand_dims:[i64] index_vector_dim:i64 unique_indices:bool
    update_computation_subgraph_index:i32@subgraph
StablehloCompareOptions comparison_direction:StablehloComparisonDirection
    compare_type:StablehloComparisonType
StablehloDynamicSliceOptions slice_sizes:[i64]
StablehloPadOptions edge_padding_low:[i64] edge_padding_high:[i64] interior_padding:[i64]
StablehloIotaOptions iota_dimension:i64
StablehloDotGeneralOptions lhs_batching_dimensions:[i64] rhs_batching_dimensions:[i64]
    lhs_contracting_dimensions:[i64] rhs_contracting_dimensions:[i64]
    precision_config:[StablehloPrecisionConfig]
StablehloReduceWindowOptions window_dimensions:[i64] window_strides:[i64] base_dilations:[i64]
    window_dilations:[i64] padding:[i64] body_subgraph_index:i32@subgraph
StablehloSortOptions dimension:i64 is_stable:bool comparator_subgraph_index:i32@subgraph
StablehloWhileOptions cond_subgraph_index:i32@subgraph body_subgraph_index:i32@subgraph
StablehloGatherOptions offset_dims:[i64] collapsed_slice_dims:[i64] start_index_map:[i64]
    index_vector_dim:i64 slice_sizes:[i64] indices_are_sorted:bool
StablehloTransposeOptions permutation:[i64]
StablehloRngBitGeneratorOptions algorithm:RngAlgorithm
ReduceWindowOptions reduce_function:ReduceWindowFunction
StableHLOCompositeOptions name:string decomposition_subgraph_index:i32@subgraph composite_attributes:[u8]
    composite_attributes_format:CustomOptionsFormat version:i32
StablehloCaseOptions branch_subgraph_indices:[i32]@subgraph
"""

_TABLES_WITHOUT_FIELDS = """
PadOptions BatchToSpaceNDOptions SpaceToBatchNDOptions TransposeOptions ExpOptions TopKV2Options
LogSoftmaxOptions DequantizeOptions MaximumMinimumOptions LessOptions NegOptions PadV2Options
GreaterOptions GreaterEqualOptions LessEqualOptions SelectOptions SliceOptions TileOptions
ExpandDimsOptions EqualOptions NotEqualOptions PowOptions LogicalOrOptions LogicalAndOptions
LogicalNotOptions FloorDivOptions SquareOptions ZerosLikeOptions FillOptions FloorModOptions
RangeOptions SquaredDifferenceOptions AbsOptions ReverseV2Options AddNOptions GatherNdOptions CosOptions
WhereOptions RankOptions MatrixDiagOptions QuantizeOptions MatrixSetDiagOptions HardSwishOptions
NonMaxSuppressionV4Options NonMaxSuppressionV5Options ScatterNdOptions SelectV2Options DensifyOptions
SegmentSumOptions BroadcastToOptions Rfft2dOptions HashtableFindOptions HashtableImportOptions
HashtableSizeOptions ReadVariableOptions AssignVariableOptions DynamicUpdateSliceOptions
UnsortedSegmentProdOptions UnsortedSegmentMaxOptions UnsortedSegmentMinOptions UnsortedSegmentSumOptions
ATan2Options SignOptions BitcastOptions BitwiseXorOptions RightShiftOptions DilateOptions
StablehloShiftLeftOptions
"""

# Scalars: the letter of the struct module and the width in bytes.
SCALARS = {
    "bool": ("?", 1),
    "i8": ("b", 1),
    "u8": ("B", 1),
    "i16": ("h", 2),
    "u16": ("H", 2),
    "i32": ("i", 4),
    "u32": ("I", 4),
    "i64": ("q", 8),
    "u64": ("Q", 8),
    "f32": ("f", 4),
}

Kind = Literal["scalar", "string", "bytes", "scalars", "table", "tables", "union", "deprecated"]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a table.

    id: its slot in the vtable; a union's type byte is at `id`, its value at `id + 1`.
    scalar: the scalar's name ("i32"), for a scalar and for the elements of a vector of scalars.
    enumeration: what the scalar's numbers mean, if anything.
    target: the name of the table or union it refers to.
    index_of: the list it points into ("tensor"), and `optional` whether -1 means none.
    required: whether a file without it is broken.
    """

    name: str
    id: int
    kind: Kind
    scalar: str
    enumeration: Enumeration | None
    target: str
    default: Any
    index_of: str
    optional: bool
    required: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its fields in order of id, `slots` ids in all, and the fields that are indices into a list."""

    name: str
    fields: tuple[Field, ...]
    slots: int
    defaults: dict[str, Any]
    indices: tuple[Field, ...]


def _field_specs() -> dict[str, list[str]]:
    tables: dict[str, list[str]] = {name: [] for name in _TABLES_WITHOUT_FIELDS.split()}
    fields: list[str] = []
    for line in _TABLES.splitlines():
        words = line.split()
        if line and not line[0].isspace():
            fields = tables[words.pop(0)] = []
        fields += words
    return tables


_FIELDS = _field_specs()
TABLE_NAMES = tuple(_FIELDS)


@cache
def table(name: str) -> Table:
    """Return the table of that name. Raises KeyError if the schema has none."""
    fields: list[Field] = []
    slots = 0
    for text in _FIELDS[name]:
        fields.append(_field(text, slots))
        slots += 2 if fields[-1].kind == "union" else 1
    defaults = {field.name: field.default for field in fields if field.kind != "deprecated"}
    indices = tuple(field for field in fields if field.index_of)
    return Table(name, tuple(fields), slots, defaults, indices)


def _field(text: str, slot: int) -> Field:
    """Return the field written as `name:type@index=default`, at a slot of its table's vtable."""
    text, _, default_text = text.partition("=")
    required = text.endswith("!")
    text, _, role = text.rstrip("!").partition("@")
    name, _, spelled = text.partition(":")
    element = spelled.strip("[]")
    enumeration = ENUMERATIONS.get(element)
    scalar = enumeration.storage if enumeration else element if element in SCALARS else ""
    kind, default_value = _kind(spelled, element, scalar)
    if kind == "scalar":
        default_value = _default(default_text, scalar, enumeration)
    target = "" if scalar or element == "string" else element
    return Field(
        name,
        slot,
        kind,
        scalar,
        enumeration,
        target,
        default_value,
        index_of=role.rstrip("?"),
        optional=role.endswith("?"),
        required=required,
    )


def _kind(spelled: str, element: str, scalar: str) -> tuple[Kind, Any]:
    """Return the kind of a type, and the value of an absent field of that type."""
    if spelled == "-":
        return "deprecated", None
    if spelled == "[u8]":
        return "bytes", b""
    if spelled.startswith("["):
        return ("scalars" if scalar else "tables"), ()
    if scalar:
        return "scalar", 0
    if element == "string":
        return "string", None
    return ("union" if element in UNIONS else "table"), None


def _default(text: str, scalar: str, enumeration: Enumeration | None) -> bool | int | float | str:
    if enumeration:
        return text or enumeration.names[0]
    if scalar == "bool":
        return text == "true"
    return float(text or 0) if scalar == "f32" else int(text or 0)
