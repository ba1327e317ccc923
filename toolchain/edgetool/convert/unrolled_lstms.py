"""LSTMs of which a float .tflite has a copy for each time step become one operator; in the child process only.

Importers of PyTorch and ONNX write a copy for each step. In int8, each copy rounds the state of the cell, which the one
operator keeps in 16 bits; a sequence of 20 steps takes 300 operators, and an arena of fifteen times the size.

A copy is found by its form, and then compared by its values: an LSTM with the weights of the copies must compute the
hidden state after each step for every calibration sample. Only the weights may be read in another order of the gates.
The model is cut open at the LSTM, quantized, and joined again, as for Keras (lowering/cut_open.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgetool import child
from edgetool.convert.float_tflite import FloatTflite, TfliteRunner, quantize_tflite
from edgetool.convert.lowering.cut_open import (
    RELATIVE_TOLERANCE,
    Floats,
    append,
    cell_bits,
    copy,
    join_lstm,
    run_lstm,
)
from edgetool.convert.lowering.cuts import LstmCut
from edgetool.convert.samples import Array, InputSpec
from edgetool.convert.tflite import ConversionResult, ConverterOptions
from edgetool.model.draft import Draft
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model, Operator, Signature, Tensor
from edgetool.model.writer import write_model
from edgetool.passes.float_forms import tidy_float
from edgetool.passes.rewrite import fused_activation

GATES = 4
SLICES = frozenset({"RESHAPE", "SLICE", "SPLIT", "STRIDED_SLICE", "UNPACK"})
STEP = SLICES | {"ADD", "LOGISTIC", "MUL", "TANH"}
JOINS = frozenset({"CONCATENATION", "PACK"})


@dataclass(frozen=True, slots=True)
class UnrolledLstm:
    """An LSTM in a float model: its weights, the tensor with its sequence, and the hidden state after each step."""

    cut: LstmCut
    source: int
    hidden: tuple[int, ...]

    @property
    def features(self) -> int:
        """The number of inputs at each step."""
        return int(self.cut.kernel.shape[0])


def quantize_with_lstms(
    tflite: FloatTflite,
    samples: Sequence[Array],
    options: ConverterOptions,
    workdir: Path,
    progress: child.Progress,
) -> ConversionResult:
    """Calibrate and quantize the file with one operator for each LSTM; raises as quantize_tflite does.

    LSTMs stay as they are in int16, of which no kernel has the operator, and if layers are to stay in float.
    """
    applies = options.quantize == "int8" and not options.keep_float
    lstms = [lstm for lstm in unrolled_lstms(tflite.model) if is_closed(tflite.model, lstm)] if applies else []
    values = _recorded(tflite, lstms, samples, progress)
    chosen = [(lstm, *outputs) for lstm, outputs in zip(lstms, map(_outputs, lstms, values), strict=True) if outputs]
    if not chosen:
        return quantize_tflite(tflite, samples, options, workdir, progress)
    opened = tidy_float(open_at(tflite.model, [lstm for lstm, _, _ in chosen]))
    specs = [InputSpec(_port(lstm, "given"), outputs.shape[1:], "float32") for lstm, outputs, _ in chosen]
    cut = replace(tflite, model=opened, content=write_model(opened), specs=(*tflite.specs, *specs))
    arrays = [*samples, *(outputs for _, outputs, _ in chosen)]
    converted = quantize_tflite(cut, arrays, options, workdir, progress)
    model = read_model(converted.content)
    for lstm, _, largest in chosen:
        model = join_lstm(model, lstm.cut, _port(lstm, "given"), _port(lstm, "taken"), largest)
    notes = tuple(f"the steps of {lstm.cut.name!r} became one LSTM operator" for lstm, _, _ in chosen)
    return replace(converted, content=write_model(model), notes=(*converted.notes, *notes))


def _recorded(
    tflite: FloatTflite, lstms: Sequence[UnrolledLstm], samples: Sequence[Array], progress: child.Progress
) -> list[tuple[Floats, Floats]]:
    """Return the sequences (N, steps, features) and the hidden states (N, steps, units) of each LSTM."""
    if not lstms:
        return []
    graph = tflite.model.main
    read = [index for lstm in lstms for index in (lstm.source, *lstm.hidden)]
    model = replace(tflite.model, subgraphs=(replace(graph, outputs=tuple(read)), *tflite.model.subgraphs[1:]))
    model = replace(model, signatures=())
    runner = TfliteRunner(model, write_model(model))
    progress("running the float model for its recurrent layers")
    rows: list[list[Array]] = []
    for place in range(len(samples[0])):
        rows.append(runner([array[place : place + 1] for array in samples]))
    columns = (np.stack([values.reshape(-1) for values in column]) for column in zip(*rows, strict=True))
    return [
        (
            next(columns).reshape(len(rows), -1, lstm.features),
            np.stack([next(columns) for _ in lstm.hidden], axis=1),
        )
        for lstm in lstms
    ]


def _outputs(lstm: UnrolledLstm, values: tuple[Floats, Floats]) -> tuple[Floats, float] | None:
    """Return the outputs of the LSTM and its largest cell state; None if they differ, or it is too large to store."""
    sequences, hidden = values
    outputs, largest = run_lstm(lstm.cut, sequences)
    if not np.abs(outputs - hidden).max() <= RELATIVE_TOLERANCE or cell_bits(largest) is None:
        return None
    return outputs, largest


def _port(lstm: UnrolledLstm, end: str) -> str:
    return f"lstm_{lstm.hidden[-1]}_{end}"


# The form of the copies


def unrolled_lstms(model: Model) -> tuple[UnrolledLstm, ...]:
    """Return what has the form of an LSTM with a copy for each step."""
    draft = Draft(model)
    steps: dict[int, list[Operator]] = {}
    for operator in draft.operators:
        weights = _weights(draft, operator)
        if weights is not None and weights.shape[0] == GATES * weights.shape[1]:
            steps.setdefault(operator.inputs[1], []).append(operator)
    found = (_lstm(draft, each) for each in steps.values())
    return tuple(lstm for lstm in found if lstm is not None)


def _weights(draft: Draft, operator: Operator | None) -> Floats | None:
    """Return the weights of a dense layer in float32 without an activation; None for any other operator."""
    if operator is None or operator.code != "FULLY_CONNECTED" or fused_activation(operator) != "NONE":
        return None
    values = draft.values(operator.inputs[1])
    return values if values is not None and values.dtype == np.float32 and values.ndim == 2 else None


def _bias(draft: Draft, operator: Operator, units: int) -> Floats:
    values = draft.values(operator.inputs[2]) if len(operator.inputs) > 2 else None
    return np.zeros(units, np.float32) if values is None else values


def _lstm(draft: Draft, steps: Sequence[Operator]) -> UnrolledLstm | None:
    """Return the LSTM whose products with the hidden state these are, from the second step on."""
    recurrent = _weights(draft, steps[-1])
    assert recurrent is not None
    units = recurrent.shape[1]
    total = next((reader for reader in _readers(draft, steps[-1].outputs[0]) if reader.code == "ADD"), None)
    if total is None:
        return None
    other = next((index for index in total.inputs if _behind(draft, index) != steps[-1].outputs[0]), -1)
    product = draft.producer(_behind(draft, other, SLICES))
    kernel = _weights(draft, product)
    last = _last_hidden(draft, total.outputs[0], units)
    if product is None or kernel is None or last is None or kernel.shape[0] != GATES * units:
        return None
    source = _sequence(draft, product.inputs[0], (len(steps) + 1) * kernel.shape[1], kernel.shape[1])
    hidden = (*(_behind(draft, step.inputs[0]) for step in steps), last[0])
    if source is None or any(draft.tensors[index].element_count != units for index in hidden):
        return None
    bias = _bias(draft, product, len(kernel)) + _bias(draft, steps[-1], len(kernel))
    rows = np.concatenate([np.arange(start, start + units) for start in last[1]])
    name = draft.tensors[last[0]].name.split(";")[-1].rpartition("/")[0] or "lstm"
    cut = LstmCut(name, kernel[rows].T, recurrent[rows].T, bias[rows], stateful=False, required=False)
    return UnrolledLstm(cut, source, hidden)


def _readers(draft: Draft, tensor: int) -> Iterator[Operator]:
    """Yield the operators that read a tensor, whatever its shape."""
    for reader in draft.consumers(tensor):
        if reader.code == "RESHAPE":
            yield from _readers(draft, reader.outputs[0])
        else:
            yield reader


def _behind(draft: Draft, tensor: int, codes: frozenset[str] = frozenset({"RESHAPE"})) -> int:
    """Return the tensor from which operators with these codes took this one."""
    producer = draft.producer(tensor)
    while producer is not None and producer.code in codes:
        tensor = producer.inputs[1 if producer.code == "SPLIT" else 0]
        producer = draft.producer(tensor)
    return tensor


def _sequence(draft: Draft, tensor: int, count: int, features: int) -> int | None:
    """Return the tensor with all steps, of which this one has all or one."""
    shape = draft.tensors[tensor].shape
    while draft.tensors[tensor].element_count != count or shape[-1:] != (features,):
        producer = draft.producer(tensor)
        if producer is None or producer.code not in SLICES:
            return None
        tensor = producer.inputs[1 if producer.code == "SPLIT" else 0]
        shape = draft.tensors[tensor].shape
    return tensor


def _last_hidden(draft: Draft, total: int, units: int) -> tuple[int, tuple[int, ...]] | None:
    """Return the hidden state that is computed from the sums of all gates, and where each gate starts in them.

    The gates are in Keras's order: input, forget, cell, output.
    """
    waiting, seen = [total], {total}
    while waiting:
        for reader in draft.consumers(waiting.pop(0)):
            if reader.code not in STEP:
                continue
            if reader.code == "MUL" and (gates := _gates(draft, reader)) is not None:
                parts = [part for gate in gates if (part := _part(draft, gate, units)) is not None]
                starts = [start for tensor, start in parts if tensor == _behind(draft, total)]
                if sorted(starts) == [gate * units for gate in range(GATES)]:
                    return reader.outputs[0], tuple(starts)
            waiting += [output for output in reader.outputs if output not in seen]
            seen.update(reader.outputs)
    return None


def _gates(draft: Draft, hidden: Operator) -> tuple[int, int, int, int] | None:
    """Return the sums of the gates from which LOGISTIC(o) TANH(LOGISTIC(f) state + LOGISTIC(i) TANH(c)) is computed."""
    for gate, squashed in _both_orders(hidden):
        output, state = _argument(draft, gate, "LOGISTIC"), _argument(draft, squashed, "TANH")
        cell = draft.producer(state) if state is not None else None
        if output is None or cell is None or cell.code != "ADD":
            continue
        for kept, new in _both_orders(cell):
            keeping, adding = draft.producer(kept), draft.producer(new)
            if keeping is None or adding is None or {keeping.code, adding.code} != {"MUL"}:
                continue
            arguments = (_argument(draft, gate, "LOGISTIC") for gate in keeping.inputs)
            forget = next((argument for argument in arguments if argument is not None), None)
            for entry, candidate in _both_orders(adding):
                added = _argument(draft, entry, "LOGISTIC"), _argument(draft, candidate, "TANH")
                if forget is not None and added[0] is not None and added[1] is not None:
                    return added[0], forget, added[1], output
    return None


def _both_orders(operator: Operator) -> tuple[tuple[int, int], tuple[int, int]]:
    first, second = operator.inputs
    return (first, second), (second, first)


def _argument(draft: Draft, tensor: int, code: str) -> int | None:
    """Return what the function of this name was applied to; None if the tensor is not its result."""
    producer = draft.producer(tensor)
    return producer.inputs[0] if producer is not None and producer.code == code else None


def _part(draft: Draft, tensor: int, units: int) -> tuple[int, int] | None:
    """Return the tensor of which this one is a part along the last axis, and where the part starts."""
    producer = draft.producer(_behind(draft, tensor))
    if producer is None:
        return None
    if producer.code == "SPLIT":
        return _behind(draft, producer.inputs[1]), producer.outputs.index(_behind(draft, tensor)) * units
    begin = draft.values(producer.inputs[1]) if producer.code in ("SLICE", "STRIDED_SLICE") else None
    if begin is None or not begin.size:
        return None
    masks = dict(producer.options.fields).get("begin_mask", 0) if producer.options is not None else 0
    begins_at_zero = isinstance(masks, int) and masks >> (begin.size - 1) & 1
    start = 0 if begins_at_zero else int(begin.reshape(-1)[-1]) % (GATES * units)
    return _behind(draft, producer.inputs[0]), start


# The open model


def is_closed(model: Model, lstm: UnrolledLstm) -> bool:
    """Return whether nothing but the hidden states is read, so that the copies disappear: the cell state is not."""
    before, after = ([operator.code for operator in each.main.operators] for each in (model, open_at(model, [lstm])))
    return after.count("FULLY_CONNECTED") <= before.count("FULLY_CONNECTED") - len(lstm.hidden)


def open_at(model: Model, lstms: Sequence[UnrolledLstm]) -> Model:
    """Return the model with an input for the outputs of each LSTM, and an output for its sequence, instead of it."""
    graph, signature = model.main, model.signatures[0]
    tensors: list[Tensor] = []
    for lstm in lstms:
        steps, units = len(lstm.hidden), lstm.cut.units
        for end, shape in (("given", (1, steps, units)), ("taken", (1, steps * lstm.features))):
            index = len(graph.tensors) + len(tensors)
            tensors.append(Tensor(index, _port(lstm, end), shape, DType.FLOAT32, None, None, is_variable=False))
    given, taken = ([tensor.index for tensor in tensors[first::2]] for first in (0, 1))
    names = {tensor.index: tensor.name for tensor in tensors}
    extended = replace(
        graph,
        tensors=(*graph.tensors, *tensors),
        inputs=(*graph.inputs, *given),
        outputs=(*graph.outputs, *taken),
    )
    entry = Signature(
        signature.key,
        signature.subgraph,
        (*signature.inputs, *((names[index], index) for index in given)),
        (*signature.outputs, *((names[index], index) for index in taken)),
    )
    draft = Draft(replace(model, subgraphs=(extended, *model.subgraphs[1:]), signatures=(entry,)))
    for lstm, inlet, outlet in zip(lstms, given, taken, strict=True):
        append(draft, copy(draft, lstm.source, outlet))
        _read_from(draft, lstm.hidden, inlet)
    _drop_unread(draft)
    return draft.finish()


def _read_from(draft: Draft, hidden: Sequence[int], whole: int) -> None:
    """Let the readers of the hidden states read them from the tensor that has all of them."""
    for reader in list(draft.operators):
        joined = [_behind(draft, index) for index in reader.inputs] if reader.code in JOINS else []
        if joined == list(hidden) and not _is_last_axis(draft, reader):
            draft.replace(reader, copy(draft, whole, reader.outputs[0]))
    units = draft.tensors[whole].shape[-1]
    first = draft.operators[0]
    for step, index in enumerate(hidden):
        old = draft.tensors[index]
        piece = draft.tensor(f"{old.name}/step", (1, 1, units), DType.FLOAT32)
        shaped = draft.tensor(f"{old.name}/shaped", old.shape, DType.FLOAT32)
        bounds = [
            draft.constant(f"{old.name}/bounds", np.array(row, np.int32)) for row in ((0, step, 0), (1, 1, units))
        ]
        draft.insert_before(first, draft.make("SLICE", [whole, *bounds], [piece]), copy(draft, piece, shaped))
        draft.redirect(index, shaped)


def _is_last_axis(draft: Draft, join: Operator) -> bool:
    """Return whether PACK adds an axis behind the units: the elements are then in another order."""
    axis = dict(join.options.fields).get("axis", 0) if join.options is not None else 0
    rank = len(draft.tensors[join.outputs[0]].shape)
    return join.code == "PACK" and isinstance(axis, int) and axis % rank == rank - 1


def _drop_unread(draft: Draft) -> None:
    """Remove operators until each computes something that is read."""
    unread: list[Operator] = [draft.operators[0]]
    while unread:
        unread = [
            operator
            for operator in draft.operators
            if operator.outputs
            and not any(index in draft.outputs or draft.consumers(index) for index in operator.outputs)
        ]
        for operator in unread:
            draft.replace(operator)
