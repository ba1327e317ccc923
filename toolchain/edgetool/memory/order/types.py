"""The words of operator order, as values."""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.memory.problem import Proof


@dataclass(frozen=True, slots=True)
class OrderProblem:
    """Operators to order, by index in their original order, and the tensors between them, by index.

    sizes: bytes of each tensor. reads and writes: the tensors of each operator; an operator runs after those that
    write what it reads. after: what else must have run before each operator (state), by operator. scratch: bytes that
    an operator needs besides its tensors while it runs. inputs are alive from before the first operator, until their
    last reader (an input that nobody reads: not at any operator). outputs are alive from their writer to the end.
    Tensors that are read and never written, and are no inputs, are alive from before the first operator.
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
    """An order of the operators, and the most bytes alive at once in it.

    lower_bound is what no order can beat; proof says how optimality was established.
    """

    order: tuple[int, ...]
    peak_bytes: int
    lower_bound: int
    proof: Proof

    @property
    def optimal(self) -> bool:
        """Whether no order has a lower peak."""
        return self.proof != "none"
