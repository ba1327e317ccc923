"""The judgement of models: limits, budgets, the lock file, and the forms of the result for CI services."""
