"""Writes a Model as a .tflite file: the same model gives the same bytes; constants are aligned to 16 bytes.

The flatbuffer is written from records according to the schema: the counterpart of flatbuffer.py.
"""

from __future__ import annotations

from struct import pack
from typing import Any

from edgetool.errors import InternalError, UnsupportedModelError
from edgetool.model.flatbuffer import Record
from edgetool.model.schema import ALIGNMENTS, BUILTIN_OPERATORS, FILE_IDENTIFIER, SCALARS, UNIONS, Field, table
from edgetool.model.types import (
    Graph,
    Model,
    Operator,
    OperatorCode,
    Options,
    Quantization,
    Signature,
    SparseDimension,
    Sparsity,
    Tensor,
)

# The flatbuffers Builder methods for our scalars.
_SLOTS = {
    "bool": "PrependBoolSlot",
    "i8": "PrependInt8Slot",
    "u8": "PrependUint8Slot",
    "i16": "PrependInt16Slot",
    "u16": "PrependUint16Slot",
    "i32": "PrependInt32Slot",
    "u32": "PrependUint32Slot",
    "i64": "PrependInt64Slot",
    "u64": "PrependUint64Slot",
    "f32": "PrependFloat32Slot",
}


def write_root(root: Record) -> bytes:
    """Return the file of a root table and everything below it. Fields that are None or omitted are absent in the file.

    Only conformity to the schema is checked. Raises InternalError for a field or enumeration name that the schema
    lacks.
    """
    from flatbuffers import Builder  # imports numpy, which only writing needs

    builder = Builder(65536)
    builder.Finish(_write(builder, root), file_identifier=FILE_IDENTIFIER)
    return bytes(builder.Output())


def _write(builder: Any, record: Record) -> int:
    """Write a table and everything below it, children first, and return its offset."""
    kind = table(record.table)
    stray = record.fields.keys() - kind.defaults.keys()
    if stray:
        raise InternalError(f"{record.table} has no field {min(stray)}")
    values = [(field, record.fields[field.name]) for field in kind.fields if field.name in record.fields]
    placed = [
        (field, value if field.kind == "scalar" else _write_child(builder, record.table, field, value), value)
        for field, value in values
        if value is not None and not (field.kind == "bytes" and not value)
    ]
    placed.sort(key=lambda entry: -_width(entry[0]))  # wide fields together need no padding
    builder.StartObject(kind.slots)
    for field, content, value in placed:
        if field.kind == "scalar":
            number, default = _number(field, value), _number(field, field.default)
            getattr(builder, _SLOTS[field.scalar])(field.id, number, default)
        elif field.kind == "union":
            builder.PrependUOffsetTRelativeSlot(field.id + 1, content, 0)
        else:
            builder.PrependUOffsetTRelativeSlot(field.id, content, 0)
    for field, _, value in placed:
        if field.kind == "union":
            builder.PrependUint8Slot(field.id, UNIONS[field.target].index(value.table), 0)
    return int(builder.EndObject())


def _width(field: Field) -> int:
    return SCALARS[field.scalar][1] if field.kind == "scalar" else 4


def _number(field: Field, value: Any) -> Any:
    try:
        return field.enumeration.number(value) if field.enumeration else value
    except KeyError:
        raise InternalError(f"{field.name} cannot be {value}") from None


def _write_child(builder: Any, owner: str, field: Field, value: Any) -> int:
    """Write what a field refers to and return its offset."""
    if field.kind == "string":
        return int(builder.CreateString(value))
    if field.kind in ("table", "union"):
        return _write(builder, value)
    if field.kind == "tables":
        offsets = [_write(builder, record) for record in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())
    letter, width = SCALARS[field.scalar]
    content = value if field.kind == "bytes" else pack(f"<{len(value)}{letter}", *(_number(field, v) for v in value))
    builder.StartVector(width, len(value), ALIGNMENTS.get((owner, field.name), width))
    builder.head -= len(content)
    builder.Bytes[builder.head : builder.head + len(content)] = content
    return int(builder.EndVector())


MAX_FILE_BYTES = 2**31 - 2**20  # a flatbuffer cannot exceed 2 GiB; the difference leaves room for its tables
_LAST_DEPRECATED_CODE = 127


def write_model(model: Model) -> bytes:
    """Return the .tflite file of a model. Reading it gives an equal model.

    Raises UnsupportedModelError for a model read from a file with fields beyond this schema, which would be
    lost, and for one that exceeds 2 GiB; InternalError for a model whose parts contradict each other.
    """
    if model.unknown_fields:
        raise UnsupportedModelError(
            "the model has fields that this version of edgetool does not support and that would be lost",
            where=", ".join(model.unknown_fields[:5]),
            fix="use a newer edgetool, or export the model with an older converter",
        )
    size_bytes = sum(len(data) for data in model.data if data)
    if size_bytes > MAX_FILE_BYTES:
        raise UnsupportedModelError(
            f"{size_bytes} bytes of constants do not fit in a .tflite file", fix="use a smaller model"
        )
    _check_consistent(model)
    return write_root(_model(model))


def _check_consistent(model: Model) -> None:
    """Check that values stored redundantly in the model agree, because the file stores each only once."""
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.data != model.data[tensor.buffer]:
                raise InternalError(f"tensor {tensor.index} differs from the data of buffer {tensor.buffer}")
        for operator in graph.operators:
            code = OperatorCode(operator.code, operator.version, operator.custom_code)
            if code != model.operator_codes[operator.opcode_index]:
                raise InternalError(f"operator {operator.index} does not match operator code {operator.opcode_index}")
    for entry in model.metadata:
        if entry.data != (model.data[entry.buffer] or b""):
            raise InternalError(f"metadata {entry.name} differs from the data of buffer {entry.buffer}")


# Conversion of the types to schema records. A field that is omitted or None is absent in the file. Vectors and names
# that are always written here are ones that runtimes use without checking that they exist.


def _record(kind: str, **fields: Any) -> Record:
    return Record(kind, 0, fields)


def _model(model: Model) -> Record:
    return _record(
        "Model",
        version=model.version,
        operator_codes=[_operator_code(code) for code in model.operator_codes],
        subgraphs=[_graph(graph) for graph in model.subgraphs],
        description=model.description or None,
        buffers=[_record("Buffer", data=data) for data in model.data],
        metadata_buffer=model.metadata_buffer or None,
        metadata=[_record("Metadata", name=m.name, buffer=m.buffer) for m in model.metadata] or None,
        signature_defs=[_signature(signature) for signature in model.signatures] or None,
    )


def _operator_code(code: OperatorCode) -> Record:
    number = BUILTIN_OPERATORS.index(code.code)
    return _record(
        "OperatorCode",
        deprecated_builtin_code=min(number, _LAST_DEPRECATED_CODE),
        custom_code=code.custom_code,
        version=code.version,
        builtin_code=number,
    )


def _graph(graph: Graph) -> Record:
    return _record(
        "SubGraph",
        tensors=[_tensor(tensor) for tensor in graph.tensors],
        inputs=graph.inputs,
        outputs=graph.outputs,
        operators=[_operator(operator) for operator in graph.operators],
        name=graph.name or None,
        debug_metadata_index=graph.debug_metadata_index,
    )


def _tensor(tensor: Tensor) -> Record:
    return _record(
        "Tensor",
        shape=tensor.shape,
        type=tensor.dtype.name,
        buffer=tensor.buffer,
        name=tensor.name or None,
        quantization=_quantization(tensor.quantization) if tensor.quantization else None,
        is_variable=tensor.is_variable,
        sparsity=_sparsity(tensor.sparsity) if tensor.sparsity else None,
        shape_signature=tensor.shape_signature or None,
        has_rank=tensor.has_rank,
        variant_tensors=[
            _record("VariantSubType", shape=v.shape, type=v.dtype.name, has_rank=v.has_rank)
            for v in tensor.variant_types
        ]
        or None,
    )


def _quantization(quantization: Quantization) -> Record:
    return _record(
        "QuantizationParameters",
        min=quantization.minimum or None,
        max=quantization.maximum or None,
        scale=quantization.scales or None,
        zero_point=quantization.zero_points or None,
        details=_options(quantization.details),
        quantized_dimension=quantization.axis,
    )


def _sparsity(sparsity: Sparsity) -> Record:
    return _record(
        "SparsityParameters",
        traversal_order=sparsity.traversal_order,
        block_map=sparsity.block_map or None,
        dim_metadata=[_sparse_dimension(dimension) for dimension in sparsity.dimensions],
    )


def _sparse_dimension(dimension: SparseDimension) -> Record:
    return _record(
        "DimensionMetadata",
        format=dimension.format,
        dense_size=dimension.dense_size,
        array_segments=_index_vector(dimension.segments_type, dimension.segments),
        array_indices=_index_vector(dimension.indices_type, dimension.indices),
    )


def _index_vector(kind: str | None, values: tuple[int, ...]) -> Record | None:
    if kind is None:
        return None
    return _record(kind, values=bytes(values) if kind == "Uint8Vector" else values)


def _operator(operator: Operator) -> Record:
    options = _options(operator.options)
    return _record(
        "Operator",
        opcode_index=operator.opcode_index,
        inputs=operator.inputs,
        outputs=operator.outputs,
        builtin_options=None if operator.options_in_2 else options,
        custom_options=operator.custom_options,
        mutating_variable_inputs=operator.mutating_variable_inputs or None,
        intermediates=operator.intermediates or None,
        builtin_options_2=options if operator.options_in_2 else None,
        debug_metadata_index=operator.debug_metadata_index,
    )


def _options(options: Options | None) -> Record | None:
    return None if options is None else Record(options.table, 0, dict(options.fields))


def _signature(signature: Signature) -> Record:
    return _record(
        "SignatureDef",
        inputs=[_record("TensorMap", name=name, tensor_index=index) for name, index in signature.inputs],
        outputs=[_record("TensorMap", name=name, tensor_index=index) for name, index in signature.outputs],
        signature_key=signature.key,
        subgraph_index=signature.subgraph,
    )
