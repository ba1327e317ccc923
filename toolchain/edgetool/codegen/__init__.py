"""C files for the firmware, as text in memory."""
