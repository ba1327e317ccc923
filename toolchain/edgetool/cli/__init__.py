"""The command line: Click parses, the pipeline works, a view prints."""
