"""What a user asks of a plan of ours."""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.errors import UsageError
from edgetool.memory.layout.solve import Strategy
from edgetool.memory.plan_options import OrderStrategy, PlanOptions
from edgetool.memory.sharing.types import Algorithm
from edgetool.model.metadata import has_plan
from edgetool.model.types import Model
from edgetool.pipeline.effort import Watch

DEFAULT_SECONDS = 10.0
# The part of the time limit after which an order is taken as it is, and its layout begins.
ORDER_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Order, layout and limits of the search; None where nothing was asked for, which is the best there is.

    time_limit: seconds for each plan.
    """

    order: OrderStrategy | None = None
    strategy: Strategy | None = None
    sharing: Algorithm | None = None
    constants_in_ram: bool = False
    time_limit: float = DEFAULT_SECONDS
    seed: int = 0

    def options(self, watch: Watch) -> PlanOptions:
        """For the planner, with the limits of a search."""
        return PlanOptions(
            order=self.order or "optimal",
            strategy=self.strategy or "optimal",
            sharing=self.sharing,
            constants_in_ram=self.constants_in_ram,
            effort=watch.effort,
            order_effort=watch.part(ORDER_SHARE),
        )

    def told(self) -> dict[str, object]:
        """For the document's options."""
        return {
            "order": self.order or "optimal",
            "strategy": self.strategy or "optimal",
            "sharing": self.sharing,
            "constants_in_ram": self.constants_in_ram,
            "plan_time_limit": self.time_limit,
            "plan_seed": self.seed,
        }

    def check_applies(self, model: Model, *, replan: bool) -> None:
        """UsageError when the file's own plan is to be used, and something was asked of a plan of ours."""
        wishes = {
            "--order": self.order,
            "--strategy": self.strategy,
            "--sharing": self.sharing,
            "--constants-in-ram": self.constants_in_ram,
        }
        given = [name for name, value in wishes.items() if value]
        if given and has_plan(model) and not replan:
            raise UsageError(
                f"the file's memory plan is used unchanged: {', '.join(given)} cannot be applied",
                fix="add --replan to create a new plan, or remove these options (also from the settings file)",
            )
        if self.sharing is not None and (self.strategy is not None or self.constants_in_ram):
            raise UsageError("--sharing replaces the layout: --strategy and --constants-in-ram cannot be applied")
