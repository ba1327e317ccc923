"""The JSON documents of all commands, as types, and their text."""
