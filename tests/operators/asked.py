"""One operator with constants and options under Prepare, and what it asks for in short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from struct import pack

from edgetool.model.types import DType, Model, Operator, OptionValue, Tensor
from edgetool.operators.call import Call
from edgetool.operators.control import assignments
from edgetool.operators.registry import entry_of
from edgetool.target.types import Abi
from tests.graphs import graph, model, operator
from tests.operators.calls import CORTEX_M, platform, tensor

F = DType.FLOAT32

# "t0" is a temporary TfLiteTensor of tensor 0; ("persistent", 8) is 8 bytes of the tail.
Asked = list[str | tuple[str, int]]


def constant(*values: int, dtype: DType = DType.INT32, shape: tuple[int, ...] | None = None) -> Tensor:
    """A vector (or another shape) of these numbers, which the file holds."""
    code = {8: "b", 16: "h", 32: "i", 64: "q"}[dtype.bits]
    held = tensor(*((len(values),) if shape is None else shape), dtype=dtype)
    return replace(held, data=pack(f"<{len(values)}{code}", *values))


def asked(
    code: str,
    inputs: Sequence[Tensor | None],
    outputs: Sequence[Tensor],
    *,
    custom_options: bytes | None = None,
    abi: Abi = CORTEX_M,
    cmsis_nn: bool = False,
    **fields: OptionValue,
) -> Asked:
    """What the operator asks for; tensors are numbered inputs first. A code with small letters is a custom one."""
    whole, made = alone(code, inputs, outputs, custom_options, **fields)
    return asked_of(whole, made, 0, abi=abi, cmsis_nn=cmsis_nn)


def alone(
    code: str,
    inputs: Sequence[Tensor | None],
    outputs: Sequence[Tensor],
    custom_options: bytes | None = None,
    **fields: OptionValue,
) -> tuple[Model, Operator]:
    """A model of this operator, and the operator."""
    given = [one for one in (*inputs, *outputs) if one is not None]
    numbered = [replace(one, index=index, name=f"t{index}") for index, one in enumerate(given)]
    positions = iter(range(len(given)))
    indices = [-1 if one is None else next(positions) for one in (*inputs, *outputs)]
    count = len(inputs)
    made = operator(0, code, indices[:count], indices[count:], "Options" if fields else "", **fields)
    if custom_options is not None or entry_of(made) is None:
        made = replace(made, code="CUSTOM", custom_code=code, custom_options=custom_options)
    return model(graph(numbered, [made], [], [])), made


def asked_of(whole: Model, made: Operator, subgraph: int, *, abi: Abi = CORTEX_M, cmsis_nn: bool = False) -> Asked:
    """What an operator of a model asks for."""
    entry = entry_of(made)
    assert entry is not None
    assert entry.prepare is not None
    call = Call(whole, whole.subgraphs[subgraph], made, platform(abi, cmsis_nn=cmsis_nn), assignments(whole))
    return [
        f"t{request.tensor}" if request.kind == "temporary tensor" else (request.kind, request.size_bytes)
        for request in (*entry.init(call), *entry.prepare(call))
    ]
