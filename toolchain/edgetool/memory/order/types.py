"""The problem of ordering operators and its solution, as values."""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.memory.problem import Proof


@dataclass(frozen=True, slots=True)
class OrderProblem:
    """Operators to order, by index in their original order, and the tensors between them, by index.

    sizes: bytes of each tensor. reads and writes: the tensors of each operator; an operator runs after those that write
    its inputs. after: other operators that must run before each one (state). scratch: bytes that an operator needs
    besides its tensors while it runs. inputs are live from before the first operator to their last reader (an input
    without a reader: at no operator). outputs are live from their writer to the end. Tensors that are read but never
    written, and are not inputs, are live from before the first operator.
    """

    sizes: tuple[int, ...]
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    scratch: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OrderResult:
    """An order of the operators, and its maximum live bytes.

    lower_bound holds for every order; proof is how optimality was established.
    """

    order: tuple[int, ...]
    peak_bytes: int
    lower_bound: int
    proof: Proof

    @property
    def optimal(self) -> bool:
        """Whether no order has a lower peak."""
        return self.proof != "none"
