"""Reads a .tflite file as a Model and checks every index and size."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgetool.errors import InvalidModelError
from edgetool.model import checks
from edgetool.model.checks import check_index_values
from edgetool.model.file_kinds import file_kind
from edgetool.model.flatbuffer import Record, read_root
from edgetool.model.rules import Node, check_counts, check_operator, has_unknown_sizes
from edgetool.model.schema import BUILTIN_OPERATORS, FILE_IDENTIFIER, VERSION
from edgetool.model.types import (
    DType,
    Graph,
    Metadata,
    Model,
    Operator,
    OperatorCode,
    Options,
    Quantization,
    Signature,
    SparseDimension,
    Sparsity,
    Tensor,
    VariantType,
)

NEWER_RUNTIME = "it was written for a newer runtime: export it with an older converter"
PLACEHOLDER_CODE = 127  # the value of the old one-byte field for every operator with a higher code


def read_model(blob: bytes, *, name: str = "model") -> Model:
    """Return the model in a .tflite file; `name` stands for the file in messages.

    Raises InvalidModelError if this is not a valid .tflite file, and UnsupportedModelError if a valid file contains
    something that edgetool does not support: operators and types newer than this schema, and contents outside the
    flatbuffer.
    """
    blob = bytes(blob)
    _check_format(blob, name)
    root, unknown_fields = read_root(blob, "Model", name)
    if root["version"] != VERSION:
        checks.unsupported(name, root, "version", f"version {root['version']}, not {VERSION}", NEWER_RUNTIME)
    for field in ("external_buffers", "external_buffer_groups"):
        if root[field]:
            checks.unsupported(name, root, field, "the constants are in another file")
    return _model(name, root, unknown_fields)


def _check_format(blob: bytes, name: str) -> None:
    """Reject other kinds of files, with advice for each."""
    if not blob:
        raise InvalidModelError("the file is empty", where=name, fix="export the model again")
    if blob[4:8] == FILE_IDENTIFIER:
        return
    kind = file_kind(blob)
    raise InvalidModelError(
        f"this is {kind.what}, not a .tflite model" if kind is not None else "this is not a .tflite model",
        where=name,
        fix=kind.advice(name) if kind is not None else "use a .tflite file, which has TFL3 in bytes 4 to 7",
    )


@dataclass(frozen=True, slots=True)
class _File:
    """The context for reading parts of a file. counts: the lengths of the lists that indices point into."""

    name: str
    data: tuple[bytes | None, ...]
    operator_codes: tuple[OperatorCode, ...]
    counts: dict[str, int]

    def check_indices(self, record: Record, tensors: int) -> None:
        checks.check_indices(self.name, record, {**self.counts, "tensor": tensors})


def _model(name: str, root: Record, unknown_fields: tuple[str, ...]) -> Model:
    data = tuple(_payload(name, record) for record in root["buffers"])
    if data and data[0] is not None:
        checks.invalid(
            name, root["buffers"][0], "data", "the first buffer must be empty: it represents tensors without data"
        )
    if not root["subgraphs"]:
        checks.invalid(name, root, "subgraphs", "the model has no subgraph")
    operator_codes = tuple(_operator_code(name, record) for record in root["operator_codes"])
    counts = {"buffer": len(data), "operator_code": len(operator_codes), "subgraph": len(root["subgraphs"])}
    file = _File(name, data, operator_codes, counts)
    file.check_indices(root, 0)
    calls: dict[int, set[int]] = {}
    graphs = tuple(_graph(file, i, record, calls) for i, record in enumerate(root["subgraphs"]))
    if calls:
        checks.check_calls(name, calls)
    return Model(
        version=root["version"],
        description=root["description"] or "",
        operator_codes=operator_codes,
        subgraphs=graphs,
        data=data,
        metadata=tuple(_metadata(file, record) for record in root["metadata"]),
        signatures=tuple(_signature(file, record, graphs) for record in root["signature_defs"]),
        metadata_buffer=root["metadata_buffer"],
        unknown_fields=unknown_fields,
    )


def _payload(name: str, record: Record) -> bytes | None:
    for field in ("offset", "size"):
        if record[field] > 1:  # the schema's own limit: 0 and 1 stand for none
            checks.unsupported(name, record, field, "a constant is stored outside the flatbuffer")
    return record["data"] or None


def _operator_code(name: str, record: Record) -> OperatorCode:
    """Return the code: the larger of two fields; files from before 2020 have only the deprecated one."""
    number = max(record["deprecated_builtin_code"], record["builtin_code"])
    if not 0 <= number < len(BUILTIN_OPERATORS) or number == PLACEHOLDER_CODE:
        checks.unsupported(name, record, "builtin_code", f"unknown operator code {number}", NEWER_RUNTIME)
    code = BUILTIN_OPERATORS[number]
    if code == "CUSTOM" and not record["custom_code"]:
        checks.invalid(name, record, "custom_code", "a custom operator without a name")
    return OperatorCode(code, record["version"], record["custom_code"])


def _graph(file: _File, index: int, record: Record, calls: dict[int, set[int]]) -> Graph:
    """Return a subgraph, and add the subgraphs that its operators call to `calls`."""
    tensors = tuple(_tensor(file, i, part, len(record["tensors"])) for i, part in enumerate(record["tensors"]))
    file.check_indices(record, len(tensors))
    return Graph(
        index=index,
        name=record["name"] or "",
        tensors=tensors,
        operators=tuple(
            _operator(file, i, part, tensors, calls.setdefault(index, set()))
            for i, part in enumerate(record["operators"])
        ),
        inputs=record["inputs"],
        outputs=record["outputs"],
        debug_metadata_index=record["debug_metadata_index"],
    )


def _dtype(name: str, record: Record) -> DType:
    if not isinstance(record["type"], str):
        checks.unsupported(name, record, "type", f"unknown tensor type {record['type']}", NEWER_RUNTIME)
    return DType[record["type"]]


def _tensor(file: _File, index: int, record: Record, tensors: int) -> Tensor:
    name = file.name
    file.check_indices(record, tensors)
    if record["external_buffer"]:
        checks.unsupported(name, record, "external_buffer", "a constant is stored in another file")
    dtype = _dtype(name, record)
    shape: tuple[int, ...] = record["shape"]
    checks.check_shape(name, record, shape, dtype)
    checks.check_shape_signature(name, record)
    data = file.data[record["buffer"]]
    tensor = Tensor(
        index=index,
        name=record["name"] or "",
        shape=shape,
        dtype=dtype,
        data=data,
        quantization=_quantization(file, record["quantization"], shape, tensors),
        is_variable=record["is_variable"],
        buffer=record["buffer"],
        shape_signature=record["shape_signature"],
        has_rank=record["has_rank"],
        sparsity=_sparsity(name, record["sparsity"], shape),
        variant_types=tuple(
            VariantType(part["shape"], _dtype(name, part), part["has_rank"]) for part in record["variant_tensors"]
        ),
    )
    if data is not None:
        checks.check_data(name, record, data, tensor.size_bytes, dtype)
    return tensor


def _quantization(file: _File, record: Record | None, shape: tuple[int, ...], tensors: int) -> Quantization | None:
    """Return the parameters; None if the table is absent or empty, as converters write it for float tensors."""
    if record is None:
        return None
    checks.check_quantization(file.name, record, shape)
    details: Record | None = record["details"]
    if details is not None:
        file.check_indices(details, tensors)
    if not (record["scale"] or record["min"] or record["max"] or details):
        return None
    return Quantization(
        scales=record["scale"],
        zero_points=record["zero_point"],
        axis=record["quantized_dimension"],
        minimum=record["min"],
        maximum=record["max"],
        details=_options(details),
    )


def _sparsity(name: str, record: Record | None, shape: tuple[int, ...]) -> Sparsity | None:
    if record is None:
        return None
    checks.check_sparsity(name, record, shape)
    dimensions = tuple(_sparse_dimension(part) for part in record["dim_metadata"])
    return Sparsity(record["traversal_order"], record["block_map"], dimensions)


def _sparse_dimension(record: Record) -> SparseDimension:
    segments, indices = record["array_segments"], record["array_indices"]
    return SparseDimension(
        format=record["format"],
        dense_size=record["dense_size"],
        segments=checks.vector_values(segments),
        indices=checks.vector_values(indices),
        segments_type=segments.table if segments else None,
        indices_type=indices.table if indices else None,
    )


def _operator(file: _File, index: int, record: Record, tensors: tuple[Tensor, ...], calls: set[int]) -> Operator:
    """Return an operator, and add the subgraphs that it calls to `calls`."""
    name = file.name
    file.check_indices(record, len(tensors))
    for field in ("large_custom_options_offset", "large_custom_options_size"):
        if record[field] > 1:
            checks.unsupported(name, record, field, "custom options are stored outside the flatbuffer")
    if record["custom_options_format"] != "FLEXBUFFERS":
        checks.unsupported(name, record, "custom_options_format", "an unknown format", NEWER_RUNTIME)
    first, second = record["builtin_options"], record["builtin_options_2"]
    if first is not None and second is not None:
        checks.unsupported(name, record, "builtin_options_2", "an operator with two option tables")
    options: Record | None = first if first is not None else second
    if options is not None:
        file.check_indices(options, len(tensors))
        calls |= checks.called_subgraphs(options)
    code = file.operator_codes[record["opcode_index"]]
    if options is not None:
        checks.check_option_table(name, record, code.code, options.table)
    inputs = tuple(tensors[i] if i >= 0 else None for i in record["inputs"])
    node = Node(name, record, code.code, inputs, tuple(tensors[i] for i in record["outputs"]), options)
    check_counts(node)
    operator = Operator(
        index=index,
        code=code.code,
        version=code.version,
        inputs=record["inputs"],
        outputs=record["outputs"],
        options=_options(options),
        opcode_index=record["opcode_index"],
        custom_code=code.custom_code,
        custom_options=record["custom_options"] or None,
        intermediates=record["intermediates"],
        mutating_variable_inputs=record["mutating_variable_inputs"],
        options_in_2=second is not None,
        debug_metadata_index=record["debug_metadata_index"],
    )
    try:
        check_operator(node)
        check_index_values(name, record, operator, tensors)
    except InvalidModelError as error:
        if not has_unknown_sizes(node):
            raise
        return replace(operator, shape_conflict=error.what)
    return operator


def _options(record: Record | None) -> Options | None:
    return None if record is None else Options(record.table, tuple(record.fields.items()))


def _metadata(file: _File, record: Record) -> Metadata:
    file.check_indices(record, 0)
    buffer = record["buffer"]
    return Metadata(record["name"] or "", file.data[buffer] or b"", buffer)


def _signature(file: _File, record: Record, graphs: tuple[Graph, ...]) -> Signature:
    file.check_indices(record, 0)
    tensors = len(graphs[record["subgraph_index"]].tensors)
    return Signature(
        key=record["signature_key"] or "",
        subgraph=record["subgraph_index"],
        inputs=tuple(_named_tensor(file, part, tensors) for part in record["inputs"]),
        outputs=tuple(_named_tensor(file, part, tensors) for part in record["outputs"]),
    )


def _named_tensor(file: _File, record: Record, tensors: int) -> tuple[str, int]:
    file.check_indices(record, tensors)
    return record["name"] or "", record["tensor_index"]
