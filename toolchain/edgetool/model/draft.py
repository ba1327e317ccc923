"""A mutable draft of one subgraph. Operators and tensors are identified by index; `finish` returns the new model.

Indices are never reused or renumbered in a draft, so a rewrite can store them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from edgetool.errors import UnsupportedModelError
from edgetool.model.edit import without_metadata
from edgetool.model.schema import OPTION_TABLES, UNIONS, table
from edgetool.model.types import (
    DType,
    Model,
    Operator,
    OperatorCode,
    Options,
    OptionValue,
    Quantization,
    Signature,
    Tensor,
)
from edgetool.model.views import VIEWS_METADATA_NAME

Array = npt.NDArray[Any]

OFFLINE_PLAN = "OfflineMemoryAllocation"  # it has one offset per tensor, so any change invalidates it
# How a file stores the elements of a constant.
STORED: dict[DType, np.dtype[Any]] = {
    DType.FLOAT32: np.dtype("<f4"),
    DType.FLOAT16: np.dtype("<f2"),
    DType.FLOAT64: np.dtype("<f8"),
    DType.INT8: np.dtype("i1"),
    DType.INT16: np.dtype("<i2"),
    DType.INT32: np.dtype("<i4"),
    DType.INT64: np.dtype("<i8"),
    DType.UINT8: np.dtype("u1"),
    DType.UINT16: np.dtype("<u2"),
    DType.UINT32: np.dtype("<u4"),
    DType.UINT64: np.dtype("<u8"),
    DType.BOOL: np.dtype("?"),
}
_Constant: TypeAlias = tuple[tuple[int, ...], DType, Quantization | None, bytes | None]
_OF_NUMPY = {stored: dtype for dtype, stored in STORED.items()}


class Draft:
    """One subgraph of a model while it is being changed.

    tensors: may be replaced in place (`draft.tensors[i] = replace(...)`), never removed: `finish` drops unused
      tensors. inputs, outputs: the graph's own, in order; change them by `replace_input` and `redirect`, which the
      signatures follow.
    Operators are identified by their index, and `make` always assigns a new one, so an Operator obtained before its
    inputs changed still refers to the same operator.
    """

    def __init__(self, model: Model, subgraph: int = 0) -> None:
        graph = model.subgraphs[subgraph]
        self.model = model
        self.subgraph = subgraph
        self.tensors: list[Tensor] = list(graph.tensors)
        self.inputs: list[int] = list(graph.inputs)
        self.outputs: list[int] = list(graph.outputs)
        self._operators: list[Operator] = list(graph.operators)
        self._signatures: list[Signature] = list(model.signatures)
        self._payloads: list[bytes | None] = list(model.data) or [None]
        self._new_payloads: dict[bytes, int] = {}
        self._constants: dict[_Constant, int] = {}
        self._name_counts: dict[str, int] = {tensor.name: 1 for tensor in graph.tensors}
        self._next = max((operator.index for operator in graph.operators), default=-1) + 1
        self._producers: dict[int, Operator] | None = None
        self._consumers: dict[int, list[Operator]] | None = None
        self._places: dict[int, int] | None = None

    # Queries

    @property
    def operators(self) -> list[Operator]:
        """The operators in execution order. Only the methods of this class change them."""
        return self._operators

    def operator(self, index: int) -> Operator | None:
        """Return the operator with that index in its current state; None if it was removed."""
        place = self._by_index().get(index)
        return None if place is None else self._operators[place]

    def producer(self, tensor: int) -> Operator | None:
        """Return the operator that writes the tensor; None for a graph input, a constant or a variable."""
        if self._producers is None:
            self._producers = {output: operator for operator in self._operators for output in operator.outputs}
        return self._producers.get(tensor)

    def consumers(self, tensor: int) -> list[Operator]:
        """Return the operators that read the tensor, each once, in execution order."""
        if self._consumers is None:
            self._consumers = {}
            for operator in self._operators:
                for read in dict.fromkeys((*operator.inputs, *operator.intermediates)):
                    self._consumers.setdefault(read, []).append(operator)
        return list(self._consumers.get(tensor, ()))

    def is_before(self, first: Operator, second: Operator) -> bool:
        """Return whether the first operator runs before the second."""
        return self._place(first) < self._place(second)

    def values(self, tensor: int) -> Array | None:
        """Return a constant's elements in its shape; None for computed and sparse tensors and types unknown to numpy.

        An empty tensor also counts as a constant, although the file has no data for it.
        """
        constant = self.tensors[tensor] if tensor >= 0 else None
        if constant is None or constant.dtype not in STORED or constant.sparsity is not None or constant.is_variable:
            return None
        if constant.data is None and (constant.element_count or tensor in self.inputs or self.producer(tensor)):
            return None
        return np.frombuffer(constant.data or b"", STORED[constant.dtype]).reshape(constant.shape)

    # Additions

    def tensor(self, name: str, shape: Sequence[int], dtype: DType, quantization: Quantization | None = None) -> int:
        """Add a tensor to the arena and return its index."""
        return self._add(name, shape, dtype, quantization, None)

    def constant(
        self,
        name: str,
        values: npt.ArrayLike,
        quantization: Quantization | None = None,
        dtype: DType | None = None,
    ) -> int:
        """Return the index of a constant with these values: an earlier equal one, otherwise a new one.

        Constants with equal bytes share one payload. dtype: by default, that of the values. Raises ValueError if
        `dtype` cannot represent a value, KeyError for a type that numpy lacks.
        """
        given = np.asarray(values)
        kind = _OF_NUMPY[given.dtype.newbyteorder("<")] if dtype is None else dtype
        stored = given.astype(STORED[kind])
        if stored.dtype.kind in "iub" and not np.array_equal(stored, given):
            raise ValueError(f"{name} has values that {kind.name} cannot represent")
        data = stored.tobytes() or None
        key = (given.shape, kind, quantization, data)
        if key not in self._constants:
            self._constants[key] = self._add(name, given.shape, kind, quantization, data)
        return self._constants[key]

    def _add(
        self, name: str, shape: Sequence[int], dtype: DType, quantization: Quantization | None, data: bytes | None
    ) -> int:
        index = len(self.tensors)
        buffer = 0 if data is None else self._new_payloads.setdefault(data, len(self._payloads))
        if buffer == len(self._payloads):
            self._payloads.append(data)
        sizes = tuple(int(size) for size in shape)
        unused_name = self._unused(name)
        self.tensors.append(Tensor(index, unused_name, sizes, dtype, data, quantization, False, buffer=buffer))
        return index

    def _unused(self, name: str) -> str:
        """Return the name, with a number appended if another tensor has it."""
        if not name:
            return name
        number = self._name_counts.get(name, 0)
        candidate = f"{name}_{number}" if number else name
        while candidate in self._name_counts:
            number += 1
            candidate = f"{name}_{number}"
        self._name_counts[name] = number + 1
        self._name_counts.setdefault(candidate, 1)
        return candidate

    def make(
        self, code: str, inputs: Sequence[int], outputs: Sequence[int], version: int = 1, **option_fields: OptionValue
    ) -> Operator:
        """Return a new operator that is not yet part of the graph; options not given have the schema's defaults.

        Raises KeyError for an option that the operator's table lacks.
        """
        name = OPTION_TABLES.get(code)
        defaults = table(name).defaults if name else {}
        if unknown := option_fields.keys() - defaults.keys():
            raise KeyError(f"{code} has no option {', '.join(sorted(unknown))}")
        options = Options(name, tuple({**defaults, **option_fields}.items())) if name else None
        in_2 = name in UNIONS["BuiltinOptions2"]
        self._next += 1
        return Operator(self._next - 1, code, version, tuple(inputs), tuple(outputs), options, options_in_2=in_2)

    def copy(self, operator: Operator, inputs: Sequence[int], outputs: Sequence[int]) -> Operator:
        """Return a copy of an operator with other tensors; it is not yet part of the graph."""
        self._next += 1
        return replace(operator, index=self._next - 1, inputs=tuple(inputs), outputs=tuple(outputs))

    # Modifications

    def replace(self, operator: Operator, *new: Operator) -> None:
        """Replace an operator with others, or remove it if none are given.

        To change an operator, replace it with a changed copy that has the same index.
        """
        place = self._place(operator)
        self._operators[place : place + 1] = new
        self._invalidate()

    def replace_all(self, new: Iterable[Operator]) -> None:
        """Replace all operators with these, in this order of execution."""
        self._operators = list(new)
        self._invalidate()

    def insert_before(self, operator: Operator, *new: Operator) -> None:
        """Insert operators before an operator."""
        place = self._place(operator)
        self._operators[place:place] = new
        self._invalidate()

    def insert_after(self, operator: Operator, *new: Operator) -> None:
        """Insert operators after an operator."""
        place = self._place(operator) + 1
        self._operators[place:place] = new
        self._invalidate()

    def redirect(self, old_tensor: int, new_tensor: int) -> None:
        """Replace the old tensor by the new one wherever it is read: operators, graph outputs and signatures."""
        for reader in self.consumers(old_tensor):
            inputs = _swapped(reader.inputs, old_tensor, new_tensor)
            self._operators[self._place(reader)] = replace(reader, inputs=inputs)
        self.outputs = list(_swapped(self.outputs, old_tensor, new_tensor))
        for i, signature in self._own_signatures():
            outputs = tuple(
                (name, new_tensor if old_tensor == tensor else tensor) for name, tensor in signature.outputs
            )
            self._signatures[i] = replace(signature, outputs=outputs)
        self._invalidate()

    def replace_input(self, old_tensor: int, new_tensor: int) -> None:
        """Make the new tensor the graph input in place of the old one; operators still read the old one."""
        self.inputs = list(_swapped(self.inputs, old_tensor, new_tensor))
        for i, signature in self._own_signatures():
            taken = tuple((name, new_tensor if old_tensor == tensor else tensor) for name, tensor in signature.inputs)
            self._signatures[i] = replace(signature, inputs=taken)
        self._invalidate()

    def _own_signatures(self) -> list[tuple[int, Signature]]:
        return [(i, signature) for i, signature in enumerate(self._signatures) if signature.subgraph == self.subgraph]

    def _place(self, operator: Operator) -> int:
        place = self._by_index().get(operator.index)
        if place is None:
            raise ValueError(f"operator {operator.index} ({operator.label}) is not in the draft")
        return place

    def _by_index(self) -> dict[int, int]:
        if self._places is None:
            self._places = {operator.index: place for place, operator in enumerate(self._operators)}
        return self._places

    def _invalidate(self) -> None:
        self._producers = self._consumers = self._places = None

    # Result

    def numbering(self, unused: Iterable[int] = ()) -> dict[int, int]:
        """Return the index that `finish` gives to each tensor that it keeps, by its index in the draft."""
        return {old: new for new, old in enumerate(sorted(self._used_tensors().union(unused)))}

    def finish(self, unused: Iterable[int] = ()) -> Model:
        """Return the model with this subgraph in its current state, equal to what reading its file gives.

        Unused tensors, payloads and operator codes are dropped and the rest renumbered; an offline plan is removed,
        because it has one offset per tensor. Other subgraphs, signatures and other metadata are kept.

        Args:
            unused: Tensors to keep although nothing uses them.

        Raises:
            UnsupportedModelError: The model has views, which name tensors.
        """
        if any(entry.name == VIEWS_METADATA_NAME for entry in self.model.metadata):
            raise UnsupportedModelError(
                "the model is in stripes, which cannot be rewritten",
                where=f"metadata {VIEWS_METADATA_NAME}",
                fix="use the model before it was planned in stripes",
            )
        numbers = self.numbering(unused)
        kept, tensor_at = list(numbers), {-1: -1, **numbers}

        def moved(indices: Iterable[int]) -> tuple[int, ...]:
            return tuple(tensor_at[index] for index in indices)

        graph = replace(
            self.model.subgraphs[self.subgraph],
            tensors=tuple(_moved_tensor(self.tensors[old], new, tensor_at) for new, old in enumerate(kept)),
            operators=tuple(
                replace(
                    operator,
                    index=place,
                    inputs=moved(operator.inputs),
                    outputs=moved(operator.outputs),
                    intermediates=moved(operator.intermediates),
                )
                for place, operator in enumerate(self._operators)
            ),
            inputs=moved(self.inputs),
            outputs=moved(self.outputs),
        )
        signatures = tuple(
            replace(
                signature,
                inputs=tuple((name, tensor_at[tensor]) for name, tensor in signature.inputs),
                outputs=tuple((name, tensor_at[tensor]) for name, tensor in signature.outputs),
            )
            if signature.subgraph == self.subgraph
            else signature
            for signature in self._signatures
        )
        graphs = tuple(graph if old.index == self.subgraph else old for old in self.model.subgraphs)
        model = replace(self.model, subgraphs=graphs, signatures=signatures, data=tuple(self._payloads))
        return _compact(without_metadata(model, OFFLINE_PLAN))

    def _used_tensors(self) -> set[int]:
        used = {*self.inputs, *self.outputs}
        for operator in self._operators:
            used.update(operator.inputs, operator.outputs, operator.intermediates)
        for _, signature in self._own_signatures():
            used.update(tensor for _, tensor in (*signature.inputs, *signature.outputs))
        left = list(used - {-1})
        while left:  # scales that are stored as tensors may have such scales themselves
            quantization = self.tensors[left.pop()].quantization
            if quantization is not None and quantization.details is not None:
                named = {quantization.details.integer(name) for name in _tensor_fields(quantization.details)}
                left += named - used - {-1}
                used |= named
        return used - {-1}


def _swapped(indices: Iterable[int], old: int, new: int) -> tuple[int, ...]:
    return tuple(new if index == old else index for index in indices)


def _moved_tensor(tensor: Tensor, index: int, tensor_at: dict[int, int]) -> Tensor:
    quantization = tensor.quantization
    if quantization is not None and quantization.details is not None:
        details = _with_tensors(quantization.details, tensor_at.__getitem__)
        quantization = replace(quantization, details=details)
    return replace(tensor, index=index, quantization=quantization)


def _with_tensors(options: Options, moved: Callable[[int], int]) -> Options:
    """Return the option table with its tensor indices mapped by `moved`."""
    names = _tensor_fields(options)
    fields = ((name, moved(options.integer(name)) if name in names else value) for name, value in options.fields)
    return replace(options, fields=tuple(fields))


def _tensor_fields(options: Options) -> set[str]:
    return {field.name for field in table(options.table).indices if field.index_of == "tensor"}


def _compact(model: Model) -> Model:
    """Return the model without unused payloads and operator codes."""
    buffers = sorted(
        {0}
        | set(model.metadata_buffer)
        | {entry.buffer for entry in model.metadata}
        | {tensor.buffer for graph in model.subgraphs for tensor in graph.tensors}
    )
    buffer_at = {old: new for new, old in enumerate(buffers)}
    codes: list[OperatorCode] = list(model.operator_codes)
    for graph in model.subgraphs:
        codes.extend(code for code in map(_code_of, graph.operators) if code not in codes)
    code_of = [[_code_index(operator, codes) for operator in graph.operators] for graph in model.subgraphs]
    used = sorted({index for indices in code_of for index in indices})
    code_at = {old: new for new, old in enumerate(used)}
    graphs = (
        replace(
            graph,
            tensors=tuple(replace(tensor, buffer=buffer_at[tensor.buffer]) for tensor in graph.tensors),
            operators=tuple(
                replace(operator, opcode_index=code_at[index])
                for operator, index in zip(graph.operators, indices, strict=True)
            ),
        )
        for graph, indices in zip(model.subgraphs, code_of, strict=True)
    )
    return replace(
        model,
        data=tuple(model.data[old] for old in buffers),
        operator_codes=tuple(codes[old] for old in used),
        subgraphs=tuple(graphs),
        metadata=tuple(replace(entry, buffer=buffer_at[entry.buffer]) for entry in model.metadata),
        metadata_buffer=tuple(buffer_at[old] for old in model.metadata_buffer),
    )


def _code_of(operator: Operator) -> OperatorCode:
    return OperatorCode(operator.code, operator.version, operator.custom_code)


def _code_index(operator: Operator, codes: list[OperatorCode]) -> int:
    """Return the operator's entry in the table of codes; its previous entry if that is still valid."""
    index, code = operator.opcode_index, _code_of(operator)
    return index if index < len(codes) and codes[index] == code else codes.index(code)
