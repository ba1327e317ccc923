"""What a kernel repeats while it runs one operator: the loops whose executed instructions are counted."""
