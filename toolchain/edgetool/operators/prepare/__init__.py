"""What each kernel asks of the arena in Prepare, by family of operators; RULES of each file joins the registry."""
