"""Makes TensorFlow's quantizer give the same file for the same model, whatever the addresses of its objects.

The cause, in TensorFlow 2.21: `QuantizationDriver::Finalize` puts a QUANTIZE and a DEQUANTIZE behind each operator
result, and visits the results in the order of `result_states_`, an `llvm::DenseMap` whose keys hold the address of the
operation. That order differs from run to run, even without address space randomization and on one core. It does not
matter to operators with one result, since each pair goes directly behind its own operator. Behind an operator with
several results, the pairs stand in random order, with two consequences:

- If nothing reads one of the results (the forget gate of an LSTM's first time step, which is multiplied by zero), its
  pair is dead code. Whether it is removed before or after the operator is rewritten depends on the order. The rewrite
  needs the pair: without it, the operator stays in float32 between DEQUANTIZE and QUANTIZE.
- The pairs that remain, such as those of a layer that is kept in float32, have random positions and names.

So results that nothing reads become graph outputs while the quantizer runs, and the remaining pairs are put in the
order of the results afterwards. Models without such operators pass through unchanged, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from edgetool.model.edit import Draft, renumbered
from edgetool.model.reader import read_model
from edgetool.model.types import CONVERSIONS, DType, Graph, Model, Operator, Signature, Tensor
from edgetool.model.writer import write_model

# The quantizable operators with more than one float32 result.
SEVERAL_RESULTS = frozenset(["SPLIT", "SPLIT_V", "UNPACK"])
_UNREAD = "edgetool_unread_"

Quantize = Callable[[bytes], bytes]


def quantize_in_order(quantize: Quantize, calibrated: bytes) -> bytes:
    """Return what `quantize` makes of a calibrated .tflite, independent of the order in which it visits results."""
    model = read_model(calibrated)
    if not any(_several_results(graph) for graph in model.subgraphs):
        return quantize(calibrated)
    unread = unread_results(model.main)
    content = quantize(write_model(with_outputs(model, unread)) if unread else calibrated)
    quantized = read_model(content)
    if unread:
        quantized = without_last_outputs(quantized, len(unread))
    # Even if all are in order: write_model lays a file out differently from TensorFlow.
    rewritten = unread or any(
        len(tuple(_conversions_behind(graph, operator.index))) > 1
        for graph in quantized.subgraphs
        for operator in _several_results(graph)
    )
    return write_model(in_result_order(quantized)) if rewritten else content


def unread_results(graph: Graph) -> tuple[int, ...]:
    """Return the float32 results of operators with several that neither an operator nor the graph's caller reads."""
    read = {index for operator in graph.operators for index in operator.inputs} | set(graph.outputs)
    return tuple(
        index
        for operator in _several_results(graph)
        for index in operator.outputs
        if index not in read and graph.tensors[index].dtype is DType.FLOAT32
    )


def with_outputs(model: Model, tensors: Sequence[int]) -> Model:
    """Return the model with these tensors as further outputs of its main graph, and of the graph's signatures."""
    named = tuple((f"{_UNREAD}{position}", tensor) for position, tensor in enumerate(tensors))
    main = replace(model.main, outputs=(*model.main.outputs, *tensors))
    return _with_main(model, main, lambda signature: (*signature.outputs, *named))


def without_last_outputs(model: Model, count: int) -> Model:
    """Return the model without the last `count` outputs of its main graph, and without conversions made for them."""
    kept, gone = model.main.outputs[:-count], model.main.outputs[-count:]
    draft = Draft(
        _with_main(
            model,
            replace(model.main, outputs=kept),
            lambda signature: tuple(pair for pair in signature.outputs if not pair[0].startswith(_UNREAD)),
        )
    )
    for tensor in gone:
        while (maker := draft.producer(tensor)) is not None and maker.code in CONVERSIONS:
            if draft.consumers(tensor) or tensor in draft.outputs:
                break
            draft.replace(maker)
            tensor = maker.inputs[0]
    return draft.finish()


def _with_main(model: Model, main: Graph, outputs: Callable[[Signature], tuple[tuple[str, int], ...]]) -> Model:
    signatures = tuple(
        signature if signature.subgraph else replace(signature, outputs=outputs(signature))
        for signature in model.signatures
    )
    return replace(model, subgraphs=(main, *model.subgraphs[1:]), signatures=signatures)


def in_result_order(model: Model) -> Model:
    """Return the model with the conversions behind each operator with several results in the order of these.

    Only conversions directly behind the operator move, and only among their own places. Each place keeps the index and
    name of its tensor, which follow from it; a graph output keeps its name.
    """
    for subgraph in range(len(model.subgraphs)):
        for operator in _several_results(model.subgraphs[subgraph]):
            model = _in_order_behind(model, subgraph, operator.index)
    return model


def _in_order_behind(model: Model, subgraph: int, place: int) -> Model:
    graph = model.subgraphs[subgraph]
    old = tuple(_conversions_behind(graph, place))
    new = tuple(_sorted(graph, graph.operators[place].outputs, old))
    if old == new:
        return model
    moved_to = {one.outputs[0]: slot.outputs[0] for slot, one in zip(old, new, strict=True)}

    def moved(indices: Sequence[int]) -> tuple[int, ...]:
        return tuple(moved_to.get(index, index) for index in indices)

    names = iter([graph.tensors[one.outputs[0]].name for one in old if one.outputs[0] not in graph.outputs])
    tensors = list(graph.tensors)
    for slot, one in zip(old, new, strict=True):
        tensor, slot_tensor = graph.tensors[one.outputs[0]], graph.tensors[slot.outputs[0]]
        name = tensor.name if tensor.index in graph.outputs else next(names)
        tensors[slot_tensor.index] = replace(tensor, index=slot_tensor.index, name=name, buffer=slot_tensor.buffer)
    operators = list(graph.operators)
    operators[place + 1 : place + 1 + len(new)] = new
    changed = replace(
        graph,
        tensors=tuple(tensors),
        operators=tuple(replace(one, inputs=moved(one.inputs), outputs=moved(one.outputs)) for one in operators),
        outputs=moved(graph.outputs),
    )
    signatures = tuple(
        replace(one, outputs=tuple((name, moved_to.get(tensor, tensor)) for name, tensor in one.outputs))
        if one.subgraph == subgraph
        else one
        for one in model.signatures
    )
    graphs = tuple(changed if one.index == subgraph else one for one in model.subgraphs)
    return renumbered(replace(model, subgraphs=graphs, signatures=signatures))


def _conversions_behind(graph: Graph, place: int) -> Iterator[Operator]:
    """The conversions that follow an operator without a gap, of its results or of one another's."""
    reached = set(graph.operators[place].outputs)
    for operator in graph.operators[place + 1 :]:
        if operator.code not in CONVERSIONS or operator.inputs[0] not in reached:
            return
        reached.add(operator.outputs[0])
        yield operator


def _sorted(graph: Graph, results: Sequence[int], conversions: Sequence[Operator]) -> Iterator[Operator]:
    """The conversions result by result, each before those that read it; those of one tensor by what they make."""
    for result in results:
        readers = [operator for operator in conversions if operator.inputs[0] == result]
        for operator in sorted(readers, key=lambda one: _kind(one, graph.tensors[one.outputs[0]])):
            yield operator
            yield from _sorted(graph, operator.outputs, conversions)


def _kind(operator: Operator, tensor: Tensor) -> tuple[str, int, float, int]:
    scale, zero_point = tensor.per_tensor or (0.0, 0)
    return operator.code, tensor.dtype.code, scale, zero_point


def _several_results(graph: Graph) -> tuple[Operator, ...]:
    return tuple(one for one in graph.operators if one.code in SEVERAL_RESULTS and len(one.outputs) > 1)
