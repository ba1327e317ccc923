"""Many variants of a model: which fits where, what it costs and what it loses."""
