"""Small files that stand for enormous ones."""

from __future__ import annotations

from tests.attacks.base import INPUT, Attack, changed
from tests.model.attacks import alias_bomb

ATTACKS = {
    # The 96 KB that stand for 144 million tables.
    "alias-bomb": Attack(lambda: alias_bomb(12000, 12000), "overlap", large=True),
    "alias-bomb-of-subgraphs": Attack(lambda: alias_bomb(24000, 1), "overlap", large=True),
    "alias-bomb-of-tensors": Attack(lambda: alias_bomb(1, 24000), "overlap", large=True),
    "alias-bomb-of-8-kb": Attack(lambda: alias_bomb(1000, 1000), "overlap"),
    "alias-bomb-of-1-mb": Attack(lambda: alias_bomb(16, 260_000), "overlap", large=True),
    "alias-bomb-of-4-mb": Attack(lambda: alias_bomb(1, 1_000_000), "more than 1000000 tables", large=True),
    "dimensions-by-the-thousand": changed(INPUT, "shape", (2,) * 5000, "more than"),
}
