"""What is left of an effort: nodes, counted down by every stage, and the question whether to stop."""

from __future__ import annotations

from edgetool.memory.effort import Effort


class Budget:
    """The nodes that an effort still allows (None is without limit), and those that were spent."""

    def __init__(self, effort: Effort) -> None:
        self.left = effort.node_limit
        self.spent = 0
        self.stop = effort.stop

    def spend(self, nodes: int) -> None:
        """Count nodes that were searched."""
        self.spent += nodes
        if self.left is not None:
            self.left -= nodes

    def allowed(self, nodes: int) -> int:
        """As many of these nodes as are left."""
        return nodes if self.left is None else max(0, min(nodes, self.left))

    @property
    def over(self) -> bool:
        """Whether the search must end, by its limit or because it was told to."""
        return (self.left is not None and self.left <= 0) or self.stop()
