"""The checks of a well-formed file beyond intact tables: indices, shapes, sizes and lengths.

The reader applies these checks to the tables of tensors, operators and subgraphs (`model/rules.py` has those of each
operator code). They are the rules by which LiteRT loads a model; TFLM checks none of them on the device.

Constants that contain indices into another tensor are checked, too, because a kernel reads or writes wherever they
point: LiteRT checks them when it runs the model, TFLM hardly at all (CVE-2020-15212, -15213, -15214, CVE-2021-37687).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from struct import iter_unpack
from typing import NoReturn

from edgetool.errors import InvalidModelError, UnsupportedModelError
from edgetool.model.flatbuffer import DAMAGED, Record
from edgetool.model.schema import OPTION_TABLES, table
from edgetool.model.types import DType, Operator, Tensor

MAX_TENSOR_BYTES = 2**31  # kernels use signed 32-bit integers
MAX_DIMENSIONS = 254  # TensorFlow's own limit
MAX_NAME_SHOWN = 60
OTHER_CONVERTER = "convert the model again without this feature"


def where(name: str, record: Record, field: str) -> str:
    """Return the location of a field in a file for messages, with the table's name if it has one."""
    own = record.fields.get("name")
    called = f" {own[:MAX_NAME_SHOWN]!a}" if own else ""
    return f"{name}: {record.table}{called} at byte {record.at}, field {field}"


def invalid(name: str, record: Record, field: str, what: str) -> NoReturn:
    """Reject a file that breaks a rule."""
    raise InvalidModelError(what, where=where(name, record, field), fix=DAMAGED)


def unsupported(name: str, record: Record, field: str, what: str, fix: str = OTHER_CONVERTER) -> NoReturn:
    """Reject a file with content that edgetool does not support."""
    raise UnsupportedModelError(what, where=where(name, record, field), fix=fix)


def check_indices(name: str, record: Record, counts: Mapping[str, int]) -> None:
    """Check every index in a table's fields against the length of the list into which it points."""
    for field in table(record.table).indices:
        value = record[field.name]
        count = counts[field.index_of]
        lowest = -1 if field.optional else 0
        for index in value if isinstance(value, tuple) else (value,):
            if not lowest <= index < count:
                invalid(name, record, field.name, f"there is no {field.index_of} {index}; the file has {count} of them")


def check_shape(name: str, record: Record, shape: Sequence[int], dtype: DType) -> None:
    """Check that no dimension is negative, and that neither their number nor the size overflows."""
    size_bits = max(dtype.bits, 8)
    for dimension in shape:
        if dimension < 0:
            invalid(name, record, "shape", f"a dimension of {dimension}")
        size_bits *= max(dimension, 1)  # other dimensions count even if one is 0: runtimes multiply in order
        if size_bits > MAX_TENSOR_BYTES * 8:
            invalid(name, record, "shape", f"a tensor of more than {MAX_TENSOR_BYTES} bytes")
    if len(shape) > MAX_DIMENSIONS:
        invalid(name, record, "shape", f"{len(shape)} dimensions, more than {MAX_DIMENSIONS}")


def check_shape_signature(name: str, record: Record) -> None:
    """Check that the signature, if there is one, is as long as the shape; -1 is an unknown dimension."""
    signature = record["shape_signature"]
    if signature and len(signature) != len(record["shape"]):
        invalid(name, record, "shape_signature", f"{len(signature)} dimensions for {len(record['shape'])}")
    if any(dimension < -1 for dimension in signature):
        invalid(name, record, "shape_signature", f"a dimension of {min(signature)}")


def check_quantization(name: str, record: Record, shape: Sequence[int]) -> None:
    """Check that there is no scale, one, or one per index of the quantized dimension, and that zero points match.

    There may be as many zero points as scales, or one, or none.
    """
    scales, zero_points = len(record["scale"]), len(record["zero_point"])
    axis = record["quantized_dimension"]
    if zero_points and zero_points != scales and not (zero_points == 1 and scales):
        invalid(name, record, "zero_point", f"{zero_points} zero points for {scales} scales")
    if scales > 1 and 0 <= axis < len(shape) and shape[axis] != scales:
        invalid(name, record, "scale", f"{scales} scales for dimension {axis}, whose size is {shape[axis]}")


def check_sparsity(name: str, record: Record, shape: Sequence[int]) -> None:
    """Check that the traversal order is a permutation, and that segments and indices stay inside each dimension."""
    order, blocks, dimensions = record["traversal_order"], record["block_map"], record["dim_metadata"]
    rank = len(shape)
    if sorted(order) != list(range(rank + len(blocks))):
        invalid(
            name, record, "traversal_order", f"it is not a permutation of {rank} dimensions and {len(blocks)} blocks"
        )
    if any(not 0 <= block < rank for block in blocks):
        invalid(name, record, "block_map", f"a block for a dimension that does not exist in a shape of rank {rank}")
    if len(dimensions) != len(order):
        invalid(name, record, "dim_metadata", f"{len(dimensions)} entries for {len(order)} dimensions")
    for position, dimension in zip(order, dimensions, strict=True):
        size = shape[position if position < rank else blocks[position - rank]]
        _check_sparse_dimension(name, dimension, size)


def _check_sparse_dimension(name: str, record: Record, size: int) -> None:
    if record["format"] == "DENSE":
        if not 0 <= record["dense_size"] <= size:
            invalid(name, record, "dense_size", f"{record['dense_size']}, but the dimension has size {size}")
        return
    if record["format"] != "SPARSE_CSR":
        unsupported(name, record, "format", f"a dimension stored in format {record['format']}")
    segments, indices = vector_values(record["array_segments"]), vector_values(record["array_indices"])
    rising = all(a <= b for a, b in pairwise(segments))
    if not segments or segments[0] != 0 or segments[-1] != len(indices) or not rising:
        invalid(name, record, "array_segments", f"they do not partition the {len(indices)} indices")
    if any(not 0 <= index < size for index in indices):
        invalid(name, record, "array_indices", f"an index outside a dimension of size {size}")


def vector_values(record: Record | None) -> tuple[int, ...]:
    """Return the numbers of an Int32Vector, Uint16Vector or Uint8Vector."""
    return tuple(record["values"]) if record else ()


def check_data(name: str, record: Record, data: bytes, size_bytes: int, dtype: DType) -> None:
    """Check that a constant is as long as its shape requires, unless it is sparse or its type has no width.

    A variable must not be constant: TFLM would allocate zeroed memory for it, but kernels would read the file.
    """
    if record["is_variable"]:
        invalid(name, record, "is_variable", f"a variable with {len(data)} bytes of data")
    if dtype.bits and not record["sparsity"] and len(data) != size_bytes:
        shape = list(record["shape"])
        invalid(name, record, "buffer", f"{len(data)} bytes of data for {dtype.name} {shape}, which needs {size_bytes}")


def check_option_table(name: str, record: Record, code: str, options: str) -> None:
    """Check that an operator's options are in the table that the schema defines for it."""
    expected = OPTION_TABLES.get(code, options)
    if options != expected and table(expected).fields:
        invalid(name, record, "builtin_options", f"{code} has {options} instead of {expected}")


def called_subgraphs(options: Record) -> set[int]:
    """Return the subgraphs to which an option table refers."""
    called: set[int] = set()
    for field in table(options.table).indices:
        if field.index_of == "subgraph":
            value = options[field.name]
            called.update(value if isinstance(value, tuple) else (value,))
    return called


def check_calls(name: str, calls: Mapping[int, set[int]]) -> None:
    """Check that no subgraph runs itself, directly or through others: runtimes would never return.

    calls: the subgraphs to which each subgraph's operators refer.
    """
    try:
        TopologicalSorter(calls).prepare()
    except CycleError as error:
        cycle: list[int] = error.args[1]
        chain = " calls ".join(map(str, cycle[::-1][:8]))
        raise InvalidModelError(
            f"subgraph {chain}{' ...' if len(cycle) > 8 else ''}", where=f"{name}: subgraphs", fix=DAMAGED
        ) from None


_LETTERS = {DType.INT16: "h", DType.INT32: "i", DType.INT64: "q"}

# The lengths into which the columns of the last dimension of the indices point: one for each, or one for all.
Lengths = Callable[[Operator, Sequence[int]], Sequence[int]]


@dataclass(frozen=True, slots=True)
class _IndexRule:
    """indices: the input that contains them. into: the input into which they point, or None for the first output."""

    indices: int
    into: int | None
    lengths: Lengths
    ascending: bool = False


def _first(operator: Operator, shape: Sequence[int]) -> Sequence[int]:
    return shape[:1]


def _every(operator: Operator, shape: Sequence[int]) -> Sequence[int]:
    return shape


def _along_axis(operator: Operator, shape: Sequence[int]) -> Sequence[int]:
    axis = operator.options.integer("axis") if operator.options else 0
    return (shape[axis],) if -len(shape) <= axis < len(shape) else ()


_INDEX_RULES = {
    "EMBEDDING_LOOKUP": _IndexRule(0, 1, _first),
    "GATHER": _IndexRule(1, 0, _along_axis),
    "GATHER_ND": _IndexRule(1, 0, _every),
    "SCATTER_ND": _IndexRule(0, None, _every),
    "SEGMENT_SUM": _IndexRule(1, None, _first, ascending=True),
}


def check_index_values(name: str, record: Record, operator: Operator, tensors: Sequence[Tensor]) -> None:
    """Check that every constant index points into its tensor, and that segment IDs ascend.

    Raises InvalidModelError. Other checks reject operators without these tensors.
    """
    rule = _INDEX_RULES.get(operator.code)
    if rule is None:
        return
    indices = _tensor(operator.inputs, rule.indices, tensors)
    into = _tensor(operator.outputs, 0, tensors) if rule.into is None else _tensor(operator.inputs, rule.into, tensors)
    if indices is None or into is None or indices.sparsity or not indices.data or indices.dtype not in _LETTERS:
        return
    values = [value for (value,) in iter_unpack(f"<{_LETTERS[indices.dtype]}", indices.data)]
    lengths = rule.lengths(operator, into.shape)
    step = indices.shape[-1] if rule.lengths is _every and indices.shape else 1
    for column, length in enumerate(lengths[:step]):
        wrong = next((value for value in values[column::step] if not 0 <= value < length), None)
        if wrong is not None:
            invalid(name, record, "inputs", f"index {wrong} of {operator.code} is outside a dimension of size {length}")
    if rule.ascending and any(a > b for a, b in pairwise(values)):
        invalid(name, record, "inputs", f"the segment IDs of {operator.code} are not in ascending order")


def _tensor(indices: Sequence[int], position: int, tensors: Sequence[Tensor]) -> Tensor | None:
    """Return the tensor at a position of the inputs or outputs; None if there is none."""
    return tensors[indices[position]] if position < len(indices) and indices[position] >= 0 else None
