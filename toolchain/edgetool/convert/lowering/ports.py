"""The cut ends in a converted graph: extra inputs and outputs that are to be joined and go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from edgetool.errors import ConversionError
from edgetool.model.edit import Draft, in_order, renumbered
from edgetool.model.types import CONVERSIONS, DType, Model, Operator, Signature

INTEGERS = (DType.INT8, DType.INT16)


def without_ports(model: Model, inputs: Iterable[str], outputs: Iterable[str]) -> tuple[Model, dict[str, int]]:
    """The model without these inputs and outputs of its one signature, and the tensors that they were."""
    signature = model.signatures[0]
    gone_in, gone_out = set(inputs), set(outputs)
    tensors = {name: tensor for name, tensor in signature.inputs if name in gone_in}
    tensors |= {name: tensor for name, tensor in signature.outputs if name in gone_out}
    missing = (gone_in | gone_out) - tensors.keys()
    if missing:
        raise ConversionError(
            f"TensorFlow's converter dropped {', '.join(sorted(missing))}, needed to connect a recurrent layer to the "
            "rest of the model",
            fix="use --rnn unrolled",
        )
    kept = replace(
        signature,
        inputs=tuple(pair for pair in signature.inputs if pair[0] not in gone_in),
        outputs=tuple(pair for pair in signature.outputs if pair[0] not in gone_out),
    )
    main = replace(
        model.main,
        inputs=tuple(t for t in model.main.inputs if t not in {tensors[name] for name in gone_in}),
        outputs=_own_outputs(model, kept),
    )
    return replace(model, signatures=(kept, *model.signatures[1:]), subgraphs=(main, *model.subgraphs[1:])), tensors


def _own_outputs(model: Model, kept: Signature) -> tuple[int, ...]:
    """The graph's outputs that the signature still names, once for each name: where a value is both an own output and a
    cut end, the converter makes one tensor or two of it, and both names may be of the first."""
    return tuple(sorted((tensor for _, tensor in kept.outputs), key=model.main.outputs.index))


def inner_inputs(draft: Draft, port: int) -> list[int]:
    """The tensors that stand for a cut input in the graph's own type: behind QUANTIZE where the ends have another."""
    readers = draft.consumers(port)
    if draft.tensors[port].dtype in INTEGERS or not any(reader.code == "QUANTIZE" for reader in readers):
        return [port]
    if any(reader.code != "QUANTIZE" for reader in readers):
        raise ConversionError(
            f"the value {draft.tensors[port].name!r} of a recurrent layer is used both as float and as integer",
            fix="use --io int8, or --rnn unrolled",
        )
    for reader in readers:
        draft.replace(reader)
    return [reader.outputs[0] for reader in readers]


def inner_output(draft: Draft, port: int) -> int:
    """The tensor that stands for a cut output in the graph's own type."""
    maker = draft.producer(port)
    if maker is None or maker.code not in CONVERSIONS:
        return port
    source = maker.inputs[0]
    changes = draft.tensors[source].dtype in INTEGERS and draft.tensors[port].dtype not in INTEGERS
    if not changes:
        return port
    if port not in draft.outputs and not draft.consumers(port):
        draft.replace(maker)
    return source


def copy(draft: Draft, source: int, result: int) -> Operator:
    """A RESHAPE from one tensor to another of as many elements and of the same kind: it copies them."""
    shape = draft.tensors[result].shape
    sizes = draft.constant(f"{draft.tensors[result].name}/shape", np.array(shape, np.int32))
    return draft.make("RESHAPE", [source, sizes], [result], new_shape=shape)


@dataclass(frozen=True, slots=True)
class Change:
    """Operators that a joint needs, and those that it makes needless."""

    new: tuple[Operator, ...] = ()
    gone: tuple[Operator, ...] = ()


def shaped_source(draft: Draft, flat: int, shape: tuple[int, ...]) -> tuple[int, Change]:
    """The tensor of this shape that the flat one is made of, or one that is made of it."""
    tensor, maker = draft.tensors[flat], draft.producer(flat)
    if maker is not None and maker.code == "RESHAPE" and draft.tensors[maker.inputs[0]].shape == shape:
        needless = flat not in draft.outputs and not draft.consumers(flat)
        return maker.inputs[0], Change(gone=(maker,) if needless else ())
    if tensor.shape == shape:
        return flat, Change()
    shaped = draft.tensor(f"{tensor.name}/shaped", shape, tensor.dtype, tensor.quantization)
    return shaped, Change(new=(copy(draft, flat, shaped),))


def append(draft: Draft, operator: Operator) -> None:
    """Put an operator after all others."""
    draft.insert_after(draft.operators[-1], operator)


def in_dependency_order(model: Model) -> Model:
    """The model with each operator of its main graph after those whose results it reads, otherwise as they stand."""
    waiting = list(model.main.operators)
    made_later = {output for operator in waiting for output in operator.outputs}
    order: list[int] = []
    while waiting:
        ready = next(operator for operator in waiting if not made_later & set(operator.inputs))
        waiting.remove(ready)
        made_later -= set(ready.outputs)
        order.append(ready.index)
    return renumbered(in_order(model, order))
