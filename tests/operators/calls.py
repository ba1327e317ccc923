"""One operator under Prepare, made of tensors alone."""

from __future__ import annotations

from collections.abc import Sequence

from edgetool.model.types import DType, Quantization, Tensor
from edgetool.operators.call import Call, Request
from edgetool.operators.control import assignments
from edgetool.operators.registry import OPERATORS
from edgetool.target.platform import Platform
from edgetool.target.types import Abi
from tests.graphs import graph, model, operator

CORTEX_M = Abi("arm", pointer_bytes=4, enum_bytes=1, i64_alignment=8)
HOST = Abi("host", pointer_bytes=8, enum_bytes=4, i64_alignment=8)


def platform(abi: Abi = CORTEX_M, *, cmsis_nn: bool = False) -> Platform:
    """A build without any described struct."""
    return Platform("cmsis-nn" if cmsis_nn else "reference", cmsis_nn, False, abi, {}, {}, {})


def tensor(
    *shape: int, dtype: DType = DType.INT8, scale: float | None = None, zero_point: int = 0, scales: int = 1
) -> Tensor:
    """A tensor whose index `call` sets; quantized when a scale is given, `scales` times the same."""
    quantization = None if scale is None else Quantization((scale,) * scales, (zero_point,) * scales, 0)
    return Tensor(-1, "", shape, dtype, None, quantization, False)


def call(
    code: str,
    inputs: Sequence[Tensor | None],
    outputs: Sequence[Tensor],
    build: Platform | None = None,
    *,
    activation: str = "NONE",
) -> Call:
    """The operator on these tensors, numbered inputs first; None is an input left out."""
    given = [one for one in (*inputs, *outputs) if one is not None]
    numbered = [Tensor(i, f"t{i}", one.shape, one.dtype, None, one.quantization, False) for i, one in enumerate(given)]
    positions = iter(range(len(given)))
    indices = [-1 if one is None else next(positions) for one in (*inputs, *outputs)]
    count = len(inputs)
    made = operator(0, code, indices[:count], indices[count:], "Options", fused_activation_function=activation)
    whole = graph(numbered, [made], [i for i in made.inputs if i >= 0], made.outputs)
    return Call(model(whole), whole, made, platform() if build is None else build, assignments(model(whole)))


def prepared(made: Call) -> list[Request]:
    """All that the rule of the operator asks for."""
    rule = OPERATORS[made.operator.code].prepare
    assert rule is not None
    return list(rule(made))


def temporaries(made: Call) -> list[int]:
    """The tensors for which it takes a temporary one; it asks for nothing else."""
    requests = prepared(made)
    assert all(request.kind == "temporary tensor" for request in requests)
    return [request.tensor for request in requests]
