"""Hypothesis strategies for small Models: anything that the types and the reader's rules allow.

Operators are of kinds that have no rules of their own, with options of any kind.
"""

from __future__ import annotations

from math import prod
from typing import Any

from hypothesis import strategies as st

from edgetool.model.rules import COUNTS, RULES
from edgetool.model.schema import BUILTIN_OPERATORS, OPTION_TABLES, UNIONS, Field, table
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

MAX_GRAPHS = 3
INT32 = st.integers(-(2**31), 2**31 - 1)
FLOAT32 = st.floats(width=32, allow_nan=False)
NAMES = st.text(max_size=8)
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "i32": INT32,
    "u32": st.integers(0, 2**32 - 1),
    "i64": st.integers(-(2**63), 2**63 - 1),
    "f32": FLOAT32,
}
CODES = sorted(set(BUILTIN_OPERATORS) - {"PLACEHOLDER_FOR_GREATER_OP_CODES"})
FREE_CODES = sorted(set(CODES) - COUNTS.keys() - RULES.keys() - {"CUSTOM"})
OPTIONS = sorted(name for union in ("BuiltinOptions", "BuiltinOptions2") for name in UNIONS[union][1:])
VECTORS = {"Int32Vector": 2**31 - 1, "Uint16Vector": 2**16 - 1, "Uint8Vector": 2**8 - 1}


def tuples(elements: st.SearchStrategy[Any], **sizes: Any) -> st.SearchStrategy[Any]:
    return st.lists(elements, **{"max_size": 3, **sizes}).map(tuple)


def option_values(field: Field, counts: dict[str, int], graph: int) -> st.SearchStrategy[Any]:
    """Values of one field. A subgraph calls only later ones."""
    if field.kind == "string":
        return st.none() | NAMES
    if field.kind == "bytes":
        return st.binary(max_size=5)
    if field.enumeration:
        values = st.sampled_from(field.enumeration.names) | st.just(100)
    elif field.index_of == "subgraph":
        values = st.integers(graph + 1, counts["subgraph"] - 1)
    elif field.index_of:
        values = st.integers(-1 if field.optional else 0, counts[field.index_of] - 1)
    else:
        values = SCALARS[field.scalar]
    return values if field.kind == "scalar" else tuples(values)


@st.composite
def option_tables(draw: Any, name: str, counts: dict[str, int], graph: int) -> Options | None:
    fields = [field for field in table(name).fields if field.kind != "deprecated"]
    for field in fields:
        if field.index_of and counts[field.index_of] <= (graph + 1 if field.index_of == "subgraph" else 0):
            return None
    return Options(name, tuple((field.name, draw(option_values(field, counts, graph))) for field in fields))


@st.composite
def quantizations(draw: Any, shape: tuple[int, ...], counts: dict[str, int]) -> Quantization | None:
    axis = draw(st.integers(-1, 4))
    count = shape[axis] if 0 <= axis < len(shape) else draw(st.integers(0, 3))
    scales = tuple(draw(st.lists(FLOAT32, min_size=count, max_size=count)))
    zero_points = tuple(draw(SCALARS["i64"]) for _ in scales) if draw(st.booleans()) else ()
    minimum, maximum = draw(tuples(FLOAT32)), draw(tuples(FLOAT32))
    name = draw(st.none() | st.sampled_from(UNIONS["QuantizationDetails"][1:]))
    details = draw(option_tables(name, counts, 0)) if name else None
    if not (scales or minimum or maximum or details):
        return None
    return Quantization(scales, zero_points, axis, minimum, maximum, details)


@st.composite
def sparsities(draw: Any, shape: tuple[int, ...]) -> Sparsity:
    rank = len(shape)
    blocks = draw(tuples(st.integers(0, rank - 1), max_size=2)) if rank else ()
    order = tuple(draw(st.permutations(range(rank + len(blocks)))))
    dimensions = []
    for position in order:
        size = shape[position if position < rank else blocks[position - rank]]
        if draw(st.booleans()):
            dimensions.append(SparseDimension("DENSE", draw(st.integers(0, size))))
            continue
        kinds = [draw(st.sampled_from(sorted(VECTORS))) for _ in range(2)]
        indices = draw(tuples(st.integers(0, size - 1))) if size else ()
        inner = draw(st.lists(st.integers(0, len(indices)), max_size=2))
        segments = (0, *sorted(inner), len(indices))
        dimensions.append(SparseDimension("SPARSE_CSR", 0, segments, indices, *kinds))
    return Sparsity(order, blocks, tuple(dimensions))


@st.composite
def tensors(draw: Any, index: int, counts: dict[str, int], data: list[bytes | None]) -> Tensor:
    """A tensor; the payload of a constant is added to `data`."""
    shape, dtype = draw(SHAPES), draw(st.sampled_from(DType))
    sparsity = draw(sparsities(shape)) if draw(st.integers(0, 4)) == 0 else None
    size_bytes = (prod(shape) * dtype.bits + 7) // 8
    if sparsity or not dtype.bits:
        size_bytes = draw(st.integers(1, 20))
    payload = None
    if size_bytes and draw(st.booleans()):
        payload = draw(st.binary(min_size=size_bytes, max_size=size_bytes))
        data.append(payload)
    signature = tuple(draw(st.sampled_from((-1, dimension))) for dimension in shape) if draw(st.booleans()) else ()
    return Tensor(
        index=index,
        name=draw(NAMES),
        shape=shape,
        dtype=dtype,
        data=payload,
        quantization=draw(quantizations(shape, counts)),
        is_variable=payload is None and draw(st.booleans()),
        buffer=len(data) - 1 if payload else 0,
        shape_signature=signature,
        has_rank=draw(st.booleans()),
        sparsity=sparsity,
        variant_types=draw(
            tuples(st.builds(VariantType, tuples(st.integers(-1, 9)), st.sampled_from(DType), st.booleans()))
        ),
    )


@st.composite
def operators(draw: Any, index: int, codes: tuple[OperatorCode, ...], counts: dict[str, int], graph: int) -> Operator:
    free = [position for position, entry in enumerate(codes) if entry.code in (*FREE_CODES, "CUSTOM")]
    opcode_index = draw(st.sampled_from(free))
    entry = codes[opcode_index]
    any_tensor = st.integers(0, counts["tensor"] - 1)
    inputs = draw(tuples(st.integers(-1, counts["tensor"] - 1)))
    options = None
    if draw(st.booleans()):
        own = OPTION_TABLES.get(entry.code)
        options = draw(option_tables(own or draw(st.sampled_from(OPTIONS)), counts, graph))
    return Operator(
        index=index,
        code=entry.code,
        version=entry.version,
        inputs=inputs,
        outputs=tuple(index for index in draw(tuples(any_tensor)) if index not in inputs),
        options=options,
        opcode_index=opcode_index,
        custom_code=entry.custom_code,
        custom_options=draw(st.none() | st.binary(min_size=1, max_size=5)),
        intermediates=draw(tuples(any_tensor)),
        mutating_variable_inputs=draw(tuples(st.booleans())),
        options_in_2=options is not None and options.table in UNIONS["BuiltinOptions2"],
        debug_metadata_index=draw(INT32),
    )


@st.composite
def operator_codes(draw: Any, among: list[str]) -> OperatorCode:
    code = draw(st.sampled_from(among) | st.just("CUSTOM"))
    name = NAMES.filter(bool)
    return OperatorCode(code, draw(INT32), draw(name if code == "CUSTOM" else st.none() | name))


@st.composite
def models(draw: Any) -> Model:
    """A Model of up to three subgraphs of up to four tensors and three operators each."""
    data: list[bytes | None] = [None, *draw(st.lists(st.none() | st.binary(min_size=1, max_size=40), max_size=2))]
    codes = (draw(operator_codes(FREE_CODES)), *draw(st.lists(operator_codes(CODES), max_size=2)))
    graph_count = draw(st.integers(1, MAX_GRAPHS))
    graphs = []
    for index in range(graph_count):
        counts = {"subgraph": graph_count, "tensor": draw(st.integers(1, 4))}
        any_tensor = st.integers(0, counts["tensor"] - 1)
        graphs.append(
            Graph(
                index=index,
                name=draw(NAMES),
                tensors=tuple(draw(tensors(i, counts, data)) for i in range(counts["tensor"])),
                operators=tuple(draw(operators(i, codes, counts, index)) for i in range(draw(st.integers(0, 3)))),
                inputs=draw(tuples(any_tensor)),
                outputs=draw(tuples(any_tensor)),
                debug_metadata_index=draw(INT32),
            )
        )
    any_buffer = st.integers(0, len(data) - 1)
    buffers = draw(st.lists(any_buffer, max_size=2))
    signatures = []
    for subgraph in draw(st.lists(st.integers(0, graph_count - 1), max_size=2)):
        named = tuples(st.tuples(NAMES, st.integers(0, len(graphs[subgraph].tensors) - 1)))
        signatures.append(Signature(draw(NAMES), subgraph, draw(named), draw(named)))
    return Model(
        version=3,
        description=draw(NAMES),
        operator_codes=codes,
        subgraphs=tuple(graphs),
        data=tuple(data),
        metadata=tuple(Metadata(draw(NAMES), data[buffer] or b"", buffer) for buffer in buffers),
        signatures=tuple(signatures),
        metadata_buffer=draw(tuples(any_buffer)),
    )
