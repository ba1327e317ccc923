"""One operator under Prepare on builds of the packaged runtime, with constants, variable tensors and options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgetool.model.types import Options, OptionValue, Tensor
from edgetool.operators.call import Call, Request
from edgetool.operators.control import assignments
from edgetool.operators.registry import OPERATORS
from edgetool.target.platform import Platform
from tests.graphs import graph, model, operator
from tests.operators.builds import REFERENCE


def constant(tensor: Tensor) -> Tensor:
    """The tensor with contents of zeros in the file."""
    return replace(tensor, data=bytes(tensor.size_bytes))


def variable(tensor: Tensor) -> Tensor:
    """The tensor as a state that outlives a run."""
    return replace(tensor, is_variable=True)


def asked(
    code: str, inputs: Sequence[Tensor | None], output: Tensor, build: Platform = REFERENCE, **options: OptionValue
) -> list[Request]:
    """All that the operator's rule asks for; without options given, the file holds no table of them."""
    given = [one for one in (*inputs, output) if one is not None]
    tensors = [replace(one, index=i, name=f"t{i}") for i, one in enumerate(given)]
    positions = iter(range(len(given)))
    made = operator(0, code, [-1 if one is None else next(positions) for one in inputs], [len(given) - 1])
    if options:
        made = replace(made, options=Options("Options", tuple(options.items())))
    whole = graph(tensors, [made], [], made.outputs)
    rule = OPERATORS[code].prepare
    assert rule is not None
    return list(rule(Call(model(whole), whole, made, build, assignments(model(whole)))))


def kept(requests: Sequence[Request]) -> list[tuple[str, int]]:
    """Kind and bytes of what outlives Prepare, in order."""
    return [(request.kind, request.size_bytes) for request in requests if not request.kind.startswith("temporary")]


def looked_at(requests: Sequence[Request]) -> list[int]:
    """The tensors for which the rule takes a temporary one, in order: inputs by number, then the output."""
    return [request.tensor for request in requests if request.kind == "temporary tensor"]
