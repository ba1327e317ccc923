"""The search for the operator order with the lowest memory peak."""
