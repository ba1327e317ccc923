"""Rules made of a list: the tensors that a kernel looks at, and the conditions that it sets on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from edgetool.model.types import DType, Tensor
from edgetool.operators.kernel import Call, KernelRefusal, PrepareRule, Request
from edgetool.operators.prepare.quantization import zero_point

# Raises KernelRefusal when the kernel would not take the operator.
Condition = Callable[[Call], None]


def looks_at(inputs: Iterable[int], outputs: Iterable[int], *conditions: Condition) -> PrepareRule:
    """The rule of a kernel that asks for the TfLiteTensors at these positions and checks them, and for nothing else."""

    def rule(call: Call) -> Iterator[Request]:
        for position in inputs:
            call.required_input(position)
            yield from call.temporary_inputs(position)
        for position in outputs:
            call.required_output(position)
            yield from call.temporary_outputs(position)
        for condition in conditions:
            condition(call)

    return rule


def counts(inputs: int, outputs: int = 1) -> Condition:
    """The operator has exactly so many inputs and outputs; those left out count."""

    def condition(call: Call) -> None:
        found = (len(call.operator.inputs), len(call.operator.outputs))
        if found != (inputs, outputs):
            raise KernelRefusal(
                f"{call.operator.label} requires {inputs} inputs and {outputs} outputs, not {found[0]} and {found[1]}"
            )

    return condition


def inputs_alike(call: Call) -> None:
    """The first two inputs are of one type."""
    _alike(call, call.required_input(0), call.required_input(1))


def output_alike(call: Call) -> None:
    """The output is of the first input's type."""
    _alike(call, call.required_input(0), call.required_output())


def same_shape(call: Call) -> None:
    """The output has the input's shape."""
    source, result = call.required_input(0), call.required_output()
    if source.shape != result.shape:
        raise KernelRefusal(
            f"{call.operator.label} cannot produce an output of shape {result.shape} from {source.shape}"
        )


def symmetric_int16(inputs: int) -> Condition:
    """When the first input is int16, so many inputs and the output have zero points of 0."""

    def condition(call: Call) -> None:
        tensors = [*(call.required_input(position) for position in range(inputs)), call.required_output()]
        for tensor in tensors if tensors[0].dtype == DType.INT16 else ():
            if zero_point(tensor) != 0:
                raise KernelRefusal(
                    f"{call.operator.label} supports int16 only with zero points of 0, not {zero_point(tensor)}"
                )

    return condition


def _alike(call: Call, first: Tensor, second: Tensor) -> None:
    if first.dtype != second.dtype:
        raise KernelRefusal(f"{call.operator.label} does not support {_type(first)} together with {_type(second)}")


def _type(tensor: Tensor) -> str:
    return tensor.dtype.name.lower()
