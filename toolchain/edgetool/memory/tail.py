"""The tail of the arena: persistent allocations, stacked downwards from its end."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgetool.memory.account_types import ArenaRow, Category
from edgetool.memory.types import aligned

# The names that RecordingMicroAllocator::PrintAllocations uses (recording_micro_allocator.cc), in its order.
EVAL_TENSORS = "TfLiteEvalTensor data"
PERSISTENT_TENSORS = "Persistent TfLiteTensor data"
PERSISTENT_QUANTIZATION = "Persistent TfLiteTensor quantization data"
PERSISTENT_BUFFERS = "Persistent buffer data"
VARIABLES = "TfLiteTensor variable buffer data"
NODES = "NodeAndRegistration struct"
OPERATOR_DATA = "Operator runtime data"
CATEGORIES = (
    EVAL_TENSORS,
    PERSISTENT_TENSORS,
    PERSISTENT_QUANTIZATION,
    PERSISTENT_BUFFERS,
    VARIABLES,
    NODES,
    OPERATOR_DATA,
)


@dataclass(slots=True)
class Tail:
    """A growing tail. `bytes` is its height, counted from the aligned end of the arena."""

    bytes: int = 0
    rows: list[ArenaRow] = field(default_factory=list)

    def take(
        self,
        part: str,
        size_bytes: int,
        alignment: int,
        *,
        subgraph: int | None = None,
        operator: int | None = None,
        category: str | None = None,
        count: int = 1,
    ) -> None:
        """One AllocatePersistentBuffer (single_arena_buffer_allocator.cc): the start is aligned downwards.

        count is what the recording allocator counts for it.
        """
        before = self.bytes
        self.bytes = aligned(before + size_bytes, alignment)
        self.rows.append(ArenaRow("tail", part, self.bytes - before, size_bytes, count, subgraph, operator, category))

    def categories(self) -> dict[str, Category]:
        """The totals by the names that TFLM prints."""
        totals = {name: Category(0, 0, 0) for name in CATEGORIES}
        for row in self.rows:
            if row.category is not None:
                old = totals[row.category]
                totals[row.category] = Category(
                    old.used_bytes + row.bytes, old.requested_bytes + row.requested_bytes, old.count + row.count
                )
        return totals
