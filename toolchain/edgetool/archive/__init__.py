"""Static libraries and object files as immutable Python, and what a linker keeps of them."""
