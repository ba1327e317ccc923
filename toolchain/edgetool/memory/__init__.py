"""Memory planning: lifetimes, order, layout, lower bounds, the checker and the account of the arena."""
