"""Plans of rows instead of tensors: what each step of a schedule reads and writes, and where each row is."""
