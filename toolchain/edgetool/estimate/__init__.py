"""What an inference costs in time and traffic."""
