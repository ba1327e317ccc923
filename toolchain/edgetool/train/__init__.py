"""Build, prune and fine-tune Keras models, always in a child process."""
