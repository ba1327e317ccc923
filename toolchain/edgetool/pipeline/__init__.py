"""The public library: what every command does, without printing."""
