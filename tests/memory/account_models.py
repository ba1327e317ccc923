"""Models of our own that together hold every operator whose kernel the account knows, by name."""

from __future__ import annotations

from collections.abc import Callable

from edgetool.model.types import Model
from tests.memory import account_convolutions, account_custom, account_elements, account_shapes, account_structures

MODELS: dict[str, Callable[[], Model]] = {
    **account_convolutions.MODELS,
    **account_custom.MODELS,
    **account_elements.MODELS,
    **account_shapes.MODELS,
    **account_structures.MODELS,
}
