"""What may be asked of a memory plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from edgetool.memory.effort import Effort
from edgetool.memory.layout.solve import LayoutStrategy
from edgetool.memory.sharing.types import Algorithm

# "best" honours a plan in the file and makes one where there is none; "as in file" takes the file as it is; "anew"
# ignores a plan in the file, unless compiled operators rely on it.
Wanted = Literal["best", "as in file", "anew"]
OrderStrategy = Literal["original", "breadth-first", "longest-path", "optimal"]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How a plan of ours is made: which order of operators, which layout, and how long the searches may take.

    sharing: instead of a layout, whole buffers shared by tensors, one after another. constants_in_ram: constants are
    buffers too, alive while an operator uses them, as where firmware loads them from slow memory. order_effort: of the
    search for orders, which comes first and must leave time for their layouts; `effort` where it is None.
    """

    order: OrderStrategy = "optimal"
    strategy: LayoutStrategy = "optimal"
    sharing: Algorithm | None = None
    constants_in_ram: bool = False
    effort: Effort = field(default_factory=Effort)
    order_effort: Effort | None = None
