"""The search for the operator order that needs the least memory."""
