"""Makes and changes Keras models: pruning, fine-tuning and builders, always in a child process."""
