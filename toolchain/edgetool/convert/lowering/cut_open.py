"""The cut model for the converter, with samples for its new inputs; and how its .tflite is joined again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from edgetool import child
from edgetool.convert.float_model import FloatModel
from edgetool.convert.lowering.carried import carry_states
from edgetool.convert.lowering.cuts import Cuts, LstmCut, Passing
from edgetool.convert.lowering.fused import cell_bits, join_lstm, run_lstm
from edgetool.convert.lowering.shared_bias import own_biases
from edgetool.convert.request import INTEGER
from edgetool.convert.samples import Array, InputSpec
from edgetool.errors import UnsupportedModelError
from edgetool.model.reader import read_model
from edgetool.model.writer import write_model

PROGRESS_STEPS = 20
SAME = 1e-4  # between two float32 runs of one LSTM, whose outputs are below 1
# Ranks of a cut's two ends, which nothing else has: what goes straight from one layer's end to another's, or to the
# model's own, is then a RESHAPE. The converter would leave a tensor that is an input and an output at once in float.
GIVEN_RANK, TAKEN_RANK = 5, 6


@dataclass(frozen=True, slots=True)
class Opened:
    """What the converter gets instead of a model, and what makes its .tflite that of the model.

    samples: those of the model, and for each new input an array (N, ...). fused: the layers that become one operator.
    notes: one sentence for each layer that could not, and for each state that is carried.
    """

    model: FloatModel
    samples: list[Any]
    join: Callable[[bytes], bytes]
    fused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _End:
    """A cut: its layer, the shapes of what its layer gives and takes in the graph, and samples of what it gives."""

    name: str
    shapes: tuple[tuple[int, ...], ...]  # with batch, as the layer's call has them
    flat: bool
    samples: tuple[Array, ...]
    largest: float = 0.0


def open_cuts(
    tf: Any,
    model: FloatModel,
    cuts: Cuts,
    samples: Sequence[Any],
    quantize: str,
    progress: child.Progress,
) -> Opened:
    """Cut the model open where `cuts` says so.

    Raises UnsupportedModelError naming a layer whose state cannot be carried, or that was to be one operator and
    cannot.
    """
    if not cuts:
        return Opened(model, list(samples), _mended)
    notes = _settle(cuts, _recorded(tf, model, cuts, samples, 1, lambda step: None))
    count = len(samples[0]) if quantize in INTEGER else 1
    passed = _recorded(tf, model, cuts, samples, count, progress)
    ends = _lstm_ends(cuts, passed, notes, quantize)
    if any(cut.name not in passed for cut in cuts.carried):  # a large cell state has just decided so
        passed = _recorded(tf, model, cuts, samples, count, progress)
    ends += _state_ends(cuts, passed, count)
    if not ends:
        return Opened(model, list(samples), _mended, notes=tuple(notes))
    opened = _opened_model(tf, model, cuts, ends)
    names = _end_names(model, opened)
    lstms = dict(cuts.lstms)

    def join(content: bytes) -> bytes:
        result = read_model(content)
        pairs = iter(names)
        states: list[tuple[str, str, str]] = []
        for end in ends:
            own = [next(pairs) for _ in end.shapes]
            if end.name in lstms:
                result = join_lstm(result, lstms[end.name], *own[0], end.largest)
            else:
                states += [(f"{end.name}/state_{i}", *pair) for i, pair in enumerate(own)]
        return _mended(write_model(carry_states(result, tuple(states)) if states else result))

    carrying = [end.name for end in ends if _carries(cuts, end)]
    notes += [f"layer {name!r} keeps its state from one invocation to the next" for name in carrying]
    arrays = [*samples, *(array for end in ends for array in end.samples)]
    return Opened(opened, arrays, join, tuple(lstms), tuple(notes))


def _mended(content: bytes) -> bytes:
    """The file with what the converter gets wrong in layers that are called more than once."""
    model = read_model(content)
    mended = own_biases(model)
    return content if mended is model else write_model(mended)


def _carries(cuts: Cuts, end: _End) -> bool:
    return end.name not in cuts.lstms or cuts.lstms[end.name].stateful


def _recorded(
    tf: Any, model: FloatModel, cuts: Cuts, samples: Sequence[Any], count: int, progress: child.Progress
) -> dict[str, list[Passing]]:
    """What passes the cuts, one sample at a time and in their order; the state is at its start before and after."""
    call = model.traced or model.call
    if model.reset is not None:
        model.reset()
    with cuts.recording() as passed:
        for index in range(count):
            if index % max(1, count // PROGRESS_STEPS) == 0:
                progress(f"running the float model for its recurrent layers {index + 1}/{count}")
            call([tf.constant(array[index : index + 1]) for array in samples])
    if model.reset is not None:
        model.reset()
    return passed


def _settle(cuts: Cuts, passed: dict[str, list[Passing]]) -> list[str]:
    """Drop the LSTMs that the first sample shows to be no single operator; sentences about them."""
    obstacles = {cut.name: _obstacle(passed.get(cut.name, [])) for cut in cuts.lstms.values()}
    return [_drop(cuts, cuts.lstms[name], obstacle) for name, obstacle in obstacles.items() if obstacle is not None]


def _drop(cuts: Cuts, cut: LstmCut, obstacle: str) -> str:
    del cuts.lstms[cut.name]
    if cut.demanded:
        raise UnsupportedModelError(
            f"layer {cut.name!r} (LSTM) cannot be converted to one operator: {obstacle}",
            fix="use --rnn auto or --rnn unrolled",
        )
    return f"layer {cut.name!r} (LSTM) was unrolled: {obstacle}"


def _obstacle(calls: list[Passing]) -> str | None:
    """Why a layer that was called like this cannot be cut."""
    if len(calls) != 1:
        return f"the model calls it {len(calls)} times"
    (passing,) = calls
    if any(not hasattr(value, "__array__") for value in passing.values):
        return "another layer calls it in a separate graph"
    if any(np.shape(value)[0] != 1 for value in passing.values):
        return "another layer calls it with a batch size other than 1"
    return passing.obstacle


def _lstm_ends(cuts: Cuts, passed: dict[str, list[Passing]], notes: list[str], quantize: str) -> list[_End]:
    ends = []
    for name, cut in tuple(cuts.lstms.items()):
        sequences = np.concatenate([np.asarray(passing.values[0], np.float32) for passing in passed[name]])
        outputs, largest = run_lstm(cut, sequences)
        said = np.concatenate([np.asarray(passing.values[1], np.float32) for passing in passed[name]])
        off = np.abs((outputs if said.ndim == outputs.ndim else outputs[:, -1]) - said).max()
        if not off <= SAME:
            notes.append(_drop(cuts, cut, f"its output differs from that of an LSTM by {off:.1g}"))
            continue
        if quantize in INTEGER and cell_bits(largest) is None:
            notes.append(_drop(cuts, cut, f"its cell state reaches {largest:.0f}, which is too large for the operator"))
            continue
        shape = (1, *outputs.shape[1:])
        samples = outputs.reshape(len(outputs), *_long(shape, GIVEN_RANK)[1:])
        ends.append(_End(name, (shape,), True, (samples,), largest))
    return ends


def _state_ends(cuts: Cuts, passed: dict[str, list[Passing]], count: int) -> list[_End]:
    ends = []
    for cut in cuts.carried:
        calls = passed.get(cut.name, [])
        obstacle = _obstacle(calls[: len(calls) // count])
        if obstacle is not None:
            raise UnsupportedModelError(
                f"layer {cut.name!r} cannot keep its state: {obstacle}",
                fix="call a stateful layer only once, outside other layers",
            )
        columns = zip(*(passing.values for passing in calls), strict=True)
        samples = tuple(np.concatenate(column).astype(np.float32) for column in columns)
        ends.append(_End(cut.name, cut.shapes, False, samples))
    return ends


def _opened_model(tf: Any, model: FloatModel, cuts: Cuts, ends: Sequence[_End]) -> FloatModel:
    """The model with what its cut layers give as further inputs, and what they take as further outputs."""
    count = len(model.specs)
    call = model.traced or model.call
    specs = [
        InputSpec(f"{end.name}_given_{i}", (_long(shape, GIVEN_RANK) if end.flat else shape)[1:], "float32")
        for end in ends
        for i, shape in enumerate(end.shapes)
    ]

    def opened(tensors: Sequence[Any]) -> list[Any]:
        rest = iter(tensors[count:])
        given = {end.name: tuple(tf.reshape(next(rest), shape) for shape in end.shapes) for end in ends}
        with cuts.opened(given) as taken:
            results = list(call(tensors[:count]))
        for end in ends:
            results += [tf.reshape(value, _long(value.shape, TAKEN_RANK)) for value in taken[end.name]]
        return results

    return replace(
        model,
        specs=(*model.specs, *specs),
        output_names=(*model.output_names, *(spec.name.replace("_given_", "_taken_") for spec in specs)),
        call=opened,
        traced=None,
    )


def _long(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """The shape of as many elements, in a row."""
    return (1, prod(shape), *[1] * (rank - 2))


def _end_names(model: FloatModel, opened: FloatModel) -> list[tuple[str, str]]:
    """What the signature of the cut model calls each new input, and the output that belongs to it."""
    inputs = opened.signature_inputs[len(model.specs) :]
    outputs = opened.signature_outputs[len(model.output_names) :]
    return list(zip(inputs, outputs, strict=True))
