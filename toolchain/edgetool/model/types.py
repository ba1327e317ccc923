"""A .tflite model as plain immutable values, with indices instead of pointers.

The names are those of the schema, with one exception: a flatbuffer "Buffer" (a constant payload) is `data` here,
because a buffer is a part of the arena everywhere else in edgetool.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import TypeAlias


class DType(Enum):
    """An element type of the .tflite schema: its code there and its width in bits.

    STRING, RESOURCE and VARIANT have no fixed width; theirs is 0.
    """

    FLOAT32 = (0, 32)
    FLOAT16 = (1, 16)
    INT32 = (2, 32)
    UINT8 = (3, 8)
    INT64 = (4, 64)
    STRING = (5, 0)
    BOOL = (6, 8)
    INT16 = (7, 16)
    COMPLEX64 = (8, 64)
    INT8 = (9, 8)
    FLOAT64 = (10, 64)
    COMPLEX128 = (11, 128)
    UINT64 = (12, 64)
    RESOURCE = (13, 0)
    VARIANT = (14, 0)
    UINT32 = (15, 32)
    UINT16 = (16, 16)
    INT4 = (17, 4)
    BFLOAT16 = (18, 16)
    INT2 = (19, 2)
    UINT4 = (20, 4)
    FLOAT8_E4M3FN = (21, 8)
    FLOAT8_E5M2 = (22, 8)

    def __init__(self, code: int, bits: int) -> None:
        self.code = code
        self.bits = bits


# A nested table reads as an Options value, a vector of tables as a tuple of them.
OptionValue: TypeAlias = (
    "bool | int | float | str | bytes | Options"
    " | tuple[int, ...] | tuple[float, ...] | tuple[str | int, ...] | tuple[Options, ...] | None"
)


@dataclass(frozen=True, slots=True)
class Options:
    """One option table of the schema: its name ("Conv2DOptions") and every field with its value.

    Fields that the file omits have the schema's default. An enumeration is its value's name ("SAME"), or the number if
    the schema has no name for it.
    """

    table: str
    fields: tuple[tuple[str, OptionValue], ...]

    def __getitem__(self, name: str) -> OptionValue:
        for field, value in self.fields:
            if field == name:
                return value
        raise KeyError(f"{self.table} has no field {name}")

    def integer(self, name: str) -> int:
        """Return the field as an integer. Raises TypeError for another kind."""
        value = self[name]
        if not isinstance(value, int):
            raise TypeError(f"{self.table}.{name} is {value!r}, not an integer")
        return value

    def text(self, name: str) -> str:
        """Return the field as text: the name of an enumeration's value, or a string."""
        return str(self[name])


@dataclass(frozen=True, slots=True)
class Quantization:
    """real = scale * (quantized - zero_point), per tensor or per index of dimension `axis`.

    There are as many zero_points as scales, one for all of them, or none (all 0); a tensor that only
    records its range has neither. `details` is a further quantization table, if the file has one.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int
    minimum: tuple[float, ...] = ()
    maximum: tuple[float, ...] = ()
    details: Options | None = None

    @property
    def per_channel(self) -> bool:
        """Whether each index of `axis` has its own scale."""
        return len(self.scales) > 1

    @property
    def per_tensor(self) -> tuple[float, int] | None:
        """The scale and zero point of the whole tensor; None if each channel has its own, or if there is no scale."""
        if len(self.scales) != 1:
            return None
        return self.scales[0], self.zero_points[0] if self.zero_points else 0


@dataclass(frozen=True, slots=True)
class SparseDimension:
    """One dimension of a sparse tensor: "DENSE" with its size, or "SPARSE_CSR" with segments and indices.

    The *_type fields keep the width in which the file stores the vector ("Int32Vector", ...).
    """

    format: str
    dense_size: int
    segments: tuple[int, ...] = ()
    indices: tuple[int, ...] = ()
    segments_type: str | None = None
    indices_type: str | None = None


@dataclass(frozen=True, slots=True)
class Sparsity:
    """How a sparse constant is stored (the schema's SparsityParameters)."""

    traversal_order: tuple[int, ...]
    block_map: tuple[int, ...]
    dimensions: tuple[SparseDimension, ...]


@dataclass(frozen=True, slots=True)
class VariantType:
    """The contents of a VARIANT tensor."""

    shape: tuple[int, ...]
    dtype: DType
    has_rank: bool


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor. `data` is a constant's bytes, None for a tensor in the arena.

    `shape_signature` repeats the shape with -1 for dimensions that were unknown; it is empty if the
    file has none. `buffer` is the index of the payload in Model.data.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: DType
    data: bytes | None
    quantization: Quantization | None
    is_variable: bool
    buffer: int = 0
    shape_signature: tuple[int, ...] = ()
    has_rank: bool = False
    sparsity: Sparsity | None = None
    variant_types: tuple[VariantType, ...] = ()

    @property
    def element_count(self) -> int:
        """The product of the shape; 1 for a scalar."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """The size of the elements if dense, with types below a byte packed; 0 for types without a width."""
        return (self.element_count * self.dtype.bits + 7) // 8

    @property
    def per_tensor(self) -> tuple[float, int] | None:
        """The scale and zero point of all elements; None if there is no such pair."""
        return None if self.quantization is None else self.quantization.per_tensor

    @property
    def is_constant(self) -> bool:
        """Whether the file contains its elements."""
        return self.data is not None


# Operators that only change how numbers are stored.
CONVERSIONS = frozenset(["DEQUANTIZE", "QUANTIZE"])


@dataclass(frozen=True, slots=True)
class Operator:
    """A node. `code` is the schema's name ("CONV_2D", "CUSTOM"); -1 marks an omitted optional input.

    `options` is its built-in option table, None if it has none. `custom_options` belong to custom operators only.
    `options_in_2` says that the file has the table in the field builtin_options_2. `shape_conflict` describes how the
    recorded shapes contradict each other, for operators whose sizes are known only at run time; it is empty for all
    others.
    """

    index: int
    code: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Options | None
    opcode_index: int = 0
    custom_code: str | None = None
    custom_options: bytes | None = None
    intermediates: tuple[int, ...] = ()
    mutating_variable_inputs: tuple[bool, ...] = ()
    options_in_2: bool = False
    debug_metadata_index: int = -1
    shape_conflict: str = ""

    @property
    def label(self) -> str:
        """The code; for a custom operator its custom code."""
        return self.custom_code if self.code == "CUSTOM" and self.custom_code else self.code


@dataclass(frozen=True, slots=True)
class OperatorCode:
    """An entry of the operator table: a built-in code by name, a version, and a custom operator's name."""

    code: str
    version: int
    custom_code: str | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """A subgraph: tensors, operators in execution order, and the indices of its inputs and outputs."""

    index: int
    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    debug_metadata_index: int = -1


@dataclass(frozen=True, slots=True)
class Signature:
    """A named entry point: pairs of argument name and tensor index."""

    key: str
    subgraph: int
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Metadata:
    """A named payload; `buffer` is its index in Model.data."""

    name: str
    data: bytes
    buffer: int


@dataclass(frozen=True, slots=True)
class Model:
    """A .tflite file. `data` contains every payload (None for an empty one); tensors refer to the same objects.

    `unknown_fields` names fields that this schema lacks ("Operator.field 13"): they are not kept
    when the model is written again, so the writer refuses such a model.
    """

    version: int
    description: str
    operator_codes: tuple[OperatorCode, ...]
    subgraphs: tuple[Graph, ...]
    data: tuple[bytes | None, ...]
    metadata: tuple[Metadata, ...] = ()
    signatures: tuple[Signature, ...] = ()
    metadata_buffer: tuple[int, ...] = ()
    unknown_fields: tuple[str, ...] = ()

    def argument_name(self, subgraph: int, tensor: int) -> str | None:
        """Return the author's name of an input or output in the signature; None if there is none."""
        for signature in self.signatures:
            if signature.subgraph == subgraph:
                for name, index in (*signature.inputs, *signature.outputs):
                    if index == tensor:
                        return name
        return None

    @property
    def tensor_keys(self) -> tuple[tuple[int, int], ...]:
        """Return (subgraph, tensor) of all tensors, subgraph by subgraph."""
        return tuple((graph.index, tensor.index) for graph in self.subgraphs for tensor in graph.tensors)

    @property
    def main(self) -> Graph:
        """The subgraph that Invoke runs."""
        return self.subgraphs[0]
