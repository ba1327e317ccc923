"""The JSON document that other programs build on."""
