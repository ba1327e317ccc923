"""Published measurements held against the estimates: how good they are, and on which rows they were fitted."""
